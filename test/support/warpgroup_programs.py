"""Random programs whose subgroups multiply by the same matrices of workgroup memory, and what they compute, in NumPy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from vyre_opt.ir import Builder, DataType, Program, Value

__all__ = ["SharedFactor"]

STRIP = 16
MOST_SHARED = 96 * 1024


class SharedFactor:
    """c = (a b) * scale^turns, where b comes through a ring of `stages` tiles that all subgroups multiply by.

    Drawn are the extents, the type, how b lies in its tile, how and when it is copied, in how many matrices a subgroup
    has its rows and columns, and whether sums are touched between the products of two turns.
    """

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.element = draw.choice((DataType.F16, DataType.BF16))
        self.subgroups = draw.choice((4, 4, 8, 12))
        self.strips = draw.choice((1, 1, 2))
        self.by_rows = draw.random() < 0.6
        self.width = draw.choice((64, 128)) if self.by_rows else draw.choice((8, 16, 32, 64, 128))
        self.parts = draw.choice((1, 2)) if self.width * self.strips < 256 else 1
        self.step = 16 if self.width > 64 else draw.choice((16, 32))
        self.deep = draw.choice((64, 128)) if not self.by_rows else draw.choice((32, 64))
        self.turns = draw.randint(1, 5)
        self.stages = draw.choice((1, 2, 3))
        self.copy_first = draw.random() < 0.5
        self.piece = draw.choice((1, 2, 4, 8))
        self.is_async = draw.random() < 0.7
        self.scale = draw.choice((1.0, 1.0, 0.5))
        self.left_in_tile = draw.random() < 0.5
        self.columns = self.width * self.parts
        while self.stages * self.deep * self.columns * 2 > MOST_SHARED:
            self.parts, self.stages = 1, max(1, self.stages - 1)
            self.columns = self.width * self.parts
        self.rows = self.subgroups * self.strips * STRIP
        self.depth = self.deep * self.turns
        self.groups = draw.choice((1, 3))

    def arrays(self, seed: int) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        a = rng.standard_normal((self.groups * self.rows, self.depth)).astype(np.float32)
        shape = (self.depth, self.columns) if self.by_rows else (self.columns, self.depth)
        return a, rng.standard_normal(shape).astype(np.float32)

    def expected(self, a: Any, b: Any) -> tuple[Any, Any]:
        """The result, and by how much another may differ; `a` and `b` as they are stored."""
        total = np.zeros((self.groups * self.rows, self.columns))
        absolute = np.zeros_like(total)
        right = (b if self.by_rows else b.T).astype(np.float64)
        for turn in range(self.turns):
            part = slice(turn * self.deep, (turn + 1) * self.deep)
            x, y = a[:, part].astype(np.float64), right[part]
            total = (total + x @ y) * self.scale
            absolute = (absolute + np.abs(x) @ np.abs(y)) * self.scale
        return total, (self.depth + 2) * 2.0**-20 * absolute

    def program(self) -> Program:
        b = self.b = Builder("shared_factor", workgroup=self.subgroups * 32)
        element, columns, deep = self.element, self.columns, self.deep
        b.buffer("a", element, (self.groups * self.rows, self.depth), "read", 0)
        tile = (deep, columns) if self.by_rows else (columns, deep)
        b.buffer("b", element, (self.depth, columns) if self.by_rows else (columns, self.depth), "read", 1)
        b.buffer("c", DataType.F32, (self.groups * self.rows, columns), "write", 2, live_out=True)
        b.buffer("tile", element, (self.stages, *tile), "workgroup")
        if self.left_in_tile:
            b.buffer("left", element, (self.rows, deep + 8), "workgroup")
        self.lane = b.local_id("x")
        self.row = b.mul(b.workgroup_id("x"), self.rows)
        self.own = b.mul(b.subgroup_id(), self.strips * STRIP)
        ahead = self.stages - 1
        for first in range(min(ahead, self.turns)):
            self.copy(b.const(first), b.const(first))
        accumulator = DataType.matrix(STRIP, self.width, DataType.F32, "acc")
        sums = [b.const(0.0, accumulator) for _ in range(self.strips * self.parts)]
        with b.for_(0, self.turns, 1, carry=sums, dtype=DataType.U32) as loop:
            turn, totals = loop.index, list(loop.args)
            stage = b.rem(turn, self.stages)
            if ahead == 0:
                self.copy(stage, turn)
            if self.left_in_tile:
                self.copy_left(turn)
            b.copy_wait(0)
            b.barrier("workgroup")
            if ahead and self.copy_first:
                self.copy_ahead(turn, ahead)
            totals = self.multiply(stage, turn, totals)
            if ahead and not self.copy_first:
                self.copy_ahead(turn, ahead)
            if self.scale != 1.0:
                totals = [b.mul(total, self.scale) for total in totals]
            b.barrier("workgroup")
            loop.yield_(*totals)
        for number, total in enumerate(loop.results):
            strip, part = divmod(number, self.parts)
            row = b.add(b.add(self.row, self.own), strip * STRIP)
            b.matrix_store(total, "c", (row, b.const(part * self.width)))
        return b.finish()

    def multiply(self, stage: Value, turn: Value, totals: list[Value]) -> list[Value]:
        b = self.b
        left = DataType.matrix(STRIP, self.step, self.element, "a")
        right = DataType.matrix(self.step, self.width, self.element, "b")
        for k in range(0, self.deep, self.step):
            for number in range(self.strips * self.parts):
                strip, part = divmod(number, self.parts)
                own = b.add(self.own, strip * STRIP)
                if self.left_in_tile:
                    x = b.matrix_load("left", (own, b.const(k)), left)
                else:
                    x = b.matrix_load("a", (b.add(self.row, own), b.add(b.mul(turn, self.deep), k)), left)
                place = (b.const(k), b.const(part * self.width))
                layout = "row_major" if self.by_rows else "column_major"
                y = b.matrix_load("tile", (stage, *place[:: 1 if self.by_rows else -1]), right, layout)
                totals[number] = b.matrix_mul_add(x, y, totals[number])
        return totals

    def copy_ahead(self, turn: Value, ahead: int) -> None:
        b, following = self.b, self.b.add(turn, ahead)
        with b.if_(b.lt(following, self.turns)):
            self.copy(b.rem(following, self.stages), following)

    def copy(self, stage: Value, turn: Value) -> None:
        """Of b, the part of a turn, to a stage: by all lanes, in pieces."""
        b, lines = self.b, self.deep if self.by_rows else self.columns
        across = (self.columns if self.by_rows else self.deep) // self.piece
        with b.for_(self.lane, lines * across, self.subgroups * 32, dtype=DataType.U32) as loop:
            line, column = b.div(loop.index, across), b.mul(b.rem(loop.index, across), self.piece)
            start = b.mul(turn, self.deep)
            origin = (b.add(line, start), column) if self.by_rows else (line, b.add(column, start))
            value = b.load("b", origin, self.piece)
            (b.copy_async if self.is_async else b.store)(value, "tile", (stage, line, column))

    def copy_left(self, turn: Value) -> None:
        b = self.b
        with b.for_(self.lane, self.rows * self.deep, self.subgroups * 32, dtype=DataType.U32) as loop:
            line, column = b.div(loop.index, self.deep), b.rem(loop.index, self.deep)
            value = b.load("a", (b.add(self.row, line), b.add(b.mul(turn, self.deep), column)))
            b.store(value, "left", (line, column))
