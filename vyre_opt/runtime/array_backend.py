"""Arrays of whatever library and memory the caller has, for functions that compute on them.

    backend = array_backend_of(dispatcher, {"x": x})
    operand = backend.take(x, "x")                               as a dispatcher takes it
    (y,) = backend.run(program, [operand, OutputAlloc(n)], grid)
    y = backend.result(y, operand.shape, operand)                of the library and the type of x

Arrays stay where they are, in main memory or on a GPU, and so do the results.  In main memory they are
NumPy's, or torch's for a torch tensor; `vyre_opt.cuda.array_backend` has those on GPUs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..ir.program import Module, Program
from ..ir.types import DataType
from ..lowering.common.row_major import has_rows
from .arrays import storage_type
from .dispatcher import BadInputs, Dispatcher, OutputAlloc, Scratch
from .params import param_words
from .signatures import library_of_type

if TYPE_CHECKING:
    from .kernel_call import FastCall, KernelCall

__all__ = ["NOT_CONTIGUOUS", "HostArrays", "Operand", "ArrayBackend", "check_out", "is_torch"]

NOT_CONTIGUOUS = "is not contiguous; pass a contiguous copy, and copy what is written back after the call"
"""What is said of an array that is used in place."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An array that a program is to read.

    `array`: as a dispatcher takes it, contiguous; in main memory flat, with bf16 as its bits.
    `kind`: the element type as NumPy names it, or bfloat16.  `owner`: the caller's array; results
    come from the same library.
    """

    array: Any
    shape: tuple[int, ...]
    kind: str
    owner: Any

    @property
    def count(self) -> int:
        return prod(self.shape)


class ArrayBackend(Protocol):
    """`target`: the dispatcher's name, by which schedules are chosen.  `workers`: its threads, or
    the multiprocessors of a GPU."""

    dispatcher: Dispatcher
    target: str
    workers: int
    on_gpu: bool

    def take(self, source: Any, name: str) -> Operand:
        """An array of the caller's, which messages call `name`.  Raises BadInputs."""

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
        """Dispatch on operands, `OutputAlloc`s, and the results of `zeros`, `constant` and `copy`.

        The caller promises not to change `program` or `module` any more.
        """

    def result(self, array: Any, shape: Sequence[int], like: Operand) -> Any:
        """An output of `run` in a shape, as an array of the library of `like` and, for bf16, of its type."""

    def empty(self, shape: Sequence[int], like: Operand, kind: str = "") -> Any:
        """A result of a shape without elements, of the element type of `like`, or of the one that NumPy names `kind`."""

    def copy(self, operand: Operand) -> Operand:
        """A copy of an operand, flat."""

    def zeros(self, count: int, dtype: DataType) -> Any:
        """Zeroed storage for an argument of `run` that is neither input nor result."""

    def constant(self, array: np.ndarray) -> Any:
        """A NumPy array as an argument of `run`."""

    def to_host(self, array: Any) -> np.ndarray:
        """A result as a flat NumPy array."""

    def tail(self, operand: Operand, count: int) -> np.ndarray:
        """The last `count` elements of an operand, or all if it has fewer."""

    def synchronize(self) -> None:
        """Wait for what `run` has enqueued.  Raises the ProgramError of a fault."""

    def copy_to(self, out: Any, result: Any) -> Any:
        """Copy a result to an array of the caller, which is returned.  Raises BadInputs if it does not fit."""

    def contiguous(self, array: Any) -> Any:
        """An array of the caller's, or a contiguous copy of one that is not, of its library."""

    def span(self, operand: Operand) -> tuple[int, int]:
        """The address of an operand, and its bytes."""

    def overwrite(self, operand: Operand, result: Any) -> None:
        """Copy a result to the memory of an operand, of as many elements of its type."""

    def fast_call(
        self, call: KernelCall, operands: Sequence[Operand], results: Sequence[Any]
    ) -> FastCall | None:
        """The call for arrays with the signatures of the operands' owners, after one with these `results`.

        None where each such call needs more: arrays that are copied before they are read, or joined.
        """


