"""Calls of a pipeline on arrays in main memory that were settled by an earlier call with like arrays.

Each buffer is an input as it is, a result, or lies in a block of memory of the call; what remains is to allocate the
results, to hand addresses to the runners of the launches, and to run these in order.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array_backend import HostArrays, Operand
from ..arrays import transient_storage
from ..params import Words
from ..pipelines.host_runner import HostRunner, Rounds, located
from ..pipelines.steps import AnyStep, HostReadStep, LaunchStep, RepeatStep, is_returned, steps_of
from ..pipelines.storage_layout import ALIGNMENT, storage_layout
from . import output_memory, threads
from .fast_call import is_in_place, maker_of, pointer_of
from .launch import CompiledLaunch
from .launch_sequence import LaunchSequence, Step

if TYPE_CHECKING:
    from . import CpuDispatcher

__all__ = ["CpuPipelineCall", "CpuRunner"]

MAX_KEPT_BYTES = 1 << 20
"""More memory than this is not kept from call to call: not the block, which comes from a free list then, and no run whose
launches keep more."""

MAX_UNROLLED = 256
"""The launches of a repeat that are listed one by one, all its rounds together."""


@dataclass(slots=True, eq=False)
class CpuRunner(HostRunner):
    """A HostRunner whose calls may be planned."""

    dispatcher: CpuDispatcher | None = None

    def fast_call(
        self, inputs: Mapping[str, Operand], results: Mapping[str, Any], in_place: bool = False
    ) -> CpuPipelineCall | None:
        """The call for arrays with the signatures of the operands' owners, after one with these `results`.

        `in_place`: without results; what would be one is written to the array that is passed for it.
        None where calls need more: copies of what the host reads in between, arrays that are not used in place,
        programs that print.
        """
        plan, dispatcher = self.plan, self.dispatcher
        assert dispatcher is not None
        for step in steps_of(plan.steps):
            if isinstance(step, LaunchStep):
                if dispatcher.prepared(step.program, plan.module, settled=True).prints:
                    return None
            elif isinstance(step, HostReadStep) and not (
                step.settled or is_returned(plan.buffers[step.buffer])
            ):
                return None
        if not inputs or not (results or in_place) or not all(map(is_in_place, inputs.values())):
            return None
        return CpuPipelineCall(self, dispatcher, inputs, results, in_place)


@dataclass(slots=True)
class _Launches:
    """Launches that follow each other.  `sources`: for each step of the sequence, its launch, and the rounds of the
    repeats that were unrolled around it."""

    sequence: LaunchSequence
    sources: list[tuple[LaunchStep, Rounds]]


@dataclass(slots=True)
class _Loop:
    """A repeat that is not unrolled."""

    times: int
    body: list[_Part]


_Part = _Launches | _Loop


@dataclass(slots=True)
class _Run:
    """What one call at a time uses: its launches, and their memory.

    `arguments`, `own_arguments`: the arguments of a runner, a place among them, and the number of the pointer that goes
    there, or the name of the buffer in the block.  `params`: in the same way, the number of the pipeline's param. `block`: None where it is not kept; `start`: its address.
    `transient_bytes`: of unbound buffers; the runners with `scratch` may keep more.
    """

    parts: list[_Part]
    arguments: list[tuple[array[int], int, int]]
    own_arguments: list[tuple[array[int], int, str]]
    params: list[tuple[array[int], int, int]]
    block: np.ndarray | None = None
    start: int = 0
    transient_bytes: int = 0
    scratch: list[threads.GridRunner] = field(default_factory=list)

    @property
    def kept_bytes(self) -> int:
        return self.transient_bytes + sum(runner.kept_bytes for runner in self.scratch)


class CpuPipelineCall:
    """See `vyre_opt.runtime.kernel_call.PlannedCall`.  Several threads may call it at the same time.

    The pointers of a call are its inputs and its results.
    """

    def __init__(
        self,
        runner: CpuRunner,
        dispatcher: CpuDispatcher,
        inputs: Mapping[str, Operand],
        results: Mapping[str, Any],
        in_place: bool = False,
    ) -> None:
        self.runner, plan = runner, runner.plan
        backend = HostArrays(dispatcher)
        self._plan, self._workers = plan, dispatcher.workers
        self._pointers = [pointer_of(operand.owner) for operand in inputs.values()]
        self._makers = [
            (maker_of(backend, result, name in runner.filled and name not in inputs), pointer_of(result))
            for name, result in results.items()
        ]
        names = list(inputs)
        self._numbers = {name: len(names) + number for number, name in enumerate(results)}
        self._copies: list[tuple[str, int, int]] = []  # target, pointer of the source, bytes
        own: list[str] = []
        for name in plan.buffers:
            if name in inputs and name not in self._numbers and (in_place or name not in plan.written):
                self._numbers[name] = names.index(name)
                continue
            if name not in self._numbers:
                own.append(name)
            if name in inputs:
                self._copies.append((name, names.index(name), plan.size(name)))
        self._zeroed = [name for name in own if name in runner.filled and name not in inputs]
        self._layout = storage_layout(plan, own, {*self._zeroed, *inputs})
        self._launches: dict[LaunchStep, CompiledLaunch] = {}
        for step in steps_of(plan.steps):
            if isinstance(step, LaunchStep):
                launch = dispatcher.prepared(step.program, plan.module, settled=True)
                launch.prepare(step.grid)
                self._launches[step] = launch
        self._idle: list[_Run] = []

    def run(self, arrays: Sequence[Any], params: Words = ()) -> list[Any]:
        # taken off the list: another thread must not write its addresses into the same arguments meanwhile
        run = self._idle.pop() if self._idle else self._new_run()
        results = [make() for make, _ in self._makers]
        pointers = [pointer(array) for pointer, array in zip(self._pointers, arrays, strict=True)]
        pointers += [pointer(result) for (_, pointer), result in zip(self._makers, results, strict=True)]
        for args, at, number in run.arguments:
            args[at] = pointers[number]
        for args, at, number in run.params:
            args[at] = params[number]
        if run.block is None:
            self._allocate_block(run)
        for name, source, size in self._copies:
            target = pointers[self._numbers[name]] if name in self._numbers else self._address(run, name)
            threads.copy_bytes(target, pointers[source], size, self._workers)
        for name in self._zeroed:
            threads.clear_bytes(self._address(run, name), self._plan.size(name), self._workers)
        self._walk(run.parts, ())
        if self._layout.bytes > MAX_KEPT_BYTES:
            run.block = None
        if run.kept_bytes <= MAX_KEPT_BYTES:
            self._idle.append(run)
        return results

    def _allocate_block(self, run: _Run) -> None:
        run.block = output_memory.empty(self._layout.bytes + ALIGNMENT, np.dtype(np.uint8))
        address = output_memory.address(run.block)
        run.start = address + -address % ALIGNMENT
        for args, at, name in run.own_arguments:
            args[at] = self._address(run, name)

    def _address(self, run: _Run, name: str) -> int:
        """Of a buffer in the block."""
        return run.start + self._layout.offsets[name]

    def _walk(self, parts: Sequence[_Part], rounds: Rounds) -> None:
        for part in parts:
            if isinstance(part, _Launches):
                fault = part.sequence.run()
                if fault is not None:  # the run is dropped, since nothing clears its fault records
                    place, record = fault
                    step, inner = part.sources[place]
                    launch = self._launches[step]
                    error = launch.error(record, step.grid, self._counts(step, launch), step.params)
                    raise located(error, self._plan, step, (*rounds, *inner))
            else:
                for number in range(part.times):
                    self._walk(part.body, (*rounds, (number + 1, part.times)))

    def _counts(self, step: LaunchStep, launch: CompiledLaunch) -> list[int]:
        """The number of elements of each argument of the code."""
        bound = [self._plan.buffers[name].count or 0 for name in step.buffers]
        return [bound[item] if isinstance(item, int) else item.count or 0 for item in launch.code_arguments]

    def _new_run(self) -> _Run:
        run = _Run([], [], [], [])
        steps = {step: self._steps_of(step, launch, run) for step, launch in self._launches.items()}
        run.parts = _parts(self._plan.steps, steps, self._workers)
        return run

    def _steps_of(self, step: LaunchStep, launch: CompiledLaunch, run: _Run) -> list[Step]:
        """Its program's unbound buffers, which are zeroed before each launch, and its runner."""
        touched = max((self._plan.size(name) for name in step.buffers), default=0)
        runner = launch.new_runner(self._counts(step, launch), step.grid, touched)
        transients: list[Step] = []
        for at, item in enumerate(launch.code_arguments):
            if not isinstance(item, int):
                transient = transient_storage(item, None)
                runner.args[at] = output_memory.address(transient)
                run.transient_bytes += transient.nbytes
                transients.append(transient)
            elif (number := self._numbers.get(step.buffers[item])) is not None:
                run.arguments.append((runner.args, at, number))
            else:
                run.own_arguments.append((runner.args, at, step.buffers[item]))
        numbers = {name: number for number, name in enumerate(sorted(self._plan.pipeline.params))}
        for at, value in enumerate(step.params, len(runner.args) - len(step.params)):
            if isinstance(value, str):
                run.params.append((runner.args, at, numbers[value]))
            else:
                runner.args[at] = value
        if runner.scratch_bytes:
            run.scratch.append(runner)
        return [*transients, runner]


