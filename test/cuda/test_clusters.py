"""Hand-offs within a cluster, by replicas and by fences, against a simulation in NumPy."""

from __future__ import annotations

import random

import numpy as np
import pytest

from vyre_opt.cuda import CudaDispatcher
from vyre_opt.ir.builder import Builder
from vyre_opt.ir.program import Program
from vyre_opt.ir.types import DataType

pytestmark = pytest.mark.gpu

KINDS = {DataType.U32: np.uint32, DataType.U64: np.uint64}


class HandOff:
    """In each round a lane loads elements that lanes all over the cluster have stored, and stores its own.

    Element e becomes 3 * old[(factor * e + shift) mod n] + e + round, in one buffer and the other by turns; in some rounds some
    lanes leave out their stores.  `fenced`: the buffers are bound, so that all goes by way of storage.
    """

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.workgroups = draw.choice((2, 4, 8, 16))
        self.lanes = draw.choice((16, 32, 64, 128, 256))
        self.width = draw.choice((1, 2, 4))
        self.dtype = draw.choice(tuple(KINDS))
        self.rounds = draw.randint(1, 9)
        self.factor = 2 * draw.randrange(512) + 1
        self.shift = draw.randrange(1 << 12)
        self.skipped = draw.choice((1, 2, 3, 7))
        self.in_loop = draw.random() < 0.5
        self.count = self.workgroups * self.lanes * self.width

    def program(self, fenced: bool) -> Program:
        b = Builder("hand_off", workgroup=self.lanes, grid=self.workgroups)
        out = b.buffer("out", self.dtype, self.count, "write", 0, live_out=True)
        both = b.buffer(
            "both",
            self.dtype,
            2 * self.count,
            "read_write",
            1 if fenced else None,
            live_in=fenced,
            live_out=fenced,
        )
        g = b.global_id("x")
        first = b.mul(g, self.width)

        def turn(number: object) -> None:
            b.barrier("grid")
            half = b.mul(b.and_(number, 1), self.count)
            values = []
            for k in range(self.width):
                element = b.add(first, k)
                origin = b.and_(b.add(b.mul(element, self.factor), self.shift), self.count - 1)
                old = b.load(both, b.add(half, origin))
                added = b.cast(b.add(element, number), self.dtype)
                values.append(b.add(b.mul(old, 3), added))
            value = values[0] if self.width == 1 else b.vector(*values)
            with b.if_(b.ne(b.rem(b.add(g, number), self.skipped), 1)):
                b.store(value, both, b.add(b.sub(self.count, half), first))

        for half in (0, self.count):
            for k in range(self.width):
                b.store(b.cast(b.add(first, k), self.dtype), both, b.add(first, half + k))
        if self.in_loop:
            with b.for_(0, self.rounds) as loop:
                turn(loop.index)
        else:
            for number in range(self.rounds):
                turn(b.const(number))
        b.barrier("grid")
        for k in range(self.width):
            at = b.add(first, k)
            b.store(b.load(both, b.add(at, self.rounds % 2 * self.count)), out, at)
        return b.finish()

    def expected(self) -> np.ndarray:
        kind = KINDS[self.dtype]
        elements = np.arange(self.count, dtype=np.uint64)
        both = [elements.astype(kind), elements.astype(kind)]
        origin = (elements * self.factor + self.shift) % self.count
        for number in range(self.rounds):
            value = both[number % 2][origin] * kind(3) + (elements + number).astype(kind)
            stores = (elements // self.width + number) % self.skipped != 1
            both[1 - number % 2] = np.where(stores, value, both[1 - number % 2])
        return both[self.rounds % 2]


@pytest.mark.parametrize(
    "seed", [*range(40), *(pytest.param(n, marks=pytest.mark.slow) for n in range(40, 400))]
)
def test_what_is_handed_on_arrives(seed: int) -> None:
    case, gpu = HandOff(seed), CudaDispatcher(bounds="none")
    expected = case.expected()
    for fenced in (False, True):
        arrays = [np.zeros(size * case.count, expected.dtype) for size in ((1, 2) if fenced else (1,))]
        program = case.program(fenced)
        for _ in range(3):
            out = gpu.dispatch(program, arrays, case.workgroups)[0]
            np.testing.assert_array_equal(out, expected)
