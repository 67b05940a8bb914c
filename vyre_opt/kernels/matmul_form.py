"""math.matmul: what a program of it computes, how, and what all its forms share.

    C = activation(A B + bias)      A [rows, depth], B [depth, columns], C [rows, columns], bias [columns]

A, B and C may be stacks of such matrices (see matmul_batch.py).

Products and sums are f32, whatever the elements, but for f64.  A form is the order in which this is done:

    panels   a CPU's, of B copied a panel at a time       direct   a CPU's, without copies, for few rows or columns
    tiles    a GPU's, of A and B copied in tiles          dots     lanes along the depth, for a vector in the place of B
    units    a GPU's, on matrix units, of f16 and bf16; it has a schedule of its own
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import gcd, sqrt
from typing import Generic, Protocol, TypeVar

from ..ir.builder import Builder
from ..ir.program import MAX_LANES, Value
from ..ir.types import DataType
from ..records import dataclass
from .collective import SUBGROUP, as_type, elements, guarded, joined, offset
from .matmul_batch import first_rows, row_behind
from .powers_of_two import power_of
from .tiles import each_tile, tiles_of

__all__ = [
    "ACTIVATIONS",
    "Choice",
    "MatmulForm",
    "MatmulProblem",
    "MatmulSchedule",
    "finished",
    "gpu_tiles",
    "of_least_time",
    "rows_of",
]

ACTIVATIONS = ("none", "relu", "gelu", "silu")
"""Activations by their numbers, the kernel's parameter `activation`."""

MOST_SUMS = 64
"""Most sums that a lane holds at a time: they are in registers of a GPU."""

MOST_ROWS = 1024
"""Most rows of a block, or positions of a step, which take workgroup memory."""

MOST_UNROLLED = 32
"""Most positions of a step without a loop: compile time grows with the code."""

MANY = 1 << 14
"""Rows, where they are not known."""

F32 = DataType.F32


class BlockSchedule(Protocol):
    """A schedule whose workgroups have a block of C each."""

    @property
    def block_m(self) -> int: ...

    @property
    def block_n(self) -> int: ...

    def grid(self, rows: int, columns: int) -> int: ...


S = TypeVar("S", bound=BlockSchedule)


@dataclass(frozen=True)
class MatmulProblem:
    """Shape and types of a product; `depth` and `columns` None are the runtime scalars @depth and @columns, `bias` None means none.

    `dtype`: element type of A and B; `out`, `bias`: element types of C and of the bias, f32 or `dtype`.
    `pitches`: elements from a row of A to the next, and of B, where rows are longer than the problem; on matrix units only.
    What A has there along the depth is zero.
    `axes`: of stacks, see matmul_batch.py; from one on, `rows` of a matrix are the runtime scalar @rows.
    `multiples`: powers of two that @depth and @columns are multiples of, where they are runtime scalars.
    """

    depth: int | None = None
    columns: int | None = None
    dtype: DataType = F32
    out: DataType = F32
    bias: DataType | None = None
    activation: int = 0
    pitches: tuple[int, int] | None = None
    axes: int = 0
    multiples: tuple[int, int] = (1, 1)

    @property
    def sums(self) -> DataType:
        """The type of products and sums."""
        return DataType.F64 if self.dtype is DataType.F64 else F32

    @property
    def vector(self) -> int:
        """Sums in 16 bytes: so many elements a lane of a GPU moves at a time where rows are multiples of them."""
        return 2 if self.sums is DataType.F64 else 4


