"""A GPU in main memory, for tests of the code between a caller and the CUDA driver.

A fake driver allocates "GPU memory" in main memory, and launching a kernel runs the interpreter on the
memory that its pointers address.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vyre_opt
from vyre_opt.cuda import CudaDispatcher, DeviceArray, driver, libcuda
from vyre_opt.cuda import pipeline as gpu_pipeline
from vyre_opt.cuda.faults import FaultRecord, FaultRecords
from vyre_opt.lowering.nvptx.abi import FILLED_BYTES, FaultSite, storage_buffers
from vyre_opt.lowering.nvptx.targets import gpu
from vyre_opt.runtime import dispatcher as protocol
from vyre_opt.runtime.arrays import storage_type
from vyre_opt.runtime.dispatcher import BackendError, ProgramError, shared_dispatcher
from vyre_opt.runtime.params import values_of_words
from vyre_opt.runtime.pipelines.host_runner import HostMemory


class FakeAllocation:
    """An allocation, aligned to 256 bytes and filled with 0xEE, so that reads of unwritten bytes show."""

    def __init__(self, size: int) -> None:
        self.bytes = np.full(size + 256, 0xEE, np.uint8)
        self.address = self.bytes.ctypes.data + -self.bytes.ctypes.data % 256

    def __int__(self) -> int:
        return self.address


def bytes_at(pointer: int, size: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint8 * size).from_address(pointer), np.uint8)


class PinnedPage:
    """Memory of the host that the GPU sees at the same address."""

    def __init__(self, size: int) -> None:
        self.bytes = np.zeros(size, np.uint8)
        self.__array_interface__ = self.bytes.__array_interface__

    def get_device_pointer(self) -> int:
        return self.bytes.ctypes.data


class FakeDriver:
    """The part of PyCUDA's driver module that is used; `copied` counts bytes copied to and from the host."""

    MemoryError = type("MemoryError", (Exception,), {})
    Error = type("Error", (Exception,), {})

    class Stream:
        """`recorded`: the launches captured so far, or None while the stream is not being captured."""

        handle = 7
        recorded: list[Any] | None = None

        def is_done(self) -> bool:
            return True

    class Event:
        def __init__(self, flags: int = 0) -> None:
            pass

        def record(self, stream: Any) -> None:
            pass

        def query(self) -> bool:
            return True

        def time_till(self, other: Any) -> float:
            return 1.0

    host_alloc_flags = SimpleNamespace(DEVICEMAP=1, PORTABLE=2)
    event_flags = SimpleNamespace(DISABLE_TIMING=2)

    def __init__(self) -> None:
        self.copied = 0
        self.Context = SimpleNamespace(synchronize=lambda: None)

    def memcpy_dtoh_async(self, target: np.ndarray, source: int, stream: Any) -> None:
        self.memcpy_dtoh(target, source)

    def memcpy_htod_async(self, target: int, source: np.ndarray, stream: Any) -> None:
        self.memcpy_htod(target, source)

    def memcpy_dtod_async(self, target: int, source: int, size: int, stream: Any) -> None:
        bytes_at(target, size)[:] = bytes_at(source, size)

    def memset_d8_async(self, target: int, value: int, size: int, stream: Any) -> None:
        bytes_at(target, size)[:] = value

    def memset_d8(self, target: int, value: int, size: int) -> None:
        bytes_at(target, size)[:] = value

    def pagelocked_zeros(self, size: int, dtype: Any, mem_flags: int) -> np.ndarray:
        return np.asarray(PinnedPage(size))

    def memcpy_htod(self, target: int, source: np.ndarray) -> None:
        self.copied += source.nbytes
        bytes_at(target, source.nbytes)[:] = source.reshape(-1).view(np.uint8)

    def memcpy_dtoh(self, target: np.ndarray, source: int) -> None:
        self.copied += target.nbytes
        target.reshape(-1).view(np.uint8)[:] = bytes_at(source, target.nbytes)


