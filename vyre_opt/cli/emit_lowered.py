"""`--emit=llvm|ptx|asm`: a module's programs as a target's code.

llvm   the LLVM IR that the lowering writes, before LLVM's own passes
ptx    for a GPU
asm    the target's assembly: PTX for a GPU, this machine's for the cpu
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.pipeline import Fill, KernelStage
from ..ir.program import Module
from ..lowering.common.spec_values import check_specs, spec_values
from ..lowering.nvptx.targets import GPUS, TargetError, ptx_version
from .errors import ToolError

if TYPE_CHECKING:
    from ..passes.manager import Remark
    from .compile_options import CompileOptions

__all__ = ["DEFAULT_GPU", "check_lowered", "lowered", "target_of"]

DEFAULT_GPU = "sm_80"


def check_lowered(emit_format: str, target: str | None, version: tuple[int, int] | None) -> None:
    """Raises TargetError for a format that the target does not have, or a PTX version that it does not support."""
    name = target_of(emit_format, target)
    if name == "ref":
        raise TargetError(
            f"--emit={emit_format}: ref is the interpreter, which compiles nothing; choose another --target"
        )
    if name in GPUS:
        ptx_version(GPUS[name], version)
    elif emit_format == "ptx":
        raise TargetError(f"--emit=ptx: {name} is no GPU; choose one, such as --target={DEFAULT_GPU}")
    elif version is not None:
        raise TargetError(f"--ptx-version is for a GPU, not for {name}")


def target_of(emit_format: str, target: str | None) -> str:
    """The target that a format is of."""
    return target or (DEFAULT_GPU if emit_format == "ptx" else "cpu")


def lowered(module: Module, options: CompileOptions, legalize: Callable[[], Sequence[Remark]]) -> str:
    """The text of all programs of a module, and of those that named kernels become.  `legalize`: runs the passes of the target on
    the module.

    Raises DiagnosticError or ToolError for a program or a stage that cannot be lowered.
    """
    target = target_of(options.emit, options.target)
    check_specs(module.programs.values(), {})  # of all programs at once
    remarks = legalize()
    _check_stages(module, remarks)
    if not module.programs:
        raise ToolError("there is no program here to compile")
    try:
        return _for_gpu(module, options, target) if target in GPUS else _for_cpu(module, options)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "llvmlite":
            raise
        raise ToolError(f"--emit={options.emit} needs the package llvmlite") from None


def _check_stages(module: Module, remarks: Sequence[Remark]) -> None:
    """Raises DiagnosticError for the first stage that is not the launch of a program: its code would be missing."""
    for stage in (stage for pipeline in module.pipelines.values() for stage in pipeline.walk()):
        if isinstance(stage, KernelStage | Fill):
            why = next((r.message for r in remarks if r.kind == "refused" and r.loc == stage.loc), None)
            what = "the fill" if isinstance(stage, Fill) else stage.kernel
            raise DiagnosticError([Diagnostic("error", why or f"{what} has no program", stage.loc)])


def _for_gpu(module: Module, options: CompileOptions, target: str) -> str:
    from ..lowering.nvptx.abi import Unit
    from ..lowering.nvptx.kernel import lower

    gpu = GPUS[target]
    units = [Unit(program, module) for program in module.programs.values()]
    lowered = lower(units, gpu, options.bounds, options.debug_info)
    if options.emit == "llvm":
        return lowered.text
    from ..lowering.nvptx.ptx import emit_ptx

    try:
        return emit_ptx(lowered, gpu, options.ptx_version)
    except TargetError as error:
        raise ToolError(str(error)) from None


# --- this machine


def _for_cpu(module: Module, options: CompileOptions) -> str:
    from ..execution.dispatcher import BackendError, ProgramError
    from ..targets.cpu.host import Host
    from ..targets.cpu.host_code import host_code
    from ..targets.cpu.jit import assembly

    host = Host.this(debug_info=options.debug_info)
    parts = []
    for program in module.programs.values():
        try:
            text = host_code(program, spec_values(program, {}), host).text
        except ProgramError as error:
            raise DiagnosticError([error.diagnostic]) from None
        except BackendError as error:
            raise ToolError(str(error)) from None
        parts.append(text if options.emit == "llvm" else assembly(text, host))
    comment = ";" if options.emit == "llvm" else "#"
    heads = (f"{comment} program @{name}\n" for name in module.programs)
    return "\n".join(head + part for head, part in zip(heads, parts, strict=True))
