"""math.matmul on matrix units: C = activation(A B + bias), of f16 or bf16, summed in f32.

A workgroup has a tile of C, and each of its subgroups a part of that.  Tiles of A and B go through `stages` places of
workgroup memory, into which copies run ahead of the products:

    stage        0        1        2        0        1
    copied      k = 0    k = 1    k = 2    k = 3 ...
    multiplied                    k = 0    k = 1 ...        one barrier a tile: a stage is filled again when all have read it

Lines of a stage are 16 bytes longer than they need be, so that 8 of them lie in different banks.  Rows and columns beyond
the ends of C are computed from the last ones that there are, and not stored; beyond the depth there are zeros.
Workgroups walk over C in bands of `band` tiles down, so that those that run together read few rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir.builder import Builder
from ..ir.program import Value
from ..ir.types import DataType
from .collective import SUBGROUP, elements
from .tiles import tiles_of

__all__ = ["UnitSchedule", "UnitProduct"]

STEP = 16  # of the depth that a product of two matrices has
STRIP = 16  # rows of a matrix
PIECE = 16  # bytes that a lane copies at a time, at most
UNROLLED = 8  # pieces of a lane, at most; more are in a loop
Index = DataType.U64
Epilogue = Callable[[Builder, list[Value], Value], list[Value]]
"""The results of sums in f32, and the column of the first of them."""


@dataclass(frozen=True)
class UnitSchedule:
    """A tile of `rows` x `columns`, made by `down` x `across` subgroups, `depth` at a time through `stages` places."""

    rows: int = 128
    columns: int = 128
    depth: int = 32
    stages: int = 4
    down: int = 2
    across: int = 4
    band: int = 8

    def __post_init__(self) -> None:
        if self.rows % (self.down * STRIP) or self.columns % (self.across * 2 * STEP):
            raise ValueError(f"a subgroup has whole matrices of 16 rows and 32 columns: {self}")
        if self.depth % STEP or self.depth < 2 * STEP or not 2 <= self.stages <= 8 or self.band < 1:
            raise ValueError(
                f"twice 16 of the depth or a multiple, 2 to 8 stages, bands of a tile or more: {self}"
            )
        if self.down * self.across > 32:
            raise ValueError(f"at most 32 subgroups: {self}")

    @property
    def lanes(self) -> int:
        return self.down * self.across * SUBGROUP

    def grid(self, rows: int, columns: int) -> int:
        """Workgroups for a product of `rows` x `columns`."""
        return -(-rows // self.rows) * -(-columns // self.columns)


class UnitProduct:
    """Emits the body for A of `depth` columns and B of `columns`; buffers have one dimension."""

    def __init__(
        self,
        b: Builder,
        element: DataType,
        result: DataType,
        depth: int,
        columns: int,
        schedule: UnitSchedule,
        epilogue: Epilogue,
    ) -> None:
        self.b, self.element, self.result, self.schedule, self.epilogue = (
            b,
            element,
            result,
            schedule,
            epilogue,
        )
        self.depth, self.columns = depth, columns
        self.rows = b.div(b.cast(b.len("a"), Index), b.const(depth, Index), name="rows")
        s, size = schedule, element.size_bytes or 1
        self.a_piece, self.b_piece = _piece(depth, size), _piece(columns, size)
        pad = PIECE // size
        self.tile_a = b.buffer("tile_a", element, (s.stages, s.rows, s.depth + pad), "workgroup")
        self.tile_b = b.buffer("tile_b", element, (s.stages, s.depth, s.columns + pad), "workgroup")
        width = s.columns // s.across
        self.strip = b.buffer("strip", DataType.F32, (s.down * s.across, STRIP, width + 4), "workgroup")
        self.accumulator = DataType.matrix(STRIP, width, DataType.F32, "acc")

    def build(self) -> None:
        b, s = self.b, self.schedule
        self.place()
        tiles, whole = -(-self.depth // s.depth), self.depth // s.depth
        for tile in range(s.stages - 1):
            if tile < tiles:
                self.copy(b.const(tile), tile, is_last=tile >= whole)
            b.copy_wait(s.stages - 2)
        b.barrier("workgroup")
        strips = s.rows // s.down // STRIP
        carried = [b.const(0.0, self.accumulator)] * strips + self.factors(b.const(0), 0)
        with b.for_(0, tiles, 1, carry=[b.const(0), *carried], dtype=DataType.U32) as loop:
            stage, *carried = loop.args
            sums, factors = carried[:strips], carried[strips:]
            following = b.select(b.eq(stage, s.stages - 1), b.const(0), b.add(stage, 1))
            self.copy_ahead(loop.index, stage, tiles, whole)
            for step in range(STEP, s.depth, STEP):
                behind = self.factors(stage, step)
                sums = self.multiplied(factors, sums)
                factors = behind
            b.copy_wait(s.stages - 2)
            b.barrier("workgroup")
            # after the last tile, any that was copied
            behind = self.factors(b.select(b.lt(loop.index, tiles - 1), following, stage), 0)
            loop.yield_(following, *self.multiplied(factors, sums), *behind)
        self.store(loop.results[1 : 1 + strips])

    def copy_ahead(self, tile: Value, stage: Value, tiles: int, whole: int) -> None:
        """Begin to copy the tile that is `stages` - 1 further, if there is one, to the stage before that of `tile`."""
        b, ahead = self.b, self.schedule.stages - 1
        number = b.add(tile, ahead)
        before = b.select(b.eq(stage, 0), b.const(ahead), b.sub(stage, 1))
        if whole > ahead:
            with b.if_(b.lt(number, whole)):
                self.copy(before, number, is_last=False)
        if tiles > whole >= ahead:
            with b.if_(b.eq(number, whole)):
                self.copy(before, number, is_last=True)

    def place(self) -> None:
        """Which tile of C the workgroup has, and which part of it the subgroup."""
        b, s = self.b, self.schedule
        across = -(-self.columns // s.columns)
        number = b.cast(b.workgroup_id("x"), Index)
        tiles_down = tiles_of(b, self.rows, s.rows)
        band = b.div(number, s.band * across)
        within = b.sub(number, b.mul(band, s.band * across))
        first = b.mul(band, s.band)
        height = b.min(b.sub(tiles_down, first), s.band)
        self.row = b.mul(b.add(first, b.rem(within, height)), s.rows, name="row")
        self.column = b.mul(b.div(within, height), s.columns, name="column")
        subgroup = b.subgroup_id()
        self.subgroup = subgroup
        self.own_row = b.mul(b.div(subgroup, s.across), s.rows // s.down, name="own_row")
        self.own_column = b.mul(b.rem(subgroup, s.across), s.columns // s.across, name="own_column")

    # --- copies

    def copy(self, stage: Value, tile: Value | int, is_last: bool) -> None:
        """Begin to copy tile number `tile` of the depth to a stage; `is_last`: it reaches beyond the depth."""
        b, s = self.b, self.schedule
        start = (
            b.mul(b.cast(tile, Index), s.depth) if isinstance(tile, Value) else b.const(tile * s.depth, Index)
        )
        last_row = b.sub(self.rows, 1)

        def of_a(row: Value, column: Value) -> None:
            k = b.add(start, b.cast(column, Index))
            line = b.min(b.add(self.row, b.cast(row, Index)), last_row)
            index = b.add(b.mul(line, self.depth), k)
            self.copy_piece(
                "a", self.a_piece, index, (stage, row, column), b.lt(k, self.depth) if is_last else None
            )

        def of_b(row: Value, column: Value) -> None:
            k = b.add(start, b.cast(row, Index))
            line = b.min(b.add(self.column, b.cast(column, Index)), self.columns - self.b_piece)
            index = b.add(b.mul(k, self.columns), line)
            self.copy_piece(
                "b", self.b_piece, index, (stage, row, column), b.lt(k, self.depth) if is_last else None
            )

        self.each_piece(s.rows, s.depth, self.a_piece, of_a)
        self.each_piece(s.depth, s.columns, self.b_piece, of_b)

    def each_piece(self, rows: int, columns: int, piece: int, move: Callable[[Value, Value], None]) -> None:
        """The pieces of a lane: neighbouring lanes have neighbouring ones."""
        b, lanes = self.b, self.schedule.lanes
        across = columns // piece
        local = b.local_id("x")

        def one(number: Value) -> None:
            move(b.div(number, across), b.mul(b.rem(number, across), piece))

        count = rows * across
        if count % lanes == 0 and count // lanes <= UNROLLED:
            for turn in range(count // lanes):
                one(b.add(local, turn * lanes))
            return
        with b.for_(local, count, lanes, dtype=DataType.U32) as loop:
            one(loop.index)

    def copy_piece(
        self, name: str, piece: int, index: Value, place: tuple[Value, ...], inside: Value | None
    ) -> None:
        b, tile = self.b, f"tile_{name}"
        if inside is None:
            b.copy_async(b.load(name, index, piece), tile, place)
            return
        with b.if_(inside) as branch:
            b.copy_async(b.load(name, index, piece), tile, place)
        with branch.else_():
            nothing = self.element if piece == 1 else DataType.vec(self.element, piece)
            b.store(b.const(0, nothing), tile, place)

    # --- products

    def factors(self, stage: Value, k: int) -> list[Value]:
        """The matrices of a subgroup at `k` of a stage: one of B, and those of A, strip by strip."""
        b, s = self.b, self.schedule
        right = DataType.matrix(STEP, s.columns // s.across, self.element, "b")
        left = DataType.matrix(STRIP, STEP, self.element, "a")
        rows = [b.add(self.own_row, strip) for strip in range(0, s.rows // s.down, STRIP)]
        return [
            b.matrix_load("tile_b", (stage, b.const(k), self.own_column), right),
            *(b.matrix_load("tile_a", (stage, row, b.const(k)), left) for row in rows),
        ]

    def multiplied(self, factors: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
        right, *left = factors
        return [self.b.matrix_mul_add(a, right, total) for a, total in zip(left, sums, strict=True)]

    # --- results

    def store(self, sums: Sequence[Value]) -> None:
        """Strip by strip through workgroup memory, so that a lane has neighbouring columns."""
        b, s = self.b, self.schedule
        width = s.columns // s.across
        piece = _piece(self.columns, self.result.size_bytes or 1)
        across = width // piece
        zero = b.const(0)
        for strip, total in enumerate(sums):
            b.barrier("subgroup")
            b.matrix_store(total, "strip", (self.subgroup, zero, zero))
            b.barrier("subgroup")
            for turn in range(STRIP * across // SUBGROUP):
                number = b.add(b.lane_id(), turn * SUBGROUP)
                line, own = b.div(number, across), b.mul(b.rem(number, across), piece)
                inner = b.add(b.add(self.own_row, strip * STRIP), line)
                row = b.add(self.row, b.cast(inner, Index))
                column = b.add(self.column, b.cast(b.add(self.own_column, own), Index))
                with b.if_(b.and_(b.lt(row, self.rows), b.lt(column, self.columns))):
                    values = elements(b, b.load("strip", (self.subgroup, line, own), piece))
                    values = [
                        b.cast(v, self.result) if v.type is not self.result else v
                        for v in self.epilogue(b, values, column)
                    ]
                    whole = values[0] if piece == 1 else b.vector(*values)
                    b.store(whole, "c", b.add(b.mul(row, self.columns), column))


def _piece(extent: int, size: int) -> int:
    """Elements that a lane moves at a time: of a line of `extent` a whole number, and aligned."""
    return min(PIECE // size, extent & -extent)
