"""LLVM IR -> optimised LLVM IR -> PTX, by llvmlite.

Only text that the lowering wrote gets here, with names of its own making: some faults of
LLVM's back ends end the process instead of raising anything.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from .targets import GpuTarget, PtxVersion, TargetError, ptx_version, show

if TYPE_CHECKING:
    import llvmlite.binding as llvm

__all__ = ["BackendFailure", "emit_ptx", "optimised"]

_VERSION = re.compile(r"^\.version (\d+)\.(\d+)$", re.MULTILINE)


class BackendFailure(Exception):
    """LLVM refused what the lowering wrote: a bug of the compiler, not of the program."""


def optimised(text: str, target: GpuTarget, ptx: PtxVersion | None = None, level: int = 2) -> str:
    """The LLVM IR after the passes of an optimisation level, 0 to 3."""
    return str(_optimise(text, target, ptx_version(target, ptx), level))


def emit_ptx(text: str, target: GpuTarget, ptx: PtxVersion | None = None, level: int = 2) -> str:
    """PTX of the wanted version, or of the lowest that `target` takes.

    Raises TargetError for versions that do not go together, or that this LLVM cannot write.
    """
    version = ptx_version(target, ptx)
    machine = _machine(target.name, version, level)
    made: str = machine.emit_assembly(_optimise(text, target, version, level))
    found = _VERSION.search(made)
    written = (int(found[1]), int(found[2])) if found else None
    if written != version:
        raise TargetError(f"this LLVM cannot write PTX {show(version)}; ask for an older version")
    return made


def _optimise(text: str, target: GpuTarget, version: PtxVersion, level: int) -> llvm.ModuleRef:
    import llvmlite.binding as llvm

    machine = _machine(target.name, version, level)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as refused:
        raise BackendFailure(f"LLVM does not take the lowered program: {refused}") from None
    if level:
        _run_passes(module, machine, level)
    return module


# A quarter of the time of LLVM's own pipeline, for the same machine code: common subexpressions go
# when code is generated, and what is left of invariants and strength, the driver's compiler sees to.
_PASSES = {
    1: "always_inliner sccp instruction_combine simplify_cfg aggressive_dce",
    2: "always_inliner sccp simplify_cfg instruction_combine simplify_cfg aggressive_dce",
}


def _run_passes(module: llvm.ModuleRef, machine: Any, level: int) -> None:
    """Level 3 is LLVM's pipeline, less what makes code grow."""
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    if level in _PASSES:
        passes = llvm.create_new_module_pass_manager()
        for name in _PASSES[level].split():
            getattr(passes, f"add_{name}_pass")()
    else:
        passes = builder.getModulePassManager()
    passes.run(module, builder)


@cache
def _machine(name: str, version: PtxVersion, level: int) -> Any:
    """A target machine; making one takes longer than compiling a small kernel."""
    import llvmlite.binding as llvm

    _initialise()
    gpu = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    features = f"+ptx{version[0]}{version[1]}"
    return gpu.create_target_machine(cpu=name, features=features, opt=level)


@cache
def _initialise() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
