"""The place of calls whose arrays are on a GPU (see `vyre_opt.runtime.array_backend`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.program import Module, Program
from ..ir.types import DataType
from ..runtime.array_backend import Operand
from ..runtime.arrays import storage_type
from ..runtime.dispatcher import BadInputs, Dispatcher, DispatcherLike, Scratch, shared_dispatcher
from .device_arrays import Description, View, describe, made, producer_stream
from .driver import told_plainly
from .libraries import library_of
from .queues import Queue, queue_of

__all__ = ["GpuArrays", "gpu_arrays"]


def gpu_arrays(dispatcher: DispatcherLike | None, name: str, leader: Any) -> GpuArrays:
    """The backend for arrays on the GPU of `leader`, which messages call `name`.

    `dispatcher`: "cuda" or None stand for the one of that GPU.  Raises BadInputs for another target.
    """
    if dispatcher is None or dispatcher == "cuda":
        number = library_of(leader).number(leader) or _dlpack_number(leader)
        dispatcher = shared_dispatcher("cuda", device=number)
    target = dispatcher if isinstance(dispatcher, str) else dispatcher.name
    if target != "cuda":
        raise BadInputs(
            f"{name} is on the GPU, where {target} does not run; choose cuda, or copy it to main memory"
        )
    return GpuArrays(shared_dispatcher(dispatcher), leader)


def _dlpack_number(leader: Any) -> int:
    where = getattr(leader, "__dlpack_device__", None)
    return 0 if where is None else int(where()[1])


class GpuArrays:
    """One GPU, the library of `leader`, and the stream on which that library works now.

    Only `to_host` and `constant` wait for the GPU, and `run` where memory of ours is in use: its
    pool knows nothing of streams.
    """

    on_gpu = True
    workers = 1

    def __init__(self, dispatcher: Dispatcher, leader: Any) -> None:
        self.dispatcher: Any = dispatcher
        self.target = dispatcher.name
        self.leader = leader

    def take(self, given: Any, name: str) -> Operand:
        seen = describe(given, name)
        if not seen.contiguous:
            copy = library_of(given).contiguous
            if copy is None:
                raise BadInputs(f"{name} is not contiguous; pass a contiguous copy")
            with self.dispatcher.device:
                return self._operand(copy(given), given, seen)
        return self._operand(given, given, seen)

    def _operand(self, array: Any, owner: Any, seen: Description) -> Operand:
        return Operand(array, seen.shape or (1,), seen.kind, owner)

    def run(
        self,
        program: Program,
        arguments: Sequence[Any],
        grid: int | Sequence[int] | None,
        *,
        module: Module | None = None,
        scratch: Scratch | None = None,
    ) -> list[Any]:
        plain = [a.array if isinstance(a, Operand) else a for a in arguments]
        made: list[Any] = self.dispatcher.dispatch(program, plain, grid, module=module, scratch=scratch)
        if not library_of(self.leader).ordered and any(isinstance(a, View) for a in plain):
            with self.dispatcher.device:
                self._queue().wait()
        return made

    def result(self, array: Any, shape: Sequence[int], like: Operand) -> Any:
        return array.reshape(tuple(shape))

    def empty(self, shape: Sequence[int], like: Operand) -> Any:
        with self.dispatcher.device as gpu:
            return made(like.owner, tuple(shape), like.kind, gpu)[0]

    def join(self, operands: Sequence[Operand]) -> Operand:
        """Copies on the GPU, whoever's the arrays are."""
        seen = [describe(operand.array, "a part") for operand in operands]
        size = np.dtype(seen[0].stored).itemsize
        count = sum(part.scalars for part in seen)
        with self.dispatcher.device as gpu:
            joined, pointer = made(self.leader, (count,), seen[0].kind, gpu)
            queue = self._queue()
            for part in seen:
                if part.scalars:
                    queue.copy(pointer, part.pointer, part.scalars * size)
                pointer += part.scalars * size
        return Operand(joined, (count,), seen[0].kind, self.leader)

    def zeros(self, count: int, dtype: DataType) -> View:
        stored = storage_type(dtype)
        assert stored is not None
        view = self._bytes(count, stored)
        with self.dispatcher.device:
            self._queue().zero(view.pointer, view.size)
        return view

    def constant(self, array: np.ndarray) -> View:
        view = self._bytes(array.size, array.dtype)
        with self.dispatcher.device as gpu, told_plainly(f"copying {array.nbytes} bytes to the GPU"):
            self._queue().wait()  # who had this memory before may still use it
            gpu.cuda.memcpy_htod(view.pointer, np.ascontiguousarray(array))
            gpu.cuda.Context.synchronize()  # other streams do not wait for the default one
        return view

    def to_host(self, array: Any) -> np.ndarray:
        seen = describe(array, "a result")
        return self._read(seen, seen.scalars)

    def tail(self, operand: Operand, count: int) -> np.ndarray:
        return self._read(describe(operand.array, "an operand"), count)

    def _read(self, seen: Description, count: int) -> np.ndarray:
        """The last `count` scalars of an array."""
        found = np.empty(min(count, seen.scalars), np.dtype(seen.stored))
        if found.size:
            start = seen.pointer + (seen.scalars - found.size) * found.itemsize
            with self.dispatcher.device as gpu, told_plainly(f"copying {found.nbytes} bytes from the GPU"):
                self._queue().wait()
                gpu.cuda.memcpy_dtoh(found, start)
        return found

    def _bytes(self, count: int, dtype: np.dtype[Any]) -> View:
        size = count * dtype.itemsize
        with self.dispatcher.device as gpu:
            array, pointer = made(self.leader, (max(1, size),), "uint8", gpu)
        return View(pointer, size, count, array, dtype.name)

    def _queue(self) -> Queue:
        """The context must be current."""
        return queue_of(self.dispatcher.device, producer_stream(self.leader))
