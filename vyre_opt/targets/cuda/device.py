"""A GPU: its facts, its primary context, and the memory that dispatches share."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from threading import RLock
from typing import Any

from ...execution.dispatcher import BackendError, UnavailableTarget
from ...lowering.nvptx.targets import GpuTarget, PtxVersion, TargetError, driver_version, gpu_of_device
from ...records import dataclass
from .driver import FORKED, explain, load, translated_errors
from .faults import FaultRecords
from .waiting import exit_now, is_at_work, wait_in_thread

__all__ = ["Device", "DeviceFacts", "device", "synchronize"]

LEAST_BYTES = 256


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The properties of a GPU.  Sizes are in bytes.

    `target`: what to compile for.  `cuda`: the newest CUDA release that the driver knows.
    `ptx`: the newest PTX version that it loads.  `shared_bytes`: the most workgroup memory of a
    workgroup; `shared_bytes_static`: without asking for more.
    """

    name: str
    capability: tuple[int, int]
    target: GpuTarget
    cuda: tuple[int, int]
    ptx: PtxVersion
    multiprocessors: int
    shared_bytes: int
    shared_bytes_static: int
    l2_bytes: int
    memory_bytes: int

    @property
    def key(self) -> str:
        """Equal for devices that the same tuned schedules suit."""
        return f"{self.name} {self.target.name} cuda{self.cuda[0]}.{self.cuda[1]}"


class Device:
    """One GPU.  `with device:` makes its context current, the one that torch and CuPy use too."""

    def __init__(self, number: int) -> None:
        self.cuda: Any = load()
        count = self.cuda.Device.count()
        if not 0 <= number < count:
            raise UnavailableTarget(f"there is no GPU {number}; this machine has 0 to {count - 1}")
        self.number = number
        self.process = os.getpid()
        with translated_errors(f"opening GPU {number}"):
            self.handle = self.cuda.Device(number)
            self.context = self.handle.retain_primary_context()
        self.facts = self._facts()
        self.faults = FaultRecords(self)
        self.undisturbed = RLock()
        """Held by who records launches or waits for the whole context: the driver breaks off what is recorded then.

        A finalizer may wait at any point, also amid a recording of its own thread, which then fails and is begun again.
        """
        with self:
            from pycuda import tools

            self.pool = tools.DeviceMemoryPool()
            self.pinned = tools.PageLockedMemoryPool()
            self.stream = self.cuda.Stream()
            self._hold_block()
        atexit.register(self._close)

    def __enter__(self) -> Device:
        if os.getpid() != self.process:
            raise BackendError(explain(FORKED, "opening the GPU's context"))
        self.context.push()
        return self

    def __exit__(self, *error: object) -> None:
        self.cuda.Context.pop()

    def wait(self) -> None:
        """Wait for all work on the GPU; the context must be current.  A signal ends the wait."""

        def synchronize() -> None:
            self.context.push()
            try:
                self.cuda.Context.synchronize()
            finally:
                self.cuda.Context.pop()

        with self.undisturbed:  # not in that other thread, which could wait for this one
            wait_in_thread(synchronize)

    def when_idle(self, free: Callable[[], None]) -> None:
        """Free something once the GPU is idle.  A broken context frees nothing."""
        try:
            with self:
                self.wait()
                free()
        except (self.cuda.Error, BackendError):
            pass

    def allocate(self, size: int) -> Any:
        """Device memory of the pool, freed with the last reference; the context must be current."""
        try:
            with translated_errors(f"asking for {size} bytes"):
                return self.pool.allocate(max(LEAST_BYTES, size))
        finally:
            if not self.pool.held_blocks:  # where memory is short, the pool gives all back
                self._hold_block()

    def _hold_block(self) -> None:
        """Have the pool hold a free block: then memory can be freed whether or not a context is current.

        It is smaller than any that is asked for, so it stays free.
        """
        self.pool.allocate(1).free()

    def _facts(self) -> DeviceFacts:
        attribute, value_of = self.cuda.device_attribute, self.handle.get_attribute
        major, minor = self.handle.compute_capability()
        release = self.cuda.get_driver_version()
        cuda = (release // 1000, release % 1000 // 10)
        try:
            target = gpu_of_device(major, minor)
        except TargetError as error:
            raise BackendError(f"{self.handle.name()}: {error}") from None
        return DeviceFacts(
            self.handle.name(),
            (major, minor),
            target,
            cuda,
            driver_version(cuda),
            value_of(attribute.MULTIPROCESSOR_COUNT),
            value_of(attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            value_of(attribute.MAX_SHARED_MEMORY_PER_BLOCK),
            value_of(attribute.L2_CACHE_SIZE),
            self.handle.total_memory(),
        )

    def _close(self) -> None:
        """Tell at exit of a fault that nobody was told of, and free the pools, while the driver is still loaded."""
        if os.getpid() != self.process:
            return
        try:
            with self:
                if is_at_work():
                    uncaught = getattr(sys, "last_type", None)
                    exit_now(0 if uncaught is None else 130 if uncaught is KeyboardInterrupt else 1)
                self.cuda.Context.synchronize()
                error = self.faults.take()
                if error is not None:
                    print(f"vyre-opt: a call on GPU {self.number} had a fault\n{error}", file=sys.stderr)
                self.pool.stop_holding()
                self.pinned.stop_holding()
        except (self.cuda.Error, BackendError):  # a broken context frees nothing
            pass


_devices: dict[int, Device] = {}


def device(number: int = 0) -> Device:
    """GPU `number` of this process.  Raises BackendError if there is none, or no driver."""
    if number not in _devices:
        _devices[number] = Device(number)
    return _devices[number]


def synchronize() -> None:
    """Wait for all work of this process on its GPUs, and raise the ProgramError of a fault of earlier calls."""
    for gpu in list(_devices.values()):
        with gpu:
            with translated_errors("waiting for the GPU"):
                gpu.wait()
            error = gpu.faults.take()
            if error is not None:
                raise error
