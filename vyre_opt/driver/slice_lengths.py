"""Programs with slices, lowered for rows as long as those of a call.

How many invocations hold a row, and whether they do, depends on its length.  So the passes of such a program run when it is called
with other lengths, until there have been MOST_LENGTHS; then they run once more, for rows of any length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from ..ir.program import Module, Program, Shape
from ..rewriting.cloning import copy_for
from ..slices.schedule import has_slices, with_open_extents

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
        self._lowered: dict[Program, dict[object, Program]] = {}

    def of(self, program: Program, shapes: Mapping[str, Shape]) -> Program | None:
        """A program of the module for a call whose buffers have such shapes; None for one without slices."""
        if not self._has_slices(program):
            return None
        lowered = self._lowered.setdefault(program, {})
        fixed = with_open_extents(program, shapes) if len(lowered) < MOST_LENGTHS else {}
        key = tuple(fixed.items())
        if key not in lowered:
            lowered[key] = self._of_lengths(program, fixed)
        return lowered[key]

    def _of_lengths(self, program: Program, fixed: Mapping[str, Shape]) -> Program:
        from ..passes.manager import PassManager

        copy = copy_for(self._module, program)
        of_lengths = copy.programs[program.name]
        of_lengths.buffers = {
            name: replace(buffer, shape=fixed.get(name, buffer.shape))
            for name, buffer in of_lengths.buffers.items()
        }
        (self._manager or PassManager("lower_slices,vectorize_access")).run(copy)
        return copy.programs[program.name]
