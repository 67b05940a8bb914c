"""Times launches on arrays that stay on the GPU, by events, through PyCUDA.

The launches of a round are a CUDA graph: one by one, short ones would take as long as the host needs to launch them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np

from ..execution.arrays import storage_type
from ..execution.dispatcher import OutputAlloc
from ..ir.program import Buffer
from ..targets.cuda.graph import LaunchGraph
from ..targets.cuda.timing import Timer
from .runner import launches_per_round
from .workload import Trial

__all__ = ["CudaArrays", "CudaRunner"]

MAX_SETS = 8
UNWRITTEN = 0xFF
"""Fills outputs before a run that is checked, so that an element that is not written is found."""


class CudaArrays:
    """The arrays of a workload on the GPU, in several sets with the same contents.

    Launches go through the sets in turn, so that none finds its inputs in the L2 cache: together they are
    twice as large, or there are MAX_SETS of them.  All configurations share the arrays.
    """

    def __init__(self, dispatcher: Any) -> None:
        self.device = dispatcher.device
        self.l2_bytes = int(dispatcher.facts.l2_bytes)
        self._arrays: dict[Any, tuple[np.ndarray, list[Any]]] = {}

    def sets(self, trial: Trial) -> list[list[Any]]:
        """A list of arrays for each set, in binding order."""
        buffers = trial.program.bound_buffers
        arrays = [self._host(b, a) for b, a in zip(buffers, trial.arguments, strict=True)]
        size = sum(array.nbytes for array in arrays)
        count = max(1, min(MAX_SETS, -(-2 * self.l2_bytes // max(1, size))))
        columns = [
            self._copies(index, array, isinstance(argument, OutputAlloc) or index in trial.cleared, count)
            for index, (array, argument) in enumerate(zip(arrays, trial.arguments, strict=True))
        ]
        return [list(row) for row in zip(*columns, strict=True)]

    def _host(self, buffer: Buffer, argument: Any) -> np.ndarray:
        if not isinstance(argument, OutputAlloc):
            return np.ascontiguousarray(argument)
        dtype = storage_type(buffer.dtype)
        lanes = buffer.dtype.lanes
        return np.zeros((argument.count, lanes) if lanes > 1 else argument.count, dtype)

    def _copies(self, argument: int, array: np.ndarray, is_written: bool, count: int) -> list[Any]:
        from pycuda import gpuarray

        # an input is identified by its host array, which stays here so that no other gets its id
        identity = (array.shape, array.dtype.str) if is_written else id(array)
        _, copies = self._arrays.setdefault((argument, is_written, identity), (array, []))
        with self.device:
            while len(copies) < count:
                copies.append(gpuarray.to_gpu(array))
        return copies[:count]


class CudaRunner:
    """A configuration bound to each set of arrays."""

    def __init__(self, dispatcher: Any, trial: Trial, arrays: CudaArrays) -> None:
        self.device = dispatcher.device
        self.trial = trial
        self.sets = arrays.sets(trial)
        self.bound = [
            dispatcher.bind(trial.program, arrays_of_set, trial.grid) for arrays_of_set in self.sets
        ]
        self.dispatcher = dispatcher
        self.launches = 1
        self.graphs: Iterator[LaunchGraph] = iter(())

    def outputs(self) -> list[np.ndarray]:
        trial, arrays = self.trial, self.sets[0]
        output_numbers = [k for k, b in enumerate(trial.program.bound_buffers) if b.is_output]
        with self.device:
            for argument in set(output_numbers) - set(trial.cleared):  # `_launch` clears those itself
                self._fill(arrays[argument], UNWRITTEN)
        self._launch(0)
        # a fault is reported late on a GPU: asked for here, it counts against this configuration
        self.dispatcher.synchronize()
        with self.device:
            return [np.asarray(arrays[k].get()) for k in output_numbers]

    def warm_up(self) -> None:
        with Timer(self.device) as timer:
            self._launch(0)
        self.launches = launches_per_round(timer.seconds())
        self.renew()

    def renew(self) -> None:
        # if they are fewer than the sets, the next round goes on with the next set
        rounds = -(-len(self.bound) // self.launches)
        self.graphs = cycle([self._recorded(number * self.launches) for number in range(rounds)])
        self.seconds()

    def seconds(self) -> float:
        graph = next(self.graphs)
        with Timer(self.device, graph.stream) as timer:
            graph.replay()
        return timer.seconds() / self.launches

    def _recorded(self, first: int) -> LaunchGraph:
        """The launches of a round, which begins with the set `first`."""
        graph = LaunchGraph(self.dispatcher)
        with graph.record() as stream:
            for number in range(first, first + self.launches):
                self._launch(number % len(self.bound), stream)
        return graph

    def _launch(self, number: int, stream: Any = None) -> None:
        if self.trial.cleared:
            with self.device:
                for argument in self.trial.cleared:
                    self._fill(self.sets[number][argument], 0, stream)
        self.bound[number].run(stream)

    def _fill(self, array: Any, octet: int, stream: Any = None) -> None:
        if array.nbytes:
            self.device.cuda.memset_d8_async(int(array.gpudata), octet, array.nbytes, stream)