@dataclass(frozen=True)
class MatmulSchedule:
    """`lanes` of a workgroup, `lanes_n` of them side by side over columns; the others are over rows, or, of a single subgroup
    with `lanes_n` 1, along the depth.

    A lane has the sums of `rows_per_thread` times `columns_per_thread` elements of C at a time: columns are `lanes_n` apart,
    and in form `tiles` runs of up to 16 bytes side by side.
    `block_m`: rows of C of a workgroup.  `block_k`: how far along the depth A and B are in workgroup memory at a time;
    0 reads them where they are.  `unroll`: positions of such a step in a row without a loop, on a GPU.
    `prefetch`: of these, one is loaded from workgroup memory while the one before is multiplied; of whole steps that are unrolled.
    `strided`: right for every grid.
    """

    lanes: int = 32
    lanes_n: int = 32
    rows_per_thread: int = 6
    columns_per_thread: int = 2
    block_m: int = 192
    block_k: int = 192
    unroll: int = 1
    prefetch: bool = False
    strided: bool = False

    def __post_init__(self) -> None:
        if not SUBGROUP <= self.lanes <= MAX_LANES or self.lanes % SUBGROUP:
            raise ValueError(f"a workgroup has whole subgroups, {MAX_LANES} lanes at most: {self}")
        if not 1 <= self.lanes_n <= self.lanes or self.lanes % self.lanes_n:
            raise ValueError(f"lanes side by side are a divisor of all: {self}")
        if (
            not 1 <= self.rows_per_thread
            or not 1 <= self.columns_per_thread
            or self.rows_per_thread * self.columns_per_thread > MOST_SUMS
        ):
            raise ValueError(f"a lane has 1 to {MOST_SUMS} sums: {self}")
        if not 1 <= self.block_m <= MOST_ROWS or not 0 <= self.block_k <= MOST_ROWS:
            raise ValueError(f"block_m and block_k are {MOST_ROWS} at most: {self}")
        if self.form == "tiles" and (
            not self.block_k or self.block_m * self.lanes_n != self.rows_per_thread * self.lanes
        ):
            raise ValueError(
                f"lanes over rows have a block_k of 1 or more, and the sums of a whole block in registers: {self}"
            )
        if self.form == "tiles" and self.block_k * gcd(self.block_m, self.block_n) % self.lanes:
            raise ValueError(f"all lanes copy as many elements of A, and of B, for a block_k: {self}")
        if not 1 <= self.unroll <= MOST_UNROLLED or (self.form == "tiles" and self.block_k % self.unroll):
            raise ValueError(f"unroll divides block_k, and is {MOST_UNROLLED} at most: {self}")
        if self.prefetch and (self.form != "tiles" or self.unroll != self.block_k):
            raise ValueError(f"prefetch takes whole steps in workgroup memory, unroll = block_k: {self}")

    @property
    def form(self) -> str:
        """The name of its form among the FORMS of matmul_program."""
        if self.lanes == SUBGROUP and self.lanes_n == 1:
            return "dots"
        if self.lanes == SUBGROUP and self.lanes_n == SUBGROUP:
            return "panels" if self.block_k else "direct"
        return "tiles"

    @property
    def block_n(self) -> int:
        """Columns of C of a workgroup at a time."""
        return self.lanes_n * self.columns_per_thread

    def grid(self, rows: int, columns: int) -> int:
        """Workgroups for a product of `rows` x `columns`."""
        return -(-rows // self.block_m) * -(-columns // self.block_n)


def gpu_tiles(
    block_m: int,
    block_n: int,
    block_k: int,
    rows_per_thread: int,
    columns_per_thread: int,
    unroll: int = 0,
    prefetch: bool = False,
) -> MatmulSchedule:
    """The schedule of form `tiles` for blocks of C of such a size; `unroll` 0: whole steps."""
    lanes_n = block_n // columns_per_thread
    lanes = lanes_n * (block_m // rows_per_thread)
    return MatmulSchedule(
        lanes,
        lanes_n,
        rows_per_thread,
        columns_per_thread,
        block_m,
        block_k,
        unroll or block_k,
        prefetch,
    )


@dataclass(frozen=True)
class Choice(Generic[S]):
    """A schedule for a GPU, and the rates at which a multiprocessor makes blocks of it, of several at once and of one `alone`, beside
    the rate of the first of the choices; `alone` None: the same."""

    schedule: S
    rate: float
    alone: float | None = None


def of_least_time(
    choices: Iterable[Choice[S]], rows: int | None, columns: int, multiprocessors: int, matrices: int
) -> S:
    """The schedule of the least time for products of `rows` (None: unknown, many) x `columns`, as many as `matrices`, by the
    blocks that the busiest of so many multiprocessors makes."""

    def cost(choice: Choice[S]) -> float:
        schedule = choice.schedule
        blocks = matrices * schedule.grid(MANY if rows is None else rows, columns)
        together = -(-blocks // multiprocessors) / choice.rate
        return max(together, 1 / (choice.alone or choice.rate)) * schedule.block_m * schedule.block_n

    return min(choices, key=cost).schedule


class MatmulForm:
    """Builds the body of a program in `b`, which declares the buffers of `problem` and nothing else.

    A subclass implements `block`, and declares its workgroup memory when it is made.
    """

    def __init__(self, b: Builder, problem: MatmulProblem, schedule: MatmulSchedule) -> None:
        self.b, self.problem, self.schedule, self.sums = b, problem, schedule, problem.sums
        depth_multiple, columns_multiple = problem.multiples
        self.depth = _size(b, "depth", problem.depth, depth_multiple)
        self.columns = _size(b, "columns", problem.columns, columns_multiple)
        self.depth_multiple = power_of(problem.depth or depth_multiple, problem.vector)
        self.columns_multiple = power_of(problem.columns or columns_multiple, problem.vector)
        self.rows = rows_of(b, problem, self.depth)
        self.first: dict[str, Value] = {}

    def build(self) -> None:
        b, schedule = self.b, self.schedule
        tiles_n = tiles_of(b, self.columns, schedule.block_n)
        of_matrix = tiles = b.mul(tiles_of(b, self.rows, schedule.block_m), tiles_n)
        if self.problem.axes:
            tiles = b.mul(tiles, b.div(b.len("c"), b.mul(self.rows, self.columns)))
        with each_tile(b, tiles, schedule.strided) as tile:
            if self.problem.axes:
                matrix, tile = b.div(tile, of_matrix), b.rem(tile, of_matrix)
                self.first = first_rows(b, self.problem.axes, matrix, self.rows, self.depth)
            row = b.mul(b.div(tile, tiles_n), schedule.block_m, name="row")
            self.block(row, b.mul(b.rem(tile, tiles_n), schedule.block_n, name="column"))

    def block(self, row: Value, column: Value) -> None:
        """Compute the block of C whose first element is at (row, column), as far as it lies in C."""
        raise NotImplementedError

    def each_rows(self, row: Value, body: Callable[[Sequence[Value]], None]) -> None:
        """`body(rows)` for the rows of the block from `row` on, `rows_per_thread` at a time, then those left over
        one by one."""
        b, schedule = self.b, self.schedule
        end = b.add(row, b.min(b.sub(self.rows, row), schedule.block_m), name="end")
        whole = b.sub(end, b.rem(b.sub(end, row), schedule.rows_per_thread), name="whole")
        with b.for_(row, whole, schedule.rows_per_thread, dtype=DataType.U32) as rows:
            body([offset(b, rows.index, k) for k in range(schedule.rows_per_thread)])
        with b.for_(whole, end, dtype=DataType.U32) as rest:
            body([rest.index])

    def put(self, totals: Sequence[Value], row: Value, column: Value, exists: Value) -> None:
        """Store neighbours of a row of C, given the sums of their products, where these exist."""
        b = self.b
        with b.if_(exists):
            b.store(
                finished(b, self.problem, totals, column), "c", self.index("c", row, self.columns, column)
            )

    def index(self, buffer: str, row: Value, length: Value, column: Value) -> Value:
        """The index of an element of a matrix in its buffer, whose rows have a `length`."""
        b = self.b
        return b.add(b.mul(row_behind(b, self.first.get(buffer), row), length), column)

    def element(self, buffer: str, row: Value, length: Value, column: Value, exists: Value) -> Value:
        """An element of A or B, whose rows have a `length`, of the type of sums; 0 where it does not exist."""
        b = self.b

        def load() -> Value:
            return as_type(b, b.load(buffer, self.index(buffer, row, length, column)), self.sums)

        return guarded(b, exists, load)


def rows_of(b: Builder, problem: MatmulProblem, length: Value | int) -> Value:
    """Rows of a matrix of A, which are `length` elements apart."""
    if problem.axes:
        return b.param("rows", DataType.U32)
    return b.div(b.len("a"), length, name="rows")


def _size(b: Builder, name: str, size: int | None, multiple: int) -> Value:
    if size is not None:
        return b.const(size, name=name)
    known = b.param(name, DataType.U32)
    # changes nothing, and is what the alignment of vectors is known by
    return known if multiple == 1 else b.and_(known, (1 << 32) - multiple)


def finished(b: Builder, problem: MatmulProblem, totals: Sequence[Value], column: Value) -> Value:
    """The elements of C, side by side from `column` on, given the sums of their products."""
    if problem.bias is not None:
        biases = elements(b, b.load("bias", column, len(totals)))
        totals = [
            b.add(total, as_type(b, bias, problem.sums)) for total, bias in zip(totals, biases, strict=True)
        ]
    return joined(b, [as_type(b, activated(b, total, problem.activation), problem.out) for total in totals])


def activated(b: Builder, x: Value, activation: int) -> Value:
    """The activation of a sum, by its number."""
    match ACTIVATIONS[activation]:
        case "relu":
            # not max, which ignores a NaN
            return b.select(b.lt(x, 0.0), b.const(0.0, x.type), x)
        case "gelu":
            return b.mul(b.mul(x, 0.5), b.add(b.erf(b.mul(x, sqrt(0.5))), 1.0))
        case "silu":
            return b.div(x, b.add(b.exp(b.neg(x)), 1.0))
    return x
