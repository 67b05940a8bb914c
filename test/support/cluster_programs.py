"""Programs whose workgroups hand values on within clusters, and a simulation of them in NumPy."""

from __future__ import annotations

import random

import numpy as np

from vyre_opt.ir.builder import Builder
from vyre_opt.ir.program import Program, Value
from vyre_opt.ir.types import DataType

__all__ = ["WAYS", "HandOff"]

WAYS = ("fenced", "single", "many")
CLUSTERS, OF_CLUSTER = 13, 12345
MOST_BYTES = 96 * 1024  # of a half of what is handed on, which each workgroup has in its memory
KINDS = {DataType.U32: np.uint32, DataType.U64: np.uint64}


class HandOff:
    """In each round a lane loads elements that lanes all over the cluster have stored, and stores its own.

    Element e becomes 3 * old[(factor * e + shift) mod n] + e + round, in one buffer and the other by turns; in some rounds some
    lanes leave out their stores.
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
        if self.workgroups * self.lanes * self.width * (self.dtype.size_bytes or 1) > MOST_BYTES:
            self.width = 1
        self.count = self.workgroups * self.lanes * self.width

    def program(self, how: str) -> Program:
        """`how`: of a single cluster by way of storage (fenced) or of a transient buffer (single); or CLUSTERS clusters (many)."""
        fenced, many = how == "fenced", how == "many"
        b = Builder(
            "hand_off",
            workgroup=self.lanes,
            grid=self.workgroups * (CLUSTERS if many else 1),
            cluster=self.workgroups if many else None,
        )
        out = b.buffer("out", self.dtype, self.count * (CLUSTERS if many else 1), "write", 0, live_out=True)
        both = b.buffer(
            "both",
            self.dtype,
            2 * self.count,
            "cluster" if many else "read_write",
            1 if fenced else None,
            live_in=fenced,
            live_out=fenced,
        )
        group = b.workgroup_id("x")
        cluster, number = b.div(group, self.workgroups), b.rem(group, self.workgroups)
        g = b.add(b.mul(number, self.lanes), b.local_id("x"))
        first = b.mul(g, self.width)

        def turn(number: Value) -> None:
            b.barrier("cluster" if many else "grid")
            half = b.mul(b.and_(number, 1), self.count)
            values = []
            for k in range(self.width):
                element = b.add(first, k)
                origin = b.and_(b.add(b.mul(element, self.factor), self.shift), self.count - 1)
                old = b.load(both, b.add(half, origin))
                added = b.cast(b.add(element, number), self.dtype)
                values.append(b.add(b.mul(old, 3), added))
            stored = values[0] if self.width == 1 else b.vector(*values)
            with b.if_(b.ne(b.rem(b.add(g, number), self.skipped), 1)):
                b.store(stored, both, b.add(b.sub(self.count, half), first))

        for half in (0, self.count):
            for k in range(self.width):
                value = b.add(b.add(first, k), b.mul(cluster, OF_CLUSTER))
                b.store(b.cast(value, self.dtype), both, b.add(first, half + k))
        if self.in_loop:
            with b.for_(0, self.rounds) as loop:
                turn(loop.index)
        else:
            for round_ in range(self.rounds):
                turn(b.const(round_))
        b.barrier("cluster" if many else "grid")
        for k in range(self.width):
            at = b.add(first, k)
            value = b.load(both, b.add(at, self.rounds % 2 * self.count))
            b.store(value, out, b.add(b.mul(cluster, self.count), at))
        return b.finish()

    def expected(self, cluster: int = 0) -> np.ndarray:
        kind = KINDS[self.dtype]
        elements = np.arange(self.count, dtype=np.uint64)
        both = [(elements + cluster * OF_CLUSTER).astype(kind)] * 2
        origin = (elements * self.factor + self.shift) % self.count
        for number in range(self.rounds):
            value = both[number % 2][origin] * kind(3) + (elements + number).astype(kind)
            stores = (elements // self.width + number) % self.skipped != 1
            both[1 - number % 2] = np.where(stores, value, both[1 - number % 2])
        return both[self.rounds % 2]

    def clusters(self, how: str) -> int:
        return CLUSTERS if how == "many" else 1

    def case(self, how: str) -> tuple[Program, list[np.ndarray], np.ndarray]:
        """The program, its arguments, and what its first output is to be."""
        expected = np.concatenate([self.expected(cluster) for cluster in range(self.clusters(how))])
        arrays = [np.zeros_like(expected)]
        if how == "fenced":
            arrays.append(np.zeros(2 * self.count, expected.dtype))
        return self.program(how), arrays, expected
