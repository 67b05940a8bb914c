"""Copies in main memory by all threads of the CPU target: one thread of a server copies a quarter of what its bus takes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...execution.dispatcher import shared_dispatcher
from ...ir.builder import Builder
from ...ir.program import Program
from ...ir.types import DataType

if TYPE_CHECKING:
    from ..cpu.dispatcher import CpuDispatcher

__all__ = ["copy_bytes"]

Array = np.ndarray[Any, Any]

VECTOR, RUN = 64, 1 << 16
"""Bytes that are copied at once, and by a workgroup."""


def copy_bytes(source: Array, target: Array) -> None:
    """Copy u8[n] to u8[n] of other memory."""
    runs = len(source) // RUN
    if runs:
        dispatcher = cast("CpuDispatcher", shared_dispatcher("cpu"))
        prepared = dispatcher.prepared(_program(), is_unchanged=True, is_bounded=True)
        prepared.in_place([source[: runs * RUN], target[: runs * RUN]], (runs, 1, 1), None, ())
    target[runs * RUN :] = source[runs * RUN :]


@cache
def _program() -> Program:
    b = Builder("copy_bytes", workgroup=1)
    source = b.buffer("source", DataType.U8, None, "read", 0)
    target = b.buffer("target", DataType.U8, None, "write", 1, live_out=True)
    first = b.mul(b.workgroup_id("x"), RUN)
    with b.for_(0, RUN, VECTOR) as loop:
        index = b.add(first, loop.index)
        b.store(b.load(source, index, lanes=VECTOR), target, index)
    return b.finish()
