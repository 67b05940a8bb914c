"""Calls on GPU arrays whose checks, code and arguments were settled by an earlier call with like arrays.

What remains is to allocate the results in the arrays' library, to ask for pointers and for the current stream,
and one call of a `Launcher`: PyCUDA's at the first run, then one that is compiled.  Nothing waits for the GPU, so a
call can be captured in a graph of the library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.program import Buffer, Dim3
from ..lowering.nvptx.abi import ALIGNMENT, KernelParam, storage_buffers
from ..runtime.array_backend import Operand
from ..runtime.arrays import storage_type
from ..runtime.dispatcher import BackendError, OutputAlloc
from ..runtime.inputs import check_grid
from ..runtime.kernel_call import Copied, Fresh, KernelCall, OutFit, RunPlan, Zeros
from ..runtime.params import Words
from ..runtime.signatures import signature_of
from . import libcuda
from .device_arrays import Description, describe
from .faults import FaultRecord
from .kernels import LoadedKernel, unit_of
from .libraries import library_of
from .queues import queue_of
from .steps import (
    DRIVER_ERROR,
    PENDING_FAULT,
    UNALIGNED,
    Argument,
    Clear,
    Copy,
    Launch,
    Launcher,
    PyCudaLauncher,
    Step,
)

if TYPE_CHECKING:
    from .array_backend import GpuArrays
    from .dispatcher import CudaDispatcher

__all__ = ["GpuCall", "Pieces", "allows_fast_calls", "fast_call", "launch_of"]


def fast_call(
    backend: GpuArrays, call: KernelCall, operands: Sequence[Operand], results: Sequence[Any]
) -> GpuCall | None:
    """See `ArrayBackend.fast_call`; None also for grids without workgroups, grid barriers, and programs that print."""
    dispatcher, grid = backend.dispatcher, check_grid(call.program, call.grid)
    if 0 in grid or not allows_fast_calls(dispatcher, operands, results):
        return None
    call = dispatcher.rows.call(call, [operand.shape for operand in operands])
    with dispatcher.device:
        kernel = dispatcher.kernels.get(unit_of(call.program, call.module, {}))
        if kernel.kernel.is_cooperative or kernel.records is not None:
            return None
        inputs = [describe(operand.owner, "an array") for operand in operands]
        arguments = _Arguments(call, inputs, dispatcher.options.zero_memory)
        steps = [*arguments.steps, launch_of(kernel, grid, arguments.of)]
        arrays = [operand.owner for operand in operands]
        title = f"@{call.program.name}"
        return GpuCall(
            dispatcher,
            arrays,
            results,
            arguments.pieces,
            steps,
            kernel.may_fault,
            title,
            len(call.program.params) - len(call.words),
        )


def allows_fast_calls(
    dispatcher: CudaDispatcher, operands: Sequence[Operand], results: Sequence[Any]
) -> bool:
    """Whether all arrays are of one library that has a `FastAccess`, on the dispatcher's GPU, and used in place."""
    library, number = library_of(operands[0].owner), dispatcher.device.number
    arrays = [*(operand.owner for operand in operands), *results]
    return (
        library.fast is not None
        and all(operand.array is operand.owner for operand in operands)
        and all(library_of(array) is library and library.number(array) == number for array in arrays)
    )


def launch_of(
    kernel: LoadedKernel,
    grid: Dim3,
    argument: Callable[[KernelParam], Argument],
    record: FaultRecord | None = None,
) -> Launch:
    """A launch of a kernel.  `argument`: gives what is passed for a buffer or a length.

    `record`: where a fault goes, by default the kernel's own record.
    """
    kernel.check_grid(grid)
    entry, record = kernel.kernel, record or kernel.status
    own: dict[str, Argument] = {"call": "call", "status": record.pointer if record else 0}
    arguments = [own[param.kind] if param.kind in own else argument(param) for param in entry.params]
    return Launch(kernel, grid, arguments)


