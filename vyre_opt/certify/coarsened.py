"""The claim that an invocation does the work of several neighbours: that of `coarsen`.

The coarse program is the old one for each neighbour, if what the others do is left out:

    for one neighbour                    for two of them
      %v = load @x[%i]                     %v0 = load @x[%i0]    %v1 = load @x[%i1]
      if %p {                              %both = and %p0, %p1
        store %v, @y[%i]                   if %both {
      }                                      store %v0, @y[%i0]  store %v1, @y[%i1]
                                           } else {
                                             if %p0 { store %v0, @y[%i0] }
                                             if %p1 { store %v1, @y[%i1] }
                                           }

So each op of the coarse program is taken for the next one of some neighbours: of one, or of all that it may be the next
one of, if it only reads, or if they enter its blocks together.  Pure ops are looked up, as in `bodies`.  A neighbour's own
ops keep their order.  Between neighbours there is none, as long as nothing makes them meet.

Which invocation of the old launch a neighbour is follows from its ids: the coarse program computes them, and z3 proves
that each invocation of the old launch is one neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

import z3

from ..ir.loops import inits
from ..ir.program import Block, Buffer, Op, Program, Value
from ..ir.rewrite import splittable
from ..ir.types import DataType
from .in_bounds import shown_at
from .independence import check_invocations
from .known_values import KnownValues, attributes, value_key
from .mismatch import Mismatch
from .obligations import Obligation, not_seen
from .points import MOST_INVOCATIONS, Nesting, Point
from .relaunched import Relaunched, Workgroups

__all__ = ["coarsened"]

IDS = ("global_id", "local_id", "workgroup_id", "num_workgroups", "global_size")
"""Ops whose results along x are those of the old launch."""

LOOPS = ("for", "while")
"""Ops that carry values from round to round."""

MOST_LAYOUTS = 64
"""Ways to take the results of an op for those of neighbours that are tried."""

Values = Sequence[Value]

Layout = Sequence[int]
"""For each result of an op how many stand for it: one for all neighbours, or one for each."""


def coarsened(of: Relaunched, by: int) -> Iterator[Obligation]:
    """All that has to hold.  `by`: the neighbours that one invocation is."""
    try:
        neighbours = _Neighbours(of.program, of.after, by)
        of.check()
        _check_declarations(of, by)
        check_invocations(of.program)
        neighbours.match()
        point = of.point(neighbours.nesting)
        workgroups = of.workgroups(point)
    except Mismatch as mismatch:
        what = f"each neighbour in @{of.after.name} runs @{of.program.name}"
        yield not_seen(what, str(mismatch), mismatch.ops)
        return
    yield _each_once(of, by, workgroups)
    yield _are_ids(neighbours, point, workgroups)


def _check_declarations(of: Relaunched, by: int) -> None:
    lanes = of.program.workgroup[0]
    if by < 1 or lanes % by:
        raise Mismatch(f"{lanes} invocations of a workgroup are no multiple of {by}")
    grid = of.program.grid
    if of.after.grid != (None if grid is None else (-(-grid[0] // by), *grid[1:])):
        raise Mismatch(f"the grid of @{of.after.name} is another one")
    if of.program.buffers.keys() != of.after.buffers.keys():
        raise Mismatch(f"@{of.after.name} has other buffers")
    for name, buffer in of.program.buffers.items():
        if not _is_same_buffer(
            buffer, of.after.buffers[name], of.pipeline.buffers.get(of.names.get(name, ""))
        ):
            raise Mismatch(f"@{name} is declared otherwise")


def _is_same_buffer(was: Buffer, now: Buffer, actual: Buffer | None) -> bool:
    """Extents that were open may be the pipeline's."""
    its = actual.shape if actual is not None and actual.dimensions == was.dimensions else was.shape
    extents = zip(was.shape, now.shape, its, strict=False)
    fits = all(old == new or (old is None and new == extent) for old, new, extent in extents)
    return fits and replace(now, shape=was.shape) == was and now.dimensions == was.dimensions


