"""math.matmul on matrix units: C = activation(A B + bias), of f16 or bf16, summed in f32.

A workgroup has a tile of C, and each of its subgroups a part of that.  Tiles of A and B go through `stages` places of
workgroup memory, into which copies run ahead of the products:

    stage        0        1        2        0        1
    copied      k = 0    k = 1    k = 2    k = 3 ...
    multiplied                    k = 0    k = 1 ...        one barrier a tile: a stage is filled again when all have read it

Lines of a stage are 16 bytes longer than they need be, so that 8 of them lie in different banks.  Where all subgroups
multiply by the same columns, warpgroups can do it together (see lowering/nvptx/warpgroups.py): then B lies without
padding, and copies run while they multiply.  Rows and columns beyond
the ends of C are computed from the last ones that there are, and not stored; beyond the depth there are zeros, which A may
have in its own rows, too.
Workgroups walk over C in groups of `group_m` tiles down, so that those that run together read few rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, replace
from itertools import product

from ..ir.builder import Builder
from ..ir.program import Value
from ..ir.types import DataType
from ..lowering.nvptx.targets import gpu
from ..records import dataclass
from .collective import SUBGROUP, elements
from .matmul_batch import first_rows, row_behind
from .matmul_form import Choice, MatmulProblem, finished, of_least_time, rows_of
from .powers_of_two import power_of
from .targets import MULTIPROCESSORS, has_matrix_units, workgroup_bytes
from .tiles import tiles_of

__all__ = ["UnitSchedule", "Units", "unit_schedule", "units_take"]

STEP = 16  # of the depth that a product of two matrices has
STRIP = 16  # rows of a matrix
WARPGROUP = 4  # subgroups that multiply together
MOST_WIDE = 128  # columns of a matrix
PIECE = 16  # bytes that a lane copies at a time, at most
STRIP_PAD = 4  # elements of a line of sums, so that lines lie in different banks
UNROLLED = 16  # pieces of a lane, at most; more are in a loop


@dataclass(frozen=True)
class UnitSchedule:
    """A tile of `block_m` rows and `block_n` columns of C, made by `warps_m` x `warps_n` subgroups, `block_k` along the depth at a time,
    through `stages` places of workgroup memory."""

    block_m: int = 128
    block_n: int = 128
    block_k: int = 64
    stages: int = 3
    warps_m: int = 2
    warps_n: int = 4
    group_m: int = 8

    def __post_init__(self) -> None:
        if min(astuple(self)) < 1:
            raise ValueError(f"each is 1 or more: {self}")
        if self.block_m % (self.warps_m * STRIP) or self.block_n % (self.warps_n * 2 * STEP):
            raise ValueError(f"a subgroup has whole matrices of 16 rows and 32 columns: {self}")
        if self.block_k % STEP or self.block_k < 2 * STEP or not 2 <= self.stages <= 8 or self.group_m < 1:
            raise ValueError(
                f"twice 16 of the depth or a multiple, 2 to 8 stages, groups of a tile or more: {self}"
            )
        if self.warps_m * self.warps_n > 32:
            raise ValueError(f"at most 32 subgroups: {self}")

    @property
    def lanes(self) -> int:
        return self.warps_m * self.warps_n * SUBGROUP

    @property
    def is_of_warpgroups(self) -> bool:
        """Whether subgroups, four by four, multiply by the same matrix."""
        return self.warps_n == 1 and self.warps_m % WARPGROUP == 0

    def b_line(self, pad: int) -> int:
        """Elements from a line of B to the next one in a stage; `pad`: those of 16 bytes."""
        return self.block_n + (0 if self.is_of_warpgroups else pad)

    @property
    def shared_bytes(self) -> int:
        """Workgroup memory, for elements of two bytes."""
        pad = PIECE // 2
        stage = self.block_m * (self.block_k + pad) + self.block_k * self.b_line(pad)
        strip = STRIP * (min(MOST_WIDE, self.block_n // self.warps_n) + STRIP_PAD)
        return 2 * self.stages * stage + 4 * self.warps_m * self.warps_n * strip

    def grid(self, rows: int, columns: int) -> int:
        """Workgroups for a product of `rows` x `columns`."""
        return -(-rows // self.block_m) * -(-columns // self.block_n)


def units_take(problem: MatmulProblem, target: str) -> bool:
    """Whether this form computes a problem on a target, and its rows let lanes copy 4 bytes at a time or more."""
    size = problem.dtype.size_bytes or 4
    if size != 2 or problem.depth is None or problem.columns is None or not has_matrix_units(target):
        return False
    pitches = problem.pitches or (problem.depth, problem.columns)
    is_numbered = problem.depth * pitches[1] < 1 << 32  # by a u32, as indices are
    return is_numbered and all(_piece(pitch, size) * size >= 4 for pitch in pitches)


def unit_schedule(
    rows: int | None, columns: int, target: str, multiprocessors: int = MULTIPROCESSORS, matrices: int = 1
) -> UnitSchedule:
    """The schedule of the least time for products of `rows` (None: unknown, many) x `columns`, as many as `matrices`, by rounds
    of tiles that a GPU of so many multiprocessors does, of those that its workgroups have the memory for."""
    room = workgroup_bytes(target)
    choices = WARPGROUP_CHOICES if gpu(target).has_warpgroups else CHOICES
    fitting = [choice for choice in choices if choice.schedule.shared_bytes <= room]
    return of_least_time(fitting, rows, columns, multiprocessors, matrices)


class Units:
    """Builds the body of a program in `b`, which declares the buffers of `problem`, whose sizes are known, and nothing else."""

    def __init__(self, b: Builder, problem: MatmulProblem, schedule: UnitSchedule) -> None:
        assert problem.depth is not None and problem.columns is not None
        self.b, self.problem, self.schedule = b, problem, schedule
        self.depth, self.columns = problem.depth, problem.columns
        self.a_pitch, self.b_pitch = problem.pitches or (problem.depth, problem.columns)
        self.element = element = problem.dtype
        self.rows = rows_of(b, problem, self.a_pitch)
        s, size = schedule, element.size_bytes or 1
        self.a_piece, self.b_piece = _piece(self.a_pitch, size), _piece(self.b_pitch, size)
        pad = PIECE // size
        b.buffer("tile_a", element, (s.stages, s.block_m, s.block_k + pad), "workgroup")
        b.buffer("tile_b", element, (s.stages, s.block_k, s.b_line(pad)), "workgroup")
        self.width = min(MOST_WIDE, s.block_n // s.warps_n)
        b.buffer("strip", DataType.F32, (s.warps_m * s.warps_n, STRIP, self.width + STRIP_PAD), "workgroup")
        self.accumulator = DataType.matrix(STRIP, self.width, DataType.F32, "acc")
        self.strips = range(0, s.block_m // s.warps_m, STRIP)
        self.parts = range(0, s.block_n // s.warps_n, self.width)

    def build(self) -> None:
        """Nothing is done for sizes that do not fit each other, which is also the proof that all accesses are in bounds."""
        b = self.b
        self.locate_tile()

        def wide(value: Value) -> Value:
            return b.cast(value, DataType.U64)

        fits = b.lt(self.row, self.end)
        for fact in (
            # in 64 bits, of which the product has enough
            b.ge(wide(b.len("a")), b.add(b.mul(wide(self.last), self.a_pitch), self.a_pitch)),
            b.ge(wide(b.len("b")), b.add(wide(self.b_start), self.depth * self.b_pitch)),
            b.ge(wide(b.len("c")), b.mul(wide(self.end), self.columns)),
            *([b.ge(b.len("bias"), self.columns)] if self.problem.bias is not None else []),
        ):
            fits = b.and_(fits, fact)
        with b.if_(fits):
            self.lines()
            self.store(self.sums_of_warpgroups() if self.schedule.is_of_warpgroups else self.sums())

    def locate_tile(self) -> None:
        """Tile of C of the workgroup, and part of it of the subgroup; rows count in the buffers."""
        b, s, axes = self.b, self.schedule, self.problem.axes
        tiles_n = -(-self.columns // s.block_n)
        number = b.workgroup_id("x")
        tiles_m = tiles_of(b, self.rows, s.block_m)
        self.first: dict[str, Value] = {}
        if axes:
            of_matrix = b.mul(tiles_m, tiles_n)
            matrix, number = b.div(number, of_matrix), b.rem(number, of_matrix)
            self.first = first_rows(b, axes, matrix, self.rows, self.depth)
        group = b.div(number, s.group_m * tiles_n)
        within = b.rem(number, s.group_m * tiles_n)
        first = b.mul(group, s.group_m)
        height = b.min(b.sub(tiles_m, first), s.group_m)
        row = b.mul(b.add(first, b.rem(within, height)), s.block_m, name="row")
        self.row, self.end = self.behind("c", row), self.behind("c", self.rows)
        self.a_row, self.last = self.behind("a", row), self.behind("a", b.sub(self.rows, 1, name="last"))
        self.b_start = b.mul(self.first["b"], self.b_pitch) if axes else b.const(0)
        self.column = b.mul(b.div(within, height), s.block_n, name="column")
        self.subgroup = b.subgroup_id()
        self.own_row = b.mul(b.div(self.subgroup, s.warps_n), s.block_m // s.warps_m, name="own_row")
        self.own_column = b.mul(b.rem(self.subgroup, s.warps_n), s.block_n // s.warps_n, name="own_column")

    def behind(self, buffer: str, row: Value) -> Value:
        """The row of a buffer that a row of its matrix is."""
        return row_behind(self.b, self.first.get(buffer), row)

    def begin(self) -> tuple[int, int]:
        """Begin to copy the first tiles of the depth, and wait for one; returns how many there are, and how many whole ones."""
        b, s = self.b, self.schedule
        tiles, whole = -(-self.depth // s.block_k), self.depth // s.block_k
        for tile in range(s.stages - 1):
            if tile < tiles:
                self.copy(b.const(tile), b.const(tile), is_last=tile >= whole)
            b.copy_wait(s.stages - 2)
        b.barrier("workgroup")
        return tiles, whole

    def sums_of_warpgroups(self) -> list[Value]:
        """The products of all tiles of the depth, strip by strip, and part by part of its columns.

        The products of a tile are begun together, and the tiles to come are copied while they are under way.
        """
        b, s = self.b, self.schedule
        tiles, whole = self.begin()
        carried = [b.const(0.0, self.accumulator) for _ in self.strips for _ in self.parts]
        with b.for_(0, tiles, 1, carry=carried, dtype=DataType.U32) as loop:
            stage = b.rem(loop.index, s.stages, name="stage")
            steps = range(0, s.block_k, STEP)
            lefts = [self.lefts(stage, step) for step in steps]
            sums = list(loop.args)
            for step, factors in zip(steps, lefts, strict=True):
                for number, part in enumerate(self.parts):
                    right = self.right(stage, step, b.const(part))
                    for strip, left in enumerate(factors):
                        at = strip * len(self.parts) + number
                        sums[at] = b.matrix_mul_add(left, right, sums[at])
            self.copy_ahead(loop.index, None, tiles, whole)
            b.copy_wait(s.stages - 2)
            b.barrier("workgroup")
            loop.yield_(*sums)
        return list(loop.results)

    def sums(self) -> list[Value]:
        """The products of all tiles of the depth, strip by strip."""
        b, s = self.b, self.schedule
        tiles, whole = self.begin()
        strips = len(self.strips)
        carried = [b.const(0.0, self.accumulator)] * strips + self.factors(b.const(0), 0)
        with b.for_(0, tiles, 1, carry=carried, dtype=DataType.U32) as loop:
            sums, factors = list(loop.args[:strips]), list(loop.args[strips:])
            stage = b.rem(loop.index, s.stages, name="stage")
            for part, step in enumerate(range(STEP, s.block_k, STEP)):
                behind = self.factors(stage, step)
                self.copy_ahead(loop.index, part, tiles, whole)
                sums = self.multiplied(factors, sums)
                factors = behind
            b.copy_wait(s.stages - 2)
            b.barrier("workgroup")
            # after the last tile, any that was copied
            following = b.rem(b.min(b.add(loop.index, 1), tiles - 1), s.stages, name="following")
            behind = self.factors(following, 0)
            loop.yield_(*self.multiplied(factors, sums), *behind)
        return list(loop.results[:strips])

    # --- copies

    def copy_ahead(self, tile: Value, part: int | None, tiles: int, whole: int) -> None:
        """Begin to copy a part (None: all) of the tile that is `stages` - 1 further, if there is one, to the stage before that of `tile`.

        Part by part between the products of a tile, so that copies never wait for each other while nothing is multiplied.
        """
        b, ahead = self.b, self.schedule.stages - 1
        number = b.add(tile, ahead, name="ahead")
        stage = b.rem(number, self.schedule.stages)
        if whole > ahead:
            with b.if_(b.lt(number, whole)):
                self.copy(stage, number, is_last=False, part=part)
        if tiles > whole >= ahead:
            with b.if_(b.eq(number, whole)):
                self.copy(stage, number, is_last=True, part=part)

    def lines(self) -> None:
        """Offsets of a lane's pieces in A and B; beyond the last row or column they repeat the last one."""
        b, s = self.b, self.schedule

        def of_a(row: Value, column: Value) -> Value:
            return b.add(b.mul(b.min(b.add(self.a_row, row), self.last), self.a_pitch), column)

        def of_b(row: Value, column: Value) -> Value:
            inside = b.min(b.add(self.column, column), self.b_pitch - self.b_piece)
            return b.add(self.b_start, b.add(b.mul(row, self.b_pitch), inside))

        self.pieces = [
            _CopiedPieces(b, "a", s.lanes, (s.block_m, s.block_k), self.a_piece, of_a),
            _CopiedPieces(b, "b", s.lanes, (s.block_k, s.block_n), self.b_piece, of_b),
        ]

    def copy(self, stage: Value, tile: Value, is_last: bool, part: int | None = None) -> None:
        """Begin to copy tile number `tile` of the depth to a stage, or a part of it; `is_last`: it reaches beyond the depth."""
        b, parts = self.b, self.schedule.block_k // STEP - 1
        start = b.mul(tile, self.schedule.block_k)
        of_a, of_b = self.pieces
        for pieces, stride in ((of_a, 1), (of_b, self.b_pitch)):
            for row, column, origin in pieces.each() if part is None else pieces.part(part, parts):
                index = b.add(b.mul(start, stride), origin)
                k, limit = row, self.depth - 1
                if pieces is of_a:
                    k, limit = column, self.a_pitch - pieces.piece
                inside = b.le(b.add(start, k), limit) if is_last else None
                self.copy_piece(pieces.name, pieces.piece, index, (stage, row, column), inside)

    def copy_piece(
        self, name: str, piece: int, index: Value, indices: tuple[Value, ...], inside: Value | None
    ) -> None:
        b, tile = self.b, f"tile_{name}"
        if inside is None:
            b.copy_async(b.load(name, index, piece), tile, indices)
            return
        with b.if_(inside) as branch:
            b.copy_async(b.load(name, index, piece), tile, indices)
        with branch.else_():
            nothing = self.element if piece == 1 else DataType.vec(self.element, piece)
            b.store(b.const(0, nothing), tile, indices)

    # --- products

    def factors(self, stage: Value, k: int) -> list[Value]:
        """The matrices of a subgroup at `k` of a stage: one of B, and those of A, strip by strip."""
        return [self.right(stage, k, self.own_column), *self.lefts(stage, k)]

    def right(self, stage: Value, k: int, column: Value) -> Value:
        dtype = DataType.matrix(STEP, self.width, self.element, "b")
        return self.b.matrix_load("tile_b", (stage, self.b.const(k), column), dtype)

    def lefts(self, stage: Value, k: int) -> list[Value]:
        b, dtype = self.b, DataType.matrix(STRIP, STEP, self.element, "a")
        rows = [b.add(self.own_row, strip) for strip in self.strips]
        return [b.matrix_load("tile_a", (stage, row, b.const(k)), dtype) for row in rows]

    def multiplied(self, factors: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
        right, *left = factors
        return [self.b.matrix_mul_add(a, right, total) for a, total in zip(left, sums, strict=True)]

    # --- results

    def store(self, sums: Sequence[Value]) -> None:
        """Matrix by matrix through workgroup memory, so that a lane has neighbouring columns."""
        b, width = self.b, self.width
        piece = _piece(self.columns, self.problem.out.size_bytes or 1)
        across = width // piece
        zero = b.const(0)
        corners = product(self.strips, self.parts)
        for (strip, part), total in zip(corners, sums, strict=True):
            b.barrier("subgroup")
            b.matrix_store(total, "strip", (self.subgroup, zero, zero))
            b.barrier("subgroup")
            for turn in range(STRIP * across // SUBGROUP):
                number = b.add(b.lane_id(), turn * SUBGROUP)
                line, piece_column = b.div(number, across), b.mul(b.rem(number, across), piece)
                row = b.add(self.row, b.add(b.add(self.own_row, strip), line))
                column = b.add(b.add(self.column, b.add(self.own_column, part)), piece_column)
                with b.if_(b.and_(b.lt(row, self.end), b.le(column, self.columns - piece))):
                    totals = elements(b, b.load("strip", (self.subgroup, line, piece_column), piece))
                    whole = finished(b, self.problem, totals, column)
                    b.store(whole, "c", b.add(b.mul(row, self.columns), column))


CHOICES: tuple[Choice[UnitSchedule], ...] = (
    Choice(UnitSchedule(128, 256, 64, 3, 2, 4), 1.0),
    Choice(UnitSchedule(256, 128, 64, 3, 4, 2), 0.98),
    Choice(UnitSchedule(128, 128, 64, 3, 2, 4), 0.79),
    Choice(UnitSchedule(128, 128, 32, 4, 2, 4), 0.74),
    Choice(UnitSchedule(64, 128, 64, 3, 2, 2), 0.56),
    Choice(UnitSchedule(64, 64, 64, 4, 2, 2), 0.43),
)
"""Fractions measured on an H200."""

WARPGROUP_CHOICES = (
    Choice(UnitSchedule(128, 256, 64, 3, 8, 1, 16), 1.0),
    Choice(UnitSchedule(256, 128, 64, 3, 8, 1), 0.94),
    Choice(UnitSchedule(128, 128, 64, 4, 8, 1), 0.84),
    Choice(UnitSchedule(64, 256, 64, 3, 4, 1), 0.73),
    Choice(UnitSchedule(64, 128, 64, 4, 4, 1), 0.65),
    Choice(UnitSchedule(64, 64, 64, 4, 4, 1), 0.46),
    *(replace(choice, rate=0.79 * choice.rate) for choice in CHOICES),
)
"""The same where warpgroups multiply; the first one's rate is 546 TFLOP/s."""


class _CopiedPieces:
    """The pieces of a tile that a lane copies: neighbouring lanes have neighbouring ones.

    `origin` gives where a piece begins in the buffer, for the first tile of the depth: computed once where a lane has few.
    """

    def __init__(
        self,
        b: Builder,
        name: str,
        lanes: int,
        shape: tuple[int, int],
        piece: int,
        origin: Callable[[Value, Value], Value],
    ) -> None:
        self.b, self.name, self.lanes, self.piece, self.origin = b, name, lanes, piece, origin
        self.across = shape[1] // piece
        self.count = shape[0] * self.across
        self.local = b.local_id("x")
        self.known: list[tuple[Value, Value, Value]] = []
        turns, left = divmod(self.count, lanes)
        if not left and turns <= UNROLLED:
            self.known = [self._at(b.add(self.local, turn * lanes)) for turn in range(turns)]

    def _at(self, number: Value) -> tuple[Value, Value, Value]:
        b = self.b
        row, column = b.div(number, self.across), b.mul(b.rem(number, self.across), self.piece)
        return row, column, self.origin(row, column)

    def each(self) -> Iterator[tuple[Value, Value, Value]]:
        """(row, column, where it begins) of each piece, the last of them in a loop around what follows."""
        if self.known:
            yield from self.known
            return
        with self.b.for_(self.local, self.count, self.lanes, dtype=DataType.U32) as loop:
            yield self._at(loop.index)

    def part(self, number: int, parts: int) -> Iterator[tuple[Value, Value, Value]]:
        """One of `parts` of them: those in a loop are all in the first."""
        if self.known:
            yield from self.known[number::parts]
        elif number == 0:
            yield from self.each()


def _piece(extent: int, size: int) -> int:
    """Elements that a lane moves at a time: of a line of `extent` a whole number, and aligned."""
    return power_of(extent, PIECE // size)