class HostArrays:
    """Arrays in main memory.

    On the path of every call, which is tuned: where there is `CpuDispatcher.prepared` it is called
    directly, since checking the program again would cost more than a small kernel.
    """

    on_gpu = False

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.target: str = getattr(dispatcher, "name", "")
        self.workers: int = getattr(dispatcher, "workers", 1)
        self._prepared = getattr(dispatcher, "prepared", None)

    def take(self, source: Any, name: str) -> Operand:
        """Takes NumPy arrays, torch tensors, and whatever NumPy makes an array of."""
        if type(source) is np.ndarray and source.dtype in _PLAIN:
            # of no dimensions, NumPy would make one
            return Operand(
                np.ascontiguousarray(source).reshape(-1), source.shape, _PLAIN[source.dtype], source
            )
        if isinstance(source, OutputAlloc):
            raise BadInputs(f"{name} is read; pass an array")
        array, kind = _from_torch(source, name) if is_torch(source) else _from_any(source, name)
        shape, array = array.shape, np.ascontiguousarray(array)
        if str(array.dtype) == "bfloat16":
            array = array.view(np.uint16)
        elif not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        return Operand(array.reshape(-1), shape, kind or str(array.dtype.name), source)

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
        plain = [_plain(a) for a in arguments]
        prepared = self._prepared
        if has_rows(program):
            prepared = getattr(self.dispatcher, "launch_of", None)
        if prepared is not None:
            words = tuple(param_words(f"program @{program.name}", program.params, params).values())
            outputs: list[Any] = prepared(program, module, settled=True)(plain, grid, scratch, words)
            return outputs
        options: dict[str, Any] = {"module": module, "scratch": scratch, "params": params or None}
        given = {name: value for name, value in options.items() if value is not None}
        return self.dispatcher.dispatch(program, plain, grid, **given)  # the caller's own may know no others

    def result(self, array: Any, shape: Sequence[int], like: Operand) -> Any:
        shaped = np.asarray(array).reshape(tuple(shape))
        is_bf16 = like.kind == "bfloat16" and shaped.dtype == np.uint16
        if is_torch(like.owner):
            return _torch_bf16(shaped) if is_bf16 else sys.modules["torch"].from_numpy(shaped)
        if is_bf16 and str(getattr(like.owner, "dtype", "")) == "bfloat16":
            return shaped.view(like.owner.dtype)
        return shaped

    def empty(self, shape: Sequence[int], like: Operand, kind: str = "") -> Any:
        return self.result(np.empty(0, kind or like.array.dtype), shape, like)

    def copy(self, operand: Operand) -> Operand:
        copied = operand.array.copy()
        return Operand(copied, copied.shape, operand.kind, operand.owner)

    def zeros(self, count: int, dtype: DataType) -> Any:
        return np.zeros(count, storage_type(dtype))

    def constant(self, array: np.ndarray) -> Any:
        return array

    def to_host(self, array: Any) -> np.ndarray:
        return np.asarray(array).reshape(-1)

    def tail(self, operand: Operand, count: int) -> np.ndarray:
        elements: np.ndarray = operand.array[-count:]
        return elements

    def synchronize(self) -> None:
        """Nothing: a run in main memory ends before it returns."""

    def copy_to(self, out: Any, result: Any) -> Any:
        check_out(out, result)
        if is_torch(out):
            out.copy_(result)
        else:
            np.copyto(out, result)
        return out

    def contiguous(self, array: Any) -> Any:
        if is_torch(array):
            return array if array.is_contiguous() else array.detach().contiguous()
        return array if array.flags.c_contiguous else array.copy()

    def span(self, operand: Operand) -> tuple[int, int]:
        return operand.array.ctypes.data, operand.array.nbytes

    def overwrite(self, operand: Operand, result: Any) -> None:
        np.copyto(operand.array, self.take(result, "a result").array)

    def fast_call(
        self, call: KernelCall, operands: Sequence[Operand], results: Sequence[Any]
    ) -> FastCall | None:
        plan = getattr(self.dispatcher, "fast_call", None)
        return None if plan is None else plan(call, self, operands, results)


def _plain(argument: Any) -> Any:
    """An argument of `run` as dispatchers take it, in its shape."""
    if not isinstance(argument, Operand):
        return argument
    return argument.array if len(argument.shape) == 1 else argument.array.reshape(argument.shape)


_PLAIN = {np.dtype(code): str(np.dtype(code).name) for code in "?bBhHiIlLqQefd"}
"""Types whose arrays are taken as they are; with their names, since `dtype.name` is slow."""


def check_out(out: Any, result: Any) -> None:
    """Raises BadInputs if an array for a result is not of the result's library, shape and type."""
    if library_of_type(type(out)) != library_of_type(type(result)):
        raise BadInputs(f"out is {type(out).__name__}, the result {type(result).__name__}")
    if not getattr(getattr(out, "flags", None), "writeable", True):
        raise BadInputs("out is read-only")
    strides = out.stride() if is_torch(out) else getattr(out, "strides", None) or ()
    # an array of ours says none, and is contiguous
    expanded = [extent for stride, extent in zip(strides, out.shape, strict=False) if stride == 0]
    if any(extent > 1 for extent in expanded) and 0 not in out.shape:
        raise BadInputs("out has elements that share memory; pass an array that is not expanded")
    if tuple(out.shape) != tuple(result.shape) or out.dtype != result.dtype:
        raise BadInputs(
            f"out has shape {tuple(out.shape)} of {out.dtype}, the result {tuple(result.shape)} of {result.dtype}"
        )


def _from_any(source: Any, name: str) -> tuple[np.ndarray, str]:
    try:
        only_dlpack = hasattr(source, "__dlpack__") and not hasattr(source, "__array__")
        array = np.from_dlpack(source) if only_dlpack else np.asarray(source)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise BadInputs(f"{name} is not an array of numbers: {error}") from None
    if array.dtype.kind not in "biufV":
        raise BadInputs(f"{name} is not an array of numbers: {type(source).__name__} of {array.dtype.name}")
    return array, ""


# --- torch in main memory


def is_torch(source: Any) -> bool:
    """Whether it is torch's, without importing torch."""
    return type(source) is not np.ndarray and library_of_type(type(source)) == "torch"


def _from_torch(source: Any, name: str) -> tuple[np.ndarray, str]:
    """A tensor's memory as a NumPy array, and the name of its type if NumPy has none: bf16, given as its bits."""
    torch = sys.modules["torch"]
    try:
        plain = source.detach().contiguous()
        if plain.dtype is torch.bfloat16:
            return plain.view(torch.int16).numpy().view(np.uint16), "bfloat16"
        return plain.numpy(), ""
    except (TypeError, RuntimeError) as error:
        raise BadInputs(f"{name} cannot be read as a NumPy array: {error}") from None


def _torch_bf16(bits: np.ndarray) -> Any:
    torch = sys.modules["torch"]
    return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)
