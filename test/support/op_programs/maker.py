"""A program for an op, and how two runs of it are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vyre_opt.ir import Builder, DataType, Module, Program, Value
from vyre_opt.ir.program import Dim3

from ..sample import random_inputs

__all__ = ["FLOATS", "INTS", "LANES", "SCALARS", "WORDS", "Maker", "OpProgram", "differs"]

INTS = tuple(DataType.of(n) for n in ("u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"))
FLOATS = (DataType.F16, DataType.BF16, DataType.F32, DataType.F64)
SCALARS = (*INTS, *FLOATS)
WORDS = tuple(t for t in SCALARS if t.bits in (32, 64))
LANES = 64

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class OpProgram:
    """`name`: the op and its types, such as `div i32`."""

    name: str
    program: Program
    module: Module
    grid: Dim3

    def inputs(self, seed: int = 0) -> list[Array]:
        return random_inputs(self.program, self.grid, seed)

    def mismatch(self, expected: Sequence[Array], actual: Sequence[Array]) -> str:
        """Where two runs differ in more than the bits of a NaN, in words; "" if nowhere."""
        buffers = [b for b in self.program.bound_buffers if b.is_output]
        for buffer, want, got in zip(buffers, expected, actual, strict=True):
            if want.shape != got.shape:
                return f"@{buffer.name} has shape {got.shape}, not {want.shape}"
            wrong = np.argwhere(differs(want, got, buffer.dtype.element))
            if len(wrong):
                at = tuple(int(i) for i in wrong[0])
                return f"@{buffer.name}{list(at)} is {got[at]}, not {want[at]} ({len(wrong)} of {want.size} differ)"
        return ""


def differs(a: Array, b: Array, dtype: DataType) -> Array:
    """Where bits differ, but for those of two NaNs."""
    if not dtype.is_float:
        return np.asarray(a != b)
    words = np.dtype(f"u{(dtype.bits or 8) // 8}")
    unequal: Array = a.view(words) != b.view(words)
    return unequal & ~(_is_nan(a, dtype) & _is_nan(b, dtype))


def _is_nan(array: Array, dtype: DataType) -> Array:
    if dtype is DataType.BF16:
        return np.asarray((array & np.uint16(0x7FFF)) > np.uint16(0x7F80))
    return np.isnan(array)


class Maker:
    """Builds the programs; each has inputs @a, @b, ... and an output @out."""

    def __init__(self, name: str, workgroup: int | tuple[int, ...] = LANES) -> None:
        self.name = name
        self.b = Builder("".join(c if c.isalnum() else "_" for c in name), workgroup, module=Module())
        self.bindings = 0

    def source(self, name: str, dtype: DataType, count: int = LANES, access: str = "read") -> Value:
        """An input buffer, and the element of it that belongs to this invocation."""
        live = access == "read_write"
        self.b.buffer(name, dtype, count, access, self.bindings, live_in=live, live_out=live)
        self.bindings += 1
        return self.b.load(name, self.b.global_id("x")) if access == "read" else self.b.global_id("x")

    def result(self, value: Value, count: int = LANES, index: Value | None = None) -> None:
        """Store this invocation's result."""
        name = f"out{self.bindings}"
        self.b.buffer(name, value.type, count, "write", self.bindings)
        self.bindings += 1
        self.b.store(value, name, self.b.global_id("x") if index is None else index)

    def finish(self, grid: Dim3 = (1, 1, 1)) -> OpProgram:
        return OpProgram(self.name, self.b.finish(), self.b.module, grid)
