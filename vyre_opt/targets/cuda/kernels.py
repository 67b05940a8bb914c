"""Compiles and loads programs as kernels, caches them in the process, and launches them on pointers."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from ...execution.cache.compilations import Compilation, fetch, new_log
from ...execution.cache.keys import called_fingerprints, locations_digest
from ...execution.cache.store import Store, default_store
from ...execution.dispatcher import BackendError, BadInputs
from ...execution.inputs import broken_cluster
from ...ir.diagnostics import DiagnosticError
from ...ir.program import MAX_GRID, Dim3, Module, Program
from ...ir.snapshot import Snapshot
from ...lowering.common.print_records import records_of
from ...lowering.nvptx.abi import EntryPoint, Unit
from ...lowering.nvptx.legalization import legal_unit
from ...lowering.nvptx.targets import GpuTarget, PtxVersion, TargetError, ptx_version, show
from ...observers import span
from ...rewriting.core_form import core_form
from ...syntax.fingerprint import exact_fingerprint
from ...worker import import_module
from . import libcuda, ptx_cache
from .device import Device
from .driver import translated, translated_errors
from .faults import FaultRecord, program_error
from .print_records import PrintBuffer
from .ptx_options import PtxOptions
from .queues import PyCudaQueue, Queue

__all__ = ["KernelCache", "LoadedKernel", "compile_into_cache", "unit_of"]

MAX_RECENT = 256

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
    `printing`: its program with its prints, which it has as records only.
    """

    def __init__(self, device: Device, kernel: EntryPoint, module: Any, printing: Program) -> None:
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
        self.records = PrintBuffer(device, printing) if records_of(printing) else None

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


class KernelCache:
    """The loaded kernels of one device, by their programs.

    `store`: where PTX is cached between processes.  `compilations`: a log of what was compiled or found there.
    """

    def __init__(
        self, device: Device, options: PtxOptions, store: Store | None, compilations: deque[Compilation]
    ) -> None:
        self.device = device
        self.options = options
        self.store = store
        self.compilations = compilations
        self._loaded: dict[tuple[Any, ...], LoadedKernel] = {}
        self._recent: dict[Program, tuple[Unit, Snapshot, LoadedKernel]] = {}

    def get(self, unit: Unit) -> LoadedKernel:
        """The kernel of a program; the context must be current.  See `load`."""
        return self.get_all([unit])[0]

    def get_all(self, units: Sequence[Unit]) -> list[LoadedKernel]:
        """The kernels of many programs; those that are not loaded yet are loaded as one module."""
        recent = [self._recent_kernel(unit) for unit in units]
        keys = {k: _key(units[k]) for k, kernel in enumerate(recent) if kernel is None}
        missing = {key: units[k] for k, key in keys.items() if key not in self._loaded}
        if missing:
            self.load(list(missing.values()))
        others = {k: self._remembered(units[k], self._loaded[key]) for k, key in keys.items()}
        return [kernel or others[k] for k, kernel in enumerate(recent)]

    def _recent_kernel(self, unit: Unit) -> LoadedKernel | None:
        """The kernel of a program that was asked for lately and did not change since: no hash of it is made."""
        recent = self._recent.get(unit.program)
        return recent[2] if recent is not None and recent[0] == unit and recent[1].holds() else None

    def _remembered(self, unit: Unit, kernel: LoadedKernel) -> LoadedKernel:
        if len(self._recent) >= MAX_RECENT:
            del self._recent[next(iter(self._recent))]
        self._recent[unit.program] = (unit, Snapshot(unit.program, unit.module), kernel)
        return kernel

    def load(self, units: Sequence[Unit]) -> list[LoadedKernel]:
        """Compile programs into one module and load it, which is faster than one by one.

        Raises BadInputs for a program that no GPU can run, and BackendError for PTX that
        the driver does not take.
        """
        facts, options = self.device.facts, self.options
        keys = list(map(_key, units))
        programs = [unit.program for unit in units]
        # here and not in `lower` alone: the ops of fault sites are those of these units
        units = _as_compiled(units, facts.target, options)
        try:
            version = ptx_version(facts.target, options.ptx)
            if version > facts.ptx:
                raise BackendError(
                    f"{facts.name} needs PTX {show(version)}, the driver (CUDA {facts.cuda[0]}.{facts.cuda[1]}) "
                    f"takes up to {show(facts.ptx)}; update the driver"
                    + ("" if options.ptx is None else ", or ask for an older version")
                )
            kernels, ptx = _compile(units, facts.target, version, options, self.store, self.compilations)
        except DiagnosticError as error:
            raise BackendError(str(error)) from None
        except TargetError as error:
            raise BadInputs(str(error)) from None
        names = ", ".join(f"@{unit.program.name}" for unit in units[:3])
        # At levels 0 and 1 the driver is not to optimise either: its optimiser is known to crash on
        # code that LLVM did not optimise.
        level = options.level if options.level < 2 else None
        module = load_module(self.device, ptx, level, names, options.debug_info)
        loaded = [
            LoadedKernel(self.device, kernel, module, program)
            for kernel, program in zip(kernels, programs, strict=True)
        ]
        self._loaded.update(zip(keys, loaded, strict=True))
        return loaded


