"""Arrays of whatever library and memory the caller has, for functions that compute on them.

    backend = array_backend_of(dispatcher, {"x": x})
    operand = backend.take(x, "x")                      as a dispatcher takes it
    loaded = backend.load(plan_of(call, [operand]))
    y = backend.new_result(shape, operand.kind, x)      of the library and the type of x

Arrays stay where they are, in main memory or on a GPU, and so do the results.  In main memory they are
NumPy's, or torch's for a torch tensor; `vyre_opt.targets.cuda.array_backend` has those on GPUs.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..ir.program import Buffer
from ..records import dataclass
from . import output_memory
from .arrays import STORED_AS, fits_buffer, new_storage
from .dispatcher import BackendError, BadInputs, Dispatcher, OutputAlloc
from .inputs import Parameter
from .plans.watch import in_main_memory
from .shapes import argument_shape, array_of, shape_of
from .signatures import library_of_type, signature_of
from .target import as_target

if TYPE_CHECKING:
    from .plans.call_plan import CallPlan, Loaded

__all__ = [
    "NOT_CONTIGUOUS",
    "ArrayAccess",
    "HostArrays",
    "Operand",
    "ArrayBackend",
    "check_out",
    "is_in_place",
    "is_torch",
]

NOT_CONTIGUOUS = "is not contiguous; pass a contiguous copy, and copy what is written back after the call"
"""Words of an error about an array that is used in place."""


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
    on_gpu: bool

    @property
    def workers(self) -> int: ...

    def take(self, source: Any, name: str) -> Operand:
        """An array of the caller's, which messages call `name`.  Raises BadInputs."""

    def operand(
        self, argument: Any, buffer: Buffer, where: str, name: str = "", owner: str = "program"
    ) -> Operand:
        """The argument for a buffer, checked.  Raises BadInputs, with a message that begins with `where`.

        `name`: of an array that is none, by default `where`; `owner`: what declares the buffer.
        """

    def result(self, array: Any, shape: Sequence[int], like: Operand) -> Any:
        """A flat array in a shape, as one of the library of `like` and, for bf16, of its type."""

    def copy(self, operand: Operand) -> Operand:
        """A copy of an operand, flat."""

    def constant(self, array: np.ndarray) -> Operand:
        """A NumPy array as an operand."""

    def to_host(self, array: Any) -> np.ndarray:
        """A result as a flat NumPy array."""

    def tail(self, operand: Operand, count: int) -> np.ndarray:
        """The last `count` elements of an operand, or all if it has fewer."""

    def synchronize(self) -> None:
        """Wait for the work on the GPU.  Raises the ProgramError of a fault."""

    def is_capturing(self, stream: int) -> bool:
        """Whether work on a stream becomes a part of a graph, and does not run."""

    def read(self, address: int, array: np.ndarray) -> None:
        """Copy the bytes at an address of this memory to a NumPy array; work on a GPU that writes them is done."""

    def copy_to(self, out: Any, result: Any) -> Any:
        """Copy a result to an array of the caller, which is returned.  Raises BadInputs if it does not fit."""

    def span(self, operand: Operand) -> tuple[int, int]:
        """The address of an operand, and its bytes."""

    def storage(self, buffer: Buffer, kept: Any) -> Operand:
        """Memory for a buffer of known extents: what was `kept` of an earlier call, if it will do."""

    def load(self, call: CallPlan) -> Loaded:
        """The plan of a call, compiled.  Raises what a dispatch does."""

    def address_of(self, array: Any) -> Callable[[Any], int]:
        """A function that gives the address of such arrays."""

    def maker_of(self, result: Any) -> Callable[[], Any]:
        """A function that allocates an array like a result."""

    def bytes_maker(self, count: int) -> Callable[[], Any]:
        """A function that allocates an array of bytes, of the arrays' library."""

    def check(self, operand: Operand, buffer: Buffer, where: str) -> None:
        """Raises BadInputs, with a message that begins with `where`, for an operand that does not fit a buffer."""

    def allocate(self, buffer: Buffer) -> tuple[Any, int]:
        """See `Watch.allocate`."""

    def access(self, operands: Sequence[Operand]) -> ArrayAccess:
        """Operations of planned calls on such arrays."""

    def is_lasting(self, operands: Sequence[Operand]) -> bool:
        """Whether later arrays like the operands' owners can be taken without a look at more than their signatures."""

    def is_in_place(self, operand: Operand) -> bool:
        """Whether code can work on a contiguous operand where the caller has it."""

    def new_result(self, shape: tuple[int, ...], kind: str, like: Any) -> Any:
        """A new array of the library of an array, and of a type as `Operand.kind` has them."""


