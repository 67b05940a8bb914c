"""The claim of `coarsen`: an invocation does the work of several neighbours.

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

So each op of the coarse program is taken for the next one of one neighbour; or of all, if it only reads, or if they enter
its blocks together.  Pure ops are looked up, as in `bodies`.  A neighbour's own
ops keep their order.  Between neighbours there is none, as long as nothing makes them meet.

Which invocation of the old launch a neighbour is follows from its ids, see `coarse_ids`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice

from ..ir.loops import inits
from ..ir.program import Block, Buffer, Op, Program, Value
from ..ir.rewrite import splittable
from ..ir.types import DataType
from .coarse_ids import CoarseIds, NeighbourBlock, are_ids, each_neighbour_once, each_place_once
from .independence import check_invocations
from .known_values import KnownValues, attributes, value_key
from .mismatch import Mismatch
from .obligations import Obligation, not_seen
from .points import Nesting
from .relaunched import Relaunched

__all__ = ["coarsened"]

LOOPS = ("for", "while")
"""Ops that carry values from round to round."""

MOST_LAYOUTS = 64
"""Ways to take the results of an op for those of neighbours that are tried."""

Values = Sequence[Value]

Layout = Sequence[int]
"""Number of values that stand for each result of an op: one for all neighbours, or one for each."""


def coarsened(of: Relaunched, block: NeighbourBlock) -> Iterator[Obligation]:
    """All that has to hold.  `block`: the neighbours that one invocation is."""
    try:
        of.check("".join(axis for axis in block.axes if block.groups(axis) > 1))
        _check_declarations(of, block)
        check_invocations(of.program)
        neighbours = _Neighbours(of.program, of.after, block)
        neighbours.match()
        point = of.point(Nesting(of.after))
        workgroups = {axis: of.workgroups(point, axis) for axis in block.axes}
    except Mismatch as mismatch:
        what = f"each neighbour in @{of.after.name} runs @{of.program.name}"
        yield not_seen(what, str(mismatch), mismatch.ops)
        return
    for axis, along in workgroups.items():
        if block.groups(axis) > 1:
            yield each_neighbour_once(of.program, axis, block, along)
    yield from each_place_once(of.program, block)
    yield are_ids(neighbours.ids, point, workgroups)


def _check_declarations(of: Relaunched, block: NeighbourBlock) -> None:
    block.check(of.program.workgroup)
    grid = of.program.grid
    expected = None if grid is None else (-(-grid[0] // block.groups("x")), -(-grid[1] // block.y), grid[2])
    if of.after.grid != expected:
        raise Mismatch(f"the grid of @{of.after.name} is another one")
    if of.program.buffers.keys() != of.after.buffers.keys():
        raise Mismatch(f"@{of.after.name} has other buffers")
    for name, buffer in of.program.buffers.items():
        actual = of.pipeline.buffers.get(of.names.get(name, ""))
        if not _is_same_buffer(buffer, of.after.buffers[name], actual):
            raise Mismatch(f"@{name} is declared otherwise")


def _is_same_buffer(was: Buffer, now: Buffer, actual: Buffer | None) -> bool:
    """Extents that were open may be the pipeline's."""
    its = actual.shape if actual is not None and actual.dimensions == was.dimensions else was.shape
    extents = zip(was.shape, now.shape, its, strict=False)
    fits = all(old == new or (old is None and new == extent) for old, new, extent in extents)
    return fits and replace(now, shape=was.shape) == was and now.dimensions == was.dimensions


class _Neighbours:
    """Reads the old program and the coarse one side by side.

    `maps`: for each neighbour, the values of the coarse program for those of the old one.  `guard`: the branch in which
    workgroups of the old launch exist, None where all of them do.  Of several blocks of neighbours it is that of the last;
    on its other side each earlier one has a branch of its own, one after the other.
    """

    def __init__(self, old: Program, coarse: Program, block: NeighbourBlock) -> None:
        self.old, self.coarse, self.count = old, coarse, block.count
        self.known = KnownValues()
        self.maps: list[dict[Value, Value]] = [{} for _ in range(block.count)]
        self.guard = _guard(coarse, block.blocks) if block.count > 1 else None
        condition = None if self.guard is None else self.guard.operands[0]
        self.ids = CoarseIds(coarse, block, self.known, condition)

    def match(self) -> None:
        """Raises Mismatch."""
        ops = self.coarse.body.ops
        if self.guard is not None:
            for op in ops[:-1]:
                if not op.definition.is_pure:
                    raise Mismatch("no neighbour has this op", op)
                self.known.learn(self.coarse, op)
            ops = self.guard.regions[0].ops
        with self.known.scope():
            self._ops(self.old.body.ops, ops, range(self.count))
        if self.ids.block.blocks > 1:
            assert self.guard is not None
            self._blocks_apart(self.guard.regions[1].ops)

    def _blocks_apart(self, ops: Sequence[Op]) -> None:
        """Raises Mismatch unless each block of neighbours but the last runs the old program in a branch of its own."""
        blocks = self.ids.block.blocks
        self.maps = [{} for _ in range(self.count)]
        if len(ops) != blocks - 1 or any(op.name != "if" or op.results for op in ops):
            raise Mismatch(f"there should be {blocks - 1} branches, one for each block", *ops[:1])
        for number, op in enumerate(ops):
            if any(block.ops for block in op.regions[1:]):
                raise Mismatch("no neighbour has this side of the branch", op)
            self.ids.guards.append(op.operands[0])
            each = [k for k in range(self.count) if self.ids.block.block(k) == number]
            with self.known.scope():
                self._ops(self.old.body.ops, op.regions[0].ops, each)

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
            ready = [k for k in ready if at[k] == first]
            for k in self._take(old[first], op, ready, len(ready) == len(at)):
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
        value = self.ids.of(op, k)
        key = value_key(self.old, op, self._now(op.operands, k))
        results = self.known.by_key.get(key) if value is None else (value,)
        if results is not None:
            self.maps[k].update(zip(op.results, results, strict=True))
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

    def _take(self, was: Op, op: Op, ready: Sequence[int], is_all: bool) -> Sequence[int]:
        """The ready neighbours for which `op` equals `was`: all of the block, or one.  Raises Mismatch if there are none."""
        if not was.regions:
            # all may read at once, since none of them writes what others read
            taken = ready if was.name == "load" and is_all else ready[:1]
            for k in taken:
                self.maps[k].update(zip(was.results, op.results, strict=True))
            return taken
        control = self.known.first(_control(op))
        together = [k for k in ready if self._now(_control(was), k) == control]
        if not together and is_all:
            self._parted(was, op, ready)
            return ready
        if is_all and len(together) == len(ready) and was.name != "while":
            try:
                self._together(was, op, together)
            except Mismatch:
                pass  # they run it one after the other
            else:
                return together
        if not together:
            raise Mismatch(f"this {op.name} is of some neighbours", op, was)
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
        """A branch with one side for all neighbours together, if all take that side, and one with a branch for each."""
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


def _guard(coarse: Program, blocks: int) -> Op:
    """The branch that all is in, on whether workgroups of the old launch exist.  Raises Mismatch."""
    last = coarse.body.ops[-1] if coarse.body.ops else None
    regions = 2 if blocks > 1 else 1
    if (
        last is None
        or last.name != "if"
        or last.results
        or len(last.regions) < regions
        or any(block.ops for block in last.regions[regions:])
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