def compile_into_cache(target: GpuTarget, options: PtxOptions, module: Module) -> None:
    """Compile the programs of a module, each for itself, so that other processes find their PTX; needs no GPU."""
    version = ptx_version(target, options.ptx)
    for program in module.programs.values():
        units = _as_compiled([unit_of(program, module, {})], target, options)
        _compile(units, target, version, options, default_store(), new_log())


def _as_compiled(units: Sequence[Unit], target: GpuTarget, options: PtxOptions) -> list[Unit]:
    """The units as they are lowered."""
    return [legal_unit(unit, target, options.bounds, options.zero_memory) for unit in units]


def _compile(
    units: Sequence[Unit],
    target: GpuTarget,
    version: PtxVersion,
    options: PtxOptions,
    store: Store | None,
    log: deque[Compilation],
) -> tuple[Sequence[EntryPoint], bytes]:
    """The kernels and their PTX, from the store or compiled now."""

    def compile() -> tuple[bytes, tuple[Sequence[EntryPoint], bytes]]:
        # heavy imports, not needed when all is in the cache
        import_module("vyre_opt.lowering.nvptx.kernel")
        import_module("vyre_opt.lowering.nvptx.ptx")
        from ...lowering.nvptx.kernel import lower
        from ...lowering.nvptx.ptx import emit_ptx

        lowered = lower(units, target, options.bounds, options.debug_info)
        ptx = emit_ptx(lowered, target, version, options.level).encode() + b"\0"
        return ptx_cache.encode(lowered.kernels, units, ptx), (lowered.kernels, ptx)

    return fetch(
        store,
        "ptx",
        lambda: ptx_cache.key_of(units, target, version, options),
        lambda payload: ptx_cache.decode(payload, units),
        compile,
        log,
        ", ".join(f"@{unit.program.name}" for unit in units),
    )


def _key(unit: Unit) -> tuple[Any, ...]:
    """Key of a loaded kernel: its code, and the locations that its faults name, which fingerprints leave out."""
    specs = tuple(sorted((name, repr(value)) for name, value in unit.specs.items()))
    called = called_fingerprints(unit.program, unit.module)
    return exact_fingerprint(unit.program), *called, specs, locations_digest(unit.program, unit.module)


def unit_of(program: Program, module: Module | None, specs: Mapping[str, Any]) -> Unit:
    """A unit with a value for every constant, so that a default and the same value passed share a kernel."""
    program, module = core_form(program, module)
    full = {name: specs.get(name, spec.default) for name, spec in program.specs.items()}
    return Unit(program, module, full)
