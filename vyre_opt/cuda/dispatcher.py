"""The dispatcher of the cuda target."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.program import AccessMode, Buffer, Dim3, Module, Program
from ..lowering.nvptx.abi import BOUNDS, Unit, storage_buffers
from ..lowering.nvptx.targets import TargetError, parse_version, show
from ..runtime.arrays import array_shape
from ..runtime.cache.compilations import Compilation, new_log
from ..runtime.cache.store import default_store
from ..runtime.dispatcher import BadInputs, OutputAlloc, Scratch
from ..runtime.inputs import CheckedCall, check_call, input_name
from ..runtime.row_major import RowMajorPrograms, argument_shapes, has_rows, shaped_outputs
from .checks import are_on_gpu, check_overlaps, check_shapes
from .device import Device, DeviceFacts
from .device import device as open_device
from .device_arrays import Description, View, is_aligned, new_array_like, new_output, producer_stream, take
from .faults import check_mode
from .kernels import KernelCache, LoadedKernel, compile_into_cache, unit_of
from .libraries import must_outlive_work
from .ptx_options import PtxOptions
from .queues import PyCudaQueue, Queue, queue_of
from .strided_copy import contiguous_copy
from .transfers import from_device, to_device

if TYPE_CHECKING:
    from ..runtime.pipelines.call_plan import CallPlan
    from .host_arrays import UploadedPlan
    from .loaded_plan import GpuPlan
    from .walk import GpuWalk

__all__ = ["BoundLaunch", "CudaDispatcher"]


class CudaDispatcher:
    """Dispatches to an NVIDIA GPU.

    `device`: the number of the GPU.  `bounds`: what happens at an access out of bounds, where
    none is proven: "trap" reports it, "clamp" moves it to the nearest element, "none" does not
    check.  `opt_level`: 0 to 3.  `ptx_version`: such as "8.6"; by default the lowest that the GPU
    takes.  `cache`: whether PTX is kept on disk and looked up there.  `check`: when a fault is reported that
    a call on GPU arrays causes: "later", by a later call or `synchronize`, or "now", which waits; by default
    what the environment variable VYRE_CHECK says, or later.  `zero_memory`: whether memory that no program wrote is
    zeroed, as it is on the CPU: outputs, storage of programs and pipelines, workgroup memory; by default what the
    environment variable VYRE_ZERO_MEMORY says (1), or not.  `compilations`: what was
    compiled or found in the cache, in order.  The driver is first needed at the first dispatch.
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
            zero_memory = os.environ.get("VYRE_ZERO_MEMORY", "") not in ("", "0")
        self.options = PtxOptions(bounds, opt_level, version, zero_memory)
        self.check = check_mode(check)
        self._number = device
        self.store = default_store() if cache else None
        self.compilations: deque[Compilation] = new_log()
        self._kernels: KernelCache | None = None
        self.rows = RowMajorPrograms(bounds, self._with_warpgroups)
        self._at_levels: dict[int, CudaDispatcher] = {opt_level: self}

    def _with_warpgroups(self, program: Program) -> Program:
        from ..lowering.nvptx.warpgroups import with_warpgroups

        return with_warpgroups(program, self.facts.target, self.options.bounds)

    @property
    def level(self) -> int:
        """Of LLVM's optimiser, 0 to 3."""
        return self.options.level

    def at_level(self, level: int) -> CudaDispatcher:
        """The same at another level of LLVM's optimiser, 0 to 3; one for each, which keeps what it compiled."""
        if level not in self._at_levels:
            options = self.options
            version = None if options.ptx is None else show(options.ptx)
            self._at_levels[level] = CudaDispatcher(
                self._number,
                options.bounds,
                level,
                version,
                self.store is not None,
                self.check,
                options.zero_memory,
            )
        return self._at_levels[level]

    @property
    def device(self) -> Device:
        """The GPU.  Raises BackendError if there is none."""
        return open_device(self._number)

    @property
    def facts(self) -> DeviceFacts:
        """The properties of the GPU.  Raises BackendError if there is none."""
        return self.device.facts

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
        is raised by a later call, or by `synchronize`, unless `check` is "now".  The output for an `OutputAlloc` comes from the library of the
        first array, in shape (count,), or (count, lanes).
        """
        if has_rows(program):
            rows, shapes = self.rows.of(program), argument_shapes(program, inputs)
            outputs = self.dispatch(
                rows.program,
                inputs,
                grid,
                module=module,
                specs=specs,
                params=rows.values(params, shapes),
                scratch=scratch,
            )
            return shaped_outputs(program, shapes, outputs)
        if are_on_gpu(program, inputs):
            checked = check_shapes(program, inputs, grid, module, specs, params)
            return self._on_gpu(program, inputs, checked, module)
        checked = check_call(program, inputs, grid, module, specs, params)
        return self._from_host(program, checked, module, scratch or Scratch())

    def prepare(
        self, program: Program, module: Module | None = None, specs: Mapping[str, Any] | None = None
    ) -> LoadedKernel:
        """The program compiled and loaded.  `specs` are encoded constants, as `Spec.default` is."""
        with self.device:
            return self.kernels.get(self._unit(program, module, specs or {}))

    def compiler(self) -> Callable[[Module], None] | None:
        """What compiles the programs of a module into the cache, in any process; None where there is no cache."""
        return None if self.store is None else partial(compile_into_cache, self.facts.target, self.options)

    def preload(self, units: Sequence[Unit]) -> list[LoadedKernel]:
        """Many programs compiled and loaded as one module; later dispatches find them."""
        full = [self._unit(unit.program, unit.module, unit.specs) for unit in units]
        with self.device:
            return self.kernels.load(full)

    def _unit(self, program: Program, module: Module | None, specs: Mapping[str, Any]) -> Unit:
        """What is compiled for a program."""
        return unit_of(self.rows.of(program).program if has_rows(program) else program, module, specs)

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
        if has_rows(program):
            rows, shapes = self.rows.of(program), argument_shapes(program, arrays)
            values = rows.values(params, shapes)
            return self.bind(rows.program, arrays, grid, module=module, specs=specs, params=values)
        if not are_on_gpu(program, arrays) or any(isinstance(array, OutputAlloc) for array in arrays):
            raise BadInputs(f"program @{program.name}: launch takes arrays on the GPU")
        checked = check_shapes(program, arrays, grid, module, specs, params)
        views = self._views(program, arrays, copies=False)
        for buffer in program.bound_buffers:
            if not is_aligned(views[buffer.name]):
                raise BadInputs(f"{input_name(program, buffer)}: the array is not 16-byte aligned")
        check_overlaps(program, views)
        with self.device:
            kernel = self.kernels.get(unit_of(program, module, checked.specs))
            pointers = {name: view.pointer for name, view in views.items()}
            own = self._unbound(program, pointers, Scratch(), PyCudaQueue(self.device, None))
        counts = _counts(program, views)
        return BoundLaunch(kernel, checked.grid, pointers, counts, checked.params, (list(arrays), own))

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

    # --- inputs on the host

    def _from_host(
        self, program: Program, call: CheckedCall, module: Module | None, scratch: Scratch
    ) -> list[Any]:
        with self.device as gpu:
            kernel = self.kernels.get(unit_of(program, module, call.specs))
            queue = PyCudaQueue(gpu, gpu.stream)
            pointers: dict[str, int] = {}
            counts: dict[str, int] = {}
            for buffer in program.bound_buffers:
                array = call.arrays[buffer.name]
                counts[buffer.name] = array.size // buffer.dtype.lanes
                memory = self._scratch_memory(scratch, buffer, array.nbytes)
                pointers[buffer.name] = int(memory)
                if not buffer.is_transient and buffer.name not in call.fresh:
                    to_device(gpu, int(memory), array, gpu.stream)
                else:
                    self._zero(queue, int(memory), array.nbytes)
            self._unbound(program, pointers, scratch, queue)
            kernel.launch(queue, call.grid, pointers, counts, call.params)
            queue.wait()
            outputs = []
            for buffer in program.bound_buffers:
                if buffer.is_output:
                    shape, dtype = array_shape(buffer, counts[buffer.name])
                    outputs.append(from_device(gpu, pointers[buffer.name], shape, dtype, gpu.stream))
            queue.wait()
            self.raise_fault()
        return outputs

    def _scratch_memory(self, scratch: Scratch, buffer: Buffer, size: int) -> Any:
        """Device memory for a buffer: that of the last dispatch if it is large enough."""
        entry = scratch.storage.get(buffer.name)
        if isinstance(entry, _ScratchEntry) and entry.number == self._number and entry.size >= size:
            return entry.memory
        scratch.storage[buffer.name] = entry = _ScratchEntry(self._number, size, self.device.allocate(size))
        return entry.memory

    def _zero(self, queue: Queue, pointer: int, size: int) -> None:
        """Zero memory without contents, if that is asked for."""
        if self.options.zero_memory and size:
            queue.zero(pointer, size)

    def _unbound(
        self, program: Program, pointers: dict[str, int], scratch: Scratch, queue: Queue
    ) -> list[Any]:
        """Add pointers for the program's unbound buffers; gives the memory, which must outlive the run."""
        memory = []
        for buffer in storage_buffers(program):
            if buffer.binding is None:
                memory.append(self._scratch_memory(scratch, buffer, buffer.size_bytes or 0))
                pointers[buffer.name] = int(memory[-1])
                self._zero(queue, int(memory[-1]), buffer.size_bytes or 0)
        return memory

    # --- inputs on the GPU

    def contiguous(self, array: Any, info: Description) -> Any:
        """The array, or a contiguous copy of one that is not, of its library and on that library's stream."""
        return array if info.contiguous else contiguous_copy(self, array, info)

    def _views(self, program: Program, arrays: Sequence[Any], copies: bool) -> dict[str, View]:
        """`copies`: whether an array that is not contiguous is copied, and not refused."""
        copy = self.contiguous if copies else None
        views = {}
        for buffer, array in zip(program.bound_buffers, arrays, strict=True):
            if isinstance(array, OutputAlloc):
                views[buffer.name] = _future_view(buffer, array)
            else:
                views[buffer.name] = take(array, buffer, input_name(program, buffer), self._number, copy)
        return views

    def _on_gpu(
        self, program: Program, inputs: Sequence[Any], call: CheckedCall, module: Module | None
    ) -> list[Any]:
        views = self._views(program, inputs, copies=True)
        bound = list(zip(program.bound_buffers, inputs, strict=True))
        arrays = [(value, buffer.dtype) for buffer, value in bound if not isinstance(value, OutputAlloc)]
        leader, leader_dtype = arrays[0]
        with self.device as gpu:
            self.raise_fault()
            kernel = self.kernels.get(unit_of(program, module, call.specs))
            queue = queue_of(gpu, producer_stream(leader))
            others = {producer_stream(array) for array, _ in arrays} - {queue.handle}
            for handle in others:
                queue_of(gpu, handle).wait()
            pointers: dict[str, int] = {}
            outputs: list[Any] = []
            taken = [(views[b.name].owner, v) for b, v in bound if not isinstance(v, (View, OutputAlloc))]
            temporary: list[Any] = [copy for copy, value in taken if must_outlive_work(copy, value)]
            for buffer, value in bound:
                view = views[buffer.name]
                # used in place: a View's creator agreed to that, and the others are only read
                if isinstance(value, View) or (buffer.access is AccessMode.READ and is_aligned(view)):
                    pointers[buffer.name] = view.pointer
                    outputs += [value] if buffer.is_output else []
                    continue
                if isinstance(value, OutputAlloc):
                    array, pointer = new_output(leader, leader_dtype, buffer, value.count, gpu)
                    self._zero(queue, pointer, view.size)
                else:
                    array, pointer = new_array_like(value, buffer, gpu)
                    if view.size and not buffer.is_transient:
                        queue.copy(pointer, view.pointer, view.size)
                    else:
                        self._zero(queue, pointer, view.size)
                pointers[buffer.name] = pointer
                (outputs if buffer.is_output else temporary).append(array)
            temporary += self._unbound(program, pointers, Scratch(), queue)
            kernel.launch(queue, call.grid, pointers, _counts(program, views), call.params)
            # Temporary memory goes back to its pool on return, and the pool may know nothing of streams;
            # the other libraries' streams do not know of this work.
            if temporary or others or (self.check == "now" and kernel.may_fault):
                queue.wait()
                self.raise_fault()
        return outputs


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
        self._call = [place for place, param in enumerate(kernel.kernel.params) if param.kind == "call"]

    def run(self, stream: Any = None) -> None:
        with self.kernel.device as gpu:
            for place in self._call:
                self.arguments[place] = gpu.faults.next_call()
            self.kernel.enqueue(queue_of(gpu, stream), self.grid, self.arguments)


class _ScratchEntry:
    """Device memory in a Scratch.  `number`: of the GPU."""

    def __init__(self, number: int, size: int, memory: Any) -> None:
        self.number = number
        self.size = size
        self.memory = memory


def _future_view(buffer: Buffer, alloc: OutputAlloc) -> View:
    """Stands for memory that is not allocated yet: its sizes, without a pointer."""
    shape, stored = array_shape(buffer, alloc.count)
    scalars = int(np.prod(shape, dtype=np.int64))
    return View(0, scalars * stored.itemsize, scalars, None)


def _counts(program: Program, views: Mapping[str, View]) -> dict[str, int]:
    return {b.name: views[b.name].scalars // b.dtype.lanes for b in program.bound_buffers}
