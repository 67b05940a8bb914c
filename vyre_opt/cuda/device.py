"""A GPU: its facts, its primary context, and the memory that dispatches share."""

from __future__ import annotations

import atexit
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..lowering.nvptx.abi import RECORD_BYTES
from ..lowering.nvptx.targets import GpuTarget, PtxVersion, TargetError, driver_version, gpu_of_device
from ..runtime.dispatcher import BackendError
from .driver import load, translated_errors

__all__ = ["Device", "DeviceFacts", "FaultRecord", "device"]

LEAST_BYTES = 256
RECORD_STRIDE = 64
RECORDS_A_PAGE = 64
assert RECORD_BYTES <= RECORD_STRIDE


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


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """A fault record, in memory that is mapped into both host and device."""

    host: np.ndarray
    pointer: int


class Device:
    """One GPU.  `with device:` makes its context current, the one that torch and CuPy use too."""

    def __init__(self, number: int) -> None:
        self.cuda: Any = load()
        count = self.cuda.Device.count()
        if not 0 <= number < count:
            raise BackendError(f"there is no GPU {number}; this machine has 0 to {count - 1}")
        self.number = number
        with translated_errors(f"opening GPU {number}"):
            self.handle = self.cuda.Device(number)
            self.context = self.handle.retain_primary_context()
        self.facts = self._facts()
        self._free_records: list[FaultRecord] = []
        with self:
            from pycuda import tools

            self.pool = tools.DeviceMemoryPool()
            self.pinned = tools.PageLockedMemoryPool()
            self.stream = self.cuda.Stream()
            # As long as the pool holds a free block, memory can be freed at any time, whether or not a
            # context is current.  This block is smaller than any that is asked for, so it stays free.
            self.pool.allocate(1).free()
        atexit.register(self._close)

    def __enter__(self) -> Device:
        self.context.push()
        return self

    def __exit__(self, *error: object) -> None:
        self.cuda.Context.pop()

    def allocate(self, size: int) -> Any:
        """Device memory of the pool, freed with the last reference; the context must be current."""
        with translated_errors(f"asking for {size} bytes"):
            return self.pool.allocate(max(LEAST_BYTES, size))

    def record(self) -> FaultRecord:
        """A zeroed fault record; the context must be current."""
        if not self._free_records:
            flags = self.cuda.host_alloc_flags.DEVICEMAP | self.cuda.host_alloc_flags.PORTABLE
            with translated_errors("asking for a page of pinned memory"):
                page = self.cuda.pagelocked_zeros(RECORDS_A_PAGE * RECORD_STRIDE, np.uint8, mem_flags=flags)
                base = int(page.base.get_device_pointer())
            for start in range(0, len(page), RECORD_STRIDE):
                self._free_records.append(FaultRecord(page[start : start + RECORD_STRIDE], base + start))
        return self._free_records.pop()

    def free_record(self, record: FaultRecord) -> None:
        """Free a record that no launch uses any more."""
        record.host[:] = 0
        self._free_records.append(record)

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
        """Free the pools at exit, while the driver is still loaded."""
        try:
            with self:
                self.pool.stop_holding()
                self.pinned.stop_holding()
        except self.cuda.Error:  # a broken context frees nothing
            pass


@cache
def device(number: int = 0) -> Device:
    """GPU `number` of this process.  Raises BackendError if there is none, or no driver."""
    return Device(number)
