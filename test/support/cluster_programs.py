"""Programs whose workgroups hand values on within clusters, and a simulation of them in NumPy."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod

import numpy as np

from vyre_opt.ir import Builder, DataType, Program, Value

__all__ = ["WAYS", "ClusterProgram", "HandOff", "Mail"]

WAYS = ("fenced", "single", "many")
CLUSTERS, OF_CLUSTER = 13, 12345
MOST_BYTES = 96 * 1024  # of a half of what is handed on, which each workgroup has in its memory
KINDS = {DataType.U32: np.uint32, DataType.U64: np.uint64}


class ClusterProgram(ABC):
    """`handed`: elements of the buffer by which a cluster hands values on."""

    handed: int

    @abstractmethod
    def program(self, how: str) -> Program:
        """`how`: of a single cluster by way of storage (fenced) or of a transient buffer (single); or CLUSTERS clusters (many)."""

    @abstractmethod
    def expected(self, cluster: int = 0) -> np.ndarray:
        """What a cluster writes."""

    def case(self, how: str) -> tuple[Program, list[np.ndarray], np.ndarray]:
        """The program, its arguments, and what its first output is to be."""
        clusters = CLUSTERS if how == "many" else 1
        expected = np.concatenate([self.expected(cluster) for cluster in range(clusters)])
        arrays = [np.zeros_like(expected)]
        if how == "fenced":
            arrays.append(np.zeros(self.handed, expected.dtype))
        return self.program(how), arrays, expected


class HandOff(ClusterProgram):
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
        self.handed = 2 * self.count

    def program(self, how: str) -> Program:
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
            self.handed,
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


class Mail(ClusterProgram):
    """In each round a lane sends its number to some workgroups, adds up what it finds in the mail of its own, and makes a new one.

    @mail has a row for each workgroup, of two halves by turns; in a half each lane of the cluster has a place for each letter of
    a round.  What it has sent in earlier rounds lies there until it sends again.
    """

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.workgroups = draw.choice((2, 3, 4, 5, 8, 16))
        self.lanes = draw.choice((32, 64, 96, 160, 256))
        self.width = draw.choice((1, 2, 4))
        self.dtype = draw.choice(tuple(KINDS))
        self.rounds = draw.randint(1, 7)
        self.sent = draw.randint(1, min(4, self.workgroups))
        self.by_lane, self.by_round = draw.choice((0, 1, 3)), draw.choice((0, 1, 2))
        self.factor, self.shift = draw.randrange(1, 99, 2), draw.randrange(64)
        self.read = draw.randint(1, 5)
        self.skipped = draw.choice((1, 2, 3, 7))
        self.in_loop, self.in_inner_loop = draw.random() < 0.5, draw.random() < 0.5
        self.senders = self.workgroups * self.lanes
        if 4 * self.senders * self.sent * self.width * (self.dtype.size_bytes or 1) > MOST_BYTES:
            self.width = self.sent = 1
        self.half = self.senders * self.sent * self.width  # elements of a half of a row
        self.handed = self.workgroups * 2 * self.half

    def program(self, how: str) -> Program:
        fenced, many = how == "fenced", how == "many"
        clusters, workgroups, row = CLUSTERS if many else 1, self.workgroups, 2 * self.half
        b = Builder(
            "mail",
            workgroup=self.lanes,
            grid=workgroups * clusters,
            cluster=workgroups if many else None,
        )
        out = b.buffer("out", self.dtype, self.senders * clusters, "write", 0, live_out=True)
        mail = b.buffer(
            "mail",
            self.dtype,
            self.handed,
            "cluster" if many else "read_write",
            1 if fenced else None,
            live_in=fenced,
            live_out=fenced,
        )
        group, lane = b.workgroup_id("x"), b.local_id("x")
        number = b.rem(group, workgroups)
        sender = b.add(b.mul(number, self.lanes), lane)
        barrier = "cluster" if many else "grid"
        with b.for_(lane, row, self.lanes) as loop:
            b.store(b.cast(loop.index, self.dtype), mail, b.add(b.mul(number, row), loop.index))

        def send(value: Value, round_: Value, ahead: Value) -> None:
            base = b.add(b.mul(lane, self.by_lane), b.mul(round_, self.by_round))
            owner = b.rem(b.add(b.add(base, number), ahead), workgroups)
            place = b.add(b.mul(owner, row), b.mul(b.and_(round_, 1), self.half))
            values = [b.add(value, b.cast(b.add(ahead, k), self.dtype)) for k in range(self.width)]
            whole = values[0] if self.width == 1 else b.vector(*values)
            ticket = b.add(b.mul(sender, self.sent), ahead)
            b.store(whole, mail, b.add(place, b.mul(ticket, self.width)))

        def turn(value: Value, round_: Value) -> Value:
            with b.if_(b.ne(b.rem(b.add(sender, round_), self.skipped), 1)):
                if self.in_inner_loop:
                    with b.for_(0, self.sent) as loop:
                        send(value, round_, loop.index)
                else:
                    for ahead in range(self.sent):
                        send(value, round_, b.const(ahead))
            b.barrier(barrier)
            first = b.add(b.mul(number, row), b.mul(b.and_(round_, 1), self.half))
            for k in range(self.read):
                at = b.rem(b.add(b.mul(b.add(lane, k), self.factor), self.shift), self.half)
                value = b.add(b.mul(value, 3), b.load(mail, b.add(first, at)))
            return value

        b.barrier(barrier)
        value: Value = b.cast(b.add(b.mul(group, self.lanes), lane), self.dtype)
        if self.in_loop:
            with b.for_(0, self.rounds, carry=[value]) as loop:
                loop.yield_(turn(loop.args[0], loop.index))
            value = loop.result
        else:
            for round_ in range(self.rounds):
                value = turn(value, b.const(round_))
        b.store(value, out, b.add(b.mul(group, self.lanes), lane))
        return b.finish()

    def expected(self, cluster: int = 0) -> np.ndarray:
        kind = KINDS[self.dtype]
        mail = np.tile(np.arange(2 * self.half, dtype=kind), (self.workgroups, 1)).reshape(
            self.workgroups, 2, self.half
        )
        sender = np.arange(self.senders)
        number, lane = sender // self.lanes, sender % self.lanes
        value = (sender + cluster * self.senders).astype(kind)
        for round_ in range(self.rounds):
            half = mail[:, round_ % 2]
            sends = (sender + round_) % self.skipped != 1
            for ahead in range(self.sent):
                owner = (lane * self.by_lane + round_ * self.by_round + number + ahead) % self.workgroups
                for k in range(self.width):
                    place = (sender * self.sent + ahead) * self.width + k
                    half[owner[sends], place[sends]] = (value + kind(ahead + k))[sends]
            for k in range(self.read):
                at = ((lane + k) * self.factor + self.shift) % self.half
                value = value * kind(3) + half[number, at]
        return value