class _Neighbours:
    """Reads the old program and the coarse one side by side.

    `maps`: for each neighbour, the values of the coarse program for those of the old one.  `ids`: the values that stand for
    ids, by the name of the id and the neighbour.  `guard`: the branch in which a workgroup of the old launch exists.
    """

    def __init__(self, old: Program, coarse: Program, by: int) -> None:
        self.old, self.coarse, self.by = old, coarse, by
        self.nesting = Nesting(coarse)
        self.known = KnownValues()
        self.maps: list[dict[Value, Value]] = [{} for _ in range(by)]
        self.ids: dict[tuple[str, int], Value] = {}
        self.guard = _guard(coarse)

    def match(self) -> None:
        """Raises Mismatch."""
        for op in self.coarse.body.ops:
            if op is self.guard:
                with self.known.scope():
                    self._ops(self.old.body.ops, self.guard.regions[0].ops, range(self.by))
            elif op.definition.is_pure:
                self.known.learn(self.coarse, op)
            else:
                raise Mismatch("no neighbour has this op", op)

    @property
    def place(self) -> tuple[Value, Value]:
        """The number of the old launch's workgroup, and of all that it had."""
        compare = self.guard.operands[0].owner
        assert isinstance(compare, Op)
        group, count = self.known.first(compare.operands)
        return group, count

    # --- ops in order -----------------------------------------------------------------------

    def _ops(self, old: Sequence[Op], coarse: Sequence[Op], neighbours: Sequence[int]) -> None:
        """`coarse` is what `old` is for each of the neighbours."""
        at = dict.fromkeys(neighbours, 0)
        for op in coarse:
            if op.definition.is_pure:
                self.known.learn(self.coarse, op)
                continue
            self._pass_pure(old, at)
            nexts = {k: old[index] for k, index in at.items() if index < len(old)}
            ready = [k for k, was in nexts.items() if self._is_same(was, op, k)]
            if not ready:
                raise Mismatch(f"no neighbour has this {op.name} next", op)
            first = min(at[k] for k in ready)
            for k in self._take(old[first], op, [k for k in ready if at[k] == first]):
                at[k] += 1
        self._pass_pure(old, at)
        for k, index in at.items():
            if index < len(old):
                raise Mismatch(f"neighbour {k} has no such {old[index].name}", old[index])

    def _pass_pure(self, old: Sequence[Op], at: dict[int, int]) -> None:
        """Past pure ops whose values the coarse program has by now."""
        for k in at:
            while at[k] < len(old) and old[at[k]].definition.is_pure and self._is_computed(old[at[k]], k):
                at[k] += 1

    def _is_computed(self, op: Op, k: int) -> bool:
        results: Sequence[Value] | None
        if op.name in IDS and op.attrs["axis"] == "x":
            results = [self._id(op.name, k)]
        else:
            results = self.known.by_key.get(value_key(self.old, op, self._now(op.operands, k)))
        self.maps[k].update(zip(op.results, results or (), strict=False))
        return results is not None

    def _now(self, values: Sequence[Value], k: int) -> tuple[Value, ...]:
        """Values of the old program as those of a neighbour."""
        return self.known.first([self.maps[k][value] for value in values])

    def _is_same(self, was: Op, op: Op, k: int) -> bool:
        """Whether `op` may be what `was` is for a neighbour, its blocks not looked at."""
        if was.name != op.name or attributes(self.old, was) != attributes(self.coarse, op):
            return False
        if was.regions:
            mine, its = self._now(_control(was), k), self.known.first(_control(op))
            return mine == its or (was.name == "if" and mine[0] in self._parts(op))
        is_alike = was.attrs.get("buffer") == op.attrs.get("buffer") and _types(was) == _types(op)
        return is_alike and self._now(was.operands, k) == self.known.first(op.operands)

    def _take(self, was: Op, op: Op, neighbours: Sequence[int]) -> Sequence[int]:
        """The neighbours for which `op` is what `was` is.  Raises Mismatch if it is for none."""
        if not was.regions:
            # more than one may read at once, since none of them writes what others read
            neighbours = neighbours if was.name == "load" else neighbours[:1]
            for k in neighbours:
                self.maps[k].update(zip(was.results, op.results, strict=True))
            return neighbours
        control = self.known.first(_control(op))
        together = [k for k in neighbours if self._now(_control(was), k) == control]
        if not together:
            self._parted(was, op, neighbours)
            return neighbours
        if was.name != "while" and len(together) > 1:
            try:
                self._together(was, op, together)
            except Mismatch:
                pass  # they run it one after the other
            else:
                return together
        self._together(was, op, together[:1])
        return together[:1]

    # --- blocks -----------------------------------------------------------------------------

    def _together(self, was: Op, op: Op, neighbours: Sequence[int]) -> None:
        """Neighbours enter and leave blocks together."""
        mismatch = Mismatch(f"this {op.name} carries other values", op, was)
        for layout in _layouts(len(was.results), len(op.results), len(neighbours)):
            try:
                self._blocks(was, op, layout, neighbours)
            except Mismatch as other:
                mismatch = other
                continue
            self._give(layout, was.results, op.results, neighbours)
            return
        raise mismatch

    def _blocks(self, was: Op, op: Op, layout: Layout, neighbours: Sequence[int]) -> None:
        if len(was.regions) != len(op.regions):
            raise Mismatch(f"this {op.name} has other blocks", op, was)
        is_loop, counters = was.name in LOOPS, 1 if was.name == "for" else 0
        if is_loop:
            self._check(layout, inits(was), inits(op), neighbours, op)
        for old, coarse in zip(was.regions, op.regions, strict=True):
            if is_loop:
                for k in neighbours:
                    self.maps[k].update(zip(old.args[:counters], coarse.args[:counters], strict=True))
                self._give(layout, old.args[counters:], coarse.args[counters:], neighbours)
            with self.known.scope():
                self._check(layout, *self._block(old, coarse, neighbours), neighbours, op)

    def _block(self, old: Block, coarse: Block, neighbours: Sequence[int]) -> tuple[Values, Values]:
        """Returns what the blocks end with."""
        (ops, ends), (others, other_ends) = splittable(old), splittable(coarse)
        self._ops(ops, others, neighbours)
        return ends, other_ends

    def _parted(self, was: Op, op: Op, neighbours: Sequence[int]) -> None:
        """A branch of which one side is run where all neighbours take that side; in the other, each has a branch of its own."""
        condition = self.known.first(op.operands)[0].owner
        side = 0 if isinstance(condition, Op) and condition.name == "and" else 1
        together = was.regions[side] if side < len(was.regions) else Block()
        sides = (*op.regions, Block())
        mismatch = Mismatch(f"this {op.name} gives other values", op, was)
        for layout in _layouts(len(was.results), len(op.results), len(neighbours)):
            try:
                with self.known.scope():
                    self._check(layout, *self._block(together, sides[side], neighbours), neighbours, op)
                with self.known.scope():
                    ops, ends = splittable(sides[1 - side])
                    self._ops([was], ops, neighbours)
                    self._check(layout, was.results, ends, neighbours, op)
            except Mismatch as other:
                mismatch = other
                continue
            self._give(layout, was.results, op.results, neighbours)
            return
        raise mismatch

    def _parts(self, branch: Op) -> set[Value]:
        """The conditions whose `and` a branch is on, which are all true in its first block; or those of an `or`, all false in
        its second."""
        (condition,) = self.known.first(branch.operands)
        kind = condition.owner.name if isinstance(condition.owner, Op) else ""
        parts, pending = set[Value](), [condition] if kind in ("and", "or") else []
        while pending:
            value = pending.pop()
            parts.add(value)
            if isinstance(value.owner, Op) and value.owner.name == kind:
                pending += self.known.first(value.owner.operands)
        return parts

    # --- values of blocks -------------------------------------------------------------------

    def _give(self, layout: Layout, old: Values, coarse: Values, neighbours: Sequence[int]) -> None:
        """Values of the coarse program stand for those of neighbours.  Raises Mismatch."""
        for k, value, other in _pairs(layout, old, coarse, neighbours):
            self.maps[k][value] = other

    def _check(self, layout: Layout, old: Values, coarse: Values, neighbours: Sequence[int], op: Op) -> None:
        """Raises Mismatch unless values of the coarse program are those of neighbours."""
        for k, value, other in _pairs(layout, old, coarse, neighbours):
            if self._now([value], k) != self.known.first([other]):
                raise Mismatch(f"this {op.name} carries or gives another value for neighbour {k}", op)

    # --- ids --------------------------------------------------------------------------------

    def _id(self, name: str, k: int) -> Value:
        """The value that is an id of a neighbour along x, in the form that z3 proves it of."""
        k = k if name in ("global_id", "local_id") else 0
        if (name, k) not in self.ids:
            self.ids[name, k] = self._new_id(name, k)
        return self.ids[name, k]

    def _new_id(self, name: str, k: int) -> Value:
        group, count = self.place
        lanes = self.coarse.workgroup[0]
        if name in ("workgroup_id", "num_workgroups"):
            return group if name == "workgroup_id" else count
        if name == "global_size":
            return self._find("mul", count, lanes)
        if k:
            return self._find("add", self._id(name, 0), k)
        if name == "global_id":
            return self._find("add", self._find("mul", group, lanes), self._id("local_id", 0))
        return self._find("rem", self._find("mul", self._find("local_id", axis="x"), self.by), lanes)

    def _find(self, name: str, *operands: Value | int, **attrs: object) -> Value:
        """A u32 that the coarse program computes."""
        values = [self._find("const", value=each) if isinstance(each, int) else each for each in operands]
        value = self.known.find(name, values, DataType.U32, **attrs)
        if value is None:
            raise Mismatch(f"@{self.coarse.name} does not compute the ids of its neighbours by {name}")
        return value


