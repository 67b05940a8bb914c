"""Descriptions of arguments as JSON, the values that they describe, and results as text.

    3, "f32", None, [...]                          themselves
    {"dict": {...}}, {"tuple": [...]}              of descriptions
    {"float": "nan"}, {"number": ["float32", 2]}   a float that JSON has not; a scalar of NumPy
    {"bytes": "6f6e65", "in": "memoryview"}        text
    {"same": 0}, {"part": 0, "from": 1, "to": 9}   an array of the call again, or a part of it
    {"dispatcher": "cpu"}, {"alloc": 9}, {"object": "set"}
    {"array": "float32", "shape": [3, 5], "in": "numpy", "as": "strided", "of": "nan", "seed": 7}

The numbers of an array are the digest of its seed, so no library of random numbers can change them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from blake3 import blake3

__all__ = ["LAYOUTS", "Arguments", "shown", "text_of"]

Gpu = Callable[[np.ndarray, str], Any]
"""`gpu(array, "gpu" or "interface")`: an array in main memory as one on the GPU, with its layout."""

OBJECTS: dict[str, Callable[[], Any]] = {"object": object, "set": lambda: {1, 2}, "function": lambda: len}


class Arguments:
    """What the arguments of one turn of a call are made of.  `turn`: changes the numbers in arrays.

    `memory`: all that the arrays lie in, what is between the elements of strided ones included.
    """

    def __init__(self, turn: int, gpu: Gpu, dispatcher: Callable[[str], Any]) -> None:
        self.turn, self.gpu, self.dispatcher = turn, gpu, dispatcher
        self.arrays: list[Any] = []
        self.memory: list[np.ndarray] = []

    def build(self, about: Any) -> Any:
        """The value that a description is of."""
        if isinstance(about, list):
            return [self.build(each) for each in about]
        if not isinstance(about, dict):
            return about
        kind = next(iter(about))
        return getattr(self, f"_{kind}")(about[kind], about)

    def _dict(self, items: Mapping[str, Any], about: Any) -> dict[str, Any]:
        return {name: self.build(each) for name, each in items.items()}

    def _tuple(self, items: Sequence[Any], about: Any) -> tuple[Any, ...]:
        return tuple(self.build(each) for each in items)

    def _float(self, text: str, about: Any) -> float:
        return float(text)

    def _number(self, number: Sequence[Any], about: Any) -> Any:
        return getattr(np, number[0])(number[1])

    def _same(self, number: int, about: Any) -> Any:
        return self.arrays[number % len(self.arrays)] if self.arrays else None

    def _part(self, number: int, about: Mapping[str, Any]) -> Any:
        whole = self._same(number, about)
        return whole[about["from"] : about["to"]] if isinstance(whole, np.ndarray) and whole.ndim else whole

    def _dispatcher(self, name: str, about: Any) -> Any:
        return self.dispatcher(name)

    def _alloc(self, count: int, about: Any) -> Any:
        import vyre_opt

        return vyre_opt.OutputAlloc(count)

    def _object(self, kind: str, about: Any) -> Any:
        return OBJECTS[kind]()

    def _bytes(self, digits: str, about: Mapping[str, Any]) -> Any:
        data = bytes.fromhex(digits)
        kind = about.get("in", "bytes")
        if kind == "str":
            return data.decode("latin-1")
        if kind in ("numpy", "gpu"):
            return self._placed(np.frombuffer(data, np.uint8), "plain", kind)
        return {"bytes": bytes, "bytearray": bytearray, "memoryview": memoryview}[kind](data)

    def _array(self, kind: str, about: Mapping[str, Any]) -> Any:
        shape = tuple(about["shape"])
        values = _numbers(kind, prod(shape), f"{about.get('seed', 0)} {self.turn}", about.get("of", "small"))
        return self._placed(values.reshape(shape), about.get("as", "plain"), about.get("in", "numpy"))

    def _placed(self, values: np.ndarray, layout: str, library: str) -> Any:
        """An array of a library with these values."""
        if library == "list":
            return values.tolist()
        if library == "bytes":
            return values.tobytes()
        if library == "masked":
            return np.ma.masked_array(values)
        if library in ("gpu", "interface"):
            array = self.gpu(LAYOUTS[layout](values)[1], library)
            self.arrays.append(array)
            return array
        if library == "torch" and values.dtype.kind == "M":
            values = values.view(np.int64)
        memory, view = LAYOUTS[layout](values)
        self.memory.append(memory)
        value: Any = view
        if library == "torch":
            import torch

            value = torch.from_numpy(view if layout not in ("reversed", "swapped") else np.array(values))
        elif library == "memoryview":
            value = memoryview(view.view(np.int64) if view.dtype.kind == "M" else view)  # type: ignore[arg-type]
        self.arrays.append(value)
        return value


def _numbers(kind: str, count: int, seed: str, of: str) -> np.ndarray:
    """A flat array, a digest of its seed.  `of`: small, wide, zeros, nan, inf, huge, or a number that all are below."""
    dtype = np.dtype(kind)
    raw = np.frombuffer(blake3(seed.encode()).digest(length=max(4, count * 4)), np.uint32)[:count]
    if of == "zeros":
        return np.zeros(count, dtype)
    if of == "hex":
        return np.frombuffer(b"0123456789abcdefABCDEF", np.uint8)[raw % 22].astype(dtype)
    if of.isdecimal():
        return (raw % int(of)).astype(dtype)
    if dtype.kind == "f":
        values = ((raw % 64).astype(np.float64) - 32) / 8
        if of == "huge":
            values *= 1e30
        if of in ("nan", "inf"):
            values[raw % 5 == 0] = float(of)
            values[raw % 7 == 0] = -float(of)
        with np.errstate(over="ignore"):
            return values.astype(dtype)
    if dtype.kind == "b":
        return (raw % 2).astype(dtype)
    if of == "wide":
        wide = raw.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return wide.astype(f"u{dtype.itemsize}").view(dtype) if dtype.kind in "iu" else wide.astype(dtype)
    return (raw % 9).astype(dtype) if dtype.kind in "iu" else raw.astype(dtype)


# --- layouts: the memory and the view of it that holds the values


def _plain(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    copy = np.array(values, order="C")
    return copy, copy


def _strided(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not values.ndim:
        return _plain(values)
    memory = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
    view = memory[..., ::2]
    view[...] = values
    return memory, view


def _sliced(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a wider array, the last extent contiguous."""
    if not values.ndim:
        return _plain(values)
    memory = np.zeros((*values.shape[:-1], values.shape[-1] + 3), values.dtype)
    view = memory[..., 1 : 1 + values.shape[-1]]
    view[...] = values
    return memory, view


