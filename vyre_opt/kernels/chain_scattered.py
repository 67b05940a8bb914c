"""tt.chain over a cluster of workgroups, each of which owns rows of every core, for several vectors.

A workgroup owns neighbouring elements of every vector, in @own, and the rows of a core that they are multiplied with.  A lane
has `vector` neighbouring columns of all these rows:

    columns                    0..3    4..7    8..11   ...       lane = column / vector
    workgroup 0, rows 0..31     ##      ##      ##
    workgroup 1, rows 32..63    ##      ##      ##

So a lane's sums need no other lane's.  It sends them to the workgroup that owns these elements in the next step, in
whose part of @inbox each workgroup has a place of its own:

    for each owner, for each of two turns, for each sender:  the owner's elements, vector by vector

After a barrier the owner adds up what all have sent.  The two turns make one barrier of the cluster a step enough.

Where chain_spread sends each sum to all workgroups, once it is complete, this sends parts of sums to one each.  That are as
many bytes, but a few vectors can be sent while the next are multiplied, and nobody waits for shuffles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, product
from math import gcd
from operator import itemgetter

from ..ir.builder import Builder
from ..ir.program import Buffer, Program, Value
from ..ir.types import DataType
from ..records import dataclass
from .chain_steps import ChainSteps, chain_steps, largest_core
from .collective import SUBGROUP, elements, guarded, offset
from .multiply_add import multiply_add, signed, stored, zero
from .targets import REGISTERS, clusters_at_once, widest_cluster, workgroup_bytes

__all__ = ["ScatterSchedule", "best_scatter", "build_scattered", "can_scatter", "scattered_bytes"]

UNIT = 4  # elements that are loaded from workgroup memory at a time; an owner has a multiple of them
MAX_HELD = 128  # values of a core that a lane has the registers for
MORE_BYTES = 192  # of a workgroup's memory, for alignment and barriers
RESERVED = 1 << 10  # bytes of each workgroup's memory that are the GPU's own
OTHERS = 48  # registers of a lane for all but the core, at most
MAX_LANES = 768
TURNS = 2
WIDTHS = (1, 2, UNIT)  # columns of a lane
TOGETHER = (1, 2, 3, 5, 8, 10)  # vectors of a cluster

SCHEDULERS = 4  # of a multiprocessor: with no more subgroups each of them has one

# Fitted to 4,000 schedules, of 143 ranks and numbers of vectors, on an H200
STEP = 400  # loads of UNIT own elements by a subgroup that take as long as a step without any work
CELLS = 5  # loads of a core by a subgroup that take as long as one such load
RECEIVED = 16  # elements to add up that take as long
USUAL_OTHERS = 40  # registers of a lane for all but the core, mostly


@dataclass(frozen=True)
class ScatterSchedule:
    """`lanes` of each of `workgroups`.  `vectors_per_send`: vectors that a lane multiplies before it sends their sums."""

    lanes: int
    workgroups: int
    vectors_per_send: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.lanes <= MAX_LANES or self.workgroups < 2 or self.vectors_per_send < 1:
            raise ValueError(
                f"1 to {MAX_LANES} lanes of at least 2 workgroups, sums of at least 1 vector: {self}"
            )


@dataclass(frozen=True, slots=True)
class _Layout:
    """Layout of a core of `rows` by `columns` over so many workgroups and lanes."""

    rows: int
    columns: int
    workgroups: int
    lanes: int

    @property
    def vector(self) -> int:
        """Columns of a lane; 0 if there are too many."""
        return next((w for w in WIDTHS if self.columns % w == 0 and self.columns <= w * self.lanes), 0)

    @property
    def own_rows(self) -> int:
        return _own(self.rows, self.workgroups)

    @property
    def own_columns(self) -> int:
        """Elements of an owner in the next step."""
        return _own(self.columns, self.workgroups)

    @property
    def held(self) -> int:
        """Values of a core that a lane holds."""
        return self.own_rows * self.vector


def _own(rank: int, workgroups: int) -> int:
    return -(-rank // (workgroups * UNIT)) * UNIT


def can_scatter(ranks: Sequence[int], workgroups: int, lanes: int) -> bool:
    """Whether the lanes of a workgroup have the registers for its rows of every core."""
    most = min(MAX_HELD, REGISTERS // lanes - OTHERS)
    layouts = (_Layout(rows, columns, workgroups, lanes) for rows, columns in set(pairwise(ranks)))
    return workgroups > 1 and lanes % SUBGROUP == 0 and all(0 < layout.held <= most for layout in layouts)


def best_scatter(ranks: Sequence[int], target: str, count: int) -> tuple[ScatterSchedule, int] | None:
    """The schedule that is the fastest for `count` vectors, and how many of them a cluster takes; None if none can do it."""
    most = widest_cluster(target)
    if most < 2:
        return None
    memory, (rows, columns) = workgroup_bytes(target), largest_core(ranks)
    choices = list[tuple[tuple[float, int], ScatterSchedule, int]]()
    for size, width, vectors in product(sorted({min(most, 8), most}), WIDTHS, TOGETHER):
        workgroups = -(-rows // _own(rows, size))  # those that have rows
        lanes = -(-max(ranks[1:]) // (width * SUBGROUP)) * SUBGROUP
        used = scattered_bytes(ranks, workgroups, vectors)
        if lanes > MAX_LANES or used > memory or not can_scatter(ranks, workgroups, lanes):
            continue
        layout = _Layout(rows, columns, workgroups, lanes)
        resident = min(REGISTERS // (lanes * (layout.held + USUAL_OTHERS)), memory // (used + RESERVED)) or 1
        schedule, cost = _with_cost(layout, resident, vectors, count)
        choices.append(((cost, -lanes), schedule, vectors))
    return min(choices, key=itemgetter(0))[1:] if choices else None


def _with_cost(layout: _Layout, resident: int, vectors: int, count: int) -> tuple[ScatterSchedule, float]:
    """The schedule for a core, and how long a step takes for all `count` vectors, `vectors` of them in each cluster;
    `resident`: workgroups that a multiprocessor has room for."""
    workgroups, lanes = layout.workgroups, layout.lanes
    clusters, at_once = -(-count // vectors), clusters_at_once(workgroups)
    shared = min(resident, -(-clusters // at_once))  # workgroups that share a multiprocessor
    subgroups = max(SCHEDULERS, shared * lanes // SUBGROUP)
    owned = vectors * layout.own_rows
    loads = subgroups * (owned / UNIT + layout.held / CELLS) + shared * owned * workgroups / RECEIVED
    cost = -(-clusters // (at_once * resident)) * (STEP + loads)
    # a scheduler that has but one subgroup is kept busy by more sums at a time
    return ScatterSchedule(lanes, workgroups, vectors_per_send=3 if subgroups == SCHEDULERS else 2), cost


def scattered_bytes(ranks: Sequence[int], workgroups: int, vectors: int) -> int:
    """Bytes of a workgroup's memory that the program takes at most, for `vectors` of 4 bytes an element."""
    widest = max(_own(rank, workgroups) for rank in ranks)
    return 4 * (1 + TURNS * workgroups) * vectors * widest + MORE_BYTES