@dataclass(frozen=True, slots=True)
class ArrayAccess:
    """The ways to the arrays of a library that a call needs again and again; it holds no array.

    `stream()`: the handle of the stream that work goes to now.  `is_recording()`: whether work there is recorded and not
    run.  `contiguous(array)`: the array, or a contiguous copy of it.  `clone(array)`: a copy.  `overwrite(array, copy)`:
    gives an array the contents of a copy of it.  `alignment`: of the addresses of results, in bytes.  `finish`: to be
    called after each run, where the library's allocator does not see to it that memory outlives the work on it.
    """

    stream: Callable[[], int]
    is_recording: Callable[[], bool]
    contiguous: Callable[[Any], Any]
    clone: Callable[[Any], Any]
    overwrite: Callable[[Any, Any], None]
    alignment: int = 1
    finish: Callable[[], None] | None = None


class HostArrays:
    """Arrays in main memory.

    `dispatcher`: one of this project, or one of the caller's that has `dispatch` alone.
    """

    on_gpu = False

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self._target = as_target(dispatcher)
        self.target = self._target.name

    @property
    def workers(self) -> int:
        return self._target.workers

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

    def operand(
        self, argument: Any, buffer: Buffer, where: str, name: str = "", owner: str = "program"
    ) -> Operand:
        """Takes bytes, too."""
        is_bytes = isinstance(argument, (bytes, bytearray, memoryview))
        # of a type that NumPy does not know, such as bfloat16 of ml_dtypes, is what has kind V
        is_plain = is_bytes or (isinstance(argument, (np.ndarray, np.generic)) and argument.dtype.kind != "V")
        taken = None if is_plain else self.take(argument, name or where)
        given = argument if taken is None else taken.array.reshape(taken.shape)
        array = Parameter.of(buffer, where, owner).take(given)
        shape = array.shape if is_bytes else shape_of(argument)  # a memoryview's own shape means nothing
        if is_bytes and buffer.dimensions > 1:
            shape = array_of(buffer, argument_shape(buffer, argument, where))
        kind = array.dtype.name if taken is None else taken.kind
        return Operand(array, array.shape if shape is None else shape, kind, argument)

    def result(self, array: Any, shape: Sequence[int], like: Operand) -> Any:
        shaped = np.asarray(array).reshape(tuple(shape))
        is_bf16 = like.kind == "bfloat16" and shaped.dtype == np.uint16
        if is_torch(like.owner):
            return _torch_bf16(shaped) if is_bf16 else sys.modules["torch"].from_numpy(shaped)
        if is_bf16 and str(getattr(like.owner, "dtype", "")) == "bfloat16":
            return shaped.view(like.owner.dtype)
        return shaped

    def copy(self, operand: Operand) -> Operand:
        copied = operand.array.copy()
        return Operand(copied, copied.shape, operand.kind, operand.owner)

    def constant(self, array: np.ndarray) -> Operand:
        return self.take(array, "a table")

    def to_host(self, array: Any) -> np.ndarray:
        return np.asarray(array).reshape(-1)

    def tail(self, operand: Operand, count: int) -> np.ndarray:
        elements: np.ndarray = operand.array[-count:]
        return elements

    def synchronize(self) -> None:
        """Do nothing: a run in main memory ends before it returns."""

    def is_capturing(self, stream: int) -> bool:
        return False

    def read(self, address: int, array: np.ndarray) -> None:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def copy_to(self, out: Any, result: Any) -> Any:
        check_out(out, result)
        if is_torch(out):
            out.copy_(result)
        else:
            np.copyto(out, result)
        return out

    def span(self, operand: Operand) -> tuple[int, int]:
        return operand.array.ctypes.data, operand.array.nbytes

    def storage(self, buffer: Buffer, kept: Any) -> Operand:
        is_kept = isinstance(kept, np.ndarray) and fits_buffer(kept, buffer)
        return self.take(kept if is_kept else new_storage(buffer, np.empty), "storage")

    def load(self, call: CallPlan) -> Loaded:
        return self._target.load(call)

    def address_of(self, array: Any) -> Callable[[Any], int]:
        return _torch_address if is_torch(array) else output_memory.address

    def maker_of(self, result: Any) -> Callable[[], Any]:
        if result.nbytes < output_memory.MIN_BYTES:
            shape = tuple(result.shape)
            if is_torch(result):
                return partial(sys.modules["torch"].empty, shape, dtype=result.dtype)
            return partial(np.empty, shape, result.dtype)
        flat = self.take(result, "a result")
        small = result.new_empty(0) if is_torch(result) else np.empty(0, result.dtype)
        count, stored, shape = flat.count, flat.array.dtype, tuple(result.shape)
        like = Operand(np.empty(0, stored), shape, flat.kind, small)
        return lambda: self.result(output_memory.empty(count, stored), shape, like)

    def bytes_maker(self, count: int) -> Callable[[], Any]:
        return partial(np.empty, count, np.uint8)

    def check(self, operand: Operand, buffer: Buffer, where: str) -> None:
        Parameter.of(buffer, where).take(operand.array.reshape(operand.shape))

    def allocate(self, buffer: Buffer) -> tuple[Any, int]:
        return in_main_memory(buffer)

    def access(self, operands: Sequence[Operand]) -> ArrayAccess:
        return _HOST

    def is_lasting(self, operands: Sequence[Operand]) -> bool:
        return all(signature_of(operand.owner) is not None for operand in operands)

    def is_in_place(self, operand: Operand) -> bool:
        return is_in_place(operand)

    def new_result(self, shape: tuple[int, ...], kind: str, like: Any) -> Any:
        stored = np.dtype(STORED_AS.get(kind, kind))
        # a bool array that holds other bytes than 0 and 1 is undefined in NumPy
        make: Callable[..., np.ndarray] = np.zeros if stored == np.bool_ else output_memory.empty
        try:
            flat = make(prod(shape), stored)
        except (MemoryError, ValueError) as error:  # ValueError: beyond the address space
            raise BackendError(f"not enough memory: {error}") from None
        return self.result(flat, shape, Operand(None, shape, kind, like))