class FakeDevice:
    """A device; it allocates only while its context is current."""

    number = 0
    facts = SimpleNamespace(multiprocessors=132)

    def __init__(self, cuda: FakeDriver) -> None:
        self.cuda = cuda
        self.depth = 0
        self.stream = cuda.Stream()
        self.pinned = SimpleNamespace(allocate=np.empty)
        self.faults: Any = FaultRecords(self)  # type: ignore[arg-type]
        with self:
            self.faults.free(self.faults.new(None))  # sets up the first page of records
        cuda.copied = 0

    def __enter__(self) -> FakeDevice:
        self.depth += 1
        return self

    def __exit__(self, *failure: object) -> None:
        self.depth -= 1

    def wait(self) -> None:
        pass

    def allocate(self, size: int) -> FakeAllocation:
        assert self.depth, "the context is not current"
        return FakeAllocation(size)


class Kernel:
    """A loaded kernel whose launch the interpreter runs."""

    may_fault, status, records = True, None, None

    def __init__(self, unit: Any, target: str) -> None:
        self.unit, self.target = unit, target
        ops = [op for op in unit.program.walk() if "buffer" in op.attrs or op.name in ("trap", "assert")]
        sites = [FaultSite(op, "bounds" if "buffer" in op.attrs else op.name) for op in ops]
        self.kernel = SimpleNamespace(program=unit.program, sites=sites)
        self.most_workgroups = 1 << 20

    def resident_workgroups(self) -> int:
        return 3

    def check_grid(self, grid: Any) -> None:
        if grid[0] > self.most_workgroups:
            raise BackendError(f"{grid[0]} workgroups; this GPU holds {self.most_workgroups}")

    def arguments(
        self,
        pointers: dict[str, int],
        counts: dict[str, int],
        params: dict[str, int],
        status: FaultRecord | None,
    ) -> Any:
        return pointers, counts, params, status

    def enqueue(self, queue: Any, grid: Any, arguments: Any) -> None:
        recorded = getattr(queue.stream, "recorded", None)
        if recorded is None:
            self.in_place(grid, *arguments)
        else:
            recorded.append((self, grid, arguments))

    def in_place(
        self, grid: Any, pointers: Any, counts: Any, params: dict[str, int], status: FaultRecord | None
    ) -> None:
        """Run a launch in place; a fault is written to the record `status`, as a real kernel does."""
        program = self.unit.program
        memory = {}
        for buffer in program.bound_buffers:
            stored = storage_type(buffer.dtype)
            size = counts[buffer.name] * buffer.dtype.lanes * stored.itemsize
            memory[buffer.name] = HostMemory(bytes_at(pointers[buffer.name], size).view(stored))
        try:
            ref: Any = shared_dispatcher("ref", checks=False)
            words = tuple(params.values())
            ref.in_place(program, memory, grid, self.unit.module, vyre_opt.Scratch(), words)()
        except ProgramError as fault:
            where = fault.diagnostic.loc
            sites = enumerate(self.kernel.sites, 1)
            site = next(n for n, s in sites if s.op.loc is where and s.kind == fault.kind)
            assert status is not None
            status.host[:4] = np.array([site], np.uint32).view(np.uint8)
            flag = bytes_at(status.pointer + FILLED_BYTES + 8, 8).view(np.uint64)
            bytes_at(int(flag[0]), 4)[:] = (1, 0, 0, 0)

    def launch(
        self, queue: Any, grid: Any, pointers: dict[str, int], counts: dict[str, int], params: dict[str, int]
    ) -> None:
        program = self.unit.program
        assert all(pointers[b.name] % 16 == 0 for b in storage_buffers(program))
        arrays = []
        for buffer in program.bound_buffers:
            stored = storage_type(buffer.dtype)
            size = counts[buffer.name] * buffer.dtype.lanes * stored.itemsize
            arrays.append(bytes_at(pointers[buffer.name], size).view(stored))
        values = values_of_words(program, tuple(params[name] for name in sorted(program.params)))
        target = shared_dispatcher(self.target)  # which keeps what it compiled
        outputs = iter(target.dispatch(program, arrays, grid, module=self.unit.module, params=values))
        for buffer, array in zip(program.bound_buffers, arrays, strict=True):
            if buffer.is_output:
                array[:] = next(outputs).reshape(-1)


