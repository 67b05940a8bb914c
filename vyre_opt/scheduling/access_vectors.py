"""Vectors of accesses: loads and stores of neighbouring elements become one of a vector.

    %a = load @x[%i]           %v = load @x[%i] : vec<4 x f32>
    %b = load @x[%i + 1]       %a = extract %v[0]
    %c = load @x[%i + 2]   ->  %b = extract %v[1]
    %d = load @x[%i + 3]       ...

Loads move up to the first of their group, stores down to the last.  Each of these facts must
hold, and a remark names the one that is missing:

    neighbours   the indices of the last dimension, in one row, differ by constants (`LinearAnalysis`), so they are known to differ
    alignment    the first index is a multiple of the lanes: the vector is aligned, since buffers start
                 at multiples of 16 bytes, and an index that wraps around wraps between vectors
    one block    all of them run if one does, so the vector accesses no other elements
    nothing between   no access that may be of the same element, no barrier or ordered atomic, nothing
                 that may stop the program
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import pairwise

from ..analysis.alignment import Alignment
from ..analysis.effects import Effects, effects_of, summarize
from ..analysis.linear import LinearAnalysis, Terms
from ..fusion.remark_sink import RemarkSink
from ..ir.ops import OPS
from ..ir.program import Block, Op, Program, Unnamed, Value
from ..ir.types import DataType
from ..records import dataclass

__all__ = ["vectorize"]

WIDTH = 16
"""Bytes of the widest access of a lane of a GPU."""


def vectorize(program: Program, sink: RemarkSink, width: int = WIDTH) -> int:
    """Rewrite a program's accesses, in place; return the number of vectors.  `width`: bytes of the widest vector."""
    vectorizer = _Vectorizer(program, sink, width)
    vectorizer.block(program.body)
    vectorizer.remark_missing()
    return vectorizer.vectors


@dataclass(frozen=True, slots=True)
class _Base:
    """Key shared by accesses of neighbours: the buffer, and the index without its constant.

    `row`: indices of the outer dimensions.  `length`: elements of a row, if known.
    """

    is_store: bool
    buffer: str
    dtype: DataType
    index: DataType
    terms: Terms
    row: tuple[Value, ...] = ()
    length: int | None = None


@dataclass(slots=True, eq=False)
class _Group:
    """Accesses of one base that may move together.

    `stored_offsets`: offsets of stores after its first load; no load of the group may move past them.  `end_reason`:
    why no more accesses may join, for a remark; empty as long as they may.
    """

    base: _Base
    by_offset: dict[int, list[_Access]] = field(default_factory=dict)
    stored_offsets: set[int] = field(default_factory=set)
    end_reason: str = ""


@dataclass(slots=True, eq=False)
class _Access:
    """A scalar access, op number `position` of its block; `lanes` of the vector it joins, 1 for none."""

    op: Op
    position: int
    offset: int
    block: Block
    group: _Group
    lanes: int = 1


