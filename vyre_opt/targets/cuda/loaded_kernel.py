"""Kernels that are loaded on a GPU: launched on pointers, whoever has compiled them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ...execution.dispatcher import BackendError
from ...execution.inputs import broken_cluster
from ...ir.program import MAX_GRID, Dim3
from ...lowering.nvptx.abi import EntryPoint
from ...observers import span
from . import libcuda
from .device import Device
from .driver import translated, translated_errors
from .faults import FaultRecord, program_error
from .queues import PyCudaQueue, Queue

if TYPE_CHECKING:
    from .print_records import PrintBuffer

__all__ = ["LoadedKernel", "load_module"]

PORTABLE_CLUSTER = 8
"""Workgroups of a cluster that all GPUs with clusters take."""

NON_PORTABLE_CLUSTER = 14
"""CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, which PyCUDA has no name for."""

GENERATE_LINE_INFO = 13
"""CU_JIT_GENERATE_LINE_INFO, which PyCUDA has no name for."""

ATTEMPTS = 20
"""Most attempts to read the handle of a function."""

NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING: what is recorded from the stream has nothing to do with the default one."""


def load_module(device: Device, code: bytes, level: int | None, names: str, debug_info: bool = False) -> Any:
    """PyCUDA's module, which stays to the end of the process; the context must be current.

    `code`: PTX that ends in a zero byte.  `level`: of the driver's optimisation, 0 to 4; None for its default.
    `names`: of the programs, for messages.  `debug_info`: with the line tables of the PTX.  Raises BackendError.
    """
    options = [] if level is None else [(device.cuda.jit_option.OPTIMIZATION_LEVEL, level)]
    if debug_info:
        options.append((device.cuda.jit_option(GENERATE_LINE_INFO), 1))
    with translated_errors(f"loading {names}"), span("load", names):
        module = device.cuda.module_from_buffer(code, options)
    # Never dropped: PyCUDA would unload it, which waits for the GPU, breaks a graph that is being recorded, and
    # at the exit after a kernel broke the context is a warning for each module.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(module))
    return module


