"""The dispatcher of the cuda target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ...execution.array_backend import ArrayBackend, HostArrays
from ...execution.cache.compilations import new_log
from ...execution.cache.store import default_store
from ...execution.dispatcher import BackendError, BadInputs, OutputAlloc, Scratch
from ...execution.inputs import check_inputs, check_program, input_name
from ...execution.planned_dispatch import planned_dispatch
from ...execution.row_major import argument_shapes
from ...execution.target import Target, unusual, wants_debug_info
from ...execution.variables import value_of
from ...ir.open_extents import extent_words, flat_buffer
from ...ir.program import Dim3, Module, Program
from ...ir.shapes import has_rows
from ...lowering.nvptx.abi import BOUNDS, Unit, storage_buffers
from ...lowering.nvptx.targets import TargetError, parse_version, show
from ...observers import is_profiler_attached
from .checks import are_on_gpu, check_overlaps
from .device import Device, DeviceFacts
from .device import device as open_device
from .device_arrays import Description, is_aligned, take
from .faults import check_mode
from .kernels import KernelCache, compile_into_cache, unit_of
from .loaded_kernel import LoadedKernel
from .ptx_options import PtxOptions
from .queues import PyCudaQueue, queue_of
from .strided_copy import contiguous_copy

if TYPE_CHECKING:
    from ...execution.plans.call_plan import CallPlan
    from .host_arrays import UploadedPlan
    from .loaded_plan import GpuPlan
    from .walk import GpuWalk

__all__ = ["BoundLaunch", "CudaDispatcher"]


class CudaDispatcher(Target):
    """Dispatches to an NVIDIA GPU.

    `device`: the number of the GPU.  `bounds`: what happens at an access out of bounds, where
    none is proven: "trap" reports it, "clamp" moves it to the nearest element, "none" does not
    check.  `opt_level`: 0 to 3.  `ptx_version`: such as "8.6"; by default the lowest that the GPU
    takes.  `cache`: whether PTX is kept on disk and looked up there.  `check`: when a fault is reported that
    a call on GPU arrays causes: "later", by a later call or `synchronize`, or "now", which waits; by default
    what the environment variable VYRE_FAULTS says, or later.  `zero_memory`: whether memory that no program wrote is
    zeroed, as it is on the CPU: outputs, storage of programs and pipelines, workgroup memory; by default what the
    environment variable VYRE_ZERO_MEMORY says (1), or not.  `debug_info`: whether PTX has line tables; by default as
    `wants_debug_info` says, and under a profiler.  `compilations`: what was compiled or found in the cache, in order.  The driver is first needed at the first dispatch.
    """

    name = "cuda"

    def __init__(
        self,
        device: int = 0,
        bounds: str = "trap",
        opt_level: int = 2,
        ptx_version: str | None = None,
        cache: bool = True,
        check: str | None = None,
        zero_memory: bool | None = None,
        debug_info: bool | None = None,
    ) -> None:
        if bounds not in BOUNDS:
            raise BadInputs(f"bounds is one of {', '.join(BOUNDS)}, not {bounds!r}")
        if opt_level not in range(4):
            raise BadInputs(f"opt_level is 0 to 3, not {opt_level!r}")
        try:
            version = None if ptx_version is None else parse_version(ptx_version)
        except TargetError as error:
            raise BadInputs(str(error)) from None
        if zero_memory is None:
            zero_memory = value_of("VYRE_ZERO_MEMORY") == "1"
        debug_info = wants_debug_info(is_profiler_attached()) if debug_info is None else debug_info
        self.options = PtxOptions(bounds, opt_level, version, zero_memory, debug_info)
        self.has_debug_info = debug_info
        self.check = check_mode(check)
        self._number = device
        self.store = default_store() if cache else None
        self.compilations = new_log()
        self.bounds = bounds
        self._kernels: KernelCache | None = None
        self._variants: dict[PtxOptions, CudaDispatcher] = {self.options: self}

    @property
    def level(self) -> int:
        """Level of LLVM's optimiser, 0 to 3."""
        return self.options.level

    def at_level(self, level: int) -> CudaDispatcher:
        """The same at another level of LLVM's optimiser, 0 to 3; one for each, which keeps what it compiled."""
        return self._variant(replace(self.options, level=level))

    def with_debug_info(self) -> CudaDispatcher:
        return self._variant(replace(self.options, debug_info=True))

    def _variant(self, options: PtxOptions) -> CudaDispatcher:
        variant = self._variants.get(options)
        if variant is None:
            variant = CudaDispatcher(
                self._number,
                options.bounds,
                options.level,
                None if options.ptx is None else show(options.ptx),
                self.store is not None,
                self.check,
                options.zero_memory,
                options.debug_info,
            )
            variant._variants = self._variants
            self._variants[options] = variant
        return variant

    @property
    def workers(self) -> int:  # type: ignore[override]
        return self.facts.multiprocessors

    @property
    def architecture(self) -> str:
        try:
            return self.facts.target.name
        except BackendError:
            return ""

    @property
    def device_name(self) -> str:
        return self.facts.name

    @property
    def key(self) -> str:
        return f"{self.facts.key}{unusual(self.options)}"

    @property
    def device(self) -> Device:
        """The GPU.  Raises BackendError if there is none."""
        return open_device(self._number)

    @property
    def facts(self) -> DeviceFacts:
        """The properties of the GPU.  Raises BackendError if there is none."""
        return self.device.facts

    @property
    def zero_memory(self) -> bool:
        return self.options.zero_memory

    def kernels_of(self, programs: Sequence[Program], module: Module) -> dict[Program, LoadedKernel]:
        units = [unit_of(program, module, {}) for program in programs]
        return dict(zip(programs, self.kernels.get_all(units), strict=True))

    @property
    def kernels(self) -> KernelCache:
        if self._kernels is None:
            self._kernels = KernelCache(self.device, self.options, self.store, self.compilations)
        return self._kernels

    def dispatch(
        self,
        program: Program,
        inputs: Sequence[Any],
        grid: int | Sequence[int] | None = None,
        *,
        module: Module | None = None,
        specs: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        scratch: Scratch | None = None,
    ) -> list[Any]:
        """See `Dispatcher.dispatch`.

        If the inputs are arrays on the GPU, so are the outputs, of the same libraries and types; the
        work is enqueued on the current stream of the first input's library, and not waited for.  A fault
        is raised by a later call, or by `synchronize`, unless `check` is "now".  The output for an `OutputAlloc` comes
        from the library of the first array, in shape (count,), or (count, lanes).  `scratch` is left as it is, since a
        pool keeps the memory of the GPU.
        """
        from .array_backend import GpuArrays

        backend: ArrayBackend = HostArrays(self)
        if are_on_gpu(program, inputs):
            leader = next(value for value in inputs if not isinstance(value, OutputAlloc))
            backend = GpuArrays(self, leader)
        return planned_dispatch(backend, program, inputs, grid, module, specs, params)

    def prepare(
        self, program: Program, module: Module | None = None, specs: Mapping[str, Any] | None = None
    ) -> LoadedKernel:
        """The program compiled and loaded.  `specs` are encoded constants, as `Spec.default` is."""
        with self.device:
            return self.kernels.get(unit_of(program, module, specs or {}))

    def compiler(self) -> Callable[[Module], None] | None:
        """Compiler of a module's programs into the cache, for any process; None without a cache."""
        return None if self.store is None else partial(compile_into_cache, self.facts.target, self.options)

    def preload(self, units: Sequence[Unit]) -> list[LoadedKernel]:
        """Many programs compiled and loaded as one module; later dispatches find them."""
        full = [unit_of(unit.program, unit.module, unit.specs) for unit in units]
        with self.device:
            return self.kernels.load(full)

    def bind(
        self,
        program: Program,
        arrays: Sequence[Any],
        grid: int | Sequence[int] | None = None,
        *,
        module: Module | None = None,
        specs: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> BoundLaunch:
        """A launch that works in place on arrays on the GPU, one for each bound buffer.

        Everything is checked here, so that `run` costs no more than the launch itself.
        Raises BadInputs for arrays that overlap one that is written, or are not 16-byte aligned.
        """
        shapes = argument_shapes(program, arrays) if has_rows(program) else {}
        if not are_on_gpu(program, arrays) or any(isinstance(array, OutputAlloc) for array in arrays):
            raise BadInputs(f"program @{program.name}: launch takes arrays on the GPU")
        check_inputs(program, arrays)
        checked = check_program(program, grid, module, specs, params)
        views = {}
        for buffer, array in zip(program.bound_buffers, arrays, strict=True):
            where = input_name(program, buffer)
            view = views[buffer.name] = take(array, flat_buffer(buffer), where, self._number)
            if not is_aligned(view):
                raise BadInputs(f"{where}: the array is not 16-byte aligned")
        check_overlaps(program, views)
        pointers = {name: view.pointer for name, view in views.items()}
        counts = {b.name: views[b.name].scalars // b.dtype.lanes for b in program.bound_buffers}
        with self.device as gpu:
            kernel = self.kernels.get(unit_of(program, module, checked.specs))
            unbound = [b for b in storage_buffers(program) if b.binding is None]
            scratch_memory = {b.name: gpu.allocate(b.size_bytes or 0) for b in unbound}
            if self.zero_memory:
                for b in unbound:
                    PyCudaQueue(gpu, None).zero(int(scratch_memory[b.name]), b.size_bytes or 0)
        pointers |= {name: int(memory) for name, memory in scratch_memory.items()}
        words = {**checked.params, **extent_words(program, shapes)}
        return BoundLaunch(kernel, checked.grid, pointers, counts, words, (list(arrays), scratch_memory))

    def launch(
        self,
        program: Program,
        arrays: Sequence[Any],
        grid: int | Sequence[int] | None = None,
        *,
        module: Module | None = None,
        specs: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        stream: Any = None,
    ) -> None:
        """Enqueue one run in place; see `bind`, which is for many.

        `stream` is one of PyCUDA, torch or CuPy, or a handle; None is the default stream.
        Nothing is copied, and nothing waited for unless the program has unbound storage buffers.
        A fault of the program is raised by a later call, or by `synchronize`.
        """
        bound = self.bind(program, arrays, grid, module=module, specs=specs, params=params)
        bound.run(stream)
        if any(b.binding is None for b in storage_buffers(program)):
            with self.device:  # else the pool could give their memory to work on another stream too early
                queue_of(self.device, stream).wait()

    def synchronize(self) -> None:
        """Wait for the GPU, and raise the ProgramError of a fault of earlier calls."""
        with self.device:
            self.device.wait()
            self.raise_fault()

    def raise_fault(self) -> None:
        """Raise the ProgramError of a fault that is known by now; waits only if there is one.

        The context must be current.
        """
        error = self.device.faults.take()
        if error is not None:
            raise error

    def load(self, call: CallPlan) -> UploadedPlan:
        """The plan of a call on arrays in main memory, compiled."""
        from .host_arrays import UploadedPlan

        return UploadedPlan(self, call)

    def load_on_gpu(self, call: CallPlan) -> GpuPlan | GpuWalk:
        """The plan of a call on arrays on the GPU, compiled."""
        from .loaded_plan import load

        return load(self, call)

    def contiguous(self, array: Any, info: Description) -> Any:
        """The array, or a contiguous copy of one that is not, of its library and on that library's stream."""
        return array if info.contiguous else contiguous_copy(self, array, info)


class BoundLaunch:
    """A kernel with all its arguments; it keeps the arrays alive.

    `run` enqueues it on a stream (see `CudaDispatcher.launch`) and does not wait.
    """

    def __init__(
        self,
        kernel: LoadedKernel,
        grid: Dim3,
        pointers: Mapping[str, int],
        counts: Mapping[str, int],
        params: Mapping[str, int],
        owners: Any,
    ) -> None:
        self.kernel = kernel
        self.grid = grid
        self.owners = owners
        self.arguments = kernel.arguments(pointers, counts, params)
        self._call = [index for index, param in enumerate(kernel.kernel.params) if param.kind == "call"]

    def run(self, stream: Any = None) -> None:
        with self.kernel.device as gpu:
            for index in self._call:
                self.arguments[index] = gpu.faults.next_call()
            self.kernel.enqueue(queue_of(gpu, stream), self.grid, self.arguments)
