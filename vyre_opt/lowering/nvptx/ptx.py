"""LLVM IR -> optimised LLVM IR -> PTX, by llvmlite.

Only text that the lowering wrote gets here, with names of its own making: some faults of
LLVM's back ends end the process instead of raising anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from .targets import GpuTarget, PtxVersion, TargetError, ptx_version, show

if TYPE_CHECKING:
    import llvmlite.binding as llvm

    from .kernel import LoweredModule

__all__ = ["BackendFailure", "emit_ptx", "optimised"]

_VERSION = re.compile(r"^\.version (\d+)\.(\d+)$", re.MULTILINE)


class BackendFailure(Exception):
    """LLVM refused what the lowering wrote: a bug of the compiler, not of the program."""


def optimised(
    lowered: LoweredModule, target: GpuTarget, ptx: PtxVersion | None = None, level: int = 2
) -> str:
    """The LLVM IR after the passes of an optimisation level, 0 to 3."""
    way = _way(lowered, level)
    return str(_optimise(lowered, _machine(target.name, ptx_version(target, ptx), way.level), way))


def emit_ptx(lowered: LoweredModule, target: GpuTarget, ptx: PtxVersion | None = None, level: int = 2) -> str:
    """PTX of the wanted version, or of the lowest that `target` takes.

    Raises TargetError for versions that do not go together, or that this LLVM cannot write.
    """
    version, way = ptx_version(target, ptx), _way(lowered, level)
    machine = _machine(target.name, version, way.level)
    made: str = machine.emit_assembly(_optimise(lowered, machine, way))
    found = _VERSION.search(made)
    written = (int(found[1]), int(found[2])) if found else None
    if written != version:
        raise TargetError(f"this LLVM cannot write PTX {show(version)}; ask for an older version")
    return made


@dataclass(frozen=True, slots=True)
class _Way:
    """The passes to run, None for LLVM's own pipeline, and the level at which code is generated."""

    passes: str | None
    level: int


# A quarter of the time of LLVM's own pipeline, for the same machine code: common subexpressions go
# when code is generated, and what is left of invariants and strength, the driver's compiler sees to.
_WAYS = {
    0: _Way("", 0),
    1: _Way("always_inliner sccp instruction_combine simplify_cfg aggressive_dce", 1),
    2: _Way("always_inliner sccp simplify_cfg instruction_combine simplify_cfg aggressive_dce", 2),
    3: _Way(None, 3),
}

# Where no loop lies in another, the driver's compiler does as well with this, which takes LLVM half the
# time or less; it even unrolls loops that it does not know again after LLVM's strength reduction.
# (scan.dfa is 7 to 37 % faster on an H100, and none of the kernels is slower by more than 3 %.)
_FLAT = _Way("simplify_cfg", 0)


def _way(lowered: LoweredModule, level: int) -> _Way:
    return _FLAT if lowered.is_flat and level in (1, 2) else _WAYS[level]


def _optimise(lowered: LoweredModule, machine: Any, way: _Way) -> llvm.ModuleRef:
    import llvmlite.binding as llvm

    try:
        module = llvm.parse_assembly(lowered.text)
        module.verify()
    except RuntimeError as refused:
        raise BackendFailure(f"LLVM does not take the lowered program: {refused}") from None
    if way.passes != "":
        _run_passes(module, machine, way)
    return module


def _run_passes(module: llvm.ModuleRef, machine: Any, way: _Way) -> None:
    """LLVM's own pipeline is taken less what makes code grow."""
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=way.level)
    options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    if way.passes is None:
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        for name in way.passes.split():
            getattr(passes, f"add_{name}_pass")()
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
