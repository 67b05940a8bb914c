"""Plans on the CPU: the runners of their launches, and the memory of a call.

Each buffer is memory of the caller, or lies in a block of the call; what remains at a call is to hand addresses to
the runners of the launches, and to run these in order.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from typing import Protocol

import numpy as np

from ...execution import output_memory
from ...execution.arrays import transient_storage
from ...execution.dispatcher import BackendError, ProgramError
from ...execution.plans.call_plan import CallPlan
from ...execution.plans.rounds import Rounds, located
from ...execution.plans.steps import (
    AnyStep,
    HostReadStep,
    LaunchStep,
    RepeatStep,
    steps_of,
)
from ...execution.plans.storage_layout import ALIGNMENT, storage_layout
from ...execution.plans.watch import Times, Watch
from ...execution.row_major import row_major_plan
from ...ir.program import Module, Program
from ...records import dataclass
from . import threads
from .launch import CompiledLaunch
from .launch_sequence import Fault, LaunchSequence, Step

__all__ = ["CpuPlan"]

MAX_KEPT_BYTES = 1 << 20
"""More memory than this is not kept from call to call: not the block, which comes from a free list then, and no run whose
launches keep more."""

_UNWATCHED = Watch()

MAX_UNROLLED = 256
"""The launches of a repeat that are listed one by one, all its rounds together."""


@dataclass(slots=True)
class _Launches:
    """Launches that follow each other.

    `sources`: for each step of the sequence, its launch, and the rounds of the repeats that were unrolled around it.
    `records`: what the last launch printed.
    """

    sequence: LaunchSequence
    sources: list[tuple[LaunchStep, Rounds]]
    records: np.ndarray | None = None


@dataclass(slots=True)
class _RepeatedParts:
    """A repeat that is not unrolled."""

    times: int
    body: list[_Part]


_Part = _Launches | _RepeatedParts | HostReadStep


@dataclass(slots=True)
class _CallState:
    """State of one call at a time: its launches, and their memory.

    `arguments`, `own_arguments`: the arguments of a runner, an index of one of them, and the number of the word of the call
    that goes there, or the name of the buffer in the block.  `block`: None where it is not kept; `start`: its address.
    `transient_bytes`: of unbound buffers; the runners with `scratch` may keep more.  `records`: the memory of what
    launches print.
    """

    parts: list[_Part]
    arguments: list[tuple[array[int], int, int]]
    own_arguments: list[tuple[array[int], int, str]]
    block: np.ndarray | None = None
    start: int = 0
    transient_bytes: int = 0
    scratch: list[threads.GridRunner] = field(default_factory=list)
    records: dict[LaunchStep, np.ndarray] = field(default_factory=dict)

    @property
    def only_part(self) -> _Launches | None:
        """The launches, where they are one sequence and print nothing."""
        part = self.parts[0] if len(self.parts) == 1 else None
        return part if isinstance(part, _Launches) and part.records is None else None

    @property
    def kept_bytes(self) -> int:
        return self.transient_bytes + sum(runner.kept_bytes for runner in self.scratch)


class PreparesLaunches(Protocol):
    """Source of a plan's launches; `workers`: threads that run them."""

    @property
    def workers(self) -> int: ...

    def prepared(
        self, program: Program, module: Module | None = None, *, is_unchanged: bool = False
    ) -> CompiledLaunch:
        """See `CpuDispatcher.prepared`."""