def _guard(coarse: Program) -> Op:
    """The branch that all is in, on whether a workgroup of the old launch exists.  Raises Mismatch."""
    last = coarse.body.ops[-1] if coarse.body.ops else None
    compare = last.operands[0].owner if last is not None and last.name == "if" else None
    if (
        last is None
        or not isinstance(compare, Op)
        or compare.name != "lt"
        or any(b.ops for b in last.regions[1:])
    ):
        raise Mismatch("all should be in a branch on the number of a workgroup", *coarse.body.ops[-1:])
    return last


def _types(op: Op) -> list[DataType]:
    return [result.type for result in op.results]


def _control(op: Op) -> Values:
    """The operands that say which blocks run, and how often."""
    return op.operands[: len(op.operands) - len(inits(op))] if op.name in LOOPS else op.operands


def _layouts(count: int, results: int, neighbours: int) -> Iterator[Layout]:
    """Ways in which `results` may stand for `count` of each neighbour: each is one for all, or one for every neighbour."""
    if neighbours == 1:
        yield [1] * count
        return
    common, rest = divmod(neighbours * count - results, neighbours - 1)
    if rest == 0 and 0 <= common <= count:
        for chosen in islice(combinations(range(count), common), MOST_LAYOUTS):
            yield [1 if number in chosen else neighbours for number in range(count)]