class Pieces:
    """Memory that a call needs beside its arrays and results: one array of all pieces, new at each call.

    So the library that allocates it keeps calls on several streams apart.  `before`: how many pointers of a call
    stand before those of the pieces.
    """

    ALIGNMENT = 256

    def __init__(self, before: int) -> None:
        self.before = before
        self._starts = [0]

    def add(self, size: int) -> int:
        """A further piece of so many bytes; gives the number of its pointer."""
        number = self.before + len(self._starts) - 1
        aligned = -(-max(1, size) // self.ALIGNMENT) * self.ALIGNMENT
        self._starts.append(self._starts[-1] + aligned)
        return number

    def distance(self, first: int, second: int) -> int:
        """Bytes from the start of one piece to that of another, given by the numbers of their pointers."""
        return self._starts[second - self.before] - self._starts[first - self.before]

    @property
    def size(self) -> int:
        """Of the array, in bytes."""
        return self._starts[-1]

    @property
    def offsets(self) -> list[int]:
        """Where the pieces behind the first one begin."""
        return self._starts[1:-1]


class GpuCall:
    """See `vyre_opt.runtime.kernel_call.FastCall`.

    The pointers of its steps are the arrays of a call, its results, which are like `results`, and `pieces` of memory.
    `title`: what is launched, for messages.  `values`: how many runtime scalars a call passes.
    """

    def __init__(
        self,
        dispatcher: CudaDispatcher,
        arrays: Sequence[Any],
        results: Sequence[Any],
        pieces: Pieces,
        steps: Sequence[Step],
        may_fault: bool,
        title: str,
        values: int = 0,
    ) -> None:
        fast = library_of(arrays[0]).fast
        assert fast is not None
        self._fast, self._dispatcher, self._count, self._title = fast, dispatcher, len(results), title
        device = dispatcher.device
        self._waits = dispatcher.check == "now" and may_fault
        self._pointer: Callable[[Any], int] = fast.pointer
        self._stream: Callable[[], int] = fast.stream(device.number)
        shapes = [(tuple(result.shape), describe(result, "a result").kind) for result in results]
        if pieces.size:
            shapes.append(((pieces.size,), "uint8"))
        self._offsets = pieces.offsets
        self._makers = [fast.maker(shape, kind, device.number) for shape, kind in shapes]
        pointers = len(arrays) + len(shapes) + len(self._offsets)
        self._step_arguments = device, steps, pointers, may_fault, values
        self._launcher: Launcher = PyCudaLauncher(*self._step_arguments)
        self._launch = self._first_launch
        sizes = tuple(describe(array, "an array").size for array in arrays)
        if results:
            out = results[0]
            self.fits = OutFit(signature_of(out), sizes, int(out.nbytes), fast.pointer, ALIGNMENT).fits
        self._is_simple = len(arrays) == len(results) == len(shapes) == 1 and not self._waits and not values
        self.run: RunPlan = self._run

    def may_plan(self) -> bool:
        """See `FastCall`: not while a graph is recorded, in which nothing may be compiled."""
        with self._dispatcher.device:
            return not libcuda.is_capturing(self._stream())

    def into(self, arrays: Sequence[Any], out: Any) -> list[Any]:
        """See `FastCall`."""
        return self._launched(arrays, [out, *[make() for make in self._makers[1:]]])

    def _run(self, arrays: Sequence[Any], params: Words = ()) -> list[Any]:
        return self._launched(arrays, [make() for make in self._makers], params)

    def _launched(self, arrays: Sequence[Any], new: list[Any], params: Words = ()) -> list[Any]:
        pointers = [*map(self._pointer, arrays), *map(self._pointer, new)]
        if self._offsets:
            start = pointers[-1]
            pointers += [start + offset for offset in self._offsets]
        status = self._launch(self._stream(), *pointers, *params)
        if status:
            return self._otherwise(status, arrays, new, params)
        if self._waits:
            with self._dispatcher.device as device:
                queue_of(device, self._stream()).wait()
                self._dispatcher.raise_fault()
        del new[self._count :]
        return new

    def _first_launch(self, stream: int, /, *words: int) -> int:
        """See `Launcher`.  The launch after it is compiled."""
        self._launch = self._second_launch
        return self._launcher.launch(stream, *words)

    def _second_launch(self, stream: int, /, *words: int) -> int:
        """See `Launcher`.  Nothing is compiled while a graph is recorded."""
        with self._dispatcher.device:
            if not libcuda.is_capturing(stream):
                from .launcher import CompiledLauncher

                self._launcher = CompiledLauncher(*self._step_arguments)
                self._launch = self._launcher.launch
                if self._is_simple:
                    self.run = self._run_of_one()
        return self._launcher.launch(stream, *words)

    def _run_of_one(self) -> RunPlan:
        """`_run` for one array in and one out: half a microsecond faster."""
        launch, stream, pointer, (make,) = self._launch, self._stream, self._pointer, self._makers
        otherwise = self._otherwise

        def run(arrays: Sequence[Any], params: Words = ()) -> list[Any]:
            (array,) = arrays
            new = make()
            status = launch(stream(), pointer(array), pointer(new))
            return otherwise(status, arrays, [new]) if status else [new]

        return run

    def _otherwise(self, status: int, arrays: Sequence[Any], new: list[Any], params: Words = ()) -> list[Any]:
        """The results where nothing was launched.  Raises the ProgramError of an earlier call, or BackendError."""
        if status == PENDING_FAULT:
            with self._dispatcher.device:
                self._dispatcher.raise_fault()
            return self._launched(arrays, new, params)
        if status == UNALIGNED:
            clone = self._fast.clone
            aligned = [clone(a) if self._pointer(a) % ALIGNMENT else a for a in arrays]
            results = self._launched(aligned, new, params)
            if not self._count:  # what was written has to get into the arrays themselves
                for array, copy in zip(arrays, aligned, strict=True):
                    if copy is not array:
                        array[...] = copy
            return results
        raise BackendError(libcuda.error_text(status - DRIVER_ERROR, f"launching {self._title}"))


class _Arguments:
    """Where the arguments of a kernel come from.  `steps`: what is cleared and copied before the launch.

    `zero_memory`: whether memory without contents is cleared too.
    """

    def __init__(self, call: KernelCall, inputs: Sequence[Description], zero_memory: bool) -> None:
        self.pieces = Pieces(len(inputs) + len(call.allocated_results))
        self.steps: list[Step] = []
        self._pointers: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        names = sorted(call.program.params)
        passed = len(names) - len(call.words)
        self._values: dict[str, Argument] = {name: f"v{k}" for k, name in enumerate(names[:passed])}
        self._values.update(zip(names[passed:], call.words, strict=True))
        results = {place: len(inputs) + number for number, place in enumerate(call.allocated_results)}
        for place, (buffer, argument) in enumerate(
            zip(call.program.bound_buffers, call.arguments, strict=True)
        ):
            count, pointer = buffer.count, results.get(place)
            if isinstance(argument, int):
                count, pointer = inputs[argument].scalars // buffer.dtype.lanes, argument
            elif isinstance(argument, OutputAlloc):
                count = argument.count
                if zero_memory and pointer is not None and count:
                    self.steps.append(Clear(pointer, _size_of(buffer, count)))
            elif isinstance(argument, Copied):
                source = inputs[argument.input]
                count = source.scalars // buffer.dtype.lanes
                pointer = self.pieces.add(_size_of(buffer, count)) if pointer is None else pointer
                if source.scalars and not buffer.is_transient:
                    self.steps.append(Copy(pointer, argument.input, source.size))
            elif isinstance(argument, (Zeros, Fresh)):
                count = argument.count
                pointer = self.pieces.add(_size_of(buffer, count))
                if zero_memory or isinstance(argument, Zeros):
                    self._clear(pointer, _size_of(buffer, count))
            assert pointer is not None and count is not None
            self._pointers[buffer.name], self._counts[buffer.name] = pointer, count
        for buffer in storage_buffers(call.program):
            if buffer.binding is None:
                self._pointers[buffer.name] = self.pieces.add(buffer.size_bytes or 0)
                if zero_memory:
                    self._clear(self._pointers[buffer.name], buffer.size_bytes or 0)

    def _clear(self, piece: int, size: int) -> None:
        """Zero a piece, together with the one before where that is zeroed too: each step costs a microsecond."""
        last = self.steps[-1] if self.steps else None
        if (
            isinstance(last, Clear)
            and last.pointer >= self.pieces.before
            and self.pieces.distance(last.pointer, piece) - last.size < Pieces.ALIGNMENT
        ):
            self.steps[-1] = Clear(last.pointer, self.pieces.distance(last.pointer, piece) + size)
        else:
            self.steps.append(Clear(piece, size))

    def of(self, param: KernelParam) -> Argument:
        """What is passed for a buffer, a length or a runtime scalar."""
        if param.kind == "buffer":
            return f"p{self._pointers[param.name]}"
        return self._values[param.name] if param.kind == "scalar" else self._counts[param.name]


def _size_of(buffer: Buffer, count: int) -> int:
    """The bytes of `count` elements of a buffer."""
    stored = storage_type(buffer.dtype)
    assert stored is not None
    return count * buffer.dtype.lanes * stored.itemsize
