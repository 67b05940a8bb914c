"""Random programs that write rows, blocks and elements over one another, in loops and branches."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from vyre_opt.ir import Builder, DataType, Value

from .slice_programs import SliceProgram

__all__ = ["overlapping_program"]

F32 = DataType.F32
ROWS, DEEPEST = 2, 2


def overlapping_program(seed: int) -> SliceProgram:
    """Not each of them has a form for several invocations: one is refused that computes with what it has overwritten."""
    rng = random.Random(seed)
    columns = rng.choice((5, 70, 300, 1100, 5000))
    b = Builder("p", workgroup=1)
    for binding, name in enumerate("xy"):
        b.buffer(name, F32, (None, None), "read_write", binding, live_in=True, live_out=True)
    b.buffer("w", F32, (None, None), "read", 2)
    writer = _Writer(b, rng, columns)
    writer.steps(rng.randrange(4, 14), 0)
    numbers = np.random.default_rng(seed)
    arrays = [numbers.standard_normal((ROWS, columns)).astype(np.float32) for _ in "xyw"]
    return SliceProgram(b.finish(), arrays, ROWS)


class _Writer:
    def __init__(self, b: Builder, rng: random.Random, columns: int) -> None:
        self.b, self.rng, self.columns = b, rng, columns
        self.row = b.workgroup_id("x")
        self.values: list[Value] = [b.const(1.5, F32)]
        self.slices: list[Value] = [b.slice_load("w", (self.row, 0), (None,))]

    def steps(self, count: int, depth: int) -> None:
        """In a block of their own, after which their values are not known."""
        values, slices = len(self.values), len(self.slices)
        for _ in range(count):
            steps: list[Callable[[], None]] = [
                self.load,
                self.store,
                self.load_row,
                self.load_row,
                self.reduce,
                self.add,
                self.store_row,
                self.store_block,
            ]
            if depth < DEEPEST:
                steps += [lambda: self.loop(depth), lambda: self.branch(depth)]
            self.rng.choice(steps)()
        if depth:
            del self.values[values:], self.slices[slices:]

    def place(self) -> tuple[str, tuple[Value, int]]:
        return self.rng.choice("xy"), (self.row, self.rng.randrange(self.columns))

    def value(self) -> Value:
        return self.rng.choice(self.values)

    def slice(self) -> Value:
        """Of late, as an older one is more often of what was overwritten."""
        return self.rng.choice(self.slices[-2:])

    def load(self) -> None:
        self.values.append(self.b.load(*self.place()))

    def store(self) -> None:
        self.b.store(self.value(), *self.place())

    def load_row(self) -> None:
        self.slices.append(self.b.slice_load(self.rng.choice("xyw"), (self.row, 0), (None,)))

    def reduce(self) -> None:
        self.values.append(self.b.slice_reduce(self.slice(), self.rng.choice(("max", "min"))))

    def add(self) -> None:
        one = self.slice()
        self.slices.append(self.b.add(one, self.b.slice_broadcast(self.value(), one)))

    def store_row(self) -> None:
        self.b.slice_store(self.slice(), self.rng.choice("xy"), (self.row, 0))

    def store_block(self) -> None:
        b, extents = self.b, (self.rng.choice((4, 64)),)
        block = b.slice_broadcast(self.value(), extents)
        if self.rng.random() < 0.5:
            block = b.add(block, b.slice_load(*self.place(), extents, 0.0))
        b.slice_store(block, *self.place(), "clipped")

    def loop(self, depth: int) -> None:
        with self.b.for_(0, self.rng.randrange(1, 4)):
            self.steps(self.rng.randrange(1, 5), depth + 1)

    def branch(self, depth: int) -> None:
        with self.b.if_(self.b.lt(self.value(), self.rng.choice((0.0, 2.0)))):
            self.steps(self.rng.randrange(1, 5), depth + 1)
