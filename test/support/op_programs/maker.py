"""A program for an op, and how two runs of it are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vyre_opt.ir.builder import Builder
from vyre_opt.ir.program import Dim3, Module, Program, Value
from vyre_opt.ir.types import DataType

from ..sample import random_inputs

__all__ = ["FLOATS", "INTS", "LANES", "SCALARS", "WORDS", "Maker", "OpProgram"]

INTS = tuple(DataType.of(n) for n in ("u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"))
FLOATS = (DataType.F16, DataType.BF16, DataType.F32, DataType.F64)
SCALARS = (*INTS, *FLOATS)
WORDS = tuple(t for t in SCALARS if t.bits in (32, 64))
LANES = 64


@dataclass(frozen=True, slots=True)
class OpProgram:
    """`name`: the op and what is particular, `div i32`.  `ulp`: how far a float result may be off."""

    name: str
    program: Program
    module: Module
    grid: Dim3
    ulp: float = 0.0

    def inputs(self, seed: int = 0) -> list[np.ndarray]:
        return random_inputs(self.program, self.grid, seed)

    def mismatch(self, expected: Sequence[np.ndarray], given: Sequence[np.ndarray]) -> str:
        """Where two runs differ by more than the program's bound, in words; "" if nowhere."""
        buffers = [b for b in self.program.bound_buffers if b.is_output]
        for buffer, wanted, found in zip(buffers, expected, given, strict=True):
            if wanted.shape != found.shape:
                return f"@{buffer.name} has shape {found.shape}, not {wanted.shape}"
            wrong = np.argwhere(_distance(wanted, found, buffer.dtype.element) > self.ulp)
            if len(wrong):
                at = tuple(int(i) for i in wrong[0])
                return f"@{buffer.name}{list(at)} is {found[at]}, not {wanted[at]} ({len(wrong)} of {wanted.size} differ)"
        return ""


def _distance(wanted: np.ndarray, found: np.ndarray, dtype: DataType) -> np.ndarray:
    """How many representable numbers lie between two arrays' elements; any NaN equals any other."""
    if not dtype.is_float:
        return (wanted != found).astype(np.float64)
    bits = dtype.bits or 0
    half = 1 << (bits - 1)
    ordered = []
    for array in (wanted, found):
        raw = array.view(np.dtype(f"u{bits // 8}")).astype(np.uint64)
        sign = raw >= half
        ordered.append(np.where(sign, -(raw - half).astype(np.float64) - 1, raw.astype(np.float64)))
    nan = [_is_nan(array, dtype) for array in (wanted, found)]
    apart = np.abs(ordered[0] - ordered[1])
    exact = wanted.view(np.dtype(f"u{bits // 8}")) == found.view(np.dtype(f"u{bits // 8}"))
    apart = np.where(exact, 0.0, np.maximum(apart, 1.0))
    return np.where(nan[0] | nan[1], np.where(nan[0] & nan[1], 0.0, np.inf), apart)


def _is_nan(array: np.ndarray, dtype: DataType) -> np.ndarray:
    if dtype is DataType.BF16:
        return (array & np.uint16(0x7FFF)) > np.uint16(0x7F80)
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

    def finish(self, grid: Dim3 = (1, 1, 1), ulp: float = 0.0) -> OpProgram:
        return OpProgram(self.name, self.b.finish(), self.b.module, grid, ulp)
