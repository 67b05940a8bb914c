"""Calls of a pipeline on arrays in main memory that were settled by an earlier call with like arrays.

Each buffer is an input as it is, a result, or storage of the call; what remains is to allocate the results, to hand
their addresses and those of the inputs to the runners of the launches, and to run these in order.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array_backend import HostArrays, Operand
from ..arrays import new_storage, transient_storage
from ..pipelines.host_runner import HostRunner, Rounds, located
from ..pipelines.steps import AnyStep, HostReadStep, LaunchStep, RepeatStep, is_returned, steps_of
from . import output_memory, threads
from .fast_call import is_in_place, maker_of, pointer_of
from .launch import CompiledLaunch
from .launch_sequence import LaunchSequence, Step

if TYPE_CHECKING:
    from . import CpuDispatcher

__all__ = ["CpuPipelineCall", "CpuRunner"]

MAX_KEPT_BYTES = 1 << 20
"""More memory than this is not kept from call to call."""

MAX_UNROLLED = 256
"""The launches of a repeat that are listed one by one, all its rounds together."""


@dataclass(slots=True, eq=False)
class CpuRunner(HostRunner):
    """A HostRunner whose calls may be planned."""

    dispatcher: CpuDispatcher | None = None

    def fast_call(self, inputs: Mapping[str, Operand], results: Mapping[str, Any]) -> CpuPipelineCall | None:
        """The call for arrays with the signatures of the operands' owners, after one with these `results`.

        None where calls need more: copies of what the host reads in between, arrays that are not used in place.
        """
        plan, dispatcher = self.plan, self.dispatcher
        assert dispatcher is not None
        for step in steps_of(plan.steps):
            if (
                isinstance(step, HostReadStep)
                and not step.settled
                and not is_returned(plan.buffers[step.buffer])
            ):
                return None
        if not inputs or not results or not all(map(is_in_place, inputs.values())):
            return None
        return CpuPipelineCall(self, dispatcher, inputs, results)


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
    """What one call at a time uses: its storage, with its addresses, and its launches.

    `arguments`: those of the launches that are inputs or results: the arguments of a runner, the place among them, and
    the number of the pointer.  `storage_bytes`: of storage and unbound buffers; the runners with `scratch` may keep more.
    """

    storage: list[np.ndarray]
    addresses: list[int]
    parts: list[_Part]
    arguments: list[tuple[array[int], int, int]]
    storage_bytes: int
    scratch: list[threads.GridRunner]

    @property
    def kept_bytes(self) -> int:
        return self.storage_bytes + sum(runner.kept_bytes for runner in self.scratch)


class CpuPipelineCall:
    """See `vyre_opt.runtime.kernel_call.PlannedCall`.  Several threads may call it at the same time.

    The pointers of a call are its inputs, its results, and its storage, of a buffer each.
    """

    def __init__(
        self,
        runner: CpuRunner,
        dispatcher: CpuDispatcher,
        inputs: Mapping[str, Operand],
        results: Mapping[str, Any],
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
        self._first_own = len(names) + len(results)
        self._own: list[str] = []
        self._zeroed: list[int] = []  # places in `_own`
        self._copies: list[tuple[int, int, int]] = []  # pointers of target and source, bytes
        for name in plan.buffers:
            if name in inputs and name not in self._numbers and name not in plan.written:
                self._numbers[name] = names.index(name)
                continue
            if name not in self._numbers:
                self._numbers[name] = self._first_own + len(self._own)
                self._own.append(name)
                if name in runner.filled and name not in inputs:
                    self._zeroed.append(len(self._own) - 1)
            if name in inputs:
                self._copies.append((self._numbers[name], names.index(name), plan.size(name)))
        self._launches: dict[LaunchStep, CompiledLaunch] = {}
        for step in steps_of(plan.steps):
            if isinstance(step, LaunchStep):
                launch = dispatcher.prepared(step.program, plan.module, settled=True)
                launch.prepare(step.grid)
                self._launches[step] = launch
        self._idle: list[_Run] = []

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        # taken off the list: another thread must not write its addresses into the same arguments meanwhile
        run = self._idle.pop() if self._idle else self._new_run()
        results = [make() for make, _ in self._makers]
        pointers = [pointer(array) for pointer, array in zip(self._pointers, arrays, strict=True)]
        pointers += [pointer(result) for (_, pointer), result in zip(self._makers, results, strict=True)]
        pointers += run.addresses
        for target, source, size in self._copies:
            threads.copy_bytes(pointers[target], pointers[source], size, self._workers)
        for number in self._zeroed:
            threads.clear(run.storage[number], self._workers)
        for args, at, number in run.arguments:
            args[at] = pointers[number]
        self._walk(run.parts, ())
        if run.kept_bytes <= MAX_KEPT_BYTES:
            self._idle.append(run)
        return results

    def _walk(self, parts: Sequence[_Part], rounds: Rounds) -> None:
        for part in parts:
            if isinstance(part, _Launches):
                fault = part.sequence.run()
                if fault is not None:  # the run is dropped, since nothing clears its fault records
                    place, record = fault
                    step, inner = part.sources[place]
                    launch = self._launches[step]
                    error = launch.error(record, step.grid, self._counts(step, launch))
                    raise located(error, self._plan, step, (*rounds, *inner))
            else:
                for number in range(part.times):
                    self._walk(part.body, (*rounds, (number + 1, part.times)))

    def _counts(self, step: LaunchStep, launch: CompiledLaunch) -> list[int]:
        """The number of elements of each argument of the code."""
        bound = [self._plan.buffers[name].count or 0 for name in step.buffers]
        return [bound[item] if isinstance(item, int) else item.count or 0 for item in launch.code_arguments]

    def _new_run(self) -> _Run:
        storage = [new_storage(self._plan.buffers[name], output_memory.empty) for name in self._own]
        run = _Run(storage, list(map(output_memory.address, storage)), [], [], 0, [])
        steps = {step: self._steps_of(step, launch, run) for step, launch in self._launches.items()}
        run.parts = _parts(self._plan.steps, steps, self._workers)
        run.storage_bytes += sum(array.nbytes for array in storage)
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
                run.storage_bytes += transient.nbytes
                transients.append(transient)
                continue
            number = self._numbers[step.buffers[item]]
            if number < self._first_own:
                run.arguments.append((runner.args, at, number))
            else:
                runner.args[at] = run.addresses[number - self._first_own]
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
