"""The array backend of arrays on a GPU (see `vyre_opt.execution.array_backend`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...execution.array_backend import ArrayAccess, Operand, check_out
from ...execution.arrays import kind_of
from ...execution.dispatcher import BadInputs, DispatcherLike, shared_dispatcher
from ...execution.plans.call_plan import CallPlan
from ...execution.shapes import argument_shape, array_of
from ...ir.program import Buffer
from ...lowering.nvptx.abi import ALIGNMENT
from . import libcuda
from .device import Device
from .device_arrays import Description, View, describe, is_on_gpu, new_array, producer_stream, take
from .driver import translated_errors
from .libraries import library_of
from .loaded_plan import GpuPlan
from .queues import PyCudaQueue, Queue, queue_of
from .walk import GpuWalk

__all__ = ["GpuArrays", "gpu_arrays", "gpu_number"]


def gpu_arrays(dispatcher: DispatcherLike | None, name: str, leader: Any) -> GpuArrays:
    """The backend for arrays on the GPU of `leader`, which messages call `name`.

    `dispatcher`: "cuda" or None stand for the one of that GPU.  Raises BadInputs for another target.
    """
    if dispatcher is None or dispatcher == "cuda":
        dispatcher = shared_dispatcher("cuda", device=gpu_number(leader))
    target = dispatcher if isinstance(dispatcher, str) else shared_dispatcher(dispatcher).name
    if target != "cuda":
        raise BadInputs(
            f"{name} is on the GPU, where {target} does not run; choose cuda, or copy it to main memory"
        )
    return GpuArrays(shared_dispatcher(dispatcher), leader)


def gpu_number(array: Any) -> int:
    """The number of the GPU that an array is on."""
    number = library_of(array).number(array)
    where = None if number else getattr(array, "__dlpack_device__", None)
    return number or (0 if where is None else int(where()[1]))


class GpuArrays:
    """Arrays on one GPU.  New ones come from the library of `leader`, and work goes to its current stream.

    `to_host`, `tail` and `constant` wait for the GPU; so does each run where an argument is memory of this project's
    pool, which knows nothing of streams and might give it away too early.
    """

    on_gpu = True

    def __init__(self, dispatcher: Any, leader: Any) -> None:
        self.dispatcher = dispatcher
        self.target = dispatcher.name
        self.workers: int = dispatcher.workers
        self.leader = leader

    def take(self, source: Any, name: str) -> Operand:
        info = describe(source, name)
        return Operand(self.dispatcher.contiguous(source, info), info.shape, info.kind, source)

    def operand(
        self, argument: Any, buffer: Buffer, where: str, name: str = "", owner: str = "program"
    ) -> Operand:
        operand = self.take(argument, name or where)
        self.check(operand, buffer, where)
        return operand

    def result(self, array: Any, shape: Sequence[int], like: Operand) -> Any:
        return array.reshape(tuple(shape))

    def copy(self, operand: Operand) -> Operand:
        """Backend of arrays on the GPU, of any library."""
        source = describe(operand.array, "an array")
        shape = (source.scalars,)
        with self.dispatcher.device as gpu:
            copied, pointer = new_array(self.leader, shape, source.kind, gpu)
            if source.scalars:
                self._queue().copy(pointer, source.pointer, source.size)
        return Operand(copied, shape, source.kind, self.leader)

    def constant(self, array: np.ndarray) -> Operand:
        view = self._bytes(array.size, array.dtype)
        with self.dispatcher.device as gpu, translated_errors(f"copying {array.nbytes} bytes to the GPU"):
            self._queue().wait()  # earlier work may still use this memory
            gpu.cuda.memcpy_htod(view.pointer, np.ascontiguousarray(array))
            PyCudaQueue(gpu, None).wait()  # other streams do not wait for the default one
        return Operand(view, array.shape, array.dtype.name, self.leader)

    def to_host(self, array: Any) -> np.ndarray:
        info = describe(array, "a result")
        return self._read(info, info.scalars)

    def tail(self, operand: Operand, count: int) -> np.ndarray:
        return self._read(describe(operand.array, "an operand"), count)

    def synchronize(self) -> None:
        self.dispatcher.synchronize()

    def is_capturing(self, stream: int) -> bool:
        with self.dispatcher.device:
            return libcuda.is_capturing(stream)

    def read(self, address: int, array: np.ndarray) -> None:
        with self.dispatcher.device as gpu, translated_errors(f"copying {array.nbytes} bytes from the GPU"):
            if array.nbytes:
                gpu.cuda.memcpy_dtoh(array, address)

    def copy_to(self, out: Any, result: Any) -> Any:
        check_out(out, result)
        if hasattr(out, "copy_"):
            out.copy_(result)
        elif hasattr(out, "__setitem__"):
            out[...] = result
        else:  # an array of ours
            _overwrite(self.dispatcher.device, partial(producer_stream, out), out, result)
        return out

    def span(self, operand: Operand) -> tuple[int, int]:
        info = describe(operand.array, "an array")
        return info.pointer, info.size

    def storage(self, buffer: Buffer, kept: Any) -> Operand:
        shape, kind = self._form(buffer)
        if kept is not None and is_on_gpu(kept) and library_of(kept) is library_of(self.leader):
            info = describe(kept, "storage")
            if (info.shape, info.kind) == (shape, kind):
                return Operand(kept, shape, kind, kept)
        array = self.new_result(shape, kind, self.leader)
        return Operand(array, shape, kind, array)

    def load(self, call: CallPlan) -> GpuPlan | GpuWalk:
        loaded: GpuPlan | GpuWalk = self.dispatcher.load_on_gpu(call)
        return loaded

    def address_of(self, array: Any) -> Callable[[Any], int]:
        fast = library_of(array).fast
        return fast.pointer if fast is not None else _pointer

    def maker_of(self, result: Any) -> Callable[[], Any]:
        return self._maker(result, tuple(result.shape), describe(result, "a result").kind)

    def bytes_maker(self, count: int) -> Callable[[], Any]:
        return self._maker(self.leader, (count,), "uint8")

    def _maker(self, like: Any, shape: tuple[int, ...], kind: str) -> Callable[[], Any]:
        """A function that allocates an array of the library of another."""
        fast = library_of(like).fast
        if fast is not None:
            return fast.maker(shape, kind, self.dispatcher.device.number)
        return lambda: self.new_result(shape, kind, like)

    def _form(self, buffer: Buffer) -> tuple[tuple[int, ...], str]:
        """Shape and element type of an array for a buffer of known extents."""
        extents = tuple(extent or 0 for extent in buffer.shape)
        return array_of(buffer, extents), kind_of(buffer.dtype, self.leader)

    def check(self, operand: Operand, buffer: Buffer, where: str) -> None:
        take(operand.array, buffer, where, self.dispatcher.device.number)
        if buffer.dimensions > 1:
            argument_shape(buffer, operand, where)

    def allocate(self, buffer: Buffer) -> tuple[Any, int]:
        array = self.new_result(*self._form(buffer), self.leader)
        return array, _pointer(array)

    def is_lasting(self, operands: Sequence[Operand]) -> bool:
        library, number = library_of(self.leader), self.dispatcher.device.number
        owners = [operand.owner for operand in operands]
        return library.fast is not None and all(
            library_of(owner) is library and library.number(owner) == number for owner in owners
        )

    def is_in_place(self, operand: Operand) -> bool:
        return operand.array is operand.owner

    def new_result(self, shape: tuple[int, ...], kind: str, like: Any) -> Any:
        with self.dispatcher.device as gpu:
            return new_array(like, tuple(shape), kind, gpu)[0]

    def access(self, operands: Sequence[Operand]) -> ArrayAccess:
        dispatcher = self.dispatcher

        def contiguous(array: Any) -> Any:
            return dispatcher.contiguous(array, describe(array, "an array"))

        if self.is_lasting(operands):
            fast = library_of(self.leader).fast
            assert fast is not None
            stream = fast.stream(dispatcher.device.number)

            def is_recording() -> bool:
                return self.is_capturing(stream())

            return ArrayAccess(
                stream,
                is_recording,
                contiguous,
                fast.clone,
                partial(_overwrite, dispatcher.device, stream),
                ALIGNMENT,
            )
        stream = partial(self._joined_stream, operands)
        return ArrayAccess(
            stream,
            lambda: False,
            contiguous,
            self._clone,
            partial(_overwrite, dispatcher.device, stream),
            ALIGNMENT,
            self._finish,
        )

    def _joined_stream(self, operands: Sequence[Operand]) -> int:
        """The leader's stream, after the work on those of the other arrays."""
        stream = producer_stream(self.leader)
        with self.dispatcher.device as gpu:
            for handle in {producer_stream(operand.owner) for operand in operands} - {stream}:
                queue_of(gpu, handle).wait()
        return stream

    def _clone(self, array: Any) -> Any:
        info = describe(array, "an array")
        return self.copy(Operand(array, info.shape, info.kind, array)).array.reshape(info.shape)

    def _finish(self) -> None:
        """Wait: allocators that know nothing of streams must not get memory back while it is in use."""
        with self.dispatcher.device:
            self._queue().wait()
            self.dispatcher.raise_fault()

    def _read(self, info: Description, count: int) -> np.ndarray:
        """The last `count` scalars of an array."""
        scalars = np.empty(min(count, info.scalars), np.dtype(info.stored))
        if scalars.size:
            start = info.pointer + (info.scalars - scalars.size) * scalars.itemsize
            with (
                self.dispatcher.device as gpu,
                translated_errors(f"copying {scalars.nbytes} bytes from the GPU"),
            ):
                self._queue().wait()
                self.dispatcher.raise_fault()
                gpu.cuda.memcpy_dtoh(scalars, start)
        return scalars

    def _bytes(self, count: int, dtype: np.dtype[Any]) -> View:
        size = count * dtype.itemsize
        with self.dispatcher.device as gpu:
            array, pointer = new_array(self.leader, (max(1, size),), "uint8", gpu)
        return View(pointer, size, count, array, dtype.name)

    def _queue(self) -> Queue:
        """The context must be current."""
        return queue_of(self.dispatcher.device, producer_stream(self.leader))


def _pointer(array: Any) -> int:
    return describe(array, "an array").pointer


def _overwrite(device: Device, stream: Callable[[], int], array: Any, copy: Any) -> None:
    """Give an array the contents of another."""
    source = describe(copy, "a copy")
    if source.scalars:
        with device:
            queue_of(device, stream()).copy(_pointer(array), source.pointer, source.size)
