"""Legalization for GPUs."""

from __future__ import annotations

from ...ir.program import Module, Program
from ..common.legalization import (
    EXPAND_OPS,
    LOWER_SLICES,
    PRINT_RECORDS,
    RECIPROCALS,
    ROW_MAJOR,
    WORKGROUP_REDUCTIONS,
    Legality,
    Rewrite,
    legalize,
)
from ..common.matrix_fragments import MMA, with_fragments
from ..common.zeroed_tiles import with_zeroed_tiles
from .abi import Unit
from .targets import GpuTarget
from .warpgroups import with_warpgroups

__all__ = ["LEGALIZATION", "legal_unit"]


def _warpgroups(program: Program, module: Module | None, legality: Legality) -> tuple[Program, Module | None]:
    return with_warpgroups(program, legality.bounds), module


def _matrix_fragments(
    program: Program, module: Module | None, legality: Legality
) -> tuple[Program, Module | None]:
    # a clamped index is aligned no more
    return with_fragments(program, MMA, by_rows=legality.bounds != "clamp"), module


def _zero_tiles(program: Program, module: Module | None, legality: Legality) -> tuple[Program, Module | None]:
    return with_zeroed_tiles(program), module


LEGALIZATION = (
    EXPAND_OPS,
    LOWER_SLICES,
    WORKGROUP_REDUCTIONS,
    RECIPROCALS,
    Rewrite("warpgroups", _warpgroups, is_for=lambda legality: legality.has_warpgroups),
    ROW_MAJOR,
    Rewrite("matrix_fragments", _matrix_fragments),
    PRINT_RECORDS,
    Rewrite("zero_tiles", _zero_tiles, is_for=lambda legality: legality.zero_memory),
)


def legal_unit(unit: Unit, target: GpuTarget, bounds: str, zero_memory: bool = False) -> Unit:
    """The unit as it is lowered for a GPU."""
    legality = Legality("cuda", bounds, target.has_warpgroups, zero_memory)
    program, module = legalize(LEGALIZATION, unit.program, unit.module, legality)
    return Unit(program, module, unit.specs)
