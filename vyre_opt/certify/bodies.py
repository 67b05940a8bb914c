"""Whether a program does what others did: a joined one the bodies of its launches, one after the other.

Both are read side by side: each access, barrier and structured op of a launch's program is the next one of the joined
program, and each pure op is one that the joined program has computed by then, from equal operands.

    launch @a    %v = load @in[%i]         @a_then_b    %v = load @in[%i]
                 store %v, @out[%i]                     store %v, @mid[%i]
                                                        barrier workgroup
    launch @b    %u = load @in[%i]                      %u = load @mid[%i]

A launch that is *computed again* by each workgroup that needs its elements is the body of a loop and of a branch in it.
There, an invocation is run as another one: as that of the global id which the branch compares.  What it stores is in
workgroup memory, as far from the first element of the workgroup's tile as the element was.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import z3

from ..ir.access_extents import access_extents
from ..ir.grids import Extent, GridCall, length_key
from ..ir.ops import AXES, SUBGROUP_SIZE
from ..ir.program import Block, Op, Program, Value
from ..ir.types import DataType, with_article
from ..records import dataclass
from .accesses import accesses_of, is_group_barrier, is_inside
from .in_bounds import shown_at
from .known_values import KnownValues, attributes, shown, value_key
from .lengths import extent_of
from .mismatch import Mismatch
from .obligations import Obligation
from .points import Grid, Group, Nesting, Point

__all__ = ["Body", "BodyMatch", "Halo", "Special"]

IDS = ("global_id", "local_id", "workgroup_id", "lane_id", "subgroup_id")


@dataclass(frozen=True)
class Halo:
    """A buffer of the pipeline that each workgroup computes for itself, by running the launch `producer` of the group.

    Its tile holds the elements from `stride * workgroup id + low` on.
    """

    buffer: str
    producer: int
    stride: int
    low: int


@dataclass(frozen=True)
class Body:
    """A launch of the group.  `names`: the pipeline's buffer for each of the program's.  `params`: for each runtime
    scalar of the program the pipeline's, or its encoded value."""

    program: Program
    names: Mapping[str, str]
    params: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class _TileAccess:
    """Access of the joined program to a tile; `was`: the value that was its index."""

    was: Value
    halo: Halo


Special = Callable[["BodyMatch", Op, Sequence[Op], int], int]
"""Matcher for an op whose counterpart in the program after is not the next op: `special(match, op, ops, at)` finds it at
`ops[at]`, and returns the index of the next.  Raises Mismatch."""