def _parts(steps: Sequence[AnyStep], launches: Mapping[LaunchStep, list[Step]], workers: int) -> list[_Part]:
    """The parts that a plan's steps come to; `launches`: what each launch is in a sequence."""
    parts: list[_Part] = []
    for is_unrolled, group in groupby(steps, lambda step: _length(step) <= MAX_UNROLLED):
        if not is_unrolled:
            parts += [
                _Loop(s.times, _parts(s.steps, launches, workers)) for s in group if isinstance(s, RepeatStep)
            ]
            continue
        sequence: list[Step] = []
        sources: list[tuple[LaunchStep, Rounds]] = []
        for launch, rounds in _unrolled(group, ()):
            sequence += launches[launch]
            sources += [(launch, rounds)] * len(launches[launch])
        parts.append(_Launches(LaunchSequence(sequence, workers), sources))
    return parts


def _length(step: AnyStep) -> int:
    """The steps that it is once unrolled."""
    return 1 + step.times * sum(map(_length, step.steps)) if isinstance(step, RepeatStep) else 1


def _unrolled(steps: Iterable[AnyStep], rounds: Rounds) -> Iterator[tuple[LaunchStep, Rounds]]:
    """The launches in the order in which they run, each with its rounds."""
    for step in steps:
        if isinstance(step, LaunchStep):
            yield step, rounds
        elif isinstance(step, RepeatStep):
            for number in range(step.times):
                yield from _unrolled(step.steps, (*rounds, (number + 1, step.times)))
