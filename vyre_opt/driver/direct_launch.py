"""Launches of programs on arrays of NumPy that are at hand, without a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..execution.observed_run import observed_launch
from ..execution.target import Target
from ..ir.program import Program
from ..observers import OBSERVERS
from ..targets.cpu.dispatcher import CpuDispatcher

__all__ = ["launch"]

Array = np.ndarray[Any, Any]
NONE: Mapping[str, int] = {}


def launch(
    dispatcher: Target, program: Program, arrays: list[Array], groups: int, params: Mapping[str, int] = NONE
) -> None:
    """Run a program, whose workgroups have a piece each, on an array for each buffer."""
    grid = groups, 1, 1
    if not isinstance(dispatcher, CpuDispatcher):  # which works in place
        outputs = iter(dispatcher.dispatch(program, arrays, grid, params=dict(params)))
        for buffer, array in zip(program.bound_buffers, arrays, strict=True):
            if buffer.is_output:
                array[...] = next(outputs)
        return
    values = tuple(params[name] for name in sorted(params))
    prepared = dispatcher.prepared(program, is_unchanged=True, is_bounded=True)
    if not OBSERVERS:
        prepared.in_place(arrays, grid, None, values)
        return
    prepared.prepare(grid)  # compiles, which is no part of the launch
    with observed_launch(program, arrays, grid, values, dispatcher):
        prepared.in_place(arrays, grid, None, values)