def _contiguous(array: Any) -> Any:
    if is_torch(array):
        return array if array.is_contiguous() else array.detach().contiguous()
    return array if array.flags.c_contiguous else array.copy()


def _clone(array: Any) -> Any:
    return array.clone() if is_torch(array) else array.copy()


_torch_address: Callable[[Any], int] = methodcaller("data_ptr")


# `int()` is 0, which stands for no stream
_HOST = ArrayAccess(int, bool, _contiguous, _clone, np.copyto)


def is_in_place(operand: Operand) -> bool:
    """Whether code can work on an operand where the caller has it."""
    read = _torch_address if is_torch(operand.owner) else output_memory.address
    # the address of an empty array may be anything
    is_there = read(operand.owner) == output_memory.address(operand.array) or not operand.count
    return is_there and bool(operand.array.flags.aligned)


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
        message = f"out has shape {tuple(out.shape)} of {out.dtype}, the result {tuple(result.shape)} of {result.dtype}"
        raise BadInputs(f"{message}{_new_array(result)}")


def _new_array(result: Any) -> str:
    """The expression for an array like a result, as a remedy; nothing for a library that is not known."""
    library = _MODULES.get(library_of_type(type(result)))
    if library is None:
        return ""
    dtype = str(result.dtype) if is_torch(result) else f"{library}.{result.dtype}"
    is_elsewhere = is_torch(result) and result.device.type != "cpu"
    device = f", device='{result.device}'" if is_elsewhere else ""
    return f": pass {library}.empty({tuple(result.shape)}, dtype={dtype}{device})"


_MODULES = {"numpy": "np", "torch": "torch", "cupy": "cp"}
"""Array libraries, by the names that people import them under."""


def _from_any(source: Any, name: str) -> tuple[np.ndarray, str]:
    try:
        only_dlpack = hasattr(source, "__dlpack__") and not hasattr(source, "__array__")
        array = np.from_dlpack(source) if only_dlpack else np.asarray(source)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise BadInputs(f"{name} is not an array of numbers: {error}") from None
    if isinstance(source, (bytes, bytearray, str)):
        bytes_of = f"{name.rpartition(' ')[2]}{'.encode()' if isinstance(source, str) else ''}"
        raise BadInputs(
            f"{name} is {type(source).__name__}, not an array; pass np.frombuffer({bytes_of}, np.uint8)"
        )
    own = name.rpartition(" ")[2]
    if isinstance(source, np.ma.MaskedArray) and np.ma.is_masked(source):
        raise BadInputs(
            f"{name} is an array with masked elements, and a kernel computes with all; pass {own}.filled(0) for a sum, {own}.filled(-np.inf) for "
            f"a maximum or a softmax, or {own}.data and {own}.mask as two arrays"
        )
    if array.dtype.kind == "c":
        part = f"np.float{4 * array.dtype.itemsize}"
        raise BadInputs(
            f"{name} is an array of {array.dtype.name}, and a kernel has no complex numbers; pass {own}.real.copy() and {own}.imag.copy() as two "
            f"arrays, or {own}.view({part}), where real and imaginary parts take turns"
        )
    if array.dtype.kind == "O" and array.ndim:
        raise BadInputs(
            f"{name} is not an array of numbers: {type(source).__name__} of objects of Python; pass np.array({own}.tolist(), np.float32), "
            "whose rows are of one length"
        )
    if array.dtype.kind in "mM":
        raise BadInputs(
            f"{name} is an array of {array.dtype.name}; pass {own}.view(np.int64), which counts from 1970 or from 0"
        )
    if array.dtype.kind not in "biufV":
        raise BadInputs(
            f"{name} is not an array of numbers: {type(source).__name__} of {array.dtype.name}; pass one, such as "
            "np.zeros(n, np.float32)"
        )
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
