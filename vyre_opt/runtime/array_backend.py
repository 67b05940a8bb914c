"""Where the arrays of a call are: in main memory or on a GPU.  There it runs, and there the results are.

    place = place_of(dispatcher, {"x": x})
    operand = place.take(x, "x")                                 as a dispatcher takes it
    (y,) = place.run(program, [operand, Room(n)], grid)
    y = place.result(y, operand.shape, operand)                  of the library and the type of x

In main memory that is NumPy, or torch for a torch tensor; `vyre_opt.cuda.array_backend` has the GPU's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np

from ..ir.program import Module, Program
from ..ir.types import DataType
from .arrays import storage_type
from .dispatcher import BadInputs, Dispatcher, OutputAlloc, Scratch

__all__ = ["HostArrays", "Operand", "ArrayBackend", "is_torch"]


@dataclass(frozen=True, slots=True)
class Operand:
    """An array of a call.

    `array`: as a dispatcher takes it, contiguous; in main memory flat, and bf16 as its bits.
    `kind`: the element type as NumPy names it, or bfloat16.  `owner`: the caller's array, of whose
    library results are.
    """

    array: Any
    shape: tuple[int, ...]
    kind: str
    owner: Any

    @property
    def count(self) -> int:
        return prod(self.shape)


class ArrayBackend(Protocol):
    """`target`: the dispatcher's name, which schedules are chosen for; `workers`: its threads, of a CPU."""

    dispatcher: Dispatcher
    target: str
    workers: int
    on_gpu: bool

    def take(self, given: Any, name: str) -> Operand:
        """An array of the caller's.  Raises BadInputs that names it."""

    def run(
        self,
        program: Program,
        arguments: Sequence[Any],
        grid: int | Sequence[int] | None,
        *,
        module: Module | None = None,
        scratch: Scratch | None = None,
    ) -> list[Any]:
        """Dispatch on operands, `OutputAlloc`s, and what `zeros`, `constant` and `join` made.

        Nobody changes `program` or `module` any more.
        """

    def result(self, array: Any, shape: Sequence[int], like: Operand) -> Any:
        """What `run` returned, in a shape, of the library of `like` and, where it holds bf16, of its type."""

    def empty(self, shape: Sequence[int], like: Operand) -> Any:
        """A result without elements."""

    def join(self, operands: Sequence[Operand]) -> Operand:
        """The elements of arrays of one type, one array behind the other."""

    def zeros(self, count: int, dtype: DataType) -> Any:
        """Zeroed storage for an argument that is no result."""

    def constant(self, array: np.ndarray) -> Any:
        """An array of ours as an argument."""

    def to_host(self, array: Any) -> np.ndarray:
        """A result as a flat NumPy array."""

    def tail(self, operand: Operand, count: int) -> np.ndarray:
        """The last elements of an operand, at most `count`."""


class HostArrays:
    """Main memory.  What `CpuDispatcher.prepared` keeps makes a call cost far less."""

    on_gpu = False

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.target = dispatcher.name
        self.workers: int = getattr(dispatcher, "workers", 1)
        self._prepared = getattr(dispatcher, "prepared", None)

    def take(self, given: Any, name: str) -> Operand:
        """NumPy arrays, torch tensors, and whatever NumPy makes an array of."""
        if type(given) is np.ndarray and given.dtype in _PLAIN:
            array = np.ascontiguousarray(given)
            return Operand(array.reshape(-1), array.shape, _PLAIN[array.dtype], given)
        if isinstance(given, OutputAlloc):
            raise BadInputs(f"{name} is read; pass an array")
        array, kind = _from_torch(given, name) if is_torch(given) else _from_any(given, name)
        array = np.ascontiguousarray(array)
        if str(array.dtype) == "bfloat16":
            array = array.view(np.uint16)
        elif not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        return Operand(array.reshape(-1), array.shape or (1,), kind or str(array.dtype.name), given)

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
        if self._prepared is not None:
            found: list[Any] = self._prepared(program, module, settled=True)(plain, grid, scratch)
            return found
        return list(self.dispatcher.dispatch(program, plain, grid, module=module, scratch=scratch))

    def result(self, array: Any, shape: Sequence[int], like: Operand) -> Any:
        shaped = np.asarray(array).reshape(tuple(shape))
        is_bf16 = like.kind == "bfloat16" and shaped.dtype == np.uint16
        if is_torch(like.owner):
            return _torch_bf16(shaped) if is_bf16 else sys.modules["torch"].from_numpy(shaped)
        if is_bf16 and str(getattr(like.owner, "dtype", "")) == "bfloat16":
            return shaped.view(like.owner.dtype)
        return shaped

    def empty(self, shape: Sequence[int], like: Operand) -> Any:
        return self.result(np.empty(0, like.array.dtype), shape, like)

    def join(self, operands: Sequence[Operand]) -> Operand:
        joined = np.concatenate([operand.array for operand in operands])
        return Operand(joined, joined.shape, operands[0].kind, operands[0].owner)

    def zeros(self, count: int, dtype: DataType) -> Any:
        return np.zeros(count, storage_type(dtype))

    def constant(self, array: np.ndarray) -> Any:
        return array

    def to_host(self, array: Any) -> np.ndarray:
        return np.asarray(array).reshape(-1)

    def tail(self, operand: Operand, count: int) -> np.ndarray:
        found: np.ndarray = operand.array[-count:]
        return found


_PLAIN = {np.dtype(code): str(np.dtype(code).name) for code in "?bBhHiIlLqQefd"}
"""Types that an array is taken in as it is, and their names, which NumPy takes long to spell."""


def _from_any(given: Any, name: str) -> tuple[np.ndarray, str]:
    try:
        only_dlpack = hasattr(given, "__dlpack__") and not hasattr(given, "__array__")
        array = np.from_dlpack(given) if only_dlpack else np.asarray(given)
    except (TypeError, ValueError, BufferError, RuntimeError) as refused:
        raise BadInputs(f"{name} is not an array of numbers: {refused}") from None
    if array.dtype.kind not in "biufV":
        raise BadInputs(f"{name} is not an array of numbers: {type(given).__name__} of {array.dtype.name}")
    return array, ""


# --- torch in main memory


def is_torch(given: Any) -> bool:
    return type(given) is not np.ndarray and type(given).__module__.partition(".")[0] == "torch"


def _from_torch(given: Any, name: str) -> tuple[np.ndarray, str]:
    """A tensor's memory as NumPy sees it, bf16 as its bits; and its type where NumPy has none."""
    torch = sys.modules["torch"]
    try:
        plain = given.detach().contiguous()
        if plain.dtype is torch.bfloat16:
            return plain.view(torch.int16).numpy().view(np.uint16), "bfloat16"
        return plain.numpy(), ""
    except (TypeError, RuntimeError) as refused:
        raise BadInputs(f"{name} cannot be read as a NumPy array: {refused}") from None


def _torch_bf16(bits: np.ndarray) -> Any:
    torch = sys.modules["torch"]
    return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)
