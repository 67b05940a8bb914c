"""Whether arrays on the GPU fit a program, before any is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.program import AccessMode, Module, Program
from ..runtime.arrays import storage_type
from ..runtime.dispatcher import BadInputs, OutputAlloc
from ..runtime.inputs import Checked, check_call, is_count
from .device_arrays import View, is_on_gpu

__all__ = ["are_on_gpu", "check_overlaps", "check_shapes"]


def are_on_gpu(program: Program, inputs: Sequence[Any]) -> bool:
    """Raises BadInputs where some are and some are not."""
    if not isinstance(inputs, (list, tuple)) or not inputs:
        return False
    here = [None if isinstance(given, OutputAlloc) else is_on_gpu(given) for given in inputs]
    if True in here and False in here:
        odd = here.index(False)
        raise BadInputs(
            f"program @{program.name}: input {odd} is not on the GPU, others are; pass all of them on one side"
        )
    return True in here


def check_shapes(
    program: Program,
    inputs: Sequence[Any],
    grid: int | Sequence[int] | None,
    module: Module | None,
    specs: Mapping[str, Any] | None,
) -> Checked:
    """`check_call` for arrays on the GPU: it sees empty arrays for those of open size, and none is read.

    What it cannot see so, `take` checks: types, sizes and layout.
    """
    bound = program.bound_buffers
    if len(inputs) != len(bound):
        return check_call(program, list(inputs), grid, module, specs)  # says so
    stand_ins: list[Any] = []
    for buffer, given in zip(bound, inputs, strict=True):
        if isinstance(given, OutputAlloc):
            stand_ins.append(OutputAlloc(0) if buffer.count is None and is_count(given.count) else given)
            continue
        stored = storage_type(buffer.dtype)
        scalars = (buffer.count or 0) * buffer.dtype.lanes
        stand_ins.append(np.empty(scalars, stored) if stored is not None else np.empty(0))
    return check_call(program, stand_ins, grid, module, specs)


def check_overlaps(program: Program, views: Mapping[str, View]) -> None:
    """Two buffers never share memory: code counts on it where one of them is written."""
    spans = [
        (b, views[b.name].pointer, views[b.name].pointer + views[b.name].size) for b in program.bound_buffers
    ]
    for number, (first, start, end) in enumerate(spans):
        for second, other_start, other_end in spans[:number]:
            written = first.access is not AccessMode.READ or second.access is not AccessMode.READ
            if written and start < other_end and other_start < end:
                raise BadInputs(
                    f"program @{program.name}: the arrays for @{second.name} and @{first.name} overlap, "
                    "and one of them is written"
                )
