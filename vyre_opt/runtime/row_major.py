"""Programs with buffers of several dimensions on compiled targets, which know buffers of one.

A target compiles the program that `lowering.common.row_major` makes of it.  Arrays stay as they are, since they are
contiguous; their extents become the last words of a call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..ir.program import Buffer, Program
from ..ir.snapshot import Snapshot
from ..lowering.common.row_major import RowMajorProgram, has_rows, row_major
from .inputs import check_inputs, input_name
from .pipelines.steps import AnyStep, LaunchStep, PipelinePlan, RepeatStep
from .shapes import argument_shape, array_of

__all__ = ["RowMajorPrograms", "argument_shapes", "has_rows", "shaped_outputs"]

MAX_PROGRAMS = 256


class RowMajorPrograms:
    """The row-major programs of a dispatcher, made once each; `bounds`: see `row_major`.

    `before`: what the target does with a program whose buffers still have their rows.
    """

    def __init__(self, bounds: str = "trap", before: Callable[[Program], Program] = lambda it: it) -> None:
        self.bounds, self.before = bounds, before
        self._programs: OrderedDict[Program, tuple[Snapshot, RowMajorProgram]] = OrderedDict()
        self._made: dict[Program, RowMajorProgram] = {}
        """The same by the row-major program."""

    def of(self, program: Program) -> RowMajorProgram:
        """The row-major program, from an earlier time unless the program was changed since."""
        known = self._programs.get(program)
        if known is not None and known[0].holds():
            return known[1]
        made = row_major(self.before(program), self.bounds)
        self._programs[program] = Snapshot(program, None), made
        self._made[made.program] = made
        if known is not None:
            self._made.pop(known[1].program, None)
        if len(self._programs) > MAX_PROGRAMS:
            _, (_, oldest) = self._programs.popitem(last=False)
            self._made.pop(oldest.program, None)
        return made

    def behind(self, program: Program) -> RowMajorProgram | None:
        """What a row-major program was made of; None for another program, or one made long ago."""
        return self._made.get(program)

    def plan(self, plan: PipelinePlan) -> PipelinePlan:
        """A plan whose launches are of row-major programs."""
        if not any(buffer.dimensions > 1 for buffer in plan.buffers.values()) and not any(
            has_rows(program) for program in _programs(plan.steps)
        ):
            return plan
        buffers = {name: _flat(buffer) for name, buffer in plan.buffers.items()}
        return replace(
            plan,
            pipeline=replace(plan.pipeline, buffers=buffers),
            steps=self._steps(plan.steps, plan.buffers),
            outputs=[_flat(buffer) for buffer in plan.outputs],
        )

    def _steps(self, steps: Sequence[AnyStep], buffers: Mapping[str, Buffer]) -> list[AnyStep]:
        result: list[AnyStep] = []
        for step in steps:
            if isinstance(step, RepeatStep):
                step = RepeatStep(step.times, self._steps(step.steps, buffers))
            elif isinstance(step, LaunchStep) and has_rows(step.program):
                rows = self.of(step.program)
                bound = zip(step.program.bound_buffers, step.buffers, strict=True)
                shapes = {f.name: tuple(extent or 0 for extent in buffers[name].shape) for f, name in bound}
                params = (*step.params, *rows.words(shapes))
                step = replace(step, program=rows.program, params=params)
            result.append(step)
        return result


def _programs(steps: Sequence[AnyStep]) -> Iterator[Program]:
    for step in steps:
        if isinstance(step, RepeatStep):
            yield from _programs(step.steps)
        elif isinstance(step, LaunchStep):
            yield step.program


def _flat(buffer: Buffer) -> Buffer:
    return buffer if buffer.dimensions == 1 else replace(buffer, shape=(buffer.count,))


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