class Fake(CudaDispatcher):
    """`target`: what runs kernels."""

    def __init__(self, gpu: FakeDevice, target: str = "ref", **options: Any) -> None:
        super().__init__(**options)
        self.gpu, self.target = gpu, target
        self.programs: list[Any] = []
        self.loads: list[int] = []
        """How many programs were loaded at once."""

    @property
    def device(self) -> Any:
        return self.gpu

    @property
    def facts(self) -> Any:
        return SimpleNamespace(target=gpu("sm_80"))

    @property
    def kernels(self) -> Any:
        def get(unit: Any) -> Kernel:
            self.programs.append(unit.program)
            return Kernel(unit, self.target)

        def load(units: Any) -> list[Kernel]:
            self.loads.append(len(units))
            return [get(unit) for unit in units]

        return SimpleNamespace(get=get, get_all=load, load=load)


class Graph:
    """A fake LaunchGraph; `submitted`: how many launches each replay had, over all graphs."""

    submitted: list[int]
    refuses = ""

    def __init__(self, fake: Fake) -> None:
        self.cuda = fake.gpu.cuda

    @contextmanager
    def record(self) -> Iterator[Any]:
        if self.refuses:
            raise BackendError(self.refuses)
        stream = self.cuda.Stream()
        stream.recorded = self.launches = []
        yield stream

    def replay(self, stream: Any) -> None:
        self.submitted.append(len(self.launches))
        for kernel, grid, arguments in self.launches:
            kernel.in_place(grid, *arguments)

    def drop(self) -> None:
        self.launches = []


class Numba:
    """A foreign array with nothing but the interface; no output can be of its kind."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        at = self.array.__array_interface__
        return {**at, "strides": self.array.strides, "version": 3}


class CupyArray(Numba):
    """A foreign array whose library can allocate outputs of its kind."""

    __module__ = "cupy"

    def __setitem__(self, place: Any, value: Any) -> None:
        self.array[place] = numpy(value)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def device(self) -> Any:
        return SimpleNamespace(id=0)

    def reshape(self, shape: tuple[int, ...]) -> CupyArray:
        return CupyArray(self.array.reshape(shape))


def aligned(array: np.ndarray) -> np.ndarray:
    memory = FakeAllocation(array.nbytes)
    start = memory.address - memory.bytes.ctypes.data
    copy = memory.bytes[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def cupy(array: Any, dtype: Any = None) -> CupyArray:
    return CupyArray(aligned(np.asarray(array, dtype)))


def numpy(array: Any) -> np.ndarray:
    return array.to_host() if isinstance(array, DeviceArray) else array.array


def install(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """The dispatcher that GPU arrays choose by themselves from now on."""
    cuda = FakeDriver()
    monkeypatch.setattr(driver, "load", lambda: cuda)
    monkeypatch.setattr(libcuda, "is_done", lambda stream: True)
    fake = Fake(FakeDevice(cuda))
    monkeypatch.setitem(protocol._shared, ("cuda", ("device", 0)), fake)
    monkeypatch.setattr(gpu_pipeline, "LaunchGraph", Graph)
    monkeypatch.setattr(Graph, "submitted", [], raising=False)
    module = ModuleType("cupy")
    module.empty = lambda shape, dtype: CupyArray(aligned(np.full(shape, 0x55, dtype)))
    module.ascontiguousarray = lambda a: CupyArray(aligned(np.ascontiguousarray(a.array)))
    module.cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=0))
    monkeypatch.setitem(sys.modules, "cupy", module)
    return fake
