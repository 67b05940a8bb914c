"""Programs with buffers of several dimensions on compiled targets, which know buffers of one.

A target compiles what `lowering.common.row_major` makes of such a program.  Arrays stay as they are, since they are
contiguous; their extents become the last words of a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..ir.open_extents import extent_words, flat_buffer
from ..ir.program import Buffer, Program
from ..ir.shapes import has_rows
from .inputs import check_inputs, input_name
from .plans.steps import AnyStep, LaunchStep, PipelinePlan, RepeatStep
from .shapes import argument_shape, array_of

__all__ = ["argument_shapes", "row_major_plan", "shaped_outputs"]


def row_major_plan(plan: PipelinePlan) -> PipelinePlan:
    """A plan over buffers of one dimension, whose launches have the words of the extents that are open."""
    if not any(buffer.dimensions > 1 for buffer in plan.buffers.values()) and not any(
        has_rows(program) for program in _programs(plan.steps)
    ):
        return plan
    buffers = {name: flat_buffer(buffer) for name, buffer in plan.buffers.items()}
    return replace(
        plan,
        pipeline=replace(plan.pipeline, buffers=buffers),
        steps=_with_extents(plan.steps, plan.buffers),
        outputs=[flat_buffer(buffer) for buffer in plan.outputs],
    )


def _with_extents(steps: Sequence[AnyStep], buffers: Mapping[str, Buffer]) -> list[AnyStep]:
    result: list[AnyStep] = []
    for step in steps:
        if isinstance(step, RepeatStep):
            step = RepeatStep(step.times, _with_extents(step.steps, buffers))
        elif isinstance(step, LaunchStep) and has_rows(step.program):
            bound = zip(step.program.bound_buffers, step.buffers, strict=True)
            shapes = {f.name: tuple(extent or 0 for extent in buffers[name].shape) for f, name in bound}
            step = replace(step, params=(*step.params, *extent_words(step.program, shapes).values()))
        result.append(step)
    return result


def _programs(steps: Sequence[AnyStep]) -> Iterator[Program]:
    for step in steps:
        if isinstance(step, RepeatStep):
            yield from _programs(step.steps)
        elif isinstance(step, LaunchStep):
            yield step.program


def argument_shapes(program: Program, inputs: Sequence[Any]) -> dict[str, tuple[int, ...]]:
    """The extents of the arguments for buffers of several dimensions, by name.  Raises BadInputs."""
    check_inputs(program, inputs)
    return {
        buffer.name: argument_shape(buffer, argument, input_name(program, buffer))
        for buffer, argument in zip(program.bound_buffers, inputs, strict=True)
        if buffer.dimensions > 1
    }


def shaped_outputs(
    program: Program, shapes: Mapping[str, tuple[int, ...]], outputs: Sequence[Any]
) -> list[Any]:
    """The outputs of the row-major program in the shapes of those of the program."""
    buffers = [buffer for buffer in program.bound_buffers if buffer.is_output]
    return [
        array.reshape(array_of(buffer, shapes[buffer.name])) if buffer.name in shapes else array
        for buffer, array in zip(buffers, outputs, strict=True)
    ]