def build_scattered(
    ranks: tuple[int, ...],
    dtype: DataType,
    schedule: ScatterSchedule,
    separate: bool,
    vectors: int,
) -> Program:
    """The program `chain` for clusters that take so many `vectors` each; `separate`: see `chain`.

    Raises ValueError for no vectors, and where `can_scatter` says no.
    """
    workgroups, lanes = schedule.workgroups, schedule.lanes
    if not vectors:
        raise ValueError("workgroups that own rows take vectors by batches, not one of fixed length")
    if not can_scatter(ranks, workgroups, lanes):
        raise ValueError(
            f"cores of ranks {list(ranks)} do not fit the registers of {workgroups} x {lanes} lanes"
        )
    b = Builder("chain", workgroup=lanes, cluster=workgroups)
    acc = b.buffer("acc", dtype, None, "read", 0)
    steps = chain_steps(b, ranks, dtype, separate)
    out = b.buffer("out", dtype, None, "write", len(b.program.buffers), live_out=True)
    scattered = _Scattered(b, ranks, dtype, schedule, vectors, acc, out)
    scattered.begin(acc)
    done = 0
    for each in steps:
        _ScatteredStep(scattered, each).repeat(each.times, done)
        done += each.times
    scattered.put(out)
    return b.finish(verify=False)