def _pairs(
    layout: Layout, old: Values, coarse: Values, neighbours: Sequence[int]
) -> Iterator[tuple[int, Value, Value]]:
    """Neighbours, with a value of the old program and the one that stands for it.  Raises Mismatch."""
    if len(neighbours) == 1:
        layout = [1] * len(old)
    if (len(layout), sum(layout)) != (len(old), len(coarse)):
        raise Mismatch("blocks carry or give other values")
    at = 0
    for value, width in zip(old, layout, strict=True):
        for number, k in enumerate(neighbours):
            yield k, value, coarse[at + (number if width > 1 else 0)]
        at += width


def _each_once(of: Relaunched, by: int, workgroups: Workgroups) -> Obligation:
    """Each invocation of the old launch is a neighbour of one invocation, and there is none beside."""
    lanes = of.program.workgroup[0]
    group, lane = z3.Int("workgroup"), z3.Int("lane")
    one, other = (_Place.any(name, by, lanes, workgroups) for name in ("one", "other"))
    its = _Place(group / by, (group % by * lanes + lane) / by, lane % by, by, lanes, workgroups)
    exists = z3.And(group >= 0, group < workgroups.count, lane >= 0, lane < lanes)
    is_one = z3.And(one.group == other.group, one.lane == other.lane)
    return Obligation(
        f"each invocation of @{of.program.name} is one neighbour in @{of.after.name}",
        [],
        [],
        workgroups.given,
        z3.And(
            z3.Implies(exists, z3.And(its.exists, its.group == group, its.lane == lane)),
            z3.Implies(z3.And(one.exists, other.exists, is_one), one.is_same(other)),
            z3.Implies(one.exists, z3.And(one.lane >= 0, one.lane < lanes)),
        ),
        {
            "workgroups": workgroups.groups,
            "workgroups before": workgroups.count,
            "workgroup": group,
            "lane": lane,
        },
    )


