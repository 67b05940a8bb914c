"""A function on arrays as data: the launch that a call comes to, with its arguments by their places in the call.

What is in it depends on the shapes and types of the arrays only, so it serves all calls with like arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..ir.program import Module, Program
from ..ir.types import DataType
from .array_backend import ArrayBackend, Operand
from .dispatcher import DispatcherLike, OutputAlloc
from .params import Words, values_of_words
from .signatures import signature_of

__all__ = [
    "Call",
    "Composed",
    "Copied",
    "CopiedFirst",
    "Empty",
    "FastCall",
    "Fresh",
    "KernelCall",
    "OutFit",
    "PlannedCall",
    "RunPlan",
    "Same",
    "Zeros",
    "planned_on_contiguous",
    "run_call",
]


@dataclass(frozen=True, slots=True)
class Zeros:
    """An argument that is zeroed storage, neither input nor result."""

    count: int
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Fresh:
    """An argument that is storage of which nothing is known, neither input nor result."""

    count: int
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Copied:
    """An argument that is a copy of an input, since the program writes it; a result if it `is_result`."""

    input: int
    is_result: bool


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A launch of a program.

    `arguments`: one for each bound buffer, in order: the number of an input, or what is allocated.
    `shape`: of the only result; `like`: the input whose library and element type it has.
    `general`: gives the same by code that takes all lengths, where `program` is for one; slower.
    `clears`: whether new results are zeroed, since the program may not write every element of them.
    `words`: of runtime scalars, in the order of their names, behind those that a call has (see row_major.py); all of
    them where `run_call` makes the call.
    """

    program: Program
    grid: int | Sequence[int]
    arguments: tuple[int | OutputAlloc | Zeros | Fresh | Copied, ...]
    shape: tuple[int, ...] = ()
    like: int = 0
    module: Module | None = None
    general: Callable[[], KernelCall] | None = None
    clears: bool = False
    words: Words = ()

    @property
    def allocated_results(self) -> list[int]:
        """The places of the arguments that become results, in order."""
        places = enumerate(self.arguments)
        return [k for k, a in places if isinstance(a, OutputAlloc) or (isinstance(a, Copied) and a.is_result)]


@dataclass(frozen=True, slots=True)
class Empty:
    """A call whose result has no elements, so that nothing runs; of the input's element type, or of `kind`."""

    shape: tuple[int, ...]
    like: int = 0
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Same:
    """A call whose result is a copy of an input."""

    like: int = 0


@dataclass(frozen=True, slots=True)
class Composed:
    """A call that is several calls: `run(arrays, dispatcher, out)` makes them on the caller's arrays."""

    run: Callable[[Sequence[Any], DispatcherLike | None, Any], Any]


Call = KernelCall | Empty | Same


class RunPlan(Protocol):
    """The results of a planned call, in order.  `words`: those of its runtime scalars (see params.py)."""

    def __call__(self, arrays: Sequence[Any], words: Words = (), /) -> list[Any]: ...


class PlannedCall(Protocol):
    """Runs a program or pipeline on arrays of the signatures that it was planned for."""

    @property
    def run(self) -> RunPlan:
        """What runs it."""


class FastCall(PlannedCall, Protocol):
    """Runs a KernelCall."""

    @property
    def fits(self) -> Callable[[Sequence[Any], Any], bool]:
        """`fits(arrays, out)`: whether `out` is as the first result would be, and shares no memory with the arrays."""

    def may_plan(self) -> bool:
        """Whether the next call may take the time that it takes to plan anew."""

    def into(self, arrays: Sequence[Any], out: Any) -> list[Any]:
        """`run` with the first result in `out`, which `fits`."""


@dataclass(frozen=True, slots=True)
class OutFit:
    """What an array for the result has to be.

    `input_bytes`, `bytes`: sizes; `pointer(array)`: its address, a multiple of `alignment`.
    """

    signature: Hashable
    input_bytes: tuple[int, ...]
    bytes: int
    pointer: Callable[[Any], int]
    alignment: int = 1

    def fits(self, arrays: Sequence[Any], out: Any) -> bool:
        """See `FastCall.fits`."""
        if signature_of(out) != self.signature:
            return False
        start = self.pointer(out)
        if start % self.alignment:
            return False
        spans = zip(map(self.pointer, arrays), self.input_bytes, strict=True)
        return all(start + self.bytes <= at or at + size <= start for at, size in spans)


class CopiedFirst:
    """A `FastCall` on arrays of which those at `places` are not contiguous: `plan` is for contiguous ones.

    What is copied shares no memory with a result, so `fits` may refuse one that would do.
    """

    def __init__(self, plan: Any, places: Sequence[int], copy: Callable[[Any], Any]) -> None:
        self._plan, self._places, self._copy = plan, places, copy
        self.runner = getattr(plan, "runner", None)

    @property
    def fits(self) -> Callable[[Sequence[Any], Any], bool]:
        fits: Callable[[Sequence[Any], Any], bool] = self._plan.fits
        return fits

    def may_plan(self) -> bool:
        return bool(self._plan.may_plan())

    def run(self, arrays: Sequence[Any], words: Words = (), /) -> Any:
        return self._plan.run(self._copied(arrays), words)

    def into(self, arrays: Sequence[Any], out: Any) -> list[Any]:
        results: list[Any] = self._plan.into(self._copied(arrays), out)
        return results

    def _copied(self, arrays: Sequence[Any]) -> list[Any]:
        copied = list(arrays)
        for place in self._places:
            copied[place] = self._copy(copied[place])
        return copied


def planned_on_contiguous(
    backend: ArrayBackend, operands: Sequence[Operand], plan: Callable[[Sequence[Operand]], Any]
) -> Any:
    """`plan(operands)`, a `FastCall` or None; where owners are not contiguous, that for copies, which each call makes."""
    if any(signature_of(operand.owner) is None for operand in operands):
        return None  # no later call would find the plan
    settled, places = list(operands), []
    for place, operand in enumerate(operands):
        array = backend.contiguous(operand.owner)
        if array is not operand.owner:
            settled[place] = backend.take(array, "an array")
            if settled[place].kind != operand.kind:  # it is converted, which a plan does not
                return None
            places.append(place)
    fast = plan(settled)
    return CopiedFirst(fast, places, backend.contiguous) if places and fast is not None else fast


def run_call(backend: ArrayBackend, call: Call, operands: Sequence[Operand]) -> Any:
    """The result of a call on operands, whatever they are; see `FastCall` for those that allow it."""
    like = operands[call.like]
    if isinstance(call, Empty):
        return backend.empty(call.shape, like, call.kind)
    if isinstance(call, Same):
        return backend.result(backend.copy(like).array, like.shape, like)
    arguments = [_argument(backend, argument, operands) for argument in call.arguments]
    params = values_of_words(call.program, call.words) if call.words else None
    (output,) = backend.run(call.program, arguments, call.grid, params=params)
    return backend.result(output, call.shape, like)


def _argument(backend: ArrayBackend, argument: Any, operands: Sequence[Operand]) -> Any:
    if isinstance(argument, int):
        return operands[argument]
    if isinstance(argument, (Zeros, Fresh)):
        return backend.zeros(argument.count, argument.dtype)
    return argument
