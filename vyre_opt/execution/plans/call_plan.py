"""A plan together with the arrays of a call: which buffers are the caller's memory, and what the others begin as.

    pointers of a call       one for each input, then one for each result
    memory of a buffer       behind one of them; or storage of the call
    contents at the start    those of its memory; a copy of an input; zeros; undefined

A program is a plan of one launch, so every callable comes to this, and every target runs this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol

from ...ir.pipeline import Pipeline
from ...ir.program import AccessMode, Buffer, Dim3, Module, Program
from ...records import dataclass
from .steps import HostReadStep, LaunchStep, PipelinePlan, is_returned, steps_of
from .watch import Watch

__all__ = ["CallPlan", "Loaded", "is_written", "launch_plan", "pipeline_call"]


@dataclass(frozen=True, slots=True, eq=False)
class CallPlan:
    """A plan and the pointers of a call.

    `inputs`: how many arrays a caller passes; `storage`: the buffers of the plan's own that the last of them are for.
    `results`: the buffers that become results, in order.
    `slots`: for each buffer with memory of the caller's or a result, the number of its pointer.
    `copies`: for each buffer that begins as a copy of an input, the number of that.
    `reads`: for each buffer of which a result is what the host read last, the number of the pointer of that result.
    `zeroed`: buffers that the programs want to begin as zeros.
    `written`: the numbers of the inputs that are written where they are, with their buffers.
    `unwritten`: buffers that would show what their memory held before; a target may zero these too.
    """

    plan: PipelinePlan
    inputs: int
    results: tuple[str, ...]
    slots: Mapping[str, int]
    copies: Mapping[str, int]
    written: Mapping[int, str]
    zeroed: frozenset[str] = frozenset()
    unwritten: frozenset[str] = frozenset()
    reads: Mapping[str, int] = field(default_factory=dict)
    storage: tuple[str, ...] = ()

    @property
    def call_storage(self) -> list[str]:
        """The buffers that are storage of the call."""
        return [name for name in self.plan.buffers if name not in self.slots]


class Loaded(Protocol):
    """A `CallPlan` that is compiled for a target.

    `piece_bytes`: memory that each call needs beside its results, from the library of its arrays; `pieces`: where the parts
    behind the first one begin.  Their pointers follow those of the results.
    `kept_bytes`: memory that it keeps from call to call.
    """

    @property
    def kept_bytes(self) -> int: ...

    @property
    def piece_bytes(self) -> int: ...

    @property
    def pieces(self) -> Sequence[int]: ...

    @property
    def run(self) -> Callable[..., int]:
        """`run(stream, *pointers, *words)` runs or enqueues the plan.

        `words`: of the runtime scalars, in the order of their names.  Returns 0, or the reason why nothing ran, which
        `explain` knows.  Raises ProgramError.
        """

    def watched(self, watch: Watch, stream: int, words: Sequence[int]) -> int:
        """`run` with an observer; `words`: pointers and words."""

    def explain(self, status: int) -> bool:
        """Whether pointers are to be aligned first; otherwise the plan may run now.

        Raises the ProgramError of an earlier call, or BackendError.
        """


def pipeline_call(
    plan: PipelinePlan,
    inputs: Sequence[str],
    results: Sequence[str] = (),
    unwritten: Collection[str] = (),
    *,
    in_place: bool = False,
    has_storage: bool = False,
) -> CallPlan:
    """The call of a pipeline on an array for each of the buffers `inputs`.

    `in_place`: an input that is written is written where it is; otherwise a copy of it is.  `has_storage`: whether the
    caller has memory for the pipeline's own buffers too.
    `unwritten`: what `zeroed_buffers` says of the plan.
    """
    storage = tuple(n for n in plan.buffers if n not in inputs and n not in results) if has_storage else ()
    count = len(inputs) + len(storage)
    slots = {name: number for number, name in enumerate(storage, len(inputs))}
    slots |= {name: number for number, name in enumerate(results, count)}
    reads = {name: slots.pop(name) for name in _overwritten(plan) if name in slots}
    for number, name in enumerate(inputs):
        if name not in slots and (in_place or name not in plan.written):
            slots[name] = number
    copies = {name: number for number, name in enumerate(inputs) if slots.get(name) != number}
    begun = {*copies, *(name for name in inputs if name in slots)}
    written = {
        number: name for number, name in enumerate(inputs) if in_place and is_written(plan.buffers[name])
    }
    unwritten = frozenset(unwritten) - begun
    return CallPlan(
        plan, count, tuple(results), slots, copies, written, frozenset(), unwritten, reads, storage
    )


def _overwritten(plan: PipelinePlan) -> set[str]:
    """The buffers that the host reads, and that are written again after, though nobody gets what they hold at the end."""
    reads = (step for step in steps_of(plan.steps) if isinstance(step, HostReadStep) and not step.is_final)
    return {step.buffer for step in reads if not is_returned(plan.buffers[step.buffer])}


def is_written(buffer: Buffer) -> bool:
    """Whether a call in place may write the array for a buffer of a program or a pipeline."""
    return buffer.live_out or buffer.access in (AccessMode.WRITE, AccessMode.READ_WRITE)


_NO_MODULE = Module()
"""Empty module of programs that call nothing: one for all their plans, since targets keep code by program and module."""


def launch_plan(
    program: Program,
    grid: Dim3,
    module: Module | None,
    shapes: Sequence[tuple[int, ...]],
    words: Sequence[int] = (),
    begun: Collection[str] = (),
) -> PipelinePlan:
    """The plan of one launch, whose buffers have the names of the program's.

    `shapes`: in elements, of the bound buffers in order.  `words`: of the last of the runtime scalars, in the order of
    their names; the others are those of a call.  `begun`: the buffers that have contents of the caller.
    """
    bound = program.bound_buffers
    buffers = {
        b.name: replace(b, shape=shape, sizes=(), binding=None, live_in=b.live_in or b.name in begun)
        for b, shape in zip(bound, shapes, strict=True)
    }
    names = sorted(program.params)
    passed = names[: len(names) - len(words)]
    pipeline = Pipeline(
        program.name, buffers=buffers, params={name: program.params[name] for name in passed}, loc=program.loc
    )
    step = LaunchStep(None, program, grid, tuple(buffers), (*passed, *words))
    written = frozenset(step.written)
    return PipelinePlan(
        pipeline, module or _NO_MODULE, [step], written, [b for b in buffers.values() if b.live_out]
    )