@dataclass
class BodyMatch:
    """`joined`: the program after.  `buffers`: its name for buffers of the pipeline.  `lengths`: their elements.

    `barriers`: launches that get one before them.  `grid`: the workgroups of all launches, where known.  `special`: for ops
    that are not there as they were.  `moved`: buffers of the pipeline of which indices and types are not compared.
    `equal`: for a length in the pipeline (see ir/grids.py) those that are equal.  `agree`: whether two expressions of such
    lengths are equal wherever the program is launched.  `kept`: for buffers of the program after that are there for their
    length alone, the pipeline's.

    After `match`: `again`, the ops of launches that are computed again, and those of the joined program which do that;
    `tiles`, its accesses to tiles of halos.
    """

    joined: Program
    bodies: Sequence[Body]
    buffers: Mapping[str, str]
    lengths: Mapping[str, int | None]
    barriers: Sequence[int] = ()
    halos: Sequence[Halo] = ()
    grid: Grid = (None, None, None)
    special: Mapping[Op, Special] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()
    equal: Mapping[str, Sequence[str]] = field(default_factory=dict)
    agree: Callable[[Extent, Extent], bool] = operator.eq
    kept: Mapping[str, str] = field(default_factory=dict)
    again: dict[tuple[int, Op], Op] = field(default_factory=dict)
    tiles: dict[Op, _TileAccess] = field(default_factory=dict)
    values: dict[Value, Value] = field(default_factory=dict)
    stored: dict[Op, Value] = field(default_factory=dict)
    known: KnownValues = field(default_factory=KnownValues)
    workgroup_names: dict[tuple[int, str], str] = field(default_factory=dict)
    identities: list[Obligation] = field(default_factory=list)
    checks: list[Op] = field(default_factory=list)
    number: int = 0
    run_as: Value | None = None

    def __post_init__(self) -> None:
        self.nesting = Nesting(self.joined)
        self.accesses = {access.op: access for access in accesses_of(self.nesting)}
        self.written = {access.buffer for access in self.accesses.values() if access.is_write}

    # --- side by side ---------------------------------------------------------------------

    def match(self) -> None:
        """Raises Mismatch."""
        ops, at = self.joined.body.ops, 0
        for halo in self.halos:
            if not self.joined.buffers[self.buffers[halo.buffer]].is_workgroup:
                raise Mismatch(f"all workgroups write the one @{halo.buffer}")
        for number, body in enumerate(self.bodies):
            self.number = number
            if body.program.workgroup != self.joined.workgroup:
                raise Mismatch(f"the workgroup of @{body.program.name} is another one")
            if body.program.cluster != self.joined.cluster:
                raise Mismatch(f"@{body.program.name} runs in other clusters")
            if self.number in self.barriers:
                at = self._barrier(ops, at)
            if any(halo.producer == self.number for halo in self.halos):
                at = self._again(body.program, ops, at)
            else:
                at = self._ops(body.program.body.ops, ops, at)
        if at < len(ops):
            raise Mismatch("no launch has this op", ops[at])
        for (number, name), buffer in self.workgroup_names.items():
            if self.bodies[number].names.get(name) is None:
                declared = replace(self.bodies[number].program.buffers[name], name=buffer)
                if self.joined.buffers[buffer] != declared:
                    raise Mismatch(f"@{name} is declared otherwise")

    def _barrier(self, ops: Sequence[Op], at: int) -> int:
        at = self.pure(ops, at)
        if at == len(ops) or not is_group_barrier(ops[at]):
            raise Mismatch("here should be a barrier", *ops[at : at + 1])
        return at + 1

    def _ops(self, before: Sequence[Op], after: Sequence[Op], at: int) -> int:
        """`before`, at `after[at]` and what follows.  Returns where that ends."""
        outer, self.checks = self.checks, []
        accesses: list[Op] = []
        for op in before:
            at = self.pure(after, at)
            if op in self.special:
                at = self.special[op](self, op, after, at)
            elif op.name == "check_bounds":
                self._same_check(op)
            elif op.definition.is_pure or (op.name == "load" and not self._is_next(op, after, at)):
                self._computed(op)
            else:
                at = self._same(op, after, at)
            if "buffer" in op.attrs and op.operands:
                accesses.append(op)
        at = self.pure(after, at)
        self._match_checks(accesses)
        self.checks = outer
        return at

    def pure(self, ops: Sequence[Op], at: int) -> int:
        """Past pure ops, and checks that an access is in bounds."""
        while at < len(ops) and (ops[at].definition.is_pure or ops[at].name == "check_bounds"):
            if ops[at].definition.is_pure:
                self._learn(ops[at])
            else:
                self.checks.append(ops[at])
            at += 1
        return at

    def _same_check(self, op: Op) -> None:
        """A check that was there before; nothing depends on where it stands between accesses."""
        same = next((check for check in self.checks if self._difference(op, check) is None), None)
        if same is None:
            raise Mismatch("this check is not there any more", op)
        self.checks.remove(same)

    def _match_checks(self, accesses: Sequence[Op]) -> None:
        """Checks that a pass has added are of accesses in their block, and never fire where these are in bounds."""
        bounds = [bound for op in accesses for bound in self._bounds(op)]
        for check in self.checks:
            if not any(self._is_within(check, *bound) for bound in bounds):
                raise Mismatch(
                    "this check is not of the index and the length of an access in its block", check
                )

    def _bounds(self, op: Op) -> Iterator[tuple[Value, int, Extent]]:
        """Index in the joined program, the elements from there on, and the extent, for each dimension of an access."""
        buffer, name = self._program.buffers[op.attrs["buffer"]], self._actual(op)
        widths = access_extents(op, buffer)
        for dimension, (index, width) in enumerate(zip(self.after(op.indices), widths, strict=True)):
            extent: Extent | None = buffer.shape[dimension]
            if extent is None and name is not None:
                extent = GridCall("len", (name, *((dimension,) if buffer.dimensions > 1 else ())))
            if extent is not None:
                yield index, width, extent

    def _is_within(self, check: Op, index: Value, width: int, extent: Extent) -> bool:
        """Whether a check is of `index`, or of one at most `width - 1` beyond it, and `extent`."""
        value, limit = check.operands
        while self.first([value]) != (index,):
            owner = value.owner
            if not isinstance(owner, Op) or owner.name not in ("cast", "add_sat"):
                return False
            value, *added = owner.operands
            more = extent_of(added[0], lambda name: None) if added else 0
            is_wider = (value.type.bits or 1) <= (owner.result.type.bits or 1)
            if not isinstance(more, int) or not is_wider or owner.result.type.is_signed:
                return False
            width -= more
        length = extent_of(limit, self._buffer_of)
        return width >= 1 and length is not None and self.agree(length, extent)

    def _buffer_of(self, joined_name: str) -> str | None:
        """The pipeline's buffer whose length one of the joined program has."""
        if self._is_tile(joined_name):
            return None
        names = (name for name, its in self.buffers.items() if its == joined_name)
        return self.kept.get(joined_name) or next(names, None)

    def _is_next(self, load: Op, ops: Sequence[Op], at: int) -> bool:
        """Whether a load of a launch is the next op.  If not it may be one of before, of what nothing writes."""
        return at < len(ops) and ops[at].name == "load" and self._difference(load, ops[at]) is None

    def _computed(self, op: Op) -> None:
        """A pure op or a load whose value the joined program has."""
        if self.run_as is not None and op.name in IDS:
            self.values[op.result] = self._id_of_other(op)
            return
        key = self._param(op) or value_key(self._program, op, self.after(op.operands), self._buffer(op))
        if op.name == "load" and self._buffer(op) in self.written:
            key = None
        if op.name == "len" and key not in self.known.by_key:
            key = next((other for other in self._equal_lengths(op) if other in self.known.by_key), key)
        if self._length(op) is not None and key not in self.known.by_key:
            key = ("const", (), (op.result.type,), shown({"value": self._length(op)}), None)
        if key not in self.known.by_key:
            raise Mismatch(f"the joined program does not compute what this {op.name} gives", op)
        self.values.update(zip(op.results, self.known.by_key[key], strict=True))

    def _param(self, op: Op) -> Any:
        """The key of what a runtime scalar of a launch is in the joined program; None for another op."""
        value = self.bodies[self.number].params.get(op.attrs["param"]) if op.name == "param" else None
        if value is None:
            return None
        attrs = {"param": value} if isinstance(value, str) else {"value": value}
        name = "param" if isinstance(value, str) else "const"
        return name, (), (op.result.type,), shown(attrs), None

    def _length(self, op: Op) -> int | None:
        """Result of `len`, where the pipeline says it."""
        if op.name != "len":
            return None
        length = self.lengths.get(length_key(self._actual(op) or "", op.attrs.get("dimension")))
        return None if length is None else length % (1 << (op.result.type.bits or 1))

    def _equal_lengths(self, op: Op) -> Iterator[Any]:
        """The keys of what gives the same as a `len` of a launch, as the pipeline says."""
        for key in self.equal.get(length_key(self._actual(op) or "", op.attrs.get("dimension")), ()):
            name, comma, dimension = key.partition(",")
            attrs = {"dimension": int(dimension)} if comma else {}
            yield "len", (), (op.result.type,), shown(attrs), self.buffers.get(name)

    def _same(self, op: Op, after: Sequence[Op], at: int) -> int:
        """An op that is the next one of the joined program.  Returns the index behind it."""
        if at == len(after):
            raise Mismatch(f"the joined program ends before this {op.name}", op)
        other = after[at]
        if self.run_as is not None:
            self._check_again(op)
        difference = self._difference(op, other)
        if difference is not None:
            raise Mismatch(f"{difference}: this {other.name} stands for", other, op)
        self.values.update(zip(op.results, other.results, strict=True))
        if self._is_retyped(op, other):
            return self._retyped(op, other, after, at + 1)
        halo = self._halo(op)
        if halo is not None and _writes(op) and halo.producer != self.number:
            raise Mismatch("neighbours do not see what this stores to a tile", other, op)
        if halo is not None:
            self.tiles[other] = _TileAccess(self.values[op.index], halo)
        elif "buffer" in op.attrs:
            self.workgroup_names.setdefault((self.number, op.attrs["buffer"]), other.attrs["buffer"])
        if self.run_as is not None:
            self.again[self.number, op] = other
        for mine, its in zip(op.regions, other.regions, strict=True):
            self.values.update(zip(mine.args, its.args, strict=True))
            self._block(mine, its)
        if op.name == "load" and other.attrs["buffer"] not in self.written:
            self._learn(other)
        return at + 1

    def _is_retyped(self, op: Op, other: Op) -> bool:
        if "buffer" not in op.attrs or self._actual(op) not in self.moved:
            return False
        types = (self._program.buffers[op.attrs["buffer"]], self.joined.buffers[other.attrs["buffer"]])
        return types[0].dtype is not types[1].dtype

    def _retyped(self, op: Op, other: Op, after: Sequence[Op], at: int) -> int:
        """An access of a buffer that has another type now: casts are around it."""
        at = self.pure(after, at)
        if op.name == "load":
            self.values[op.result] = self.result_of("cast", [other.result], op.result.type)
            return at
        if op.name != "store":
            raise Mismatch(f"here is a {op.name} of another type", other, op)
        (was,), (now,) = self.after(op.operands[:1]), self.first(other.operands[:1])
        for to, source in ((was, now), (now, was)):  # as wide as it was, or what it is cast to
            cast = to.owner
            if isinstance(cast, Op) and cast.name == "cast" and self.first(cast.operands) == (source,):
                return at
        raise Mismatch("this stores another value", other, op)

    def _block(self, before: Block, after: Block) -> None:
        with self.known.scope():
            if self._ops(before.ops, after.ops, 0) < len(after.ops):
                raise Mismatch("the joined block goes on", *after.ops[-1:])

    def _learn(self, op: Op) -> None:
        """Record that the joined program has computed `op`, for the first time or again."""
        if op.name == "len" and self._is_tile(op.attrs["buffer"]):
            return  # no length of the pipeline
        self.known.learn(self.joined, op)

    def _is_tile(self, joined_name: str) -> bool:
        """Whether a buffer of the joined program is a tile of one of the pipeline: its length may be another one."""
        return any(
            self.buffers[name] == joined_name for name in (*self.moved, *(halo.buffer for halo in self.halos))
        )

    def first(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """First value of the joined program that is surely equal to each."""
        return self.known.first(values)

    # --- one op ---------------------------------------------------------------------------

    @property
    def _program(self) -> Program:
        return self.bodies[self.number].program

    def after(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """Counterparts of values in the program after.  Raises Mismatch for an unknown one."""
        missing = next((value for value in values if value not in self.values), None)
        if missing is not None:
            raise Mismatch(f"what is %{missing.name} is not known here")
        return self.first([self.values[value] for value in values])

    def result_of(self, name: str, operands: Sequence[Value], dtype: DataType, **attrs: Any) -> Value:
        """Result of a pure op with one result in the program after."""
        value = self.known.find(name, operands, dtype, **attrs)
        if value is None:
            raise Mismatch(f"here should be a {name} that gives {dtype}")
        return value

    def _difference(self, op: Op, other: Op) -> str | None:
        """Difference between an op of a launch and one of the joined program; None if they are the same op."""
        if op.name != other.name or len(op.regions) != len(other.regions):
            return f"not {with_article(op.name)}"
        if op.definition.kernel is not None:
            return "a named kernel"
        mine, its = self.after(op.operands), self.first(other.operands)
        is_retyped = "buffer" in other.attrs and self._is_retyped(op, other)
        if self._is_moved(op):  # the index is another one, and so may the type be
            index = op.operands.index(op.index) if op.name != "store" else 1
            mine, its = (each[:index] + each[index + 1 :] for each in (mine, its))
        if (mine != its and not is_retyped) or len(op.operands) != len(other.operands):
            return "other operands"
        if [r.type for r in op.results] != [r.type for r in other.results] and not is_retyped:
            return "another type"
        if [[a.type for a in b.args] for b in op.regions] != [
            [a.type for a in b.args] for b in other.regions
        ]:
            return "another type"
        if attributes(self._program, op) != attributes(self.joined, other):
            return "other attributes"
        return self._other_buffer(op, other) if "buffer" in op.attrs else None

    def _other_buffer(self, op: Op, other: Op) -> str | None:
        name = other.attrs["buffer"]
        if self._buffer(op, name) != name:
            return f"@{name} is another buffer"
        was, now = self._program.buffers[op.attrs["buffer"]], self.joined.buffers[name]
        if was.dtype is not now.dtype and self._actual(op) not in self.moved:
            return f"@{name} has another type"
        return None

    def _buffer(self, op: Op, proposed: str | None = None) -> str | None:
        """The joined program's name of an op's buffer.  `proposed`: for one that only this launch has, at first sight."""
        if "buffer" not in op.attrs:
            return None
        actual = self._actual(op)
        if actual is not None:
            return self.buffers.get(actual)
        known = self.workgroup_names.get((self.number, op.attrs["buffer"]))
        taken = proposed in self.buffers.values() or proposed in self.workgroup_names.values()
        return known or (None if taken else proposed)

    def _actual(self, op: Op) -> str | None:
        """The pipeline's name of an op's buffer; None for one that only this launch has."""
        return self.bodies[self.number].names.get(op.attrs["buffer"])

    def _halo(self, op: Op) -> Halo | None:
        if "buffer" not in op.attrs or op.name == "len":
            return None
        return next((halo for halo in self.halos if halo.buffer == self._actual(op)), None)

    def _is_moved(self, op: Op) -> bool:
        return "buffer" in op.attrs and (self._halo(op) is not None or self._actual(op) in self.moved)

    # --- computed again --------------------------------------------------------------------

    def _again(self, program: Program, ops: Sequence[Op], at: int) -> int:
        """A loop around a branch around the body."""
        at = self.pure(ops, at)
        if at == len(ops) or ops[at].name != "for" or ops[at].results:
            raise Mismatch(f"@{program.name} is not computed again here", *ops[at : at + 1])
        if self.joined.workgroup[1:] != (1, 1) or self.grid[0] is None or self.grid[1:] != (1, 1):
            raise Mismatch(f"@{program.name} has more than one dimension, or an open grid", ops[at])
        if any(buffer.binding is None for buffer in program.buffers.values()):
            raise Mismatch(f"@{program.name} has memory of its own", ops[at])
        inner = ops[at].regions[0].ops
        with self.known.scope():
            branch_at = self.pure(inner, 0)
            branch = inner[branch_at] if branch_at < len(inner) else None
            compare = branch.operands[0].owner if branch is not None and branch.name == "if" else None
            if branch is None or not isinstance(compare, Op) or compare.name != "lt":
                raise Mismatch("here should be a branch on the invocation's id", ops[at])
            if self.pure(inner, branch_at + 1) < len(inner) or any(b.ops for b in branch.regions[1:]):
                raise Mismatch("the loop does more than the launch", branch)
            self.run_as = compare.operands[0]
            self.identities += [self._exists(program, branch), self._once(program, branch)]
            self._block(program.body, branch.regions[0])
            self.run_as = None
        return at + 1

    def _check_again(self, op: Op) -> None:
        """Check that several workgroups may run an op: it touches nothing but what they alone store."""
        halo = self._halo(op)
        is_own = halo is not None and halo.producer == self.number
        if "buffer" in op.attrs and _writes(op) != is_own:
            raise Mismatch(
                "a launch that is computed again only stores to its tile, and only loads others", op
            )
        if op.definition.effects & {"atomic", "sync", "wait", "subgroup", "trap", "print"}:
            raise Mismatch("invocations that are run again exchange nothing", op)

    def _exists(self, program: Program, branch: Op) -> Obligation:
        assert self.run_as is not None and self.grid[0] is not None
        point = Point.any(self.nesting, self._group(), "lane")
        invocation = point.integer(self.run_as).term
        return Obligation(
            f"@{program.name} is run as invocations that it has",
            [branch],
            [point],
            [point.reaches(_inside(branch))],
            z3.And(invocation >= 0, invocation < self.grid[0] * self.joined.workgroup[0]),
            shown_at(point, id=invocation),
        )

    def _once(self, program: Program, branch: Op) -> Obligation:
        assert self.run_as is not None
        one = Point.any(self.nesting, self._group(), "one")
        other = Point.any(self.nesting, one.group, "other")
        same = zip(one.local, other.local, strict=True)
        first = _inside(branch)
        invocation = one.integer(self.run_as).term
        return Obligation(
            f"one lane of a workgroup runs an invocation of @{program.name}",
            [branch],
            [one, other],
            [one.reaches(first), other.reaches(first), invocation == other.integer(self.run_as).term],
            z3.And([a == b for a, b in same]),
            {**shown_at(one), **shown_at(other), "id": invocation},
        )

    def _id_of_other(self, op: Op) -> Value:
        """The value in the joined program that is an id of the invocation which this one is run as."""
        assert self.run_as is not None
        point = Point.any(self.nesting, self._group(), "lane")
        invocation, lanes = point.integer(self.run_as).term, self.joined.workgroup[0]
        expected = {
            "global_id": invocation,
            "local_id": invocation % lanes,
            "workgroup_id": invocation / lanes,
            "lane_id": invocation % lanes % SUBGROUP_SIZE,
            "subgroup_id": invocation % lanes / SUBGROUP_SIZE,
        }[op.name]
        if op.attrs.get("axis", AXES[0]) != AXES[0]:
            expected = z3.IntVal(0)
        values = [results[0] for results in self.known.by_key.values() if len(results) == 1]
        # an id that is 0 is a constant, though ids of other launches may be 0 too
        for value in sorted(values, key=lambda value: getattr(value.owner, "name", "") != "const"):
            if value.type is DataType.U32 and z3.is_true(z3.simplify(point.integer(value).term == expected)):
                return value
        raise Mismatch(f"the joined program has no {op.name} of the invocation that is run again", op)

    # --- what has to hold -------------------------------------------------------------------

    def _group(self) -> Group:
        return Group(self.joined, grid=self.grid)

    def places(self) -> Iterator[Obligation]:
        """Accesses to a tile are where the element is in it."""
        yield from self.identities
        for op, access in self.tiles.items():
            point = Point.any(self.nesting, self._group(), "lane")
            halo, index = access.halo, point.integer(op.index).term
            element = point.integer(access.was).term
            size = self.joined.buffers[op.attrs["buffer"]].count or 0
            first = halo.stride * point.group.workgroup_id(0).term + halo.low
            yield Obligation(
                f"this {op.name} is of element - {halo.stride} * workgroup - {halo.low}, which lies in the tile",
                [op],
                [point],
                [point.reaches(op), *self.inside(point, op)],
                z3.And(index == element - first, is_inside(self.accesses[op], [index], [size])),
                shown_at(point, element=element, place=index),
            )

    def inside(self, point: Point, op: Op) -> list[z3.BoolRef]:
        """An access out of bounds is an error of the program, so none is assumed to be."""
        access = self.tiles.get(op)
        length = self.lengths.get(access.halo.buffer) if access is not None else None
        if access is None or length is None:
            return []
        return [is_inside(self.accesses[op], [point.integer(access.was).term], [length])]


def _inside(branch: Op) -> Op:
    """The first op of what a branch leads to."""
    return next(iter(branch.regions[0].ops), branch)


def _writes(op: Op) -> bool:
    return bool(op.definition.effects & {"write", "atomic"})
