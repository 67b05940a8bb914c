"""Automata as programs walk them, and launches of these programs."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from vyre_opt.execution.observed_run import observed_launch
from vyre_opt.execution.target import Target
from vyre_opt.ir.program import Program
from vyre_opt.observers import OBSERVERS
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

from ..patterns.automaton import Automaton

__all__ = ["AutomatonCells", "launch", "unpacked"]

Array = np.ndarray[Any, Any]


class AutomatonCells:
    """`columns`, `cells`: @columns and @transitions of pattern_walk, where a state is the cell at which its row begins."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton, self.classes = automaton, automaton.num_classes
        self.columns = automaton.classes.astype(np.uint32)
        self.cells = np.asarray(automaton.transitions * np.uint32(self.classes)).reshape(-1)
        self.params = self.classes, automaton.first_accepting * self.classes
        """`classes` and `first_accepting`, which come first among the params of a walk."""

    @cached_property
    def first_shown(self) -> Array:
        """First pattern that each accepting state shows."""
        return self.automaton.accept_patterns[self.automaton.accept_offsets[:-1]]

    def shown(self, places: Array, numbers: Array) -> tuple[Array, Array, Array]:
        """Matches that hits show, given as `unpacked` does: the index of its hit, the place behind that, i64, and the
        pattern, for each match."""
        index, patterns = self.automaton.accepted(numbers + self.automaton.first_accepting)
        return index, places[index] + 1, patterns


def unpacked(packed: Array) -> tuple[Array, Array]:
    """The places, i64, and the numbers of accepting states, i64, of hits as pattern_walk writes them."""
    return (packed >> np.uint64(32)).astype(np.int64), (packed & np.uint64(0xFFFFFFFF)).astype(np.int64)


def launch(
    dispatcher: Target,
    program: Program,
    arrays: list[Array],
    groups: int,
    params: tuple[int, ...] = (),
    is_bounded: bool = False,
) -> None:
    """Run a program on an array for each buffer.  `params`: in the order of their names.  `is_bounded`: see `prepared`."""
    grid = groups, 1, 1
    if not isinstance(dispatcher, CpuDispatcher):  # which works in place
        named = dict(zip(sorted(program.params), params, strict=True))
        outputs = iter(dispatcher.dispatch(program, arrays, grid, params=named))
        for buffer, array in zip(program.bound_buffers, arrays, strict=True):
            if buffer.is_output:
                array[...] = next(outputs)
        return
    prepared = dispatcher.prepared(program, is_unchanged=True, is_bounded=is_bounded)
    if not OBSERVERS:
        prepared.in_place(arrays, grid, None, params)
        return
    prepared.prepare(grid)  # compiles, which is no part of the launch
    with observed_launch(program, arrays, grid, params, dispatcher):
        prepared.in_place(arrays, grid, None, params)
