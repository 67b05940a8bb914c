"""Random programs that compute with rows, and their inputs."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from vyre_opt.ir import Builder, DataType, Program, Value

__all__ = ["SliceProgram", "slice_program"]

TYPES = (DataType.F32, DataType.I32, DataType.F64, DataType.U8)
NUMPY = {"f32": np.float32, "i32": np.int32, "f64": np.float64, "u8": np.uint8}
BINARY = ("add", "sub", "mul", "min", "max", "abs_diff")


@dataclass(frozen=True)
class SliceProgram:
    """`arrays`: one for each buffer, in the order of their bindings; `rows`: workgroups that it runs over."""

    program: Program
    arrays: list[np.ndarray[Any, Any]]
    rows: int


def slice_program(seed: int) -> SliceProgram:
    """Rows of two matrices and a vector, with ops, reductions, branches and loops of single values; `is_fixed` extents or open ones."""
    rng = random.Random(seed)
    columns = rng.choice((1, 3, 64, 65, rng.randrange(1, 300), rng.randrange(300, 1500), 4100))
    rows, dtype = rng.randrange(1, 4), rng.choice(TYPES)
    is_fixed = rng.random() < 0.4
    extent = columns if is_fixed else None
    b = Builder("p", workgroup=1)
    b.buffer("x", dtype, (None, extent), "read", 0)
    b.buffer("w", dtype, extent, "read", 1)
    b.buffer("y", dtype, (None, extent), "read_write", 2, live_in=True, live_out=True)
    b.buffer("z", dtype, (None, 3), "write", 3, live_out=True)
    _Writer(b, rng, dtype, extent).write()
    numbers = np.random.default_rng(seed)
    kind = NUMPY[dtype.name]

    def array(*shape: int) -> np.ndarray[Any, Any]:
        values = numbers.standard_normal(shape) * 3 if dtype.is_float else numbers.integers(0, 120, shape)
        return values.astype(kind)

    arrays = [array(rows, columns), array(columns), array(rows, columns), array(rows, 3)]
    return SliceProgram(b.finish(), arrays, rows)


class _Writer:
    def __init__(self, b: Builder, rng: random.Random, dtype: DataType, extent: int | None) -> None:
        self.b, self.rng, self.dtype, self.extent = b, rng, dtype, extent
        self.row = b.workgroup_id("x")
        self.slices: list[Value] = []
        self.values: list[Value] = [b.const(2, dtype)]

    def write(self) -> None:
        b, rng = self.b, self.rng
        self.slices = [self.load("x"), b.slice_load("w", 0, (self.extent,)), self.load("y")]
        for _ in range(rng.randrange(2, 9)):
            rng.choice(
                (self.elementwise, self.elementwise, self.chosen, self.reduced, self.scalar, self.looped)
            )()
        for column in range(3):
            b.store(rng.choice(self.values), "z", (self.row, column))
        made = rng.choice(self.slices[3:] or self.slices)
        b.slice_store(made, "y", (self.row, 0))
        if rng.random() < 0.5:  # and again, of what is there now
            again = self.load("y")
            b.slice_store(b.add(again, self.spread(b.slice_reduce(again, "max"))), "y", (self.row, 0))

    def load(self, name: str) -> Value:
        return self.b.slice_load(name, (self.row, 0), (self.extent,))

    def spread(self, value: Value) -> Value:
        return self.b.slice_broadcast(value, self.slices[0])

    def elementwise(self) -> None:
        operands = [self.rng.choice(self.slices) for _ in range(2)]
        if self.rng.random() < 0.3:
            operands[1] = self.spread(self.rng.choice(self.values))
        self.slices.append(self.b.op(self.rng.choice(BINARY), *operands))

    def chosen(self) -> None:
        a, c = (self.rng.choice(self.slices) for _ in range(2))
        self.slices.append(self.b.select(self.b.op(self.rng.choice(("lt", "ge", "ne")), a, c), a, c))

    def reduced(self) -> None:
        combine = self.rng.choice(("add", "max", "min", "add", "mul"))
        self.values.append(self.b.slice_reduce(self.rng.choice(self.slices), combine))

    def scalar(self) -> None:
        a, c = (self.rng.choice(self.values) for _ in range(2))
        b = self.b
        with b.if_(b.lt(a, c)) as branch:
            branch.yield_(b.add(b.slice_reduce(self.rng.choice(self.slices), "max"), a))
        with branch.else_():
            branch.yield_(c)
        self.values.append(branch.result)

    def looped(self) -> None:
        b = self.b
        with b.for_(0, self.rng.randrange(1, 4), carry=[self.rng.choice(self.values)]) as loop:
            changed = b.add(self.rng.choice(self.slices), self.spread(loop.args[0]))
            loop.yield_(b.slice_reduce(changed, self.rng.choice(("add", "min"))))
        self.values.append(loop.result)
