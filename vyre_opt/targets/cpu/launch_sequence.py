"""Launches one after another, the short ones in one call of machine code.

A call of machine code from Python takes a microsecond, and to measure it, to look for faults and to decide on
threads takes some more: longer than a launch on a few thousand elements.  So neighbours that are worth no thread
but the caller's, by what their runners measured, are a batch: a list of jobs that `vyre_run` walks.

    steps    a   b   z   c   d   e            z: an array to be zeroed
    short    +   +   +   -   +   +
    parts   [a   b   z]  c  [d   e]
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import groupby
from time import perf_counter

import numpy as np

from . import threads
from .thread_pool import Job, run_function
from .thread_pool_ir import GROUP_BYTES

__all__ = ["Fault", "LaunchSequence", "Step"]

MAX_BATCH = int(threads.SIGNAL_SECONDS / threads.ALONE_SECONDS_AWAKE) // 2
"""The steps of a batch: half of those that take as long as Python may handle no signals."""

MAX_CLEARED_BYTES = GROUP_BYTES
CLEAR_SECONDS = 1e-5
"""An array in a batch has MAX_CLEARED_BYTES at most, which are zeroed in CLEAR_SECONDS or less."""

Step = threads.GridRunner | np.ndarray
"""A launch, or an array that is zeroed."""

Fault = tuple[int, list[int]]
"""The index of the first step that is at fault, and its fault record."""


class LaunchSequence:
    """Runs steps in order, by one caller at a time.  A step may be there several times.

    `workers`: the most threads that zero an array.
    """

    def __init__(self, steps: Sequence[Step], workers: int) -> None:
        self.steps, self.workers = steps, workers
        self._parts: list[_Batch | int] = list(range(len(steps)))
        """Batches, and the indices of steps that are run by themselves, which measures them."""

    def run(self) -> Fault | None:
        """Run all steps; after one at fault none."""
        has_news = False
        for part in self._parts:
            if isinstance(part, _Batch):
                fault = part.run()
                has_news = has_news or part.is_late
            else:
                fault = self.run_step(part)
                has_news = has_news or _is_short(self.steps[part])
            if fault is not None:
                return fault
        if has_news:
            self._parts = self._grouped()
        return None

    def run_step(self, index: int) -> Fault | None:
        """Run a step by itself."""
        step = self.steps[index]
        if not isinstance(step, threads.GridRunner):
            threads.clear(step, self.workers)
            return None
        record = step.run()
        return None if record is None else (index, record)

    def _grouped(self) -> list[_Batch | int]:
        """Parts with neighbours that are short in batches, but for those of a late batch, to be measured again."""
        late = {
            index
            for part in self._parts
            if isinstance(part, _Batch) and part.is_late
            for index in part.indices
        }
        steps, parts = self.steps, list[_Batch | int]()
        indices = range(len(steps))
        for is_short, group in groupby(indices, lambda index: index not in late and _is_short(steps[index])):
            members = list(group)
            if is_short:
                parts += [
                    _Batch(members[k : k + MAX_BATCH], steps) for k in range(0, len(members), MAX_BATCH)
                ]
            else:
                parts += members
        return parts


class _Batch:
    """Neighbours among the steps, all short.

    `is_late`: whether the last run took so much longer than expected that they may be short no more.
    """

    __slots__ = ("_address", "_addresses", "_count", "_jobs", "_limit", "_run", "indices", "is_late")

    def __init__(self, indices: Sequence[int], steps: Sequence[Step]) -> None:
        self.indices = indices
        members = [steps[index] for index in indices]
        jobs = {id(step): _job(step) for step in members}
        self._jobs = [jobs[id(step)] for step in members]
        self._addresses = array("Q", [job.address for job in self._jobs])
        self._address, self._count = self._addresses.buffer_info()
        self._run = run_function()
        # a single run may be held up, by another process or because its data is in no cache
        self._limit = threads.ALONE_SECONDS_AWAKE + 2 * sum(map(_expected, members))
        self.is_late = False

    def run(self) -> Fault | None:
        begun = perf_counter()
        done = self._run(self._address, self._count)
        self.is_late = threads.end_call() - begun > self._limit
        if done == self._count:
            return None
        record = self._jobs[done].fault()
        assert record is not None
        return self.indices[done], record


def _job(step: Step) -> Job:
    return step.job_alone if isinstance(step, threads.GridRunner) else threads.clear_job(step)


def _is_short(step: Step) -> bool:
    return step.is_short if isinstance(step, threads.GridRunner) else step.nbytes <= MAX_CLEARED_BYTES


def _expected(step: Step) -> float:
    """Seconds."""
    return (step.expected or 0.0) if isinstance(step, threads.GridRunner) else CLEAR_SECONDS