@dataclass(frozen=True)
class _Place:
    """Terms: neighbour `k` of lane `local` of workgroup `id`."""

    id: z3.ArithRef
    local: z3.ArithRef
    k: z3.ArithRef
    by: int
    lanes: int
    workgroups: Workgroups

    @staticmethod
    def any(name: str, by: int, lanes: int, workgroups: Workgroups) -> _Place:
        id, local, k = (z3.Int(f"{name}.{each}") for each in ("workgroup", "lane", "neighbour"))
        return _Place(id, local, k, by, lanes, workgroups)

    @property
    def group(self) -> z3.ArithRef:
        """The number of the old launch's workgroup."""
        return self.by * self.id + self.by * self.local / self.lanes

    @property
    def lane(self) -> z3.ArithRef:
        """The local id in it."""
        return self.by * self.local % self.lanes + self.k

    @property
    def exists(self) -> z3.BoolRef:
        within = [
            (self.id, self.workgroups.groups),
            (self.local, self.lanes),
            (self.k, self.by),
        ]
        return z3.And([z3.And(term >= 0, term < limit) for term, limit in within])

    def is_same(self, other: _Place) -> z3.BoolRef:
        return z3.And(self.id == other.id, self.local == other.local, self.k == other.k)


def _are_ids(neighbours: _Neighbours, point: Point, workgroups: Workgroups) -> Obligation:
    """What the coarse program takes for ids and for the number of workgroups."""
    by, lanes = neighbours.by, neighbours.coarse.workgroup[0]
    place = _Place(point.group.workgroup_id(0).term, point.local[0], z3.IntVal(0), by, lanes, workgroups)
    first = place.group * lanes + place.lane
    expected = {
        "workgroup_id": place.group,
        "num_workgroups": workgroups.count,
        "global_size": workgroups.count * lanes % MOST_INVOCATIONS,
        "local_id": place.lane,
        "global_id": first,
    }
    group, count = (point.integer(value).term for value in neighbours.place)
    equal = [point.integer(value).term == expected[name] + k for (name, k), value in neighbours.ids.items()]
    guard = neighbours.guard
    exists = point.boolean(guard.operands[0])
    return Obligation(
        f"@{neighbours.coarse.name} computes the ids that its neighbours had",
        [guard],
        [point],
        [point.reaches(guard), *workgroups.given],
        z3.And(group == place.group, count == workgroups.count, z3.Implies(exists, z3.And(equal))),
        shown_at(point, workgroup=group, workgroups=count),
    )
