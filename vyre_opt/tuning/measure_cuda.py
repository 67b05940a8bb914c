"""Times launches in place on a GPU, by events, through PyCUDA alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cuda.timing import Timer
from ..runtime.arrays import storage_type
from ..runtime.dispatcher import OutputAlloc
from .pacing import launches_of_round
from .workload import Trial

__all__ = ["CudaArrays", "CudaRunner"]

MAX_SETS = 8


class CudaArrays:
    """The arrays of a workload on the GPU, in several sets, which its configurations share.

    A set after the first has copies, so that what one launch leaves in the L2 cache is of no use to the
    next: together they are twice as large, up to MAX_SETS of them.
    """

    def __init__(self, dispatcher: Any) -> None:
        self.device = dispatcher.device
        self.l2_bytes = int(dispatcher.facts.l2_bytes)
        self._kept: dict[Any, list[Any]] = {}

    def sets(self, trial: Trial) -> list[list[Any]]:
        """A list of arrays for each set, in binding order."""
        buffers = trial.program.bound_buffers
        arrays = [self._host(b, a) for b, a in zip(buffers, trial.arguments, strict=True)]
        size = sum(array.nbytes for array in arrays)
        count = max(1, min(MAX_SETS, -(-2 * self.l2_bytes // max(1, size))))
        columns = [
            self._copies(place, array, isinstance(given, OutputAlloc) or place in trial.cleared, count)
            for place, (array, given) in enumerate(zip(arrays, trial.arguments, strict=True))
        ]
        return [list(row) for row in zip(*columns, strict=True)]

    def _host(self, buffer: Any, given: Any) -> np.ndarray:
        if not isinstance(given, OutputAlloc):
            return np.ascontiguousarray(given)
        stored = storage_type(buffer.dtype)
        lanes = buffer.dtype.lanes
        return np.zeros((given.count, lanes) if lanes > 1 else given.count, stored)

    def _copies(self, place: int, array: np.ndarray, is_written: bool, count: int) -> list[Any]:
        from pycuda import gpuarray

        # an input is known by the host's array, which the workload keeps
        identity = (array.shape, array.dtype.str) if is_written else id(array)
        kept = self._kept.setdefault((place, is_written, identity), [])
        with self.device:
            while len(kept) < count:
                kept.append(gpuarray.to_gpu(array))
        return kept[:count]


class CudaRunner:
    """A configuration bound to each set of arrays."""

    def __init__(self, dispatcher: Any, trial: Trial, arrays: CudaArrays) -> None:
        self.device = dispatcher.device
        self.trial = trial
        self.sets = arrays.sets(trial)
        self.bound = [dispatcher.bind(trial.program, chosen, trial.grid) for chosen in self.sets]
        self.dispatcher = dispatcher
        self.launches = 1
        self.turn = 0

    def outputs(self) -> list[np.ndarray]:
        trial, chosen = self.trial, self.sets[0]
        written = [k for k, b in enumerate(trial.program.bound_buffers) if b.is_output]
        with self.device:
            for place in set(written) - set(trial.cleared):
                self._fill(chosen[place], 0xFF)  # so that what is not written shows
        self._launch(0)
        self.dispatcher.check_faults(trial.program)
        with self.device:
            return [np.asarray(chosen[k].get()) for k in written]

    def settle(self) -> None:
        taken = self.seconds()
        self.launches = launches_of_round(taken)
        self.seconds()

    def seconds(self) -> float:
        with Timer(self.device) as timer:
            for _ in range(self.launches):
                self._launch(self.turn)
                self.turn = (self.turn + 1) % len(self.bound)
        return timer.seconds() / self.launches

    def _launch(self, number: int) -> None:
        if self.trial.cleared:
            with self.device:
                for place in self.trial.cleared:
                    self._fill(self.sets[number][place], 0)
        self.bound[number].run()

    def _fill(self, array: Any, octet: int) -> None:
        if array.nbytes:
            self.device.cuda.memset_d8_async(int(array.gpudata), octet, array.nbytes)