class CpuPlan:
    """See `vyre_opt.execution.plans.call_plan.Loaded`.  Several threads may run it at the same time."""

    piece_bytes, pieces, kept_bytes = 0, (), 0

    def __init__(self, dispatcher: PreparesLaunches, call: CallPlan) -> None:
        plan = self._plan = row_major_plan(call.plan)
        self._reads = call.reads
        self._workers, self._slots = dispatcher.workers, call.slots
        unbound = call.call_storage
        self._zeroed = [name for name in plan.buffers if name in call.zeroed or name in call.unwritten]
        self._copies = [(name, number, plan.size(name)) for name, number in call.copies.items()]
        self._layout = storage_layout(plan, unbound, {*self._zeroed, *call.copies})
        self._has_block = bool(unbound)
        self._is_prepared = bool(self._copies or self._zeroed)
        first_word = call.inputs + len(call.results)
        self._words = {name: first_word + k for k, name in enumerate(sorted(plan.pipeline.params))}
        self._launches: dict[LaunchStep, CompiledLaunch] = {}
        for step in steps_of(plan.steps):
            if isinstance(step, LaunchStep):
                launch = dispatcher.prepared(step.program, plan.module, is_unchanged=True)
                launch.prepare(step.grid)
                self._launches[step] = launch
        self._idle: list[_CallState] = []
        self._plain: list[tuple[_CallState, _Launches]] = []
        """Idle runs of which a call needs nothing but the launches: half a microsecond faster."""

    def run(self, stream: int, *words: int) -> int:
        try:
            plain = self._plain.pop()
        except IndexError:
            plain = None
        if plain is None:  # not in the handler, whose error would be the context of the program's
            return self.watched(_UNWATCHED, stream, words)
        run, launches = plain
        for args, at, number in run.arguments:
            args[at] = words[number]
        fault = launches.sequence.run()
        if fault is not None:
            raise self._error(launches, fault, (), words)
        if not run.scratch or run.kept_bytes <= MAX_KEPT_BYTES:
            self._plain.append(plain)
        return 0

    def watched(self, watch: Watch, stream: int, words: Sequence[int]) -> int:
        try:
            self._run(watch, words)
        except MemoryError as error:
            raise BackendError(f"{self._plan.title}: not enough memory to run it: {error}") from error
        return 0

    def _run(self, watch: Watch, words: Sequence[int]) -> None:
        # taken off the list: another thread must not write its addresses into the same arguments meanwhile
        run = self._idle.pop() if self._idle else self._new_run()
        for args, at, number in run.arguments:
            args[at] = words[number]
        if self._has_block and run.block is None:
            self._allocate_block(run)
        if self._is_prepared:
            self._prepare(run, words)
        self._walk(run, run.parts, (), words, watch)
        if self._has_block and self._layout.bytes > MAX_KEPT_BYTES:
            run.block = None
        if run.kept_bytes <= MAX_KEPT_BYTES:
            launches = run.only_part
            if launches is None or self._has_block or self._is_prepared:
                self._idle.append(run)
            else:
                self._plain.append((run, launches))

    def explain(self, status: int) -> bool:
        raise AssertionError("a run in main memory has no status")

    def _prepare(self, run: _CallState, words: Sequence[int]) -> None:
        """Give buffers the contents that they begin with."""
        for name, source, size in self._copies:
            threads.copy_bytes(self._address(run, name, words), words[source], size, self._workers)
        for name in self._zeroed:
            threads.clear_bytes(self._address(run, name, words), self._plan.size(name), self._workers)

    def _allocate_block(self, run: _CallState) -> None:
        run.block = output_memory.empty(self._layout.bytes + ALIGNMENT, np.dtype(np.uint8))
        address = output_memory.address(run.block)
        run.start = address + -address % ALIGNMENT
        for args, at, name in run.own_arguments:
            args[at] = run.start + self._layout.offsets[name]

    def _address(self, run: _CallState, name: str, words: Sequence[int]) -> int:
        """Address of a buffer."""
        slot = self._slots.get(name)
        return run.start + self._layout.offsets[name] if slot is None else words[slot]

    def _walk(
        self, run: _CallState, parts: Sequence[_Part], rounds: Rounds, words: Sequence[int], watch: Watch
    ) -> None:
        for part in parts:
            if isinstance(part, _Launches):
                fault = part.sequence.run() if watch.times is None else _timed(part, watch.times)
                if part.records is not None:  # before a fault is told, since it led to it
                    from ...execution.debug_prints import read_records

                    read_records(self._launches[part.sources[-1][0]].source, part.records).deliver()
                if fault is not None:
                    raise self._error(part, fault, rounds, words)
            elif isinstance(part, _RepeatedParts):
                for number in range(part.times):
                    self._walk(run, part.body, (*rounds, (number + 1, part.times)), words, watch)
            else:
                self._read(run, part, words, watch)

    def _error(self, part: _Launches, fault: Fault, rounds: Rounds, words: Sequence[int]) -> ProgramError:
        """The error of a fault; its run is to be dropped, since nothing clears its fault records."""
        index, record = fault
        step, inner = part.sources[index]
        launch = self._launches[step]
        params = [words[self._words[p]] if isinstance(p, str) else p for p in step.params]
        error = launch.error(record, step.grid, self._counts(step, launch), params, step)
        return located(error, self._plan, step, (*rounds, *inner))

    def _read(self, run: _CallState, read: HostReadStep, words: Sequence[int], watch: Watch) -> None:
        name, number = read.buffer, self._reads.get(read.buffer)
        source, size = self._address(run, name, words), self._plan.size(name)
        if number is not None:
            threads.copy_bytes(words[number], source, size, self._workers)
        if watch.on_read is not None:
            array, target = watch.allocate(self._plan.buffers[name])
            threads.copy_bytes(target, source, size, self._workers)
            watch.on_read(read, array)

    def _counts(self, step: LaunchStep, launch: CompiledLaunch) -> list[int]:
        """The number of elements of each argument of the code."""
        bound = [self._plan.buffers[name].count or 0 for name in step.buffers]
        return [bound[item] if isinstance(item, int) else item.count or 0 for item in launch.code_arguments]

    def _new_run(self) -> _CallState:
        run = _CallState([], [], [])
        steps = {step: self._steps_of(step, launch, run) for step, launch in self._launches.items()}
        run.parts = _parts(self._plan.steps, steps, run.records, self._workers)
        return run

    def _steps_of(self, step: LaunchStep, launch: CompiledLaunch, run: _CallState) -> list[Step]:
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
                if item.name == launch.records:
                    run.records[step] = transient
            elif (number := self._slots.get(step.buffers[item])) is not None:
                run.arguments.append((runner.args, at, number))
            else:
                run.own_arguments.append((runner.args, at, step.buffers[item]))
        for at, value in enumerate(step.params, len(runner.args) - len(step.params)):
            if isinstance(value, str):
                run.arguments.append((runner.args, at, self._words[value]))
            else:
                runner.args[at] = value
        if runner.scratch_bytes:
            run.scratch.append(runner)
        return [*transients, runner]


