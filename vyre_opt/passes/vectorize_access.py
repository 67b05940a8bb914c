"""Scalar loads and stores of neighbouring elements become accesses of vectors.

    %a = load @x[%i]           %v = load @x[%i] : vec<4 x f32>
    %b = load @x[%i + 1]       %a = extract %v[0]
    %c = load @x[%i + 2]   ->  %b = extract %v[1]
    %d = load @x[%i + 3]       ...

A group is moved together: loads up to the first of them, stores down to the last.  That
needs facts, and a remark names the one that is missing:

    neighbours   the indices differ by constants (`LinearAnalysis`), so the elements are known apart
    alignment    the first index is a multiple of the lanes: the vector is aligned, buffers starting
                 at multiples of 16 bytes, and an index that wraps around wraps around between vectors
    one block    all of them run if one does, so the vector reaches no element that they did not
    nothing between   no access that may be of the same element, no barrier or ordered atomic, nothing
                 that may stop the program
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ..analysis.alignment import Alignment
from ..analysis.effects import Effects, effects_of, summarize
from ..analysis.linear import LinearAnalysis, Terms
from ..ir.ops import OPS
from ..ir.program import Block, Module, Op, Program, Value
from ..ir.types import DataType
from .manager import Context
from .registry import Pass, register

MAX_WIDTH = 64


@dataclass(frozen=True)
class VectorizeOptions:
    """`width`: bytes of the widest vector."""

    width: int = 16

    def __post_init__(self) -> None:
        if not 2 <= self.width <= MAX_WIDTH or self.width & (self.width - 1):
            raise ValueError(f"width is a power of two from 2 to {MAX_WIDTH}, not {self.width}")


@register
class VectorizeAccess(Pass):
    name = "vectorize_access"
    summary = "Join loads and stores of neighbouring elements into accesses of vectors."
    Options = VectorizeOptions

    def run(self, module: Module, ctx: Context) -> bool:
        vectors = 0
        for program in module.programs.values():
            walk = _Walk(program, ctx, self.options.width)
            walk.block(program.body)
            walk.explain()
            vectors += walk.vectors
        ctx.count("vector accesses made", vectors)
        return vectors > 0


@dataclass(frozen=True, slots=True)
class _Base:
    """What neighbours have in common: the buffer, and the index up to a constant."""

    is_store: bool
    buffer: str
    dtype: DataType
    index: DataType
    terms: Terms


@dataclass(slots=True, eq=False)
class _Group:
    """Accesses of one base that may move together, until `ended` says what comes between."""

    base: _Base
    by_offset: dict[int, list[_Access]] = field(default_factory=dict)
    blocked: set[int] = field(default_factory=set)
    ended: str = ""


@dataclass(slots=True, eq=False)
class _Access:
    """A scalar access at `place` of its block; `lanes` of the vector that it becomes part of, 1 for none."""

    op: Op
    place: int
    offset: int
    block: Block
    group: _Group
    lanes: int = 1


class _Walk:
    def __init__(self, program: Program, ctx: Context, width: int) -> None:
        self.program, self.ctx, self.width = program, ctx, width
        self.linear = LinearAnalysis(program, Alignment(program))
        self.effects = summarize(program.body)[1]
        self.seen: dict[_Base, list[_Access]] = {}
        self.open: dict[_Base, _Group] = {}
        self.places: dict[object, tuple[Block, int]] = {}
        self.vectors = 0

    # --- the walk: what may move together ----------------------------------------------

    def block(self, block: Block) -> None:
        around, self.open = self.open, {}
        groups: list[_Group] = []
        for place, op in enumerate(block.ops):
            self.places[op] = (block, place)
            for inner in op.regions:
                self.block(inner)
            base, offset = self.base(op)
            if base is None:
                self.pass_by(op, self.effects.get(op) or effects_of(op))
                continue
            self.meet(base, offset)
            group = self.open.get(base)
            if group is None:
                group = self.open[base] = _Group(base)
                groups.append(group)
            access = _Access(op, place, offset, block, group)
            group.by_offset.setdefault(offset, []).append(access)
            self.seen.setdefault(base, []).append(access)
        self.open = around
        self.join(block, groups)

    def base(self, op: Op) -> tuple[_Base | None, int]:
        """What a plain access of one scalar is at, and the constant; None for any other op."""
        if op.name not in ("load", "store"):
            return None, 0
        moved = op.operands[0].type if op.name == "store" else op.result.type
        buffer = self.program.buffers[op.attrs["buffer"]]
        if moved is not buffer.dtype or not (moved.is_int or moved.is_float):
            return None, 0
        terms, const = self.linear.of(op.index)
        return _Base(op.name == "store", buffer.name, moved, op.index.type, terms), const

    def meet(self, base: _Base, offset: int) -> None:
        """End the groups that may not move past this access of one scalar."""
        verb = "store" if base.is_store else "load"
        for other in list(self.open):
            if other.buffer != base.buffer or not (other.is_store or base.is_store):
                continue
            group = self.open[other]
            apart = (other.index, other.terms) == (base.index, base.terms)
            if not apart:
                self.end(group, f"a {verb} between them may be of the same element of @{base.buffer}")
            elif other.is_store and offset in group.by_offset:
                self.end(group, f"a {verb} between them is of the same element of @{base.buffer}")
            elif not other.is_store:
                group.blocked.add(offset)
        own = self.open.get(base)
        if own is not None and offset in own.blocked:
            self.end(own, f"a store between them is of the same element of @{base.buffer}")

    def pass_by(self, op: Op, effects: Effects) -> None:
        """End the groups that may not move past an op that is no access of one scalar."""
        for base, group in list(self.open.items()):
            touched = effects.writes | effects.reads if base.is_store else effects.writes
            if effects.orders:
                self.end(group, f"{_named(op)} between them orders memory")
            elif effects.stops:
                self.end(group, f"{_named(op)} between them may stop the program")
            elif base.buffer in touched:
                self.end(group, f"{_named(op)} between them may be of the same element of @{base.buffer}")

    def end(self, group: _Group, why: str) -> None:
        group.ended = why
        del self.open[group.base]

    # --- vectors -----------------------------------------------------------------------

    def join(self, block: Block, groups: Sequence[_Group]) -> None:
        """Write the vectors that the groups of a block give, and the block anew if there are any."""
        made: dict[int, list[Op]] = {}  # what stands in the place of an op
        for group in groups:
            for lanes, accesses in self.windows(group):
                at, ops = (_store if group.base.is_store else _load)(group.base, lanes, accesses)
                made.update((access.place, []) for window in accesses for access in window)
                made[at] = ops
                self.vectors += 1
                self.applied(group.base, accesses)
        if made:
            block.ops = [new for place, op in enumerate(block.ops) for new in made.get(place, [op])]

    def windows(self, group: _Group) -> Iterator[tuple[int, list[list[_Access]]]]:
        """Aligned runs of 2^k neighbours, widest first."""
        taken: set[int] = set()
        lanes = self.width // (group.base.dtype.size_bytes or self.width)
        while lanes > 1:
            for offset in sorted(group.by_offset):
                span = range(offset, offset + lanes)
                if all(o in group.by_offset and o not in taken for o in span) and self.fits(
                    group, offset, lanes
                ):
                    taken.update(span)
                    accesses = [group.by_offset[o] for o in span]
                    for access in (access for window in accesses for access in window):
                        access.lanes = lanes
                    yield lanes, accesses
            lanes //= 2

    def fits(self, group: _Group, offset: int, lanes: int) -> bool:
        """Whether a vector of `lanes` may start at `offset`: aligned, and its index known in time."""
        first = group.by_offset[offset][0]
        if lanes > 1 << self.linear.zeros(first.op.index):
            return False
        if group.base.is_store:
            return True
        start = min(a.place for o in range(offset, offset + lanes) for a in group.by_offset[o])
        return self.known_at(first, start)

    def known_at(self, access: _Access, place: int) -> bool:
        """Whether the index of `access` is computed before `place` of its block."""
        block, at = self.places.get(access.op.index.owner, (None, 0))
        return block is not access.block or at < place

    # --- remarks -----------------------------------------------------------------------

    def applied(self, base: _Base, accesses: list[list[_Access]]) -> None:
        first = accesses[0][0].op
        verb, count = ("stores", len(accesses)) if base.is_store else ("loads", sum(map(len, accesses)))
        self.ctx.remark(
            "applied",
            f"{count} {verb} of @{base.buffer} are one of vec<{len(accesses)} x {base.dtype}>",
            first.loc,
            buffer=base.buffer,
            lanes=len(accesses),
            multiple=1 << min(self.linear.zeros(first.index), 63),
        )

    def explain(self) -> None:
        """One remark a base on the first neighbours that are not in a vector together."""
        for base, accesses in self.seen.items():
            ordered = sorted(accesses, key=lambda access: access.offset)
            for one, two in pairwise(ordered):
                if two.offset == one.offset + 1 and 1 in (one.lanes, two.lanes):
                    verb = "stores" if base.is_store else "loads"
                    self.ctx.remark(
                        "refused",
                        f"{verb} of neighbours in @{base.buffer} stay apart: {self.missing(one, two)}",
                        max(one, two, key=lambda access: access.place).op.loc,
                        buffer=base.buffer,
                    )
                    break

    def missing(self, one: _Access, two: _Access) -> str:
        """The fact for want of which two neighbours are not in one vector."""
        if one.block is not two.block:
            return "one of them may run without the other"
        if one.group is not two.group:
            return min(one, two, key=lambda access: access.place).group.ended
        if one.lanes > 1 or two.lanes > 1:
            return "the neighbours from a multiple on are no power of two, and one is left"
        if self.width < 2 * (one.group.base.dtype.size_bytes or self.width):
            return f"two of them are wider than width={self.width}"
        if self.linear.zeros(one.op.index) == 0:
            return f"%{one.op.index.name} is not known to be even, and a vector starts at a multiple of its lanes"
        return f"%{one.op.index.name}, at which a vector would start, is computed after the first of them"


def _named(op: Op) -> str:
    return f"{'an' if op.name[0] in 'aeiou' else 'a'} {op.name}"


def _load(base: _Base, lanes: int, accesses: list[list[_Access]]) -> tuple[int, list[Op]]:
    """At the place of the first load: the vector, and each load's value out of it."""
    first = accesses[0][0].op
    vector = Value(first.result.name, DataType.vec(base.dtype, lanes))
    ops = [Op(OPS["load"], (first.index,), (vector,), first.attrs, (), first.loc)]
    ops += [
        Op(OPS["extract"], (vector,), access.op.results, {"index": lane}, (), access.op.loc)
        for lane, same in enumerate(accesses)
        for access in same
    ]
    return min(access.place for same in accesses for access in same), ops


def _store(base: _Base, lanes: int, accesses: list[list[_Access]]) -> tuple[int, list[Op]]:
    """At the place of the last store: the values as a vector, and its store."""
    stores = [same[0].op for same in accesses]
    last = max((same[0] for same in accesses), key=lambda access: access.place)
    values = tuple([store.operands[0] for store in stores])
    vector = Value(values[0].name, DataType.vec(base.dtype, lanes))
    made = Op(OPS["vector"], values, (vector,), {}, (), last.op.loc)
    stored = Op(OPS["store"], (vector, stores[0].index), (), stores[0].attrs, (), stores[0].loc)
    return last.place, [made, stored]