class _Vectorizer:
    def __init__(self, program: Program, sink: RemarkSink, width: int) -> None:
        self.program, self.sink, self.width = program, sink, width
        self.linear = LinearAnalysis(program, Alignment(program))
        self.effects = summarize(program.body)[1]
        self.accesses: dict[_Base, list[_Access]] = {}
        self.open: dict[_Base, _Group] = {}
        self.positions: dict[object, tuple[Block, int]] = {}
        self.vectors = 0
        self.numbers: dict[Op, int] = {}  # in program order, before the pass

    # --- groups: what may move together ------------------------------------------------

    def block(self, block: Block) -> None:
        outer, self.open = self.open, {}
        groups: list[_Group] = []
        for position, op in enumerate(block.ops):
            self.positions[op] = (block, position)
            self.numbers[op] = len(self.numbers)
            for inner in op.regions:
                self.block(inner)
            base, offset = self.base(op)
            if base is None:
                self.end_groups_at_op(op, self.effects.get(op) or effects_of(op))
                continue
            self.end_groups_at_access(base, offset)
            group = self.open.get(base)
            if group is None:
                group = self.open[base] = _Group(base)
                groups.append(group)
            access = _Access(op, position, offset, block, group)
            group.by_offset.setdefault(offset, []).append(access)
            self.accesses.setdefault(base, []).append(access)
        self.open = outer
        self.vectorize(block, groups)

    def base(self, op: Op) -> tuple[_Base | None, int]:
        """The base of a plain access of one scalar, and its constant offset; None for any other op."""
        if op.name not in ("load", "store"):
            return None, 0
        # vectors, and elements that are neither integers nor floats, stay
        dtype = op.operands[0].type if op.name == "store" else op.result.type
        buffer = self.program.buffers[op.attrs["buffer"]]
        if dtype is not buffer.dtype or not (dtype.is_int or dtype.is_float):
            return None, 0
        *row, index = op.indices
        terms, const = self.linear.of(index)
        length = buffer.shape[-1] if row else None
        base = _Base(op.name == "store", buffer.name, dtype, index.type, terms, tuple(row), length)
        return base, const

    def end_groups_at_access(self, base: _Base, offset: int) -> None:
        """End the groups that may not move past this access of one scalar."""
        verb = "store" if base.is_store else "load"
        for other in list(self.open):
            if other.buffer != base.buffer or not (other.is_store or base.is_store):
                continue
            group = self.open[other]
            is_comparable = (other.index, other.terms, other.row) == (base.index, base.terms, base.row)
            if not is_comparable:
                self.end(group, f"a {verb} between them may be of the same element of @{base.buffer}")
            elif other.is_store and offset in group.by_offset:
                self.end(group, f"a {verb} between them is of the same element of @{base.buffer}")
            elif not other.is_store:
                group.stored_offsets.add(offset)  # a later load at this offset may not move up past the store
        open_group = self.open.get(base)
        if open_group is not None and offset in open_group.stored_offsets:
            self.end(open_group, f"a store between them is of the same element of @{base.buffer}")

    def end_groups_at_op(self, op: Op, effects: Effects) -> None:
        """End the groups that may not move past an op other than an access of one scalar."""
        for base, group in list(self.open.items()):
            conflicting = effects.writes | effects.reads if base.is_store else effects.writes
            if effects.orders:
                self.end(group, f"{_with_article(op)} between them orders memory")
            elif effects.stops:
                self.end(group, f"{_with_article(op)} between them may stop the program")
            elif base.buffer in conflicting:
                self.end(
                    group, f"{_with_article(op)} between them may be of the same element of @{base.buffer}"
                )

    def end(self, group: _Group, reason: str) -> None:
        base = group.base
        verb = "stores" if base.is_store else "loads"
        self.sink.debug("{} {} of @{} are together: {}", len(group.by_offset), verb, base.buffer, reason)
        group.end_reason = reason
        del self.open[group.base]

    # --- vectors -----------------------------------------------------------------------

    def vectorize(self, block: Block, groups: Sequence[_Group]) -> None:
        """Replace accesses of the groups by vectors where they fit, and rebuild the block if there are any."""
        new_ops: dict[int, list[Op]] = {}  # position of an op -> its replacement
        for group in groups:
            for lanes, accesses in self.windows(group):
                position, ops = (_vector_store if group.base.is_store else _vector_load)(
                    group.base, lanes, accesses
                )
                new_ops.update((access.position, []) for same in accesses for access in same)
                new_ops[position] = ops
                self.vectors += 1
                self.remark_applied(group.base, accesses)
        if new_ops:
            block.ops = [new for position, op in enumerate(block.ops) for new in new_ops.get(position, [op])]

    def windows(self, group: _Group) -> Iterator[tuple[int, list[list[_Access]]]]:
        """Aligned runs of 2^k neighbours, widest first.  Accesses are listed by lane: several may be of one element."""
        vectorized_offsets: set[int] = set()
        lanes = self.width // (group.base.dtype.size_bytes or self.width)
        while lanes > 1:
            for offset in sorted(group.by_offset):
                span = range(offset, offset + lanes)
                if all(o in group.by_offset and o not in vectorized_offsets for o in span) and self.fits(
                    group, offset, lanes
                ):
                    vectorized_offsets.update(span)
                    accesses = [group.by_offset[o] for o in span]
                    for access in (access for same in accesses for access in same):
                        access.lanes = lanes
                    yield lanes, accesses
            lanes //= 2

    def fits(self, group: _Group, offset: int, lanes: int) -> bool:
        """Whether a vector of `lanes` may start at `offset`: aligned, and its index known in time."""
        first = group.by_offset[offset][0]
        if lanes > 1 << self.linear.zeros(first.op.indices[-1]) or not _rows_are_aligned(group.base, lanes):
            self.sink.debug(
                "no vector of {} lanes of @{} here: its index is known to be a multiple of 2^{}",
                lanes,
                group.base.buffer,
                self.linear.zeros(first.op.indices[-1]),
                loc=first.op.loc,
            )
            return False
        if group.base.is_store:  # a vector store stands at the last store, where all indices are defined
            return True
        start = min(a.position for o in range(offset, offset + lanes) for a in group.by_offset[o])
        return self.is_defined_before(first, start)

    def is_defined_before(self, access: _Access, position: int) -> bool:
        """Whether the index of `access` is computed before `position` of its block."""
        block, definition = self.positions.get(access.op.indices[-1].owner, (None, 0))
        return block is not access.block or definition < position

    # --- remarks -----------------------------------------------------------------------

    def remark_applied(self, base: _Base, accesses: list[list[_Access]]) -> None:
        first = accesses[0][0].op
        verb, count = ("stores", len(accesses)) if base.is_store else ("loads", sum(map(len, accesses)))
        self.sink.remark(
            "applied",
            f"{count} {verb} of @{base.buffer} are one of vec<{len(accesses)} x {base.dtype}>",
            first.loc,
            claim="vector",
            program=self.program.name,
            lanes_of=[[self.numbers[access.op] for access in same] for same in accesses],
            buffer=base.buffer,
            lanes=len(accesses),
            multiple=1 << min(self.linear.zeros(first.indices[-1]), 63),
        )

    def remark_missing(self) -> None:
        """One remark for each base, on the first neighbours that are not in a vector together."""
        for base, accesses in self.accesses.items():
            ordered = sorted(accesses, key=lambda access: access.offset)
            for first, second in pairwise(ordered):
                if second.offset == first.offset + 1 and 1 in (first.lanes, second.lanes):
                    verb = "stores" if base.is_store else "loads"
                    self.sink.remark(
                        "refused",
                        f"{verb} of neighbours in @{base.buffer} stay apart: {self.missing(first, second)}",
                        max(first, second, key=lambda access: access.position).op.loc,
                        buffer=base.buffer,
                    )
                    break

    def missing(self, first: _Access, second: _Access) -> str:
        """The missing fact that keeps two neighbours out of one vector."""
        if first.block is not second.block:
            return "one of them may run without the other"
        if first.group is not second.group:
            return min(first, second, key=lambda access: access.position).group.end_reason
        if first.lanes > 1 or second.lanes > 1:
            return "the neighbours from a multiple on are no power of two, and one is left"
        if self.width < 2 * (first.group.base.dtype.size_bytes or self.width):
            return f"two of them are wider than width={self.width}"
        if not _rows_are_aligned(first.group.base, 2):
            length = "not known" if first.group.base.length is None else "odd"
            return f"rows of @{first.group.base.buffer} need not start at an even element: their length is {length}"
        index = first.op.indices[-1]
        if self.linear.zeros(index) == 0:
            return f"%{index.name} is not known to be even, and a vector starts at a multiple of its lanes"
        return f"%{index.name}, at which a vector would start, is computed after the first of them"