class LoadedKernel:
    """A kernel on a device.  `module`: PyCUDA's module with it; the context must be current.

    `function`: PyCUDA's, prepared; `handle`: of the same function, for the driver's own library.
    `records`: memory for what its program prints.
    """

    def __init__(
        self, device: Device, kernel: EntryPoint, module: Any, records: PrintBuffer | None = None
    ) -> None:
        self.device = device
        self.kernel = kernel
        with translated_errors(f"setting up {kernel.symbol}"):
            self.function = module.get_function(kernel.symbol)
            self.function.prepare("Q" * len(kernel.params))  # a word of 64 bits each
            for attribute, value in self._attributes():
                self.function.set_attribute(attribute, value)
            self.handle = self._read_handle()
        kinds = [param.kind for param in kernel.params]
        self.status: FaultRecord | None = None
        if "status" in kinds:
            self.status = device.faults.new(lambda fault: program_error(kernel, fault))
        self.arrivals: Any = device.allocate(16) if "arrivals" in kinds else None
        self.records = records

    def _attributes(self) -> Iterator[tuple[Any, int]]:
        """Attributes of the function for the driver."""
        kernel, attributes = self.kernel, self.device.cuda.function_attribute
        if kernel.dynamic_shared:
            yield attributes.MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel.dynamic_shared
        if kernel.program.prefer_shared is not None:
            yield attributes.PREFERRED_SHARED_MEMORY_CARVEOUT, kernel.program.prefer_shared
        grid = kernel.program.grid
        workgroups = kernel.program.cluster or (prod(grid) if grid is not None else 1)
        if PORTABLE_CLUSTER < workgroups <= self.device.facts.target.cluster:
            yield attributes(NON_PORTABLE_CLUSTER), 1

    def _read_handle(self) -> int:
        """PyCUDA keeps it to itself, so it is read from a launch that is recorded and not run.

        At once, since later the caller may be recording a graph.  Another library that waits for the whole context,
        in another thread, breaks a recording off, which is then begun again.
        """
        for attempt in reversed(range(ATTEMPTS)):
            queue = PyCudaQueue(self.device, self.device.cuda.Stream(NON_BLOCKING))
            try:
                with self.device.undisturbed, libcuda.recording(queue.handle) as graph:
                    self._launch_by_pycuda(queue, self._smallest_grid(), [0] * len(self.kernel.params))
                break
            except BackendError:
                if not attempt:
                    raise
        handle = libcuda.function_of(graph)
        libcuda.drop_graph(graph)
        return handle

    def _smallest_grid(self) -> Dim3:
        """Workgroups that the driver takes: a whole cluster, and all where the program is one."""
        program, most = self.kernel.program, self.device.facts.target.cluster
        if program.cluster is None and program.grid is not None and 0 < prod(program.grid) <= most:
            return program.grid
        return (program.cluster or 1, 1, 1)

    @property
    def may_fault(self) -> bool:
        return self.status is not None

    def launch(
        self,
        queue: Queue,
        grid: Dim3,
        pointers: Mapping[str, int],
        counts: Mapping[str, int],
        params: Mapping[str, int],
    ) -> None:
        """Enqueue one run; the context must be current.

        `pointers`: of the storage buffers by name, 16-byte aligned.  `counts`: their numbers of elements.
        `params`: the words of the runtime scalars by name (see execution/params.py).
        """
        self.enqueue(queue, grid, self.arguments(pointers, counts, params))

    def arguments(
        self,
        pointers: Mapping[str, int],
        counts: Mapping[str, int],
        params: Mapping[str, int],
        status: FaultRecord | None = None,
    ) -> list[int]:
        """The kernel's arguments in order, for one launch.

        `status`: a fault record to use instead of the kernel's own; then they are for many launches, which have
        no number.
        """
        record = self.status if status is None else status
        by_kind = {
            "status": 0 if record is None else record.pointer,
            "call": self.device.faults.next_call() if self.may_fault and status is None else 0,
            "arrivals": 0 if self.arrivals is None else int(self.arrivals),
        }
        if self.records is not None:
            pointers = {**pointers, self.records.name: self.records.pointer}
        named = {"buffer": pointers, "length": counts, "scalar": params}
        return [named[p.kind][p.name] if p.name else by_kind[p.kind] for p in self.kernel.params]

    def enqueue(self, queue: Queue, grid: Dim3, arguments: list[int]) -> None:
        """Enqueue one run; the context must be current.  `arguments`: see `arguments`.

        A run of a program that prints is waited for.  Raises BackendError for one that is recorded into a graph.
        """
        if self.records is None:
            self._enqueue(queue, grid, arguments)
        else:
            with self.records.of_run(queue):
                self._enqueue(queue, grid, arguments)

    def _enqueue(self, queue: Queue, grid: Dim3, arguments: list[int]) -> None:
        if 0 in grid:  # which the driver refuses
            return
        self.check_grid(grid)
        if self.arrivals is not None:
            # a launch that trapped leaves the counter of its grid barrier anywhere
            queue.zero(int(self.arrivals), 4)
        self._launch(queue, grid, arguments)

    def _launch(self, queue: Queue, grid: Dim3, arguments: Sequence[int]) -> None:
        """Enqueue one run: by the driver's own library where PyCUDA cannot, on a foreign stream or cooperatively."""
        if not self.kernel.is_cooperative and isinstance(queue, PyCudaQueue):
            self._launch_by_pycuda(queue, grid, arguments)
            return
        kernel = self.kernel
        block, shared = kernel.program.workgroup, kernel.dynamic_shared
        libcuda.launch(
            self.handle, grid, block, shared, queue.handle, arguments, kernel.is_cooperative, kernel.symbol
        )

    def _launch_by_pycuda(self, queue: PyCudaQueue, grid: Dim3, arguments: Sequence[int]) -> None:
        kernel = self.kernel
        block, shared = kernel.program.workgroup, kernel.dynamic_shared
        try:
            self.function.prepared_async_call(grid, block, queue.stream, *arguments, shared_size=shared)
        except self.device.cuda.Error as error:
            raise translated(error, f"launching {kernel.symbol}") from error

    def check_grid(self, grid: Dim3) -> None:
        """Raises BackendError for a grid that is too large for the GPU, or not whole clusters.  The context must be current."""
        for axis, extent, limit in zip("xyz", grid, MAX_GRID, strict=True):
            if extent > limit:
                raise BackendError(
                    f"program @{self.kernel.program.name}: {extent} workgroups along {axis}; a GPU takes {limit}"
                )
        broken = broken_cluster(self.kernel.program, grid)
        if broken is not None:
            raise BackendError(broken)
        if self.kernel.is_cooperative:
            self._check_residents(grid)

    def resident_workgroups(self) -> int:
        """Number of workgroups that the GPU holds at once.  The context must be current."""
        kernel = self.kernel
        lanes, shared = kernel.program.lanes, kernel.dynamic_shared
        per_multiprocessor = libcuda.resident_workgroups(self.handle, lanes, shared, kernel.symbol)
        return per_multiprocessor * self.device.facts.multiprocessors

    def _check_residents(self, grid: Dim3) -> None:
        kernel, limit = self.kernel, self.resident_workgroups()
        workgroups = grid[0] * grid[1] * grid[2]
        if workgroups > limit:
            raise BackendError(
                f"program @{kernel.program.name} has a grid barrier, for which all its {workgroups} workgroups must "
                f"run at once; {self.device.facts.name} holds {limit} of them"
            )
