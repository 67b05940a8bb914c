"""Elements of a pipeline's own buffers that a stage reads, and that no stage before it has written.

    launch @inner grid(1) (@x, @mid)      stores @mid[1] to @mid[62] of 64
    launch @double grid(1) (@mid, @y)     reads all of them: @mid[0] and @mid[63] may hold anything

All invocations of the launches are run (invocation_runs.py) where these are few, and else those of a reader at the corners of its launch, with
the ones of a writer that store what these read (affine_stores.py).  A store behind a condition that is not known counts as one of all that
may come to it, and a store at places that are not known as one to all elements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import Any

from ..diagnostics import Diagnostic, Location, spelling_at, written_name
from ..grids import fold
from ..pipeline import Fill, HostRead, KernelStage, Launch, Pipeline, Repeat, Stage
from ..program import AccessMode, Module, Op, Program, Value
from ..uniformity import Level
from .affine_stores import AffineStores
from .data_conditions import Assumption
from .invocation_runs import (
    MOST_LANES,
    MOST_STEPS,
    ROUNDS,
    Column,
    Lanes,
    Run,
    Supposed,
    moved_width,
    of_lane,
)
from .touched_elements import Place
from .unstored_elements import is_used

__all__ = ["partly_written", "passed_numbers", "passed_shapes"]

_ANY_WAY = Assumption(frozenset(), Level.GRID)
"""Fact of a condition that lets anyone pass."""
_MOST_RUN = 1 << 12
"""Invocations of a launch that are run, and elements of its buffers."""
_MOST_ELEMENTS = 64
"""Elements of a load which are looked for in launches that are not run."""


def passed_shapes(
    stage: Launch, program: Program, shapes: Mapping[str, Sequence[int]]
) -> dict[str, Sequence[int]]:
    """The shapes of what a launch passes, by the buffers of its program."""
    return {
        formal.name: shapes[name] for formal, name in zip(program.bound_buffers, stage.buffers, strict=True)
    }


def passed_numbers(stage: Launch, params: Mapping[str, int]) -> dict[str, int]:
    """The whole numbers that a launch passes, by "@name" of its program's."""
    numbers: dict[str, int] = {}
    for name, given in stage.params.items():
        value = params.get(f"@{given}") if isinstance(given, str) else None
        if not isinstance(given, str) and given[0] == "int":
            value = int(given[1], 0)
        if isinstance(value, int):
            numbers[f"@{name}"] = value
    return numbers


def partly_written(
    module: Module,
    pipeline: Pipeline,
    shapes: Mapping[str, Sequence[int]],
    lengths: Mapping[str, Any],
    told: Collection[Location | None],
) -> Iterator[Diagnostic]:
    """The warnings of a call, one for each buffer.  `shapes`: of all buffers; `lengths`: numbers and lengths, by which grids are known; `told`:
    places of launches that are told to be too small."""
    own = {
        name
        for name, buffer in pipeline.buffers.items()
        if buffer.access in (None, AccessMode.READ_WRITE) and not buffer.live_in and all(shapes[name])
    }
    if own:
        yield from _Contents(module, pipeline, own, shapes, lengths, told).visit(pipeline.stages)


