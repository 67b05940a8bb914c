"""Measuring in place on a GPU, with stand-ins for the GPU: what is cleared, which arrays take turns."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.search_workload import SearchWorkload

from vyre_opt import dispatcher, kernel_workload
from vyre_opt.ir import DataType as D
from vyre_opt.tuning.measure import DispatchBench


class Array(np.ndarray):
    """Memory as PyCUDA's arrays show it."""

    @property
    def gpudata(self) -> int:
        return self.ctypes.data

    def get(self) -> np.ndarray:
        return np.array(self)


class HostEvent:
    def record(self, stream: Any = None) -> None:
        self.at = time.perf_counter()

    def query(self) -> bool:
        return True

    def time_till(self, other: HostEvent) -> float:
        return (other.at - self.at) * 1e3


class HostGraph:
    """A graph whose stream is a list of what was recorded."""

    def __init__(self, gpu: HostGpu) -> None:
        self.stream: list[Callable[[], object]] = []

    @contextmanager
    def record(self) -> Iterator[list[Callable[[], object]]]:
        yield self.stream

    def replay(self) -> None:
        for step in self.stream:
            step()


def enqueue(stream: list[Callable[[], object]] | None, step: Callable[[], object]) -> None:
    if stream is None:
        step()
    else:
        stream.append(step)


def memset(pointer: int, octet: int, size: int, stream: Any = None) -> None:
    enqueue(stream, lambda: ctypes.memset(pointer, octet, size))


class HostGpu:
    """A dispatcher called cuda whose launches run on the CPU, in place; it notes the arrays of each."""

    name = "cuda"

    def __init__(self) -> None:
        self.facts = SimpleNamespace(l2_bytes=20_000)
        self.device = self
        self.cuda = SimpleNamespace(Event=HostEvent, memset_d8_async=memset)
        self.launches: list[list[Array]] = []

    def __enter__(self) -> HostGpu:
        return self

    def __exit__(self, *failure: object) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def bind(self, program: Any, arrays: list[Array], grid: int) -> Any:
        def launch() -> None:
            self.launches.append(arrays)
            inputs = [np.array(a) for a in arrays]
            outputs = iter(dispatcher("cpu").dispatch(program, inputs, grid))
            for buffer, array in zip(program.bound_buffers, arrays, strict=True):
                if buffer.is_output:
                    array[...] = next(outputs)
                elif buffer.live_in:
                    assert not array.any(), f"@{buffer.name} was not cleared"
                    array[...] = 7  # what a launch leaves

        return SimpleNamespace(run=lambda stream=None: enqueue(stream, launch))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> HostGpu:
    package, arrays = ModuleType("pycuda"), ModuleType("pycuda.gpuarray")
    arrays.to_gpu = lambda array: np.array(array).view(Array)  # type: ignore[attr-defined]
    package.gpuarray = arrays  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.gpuarray", arrays)
    monkeypatch.setattr("vyre_opt.tuning.measure_cuda.LaunchGraph", HostGraph)
    return HostGpu()


@pytest.mark.campaign
def test_state_is_cleared_before_every_launch(gpu: HostGpu) -> None:
    """The look-back's state, which each launch leaves dirty, and the counter of a search."""
    for workload in (kernel_workload("scan.prefix", [9000] * 2, [D.U32] * 2), SearchWorkload(40_000)):
        space = workload.space("cuda")
        place = space.find(workload.default("cuda"))
        bench = DispatchBench(workload, space, gpu)
        (samples,) = bench.samples([place], 3)
        assert bench.failures == {}
        assert len(samples) == 3


def test_sets_of_arrays_take_turns(gpu: HostGpu) -> None:
    """Together twice the L2 cache of 20,000 bytes; configurations share them; inputs are the same in each."""
    workload = kernel_workload("math.softmax", [1024] * 2, [D.F32] * 2, {"columns": 64})
    space = workload.space("cuda")
    bench = DispatchBench(workload, space, gpu)
    bench.samples([0, 1], 10)
    assert bench.failures == {}
    pairs = {(arrays[0].ctypes.data, arrays[1].ctypes.data) for arrays in gpu.launches}
    assert len(pairs) == 5  # of 8,192 bytes each
    assert all(np.array_equal(arrays[0], workload.inputs[0]) for arrays in gpu.launches)


def test_what_is_not_written_shows(gpu: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that writes nothing does not pass by what an earlier one left in its output."""
    workload = kernel_workload("math.softmax_step", [500] * 2, [D.U32] * 2)
    bench = DispatchBench(workload, workload.space("cuda"), gpu)
    bench.samples([0], 1)
    assert bench.failures == {}
    monkeypatch.setattr(
        gpu, "bind", lambda program, arrays, grid: SimpleNamespace(run=lambda stream=None: None)
    )
    assert bench.samples([1], 1) == [[]]
    assert "wrong result" in bench.failures[1]