class _Scattered:
    """State shared by all steps.  `number`: index of the workgroup in its cluster.  `first_vector`: first vector of the cluster.  `widest`: most elements of
    an owner; `block`: the same for all vectors."""

    def __init__(
        self,
        b: Builder,
        ranks: tuple[int, ...],
        dtype: DataType,
        schedule: ScatterSchedule,
        vectors: int,
        acc: Buffer,
        out: Buffer,
    ) -> None:
        self.b, self.ranks, self.dtype = b, ranks, dtype
        self.workgroups, self.lanes, self.vectors = schedule.workgroups, schedule.lanes, vectors
        self.vectors_per_send = schedule.vectors_per_send
        self.widest = max(_own(rank, self.workgroups) for rank in ranks)
        self.block = vectors * self.widest
        kind = zero(b, dtype).type
        self.inbox = b.buffer("inbox", kind, TURNS * self.workgroups**2 * self.block, "cluster")
        self.owned = b.buffer("own", kind, self.block, "workgroup")
        self.lane, group = b.local_id("x"), b.workgroup_id("x")
        self.number = b.rem(group, self.workgroups)
        self.first_vector = b.mul(b.div(group, self.workgroups), vectors)
        self.count = b.min(b.div(b.len(acc), ranks[0]), b.div(b.len(out), ranks[-1]))

    def begin(self, acc: Buffer) -> None:
        """Load the own elements of the vectors from @acc."""
        b = self.b
        with self.each_own(self.ranks[0]) as (spot, index, exists):
            b.store(guarded(b, exists, lambda: signed(b, b.load(acc, index))), self.owned, spot)
        b.barrier("workgroup")

    def put(self, out: Buffer) -> None:
        """Store the own elements of the vectors to @out."""
        b = self.b
        with self.each_own(self.ranks[-1]) as (spot, index, exists):
            total = b.load(self.owned, spot)
            with b.if_(exists):
                b.store(stored(b, total, self.dtype), out, index)

    @contextmanager
    def each_own(self, rank: int) -> Iterator[tuple[Value, Value, Value]]:
        """Emits the body for each own element of vectors of `rank`: where it is in @own and in storage, and whether there is one."""
        b, owned = self.b, _own(rank, self.workgroups)
        with b.for_(self.lane, self.vectors * owned, self.lanes) as loop:
            number, at = self.vector_of(loop.index, owned), b.rem(loop.index, owned)
            vector, element = b.add(self.first_vector, number), b.add(b.mul(self.number, owned), at)
            exists = b.and_(b.lt(vector, self.count), b.lt(element, rank))
            index = b.add(b.mul(vector, rank), b.min(element, rank - 1))
            yield b.add(b.mul(number, self.widest), at), index, exists

    def vector_of(self, index: Value, owned: int) -> Value:
        """The number of the vector that an element is of, when there are so many of each."""
        # the minimum says what a loop's end does, for the proof that no access is out of bounds
        return self.b.min(self.b.div(index, owned), self.vectors - 1)

    def of_turn(self, owner: Value, turn: Value) -> Value:
        """Offset in @inbox at which a turn of an owner begins."""
        b, length = self.b, self.workgroups * self.block
        return b.add(b.mul(owner, TURNS * length), b.mul(turn, length))


