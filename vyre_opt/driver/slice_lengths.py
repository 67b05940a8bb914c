"""Programs with slices, lowered for rows as long as those of a call.

How many invocations hold a row, and whether they do, depends on its length.  So the passes of such a program run when it is called
with other lengths, until there have been MOST_LENGTHS; then they run for classes of lengths, within a factor of 2 of each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import prod
from typing import ClassVar

from ..ir.diagnostics import DiagnosticError
from ..ir.grids import fold, length_key, lengths_by_dimension
from ..ir.pipeline import Launch, Pipeline
from ..ir.program import Buffer, Dim3, Module, Program, Shape
from ..ir.shapes import has_slices
from ..kernels.targets import slice_machine, widest_cluster
from ..records import dataclass
from ..rewriting.cloning import copy_for
from ..slices.elements import MAX_REGISTERS
from ..slices.row_lengths import NO_ROWS, Bounds, Row, assert_lengths
from ..slices.schedule import MAX_LANES, slice_schedule, with_open_extents
from .pass_pipeline import PassPipeline

__all__ = ["MOST_LENGTHS", "FixedRows", "RowClasses", "SliceLengths", "fixed_rows"]

MOST_LENGTHS = 16
"""Lengths of rows that a program is lowered for."""
SHORTEST_CLASS = 8
"""The most elements of rows of the class of the shortest ones."""
MOST_UNTAKEN = 4
"""Forms of a program for several workgroups a row that a GPU may refuse, before no more of them are made."""


class SliceLengths:
    """`pipeline`: the passes of the programs of a module; None for lower_slices alone."""

    def __init__(self, module: Module, pipeline: PassPipeline | None) -> None:
        self._module, self._pipeline = module, pipeline
        self._has_slices = cache(has_slices)
        self._lowered: dict[Program, dict[object, Program | None]] = {}
        self._of_launches: dict[Program, dict[object, Program]] = {}
        """The same whose rows several workgroups share."""
        self._untaken: Counter[Program] = Counter()
        """Number of times that a GPU refused each program: a single call may fault, or all may."""

    def of(self, program: Program, shapes: Mapping[str, Shape], grid: Dim3, target: str) -> Program | None:
        """A program of the module for a launch over a grid, whose buffers have such shapes; None for one without slices.

        It has a grid of its own where several workgroups share a row.  `target`: what schedules are for.
        """
        if not self._has_slices(program):
            return None
        lowered, fixed = self._lowered.setdefault(program, {}), with_open_extents(program, shapes)
        shared = self._shared(program, shapes, grid, target) if fixed and widest_cluster(target) > 1 else None
        if shared is not None:
            return shared
        key: object = tuple(fixed.items())
        if key not in lowered and len(lowered) >= MOST_LENGTHS:
            rows = length_classes(program, fixed)
            key = tuple(rows.items())
            if key not in lowered:
                lowered[key] = self.of_class(program, rows, target)
            if lowered[key] is None:  # it takes blocks whose extents it has to know
                key = tuple(fixed.items())
        if key not in lowered:
            lowered[key] = self.of_rows(program, fixed, target)
        return lowered[key]

    def of_rows(self, program: Program, shapes: Mapping[str, Shape], target: str) -> Program:
        """The program for rows as long as those of `shapes`, over any grid."""
        of_lengths = _with_shapes(program, with_open_extents(program, shapes))
        return self._lower(program, of_lengths, target)

    def of_class(self, program: Program, rows: Mapping[Row, Bounds], target: str) -> Program | None:
        """The program for rows of lengths within bounds, over any grid; None where it has to know lengths."""
        try:
            return self._lower(program, program, target, rows)
        except DiagnosticError:
            return None

    def of_classes(
        self, program: Program, shapes: Mapping[str, Shape], target: str
    ) -> tuple[Program | None, Mapping[Row, Bounds]]:
        """The program for rows of the classes that the lengths of `shapes` are in, and these classes."""
        rows = length_classes(program, with_open_extents(program, shapes))
        return self.of_class(program, rows, target), rows

    def _shared(
        self, program: Program, shapes: Mapping[str, Shape], grid: Dim3, target: str
    ) -> Program | None:
        """The program for rows that several workgroups share, if that is best.

        A fault would leave the others of a cluster waiting, so there must be none: all extents and the grid are known.
        """
        of_launch = replace(_with_shapes(program, shapes), grid=grid)
        if (
            self._untaken[program] >= MOST_UNTAKEN
            or slice_schedule(of_launch, slice_machine(target)).workgroups == 1
        ):
            return None
        made, key = self._of_launches.setdefault(program, {}), (grid, tuple(shapes.items()))
        if key not in made and len(made) < MOST_LENGTHS:
            lowered = self._lower(program, of_launch, target)
            if not _is_taken(lowered, target):
                self._untaken[program] += 1
                return None
            made[key] = lowered
        return made.get(key)

    def _lower(
        self, program: Program, of_lengths: Program, target: str, rows: Mapping[Row, Bounds] = NO_ROWS
    ) -> Program:
        copy = copy_for(self._module, program)
        item = copy.programs[program.name]
        item.buffers, item.grid = of_lengths.buffers, of_lengths.grid
        assert_lengths(item, rows)
        pipeline = self._pipeline or PassPipeline("lower_slices,vectorize_access", target, None)
        return pipeline.result(copy).programs[program.name]


def length_classes(program: Program, shapes: Mapping[str, Shape]) -> dict[Row, Bounds]:
    """Bounds of the open rows of a program around the lengths that `shapes` has: powers of two."""
    classes: dict[Row, Bounds] = {}
    for name, shape in shapes.items():
        extents = zip(program.buffers[name].shape, shape, strict=True)
        for dimension, (own, length) in enumerate(extents):
            if own is None and length is not None:
                most = max(SHORTEST_CLASS, 1 << (length - 1).bit_length())
                if most <= MAX_LANES * MAX_REGISTERS:
                    least = 0 if most == SHORTEST_CLASS else most // 2 + 1
                    classes[Row(name, dimension)] = Bounds(least, most)
    return classes


def _with_shapes(program: Program, shapes: Mapping[str, Shape]) -> Program:
    buffers = {
        name: replace(buffer, shape=shapes.get(name, buffer.shape))
        for name, buffer in program.buffers.items()
    }
    return replace(program, buffers=buffers)


@dataclass(frozen=True)
class FixedRows:
    """Shapes of the buffers of programs that a pipeline launches, by program."""

    shapes: Mapping[str, Mapping[str, Shape]]
    most: ClassVar[int] = MOST_LENGTHS

    @property
    def key(self) -> object:
        return tuple((name, *shapes.items()) for name, shapes in self.shapes.items())

    def classes(self, module: Module) -> RowClasses:
        return RowClasses(
            {name: length_classes(module.programs[name], shapes) for name, shapes in self.shapes.items()}
        )

    def fix(self, module: Module, pipeline: Pipeline) -> None:
        """Give the programs of a pipeline these shapes, and the pipeline's own buffers, too."""
        for launch in pipeline.walk():
            if not isinstance(launch, Launch) or launch.program not in self.shapes:
                continue
            program = module.programs[launch.program]
            for formal, name in zip(program.bound_buffers, launch.buffers, strict=True):
                rows = self.shapes[launch.program].get(formal.name)
                if rows is None:
                    continue
                buffer = pipeline.buffers[name]
                shape = tuple(
                    row if own is None else own for own, row in zip(buffer.shape, rows, strict=True)
                )
                sizes = [
                    size if row is None else None
                    for row, size in zip(rows, buffer.sizes or (None,) * buffer.dimensions, strict=True)
                ]
                pipeline.buffers[name] = replace(
                    buffer, shape=shape, sizes=tuple(sizes) if any(sizes) else ()
                )
        for name, shapes in self.shapes.items():
            program = module.programs[name]
            program.buffers = _with_shapes(program, shapes).buffers


