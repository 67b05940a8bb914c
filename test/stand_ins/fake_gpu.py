"""A GPU in main memory, for tests of the code between a caller and PyCUDA.

A fake driver allocates "GPU memory" in main memory, and launching a function of a module runs the interpreter on
the memory that its pointers address.  Nothing is written as PTX: the image of a module is a number.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import cached_property, partial
from threading import RLock
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vyre_opt
from vyre_opt.execution import BackendError, ProgramError
from vyre_opt.execution import dispatcher as protocol
from vyre_opt.execution.arrays import storage_type
from vyre_opt.execution.dispatcher import shared_dispatcher
from vyre_opt.execution.plans.host_plan import HostMemory
from vyre_opt.ir import Module
from vyre_opt.lowering.nvptx.abi import FILLED_BYTES, EntryPoint, Unit, storage_buffers
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.targets import gpu
from vyre_opt.targets.cuda import (
    CudaDispatcher,
    DeviceArray,
    DeviceFacts,
    driver,
    kernels,
    launcher,
    libcuda,
    print_records,
)
from vyre_opt.targets.cuda import walk as gpu_walk
from vyre_opt.targets.cuda.faults import FaultRecords
from vyre_opt.targets.cuda.steps import PyCudaLauncher


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


class FakeModule:
    """A module of PyCUDA."""

    def __init__(self, entries: Sequence[tuple[EntryPoint, Unit]], target: str) -> None:
        self.entries = {entry.symbol: (entry, unit) for entry, unit in entries}
        self.target = target

    def get_function(self, symbol: str) -> FakeFunction:
        if symbol not in self.entries:
            raise FakeDriver.Error("named symbol not found")
        return FakeFunction(*self.entries[symbol], self.target)


class FakeFunction:
    """A function of PyCUDA, whose launch `target` runs, ref or cpu.  A stream may record it instead."""

    def __init__(self, entry: EntryPoint, unit: Unit, target: str) -> None:
        self.entry, self.target = entry, target
        self.module = unit.module or Module()
        self.attributes: list[tuple[int, int]] = []

    def prepare(self, arg_types: Sequence[str]) -> None:
        self.arg_format = "".join(arg_types)

    def set_attribute(self, attribute: int, value: int) -> None:
        self.attributes.append((attribute, value))

    def prepared_async_call(
        self, grid: Any, block: Any, stream: Any, *args: int, shared_size: int = 0
    ) -> None:
        entry = self.entry
        assert (block, shared_size) == (entry.program.workgroup, entry.dynamic_shared)
        assert all(type(sizes) is tuple for sizes in (grid, block)), "PyCUDA takes tuples"
        words = struct.unpack(f"{len(entry.params)}Q", struct.pack(self.arg_format, *args))
        run = partial(self.run, grid, words)
        if stream is None or stream.recorded is None:
            run()
        else:
            stream.recorded.append(run)

    def run(self, grid: Any, words: Sequence[int]) -> None:
        """Run in place; a fault is written to its record, as a real kernel does."""
        entry, program = self.entry, self.entry.program
        passed = {(param.kind, param.name): word for param, word in zip(entry.params, words, strict=True)}
        assert all(passed["buffer", b.name] % 16 == 0 for b in storage_buffers(program))
        memory = {}
        for buffer in program.bound_buffers:
            stored = storage_type(buffer.dtype)
            count = passed.get(("length", buffer.name), buffer.count)
            size = count * buffer.dtype.lanes * stored.itemsize
            memory[buffer.name] = HostMemory(bytes_at(passed["buffer", buffer.name], size).view(stored))
        scalars = tuple(passed["scalar", name] for name in sorted(program.params))
        try:
            if self.target == "cpu":
                bound = [memory[parameter.buffer.name].array for parameter in self.compiled.parameters]
                self.compiled.in_place(bound, grid, vyre_opt.Scratch(), scalars)
            else:
                ref: Any = shared_dispatcher("ref", checks=False)
                ref.in_place(program, memory, grid, self.module, vyre_opt.Scratch(), scalars)()
        except ProgramError as fault:
            where = fault.diagnostic.loc
            sites = enumerate(entry.sites, 1)
            site = next(n for n, s in sites if s.op.loc is where and s.kind == fault.kind)
            record = passed["status", ""]
            copy, flag = bytes_at(record + FILLED_BYTES, 16).view(np.uint64)
            bytes_at(int(copy), 4).view(np.uint32)[0] = site
            bytes_at(int(flag), 4).view(np.uint32)[0] = 1

    @cached_property
    def compiled(self) -> Any:
        cpu: Any = shared_dispatcher("cpu")
        return cpu.prepared(self.entry.program, self.module, is_unchanged=True)


class FakeDriver:
    """The part of PyCUDA's driver module that is used.

    `copied` counts bytes copied to and from the host; `loads`: how many programs each module had.  `target`: what
    runs kernels.
    """

    Function = FakeFunction
    Error = type("Error", (Exception,), {})
    MemoryError = type("MemoryError", (Error,), {})

    class Stream:
        """`recorded`: the launches captured so far, or None while the stream is not being captured."""

        handle = 7
        recorded: list[Any] | None = None

        def __init__(self, flags: int = 0) -> None:
            pass

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
    jit_option = SimpleNamespace(OPTIMIZATION_LEVEL=7)
    function_attribute = IntEnum(
        "function_attribute",
        {"MAX_DYNAMIC_SHARED_SIZE_BYTES": 8, "PREFERRED_SHARED_MEMORY_CARVEOUT": 9, "_14": 14},
    )

    def __init__(self) -> None:
        self.copied = 0
        self.loads: list[int] = []
        self.target = "ref"
        self.images: list[list[tuple[EntryPoint, Unit]]] = []
        self.Context = SimpleNamespace(synchronize=lambda: None)

    def compile(self, units: Sequence[Unit], target: Any, version: Any, options: Any, *rest: Any) -> Any:
        """In place of what compiles: the kernels, and the number of their image."""
        lowered = lower(units, target, options.bounds)
        self.images.append(list(zip(lowered.kernels, units, strict=True)))
        return lowered.kernels, b"%d" % (len(self.images) - 1)

    def module_from_buffer(self, buffer: bytes, options: Sequence[tuple[int, int]] = ()) -> FakeModule:
        number = buffer.rstrip(b"\0").decode(errors="replace")
        if not number.isdecimal() or int(number) >= len(self.images):
            raise self.Error("a PTX JIT compilation failed")
        entries = self.images[int(number)]
        self.loads.append(len(entries))
        return FakeModule(entries, self.target)

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
    facts = DeviceFacts(
        "main memory", (8, 0), gpu("sm_80"), (13, 0), (9, 0), 132, 160 << 10, 48 << 10, 40 << 20, 1 << 34
    )

    def __init__(self, cuda: FakeDriver) -> None:
        self.cuda = cuda
        self.depth = 0
        self.undisturbed = RLock()
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

    def when_idle(self, free: Callable[[], None]) -> None:
        with self:
            free()

    def allocate(self, size: int) -> FakeAllocation:
        assert self.depth, "the context is not current"
        return FakeAllocation(size)


class Fake(CudaDispatcher):
    def __init__(self, gpu: FakeDevice, **options: Any) -> None:
        super().__init__(**options)
        self.gpu = gpu

    @property
    def device(self) -> Any:
        return self.gpu

    @property
    def loads(self) -> list[int]:
        """How many programs were loaded at once."""
        return self.gpu.cuda.loads

    @property
    def programs(self) -> list[Any]:
        """Those that are loaded, in order."""
        return [loaded.kernel.program for loaded in self.kernels._loaded.values()]


class Graph:
    """A fake LaunchGraph; `submitted`: how many launches each replay had, over all graphs."""

    submitted: list[int]
    refuses = ""

    def __init__(self, fake: Any) -> None:
        self.cuda = fake.device.cuda

    @contextmanager
    def record(self) -> Iterator[Any]:
        if self.refuses:
            raise BackendError(self.refuses)
        stream = self.cuda.Stream()
        stream.recorded = self.launches = []
        yield stream

    def replay(self, stream: Any) -> None:
        self.submitted.append(len(self.launches))
        for run in self.launches:
            run()

    def drop(self) -> None:
        self.launches = []


class Numba:
    """A foreign array with nothing but the interface; no output can be of its kind."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __bool__(self) -> bool:
        return bool(self.array)  # an error for more than one element

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

    @property
    def strides(self) -> tuple[int, ...]:
        return self.array.strides

    @property
    def flags(self) -> Any:
        return self.array.flags

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.array.ctypes.data)

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def copy(self) -> CupyArray:
        return CupyArray(aligned(self.array))

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