def _offset(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    memory = np.zeros(values.size + 1, values.dtype)
    view = memory[1:].reshape(values.shape)
    view[...] = values
    return memory, view


def _unaligned(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    memory = np.zeros(values.nbytes + 1, np.uint8)
    view = memory[1:].view(values.dtype).reshape(values.shape)
    view[...] = values
    return memory, view


def _reversed(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not values.ndim:
        return _plain(values)
    memory = np.array(values[::-1], order="C")
    return memory, memory[::-1]


def _fortran(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    copy = np.array(values, order="F")
    return copy, copy


def _broadcast(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not values.ndim or not values.size:
        return _plain(values)
    memory = np.array(values.reshape(-1)[:1])
    return memory, np.broadcast_to(memory, values.shape)


def _readonly(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    copy = np.array(values, order="C")
    view = copy.view()
    view.flags.writeable = False
    return copy, view


def _swapped(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    copy = values.astype(values.dtype.newbyteorder())
    return copy, copy


LAYOUTS = {
    "plain": _plain,
    "strided": _strided,
    "sliced": _sliced,
    "offset": _offset,
    "unaligned": _unaligned,
    "reversed": _reversed,
    "fortran": _fortran,
    "broadcast": _broadcast,
    "readonly": _readonly,
    "swapped": _swapped,
}


# --- results


def digest(array: np.ndarray) -> str:
    """16 digits for the elements in row-major order; all NaNs count as one."""
    elements = np.ascontiguousarray(array)
    if elements.dtype.kind == "f":
        elements = np.where(np.isnan(elements), np.array(np.nan, elements.dtype), elements)
    return blake3(elements.tobytes()).hexdigest(length=8)


def shown(value: Any, to_host: Callable[[Any], tuple[str, np.ndarray] | None]) -> Any:
    """A result as JSON: of arrays the library, type, shape and digest.  `to_host`: an array's library and elements."""
    array = to_host(value)
    if array is not None:
        library, elements = array
        return f"{library} {elements.dtype}{list(elements.shape)} {digest(elements)}"
    if isinstance(value, dict):
        return {str(name): shown(each, to_host) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(each, to_host) for each in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return text_of(repr(value))


def text_of(text: str) -> str:
    """A text without what differs between machines and versions: addresses, folders, NumPy's names around numbers."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0x...", text)
    text = re.sub(r"(?:/[\w.+-]+)+/([\w.-]+)", r"\1", text)
    return re.sub(r"np\.\w+\(([^()]*)\)", r"\1", text)
