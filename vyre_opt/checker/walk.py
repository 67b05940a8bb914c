"""One walk through a program, for any invocation: what it accesses, under which conditions; and whether another one does the same.

`Walk` reads ops in order.  Values are terms; accesses, barriers, loops and branches are *events*.  With a second program, each op that
has an effect must be its next one, with equal operands:

    before   %v = load @x[%i]      after   %w = load @x[%i]      both loads are one term, so what is stored is, too;
             store %v, @y[%i]              store %w, @y[%i]      pure ops and loads may stand anywhere, be merged or not be there

A load is a term of its buffer, its index and what was stored before: a number that grows with each store to the buffer and each
barrier, on both sides at once.  This supposes that the program as written has no race and no fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .reader import Block, Buffer, Op, Program, Value, walk_ops
from .terms import DATA, GROUP, LANE, TURN, Form, Terms, int_type, lanes_of, limits

__all__ = [
    "VALUES",
    "Access",
    "Barrier",
    "Branch",
    "Event",
    "Loop",
    "Mismatch",
    "Side",
    "Walk",
    "accesses",
    "touched",
]

IDS = frozenset(
    "global_id local_id workgroup_id num_workgroups workgroup_size global_size lane_id subgroup_id subgroup_size "
    "num_subgroups".split()
)
PURE = frozenset(
    "add sub mul div rem min max abs_diff neg abs mul_hi add_sat sub_sat mul_sat and or xor not shl shr rotl rotr popcount clz ctz "
    "reverse_bits fma sqrt floor ceil trunc round_even rsqrt rcp cbrt exp exp2 exp10 expm1 log log2 log1p pow sin cos tan asin acos "
    "atan atan2 sinh cosh tanh erf erfc eq ne lt le gt ge select cast bitcast splat vector extract insert permute movemask".split()
)
"""Ops that are functions of their operands and attributes."""
STORES = ("store", "copy_async", "matrix_store", "slice_store")
VALUES = PURE | IDS | {"const", "spec", "param", "len", "alias"}
"""Ops without effects.  Any other op but a load has to be there in its place."""


class Mismatch(Exception):
    """Difference between a program and the other one; `op`: of the one as written, or else of the other."""

    def __init__(self, why: str, op: Op | None = None) -> None:
        super().__init__(why)
        self.op = op


@dataclass(eq=False)
class Access:
    """Access to the elements from `at` on, `width` along the last dimension.  `facts`: sums that are not negative where an invocation
    comes here.  `when`: the conditions around it, each with the side taken.  `loops`: those around it, the outermost first."""

    op: Op
    buffer: str
    at: tuple[int, ...]
    width: int
    kind: str  # load, store, atomic; other for what moves elements in a way that is not known here
    facts: tuple[Form, ...]
    when: tuple[tuple[int, bool], ...]
    loops: tuple[Loop, ...]

    @property
    def writes(self) -> bool:
        return self.kind != "load"


@dataclass(eq=False)
class Barrier:
    """`is_kept`: whether the other side has it, too."""

    op: Op | None
    scope: str
    is_kept: bool = True


@dataclass(eq=False)
class Loop:
    """`turn`: the atom that counts its iterations from 0; None where its number is not a constant.  `trips`: that number."""

    turn: int | None
    trips: int | None
    events: list[Event] = field(default_factory=list)


@dataclass(eq=False)
class Branch:
    condition: int
    arms: tuple[list[Event], list[Event]] = field(default_factory=lambda: ([], []))


Event = Access | Barrier | Loop | Branch


def accesses(events: Sequence[Event]) -> Iterator[Access]:
    """All of them, in order."""
    for event in events:
        if isinstance(event, Access):
            yield event
        elif isinstance(event, Loop):
            yield from accesses(event.events)
        elif isinstance(event, Branch):
            for arm in event.arms:
                yield from accesses(arm)


@dataclass
class Side:
    """A program in a walk.  `names`: what both sides call each of its buffers.  `params`: the terms of its params.  `extents`: of
    the buffers by these names, as far as they are not the declared ones: a number or a text that stands for it."""

    program: Program
    names: Mapping[str, str]
    params: Mapping[str, int] = field(default_factory=dict)
    extents: Mapping[str, tuple[int | str | None, ...]] = field(default_factory=dict)
    values: dict[Value, int] = field(default_factory=dict)

    def buffer(self, op: Op) -> str:
        name = self.names.get(op.buffer)
        if name is None:
            raise Mismatch(f"{op.name} names no buffer of @{self.program.name}", op)
        return name

    def touched(self, blocks: Sequence[Block]) -> set[str] | None:
        """The buffers that blocks store to, by what both sides call them; None where anything may change."""
        own = touched(blocks)
        return None if own is None else {self.names.get(name, name) for name in own}

    def declared(self, op: Op) -> Buffer:
        self.buffer(op)
        return self.program.buffers[op.buffer]


@dataclass
class _Loads:
    """Loads of a block, and of those around it before it; and accesses that may fault."""

    here: set[tuple[object, ...]] = field(default_factory=set)
    extra: dict[tuple[object, ...], Op] = field(default_factory=dict)
    checks: list[tuple[int, int, Op]] = field(default_factory=list)
    extra_checks: list[tuple[int, int, Op]] = field(default_factory=list)
    extents: list[tuple[int, int, int]] = field(default_factory=list)


class Walk:
    """A walk through the programs of `before`, one after the other, and through `after` beside them if there is one.

    `barriers`: numbers of programs before which a barrier stands.  `tiles`: buffers, by the names of both sides, that `after` has in
    workgroup memory, each with the type of its elements there.  After `run`, `events` has those of each program, and `bases` how far an
    index of a tile's buffer is from its place in the tile.  Raises Mismatch.
    """

    def __init__(
        self,
        terms: Terms,
        before: Sequence[Side],
        after: Side | None = None,
        barriers: Sequence[int] = (),
        tiles: Mapping[str, str] | None = None,
    ) -> None:
        self.terms, self.before, self.after = terms, before, after
        self.barriers, self.tiles = barriers, tiles or {}
        self.events: list[list[Event]] = []
        self.bases: dict[str, Form] = {}
        self.places: list[tuple[Access, int]] = []
        self.facts: list[Form] = []
        self.when: list[tuple[int, bool]] = []
        self.loops: list[Loop] = []
        self.loads: list[_Loads] = []
        self.delayed: list[tuple[str, tuple[int, ...], str, Op]] = []
        self.versions: dict[str, int] = {}
        self.cells: dict[str, dict[tuple[object, ...], int]] = {}
        sides = [*before, *([after] if after else [])]
        self.unseen = {name for side in before for name in _unseen(side)} - self.tiles.keys()
        self.written = {name for side in sides for name in _written(side, side.program.body)}

    def run(self) -> None:
        follower = None if self.after is None else _Cursor(self, self.after, self.after.program.body.ops)
        self.loads.append(_Loads())
        for number, side in enumerate(self.before):
            events: list[Event] = []
            self.events.append(events)
            if number in self.barriers:
                self.no_delayed()
                other = follower.effect() if follower else None
                if follower and (
                    other is None or other.name != "barrier" or other.attrs.get("scope") != "workgroup"
                ):
                    raise Mismatch(f"no barrier stands before what @{side.program.name} does", other)
                self._forget()
            self._ops(side, side.program.body.ops, follower, events)
        self._end(follower, None)

    # --- blocks

    def _block(
        self, side: Side, block: Block | None, other: Block | None, events: list[Event], has_other: bool
    ) -> tuple[Op | None, Op | None]:
        """A block, beside another one; a missing one is empty.  Returns what ends them."""
        follower = None
        if has_other:
            assert self.after is not None
            follower = _Cursor(self, self.after, other.ops if other else [])
        self.loads.append(_Loads(here=set(self.loads[-1].here)))
        ops = block.ops if block else []
        self._ops(side, ops, follower, events)
        last = ops[-1] if ops and ops[-1].name in ("yield", "condition") else None
        return last, self._end(follower, last)

    def _end(self, follower: _Cursor | None, last: Op | None) -> Op | None:
        """Checks that the other side's block ends here, too."""
        other = follower.effect() if follower else None
        self.no_delayed()
        loads = self.loads.pop()
        if follower is None:
            return None
        if other is not None and other.name not in ("yield", "condition"):
            raise Mismatch(f"the program as written has no such {other.name} here", other)
        if (other.name if other else "yield") != (last.name if last else "yield"):
            raise Mismatch("a block ends otherwise", other or last)
        for load, op in loads.extra.items():
            if load not in loads.here and not self._is_harmless(load, op):
                raise Mismatch(f"the program as written has no such {op.name} here", op)
        for index, limit, op in loads.extra_checks:
            same = next((each for each in loads.checks if each[:2] == (index, limit)), None)
            if same is not None:
                loads.checks.remove(same)
            elif not self._is_of_access(index, limit, loads):
                raise Mismatch("no access of this block is of the index and the length of this check", op)
        if loads.checks:
            raise Mismatch("a check of bounds is not there any more", loads.checks[0][2])
        return other

    def _is_of_access(self, index: int, limit: int, loads: _Loads) -> bool:
        """Whether a check holds where no access of the block is at fault."""
        for at, width, extent in loads.extents:
            beyond = self.terms.exact(index).plus(self.terms.exact(at), -1)
            less = self.terms.exact(limit).plus(self.terms.exact(extent), -1)
            if not beyond.atoms and 0 <= beyond.const < width and not less.atoms and less.const == 0:
                return True
        return False

    def _is_harmless(self, load: tuple[object, ...], op: Op) -> bool:
        """Whether a load that the program as written does not make is of contents that are given, and in bounds."""
        assert self.after is not None
        declared = self.after.declared(op)
        name, at, width, _ = load
        if name in self.written or (declared.access != "read" and "live_in" not in declared.flags):
            return False
        shape = declared.shape
        assert isinstance(at, tuple) and isinstance(width, int)
        for index, extent, wide in zip(at, shape, [*[1] * (len(shape) - 1), width], strict=True):
            low, high = self.terms.bounds[index]
            if not isinstance(extent, int) or low < 0 or high + wide > extent:
                return False
        return True

    def _ops(self, side: Side, ops: Sequence[Op], follower: _Cursor | None, events: list[Event]) -> None:
        for op in ops:
            if op.name in ("yield", "condition"):
                continue
            if op.name in VALUES:
                side.values[op.results[0]] = self.value(side, op)
            elif op.name == "load":
                side.values[op.results[0]] = self._load(side, op, events)
            elif op.name == "check_bounds":
                # no fact for what follows: a target may leave checks out
                index, limit = (self.use(side, value) for value in op.operands)
                self.loads[-1].checks.append((index, limit, op))
            elif op.name == "store" and side.buffer(op) in self.unseen:
                self._note_store(side, op, events)
                self.loads[-1].here.add(self.unseen_store(side, op))
            elif (straight := self.straight(side, op)) is not None:
                self._ops(side, straight, follower, events)
            elif follower is None:
                self._effect(side, op, None, events)
            else:
                self._beside(side, op, follower, events)

    def straight(self, side: Side, op: Op) -> list[Op] | None:
        """The ops that stand for a branch whose way is known, or a loop of one iteration or none; None of others."""
        block, results = None, op.results
        starts: list[tuple[Value, Value]] = []
        if op.name == "if" and (known := self.terms.constant(self.use(side, op.operands[0]))) is not None:
            block = op.blocks[1 - known] if known or len(op.blocks) > 1 else Block([])
        elif op.name == "for":
            (lower, upper, step), initial = self._bounds(side, op)
            low, high = self.terms.range(self.terms.exact(upper).plus(self.terms.exact(lower), -1))
            by, args = self.terms.constant(step) or 0, op.blocks[0].args
            outer = op.operands[len(op.operands) - len(initial) :]
            if high <= 0 < by:
                return [_alias(*pair, op) for pair in zip(results, outer, strict=True)]
            if 1 <= low and high <= by:
                first = op.attrs["lower"]
                begin = op.operands[0] if first == "dynamic" else Value("", args[0].type, first)
                block, starts = op.blocks[0], list(zip(args, [begin, *outer], strict=True))
        if block is None:
            return None
        ops = block.ops
        if ops and ops[-1].name == "yield":
            ops = [*ops[:-1], *(_alias(*pair, op) for pair in zip(results, ops[-1].operands, strict=True))]
        return [*(_alias(*pair, op) for pair in starts), *ops]

    # --- beside the other side

    def _beside(self, side: Side, op: Op, follower: _Cursor, events: list[Event]) -> None:
        """An op that has an effect: the other side's next one is like it, or it may be missing there."""
        other = follower.effect()
        if op.name == "store" and side.buffer(op) not in self.tiles:
            if not self._store_beside(side, op, other, events):
                follower.back(other)
        elif _is_dropped(op, other):
            self.no_delayed()
            # what it orders is shown to be nothing, so memory is as it was
            events.append(Barrier(op, op.attrs["scope"], is_kept=False))
            if other is None or other.name != "barrier":
                follower.back(other)
        elif _is_inert(op) and (other is None or not _is_named_like(op, other)):
            # nobody there uses what it gives, or this value is missed
            self._bind(side, op.results, [self.terms.unknown(op.name, value.type) for value in op.results])
            follower.back(other)
        else:
            self.no_delayed()
            self._same(op, other)
            self._effect(side, op, other, events)

    def _store_beside(self, side: Side, op: Op, other: Op | None, events: list[Event]) -> bool:
        """A store, made at once by the other side, or later: then it is overwritten, or is an element of a vector.  Returns whether
        `other` is done with."""
        assert self.after is not None
        name, dtype = side.buffer(op), op.operands[0].type
        value, *indices = (self.use(side, each) for each in op.operands)
        at = tuple(indices)
        is_alike = other is not None and other.name == "store" and self.after.buffer(other) == name
        its = [(v.type, self.use(self.after, v)) for v in other.operands] if is_alike and other else []
        if its and its[0][0] == dtype and [term for _, term in its] == [value, *indices]:
            self._effect(side, op, other, events)
            self.delayed = [each for each in self.delayed if each[:3] != (name, at, dtype)]
            return True
        self._note_store(side, op, events)
        if self.cells.get(name, {}).get((at, dtype)) == value:
            return False  # it stores what is there
        self._stored(name, at, value)
        self.delayed.append((name, at, dtype, op))
        return is_alike and other is not None and self._is_gathered(name, other)

    def _is_gathered(self, name: str, other: Op) -> bool:
        """Whether a store of a vector stores the elements that were delayed, and nothing else."""
        assert self.after is not None
        lanes, each = lanes_of(other.operands[0].type)
        value, *at = (self.use(self.after, operand) for operand in other.operands)
        if lanes < 2 or not self.terms.is_whole(at[-1], lanes):
            return False
        index, gathered = self.terms.modular(at[-1]), []
        for lane in range(lanes):
            place = self.terms.sum(index.plus(Form(lane, {})), self.terms.types[at[-1]])
            element = self.terms.op("extract", (("index", str(lane)),), [value], each)
            key = (name, (*at[:-1], place), each)
            if self.cells.get(name, {}).get(key[1:]) != element or all(d[:3] != key for d in self.delayed):
                return False
            gathered.append(key)
        self.delayed = [d for d in self.delayed if d[:3] not in gathered]
        return True

    def no_delayed(self) -> None:
        """Raises Mismatch if a store of the program as written is still to come."""
        if self.delayed:
            raise Mismatch("this store is not there any more, or is of another value", self.delayed[0][3])

    # --- values

    def use(self, side: Side, value: Value) -> int:
        if value.literal is not None:
            return self.terms.literal(value.literal, value.type)
        return side.values[value]

    def value(self, side: Side, op: Op) -> int:
        """The term of a pure op."""
        terms, dtype = self.terms, op.results[0].type
        if op.name == "alias":
            return self.use(side, op.operands[0])
        if op.name == "const":
            return terms.literal(op.attrs["value"], dtype)
        if op.name in IDS:
            return terms.id(op.name, op.attrs.get("axis", ""))
        if op.name in ("spec", "param"):
            name = op.attrs[op.name].removeprefix("@")
            if op.name == "param" and name in side.params:
                return side.params[name]
            declared = next(
                (line for line in side.program.scalars if line.startswith(f"{op.name} @{name} :")), ""
            )
            return terms.term(("scalar", declared), dtype, 0)
        if op.name == "len":
            return self.extent(side, op, int(op.attrs.get("dimension", "0")), dtype)
        attrs = tuple(sorted((key, text) for key, text in op.attrs.items()))
        return terms.op(op.name, attrs, [self.use(side, value) for value in op.operands], dtype)

    def extent(self, side: Side, op: Op, dimension: int, dtype: str = "u32") -> int:
        """The extent of a buffer along a dimension."""
        name, declared = side.buffer(op), side.declared(op).shape
        extent = declared[dimension]
        if not isinstance(extent, int) and name in side.extents:
            extent = side.extents[name][dimension]
        if isinstance(extent, int):
            return self.terms.const(extent, dtype)
        key = ("len", extent, dtype) if extent is not None else ("len", (name, dimension), dtype)
        return self.terms.term(key, dtype, 0)

    def _load(self, side: Side, op: Op, events: list[Event] | None) -> int:
        """The term of a load, which `events` notes for the side as written."""
        name, declared, dtype = side.buffer(op), side.declared(op), op.results[0].type
        at = tuple(self.use(side, value) for value in op.operands)
        width = _width(dtype, declared.type)
        is_after = side is self.after
        narrow = self.tiles.get(name) if is_after else None
        if narrow is not None:
            # vectors of others are not narrowed
            at, dtype = (
                self._in_storage(name, at, op),
                self._written_as(name) if lanes_of(dtype)[0] == 1 else dtype,
            )
        if events is not None:
            self._note(side, op, name, at, width, "load", events)
            self.loads[-1].here.update(self._single(name, at, width))
        else:
            for earlier, place, kind, _ in self.delayed:
                if earlier == name and not self._is_apart(place, _width(kind, declared.type), (at, dtype)):
                    raise Mismatch("this reads what is stored later", op)
            for load in self._single(name, at, width):
                self.loads[-1].extra.setdefault(load, op)
        loaded = self._elements(name, at, dtype, declared.type)
        if narrow is not None and dtype != op.results[0].type:
            return self.terms.op("cast", (), [loaded], op.results[0].type)
        return loaded

    def _single(self, name: str, at: tuple[int, ...], width: int) -> list[tuple[object, ...]]:
        """The elements of a load as loads of one each, where their indices are known not to wrap."""
        version = self.versions.get(name)
        if width == 1 or not self.terms.is_whole(at[-1], width):
            return [(name, at, width, version)]
        index, dtype = self.terms.modular(at[-1]), self.terms.types[at[-1]]
        places = [self.terms.sum(index.plus(Form(lane, {})), dtype) for lane in range(width)]
        return [(name, (*at[:-1], place), 1, version) for place in places]

    def _in_storage(self, name: str, at: tuple[int, ...], op: Op) -> tuple[int, ...]:
        """The index in storage of a place in a tile."""
        if name not in self.bases:
            raise Mismatch("a tile is read before anything is stored to it", op)
        form = self.terms.modular(at[0]).plus(self.bases[name])
        return (self.terms.sum(form, self.terms.types[at[0]]),)

    def _elements(self, name: str, at: tuple[int, ...], dtype: str, element: str) -> int:
        """Contents of memory; of a vector, its elements, where the indices of all are known not to wrap."""
        lanes, each = lanes_of(dtype)
        if lanes > 1 and each == element and self.terms.is_whole(at[-1], lanes):
            index = self.terms.modular(at[-1])
            places = [
                self.terms.sum(index.plus(Form(lane, {})), self.terms.types[at[-1]]) for lane in range(lanes)
            ]
            return self.terms.op(
                "vector", (), [self._element(name, (*at[:-1], place), each) for place in places], dtype
            )
        return self._element(name, at, dtype)

    def _element(self, name: str, at: tuple[int, ...], dtype: str) -> int:
        key = (at, dtype)
        known = self.cells.get(name, {}).get(key)
        if known is not None:
            return known
        varies = 0
        for index in at:
            varies |= self.terms.varies[index]
        if name in self.written or varies & LANE:
            varies |= DATA | GROUP
        version = self.versions.get(name, 0) if name in self.written else None
        narrow = self.tiles.get(name)
        bounds = (
            limits(narrow) if narrow is not None and int_type(narrow) and int_type(dtype) else (None, None)
        )
        term = self.terms.term(("load", dtype, name, at, version), dtype, varies, *bounds)
        if name in self.written:
            self.cells.setdefault(name, {})[key] = term
        return term

    # --- effects

    def _note_store(self, side: Side, op: Op, events: list[Event]) -> None:
        at = tuple(self.use(side, value) for value in op.operands[1:])
        self._note(
            side,
            op,
            side.buffer(op),
            at,
            _width(op.operands[0].type, side.declared(op).type),
            "store",
            events,
        )

    def unseen_store(self, side: Side, op: Op) -> tuple[object, ...]:
        """Place of a store whose elements nobody reads; it may go, but be nowhere else."""
        name, (value, *indices) = side.buffer(op), op.operands
        at, width = (
            tuple(self.use(side, each) for each in indices),
            _width(value.type, side.declared(op).type),
        )
        return name, at, width, f"stored at {self.versions.get(name)}"

    def _note(
        self, side: Side, op: Op, name: str, at: tuple[int, ...], width: int, kind: str, events: list[Event]
    ) -> Access:
        access = Access(op, name, at, width, kind, tuple(self.facts), tuple(self.when), tuple(self.loops))
        events.append(access)
        for dimension, index in enumerate(at):
            wide = width if dimension == len(at) - 1 else 1
            for dtype in (
                "u32",
                "u64",
            ):  # a length that does not fit the type which a program takes is an error
                self.loads[-1].extents.append((index, wide, self.extent(side, op, dimension, dtype)))
        return access

    def _same(self, op: Op, other: Op | None) -> None:
        """Raises Mismatch unless two ops are of one name, attributes and number of parts."""
        if other is None or other.name != op.name:
            raise Mismatch(f"this {op.name} is not there any more, or not in this place", op)
        skipped = ("lower", "upper", "step") if op.name == "for" else ("buffer",)
        mine, its = ({k: v for k, v in each.attrs.items() if k not in skipped} for each in (op, other))
        if mine != its:
            raise Mismatch(f"this {op.name} has other attributes", other)
        if op.name in ("for", "while", "if"):
            return
        if [v.type for v in op.results] != [v.type for v in other.results] or len(op.operands) != len(
            other.operands
        ):
            raise Mismatch(f"this {op.name} has other parts", other)

    def _effect(self, side: Side, op: Op, other: Op | None, events: list[Event]) -> None:
        """An op that stands where it stands, and the other side's that is like it."""
        if op.name == "for":
            self._for(side, op, other, events)
        elif op.name == "while":
            self._while(side, op, other, events)
        elif op.name == "if":
            self._if(side, op, other, events)
        elif op.name == "barrier":
            events.append(Barrier(op, op.attrs.get("scope", "")))
            self._forget()
        else:
            self._plain(side, op, other, events)

    def _plain(self, side: Side, op: Op, other: Op | None, events: list[Event]) -> None:
        """An op without blocks."""
        kind = "store" if op.name == "store" else "atomic" if op.name.startswith("atomic_") else "other"
        operands = [self.use(side, value) for value in op.operands]
        name, at, access = "", tuple[int, ...](), None
        if "buffer" in op.attrs:
            name, declared = side.buffer(op), side.declared(op)
            first = int(op.name in STORES)  # behind the value
            at = tuple(operands[first : first + len(declared.shape)])
            width = _width(op.operands[0].type, declared.type) if kind == "store" else 1
            access = self._note(side, op, name, at, width, kind, events)
        if other is not None:
            self._same_operands(op, other, operands, name, access)
        results = [self.terms.unknown(op.name, value.type) for value in op.results]
        self._bind(side, op.results, results)
        if other is not None and self.after is not None:
            self._bind(self.after, other.results, results)
        if kind == "store":
            self._stored(name, at, operands[0])
        else:
            self._changed({name} if kind == "atomic" else None)

    def _same_operands(
        self, op: Op, other: Op, operands: Sequence[int], name: str, access: Access | None
    ) -> None:
        after = self.after
        assert after is not None
        theirs = [self.use(after, value) for value in other.operands]
        if access is not None:
            if after.buffer(other) != name:
                raise Mismatch(f"this {op.name} is of another buffer", other)
            if name in self.tiles:
                return self._same_in_tile(op, other, operands, theirs, name, access)
        if list(operands) != theirs:
            at = next(n for n, pair in enumerate(zip(operands, theirs, strict=True)) if pair[0] != pair[1])
            raise Mismatch(f"operand {at} of this {op.name} is another value", other)
        return None

    def _same_in_tile(
        self, op: Op, other: Op, operands: Sequence[int], theirs: Sequence[int], name: str, access: Access
    ) -> None:
        """A store to a tile: at its index, less the base; of the value in the narrower type, which has to hold it."""
        terms, narrow = self.terms, self.tiles[name]
        if op.name != "store" or len(operands) != 2:
            raise Mismatch(f"a tile is touched by this {op.name}", op)
        value, index, place = operands[0], operands[1], theirs[1]
        if terms.types[index] != terms.types[place]:
            raise Mismatch("the index has another type", other)
        base = terms.modular(
            terms.sum(terms.modular(index).plus(terms.modular(place), -1), terms.types[index])
        )
        self.bases.setdefault(name, base)
        if (base.const, base.atoms) != (self.bases[name].const, self.bases[name].atoms):
            raise Mismatch("accesses of a tile are moved by different distances", other)
        self.places.append((access, place))
        if theirs[0] == value:
            return
        low, high = terms.bounds[value]
        least, most = limits(narrow)
        if int_type(narrow) is None or int_type(terms.types[value]) is None or low < least or high > most:
            raise Mismatch(f"what is stored is not known to fit {narrow}", op)
        if theirs[0] != terms.op("cast", (), [value], narrow):
            raise Mismatch("another value is stored", other)

    def _bind(self, side: Side, values: Sequence[Value], terms: Sequence[int]) -> None:
        for value, term in zip(values, terms, strict=True):
            side.values[value] = term

    def _stored(self, name: str, at: tuple[int, ...], value: int) -> None:
        """Known contents of memory behind a store: its elements, and others that it is not of."""
        cells = self.cells.get(name, {})
        width = _width(self.terms.types[value], self._written_as(name))
        remaining = {key: term for key, term in cells.items() if self._is_apart(at, width, key)}
        self._changed({name})
        self.cells[name] = {**remaining, (at, self.terms.types[value]): value}

    def _written_as(self, name: str) -> str:
        """The type of a buffer's elements in the program as written."""
        types = (
            side.program.buffers[own].type
            for side in self.before
            for own, shared in side.names.items()
            if shared == name
        )
        return next(types, "")

    def _is_apart(self, at: tuple[int, ...], width: int, key: tuple[object, ...]) -> bool:
        """Whether a store is of no element that is known under a key: some index is another one by a constant."""
        others, dtype = key
        assert isinstance(others, tuple) and isinstance(dtype, str)
        for dimension, (index, other) in enumerate(zip(at, others, strict=True)):
            if self.terms.types[index] != self.terms.types[other]:
                continue
            size = limits(self.terms.types[index])
            gap = self.terms.modular(index).plus(self.terms.modular(other), -1)
            if gap.atoms:
                continue
            distance = gap.const % (size[1] - size[0] + 1)
            is_last = dimension == len(at) - 1
            wide = lanes_of(dtype)[0] if is_last else 1
            if wide <= distance <= size[1] - size[0] + 1 - (width if is_last else 1):
                return True
        return False

    def _changed(self, names: set[str] | None) -> None:
        """These buffers may hold anything now; None is all that is written."""
        for name in self.written if names is None else names:
            self.terms.fresh += 1
            self.versions[name] = self.terms.fresh
            self.cells.pop(name, None)

    def _forget(self) -> None:
        self._changed(None)

    # --- control flow

    def _if(self, side: Side, op: Op, other: Op | None, events: list[Event]) -> None:
        condition = self.use(side, op.operands[0])
        swapped = False
        if other is not None:
            assert self.after is not None
            theirs = self.use(self.after, other.operands[0])
            swapped = theirs == self.terms.op("not", (), [condition], "bool")
            if theirs != condition and not swapped:
                raise Mismatch("this `if` has another condition", other)
        branch = Branch(condition)
        events.append(branch)
        changed = side.touched(op.blocks)
        yields: list[tuple[Op | None, Op | None]] = []
        cells = {name: dict(known) for name, known in self.cells.items()}
        versions = dict(self.versions)
        for arm in (0, 1):
            self.cells = {name: dict(known) for name, known in cells.items()}
            self.versions = dict(versions)
            facts = len(self.facts)
            self.facts += self.facts_of(condition, arm == 0)
            self.when.append((condition, arm == 0))
            mine = op.blocks[arm] if arm < len(op.blocks) else None
            at = 1 - arm if swapped else arm
            its = other.blocks[at] if other is not None and at < len(other.blocks) else None
            yields.append(self._block(side, mine, its, branch.arms[arm], other is not None))
            self.when.pop()
            del self.facts[facts:]
        self.cells, self.versions = cells, versions
        self._changed(changed)
        for at, result in enumerate(op.results):
            pair = [self.use(side, last.operands[at]) for last, _ in yields if last is not None]
            side.values[result] = self.terms.op("select", (), [condition, *pair], result.type)
        if other is not None and self.after is not None:
            for at, result in enumerate(other.results):
                pair = [self.use(self.after, last.operands[at]) for _, last in yields if last is not None]
                self.after.values[result] = self.terms.op("select", (), [condition, *pair], result.type)

    def facts_of(self, condition: int, holds: bool) -> list[Form]:
        """Sums that are not negative where a condition holds, or does not."""
        terms, key = self.terms, self.terms.keys[condition]
        if key[0] == "not":
            return self.facts_of(key[3][0], not holds)
        if key[0] in ("and", "or") and (key[0] == "and") == holds and terms.types[condition] == "bool":
            return [fact for part in key[3] for fact in self.facts_of(part, holds)]
        if key[0] not in ("lt", "eq") or not int_type(terms.types[key[3][0]]):
            return []
        one, other = (terms.exact(each) for each in key[3])
        if key[0] == "lt":
            return [other.plus(one, -1).plus(Form(-1, {})) if holds else one.plus(other, -1)]
        return [one.plus(other, -1), other.plus(one, -1)] if holds else []

    def _for(self, side: Side, op: Op, other: Op | None, events: list[Event]) -> None:
        bounds, initial = self._bounds(side, op)
        body, theirs = op.blocks[0], other.blocks[0] if other else None
        pairs: list[tuple[int, int]] = []
        if other is not None:
            assert self.after is not None and theirs is not None
            its_bounds, its_initial = self._bounds(self.after, other)
            if its_bounds != bounds:
                raise Mismatch("this loop has other bounds", other)
            pairs = _carried(body, theirs)
            for mine, its in pairs:
                if initial[mine] != its_initial[its]:
                    raise Mismatch(f"%{theirs.args[1 + its].name} begins with another value", other)
        counter, loop, facts = self._counter(body.args[0].type, bounds)
        events.append(loop)
        self._loop(side, op, other, loop, [counter], pairs, facts)

    def _bounds(self, side: Side, op: Op) -> tuple[list[int], list[int]]:
        """The terms of the bounds and the step of a loop, and of what its carried values begin with."""
        operands = [self.use(side, value) for value in op.operands]
        dtype = op.blocks[0].args[0].type
        bounds = []
        for name in ("lower", "upper", "step"):
            text = op.attrs.get(name, "dynamic")
            bounds.append(operands.pop(0) if text == "dynamic" else self.terms.const(int(text), dtype))
        return bounds, operands

    def _counter(self, dtype: str, bounds: Sequence[int]) -> tuple[int, Loop, list[Form]]:
        """The counter of a loop, the loop, and what is known of the counter."""
        terms = self.terms
        first, end, step = (terms.constant(bound) for bound in bounds)
        lower, upper = terms.exact(bounds[0]), terms.exact(bounds[1])
        varies = TURN | terms.varies[bounds[0]] | terms.varies[bounds[2]]
        if first is not None and step is not None and step > 0:
            last = (terms.bounds[bounds[1]][1] - 1 - first) // step
            trips = max(0, last + 1) if end is not None else None
            turn = terms.unknown("turn", "i64", TURN, 0, max(0, last))
            counter = terms.sum(Form(first, {turn: step}), dtype)
            facts = [] if trips is not None else [upper.plus(terms.exact(counter), -1).plus(Form(-1, {}))]
            return counter, Loop(turn, trips), facts
        counter = terms.unknown(
            "counter", dtype, varies, terms.bounds[bounds[0]][0], terms.bounds[bounds[1]][1] - 1
        )
        value = terms.exact(counter)
        return counter, Loop(None, None), [value.plus(lower, -1), upper.plus(value, -1).plus(Form(-1, {}))]

    def _loop(
        self,
        side: Side,
        op: Op,
        other: Op | None,
        loop: Loop,
        counters: list[int],
        pairs: Sequence[tuple[int, int]],
        facts: Sequence[Form],
    ) -> None:
        """The body of a loop, in any of its iterations, and its results."""
        body, theirs, skip = op.blocks[0], other.blocks[0] if other else None, len(counters)
        changed = side.touched(op.blocks)
        self._changed(changed)
        carried = [self.terms.unknown("carried", arg.type) for arg in body.args[skip:]]
        results = [self.terms.unknown("result", value.type) for value in op.results]
        self._bind(side, body.args, [*counters, *carried])
        self._bind(side, op.results, results)
        if other is not None and theirs is not None and self.after is not None:
            its = {its: mine for mine, its in pairs}
            self._bind(self.after, theirs.args[:skip], counters)
            for at, arg in enumerate(theirs.args[skip:]):
                self.after.values[arg] = (
                    carried[its[at]] if at in its else self.terms.unknown("carried", arg.type)
                )
            for at, result in enumerate(other.results):
                known = results[its[at]] if at in its else self.terms.unknown("result", result.type)
                self.after.values[result] = known
        start = len(self.facts)
        self.facts += facts
        self.loops.append(loop)
        last, its_last = self._block(side, body, theirs, loop.events, other is not None)
        self.loops.pop()
        del self.facts[start:]
        if other is not None and self.after is not None:
            for mine, its_at in pairs:
                assert last is not None
                if its_last is None or self.use(side, last.operands[mine]) != self.use(
                    self.after, its_last.operands[its_at]
                ):
                    raise Mismatch("this loop carries on another value", other)
        self._changed(changed)

    def _while(self, side: Side, op: Op, other: Op | None, events: list[Event]) -> None:
        """Both blocks, with all that they carry unknown."""
        loop, changed = Loop(None, None), side.touched(op.blocks)
        events.append(loop)
        after = self.after
        if other is not None:
            assert after is not None
            if [self.use(side, v) for v in op.operands] != [self.use(after, v) for v in other.operands]:
                raise Mismatch("this loop begins with other values", other)
            if [len(b.args) for b in op.blocks] != [len(b.args) for b in other.blocks]:
                raise Mismatch("this loop carries other values", other)
        self._changed(changed)
        self.loops.append(loop)
        for at, block in enumerate(op.blocks):
            theirs = other.blocks[at] if other is not None else None
            carried = [self.terms.unknown("carried", arg.type) for arg in block.args]
            self._bind(side, block.args, carried)
            if theirs is not None and after is not None:
                self._bind(after, theirs.args, carried)
            last, its_last = self._block(side, block, theirs, loop.events, other is not None)
            if theirs is not None and after is not None:
                mine = [self.use(side, v) for v in last.operands] if last else []
                if mine != ([self.use(after, v) for v in its_last.operands] if its_last else []):
                    raise Mismatch("this loop carries on other values", other)
            self._changed(changed)
        self.loops.pop()
        results = [self.terms.unknown("result", value.type) for value in op.results]
        self._bind(side, op.results, results)
        if other is not None and after is not None:
            if len(other.results) != len(results):
                raise Mismatch("this loop gives other values", other)
            self._bind(after, other.results, results)