@dataclass(frozen=True)
class RowClasses:
    """Classes of the lengths of rows of programs that a pipeline launches, by program."""

    bounds: Mapping[str, Mapping[Row, Bounds]]
    most: ClassVar[int] = 2 * MOST_LENGTHS

    @property
    def key(self) -> object:
        return tuple((name, *rows.items()) for name, rows in self.bounds.items())

    def extents(self, module: Module, pipeline: Pipeline) -> dict[str, Bounds] | None:
        """The classes of the open extents of a pipeline's buffers; None where the length of a row is computed of these."""
        found: dict[str, Bounds] = {}
        for launch in pipeline.walk():
            if not isinstance(launch, Launch) or launch.program not in self.bounds:
                continue
            formals = [buffer.name for buffer in module.programs[launch.program].bound_buffers]
            for row, bounds in self.bounds[launch.program].items():
                extent = _open_extent(pipeline, launch.buffers[formals.index(row.buffer)], row.dimension)
                if extent is None:
                    return None
                if extent:
                    found[extent] = bounds
        return found

    def fix(self, module: Module, pipeline: Pipeline) -> None:
        """Let the programs of a pipeline assert the classes."""
        for name, rows in self.bounds.items():
            assert_lengths(module.programs[name], rows)


def fixed_rows(module: Module, pipeline: Pipeline, lengths: Mapping[str, int]) -> FixedRows:
    """Shapes for rows as long as those of a call.

    `lengths`: those that callers pass.  A program of two launches with rows of other lengths is not there.
    """
    with_rows = {name for name, program in module.programs.items() if has_slices(program)}
    launches = [each for each in pipeline.walk() if isinstance(each, Launch) and each.program in with_rows]
    if not launches:
        return FixedRows({})
    shapes, known = dict[str, Shape](), dict(lengths)
    for name, buffer in pipeline.buffers.items():
        shapes[name] = _shape(buffer, known)
        known |= {key: n for key, n in lengths_by_dimension(name, shapes[name]).items() if n is not None}
        if None not in shapes[name]:
            known[name] = prod(n or 0 for n in shapes[name])
    fixed: dict[str, dict[str, Shape]] = {}
    differ: set[str] = set()
    for launch in launches:
        program = module.programs[launch.program]
        names = zip(program.bound_buffers, launch.buffers, strict=True)
        rows = with_open_extents(program, {formal.name: shapes[name] for formal, name in names})
        if fixed.setdefault(program.name, rows) != rows:
            differ.add(program.name)
    return FixedRows({name: rows for name, rows in fixed.items() if rows and name not in differ})


