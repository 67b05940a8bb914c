"""Buffers of a pipeline that would show the former contents of their memory, and so are zeroed before each run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ...ir.program import AccessMode, Program
from ...ir.shapes import passed_shape
from ...ir.written_elements import WholeWrite, wholly_written
from ...worker import import_module
from .steps import AnyStep, HostReadStep, LaunchStep, PipelinePlan, RepeatStep

__all__ = ["Forms", "forms_of_text", "zeroed_buffers"]


Forms = Mapping[str, Sequence[WholeWrite]]
"""Forms in which a program writes each buffer whole."""


def forms_of_text(program: Program) -> Forms:
    """The forms that the ops of a program show."""
    import_module("vyre_opt.analysis.whole_writes")
    from ...analysis.whole_writes import whole_writes

    return whole_writes(program)


def zeroed_buffers(
    plan: PipelinePlan, forms_of: Callable[[Program], Forms] = forms_of_text
) -> frozenset[str]:
    """The buffers without contents of the caller that are not written whole by the first launch that takes them."""
    zeroed: set[str] = set()
    pending = {name for name, b in plan.buffers.items() if not (b.access is AccessMode.READ or b.live_in)}
    writes: dict[Program, Forms] = {}
    for step in _run(plan.steps):
        if not pending:
            break
        if isinstance(step, HostReadStep):
            zeroed |= pending & {step.buffer}
            pending.discard(step.buffer)
            continue
        formals = {b.name: name for b, name in zip(step.program.bound_buffers, step.buffers, strict=True)}
        actual = {formal: plan.buffers[name] for formal, name in formals.items()}
        shapes = {
            name: tuple(extent or 0 for extent in passed_shape(actual.get(name, buffer), buffer))
            for name, buffer in step.program.buffers.items()
        }
        forms = writes.get(step.program)
        if forms is None:
            forms = writes[step.program] = forms_of(step.program)
        whole = wholly_written(forms, step.grid, shapes)
        zeroed |= {name for formal, name in formals.items() if name in pending and formal not in whole}
        pending.difference_update(step.buffers)
    return frozenset(zeroed | pending)


def _run(steps: Iterable[AnyStep]) -> Iterator[LaunchStep | HostReadStep]:
    """The steps that run at all, in the order of their first time."""
    for step in steps:
        if not isinstance(step, RepeatStep):
            yield step
        elif step.times:
            yield from _run(step.steps)