def _timed(part: _Launches, times: Times) -> Fault | None:
    """Run launches one by one, and note how long each takes, with the clearing of its own memory."""
    for _, group in groupby(enumerate(part.sources), key=lambda numbered: id(numbered[1])):
        numbers = [number for number, _ in group]
        fault = None
        with times.of(part.sources[numbers[0]][0]):
            for number in numbers:
                fault = fault or part.sequence.run_step(number)
        if fault is not None:
            return fault
    return None


def _parts(
    steps: Sequence[AnyStep],
    launches: Mapping[LaunchStep, list[Step]],
    records: Mapping[LaunchStep, np.ndarray],
    workers: int,
) -> list[_Part]:
    """The parts that a plan's steps come to; `launches`: what each launch is in a sequence."""
    parts: list[_Part] = []
    sequence: list[Step] = []
    sources: list[tuple[LaunchStep, Rounds]] = []

    def end_sequence(printed: np.ndarray | None = None) -> None:
        if sequence:
            parts.append(_Launches(LaunchSequence([*sequence], workers), [*sources], printed))
            sequence.clear()
            sources.clear()

    for top in steps:
        if isinstance(top, RepeatStep) and _length(top) > MAX_UNROLLED:
            end_sequence()
            parts.append(_RepeatedParts(top.times, _parts(top.steps, launches, records, workers)))
            continue
        for step, rounds in _unrolled([top], ()):
            if isinstance(step, HostReadStep):
                end_sequence()
                parts.append(step)
                continue
            sequence += launches[step]
            sources += [(step, rounds)] * len(launches[step])
            if step in records:
                end_sequence(records[step])
    end_sequence()
    return parts


def _length(step: AnyStep) -> int:
    """The steps that it is once unrolled."""
    return 1 + step.times * sum(map(_length, step.steps)) if isinstance(step, RepeatStep) else 1


def _unrolled(steps: Iterable[AnyStep], rounds: Rounds) -> Iterator[tuple[LaunchStep | HostReadStep, Rounds]]:
    """The launches and reads in the order in which they run, each with its rounds."""
    for step in steps:
        if not isinstance(step, RepeatStep):
            yield step, rounds
            continue
        for number in range(step.times):
            yield from _unrolled(step.steps, (*rounds, (number + 1, step.times)))
