"""Calls of a pipeline on arrays in main memory that were settled by an earlier call with like arrays.

Each buffer is an input as it is, a result, or storage of the call; what remains is to allocate the results, to hand
their addresses to the runners of the launches, and to run these in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array_backend import HostArrays, Operand
from ..arrays import new_storage, transient_storage
from ..pipelines.host_runner import HostRunner, Rounds, located
from ..pipelines.steps import AnyStep, HostReadStep, LaunchStep, is_returned, steps_of
from . import output_memory, threads
from .fast_call import is_in_place, maker_of, pointer_of
from .launch import CompiledLaunch

if TYPE_CHECKING:
    from . import CpuDispatcher

__all__ = ["CpuPipelineCall", "CpuRunner"]

MAX_KEPT_BYTES = 1 << 20
"""More memory than this is not kept from call to call."""


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
class _LaunchRun:
    """What a launch uses: `places` say where among the runner's arguments which pointers of a call go; `transients`
    are its program's unbound buffers, which are zeroed before each run."""

    runner: threads.GridRunner
    places: list[tuple[int, int]]
    transients: list[np.ndarray]

    @property
    def kept_bytes(self) -> int:
        return self.runner.kept_bytes + sum(array.nbytes for array in self.transients)


@dataclass(slots=True)
class _Run:
    """What one call at a time uses: its storage, and its launches."""

    storage: list[np.ndarray]
    launches: dict[LaunchStep, _LaunchRun]

    @property
    def kept_bytes(self) -> int:
        launches = sum(launch.kept_bytes for launch in self.launches.values())
        return launches + sum(array.nbytes for array in self.storage)


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
        self._own: list[str] = []
        self._zeroed: list[int] = []  # places in `_own`
        self._copies: list[tuple[int, int, int]] = []  # pointers of target and source, bytes
        for name in plan.buffers:
            if name in inputs and name not in self._numbers and name not in plan.written:
                self._numbers[name] = names.index(name)
                continue
            if name not in self._numbers:
                self._numbers[name] = len(names) + len(results) + len(self._own)
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
        pointers += map(output_memory.address, run.storage)
        for target, source, size in self._copies:
            threads.copy_bytes(pointers[target], pointers[source], size, self._workers)
        for number in self._zeroed:
            threads.clear(run.storage[number], self._workers)
        for launch in run.launches.values():
            args = launch.runner.args
            for at, number in launch.places:
                args[at] = pointers[number]
        self._walk(run, self._plan.steps, ())
        if run.kept_bytes <= MAX_KEPT_BYTES:
            self._idle.append(run)
        return results

    def _walk(self, run: _Run, steps: Sequence[AnyStep], rounds: Rounds) -> None:
        for step in steps:
            if isinstance(step, LaunchStep):
                launch_run = run.launches[step]
                for transient in launch_run.transients:
                    transient.fill(0)
                record = launch_run.runner.run()
                if record is not None:  # the run is dropped, since nothing clears its fault records
                    launch = self._launches[step]
                    fault = launch.error(record, step.grid, self._counts(step, launch))
                    raise located(fault, self._plan, step, rounds)
            elif not isinstance(step, HostReadStep):
                for number in range(step.times):
                    self._walk(run, step.steps, (*rounds, (number + 1, step.times)))

    def _counts(self, step: LaunchStep, launch: CompiledLaunch) -> list[int]:
        """The number of elements of each argument of the code."""
        bound = [self._plan.buffers[name].count or 0 for name in step.buffers]
        return [bound[item] if isinstance(item, int) else item.count or 0 for item in launch.code_arguments]

    def _new_run(self) -> _Run:
        storage = [new_storage(self._plan.buffers[name], output_memory.empty) for name in self._own]
        launches: dict[LaunchStep, _LaunchRun] = {}
        for step, launch in self._launches.items():
            touched = max((self._plan.size(name) for name in step.buffers), default=0)
            runner = launch.new_runner(self._counts(step, launch), step.grid, touched)
            run = launches[step] = _LaunchRun(runner, [], [])
            for at, item in enumerate(launch.code_arguments):
                if isinstance(item, int):
                    run.places.append((at, self._numbers[step.buffers[item]]))
                else:
                    run.transients.append(transient_storage(item, None))
                    runner.args[at] = output_memory.address(run.transients[-1])
        return _Run(storage, launches)
