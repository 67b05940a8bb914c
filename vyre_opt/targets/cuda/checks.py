"""Checks that arrays on the GPU fit a program, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...execution.dispatcher import BadInputs, OutputAlloc
from ...ir.program import AccessMode, Program
from .device_arrays import View, is_on_gpu

__all__ = ["are_on_gpu", "check_overlaps"]


def are_on_gpu(program: Program, inputs: Sequence[Any]) -> bool:
    """Whether the inputs are on the GPU.  Raises BadInputs if only some are."""
    if not isinstance(inputs, (list, tuple)) or not inputs:
        return False
    on_gpu = [None if isinstance(value, OutputAlloc) else is_on_gpu(value) for value in inputs]
    if True in on_gpu and False in on_gpu:
        odd = on_gpu.index(False)
        raise BadInputs(
            f"program @{program.name}: input {odd} is not on the GPU, others are; pass all of them on one side"
        )
    return True in on_gpu


def check_overlaps(program: Program, views: Mapping[str, View]) -> None:
    """Raises BadInputs if two buffers share memory and one of them is written: kernels rely on noalias."""
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
