"""LLVM IR -> optimised LLVM IR -> PTX, by llvmlite.

Only text that the lowering wrote, with names it made itself, may get here: on some errors LLVM's
back ends abort the process instead of raising an exception.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ...records import dataclass
from ..common.llvm_passes import run_passes
from ..common.llvm_worker import on_llvm
from .low_bits import with_low_bits_taken
from .targets import GpuTarget, PtxVersion, TargetError, ptx_version, show

if TYPE_CHECKING:
    import llvmlite.binding as llvm

    from .kernel import LoweredModule

__all__ = ["BackendFailure", "emit_ptx", "optimised"]

_VERSION = re.compile(r"^\.version (\d+)\.(\d+)$", re.MULTILINE)
_CALL_NUMBERS = re.compile(r" // callseq \d+(, \d+)?$", re.MULTILINE)


class BackendFailure(Exception):
    """LLVM rejected what the lowering wrote: a bug of the compiler, not of the program."""


@on_llvm
def optimised(
    lowered: LoweredModule, target: GpuTarget, ptx: PtxVersion | None = None, level: int = 2
) -> str:
    """The LLVM IR after the passes of an optimisation level, 0 to 3."""
    version, opt = ptx_version(target, ptx), _opt_level(lowered, level)
    return str(_optimise(lowered, _machine(target.name, version, opt.codegen_level), opt))


def emit_ptx(lowered: LoweredModule, target: GpuTarget, ptx: PtxVersion | None = None, level: int = 2) -> str:
    """PTX of version `ptx`, or of the lowest version that `target` takes.

    Raises TargetError for a version that `target` does not take, or that this LLVM cannot write.
    """
    version, opt = ptx_version(target, ptx), _opt_level(lowered, level)
    text = _emit(lowered, target, version, opt)
    match = _VERSION.search(text)
    written = (int(match[1]), int(match[2])) if match else None
    if written != version:  # LLVM silently writes its default version for one that it does not know
        raise TargetError(f"this LLVM cannot write PTX {show(version)}; ask for an older version")
    if not text.endswith("\n"):  # behind the names of files, with line tables
        text += "\n"
    # LLVM numbers the calls of a process, so that the same program would have another text each time
    return with_low_bits_taken(_CALL_NUMBERS.sub("", text))


@dataclass(frozen=True, slots=True)
class _OptLevel:
    """The passes to run, None for LLVM's own pipeline, and the level at which code is generated."""

    passes: str | None
    codegen_level: int


# Levels 1 and 2 take a quarter of the time of LLVM's own pipeline and give the same machine code: code
# generation removes common subexpressions, and the driver's compiler (ptxas) does invariant code motion
# and strength reduction.
_OPT_LEVELS = {
    0: _OptLevel("", 0),
    1: _OptLevel("always_inliner sccp instruction_combine simplify_cfg aggressive_dce", 1),
    2: _OptLevel("always_inliner sccp simplify_cfg instruction_combine simplify_cfg aggressive_dce", 2),
    3: _OptLevel(None, 3),
}

# Without nested loops ptxas does as well on nearly unoptimised code, which takes LLVM half the time or
# less; it even unrolls loops that it no longer recognises after LLVM's strength reduction.
# (scan.dfa is 7 to 37 % faster on an H100, and none of the kernels is slower by more than 3 %.)
_FLAT_CODE = _OptLevel("simplify_cfg", 0)

# Without any loop code generation puts constants into addresses, where ptxas keeps each address in registers of its own:
# softmax of 10,000 x 9,999 takes 243 us on an H200, and 566 without.
_STRAIGHT_CODE = _OptLevel("simplify_cfg", 2)


def _opt_level(lowered: LoweredModule, level: int) -> _OptLevel:
    opt = _OPT_LEVELS[level]
    if level in (1, 2) and lowered.is_flat:
        opt = _STRAIGHT_CODE if lowered.is_straight else _FLAT_CODE
    return replace(opt, codegen_level=0) if lowered.combines_slowly else opt


@on_llvm
def _emit(lowered: LoweredModule, target: GpuTarget, version: PtxVersion, opt: _OptLevel) -> str:
    machine = _machine(target.name, version, opt.codegen_level)
    return str(machine.emit_assembly(_optimise(lowered, machine, opt)))


def _optimise(lowered: LoweredModule, machine: Any, opt: _OptLevel) -> llvm.ModuleRef:
    import llvmlite.binding as llvm

    try:
        module = llvm.parse_assembly(lowered.text)
        module.verify()
    except RuntimeError as error:
        raise BackendFailure(f"LLVM does not take the lowered program: {error}") from None
    if opt.passes != "":
        _run_passes(module, machine, opt)
    return module


def _run_passes(module: llvm.ModuleRef, machine: Any, opt: _OptLevel) -> None:
    """LLVM's own pipeline runs without loop unrolling and vectorization, which make code grow."""
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=3)  # of LLVM's own pipeline
    options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = False
    run_passes(module, machine, options, None if opt.passes is None else opt.passes.split())


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
    # shared memory has 32-bit addresses (see kernel.LAYOUT), so that ptxas can fold offsets into the instructions
    llvm.set_option("vyre-opt", "--nvptx-short-ptr")
    llvm.initialize_all_asmprinters()
