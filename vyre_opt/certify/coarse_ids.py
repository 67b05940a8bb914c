"""Ids of neighbours: the invocation of the old launch that a neighbour in a coarse program is.

    p         where a lane stands in its workgroup, along an axis: its local id, or a place in a tile
    group     by * workgroup_id + by * p / lanes        the workgroup that it belongs to, of the old launch
    lane      by * p % lanes + k                        the local id of its neighbour k

Of several blocks, of `by` neighbours each, the one with number b is of the workgroup

    group     by * (blocks * workgroup_id + b) + by * p / lanes

The lanes of tiles of a by b stand in a tile row by row; tiles stand one behind the other, in rows of the workgroup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import z3

from ..ir.ops import AXES
from ..ir.program import Dim3, Op, Program, Value
from ..ir.types import DataType
from ..records import dataclass
from .in_bounds import shown_at
from .known_values import KnownValues
from .mismatch import Mismatch
from .obligations import Obligation
from .points import MOST_INVOCATIONS, Point
from .relaunched import Workgroups

__all__ = ["CoarseIds", "NeighbourBlock", "are_ids", "each_neighbour_once", "each_place_once"]

IDS = ("global_id", "local_id", "workgroup_id", "num_workgroups", "global_size")


@dataclass(frozen=True)
class NeighbourBlock:
    """`blocks` of `x` by `y` neighbours are one invocation, numbered row by row, and block by block.

    `tile`: the size of the tiles in which lanes stand.
    """

    x: int
    y: int
    tile: tuple[int, int] | None
    blocks: int = 1

    @property
    def count(self) -> int:
        return self.x * self.y * self.blocks

    def along(self, axis: str) -> int:
        """Neighbours of a block."""
        return {"x": self.x, "y": self.y}.get(axis, 1)

    def groups(self, axis: str) -> int:
        """The old launch's workgroups that one has."""
        return self.x * self.blocks if axis == "x" else self.along(axis)

    def block(self, k: int) -> int:
        """The block that neighbour `k` is in."""
        return k // (self.x * self.y)

    def number(self, k: int, axis: str) -> int:
        """Place of neighbour `k` in its block."""
        return k % self.x if axis == "x" else k // self.x % self.y

    @property
    def axes(self) -> str:
        """Axes along which ids differ from the coarse program's own."""
        return "".join(axis for axis in "xy" if self.tile is not None or self.groups(axis) > 1)

    def check(self, workgroup: Dim3) -> None:
        """Raises Mismatch."""
        if self.blocks < 1 or (self.blocks > 1 and (self.x == 1 or self.y > 1 or self.tile is not None)):
            raise Mismatch(f"there are no {self.blocks} blocks of one neighbour, along y or in tiles")
        for axis, lanes in zip("xy", workgroup, strict=False):
            if self.along(axis) < 1 or lanes % self.along(axis):
                raise Mismatch(f"{lanes} lanes along {axis} are no multiple of {self.along(axis)}")
        for size, lanes in zip(self.tile or (), workgroup, strict=False):
            if size < 1 or lanes % size:
                raise Mismatch(f"a workgroup of {workgroup} is not made of tiles of {self.tile}")

    def places(self, local: Mapping[str, z3.ArithRef], width: int) -> dict[str, z3.ArithRef]:
        """Place of a lane in a workgroup of this width, by its local ids."""
        if self.tile is None:
            return dict(local)
        a, b = self.tile
        linear = local["x"] + width * local["y"]
        tile = linear / (a * b)
        return {
            "x": linear % a + a * (tile % (width // a)),
            "y": linear / a % b + b * (tile / (width // a)),
        }


class CoarseIds:
    """Finds the values of a coarse program that are ids of its neighbours, in the form that z3 proves it of.

    `known`: what it computes.  `guard`: whether the workgroups of the old launch exist, those of the last block; None where
    all do.  `guards`: the same of earlier blocks, in their order.
    `values`: those that were asked for, by the name of the id, the axis, the neighbour's block, and how much more the id is
    than that of the first neighbour.
    """

    def __init__(
        self, coarse: Program, block: NeighbourBlock, known: KnownValues, guard: Value | None
    ) -> None:
        self.coarse, self.block, self.known, self.guard = coarse, block, known, guard
        self.guards: list[Value] = []
        self.values: dict[tuple[str, str, int, int], Value] = {}

    def of(self, op: Op, k: int) -> Value | None:
        """Value of an op for a neighbour; None if it is the coarse program's own.  Raises Mismatch."""
        axis = op.attrs.get("axis", "")
        if op.name not in IDS or axis not in self.block.axes:
            return None
        block, lanes = self.block.block(k), self.coarse.workgroup[AXES.index(axis)]
        number, group = self.block.number(k, axis), self.block.x * block
        more = {"global_id": group * lanes + number, "local_id": number, "workgroup_id": group}
        return self._id(op.name, axis, more.get(op.name, 0), block)

    def _id(self, name: str, axis: str, more: int, block: int = 0) -> Value:
        key = name, axis, block, more
        if key not in self.values:
            self.values[key] = self._new_id(name, axis, more)
        return self.values[key]

    def _new_id(self, name: str, axis: str, more: int) -> Value:
        lanes, by = self.coarse.workgroup[AXES.index(axis)], self.block.along(axis)
        if more:
            return self._find("add", self._id(name, axis, 0), more)
        if name == "global_id":
            start = self._find("mul", self._id("workgroup_id", axis, 0), lanes)
            return self._find("add", start, self._id("local_id", axis, 0))
        if name == "global_size":
            return self._find("mul", self._id("num_workgroups", axis, 0), lanes)
        if self.block.groups(axis) == 1:
            return self._place(axis) if name == "local_id" else self._find(name, axis=axis)
        if name == "num_workgroups":
            last = self.block.blocks - 1
            return self._number_of_groups(self._id("workgroup_id", axis, self.block.x * last, last))
        first = self._find("mul", self._place(axis), by)
        if name == "local_id":
            return self._find("rem", first, lanes)
        group = self._find("mul", self._find("workgroup_id", axis=axis), self.block.groups(axis))
        return self._find("add", group, self._find("div", first, lanes))

    def _place(self, axis: str) -> Value:
        """Place of a lane; see `NeighbourBlock.places`."""
        if self.block.tile is None:
            return self._find("local_id", axis=axis)
        (a, b), width, find = self.block.tile, self.coarse.workgroup[0], self._find
        linear = find("add", find("local_id", axis="x"), find("mul", find("local_id", axis="y"), width))
        tile = find("div", linear, a * b)
        if axis == "x":
            return find("add", find("rem", linear, a), find("mul", find("rem", tile, width // a), a))
        row = find("rem", find("div", linear, a), b)
        return find("add", row, find("mul", find("div", tile, width // a), b))

    def _number_of_groups(self, group: Value) -> Value:
        """Number that the guard compares a workgroup with."""
        pending = [] if self.guard is None else [self.guard]
        while pending:
            op = pending.pop().owner
            if isinstance(op, Op) and op.name == "and":
                pending += op.operands
            elif isinstance(op, Op) and op.name == "lt" and self.known.first(op.operands[:1]) == (group,):
                return self.known.first(op.operands)[1]
        raise Mismatch(f"@{self.coarse.name} does not compare the workgroups of its neighbours")

    def _find(self, name: str, *operands: Value | int, **attrs: object) -> Value:
        """A u32 that the coarse program computes."""
        values = [self._find("const", value=each) if isinstance(each, int) else each for each in operands]
        value = self.known.find(name, values, DataType.U32, **attrs)
        if value is None:
            raise Mismatch(f"@{self.coarse.name} does not compute the ids of its neighbours by {name}")
        return value


def are_ids(ids: CoarseIds, point: Point, workgroups: Mapping[str, Workgroups]) -> Obligation:
    """Obligation that a coarse program's ids are those of the old launch, and its guard tells whether their workgroups exist."""
    block, coarse = ids.block, ids.coarse
    places = block.places(dict(zip("xy", point.local, strict=False)), coarse.workgroup[0])
    expected: dict[tuple[str, str], z3.ArithRef] = {}
    inside: list[list[z3.BoolRef]] = [[] for _ in range(block.blocks)]
    for axis, there in workgroups.items():
        number, by = AXES.index(axis), block.along(axis)
        lanes = coarse.workgroup[number]
        own = point.group.workgroup_id(number).term
        group, lane = block.groups(axis) * own + by * places[axis] / lanes, by * places[axis] % lanes
        if block.groups(axis) > 1:
            for b, its in enumerate(inside):
                its.append(group + block.x * b < there.count)
        expected |= {
            ("workgroup_id", axis): group,
            ("num_workgroups", axis): there.count,
            ("global_size", axis): there.count * lanes % MOST_INVOCATIONS,
            ("local_id", axis): lane,
            ("global_id", axis): group * lanes + lane,
        }
    right = [
        z3.Implies(z3.And(inside[b]), point.integer(value).term == expected[name, axis] + more)
        for (name, axis, b, more), value in ids.values.items()
    ]
    guards = [
        z3.BoolVal(True) if ids.guard is None else point.boolean(ids.guard),
        *map(point.boolean, ids.guards),
    ]
    right += [guard == z3.And(its) for guard, its in zip(guards, (inside[-1], *inside[:-1]), strict=True)]
    shown = {f"old workgroup {axis}": expected["workgroup_id", axis] for axis in block.axes}
    return Obligation(
        f"@{coarse.name} computes the ids that its neighbours had",
        coarse.body.ops[-1:],
        [point],
        [
            *map(point.reaches, coarse.body.ops[-1:]),
            *(fact for each in workgroups.values() for fact in each.premises),
        ],
        z3.And(right),
        shown_at(point, **shown),
    )


def each_place_once(program: Program, block: NeighbourBlock) -> Iterator[Obligation]:
    """Each lane stands in a place of its own: of as many, so each place has a lane."""
    if block.tile is None:
        return
    width, height, _ = program.workgroup
    one, other = ({axis: z3.Int(f"{name} {axis}") for axis in "xy"} for name in ("one", "other"))
    lanes = [
        z3.And(lane["x"] >= 0, lane["x"] < width, lane["y"] >= 0, lane["y"] < height) for lane in (one, other)
    ]
    at, to = (block.places(lane, width) for lane in (one, other))
    within = z3.And(at["x"] >= 0, at["x"] < width, at["y"] >= 0, at["y"] < height)
    are_one = z3.And(one["x"] == other["x"], one["y"] == other["y"])
    yield Obligation(
        f"each lane of @{program.name} has a place in the tiles",
        [],
        [],
        lanes,
        z3.And(within, z3.Implies(z3.And(at["x"] == to["x"], at["y"] == to["y"]), are_one)),
        {f"{name} {axis}": lane[axis] for name, lane in (("one", one), ("other", other)) for axis in "xy"},
    )


@dataclass(frozen=True)
class _Neighbour:
    """Terms along an axis: neighbour `k` in block `b` of the lane at `place` in workgroup `id`."""

    id: z3.ArithRef
    place: z3.ArithRef
    b: z3.ArithRef
    k: z3.ArithRef
    by: int
    blocks: int
    lanes: int
    groups: z3.ArithRef

    @property
    def group(self) -> z3.ArithRef:
        """The number of the old launch's workgroup."""
        return self.by * (self.blocks * self.id + self.b) + self.by * self.place / self.lanes

    @property
    def lane(self) -> z3.ArithRef:
        """The local id in it."""
        return self.by * self.place % self.lanes + self.k

    @property
    def exists(self) -> z3.BoolRef:
        within = (self.id, self.groups), (self.place, self.lanes), (self.b, self.blocks), (self.k, self.by)
        return z3.And([z3.And(term >= 0, term < limit) for term, limit in within])

    def is_same(self, other: _Neighbour) -> z3.BoolRef:
        pairs = (self.id, other.id), (self.place, other.place), (self.b, other.b), (self.k, other.k)
        return z3.And([mine == its for mine, its in pairs])


def each_neighbour_once(
    program: Program, axis: str, block: NeighbourBlock, workgroups: Workgroups
) -> Obligation:
    """Along an axis, each invocation of the old launch is a neighbour of one invocation."""
    lanes, by, groups = program.workgroup[AXES.index(axis)], block.along(axis), block.groups(axis)

    def neighbour(*terms: z3.ArithRef) -> _Neighbour:
        id, place, b, k = terms
        return _Neighbour(id, place, b, k, by, groups // by, lanes, workgroups.groups)

    one, other = (
        neighbour(*(z3.Int(f"{name}.{each}") for each in ("workgroup", "place", "block", "neighbour")))
        for name in ("one", "other")
    )
    group, lane = z3.Int("workgroup"), z3.Int("lane")
    its = neighbour(group / groups, (group % by * lanes + lane) / by, group % groups / by, lane % by)
    exists = z3.And(group >= 0, group < workgroups.count, lane >= 0, lane < lanes)
    is_one = z3.And(one.group == other.group, one.lane == other.lane)
    return Obligation(
        f"each invocation of @{program.name} along {axis} is one neighbour",
        [],
        [],
        workgroups.premises,
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