def _rows_are_aligned(base: _Base, lanes: int) -> bool:
    """Whether every row starts at a multiple of `lanes`, as a buffer of one dimension does."""
    return not base.row or (base.length is not None and base.length % lanes == 0)


def _with_article(op: Op) -> str:
    return f"{'an' if op.name[0] in 'aeiou' else 'a'} {op.name}"


def _vector_load(base: _Base, lanes: int, accesses: list[list[_Access]]) -> tuple[int, list[Op]]:
    """The position of the first load, and the ops for it: a vector's load, and each element extracted."""
    first = accesses[0][0].op
    vector = Value(first.result.name, DataType.vec(base.dtype, lanes))
    ops = [Op(OPS["load"], first.indices, (vector,), first.attrs, (), first.loc)]
    ops += [
        Op(OPS["extract"], (vector,), access.op.results, {"index": lane}, (), access.op.loc)
        for lane, same in enumerate(accesses)
        for access in same
    ]
    return min(access.position for same in accesses for access in same), ops


def _vector_store(base: _Base, lanes: int, accesses: list[list[_Access]]) -> tuple[int, list[Op]]:
    """The position of the last store, and the ops for it: the vector of the values, and its store."""
    stores = [same[0].op for same in accesses]
    last = max((same[0] for same in accesses), key=lambda access: access.position)
    values = tuple([store.operands[0] for store in stores])
    vector = Value(values[0].name, DataType.vec(base.dtype, lanes))
    store = Op(OPS["store"], (vector, *stores[0].indices), (), stores[0].attrs, (), stores[0].loc)
    return last.position, [*_vector_of(values, vector, last.op), store]


def _vector_of(values: tuple[Value, ...], vector: Value, like: Op) -> list[Op]:
    """Ops for the vector of some values; values that are casts are cast together, since GPUs round two at a time."""
    casts = [value.owner for value in values]
    sources = tuple([op.operands[0] for op in casts if isinstance(op, Op) and op.name == "cast"])
    types = {source.type for source in sources}
    if len(sources) < len(values) or len(types) > 1 or types.pop() is not DataType.F32:
        return [Op(OPS["vector"], values, (vector,), {}, (), like.loc)]
    wide = Value(Unnamed(f"{vector.name}_wide"), DataType.vec(DataType.F32, len(values)))
    return [
        Op(OPS["vector"], sources, (wide,), {}, (), like.loc),
        Op(OPS["cast"], (wide,), (vector,), {}, (), like.loc),
    ]
