"""Programs that stream tiles through stages of workgroup memory by asynchronous copies, and what they give by NumPy."""

from __future__ import annotations

import random

import numpy as np

from vyre_opt.ir import Builder, DataType, Program, Value

__all__ = ["StreamedTiles"]

KINDS = {
    DataType.U8: np.uint8,
    DataType.U16: np.uint16,
    DataType.U32: np.uint32,
    DataType.F32: np.float32,
    DataType.U64: np.uint64,
}
MOST_BYTES = 40_000  # of workgroup memory


class StreamedTiles:
    """Each workgroup copies `tiles` tiles of `rows` x `columns` elements to a ring of stages, the next ones while it writes
    one backwards to its place in the output.

    `turns`: pieces of a tile are handed out in a loop, or else in straight code, each to one invocation.  `one_barrier`: the
    barrier that brings a tile also frees the stage of the one before.  `writes`: the stage is written to after it was read.
    `scattered`: a second tile is filled by copies that are no runs, of elements of 4 bytes in reversed order.
    """

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.dtype = draw.choice(tuple(KINDS))
        self.size = self.dtype.size_bytes or 1
        self.lanes = draw.choice((32, 48, 64, 128, 256))
        self.groups = draw.randint(1, 5)
        self.stages = draw.randint(2, 4)
        self.tiles = draw.randint(1, 9)
        self.one_barrier = draw.random() < 0.5
        ahead = self.stages - 1
        self.pending = draw.randint(0, ahead - self.one_barrier)
        self.pending_first = draw.randint(0, 3)
        self.width = draw.choice([w for w in (1, 2, 4, 8, 16) if w * self.size <= 16 or w == 1])
        self.turns = draw.random() < 0.7
        unit = max(self.width, 16 // self.size)
        most = MOST_BYTES // self.stages // self.size
        if self.turns:
            self.rows = draw.choice((1, 1, 1, 2, 3, 8))
            self.columns = unit * draw.randint(1, max(1, min(600, most // self.rows // unit // 2)))
        else:
            self.rows, self.columns = 1, self.width * self.lanes * draw.randint(1, 3)
        self.pad = unit * draw.choice((0, 0, 1)) * (self.rows > 1)
        self.gap = unit * draw.choice((0, 0, 1, 3))
        self.writes = draw.random() < 0.3
        self.scattered = draw.random() < 0.3
        self.elements = self.rows * self.columns
        self.pitch, self.tile = self.columns + self.gap, self.rows * (self.columns + self.gap)
        self.stage = self.rows * (self.columns + self.pad)
        self.count = self.groups * self.tiles

    def arrays(self) -> list[np.ndarray]:
        """The inputs, and an output to fill."""
        rng = np.random.default_rng(self.count)
        kind = KINDS[self.dtype]
        x = rng.integers(0, 250, self.count * self.tile).astype(kind)
        few = rng.integers(0, 1 << 20, self.count * self.lanes).astype(np.uint32)
        outputs = [np.zeros(self.count * self.elements, kind), np.zeros_like(few)]
        return [x, few, *outputs]

    def expected(self) -> list[np.ndarray]:
        x, few, *_ = self.arrays()
        rows = x.reshape(self.count, self.rows, self.pitch)[:, :, : self.columns]
        backwards = rows.reshape(self.count, -1)[:, ::-1]
        # what is scattered is reversed on its way to workgroup memory, and is read in that order
        second = few.reshape(self.count, self.lanes)[:, ::-1] if self.scattered else np.zeros_like(few)
        return [backwards.ravel(), second.ravel()]

    def program(self) -> Program:
        b = self.b = Builder("streamed_tiles", workgroup=self.lanes, grid=self.groups)
        b.buffer("x", self.dtype, self.count * self.tile, "read", 0)
        b.buffer("few", DataType.U32, self.count * self.lanes, "read", 1)
        b.buffer("y", self.dtype, self.count * self.elements, "write", 2, live_out=True)
        b.buffer("second", DataType.U32, self.count * self.lanes, "write", 3, live_out=True)
        b.buffer("t", self.dtype, self.stages * self.stage, "workgroup")
        b.buffer("u", DataType.U32, self.stages * self.lanes, "workgroup")
        self.local = b.local_id("x")
        self.first = b.mul(b.workgroup_id("x"), self.tiles)
        ahead = self.stages - 1
        for number in range(min(ahead, self.tiles)):
            self.copy(b.const(number, DataType.U32))
            b.copy_wait(self.pending_first)
        for _ in range(self.tiles, ahead):  # groups of nothing, so that the loop counts alike
            b.copy_wait(self.pending_first)
        with b.for_(0, self.tiles, 1, dtype=DataType.U32) as loop:
            following = b.add(loop.index, ahead)
            if not self.one_barrier:
                self.copy_if_there(following)
            b.copy_wait(self.pending)
            b.barrier("workgroup")
            if self.one_barrier:
                self.copy_if_there(following)
            self.consume(loop.index)
            if not self.one_barrier:
                b.barrier("workgroup")
        return b.finish()

    def copy_if_there(self, number: Value) -> None:
        with self.b.if_(self.b.lt(number, self.tiles)):
            self.copy(number)

    def copy(self, number: Value) -> None:
        """Begin to copy a tile to its stage."""
        b = self.b
        stage = b.rem(number, self.stages)
        self.tile_start = b.mul(b.add(self.first, number), self.tile)
        self.stage_start = b.mul(stage, self.stage)
        pieces = self.elements // self.width
        if self.turns:
            with b.for_(self.local, pieces, self.lanes, dtype=DataType.U32) as loop:
                self.piece(loop.index)
        else:
            for turn in range(0, pieces, self.lanes):
                self.piece(b.add(self.local, turn))
        if self.scattered:
            place = b.add(b.mul(stage, self.lanes), b.sub(self.lanes - 1, self.local))
            origin = b.add(b.mul(b.add(self.first, number), self.lanes), self.local)
            b.copy_async(b.load("few", origin), "u", place)

    def piece(self, number: Value) -> None:
        b, across = self.b, self.columns // self.width
        row, column = b.div(number, across), b.mul(b.rem(number, across), self.width)
        place = b.add(b.mul(row, self.columns + self.pad), column)
        origin = b.add(b.add(self.tile_start, b.mul(row, self.pitch)), column)
        b.copy_async(b.load("x", origin, lanes=self.width), "t", b.add(self.stage_start, place))

    def consume(self, number: Value) -> None:
        b = self.b
        stage, group = b.rem(number, self.stages), b.add(self.first, number)
        with b.for_(self.local, self.elements, self.lanes, dtype=DataType.U32) as loop:
            element = b.sub(self.elements - 1, loop.index)
            row, column = b.div(element, self.columns), b.rem(element, self.columns)
            place = b.add(b.mul(stage, self.stage), b.add(b.mul(row, self.columns + self.pad), column))
            value = b.load("t", place)
            b.store(value, "y", b.add(b.mul(group, self.elements), loop.index))
            if self.writes:
                b.store(b.const(7, self.dtype), "t", place)
        own = b.add(b.mul(stage, self.lanes), self.local)
        if self.scattered:
            b.store(b.load("u", own), "second", b.add(b.mul(group, self.lanes), self.local))
        else:
            b.store(b.const(0, DataType.U32), "second", b.add(b.mul(group, self.lanes), self.local))