def _open_extent(pipeline: Pipeline, name: str, dimension: int) -> str | None:
    """Key of the open extent that an extent of a buffer is equal to; "" for a number, None for what is computed."""
    buffer = pipeline.buffers[name]
    extent = buffer.extents[dimension]
    if extent is None:
        return length_key(name, dimension if buffer.dimensions > 1 else None)
    if isinstance(extent, int):
        return ""
    if extent.name != "len":
        return None
    other, *along = map(str, extent.args)
    if not along and pipeline.buffers[other].dimensions > 1:  # the number of all its elements
        return None
    return _open_extent(pipeline, other, int(along[0]) if along else 0)


def _shape(buffer: Buffer, lengths: Mapping[str, int]) -> Shape:
    """Shape of a buffer of a pipeline, as far as it is known."""
    extents: list[int | None] = []
    for dimension, extent in enumerate(buffer.extents):
        key = length_key(buffer.name, dimension if buffer.dimensions > 1 else None)
        folded = lengths.get(key) if extent is None else fold(extent, lengths)
        extents.append(folded if isinstance(folded, int) else None)
    return tuple(extents)


def _is_taken(program: Program, target: str) -> bool:
    """Whether a GPU takes a program with clusters, in which nothing may fault."""
    from ..lowering.nvptx.abi import Unit
    from ..lowering.nvptx.kernel import lower
    from ..lowering.nvptx.targets import gpu

    try:
        lower([Unit(program, None, program.spec_defaults)], gpu(target), "trap")
    except DiagnosticError:
        return False
    return True