class _Cursor:
    """The ops of a block of the other side, up to the next one that has an effect."""

    def __init__(self, walk: Walk, side: Side, ops: Sequence[Op]) -> None:
        self.walk, self.side = walk, side
        self.ops = list(reversed(ops))

    def effect(self) -> Op | None:
        """The next op that has an effect; those before it are values from here on."""
        walk, side = self.walk, self.side
        while self.ops:
            op = self.ops.pop()
            if op.name == "load":
                side.values[op.results[0]] = walk._load(side, op, None)
            elif op.name == "check_bounds":
                index, limit = (walk.use(side, value) for value in op.operands)
                walk.loads[-1].extra_checks.append((index, limit, op))
            elif op.name in VALUES:
                side.values[op.results[0]] = walk.value(side, op)
            elif op.name == "store" and side.buffer(op) in walk.unseen:
                walk.loads[-1].extra.setdefault(walk.unseen_store(side, op), op)
            elif (straight := walk.straight(side, op)) is not None:
                self.ops += reversed(straight)
            else:
                return op
        return None

    def back(self, op: Op | None) -> None:
        """Put an op back as the next one."""
        self.ops += [op] if op is not None else []


def _alias(result: Value, value: Value, op: Op) -> Op:
    """An op that gives a value another name."""
    return Op("alias", (value,), (result,), {}, [], op.line)