def launch_on_stream(
    function: FakeFunction, grid: Any, block: Any, shared: int, stream: int, args: Sequence[int], *rest: Any
) -> None:
    """On the stream of another library, or of a cooperative kernel: at once."""
    function.prepared_async_call(grid, block, None, *args, shared_size=shared)


def install(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """The dispatcher that GPU arrays choose by themselves from now on."""
    cuda = FakeDriver()
    monkeypatch.setattr(driver, "load", lambda: cuda)
    monkeypatch.setattr(kernels, "_compile", cuda.compile)
    monkeypatch.setattr(kernels.LoadedKernel, "_read_handle", lambda loaded: loaded.function)
    monkeypatch.setattr(libcuda, "launch", launch_on_stream)
    monkeypatch.setattr(libcuda, "copy", lambda *at: cuda.memcpy_dtod_async(*at))
    monkeypatch.setattr(libcuda, "clear", lambda to, size, stream: cuda.memset_d8_async(to, 0, size, stream))
    monkeypatch.setattr(kernels.LoadedKernel, "resident_workgroups", lambda loaded: 3)
    monkeypatch.setattr(launcher, "CompiledLauncher", PyCudaLauncher)
    monkeypatch.setattr(libcuda, "is_done", lambda stream: True)
    for module in (libcuda, print_records):
        monkeypatch.setattr(module, "is_capturing", lambda stream: False)
    fake = Fake(FakeDevice(cuda))
    monkeypatch.setitem(protocol._shared, ("cuda", ("device", 0)), fake)
    monkeypatch.setattr(gpu_walk, "LaunchGraph", Graph)
    monkeypatch.setattr(Graph, "submitted", [], raising=False)
    library = ModuleType("cupy")
    library.empty = lambda shape, dtype: CupyArray(aligned(np.full(shape, 0x55, dtype)))
    library.ascontiguousarray = lambda a: CupyArray(aligned(np.ascontiguousarray(a.array)))
    library.cuda = SimpleNamespace(get_current_stream=lambda *number: SimpleNamespace(ptr=0))
    monkeypatch.setitem(sys.modules, "cupy", library)
    return fake


def install_packs(monkeypatch: pytest.MonkeyPatch, fake: Fake) -> None:
    """Have packs for GPUs written with numbers of images in place of PTX, and run on the fake GPU."""
    from vyre_opt.packing import gpu_code
    from vyre_opt.packs import gpu as packed_gpu

    units: dict[str, Sequence[Unit]] = {}

    def remember(own: Sequence[Unit], *options: Any) -> Any:
        lowered = lower(own, *options)
        units[lowered.text] = own
        return lowered

    def emit(lowered: Any, target: Any) -> str:
        images = fake.gpu.cuda.images
        images.append(list(zip(lowered.kernels, units[lowered.text], strict=True)))
        return str(len(images) - 1)

    monkeypatch.setattr(gpu_code, "lower", remember)
    monkeypatch.setattr(gpu_code, "emit_ptx", emit)
    monkeypatch.setattr(packed_gpu, "open_device", lambda number: fake.gpu)
