"""Runs of the indices and conditions of some invocations, by which warnings see what each of them accesses.

    %i = add %l, 1          columns: the number of each invocation, one for all, or None for what is not known
    if lt %i, %n {          those for which it holds come to the block
      load @t[%i]           a subclass of Run hears of the access, and of barriers

The first workgroup is run with ids, constants, and lengths and whole numbers of the caller, each as large as the workgroup where nothing says it.
Contents of buffers are not known, and neither is who comes to a block behind such a condition.  Three rounds of a loop are run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from ...records import dataclass
from .. import arith
from ..loops import bounds, inits
from ..ops import AXES, SUBGROUP_SIZE
from ..program import Block, Buffer, Op, Program, Value
from ..rewrite import constant_value
from .data_conditions import Assumption
from .touched_elements import Around, Place

__all__ = [
    "MOST_LANES", "MOST_STEPS", "ONE_GROUP", "ROUNDS", "Column", "Lanes", "Run", "Supposed", "moved_extents", "moved_width", "of_lane",
]  # fmt: skip

Column = int | list[int] | None
"""Number of each invocation, one number for all of them, or None for what is not known."""
Lanes = Sequence[int] | None
"""Invocations that come to an op; None where that is not known."""

MOST_LANES = 1024
MOST_STEPS = 1 << 18
"""Ops that are run, with each round of a loop, times the invocations of the workgroup: a tenth of a second."""
ROUNDS = 3


class _Enough(Exception):
    """Error that ends a run of so many ops that the others are not looked at."""


@dataclass(frozen=True, slots=True)
class Supposed:
    """Facts that a run takes for given: workgroups of the grid, those that are run, and lengths and whole numbers of the caller, by the names
    of buffers and "@name" of params.  `places`: the invocations of a workgroup that are run, by their local ids; all by default.
    `contents`: arrays of the caller, of which elements are taken.  `times`: how many times the workgroup lengths are that nothing says."""

    grid: tuple[int, ...] = (1, 1, 1)
    groups: tuple[tuple[int, ...], ...] = ((0, 0, 0),)
    places: tuple[tuple[int, ...], ...] | None = None
    shapes: Mapping[str, Sequence[int]] | None = None
    params: Mapping[str, int] | None = None
    contents: Mapping[str, Any] = field(default_factory=dict)
    times: int = 1


ONE_GROUP = Supposed()


class Run:
    """A run of the indices and conditions of some invocations, numbered from 0: by workgroups, and in these by `places`.  `rounds`: of a
    loop that are run."""

    rounds = ROUNDS

    def __init__(self, program: Program, supposed: Supposed = ONE_GROUP) -> None:
        self.program, self.supposed = program, supposed
        x, y, z = program.workgroup
        self.places = supposed.places or [(n % x, n // x % y, n // (x * y)) for n in range(x * y * z)]
        self.count = len(self.places) * len(supposed.groups)
        self.columns: dict[Value, Column] = {}
        self.computed_from: dict[Op, list[Column]] = {}
        self.around: tuple[Around, ...] = ()
        self.left = MOST_STEPS

    def run(self) -> None:
        """Run the program, up to the most steps."""
        try:
            self.block(self.program.body, range(self.count))
        except _Enough:
            pass

    def access(self, op: Op, lanes: Lanes) -> None:
        """Hear of a load, a store or an atomic of these invocations."""

    def meet(self, op: Op) -> None:
        """Hear of an op that orders accesses."""

    # --- control flow

    def block(self, block: Block, lanes: Lanes) -> None:
        for op in block.ops:
            self.left -= self.count
            if self.left < 0:
                raise _Enough
            self.op(op, lanes)

    def op(self, op: Op, lanes: Lanes) -> None:
        effects = op.definition.effects
        if op.name == "if":
            self.branch(op, lanes)
        elif op.name == "for":
            self.loop(op, lanes)
        elif op.name == "while":
            self.while_(op, lanes)
        elif op.regions:
            for region in op.regions:
                self.block(region, lanes)
        elif effects & {"sync", "subgroup", "wait"}:
            self.meet(op)
        elif op.definition.format in ("load", "store", "slice_load", "slice_store", "atomic"):
            self.access(op, lanes)
            if op.attrs["buffer"] in self.supposed.contents and op.name == "load":
                self.columns[op.results[0]] = self.loaded(op)
        elif len(op.results) == 1 and (op.definition.is_pure or not effects):
            column = self.computed(op)
            if column is not None:
                self.columns[op.results[0]] = column

    def branch(self, op: Op, lanes: Lanes) -> None:
        condition = self.columns.get(op.operands[0], constant_value(op.operands[0]))
        parts: list[Lanes] = [None, None]
        if lanes is not None and condition is not None:
            parts = [
                [lane for lane in lanes if bool(of_lane(condition, lane)) is holds] for holds in (True, False)
            ]
        ends: list[list[Column]] = []
        before = self.around
        for way, (region, part) in enumerate(zip(op.regions, parts, strict=False)):
            if part is None or part:
                around = Around(op, isinstance(condition, int))
                if lanes is not None and part is None:
                    part, around.assumed, around.way = *self.assumed(op.operands[0], way == 0, lanes), way
                self.around = (*before, around)
                self.block(region, part)
                self.around = before
            ends.append(self.ends(region))
        for number, result in enumerate(op.results):
            each = [end[number] if number < len(end) else None for end in ends]
            self.columns[result] = self.merged(each, parts)

    def assumed(self, condition: Value, holds: bool, lanes: Sequence[int]) -> tuple[Lanes, Assumption | None]:
        """Invocations that may come to a block behind a condition that is not known, and what that assumes."""
        return None, None

    def ends(self, block: Block) -> list[Column]:
        """Columns of what a block gives."""
        end = block.terminator
        return [self.column(value) for value in end.operands] if end is not None else []

    def merged(self, columns: Sequence[Column], parts: Sequence[Lanes]) -> Column:
        """Column of a result, which each part of the invocations has from another block."""
        given = [column for column, part in zip(columns, parts, strict=False) if part is None or part]
        if len(given) == 1 and None not in parts:
            return given[0]
        result: list[int] = [0] * self.count
        for column, part in zip(columns, parts, strict=False):
            if part is None or (column is None and part):
                return None
            for lane in part:
                result[lane] = column[lane] if isinstance(column, list) else column or 0
        return result

    def loop(self, op: Op, lanes: Lanes) -> None:
        body = op.regions[0]
        counter, *carried = body.args
        lower, upper, step = (b if isinstance(b, int) else self.column(b) for b in bounds(op))
        values = [self.column(value) for value in inits(op)]
        is_known = lanes is not None and None not in (lower, upper, step)
        at: Column = lower
        before, self.around = (
            self.around,
            (*self.around, Around(op, not isinstance(upper, list) and not isinstance(lower, list))),
        )
        for _ in range(self.rounds if is_known else 1):
            part = lanes if is_known else None
            if part is not None:
                part = _below(at, upper, part)
                if not part:
                    break
            self.columns.update(zip([counter, *carried], [at if is_known else None, *values], strict=False))
            self.block(body, part)
            after = self.ends(body)
            values = [
                self.merged([v, a], [_others(lanes, part), part]) for v, a in zip(values, after, strict=False)
            ]
            at = _added(at, step)
        else:
            values = [None] * len(values)
            self.leave(op)
        self.around = before
        self.columns.update(zip(op.results, values, strict=False))

    def leave(self, op: Op) -> None:
        """Hear of a loop that may have more rounds."""

    def while_(self, op: Op, lanes: Lanes) -> None:
        condition, body = op.regions
        values = [self.column(value) for value in op.operands]
        part = lanes
        before = self.around
        for _ in range(self.rounds):
            self.columns.update(zip(condition.args, values, strict=False))
            self.block(condition, part)
            (holds,) = self.ends(condition) or [None]
            part = None if part is None or holds is None else [lane for lane in part if of_lane(holds, lane)]
            if part is not None and not part:
                break
            if self.around is before:
                self.around = (*before, Around(op, isinstance(holds, int)))
            self.columns.update(zip(body.args, values, strict=False))
            self.block(body, part)
            after = self.ends(body)
            values = [
                self.merged([v, a], [_others(lanes, part), part]) for v, a in zip(values, after, strict=False)
            ]
            if part is None:
                values = [None] * len(values)
                self.leave(op)
                break
        else:
            values = [None] * len(values)
            self.leave(op)
        self.around = before
        self.columns.update(zip(op.results, values, strict=False))

    # --- numbers

    def column(self, value: Value) -> Column:
        if value in self.columns:
            return self.columns[value]
        known = constant_value(value)
        return known if isinstance(known, int) and not value.type.element.is_float else None

    def computed(self, op: Op) -> Column:
        """Column of the result of an op, of integers and bools that are no vectors."""
        row, dtype = op.definition, op.results[0].type
        if dtype.is_vec or not (dtype.is_int or dtype.is_bool):
            return None
        if row.format in ("id", "size", "len", "param", "spec"):
            return self.given(op)
        operands = [self.column(operand) for operand in op.operands]
        if not operands or any(column is None for column in operands):
            return None
        earlier = self.computed_from.get(op)
        if earlier is not None and all(a is b for a, b in zip(operands, earlier, strict=True)):
            return self.columns.get(op.results[0])  # as in the round before
        self.computed_from[op] = operands
        kind = op.operands[0].type
        if row.format == "select":
            return self.each(operands, lambda p, a, b: a if p else b)
        if op.name == "cast" and (kind.is_int or kind.is_bool):
            return self.each(operands, lambda a: arith.convert(a, kind, dtype))
        fold = row.fold_int
        if fold is None or not (kind.is_int or kind.is_bool):
            return None
        if row.format == "compare":
            return self.each(operands, lambda a, b: int(fold(a, b, kind)))
        return self.each(operands, lambda *numbers: arith.wrap(int(fold(*numbers, dtype)), dtype))

    def each(self, columns: Sequence[Column], of: object) -> Column:
        if all(isinstance(column, int) for column in columns):
            return of(*columns)  # type: ignore[operator,no-any-return]
        lists = [c if isinstance(c, list) else [c] * self.count for c in columns]
        return [of(*numbers) for numbers in zip(*lists, strict=True)]  # type: ignore[operator]

    def given(self, op: Op) -> Column:
        """Column of an id, or of what the caller gives: a length or a number, as large as the workgroup where nothing says it."""
        program, supposed = self.program, self.supposed
        axis = AXES.index(str(op.attrs.get("axis", "x")))
        size, groups = program.workgroup[axis], supposed.grid[axis]
        if op.name in ("local_id", "global_id", "workgroup_id"):
            ids = [group[axis] for group in supposed.groups]
            if op.name == "workgroup_id":
                return self.alike([id for id in ids for _ in self.places])
            of_size = size if op.name == "global_id" else 0
            return self.alike([id * of_size + place[axis] for id in ids for place in self.places])
        if op.name in ("lane_id", "subgroup_id"):
            x, y, _ = program.workgroup
            lanes = [place[0] + x * (place[1] + y * place[2]) for place in self.places]
            parts = [divmod(lane, SUBGROUP_SIZE)[op.name == "lane_id"] for lane in lanes]
            return self.alike(parts * len(supposed.groups))
        if op.name in ("subgroup_size", "num_subgroups"):
            return SUBGROUP_SIZE if op.name == "subgroup_size" else -(-program.lanes // SUBGROUP_SIZE)
        if op.name in ("workgroup_size", "num_workgroups", "global_size"):
            return {"workgroup_size": size, "num_workgroups": groups}.get(op.name, size * groups)
        if op.name == "len":
            return self.extent(program.buffers.get(op.attrs["buffer"]), op.attrs.get("dimension") or 0)
        if op.definition.format != "param":
            return None
        return program.lanes if supposed.params is None else supposed.params.get(f"@{op.attrs['param']}")

    def alike(self, column: list[int]) -> Column:
        return column[0] if len(set(column)) == 1 else column

    def extent(self, buffer: Buffer | None, dimension: int) -> Column:
        if buffer is None:
            return None
        fixed = buffer.shape[dimension]
        if fixed is None and self.supposed.shapes is not None:
            shape = self.supposed.shapes.get(buffer.name, ())
            return shape[dimension] if len(shape) == buffer.dimensions else None
        axis = buffer.dimensions - 1 - dimension
        along = self.program.workgroup[axis] if axis < 3 else 1
        return (
            fixed if fixed is not None else self.supposed.times * (along if along > 1 else self.program.lanes)
        )

    def elements(
        self, indices: Sequence[Column], lanes: Sequence[int], width: int
    ) -> Iterator[tuple[int, Place]]:
        """Each element that each of the invocations moves, a vector from the last index on."""
        columns = [
            [index[lane] for lane in lanes] if isinstance(index, list) else [of_lane(index, 0)] * len(lanes)
            for index in indices
        ]
        if width > 1:
            lanes = [lane for lane in lanes for _ in range(width)]
            *first, last = columns
            columns = [[number for number in column for _ in range(width)] for column in first]
            columns.append([number + part for number in last for part in range(width)])
        return zip(lanes, columns[0] if len(columns) == 1 else zip(*columns, strict=True), strict=True)

    def loaded(self, op: Op) -> Column:
        """Column of whole numbers of an array of the caller; 0 for an index out of bounds, which only an invocation has that does not come
        here."""
        array = self.supposed.contents[op.attrs["buffer"]]
        indices = [self.column(index) for index in op.indices]
        if any(index is None for index in indices) or not (op.result.type.is_int or op.result.type.is_bool):
            return None
        places = [tuple(of_lane(index, lane) for index in indices) for lane in range(self.count)]
        return [
            int(array[place]) if all(0 <= p < e for p, e in zip(place, array.shape, strict=True)) else 0
            for place in places
        ]


def of_lane(column: Column, lane: int) -> int:
    assert column is not None
    return column[lane] if isinstance(column, list) else column


def _below(at: Column, upper: Column, lanes: Sequence[int]) -> Sequence[int]:
    """Invocations whose number is below that of `upper`."""
    if isinstance(at, int) and isinstance(upper, int):
        return lanes if at < upper else ()
    return [lane for lane in lanes if of_lane(at, lane) < of_lane(upper, lane)]


def _others(lanes: Lanes, part: Lanes) -> Lanes:
    if lanes is None or part is None:
        return None
    inner = set(part)
    return [lane for lane in lanes if lane not in inner]


def _added(a: Column, b: Column) -> Column:
    if a is None or b is None:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    count = len(a) if isinstance(a, list) else len(b)  # type: ignore[arg-type]
    return [of_lane(a, lane) + of_lane(b, lane) for lane in range(count)]


def moved_width(program: Program, op: Op) -> int:
    """Elements that an access moves from its last index on: those of a vector, unless the buffer is one of vectors."""
    moved = (op.results or op.operands)[0].type
    return moved.lanes if moved.is_vec and not program.buffers[op.attrs["buffer"]].dtype.is_vec else 1


def moved_extents(program: Program, op: Op) -> list[int | None]:
    """Elements that an access moves along each dimension; None along an open extent of a slice."""
    moved, rank = (op.results or op.operands)[0].type, len(op.indices)
    if moved.is_slice:
        return [*[1] * (rank - len(moved.extents)), *moved.extents]
    return [*[1] * (rank - 1), moved_width(program, op)]
