"""Launches that leave elements of an array as they were, found by running one workgroup more than a launch has.

    %i = global_id x        launched over div(len(@y), 256) workgroups of 256: the first invocation behind the last one
    store %v, @y[%i]        passes what guards the store, and stores an element of @y, which nobody does

What is told is an element that the program itself would store: its guard lets that invocation through, and none far behind.  A
program without a guard may be for a part of an array, so there only a remainder of less than a workgroup is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ...records import dataclass
from ..diagnostics import Diagnostic, Location, source_text, spelling_at
from ..grids import Extent
from ..ops import AXES
from ..program import Op, Program, Value
from .invocation_runs import Lanes, Run, Supposed

__all__ = ["LaunchedAt", "unreached_elements"]

_FAR = 1 << 28
"""Invocation that is behind the elements of most arrays, and whose number does not wrap when it is multiplied by a few."""
_MOST_TERMS = 50
"""Ops of an index that are looked at."""


@dataclass(frozen=True, slots=True)
class LaunchedAt:
    """Place of a launch.  `names`: of the arrays that it passes, by those of the program's buffers.  `option`: of a tool, which says the
    grid, such as "--grid".  `is_whole`: whoever launches sees all elements, so that any left out are told."""

    loc: Location | None
    names: Mapping[str, str] | None = None
    option: str = ""
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class _Reach:
    """Elements of a buffer along a dimension that the workgroups along an axis store: `each` of one, up to `end`, of `extent`.  `is_dense`: one
    stores all of these."""

    op: Op
    dimension: int
    axis: int
    each: int
    end: int
    extent: int
    is_guarded: bool
    is_dense: bool


def unreached_elements(
    program: Program,
    grid: Sequence[Extent],
    shapes: Mapping[str, Sequence[int]],
    at: LaunchedAt,
    params: Mapping[str, int] | None = None,
) -> Iterator[Diagnostic]:
    """The warning of a launch, if it is one.  `shapes`: of the arrays that are passed, by buffers; `params`: the whole
    numbers that are, by "@name"."""
    extents = [extent for extent in grid if isinstance(extent, int)]
    stores = [op for op in program.walk() if op.name in ("store", "slice_store")]
    own = {op.attrs["buffer"]: _own_shape(program, op.attrs["buffer"], shapes) for op in stores}
    indexed = [
        (op, [_axis(index) for index in op.indices]) for op in stores if own[op.attrs["buffer"]] is not None
    ]
    axes = {axis for _, along in indexed for axis in along if axis is not None}
    if len(extents) < len(grid) or not axes:
        return
    known = {
        name: shape for name in program.buffers if (shape := _own_shape(program, name, shapes)) is not None
    }
    found: list[_Reach] = []
    run_of = {axis: _Beyond(program, extents, axis, known, params or {}) for axis in sorted(axes)}
    for axis, run in run_of.items():
        run.run()
        for op, along in indexed:
            shape = own[op.attrs["buffer"]] or ()
            for dimension, other in enumerate(along):
                reach = run.reach(op, dimension, shape) if other == axis else None
                if reach is not None:
                    found.append(reach)
    of_buffer, along_of = Counter(op.attrs["buffer"] for op in stores), dict(indexed)
    alike = Counter((reach.op.attrs["buffer"], reach.dimension, reach.end) for reach in found)
    for reach in found:
        name = reach.op.attrs["buffer"]
        is_alone = alike[name, reach.dimension, reach.end] == of_buffer[name]
        # one that is declared longer may be so on purpose
        is_open = program.buffers[name].shape[reach.dimension] is None
        # the next workgroup would read what is not there
        has_more = not run_of[reach.axis].reads_outside(known)
        is_remainder = is_open and reach.is_dense and reach.end + reach.each > reach.extent
        owner = reach.op.indices[reach.dimension].owner
        is_row = program.lanes == 1 and isinstance(owner, Op) and owner.name == "workgroup_id"
        launch = _Launch(program, extents, shapes, at, reach, along_of[reach.op])
        if (exchanged := launch.exchanged()) is not None:
            yield launch.unreached(exchanged)
            return
        if is_alone and (reach.is_guarded or (has_more and (is_row or is_remainder)) or at.is_whole):
            yield launch.unreached()
            return
    yield from _too_many(program, extents, indexed, own, at)


class _Beyond(Run):
    """A run of the last workgroup of a launch along an axis, of the next one, which it does not have, and of one far behind; of each the
    first invocation and the last."""

    def __init__(
        self,
        program: Program,
        grid: Sequence[int],
        axis: int,
        shapes: Mapping[str, Sequence[int]],
        params: Mapping[str, int],
    ) -> None:
        self.axis, self.lanes, self.is_empty = axis, program.workgroup[axis], 0 in grid
        numbers = (max(0, grid[axis] - 1), grid[axis], _FAR // self.lanes)
        groups = tuple(tuple(n if a == axis else 0 for a in range(3)) for n in numbers)
        places = tuple(tuple(n if a == axis else 0 for a in range(3)) for n in (0, self.lanes - 1))
        super().__init__(program, Supposed(tuple(grid), groups, places, shapes, params))
        self.stored: dict[Op, dict[int, list[int]]] = {}
        """Places of loads and stores by invocations, in the first rounds of the loops around."""

    def access(self, op: Op, lanes: Lanes) -> None:
        columns = [self.column(index) for index in op.indices]
        if lanes is None or any(column is None for column in columns):
            return
        places = self.stored.setdefault(op, {})
        for lane in lanes:
            places.setdefault(lane, [c[lane] if isinstance(c, list) else c or 0 for c in columns])

    def reads_outside(self, shapes: Mapping[str, Sequence[int]]) -> bool:
        """Whether the next workgroup would load rows or elements that an array does not have, and that nothing fills."""
        for op, places in self.stored.items():
            is_load = op.name == "load" or (op.name == "slice_load" and op.attrs.get("edge") != "filled")
            shape = shapes.get(op.attrs["buffer"], ()) if is_load else ()
            if any(place >= extent for place, extent in zip(places.get(2, ()), shape, strict=False)):
                return True
        return False

    def reach(self, op: Op, dimension: int, shape: Sequence[int]) -> _Reach | None:
        """Reach of a store; None where the next workgroup would store no elements of its own."""
        first, last, next, _, far, _ = (self.stored.get(op, {}).get(lane) for lane in range(6))
        if first is None or next is None:
            return None
        if any(not 0 <= place < extent for place, extent in zip(next, shape, strict=True)):
            return None
        if self.is_empty:
            return _Reach(op, dimension, self.axis, self.lanes, 0, shape[dimension], far is None, False)
        if last is None:
            return None
        each, moved = next[dimension] - first[dimension], op.operands[0].type
        extent = shape[dimension]
        width = 1 if moved.is_slice or dimension < len(shape) - 1 else moved.lanes
        is_apart = last[dimension] < next[dimension] and each >= width * self.lanes
        if not is_apart:
            return None
        last_axis = dimension - len(shape) + len(moved.extents)
        stored = moved.extents[last_axis] if moved.is_slice and last_axis >= 0 else width * self.lanes
        if stored is not None and each < stored:  # blocks overlap, which is told of the text
            return None
        return _Reach(op, dimension, self.axis, each, next[dimension], extent, far is None, each == stored)


def _own_shape(program: Program, name: str, shapes: Mapping[str, Sequence[int]]) -> Sequence[int] | None:
    """The extents of an array that is passed, as the program has it: one of several dimensions is passed as one of its elements."""
    buffer, shape = program.buffers.get(name), shapes.get(name)
    if buffer is None or not shape:
        return None
    lanes = buffer.dtype.lanes
    if buffer.dimensions == 1:
        return (prod(shape) // lanes,)
    shape = shape[:-1] if lanes > 1 else shape
    return shape if len(shape) == buffer.dimensions else None


def _axis(index: Value) -> int | None:
    """The axis whose workgroups have an index each, the larger ones the later: `global_id x`, `add (mul workgroup_id x, 64), local_id x`;
    None for another value."""
    axes: set[int] = set()
    pending = [index]
    for _ in range(_MOST_TERMS):
        if not pending:
            return axes.pop() if len(axes) == 1 else None
        op = pending.pop().owner
        if not isinstance(op, Op):
            return None
        if op.name in ("global_id", "workgroup_id"):
            axes.add(AXES.index(op.attrs["axis"]))
        elif op.name in ("add", "mul", "shl", "cast"):
            pending += op.operands
        elif op.name == "sub":
            pending.append(op.operands[0])
            if not _is_alike(op.operands[1]):
                return None
        elif op.name != "local_id" and not _is_alike(op.results[0]):
            return None
    return None


def _is_alike(value: Value) -> bool:
    """Whether a value is a number that is the same everywhere, by its op alone."""
    op = value.owner
    return isinstance(op, Op) and op.definition.format in ("const", "size", "len", "param", "spec")


@dataclass(frozen=True, slots=True)
class _Launch:
    """A launch, a store that does not reach all elements, and the axes along which its indices go."""

    program: Program
    grid: Sequence[int]
    shapes: Mapping[str, Sequence[int]]
    at: LaunchedAt
    reach: _Reach
    along: Sequence[int | None]

    def exchanged(self) -> list[int] | None:
        """The grid with two extents exchanged that reaches all elements; None where none does."""
        reach = self.reach
        other = next((a for a in self.along if a is not None and a != reach.axis), None)
        if other is None or [*self.along].count(None):
            return None
        grid = [*self.grid]
        grid[reach.axis], grid[other] = grid[other], grid[reach.axis]
        lengths = _own_shape(self.program, reach.op.attrs["buffer"], self.shapes) or ()
        lanes = [reach.each if axis == reach.axis else self.program.workgroup[axis] for axis in range(3)]
        is_whole = all(
            lanes[a] * grid[a] >= length
            for a, length in zip(self.along, lengths, strict=True)
            if a is not None
        )
        return grid if is_whole else None

    def unreached(self, exchanged: Sequence[int] | None = None) -> Diagnostic:
        program, reach, at = self.program, self.reach, self.at
        op, name = reach.op, reach.op.attrs["buffer"]
        spelling, lanes = spelling_at(op.loc), self.grid[reach.axis] * program.workgroup[reach.axis]
        shown, axis = spelling.buffer(name), AXES[reach.axis]
        one = spelling.id(self.id, reach.axis)
        if lanes == 1 and program.lanes > 1:
            message = f"{one} is always 0 in this launch, and {shown} has {reach.extent} elements along dimension {reach.dimension}: the others stay as they are"
        elif len(self.along) > 1 and program.lanes > 1:
            message = (
                f"this launch has {lanes} invocations along {axis}, and {shown} has {reach.extent} elements along dimension {reach.dimension}, "
                f"which goes along {axis}: the others stay as they are"
            )
        elif reach.each != program.workgroup[reach.axis] and program.lanes > 1:
            message = f"this launch stores {reach.end} of the {reach.extent} elements of {shown}: the others stay as they are"
        else:
            what = "workgroups" if program.lanes == 1 else "invocations"
            rows = "rows" if len(self.along) > 1 else "elements"
            message = f"this launch has {lanes} {what} for the {reach.extent} {rows} of {shown}: the others stay as they are"
        help = f"write {self.written()}{'' if reach.is_guarded or program.lanes == 1 else self.guarded()}"
        if exchanged is not None:
            help = f"exchange the extents of the grid: write {self.written(exchanged)}"
        elif (
            reach.end
            and at.names is None
            and reach.dimension == 0
            and len(self.shapes[name]) == len(self.along)
        ):
            help += f"; where the first alone are meant, {spelling.part(name, reach.end)}"
        return Diagnostic("warning", message, at.loc, help=help).note("it is stored here", op.loc)

    def guarded(self) -> str:
        """Guard for a program that has none, since its last workgroup may go beyond the elements."""
        op, d = self.reach.op, self.reach.dimension
        name, spelling = op.attrs["buffer"], spelling_at(op.loc)
        text = source_text(op.loc)
        length = spelling.extent(name, d if len(self.along) > 1 else None)
        guard = spelling.guard(text, name, op.indices[d].name, "", length, d)
        return (
            guard
            and f", and {guard.removeprefix(': ').replace('before it', 'before what it loads and stores')}"
        )

    @property
    def id(self) -> str:
        owner = self.reach.op.indices[self.reach.dimension].owner
        return owner.name if isinstance(owner, Op) and owner.definition.format == "id" else "global_id"

    def lanes_text(self) -> str:
        """The name that the program's head says its number of invocations by; "" where it is a number."""
        loc = self.program.loc
        return "" if loc is None else spelling_at(loc).lanes_name(loc.source.text, loc.start)

    def written(self, grid: Sequence[int] | None = None) -> str:
        """The launch over a grid, by default one that reaches all elements."""
        name, spelling = self.reach.op.attrs["buffer"], spelling_at(self.reach.op.loc)
        lengths = _own_shape(self.program, name, self.shapes) or ()
        numbers, texts = [*(grid or self.grid)], [str(extent) for extent in grid or self.grid]
        for dimension, axis in enumerate(self.along):
            if axis is not None and grid is None:
                each = self.reach.each if axis == self.reach.axis else self.program.workgroup[axis]
                numbers[axis] = -(-lengths[dimension] // each)
                at = dimension if len(lengths) > 1 else None
                passed = (self.at.names or {}).get(name, name)
                by = self.lanes_text() if each == self.program.workgroup[0] and axis == 0 else ""
                texts[axis] = spelling.workgroups(passed, at, len(self.shapes[name]), by or each)
        while len(numbers) > 1 and numbers[-1] == 1 and texts[-1] == "1":
            numbers.pop()
            texts.pop()
        if self.at.option:
            return f"{self.at.option} {','.join(map(str, numbers))}"
        return spelling.grid(self.program.name, ", ".join(texts))


def _too_many(
    program: Program,
    grid: Sequence[int],
    indexed: Sequence[tuple[Op, Sequence[int | None]]],
    own: Mapping[str, Sequence[int] | None],
    at: LaunchedAt,
) -> Iterator[Diagnostic]:
    """The warning of a launch that counts invocations where a grid counts workgroups."""
    lanes, extent = program.workgroup[0], grid[0]
    if program.lanes != lanes or not extent or any(other != 1 for other in grid[1:]):
        return
    for op, along in indexed:
        name, index = op.attrs["buffer"], op.indices[0].owner
        (count,) = (own[name] or ())[:1]
        needed, spelling = -(-count // lanes), spelling_at(op.loc)
        if [*along] == [0] and index.name == "global_id" and extent == count and needed * 4 <= extent:  # type: ignore[union-attr]
            message = f"this launch has {extent} workgroups of {lanes} invocations for the {count} elements of {spelling.buffer(name)}: a grid counts workgroups"
            text = spelling.workgroups((at.names or {}).get(name, name), None, 1, lanes)
            written = spelling.grid(program.name, text)
            help = f"write {f'{at.option} {needed}' if at.option else written}"
            yield Diagnostic("warning", message, at.loc, help=help).note("it is stored here", op.loc)
            return
