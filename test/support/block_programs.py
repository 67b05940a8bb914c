"""Random programs that compute with blocks of one and two extents, and their inputs."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from vyre_opt.ir import Builder, DataType, Value

from .slice_programs import NUMPY, SliceProgram

__all__ = ["block_program"]

TYPES = (DataType.F32, DataType.I32, DataType.F64, DataType.U8)
SIZES = (1, 2, 3, 4, 7, 8, 16, 31, 32, 40, 64, 100)
BINARY = ("add", "sub", "mul", "min", "max", "abs_diff")
MOST = 4096
"""Elements of a block."""


def block_program(seed: int) -> SliceProgram:
    """Blocks of a matrix and of a vector that reach beyond their edges, with every op that takes or gives one, in loops and branches."""
    rng = random.Random(seed)
    dtype = rng.choice(TYPES)
    rows, columns = rng.choice(SIZES), rng.choice(SIZES)
    writer = _Writer(rng, dtype, rows, columns)
    writer.write()
    numbers = np.random.default_rng(seed)

    def array(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        values = numbers.standard_normal(shape) * 3 if dtype.is_float else numbers.integers(0, 120, shape)
        return values.astype(NUMPY[dtype.name])

    height, width = (max(1, n + rng.randrange(-3, 9)) for n in (rows, columns))
    arrays = [array(height, width), array(width), array(height, width), array(2, 3)]
    return SliceProgram(writer.b.finish(), arrays, 2)


class _Writer:
    """`slices`: those that there are, by their extents."""

    def __init__(self, rng: random.Random, dtype: DataType, rows: int, columns: int) -> None:
        self.rng, self.dtype, self.rows, self.columns = rng, dtype, rows, columns
        b = self.b = Builder("p", workgroup=1)
        b.buffer("x", dtype, (None, None), "read", 0)
        b.buffer("w", dtype, None, "read", 1)
        b.buffer("y", dtype, (None, None), "read_write", 2, live_in=True, live_out=True)
        b.buffer("z", dtype, (2, 3), "write", 3, live_out=True)
        self.group = b.workgroup_id("x")
        self.slices: list[Value] = []
        self.values: list[Value] = [b.const(2, dtype)]

    def write(self) -> None:
        b, rng = self.b, self.rng
        self.slices = [self.load(), b.slice_load("w", self.start(), (self.columns,), 1)]
        self.steps(rng.randrange(3, 10), 0)
        for column in range(3):
            b.store(rng.choice(self.values), "z", (self.group, column))
        blocks = [v for v in self.slices if len(v.type.extents) == 2]
        with b.if_(b.eq(self.group, 0)):
            b.slice_store(rng.choice(blocks), "y", (self.start(), self.start()), "clipped")

    def steps(self, count: int, depth: int) -> None:
        steps: list[Callable[[], None]] = [
            self.elementwise, self.elementwise, self.chosen, self.reduced, self.reduced, self.kept, self.scanned,
            self.transposed, self.product, self.counted, self.gathered, self.repeated,
        ]  # fmt: skip
        if depth < 2:
            steps += [lambda: self.looped(depth), lambda: self.branched(depth)]
        for _ in range(count):
            self.rng.choice(steps)()

    def start(self) -> Value:
        """A place of a block, also before the first element."""
        return self.b.const(self.rng.choice((0, 0, 0, 1, 2, -1)), DataType.I32)

    def load(self) -> Value:
        return self.b.slice_load("x", (self.start(), self.start()), (self.rows, self.columns), 1)

    def any_slice(self) -> Value:
        return self.rng.choice(self.slices)

    def like(self, value: Value) -> Value:
        """A slice of the same extents."""
        return self.rng.choice([v for v in self.slices if v.type is value.type])

    def elementwise(self) -> None:
        a = self.any_slice()
        other = self.like(a)
        if self.rng.random() < 0.3:
            other = self.b.slice_broadcast(self.rng.choice(self.values), a)
        self.slices.append(self.b.op(self.rng.choice(BINARY), a, other))

    def chosen(self) -> None:
        a = self.any_slice()
        other = self.like(a)
        self.slices.append(self.b.select(self.b.op(self.rng.choice(("lt", "ge", "ne")), a, other), a, other))

    def reduced(self) -> None:
        value = self.any_slice()
        axis, combine = self.axis(value), self.rng.choice(("add", "max", "min", "add", "mul"))
        total = self.b.slice_reduce(value, combine, axis)
        (self.slices if total.type.is_slice else self.values).append(total)

    def kept(self) -> None:
        """Broadcast to what it was made of."""
        value = self.any_slice()
        total = self.b.slice_reduce(value, self.rng.choice(("add", "max")), self.axis(value), keep=True)
        self.slices += [total, self.b.sub(value, self.b.slice_broadcast(total, value))]

    def axis(self, value: Value) -> int:
        return self.rng.randrange(len(value.type.extents))

    def scanned(self) -> None:
        value = self.any_slice()
        mode, combine = self.rng.choice(("inclusive", "exclusive")), self.rng.choice(("add", "max"))
        self.slices.append(self.b.slice_scan(value, mode, combine, self.axis(value)))

    def transposed(self) -> None:
        self.slices.append(self.b.slice_transpose(self.any_block()))

    def any_block(self) -> Value:
        return self.rng.choice([v for v in self.slices if len(v.type.extents) == 2])

    def product(self) -> None:
        a = self.any_block()
        fitting = [
            v for v in self.slices if len(v.type.extents) == 2 and v.type.extents[0] == a.type.extents[1]
        ]
        other = self.rng.choice([*fitting, self.b.slice_transpose(a)])
        extents = [n or 0 for n in (a.type.extents[0], other.type.extents[1])]
        if extents[0] * extents[1] <= MOST:
            product = self.b.slice_dot(a, other)
            if self.rng.random() < 0.5:
                product = self.b.slice_dot(a, other, product)
            self.slices.append(self.b.cast(product, product.type.with_element(self.dtype)))

    def counted(self) -> None:
        rows, columns = self.any_block().type.extents
        extents = self.rng.choice([(rows or 1, 1), (1, columns or 1), (columns or 1,)])
        counted = self.b.slice_iota(extents)
        self.slices.append(self.b.cast(counted, counted.type.with_element(self.dtype)))

    def gathered(self) -> None:
        b = self.b
        counted = b.slice_iota(self.rng.choice(SIZES))
        length = b.slice_broadcast(b.len("x", dimension=1), counted)
        self.slices.append(b.slice_gather("x", (0, b.rem(counted, length))))

    def repeated(self) -> None:
        """A row or a column of a block, down or along another one."""
        block = self.any_block()
        fitting = [
            v for v in self.slices
            if all(a in (1, b) for a, b in zip(v.type.extents[::-1], block.type.extents[::-1], strict=False))
        ]  # fmt: skip
        self.slices.append(self.b.add(block, self.b.slice_broadcast(self.rng.choice(fitting), block)))

    def looped(self, depth: int) -> None:
        b, carried = self.b, [self.any_slice(), self.rng.choice(self.values)]
        slices, values = len(self.slices), len(self.values)
        with b.for_(0, self.rng.randrange(1, 4), carry=carried) as loop:
            self.slices.append(loop.args[0])
            self.values.append(loop.args[1])
            self.steps(self.rng.randrange(1, 4), depth + 1)
            loop.yield_(self.like(carried[0]), self.rng.choice(self.values))
        del self.slices[slices:], self.values[values:]
        self.slices.append(loop.results[0])
        self.values.append(loop.results[1])

    def branched(self, depth: int) -> None:
        b, like = self.b, self.any_slice()
        slices, values = len(self.slices), len(self.values)
        with b.if_(b.lt(*(self.rng.choice(self.values) for _ in range(2)))) as branch:
            self.steps(self.rng.randrange(1, 4), depth + 1)
            branch.yield_(self.like(like))
        del self.slices[slices:], self.values[values:]
        with branch.else_():
            branch.yield_(self.like(like))
        self.slices.append(branch.results[0])