def _is_dropped(op: Op, other: Op | None) -> bool:
    """Whether a barrier of the workgroup is not there any more, or one of subgroups."""
    scopes = [each.attrs.get("scope", "") if each and each.name == "barrier" else "" for each in (op, other)]
    return scopes in (["workgroup", ""], ["workgroup", "subgroup"], ["subgroup", ""])


def _is_inert(op: Op) -> bool:
    """Whether an op does nothing but give values, and ends: that loops end is taken for granted."""
    is_known = op.name in VALUES or op.name in ("load", "for", "while", "if", "yield", "condition")
    is_of_lanes = op.name.startswith(("subgroup_", "workgroup_")) and "buffer" not in op.attrs
    return (is_known or is_of_lanes) and all(_is_inert(inner) for block in op.blocks for inner in block.ops)


def _is_named_like(op: Op, other: Op) -> bool:
    """Whether one may be the other: by the names of what they give, which passes keep but for a number at their end."""
    names = ([re.sub(r"_\d+$", "", value.name) for value in each.results] for each in (op, other))
    return op.name == other.name and next(names) == next(names)


def _width(dtype: str, element: str) -> int:
    """Elements of a buffer that a value takes."""
    return max(1, lanes_of(dtype)[0] // lanes_of(element)[0])


def _unseen(side: Side) -> set[str]:
    """The buffers that nobody reads, in the program or outside of it: what is stored to them may go."""
    ops = list(walk_ops(side.program.body))
    if any("." in op.name for op in ops):
        return set()
    seen = {op.buffer for op in ops if op.name not in ("store", "len")}
    own = side.program.buffers.values()
    scratch = {b.name for b in own if not b.is_bound and (b.access == "workgroup" or b.is_transient)}
    return {side.names[name] for name in scratch - seen}


def _written(side: Side, block: Block) -> Iterator[str]:
    for op in block.ops:
        if "buffer" in op.attrs and op.name not in ("load", "len"):
            yield side.buffer(op)
        if op.name not in PURE and "." in op.name:
            yield from side.names.values()
        for inner in op.blocks:
            yield from _written(side, inner)


_LOCAL = frozenset(("load", "store", "for", "while", "if", "yield", "condition", "check_bounds"))


def touched(blocks: Sequence[Block]) -> set[str] | None:
    """The program's buffers that blocks store to; None where anything may change, as behind a barrier."""
    found = set[str]()
    for op in (op for block in blocks for op in walk_ops(block)):
        if op.name not in VALUES and op.name not in _LOCAL and not op.name.startswith("atomic_"):
            return None
        if "buffer" in op.attrs and op.name not in ("load", "len"):
            found.add(op.buffer)
    return found


def _carried(body: Block, other: Block) -> list[tuple[int, int]]:
    """Pairs of carried values of two loops: by name, or all in order."""
    mine, its = [arg.name for arg in body.args[1:]], [arg.name for arg in other.args[1:]]
    if [arg.type for arg in body.args] == [arg.type for arg in other.args]:
        return [(at, at) for at in range(len(mine))]
    pairs = [(mine.index(name), at) for at, name in enumerate(its) if name in mine]
    return [(a, b) for a, b in pairs if body.args[1 + a].type == other.args[1 + b].type]
