"""Warnings of launches on the arrays of a call, before they run: over axes that a program ignores, of races, and of elements left out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from ..diagnostics import Diagnostic, Location, spelling_at, written_name
from ..grids import Extent, fold, length_key, params_of
from ..pipeline import Fill, Launch, Pipeline
from ..program import AccessMode, Module, Program
from .dropped_remainders import dropped_remainders
from .exchanged_indices import exchanged_indices
from .ignored_axes import ignored_axes
from .padded_reductions import padded_reductions
from .partly_written import partly_written, passed_numbers, passed_shapes
from .reduction_identities import EXTREMES, zeroed_extremes
from .short_workgroups import short_workgroups
from .unordered_accesses import unordered_launches
from .unreached_elements import LaunchedAt, unreached_elements
from .vector_tails import vector_tails
from .wrapped_numbers import wrapped_numbers

_MOST_LOOKED_AT = 4096
"""Elements of an array whose contents are looked at before a launch."""

__all__ = ["launch_warnings", "pipeline_warnings"]


def launch_warnings(
    program: Program,
    grid: Sequence[Extent],
    arrays: Mapping[str, Any],
    params: Mapping[str, int],
    at: LaunchedAt,
    told: Collection[Location | None] = (),
    has_run: bool = False,
) -> Iterator[Diagnostic]:
    """The warnings of a launch of a program alone.  `arrays`: by names of buffers; `params`: whole numbers, by "@name"; `told`: places of
    warnings that were given before; `has_run`: accesses are not compared again, since those of a launch over other arrays were."""
    shapes = {name: _shape(array) for name, array in arrays.items()}
    first = [*ignored_axes(program, grid, at.loc)]
    yield from first
    seen = {*told, *(each.loc for each in first)}
    if not has_run:
        contents = _contents(program, arrays)
        yield from unordered_launches(program, grid, shapes, params, contents, at.loc, seen)
    counted = {op.attrs["buffer"] for op in program.walk() if op.name in EXTREMES}
    zeroed = {name: f"fill {name} with {{}}" for name in counted & arrays.keys() if _is_zeros(arrays[name])}
    yield from _by_lengths(program, grid, shapes, params, at.loc, seen)
    yield from zeroed_extremes(program, zeroed, arrays, at.loc)
    yield from _left_out(program, grid, shapes, params, at)


def _by_lengths(
    program: Program,
    grid: Sequence[Extent],
    shapes: Mapping[str, Sequence[int]],
    params: Mapping[str, int],
    loc: Location | None,
    told: Collection[Location | None],
) -> Iterator[Diagnostic]:
    """The warnings of a launch at `loc` that its lengths and numbers decide."""
    yield from wrapped_numbers(program, grid, shapes, params, loc, told)
    yield from exchanged_indices(program, shapes, loc)
    yield from padded_reductions(program, shapes, loc)
    yield from short_workgroups(program, shapes, loc)
    yield from dropped_remainders(program, grid, shapes, params, loc)


def _left_out(
    program: Program,
    grid: Sequence[Extent],
    shapes: Mapping[str, Sequence[int]],
    params: Mapping[str, int],
    at: LaunchedAt,
) -> Iterator[Diagnostic]:
    """The warnings of elements that a grid leaves out, or else those behind the last whole vector."""
    unreached = [*unreached_elements(program, grid, shapes, at, params)]
    yield from unreached or vector_tails(program, grid, shapes, params, at.loc)


def pipeline_warnings(
    module: Module,
    pipeline: Pipeline,
    arrays: Mapping[str, Any],
    params: Mapping[str, int],
    told: Collection[Location | None] = (),
    has_run: bool = False,
) -> Iterator[Diagnostic]:
    """The warnings of the launches of a pipeline on arrays, one for each program and grid, but for those of a text alone.  Where a number
    of the caller says how many workgroups there are, elements may be left out.  `has_run`: see `launch_warnings`."""
    shapes, lengths = {name: _shape(array) for name, array in arrays.items()}, dict[str, Any](params)
    for name, buffer in pipeline.buffers.items():
        if name not in shapes:
            known = [None if size is None else fold(size, lengths) for size in buffer.sizes or buffer.shape]
            shapes[name] = tuple(extent for extent in known if isinstance(extent, int))
        if len(shapes[name]) >= buffer.dimensions:
            lengths[name] = prod(shapes[name]) // buffer.dtype.lanes
            lengths |= {length_key(name, number): extent for number, extent in enumerate(shapes[name])}
    read = {name for name, buffer in pipeline.buffers.items() if buffer.access is AccessMode.READ}
    seen: set[tuple[str, tuple[Extent, ...]]] = set()
    zeroed, small = dict[str, str](), set[Location | None]()
    for stage in pipeline.walk():
        if isinstance(stage, Fill):
            _fill(zeroed, stage, pipeline)
        program = module.programs.get(stage.program) if isinstance(stage, Launch) else None
        if program is None or not isinstance(stage, Launch):
            continue
        grid = tuple(fold(extent, lengths) for extent in stage.grid)
        if (program.name, grid) in seen:
            continue
        seen.add((program.name, grid))
        passed = dict(zip([buffer.name for buffer in program.bound_buffers], stage.buffers, strict=True))
        own, numbers = passed_shapes(stage, program, shapes), passed_numbers(stage, params)
        if not has_run:
            read_only = {formal: arrays[n] for formal, n in passed.items() if n in read & arrays.keys()}
            contents = _contents(program, read_only)
            yield from unordered_launches(program, grid, own, numbers, contents, stage.loc, told)
        yield from _by_lengths(program, grid, own, numbers, stage.loc, told)
        began = {formal: zeroed.pop(n) for formal, n in passed.items() if n in zeroed}
        given = {formal: arrays[n] for formal, n in passed.items() if n in arrays}
        yield from zeroed_extremes(program, began, given, stage.loc)
        if not any(any(params_of(extent)) for extent in stage.grid):
            is_python = spelling_at(stage.loc).name == "PYTHON"
            names = {
                formal: written_name(name, pipeline.buffers[name].loc) if is_python else name
                for formal, name in passed.items()
            }
            left_out = [*_left_out(program, grid, own, numbers, LaunchedAt(stage.loc, names))]
            small.update(each.loc for each in left_out)
            yield from left_out
    if not has_run:
        yield from partly_written(module, pipeline, shapes, lengths, small)


def _fill(zeroed: dict[str, str], stage: Fill, pipeline: Pipeline) -> None:
    """Note a buffer that a stage fills with zeros, and how it is filled with another number, {}."""
    zeroed.pop(stage.buffer, None)
    if all(text in ("0", "0.0") for _, text in stage.value):
        written = spelling_at(stage.loc).fill(written_name(stage.buffer, pipeline.buffers[stage.buffer].loc))
        zeroed[stage.buffer] = f"write {written.removesuffix('0)')}{{}})"


def _is_zeros(array: Any) -> bool:
    """Whether a short array in main memory has zeros alone."""
    # bytes, since memory that nobody has written may hold NaNs of which NumPy warns
    is_looked_at = hasattr(array, "__array_interface__") and 0 < array.size <= _MOST_LOOKED_AT
    return is_looked_at and not array.tobytes().strip(b"\0")


def _shape(array: Any) -> tuple[int, ...]:
    """The extents of an array; of an output that is still to be made, its number of elements; of bytes and lists, none."""
    if shape := getattr(array, "shape", None):
        return tuple(shape)
    count = getattr(array, "count", None)  # a method of bytes and lists
    return (count,) if isinstance(count, int) else ()


def _contents(program: Program, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays in main memory of whole numbers that the program only reads."""
    return {
        name: array
        for name, array in arrays.items()
        if program.buffers[name].access is AccessMode.READ
        and (program.buffers[name].dtype.is_int or program.buffers[name].dtype.is_bool)
        and hasattr(array, "__array_interface__")
        and array.ndim == program.buffers[name].dimensions
    }
