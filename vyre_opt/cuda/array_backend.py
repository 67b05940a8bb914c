"""The array backend of arrays on a GPU (see `vyre_opt.runtime.array_backend`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.program import AccessMode, Module, Program
from ..ir.types import DataType
from ..lowering.nvptx.abi import ALIGNMENT
from ..runtime.array_backend import Operand, check_out
from ..runtime.arrays import storage_type
from ..runtime.dispatcher import BadInputs, DispatcherLike, Scratch, shared_dispatcher
from ..runtime.kernel_call import FastCall, KernelCall
from .device_arrays import Description, View, describe, new_array, producer_stream
from .driver import translated_errors
from .fast_call import fast_call
from .libraries import library_of, must_outlive_work
from .queues import PyCudaQueue, Queue, queue_of

__all__ = ["GpuArrays", "gpu_arrays"]


def gpu_arrays(dispatcher: DispatcherLike | None, name: str, leader: Any) -> GpuArrays:
    """The backend for arrays on the GPU of `leader`, which messages call `name`.

    `dispatcher`: "cuda" or None stand for the one of that GPU.  Raises BadInputs for another target.
    """
    if dispatcher is None or dispatcher == "cuda":
        number = library_of(leader).number(leader) or _dlpack_number(leader)
        dispatcher = shared_dispatcher("cuda", device=number)
    target = dispatcher if isinstance(dispatcher, str) else shared_dispatcher(dispatcher).name
    if target != "cuda":
        raise BadInputs(
            f"{name} is on the GPU, where {target} does not run; choose cuda, or copy it to main memory"
        )
    return GpuArrays(shared_dispatcher(dispatcher), leader)


def _dlpack_number(leader: Any) -> int:
    where = getattr(leader, "__dlpack_device__", None)
    return 0 if where is None else int(where()[1])


class GpuArrays:
    """Arrays on one GPU.  New ones come from the library of `leader`, and work goes to its current stream.

    `to_host`, `tail` and `constant` wait for the GPU; so does `run` where an argument is memory of
    this project's pool, which knows nothing of streams and might give it away too early.
    """

    on_gpu = True

    def __init__(self, dispatcher: Any, leader: Any) -> None:
        self.dispatcher = dispatcher
        self.target = dispatcher.name
        self.workers: int = self.dispatcher.device.facts.multiprocessors
        self.leader = leader

    def take(self, source: Any, name: str) -> Operand:
        info = describe(source, name)
        return Operand(self.dispatcher.contiguous(source, info), info.shape, info.kind, source)

    def run(
        self,
        program: Program,
        arguments: Sequence[Any],
        grid: int | Sequence[int] | None,
        *,
        module: Module | None = None,
        params: Mapping[str, Any] | None = None,
        scratch: Scratch | None = None,
    ) -> list[Any]:
        plain = [a.array if isinstance(a, Operand) else a for a in arguments]
        outputs: list[Any] = self.dispatcher.dispatch(
            program, plain, grid, module=module, params=params, scratch=scratch
        )
        has_views = any(isinstance(a, View) for a in plain) and not library_of(self.leader).is_stream_ordered
        if has_views or _has_temporary(arguments):
            with self.dispatcher.device:
                self._queue().wait()
        return outputs

    def run_in_place(
        self,
        program: Program,
        operands: Sequence[Operand],
        grid: int | Sequence[int],
        shared: Collection[int],
        *,
        module: Module | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        """Run a program on an operand for each bound buffer, which it may write.

        `shared`: the numbers of those that are copied first.  So are those that are not aligned, and copied back after.
        """
        taken = [
            self._copy_in_shape(operand) if number in shared or self.span(operand)[0] % ALIGNMENT else operand
            for number, operand in enumerate(operands)
        ]
        stream = producer_stream(self.leader)
        with self.dispatcher.device as gpu:
            for handle in {producer_stream(operand.owner) for operand in operands} - {stream}:
                queue_of(gpu, handle).wait()
        arrays = [operand.array for operand in taken]
        self.dispatcher.launch(program, arrays, grid, module=module, params=params, stream=stream)
        for buffer, operand, used in zip(program.bound_buffers, operands, taken, strict=True):
            if used is not operand and buffer.access is not AccessMode.READ:
                self.overwrite(operand, used.array)
        if _has_temporary(taken):
            with self.dispatcher.device:
                self._queue().wait()

    def _copy_in_shape(self, operand: Operand) -> Operand:
        copied = self.copy(operand).array.reshape(operand.shape)
        return Operand(copied, operand.shape, operand.kind, operand.owner)

    def result(self, array: Any, shape: Sequence[int], like: Operand) -> Any:
        return array.reshape(tuple(shape))

    def empty(self, shape: Sequence[int], like: Operand, kind: str = "") -> Any:
        with self.dispatcher.device as gpu:
            return new_array(like.owner, tuple(shape), kind or like.kind, gpu)[0]

    def copy(self, operand: Operand) -> Operand:
        """On the GPU, of whatever library the array is."""
        source = describe(operand.array, "an array")
        shape = (source.scalars,)
        with self.dispatcher.device as gpu:
            copied, pointer = new_array(self.leader, shape, source.kind, gpu)
            if source.scalars:
                self._queue().copy(pointer, source.pointer, source.size)
        return Operand(copied, shape, source.kind, self.leader)

    def zeros(self, count: int, dtype: DataType) -> View:
        stored = storage_type(dtype)
        assert stored is not None
        view = self._bytes(count, stored)
        with self.dispatcher.device:
            self._queue().zero(view.pointer, view.size)
        return view

    def constant(self, array: np.ndarray) -> View:
        view = self._bytes(array.size, array.dtype)
        with self.dispatcher.device as gpu, translated_errors(f"copying {array.nbytes} bytes to the GPU"):
            self._queue().wait()  # earlier work may still use this memory
            gpu.cuda.memcpy_htod(view.pointer, np.ascontiguousarray(array))
            PyCudaQueue(gpu, None).wait()  # other streams do not wait for the default one
        return view

    def to_host(self, array: Any) -> np.ndarray:
        info = describe(array, "a result")
        return self._read(info, info.scalars)

    def tail(self, operand: Operand, count: int) -> np.ndarray:
        return self._read(describe(operand.array, "an operand"), count)

    def synchronize(self) -> None:
        self.dispatcher.synchronize()

    def copy_to(self, out: Any, result: Any) -> Any:
        check_out(out, result)
        if hasattr(out, "copy_"):
            out.copy_(result)
        elif hasattr(out, "__setitem__"):
            out[...] = result
        else:  # an array of ours
            self.overwrite(self.take(out, "out"), result)
        return out

    def contiguous(self, array: Any) -> Any:
        return self.dispatcher.contiguous(array, describe(array, "an array"))

    def span(self, operand: Operand) -> tuple[int, int]:
        info = describe(operand.array, "an array")
        return info.pointer, info.size

    def overwrite(self, operand: Operand, result: Any) -> None:
        source = describe(result, "a result")
        if source.scalars:
            with self.dispatcher.device:
                self._queue().copy(describe(operand.array, "an array").pointer, source.pointer, source.size)

    def fast_call(
        self, call: KernelCall, operands: Sequence[Operand], results: Sequence[Any]
    ) -> FastCall | None:
        return fast_call(self, call, operands, results)

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


def _has_temporary(arguments: Sequence[Any]) -> bool:
    """Whether an operand is a copy whose memory may be given away before the work on it is done."""
    return any(isinstance(a, Operand) and must_outlive_work(a.array, a.owner) for a in arguments)