class _ScatteredStep:
    """Emits steps with cores of one shape."""

    def __init__(self, scattered: _Scattered, steps: ChainSteps) -> None:
        self.scattered, self.b = scattered, scattered.b
        self.cores, self.start, self.size = steps.buffer, steps.start, steps.size
        self.layout = _Layout(steps.rows, steps.columns, scattered.workgroups, scattered.lanes)
        b, layout = self.b, self.layout
        self.first_row = b.mul(scattered.number, layout.own_rows)
        self.column = b.mul(scattered.lane, layout.vector)
        own_lanes = layout.own_columns // layout.vector  # that have columns of one owner
        self.owner = b.min(b.div(scattered.lane, own_lanes), scattered.workgroups - 1)
        self.ahead = b.add(
            b.mul(scattered.number, scattered.block), b.mul(b.rem(scattered.lane, own_lanes), layout.vector)
        )
        # None: every lane has columns
        all_have = layout.vector * layout.lanes == layout.columns
        self.has_columns = None if all_have else b.lt(self.column, layout.columns)

    def repeat(self, times: int, done: int) -> None:
        """Emit `times` steps, after `done` earlier ones."""
        b = self.b
        cells = self.load(b.const(self.start))
        if times == 1:
            self.step(cells, b.const(done % TURNS), None)
            return
        with b.for_(0, times, carry=cells) as loop:
            # clamped: there is no core after the last
            following = b.min(b.add(loop.index, 1), times - 1)
            turn = b.rem(b.add(loop.index, done), TURNS)
            loop.yield_(*self.step(loop.args, turn, following))

    def load(self, start: Value) -> list[Value]:
        """This lane's part of the core at `start`, a vector for each row."""
        b, layout = self.b, self.layout
        column = self.column
        if self.has_columns is not None:  # the last ones by a lane that has none
            column = b.min(column, layout.columns - layout.vector)
        first = b.add(b.add(start, column), b.mul(self.first_row, layout.columns))
        indices = [offset(b, first, k * layout.columns) for k in range(layout.own_rows)]
        # rows that the last workgroup, and so each one, has; of the others so many exist together, or none
        everywhere = max(0, layout.rows - layout.own_rows * (layout.workgroups - 1))
        together = gcd(layout.rows, UNIT)
        cells: list[Value] = [
            b.load(self.cores, index, lanes=layout.vector) for index in indices[:everywhere]
        ]
        for k in range(everywhere, layout.own_rows, together):
            with b.if_(b.lt(offset(b, self.first_row, k + together - 1), layout.rows)) as branch:
                found = [
                    b.load(self.cores, index, lanes=layout.vector) for index in indices[k : k + together]
                ]
                branch.yield_(*found)
            with branch.else_():
                branch.yield_(*(b.const(0, cell.type) for cell in found))
            cells += branch.results
        return cells

    def step(self, cells: Sequence[Value], turn: Value, following: Value | None) -> list[Value]:
        """Emit a step by the core in `cells`; gives the core with the number `following`, if there is one."""
        b, scattered = self.b, self.scattered
        for first in range(0, scattered.vectors, scattered.vectors_per_send):
            numbers = range(first, min(first + scattered.vectors_per_send, scattered.vectors))
            self.send(self.multiply(cells, numbers), numbers, turn)
        fetched = list[Value]()
        if following is not None:  # on its way while the sums are sent and added up
            fetched = self.load(b.add(b.mul(following, self.size), self.start))
        b.barrier("cluster")
        self.add_up(turn)
        b.barrier("workgroup")
        return fetched

    def multiply(self, cells: Sequence[Value], numbers: range) -> list[Value]:
        """This lane's sums over the own rows, of the vectors with these numbers."""
        b, scattered = self.b, self.scattered
        factors = [signed(b, cell) for cell in cells]
        totals = [zero(b, scattered.dtype, self.layout.vector)] * len(numbers)
        for row in range(0, self.layout.own_rows, UNIT):
            for at, number in enumerate(numbers):
                index = b.const(number * scattered.widest + row)
                for k, x in enumerate(elements(b, b.load(scattered.owned, index, lanes=UNIT))):
                    totals[at] = multiply_add(b, x, factors[row + k], totals[at])
        return totals

    def send(self, totals: Sequence[Value], numbers: range, turn: Value) -> None:
        """Store sums to the part of @inbox of who owns these elements."""
        b, scattered = self.b, self.scattered
        start = b.add(scattered.of_turn(self.owner, turn), self.ahead)

        def store() -> None:
            for number, total in zip(numbers, totals, strict=True):
                b.store(total, scattered.inbox, offset(b, start, number * scattered.widest))

        if self.has_columns is None:
            store()
            return
        with b.if_(self.has_columns):
            store()

    def add_up(self, turn: Value) -> None:
        """Add up what all workgroups have sent to this one."""
        b, scattered, layout = self.b, self.scattered, self.layout
        is_even = layout.own_columns * scattered.workgroups == layout.columns
        width = gcd(layout.columns, UNIT)  # all of so many elements exist, or none
        pieces = layout.own_columns // width
        start = scattered.of_turn(scattered.number, turn)
        with b.for_(scattered.lane, scattered.vectors * pieces, scattered.lanes) as loop:
            number = scattered.vector_of(loop.index, pieces)
            element = b.mul(b.rem(loop.index, pieces), width)
            index = b.add(b.mul(number, scattered.widest), element)
            column = b.add(b.mul(scattered.number, layout.own_columns), element)
            exists = None if is_even else b.lt(column, layout.columns)
            total = guarded(b, exists, lambda: self.total(b.add(start, index), width))
            b.store(total, scattered.owned, index)

    def total(self, first: Value, width: int) -> Value:
        """The sum of what each workgroup has sent, of so many elements; that of the first is at `first`."""
        b, scattered = self.b, self.scattered
        indices = [offset(b, first, sender * scattered.block) for sender in range(scattered.workgroups)]
        total, *others = [b.load(scattered.inbox, index, lanes=width) for index in indices]
        for sent in others:
            total = b.add(total, sent)
        return total
