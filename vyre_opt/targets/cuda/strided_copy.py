"""Contiguous copies of strided arrays on a GPU: by the array's own library where it makes them, else by a program.

    element (i, j)  at  @x[first + i * stride 0 + j * stride 1]  ->  @y[i * extent 1 + j]

Extents, strides and `first` are runtime scalars, so a program serves all arrays of a number of dimensions; neighbouring
dimensions that follow each other in memory are one.  It moves units of 1 to 8 bytes, which divide the element, all strides
and the address; a stride may be negative or 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd
from typing import Any

import numpy as np

from ...execution.array_backend import Operand
from ...execution.kernel_call import plan_of
from ...ir.builder import Builder
from ...ir.program import Program
from ...ir.types import DataType
from ...kernels.call import KernelCall
from ...lowering.nvptx.abi import ALIGNMENT
from .device_arrays import Description, new_array
from .launch_context import LaunchContext
from .libraries import library_of, producer_stream
from .loaded_plan import load

__all__ = ["contiguous_copy"]

LANES = 256
_UNITS = {1: DataType.U8, 2: DataType.U16, 4: DataType.U32, 8: DataType.U64}


def contiguous_copy(context: LaunchContext, array: Any, info: Description) -> Any:
    """A contiguous copy of an array that is described by `info`: of its library, made on that library's stream."""
    copy = library_of(array).contiguous
    with context.device:
        return copy(array) if copy is not None else _copy_by_program(context, array, info)


def _copy_by_program(context: LaunchContext, array: Any, info: Description) -> Any:
    size = np.dtype(info.stored).itemsize
    assert info.strides is not None
    unit = gcd(8, size, info.pointer, *info.strides)
    dimensions = _joined([*zip(info.shape, info.strides, strict=True), (size // unit, unit)])
    reach = [stride * (extent - 1) for extent, stride in dimensions]
    low = info.pointer + sum(step for step in reach if step < 0)
    start = low - low % ALIGNMENT  # what lies before the array in its first 16 bytes is not read
    units = (info.pointer + sum(step for step in reach if step > 0) + unit - start) // unit
    copied, pointer = new_array(array, info.shape, info.kind, context.device)
    count = info.scalars * size // unit
    words = {"first": (info.pointer - start) // unit}
    for axis, (extent, stride) in enumerate(dimensions):
        words |= {f"extent{axis}": extent, f"stride{axis}": stride // unit % 2**64}
    program = _program(len(dimensions), unit)
    buffers = [Operand(None, (units,), "", array), Operand(None, (count,), "", copied)]
    loaded = load(context, plan_of(KernelCall(program, -(-count // LANES), (0, 1)), buffers))
    arguments = (start, pointer, *[words[name] for name in sorted(words)])
    while status := loaded.run(producer_stream(array), *arguments):
        assert not loaded.explain(status), "new arrays are aligned"  # raises the error of an earlier call
    return copied


def _joined(dimensions: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Extents with strides in bytes, those of 1 left out and those that follow each other in memory made one."""
    result: list[tuple[int, int]] = []
    for extent, stride in dimensions:
        if result and result[-1][1] == extent * stride:
            result[-1] = result[-1][0] * extent, stride
        elif extent > 1:
            result.append((extent, stride))
    return result


@lru_cache(maxsize=64)
def _program(dimensions: int, unit: int) -> Program:
    """Arithmetic is in 64 bits, in which a negative stride wraps to what it stands for."""
    b = Builder("strided_copy", workgroup=LANES)
    x = b.buffer("x", _UNITS[unit], None, "read", 0)
    y = b.buffer("y", _UNITS[unit], None, "write", 1, live_out=True)
    word = DataType.U64
    rest = b.add(b.mul(b.cast(b.workgroup_id("x"), word), LANES), b.cast(b.local_id("x"), word))
    with b.if_(b.lt(rest, b.len(y, word))):
        element, offset = rest, b.param("first", word)
        for axis in reversed(range(dimensions)):
            extent = b.param(f"extent{axis}", word)
            offset = b.add(offset, b.mul(b.rem(rest, extent), b.param(f"stride{axis}", word)))
            rest = b.div(rest, extent)
        b.store(b.load(x, offset), y, element)
    return b.finish()
