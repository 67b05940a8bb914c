"""Functions on rows, `vyre_opt.kernels.layer_norm` and the like, as calls of a pack: launches of their kernels for rows of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ..driver.compile import compile_module
from ..driver.program import ProgramExecutable
from ..execution.target import Target
from ..fusion.group_count import groups_param
from ..ir.program import Program
from ..kernels.call import Call, EmptyResult, KernelCall, OutputAlloc
from ..lang.generics import for_arrays
from ..lowering.common.row_major import row_major
from ..row_kernels.on_rows import Place, RowsCall
from ..scheduling.wide_workgroups import of_whole_subgroups

__all__ = ["kernel_call"]


def kernel_call(call: RowsCall, target: Target) -> Call:
    """A call of a function that has one result and is one launch."""
    ((shape, kind),) = call.results
    if not call.launches:
        return EmptyResult(shape, kind=kind)
    ((launch, arguments),) = call.launches
    operands = [operand.owner for operand in call.operands.values()]
    arrays = [*operands, call.backend.new_result(shape, kind, call.first.owner)]
    values = [each.of(arrays) if isinstance(each, Place) else each for each in arguments]
    kernel = for_arrays(launch.kernel, dict(zip(launch.kernel.parameters, values, strict=True)))
    executable = compile_module(
        kernel.module, kernel.function.__name__, target, {}, kernel.call_options.passes
    )
    assert isinstance(executable, ProgramExecutable)
    places = [each for each in arguments if isinstance(each, Place)]
    program = _for_shapes(executable, places, target.schedules)
    if any(place.is_reshaped for place in places):
        program = row_major(program)
    wide, workgroups = of_whole_subgroups(program)
    taken = [place.number if place.number < len(operands) else OutputAlloc(prod(shape)) for place in places]
    words = {name: encode(values[position]) for name, position, encode in kernel.scalars}
    words |= {groups_param(program): launch.grid} if workgroups > 1 else {}
    grid = -(-launch.grid // workgroups)
    return KernelCall(wide, grid, tuple(taken), shape, words=tuple(words[name] for name in sorted(words)))


def _for_shapes(executable: ProgramExecutable, places: Sequence[Place], schedules: str) -> Program:
    """The program for buffers of these shapes alone."""
    names = [buffer.name for buffer in executable.program.bound_buffers]
    shapes = {name: place.shape for name, place in zip(names, places, strict=True)}
    program = executable.rewrites.lowered_slices(executable.program, shapes, schedules)
    assert program is not None
    fixed = {name: replace(program.buffers[name], shape=shape) for name, shape in shapes.items()}
    return replace(program, buffers=program.buffers | fixed)
