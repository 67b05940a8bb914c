"""A function on arrays as data: the launch that a call comes to, with its arguments by their places in the call.

What is in it depends on the shapes and types of the arrays only, so it serves all calls with like arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.program import Module, Program
from ..ir.types import DataType
from .array_backend import ArrayBackend, Operand
from .arrays import kind_of
from .bound_call import bind
from .dispatcher import DispatcherLike, OutputAlloc
from .inputs import check_grid
from .params import Words
from .pipelines.call_plan import CallPlan, Loaded, is_written, launch_plan
from .pipelines.zeroed import zeroed_buffers
from .shapes import shape_in_elements

__all__ = [
    "Call",
    "Composed",
    "Copied",
    "Empty",
    "Fresh",
    "KernelCall",
    "Same",
    "Zeros",
    "load_call",
    "results_of",
    "run_all",
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
    `words`: of the last of the runtime scalars, in the order of their names; the others are those of each call.
    """

    program: Program
    grid: int | Sequence[int]
    arguments: tuple[int | OutputAlloc | Zeros | Fresh | Copied, ...]
    shape: tuple[int, ...] | None = None
    like: int = 0
    module: Module | None = None
    general: Callable[[], KernelCall] | None = None
    clears: bool = False
    words: Words = ()

    def plan(self, inputs: Sequence[Operand]) -> CallPlan:
        """The call as a plan of one launch.  Raises BadInputs for its grid."""
        program = self.program
        places: dict[str, int] = {}
        copies: dict[str, int] = {}
        written: dict[int, str] = {}
        results: list[str] = []
        extents: list[tuple[int, ...]] = []
        for buffer, argument in zip(program.bound_buffers, self.arguments, strict=True):
            source = argument.input if isinstance(argument, Copied) else argument
            owner = inputs[source] if isinstance(source, int) else source
            is_flat = buffer.dimensions == 1
            lanes = buffer.dtype.lanes if isinstance(source, int) else 1
            extents.append((owner.count // lanes,) if is_flat else shape_in_elements(buffer, owner) or ())
            if isinstance(argument, int):
                places[buffer.name] = argument
                if is_written(buffer):
                    written[argument] = buffer.name
            elif isinstance(argument, OutputAlloc) or (isinstance(argument, Copied) and argument.is_result):
                places[buffer.name] = len(inputs) + len(results)
                results.append(buffer.name)
            if isinstance(argument, Copied) and not buffer.is_transient:
                copies[buffer.name] = argument.input
        begun = {*copies, *(name for name, number in places.items() if number < len(inputs))}
        grid = check_grid(program, self.grid)
        plan = launch_plan(program, grid, self.module, extents, self.words, begun)
        zeroed = {
            buffer.name
            for buffer, argument in zip(program.bound_buffers, self.arguments, strict=True)
            if isinstance(argument, Zeros)
        }
        unwritten = zeroed_buffers(plan) if self.clears else frozenset[str]()
        return CallPlan(
            plan, len(inputs), tuple(results), places, copies, written, frozenset(zeroed), unwritten
        )


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


def load_call(
    backend: ArrayBackend, call: KernelCall, operands: Sequence[Operand]
) -> tuple[CallPlan, Loaded]:
    """The plan of a call on such operands, compiled."""
    plan = call.plan(operands)
    return plan, backend.load(plan)


def results_of(backend: ArrayBackend, call: KernelCall, operands: Sequence[Operand]) -> list[Any]:
    """New arrays for the results of a call, which for the only one is of the call's shape."""
    like = operands[call.like]
    arguments = list(zip(call.program.bound_buffers, call.arguments, strict=True))
    element = next((b.dtype for b, a in arguments if a == call.like and type(a) is int), None)
    results = []
    for buffer, argument in arguments:
        if isinstance(argument, OutputAlloc):
            kind = kind_of(buffer.dtype, like.owner, element, like.kind)
            shape = (argument.count, buffer.dtype.lanes) if buffer.dtype.is_vec else (argument.count,)
            results.append(backend.new_result(shape, kind, like.owner))
        elif isinstance(argument, Copied) and argument.is_result:
            source = operands[argument.input]
            results.append(backend.new_result(source.shape, source.kind, source.owner))
    if len(results) == 1 and call.shape is not None:
        return [results[0].reshape(call.shape)]
    return results


def run_call(backend: ArrayBackend, call: Call, operands: Sequence[Operand]) -> Any:
    """The result of a call that comes once."""
    like = operands[call.like]
    if isinstance(call, Empty):
        return backend.new_result(call.shape, call.kind or like.kind, like.owner)
    if isinstance(call, Same):
        return backend.result(backend.copy(like).array, like.shape, like)
    return run_all(backend, call, operands)[0]


def run_all(backend: ArrayBackend, call: KernelCall, operands: Sequence[Operand]) -> list[Any]:
    """The results of a launch that comes once."""
    plan, loaded = load_call(backend, call, operands)
    results = results_of(backend, call, operands)
    bound, arrays = bind(backend, plan, loaded, operands, results)
    return bound.fill(arrays, (), results)
