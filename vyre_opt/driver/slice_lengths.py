"""Programs with slices, lowered for rows as long as those of a call.

How many invocations hold a row, and whether they do, depends on its length.  So the passes of such a program run when it is called
with other lengths, until there have been MOST_LENGTHS; then they run once more, for rows of any length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from ..ir.diagnostics import DiagnosticError
from ..ir.program import Dim3, Module, Program, Shape
from ..kernels.targets import MULTIPROCESSORS, widest_cluster
from ..rewriting.cloning import copy_for
from ..slices.schedule import has_slices, slice_schedule, with_open_extents

if TYPE_CHECKING:
    from ..passes.manager import PassManager

__all__ = ["MOST_LENGTHS", "SliceLengths"]

MOST_LENGTHS = 16
"""Lengths of rows that a program is lowered for."""


class SliceLengths:
    """`manager`: the passes of the programs of a module; None for lower_slices alone."""

    def __init__(self, module: Module, manager: PassManager | None) -> None:
        self._module, self._manager = module, manager
        self._has_slices = cache(has_slices)
        self._lowered: dict[Program, dict[object, Program | None]] = {}

    def of(self, program: Program, shapes: Mapping[str, Shape], grid: Dim3, target: str) -> Program | None:
        """A program of the module for a launch over a grid, whose buffers have such shapes; None for one without slices.

        It has a grid of its own where several workgroups share a row.  `target`: what schedules are for.
        """
        if not self._has_slices(program):
            return None
        lowered, fixed = self._lowered.setdefault(program, {}), with_open_extents(program, shapes)
        shared = self._shared(program, shapes, grid, target) if fixed and widest_cluster(target) > 1 else None
        if shared is not None:
            return shared
        if tuple(fixed.items()) not in lowered and len(lowered) >= MOST_LENGTHS:
            fixed = {}
        key: object = tuple(fixed.items())
        if key not in lowered:
            lowered[key] = self._lower(program, _with_shapes(program, fixed), target)
        return lowered[key]

    def _shared(
        self, program: Program, shapes: Mapping[str, Shape], grid: Dim3, target: str
    ) -> Program | None:
        """The program for rows that several workgroups share, if that is best.

        A fault would leave the others of a cluster waiting, so there must be none: all extents and the grid are known.
        """
        of_launch = replace(_with_shapes(program, shapes), grid=grid)
        if slice_schedule(of_launch, MULTIPROCESSORS).workgroups == 1:
            return None
        lowered = self._lowered[program]
        key = grid, tuple(shapes.items())
        if key not in lowered and len(lowered) < MOST_LENGTHS:
            made = self._lower(program, of_launch, target)
            lowered[key] = made if _is_taken(made, target) else None
        return lowered.get(key)

    def _lower(self, program: Program, of_lengths: Program, target: str) -> Program:
        from ..passes.manager import PassManager

        copy = copy_for(self._module, program)
        item = copy.programs[program.name]
        item.buffers, item.grid = of_lengths.buffers, of_lengths.grid
        (self._manager or PassManager("lower_slices,vectorize_access", target=target)).run(copy)
        return copy.programs[program.name]


def _with_shapes(program: Program, shapes: Mapping[str, Shape]) -> Program:
    buffers = {
        name: replace(buffer, shape=shapes.get(name, buffer.shape))
        for name, buffer in program.buffers.items()
    }
    return replace(program, buffers=buffers)


def _is_taken(program: Program, target: str) -> bool:
    """Whether a GPU takes a program with clusters, in which nothing may fault."""
    from ..lowering.nvptx.abi import Unit
    from ..lowering.nvptx.kernel import lower
    from ..lowering.nvptx.targets import gpu

    try:
        lower([Unit(program, None, program.spec_defaults)], gpu(target), "trap")
    except DiagnosticError:
        return False
    return True