class _Written:
    """Elements of a buffer that stages have written: `places`, and those of launches that are too large to be run."""

    def __init__(self) -> None:
        self.places: set[Place] = set()
        self.launches: list[tuple[AffineStores, str]] = []
        self.writer: Launch | None = None

    def missing(self, places: set[Place]) -> set[Place]:
        """Elements, of some, that nobody has written; of many, some are looked at where launches are not run."""
        left = sorted(places - self.places)
        if self.launches and len(left) > _MOST_ELEMENTS:
            left = [*left[: _MOST_ELEMENTS // 2], *left[-_MOST_ELEMENTS // 2 :]]
        return {place for place in left if not any(stores.has(name, place) for stores, name in self.launches)}


class _Contents:
    """Contents of a pipeline's own buffers, those of `own` which are written in part.  `left`: steps that may still be run."""

    def __init__(
        self,
        module: Module,
        pipeline: Pipeline,
        own: set[str],
        shapes: Mapping[str, Sequence[int]],
        lengths: Mapping[str, Any],
        told: Collection[Location | None],
    ) -> None:
        self.module, self.pipeline, self.told = module, pipeline, told
        self.own, self.shapes, self.lengths = own, shapes, lengths
        self.written = {name: _Written() for name in own}
        self.left = MOST_STEPS

    def visit(self, stages: Sequence[Stage]) -> Iterator[Diagnostic]:
        for stage in stages:
            if isinstance(stage, Repeat):
                yield from self.visit(stage.stages)
            elif isinstance(stage, Launch):
                yield from self.launch(stage)
            elif isinstance(stage, (Fill, KernelStage)):
                self.own -= {*stage.buffers}
            elif isinstance(stage, HostRead):
                self.own.discard(stage.buffer)

    def launch(self, stage: Launch) -> Iterator[Diagnostic]:
        names = self.own & {*stage.buffers}
        program = self.module.programs.get(stage.program)
        if program is None or not names:
            self.own -= names
            return
        formals = {
            formal.name: name
            for formal, name in zip(program.bound_buffers, stage.buffers, strict=True)
            if name in names
            and stage.buffers.count(name) == 1
            and formal.dimensions == len(self.shapes[name])
        }
        grid = tuple(fold(extent, self.lengths) for extent in stage.grid)
        extents = tuple(extent for extent in grid if isinstance(extent, int))
        if len(extents) < len(grid) or not all(extents) or program.lanes > MOST_LANES:
            self.own -= names
            return
        shapes = passed_shapes(stage, program, self.shapes)
        supposed = Supposed(extents, (), None, shapes, passed_numbers(stage, self.lengths))
        written = {formal: self.written[name] for formal, name in formals.items()}
        run = self.run(program, supposed, written)
        for formal, name in formals.items():
            missing = run.missing.get(formal, {}) if self.left >= 0 else {}
            op = next((op for op in missing if is_used(op, program)), None)
            writer = self.written[name].writer
            if op is not None and writer is not None and writer.loc not in self.told:
                self.own.discard(name)  # one mistake
                is_sample = bool(self.written[name].launches)
                yield _unwritten(self.pipeline, name, missing[op], stage, op, writer, is_sample)
            if formal in run.stored:
                self.written[name].writer = stage
        self.own -= names - {*formals.values()} | {formals[formal] for formal in run.whole}
        if self.left < 0:
            self.own.clear()

    def run(self, program: Program, supposed: Supposed, written: Mapping[str, _Written]) -> _Elements:
        """A run of a launch, or of the invocations at its corners where there are many, or where an earlier launch had many."""
        grid = supposed.grid
        sizes = [prod(grid) * program.lanes, *(prod((supposed.shapes or {})[formal]) for formal in written)]
        is_large = max(sizes) > _MOST_RUN or any(each.launches for each in written.values())
        ends = [{0, n - 1} if is_large else range(n) for n in grid]
        groups = tuple((x, y, z) for z, y, x in product(*reversed(ends)))
        # the first or the last one may be left out by a guard
        corners = [{*range(min(n, 2)), *range(max(n - 2, 0), n)} for n in program.workgroup]
        places = tuple(product(*corners)) if is_large else None
        run = _Elements(program, replace(supposed, groups=groups, places=places), written)
        if is_large:
            names = {
                op.attrs["buffer"]
                for op in program.walk()
                if op.definition.effects & {"write"} and "buffer" in op.attrs
            }
            stores = AffineStores(program, supposed, names & written.keys(), partial(self.stored, program))
            run.rounds = ROUNDS
            run.whole |= stores.unsure
            # what other invocations store before it is read is not known
            run.passed_over |= names
        self.take(run)
        if is_large:
            for name in run.stored - run.whole:
                written[name].launches.append((stores, name))
        return run

    def take(self, run: Run) -> None:
        """Run some invocations, by the steps that are left."""
        run.left = begun = self.left
        run.run()
        self.left -= begun - run.left

    def stored(self, program: Program, supposed: Supposed, name: str) -> set[Place]:
        """The elements of a buffer that some invocations of a launch store."""
        run = _Elements(program, supposed, {name: _Written()})
        if self.left >= 0:
            self.take(run)
        self.left -= program.lanes
        return run.written[name].places


class _Elements(Run):
    """A run of invocations of a launch.  `stored`: buffers that it stores to; `whole`: those of which it may store all elements; `missing`: elements of
    each that loads read and that nothing has written; `passed_over`: buffers whose loads are not looked at."""

    rounds = 1 << 10

    def __init__(self, program: Program, supposed: Supposed, written: Mapping[str, _Written]) -> None:
        super().__init__(program, supposed)
        self.written = written
        self.passed_over = {name for name, each in written.items() if each.writer is None}
        self.stored: set[str] = set()
        self.whole: set[str] = set()
        self.missing: dict[str, dict[Op, set[Place]]] = {}

    def assumed(self, condition: Value, holds: bool, lanes: Sequence[int]) -> tuple[Lanes, Assumption | None]:
        return lanes, _ANY_WAY

    def leave(self, op: Op) -> None:
        changed = (inner for inner in op.walk() if inner.definition.effects & {"write"})
        self.whole |= {
            inner.attrs["buffer"] for inner in changed if "buffer" in inner.attrs
        } & self.written.keys()

    def op(self, op: Op, lanes: Lanes) -> None:
        super().op(op, lanes)
        is_access = op.definition.format in ("load", "store", "slice_load", "slice_store", "atomic", "len")
        if not is_access or op.name == "copy_async":
            self.whole |= {*(op.attrs.get("buffers", ())), op.attrs.get("buffer")} & self.written.keys()

    def access(self, op: Op, lanes: Lanes) -> None:
        name = op.attrs["buffer"]
        if name not in self.written or name in self.whole:
            return
        columns = [self.column(index) for index in op.indices]
        is_load, moved = op.name in ("load", "slice_load"), (op.results or op.operands)[0].type
        if not is_load:
            self.stored.add(name)
        if lanes is None or None in columns or moved.is_matrix:
            self.whole |= set() if is_load else {name}
            return
        if is_load and (name in self.passed_over or any(each.assumed for each in self.around)):
            return
        if moved.is_slice:
            places = self.slice_places(name, moved.extents, columns, lanes)
        else:
            places = {place for _, place in self.elements(columns, lanes, moved_width(self.program, op))}
        if not is_load:
            self.written[name].places |= places
            return
        inside = {place for place in places if self.is_inside(name, place)}
        if missing := self.written[name].missing(inside):
            self.missing.setdefault(name, {}).setdefault(op, set()).update(missing)

    def slice_places(
        self, name: str, extents: Sequence[int | None], columns: Sequence[Column], lanes: Sequence[int]
    ) -> set[Place]:
        """The elements of rows or blocks inside of the array."""
        shape, places = (self.supposed.shapes or {}).get(name, ()), set[Place]()
        sizes = [*[1] * (len(shape) - len(extents)), *extents]
        for lane in lanes:
            begins = [of_lane(column, lane) for column in columns]
            ends = [
                end if size is None else min(end, begin + size)
                for begin, size, end in zip(begins, sizes, shape, strict=True)
            ]
            ranges = [range(begin, end) for begin, end in zip(begins, ends, strict=True)]
            self.left -= prod(map(len, ranges))
            if self.left >= 0:
                places.update(ranges[0] if len(ranges) == 1 else product(*ranges))
        return places

    def is_inside(self, name: str, place: Place) -> bool:
        shape = (self.supposed.shapes or {}).get(name, ())
        each = place if isinstance(place, tuple) else (place,)
        return all(0 <= p < extent for p, extent in zip(each, shape, strict=True))


def _unwritten(
    pipeline: Pipeline,
    name: str,
    places: Collection[Place],
    stage: Launch,
    op: Op,
    writer: Launch,
    is_sample: bool,
) -> Diagnostic:
    """The warning of a load of a stage.  `is_sample`: there may be more elements than these."""
    spelling, buffer = spelling_at(stage.loc), pipeline.buffers[name]
    written, count, first = written_name(name, buffer.loc), len(places), min(places)
    shown = spelling.buffer(written)
    at = f"[{', '.join(map(str, first))}]" if isinstance(first, tuple) else str(first)
    which = f"{count} elements of {shown}, the first {at}"
    if is_sample:
        which = f"elements of {shown} such as {at}"
    elif count == 1:
        which = f"element {at} of {shown}"
    elif isinstance(first, int) and max(places) - first == count - 1:  # type: ignore[operator]
        which = f"elements {at} to {max(places)} of {shown}"
    it, they = ("it", "it") if which.startswith("element ") else ("them", "they")
    message = f"this stage reads {which}, and no stage before it has written {it}: {they} may hold anything"
    help = f"let {spelling.buffer(writer.program)} store all elements, or write {spelling.fill(written)} before it"
    warning = Diagnostic("warning", message, stage.loc, help=help)
    return warning.note("the others are written here", writer.loc).note(f"{op.name} is here", op.loc)
