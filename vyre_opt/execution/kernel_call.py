"""Kernel calls on operands: their plans, their results, and one that comes once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.program import Program
from ..kernels.call import (
    Call,
    CopiedInput,
    CopyOfInput,
    EmptyResult,
    KernelCall,
    OutputAlloc,
    ScratchArgument,
)
from .array_backend import ArrayBackend, Operand
from .arrays import kind_of
from .bound_call import bind
from .inputs import check_grid
from .plans.call_plan import CallPlan, Loaded, is_written, launch_plan
from .plans.zeroed import Forms, forms_of_text, zeroed_buffers
from .shapes import shape_in_elements
from .target import as_target

__all__ = ["load_call", "plan_of", "results_of", "run_all", "run_call"]


def plan_of(
    call: KernelCall, inputs: Sequence[Operand], forms_of: Callable[[Program], Forms] = forms_of_text
) -> CallPlan:
    """A call as a plan of one launch; `forms_of`: see `Target`.  Raises BadInputs for its grid."""
    program = call.program
    slots: dict[str, int] = {}
    copies: dict[str, int] = {}
    written: dict[int, str] = {}
    results: list[str] = []
    extents: list[tuple[int, ...]] = []
    for buffer, argument in zip(program.bound_buffers, call.arguments, strict=True):
        source = argument.input if isinstance(argument, CopiedInput) else argument
        owner = inputs[source] if isinstance(source, int) else source
        is_flat = buffer.dimensions == 1
        lanes = buffer.dtype.lanes if isinstance(source, int) else 1
        extents.append((owner.count // lanes,) if is_flat else shape_in_elements(buffer, owner) or ())
        if isinstance(argument, int):
            slots[buffer.name] = argument
            if is_written(buffer):
                written[argument] = buffer.name
        elif isinstance(argument, OutputAlloc) or (isinstance(argument, CopiedInput) and argument.is_result):
            slots[buffer.name] = len(inputs) + len(results)
            results.append(buffer.name)
        if isinstance(argument, CopiedInput) and not buffer.is_transient:
            copies[buffer.name] = argument.input
    begun = {*copies, *(name for name, number in slots.items() if number < len(inputs))}
    grid = check_grid(program, call.grid)
    plan = launch_plan(program, grid, call.module, extents, call.words, begun)
    zeroed = {
        buffer.name
        for buffer, argument in zip(program.bound_buffers, call.arguments, strict=True)
        if isinstance(argument, ScratchArgument) and argument.is_zeroed
    }
    unwritten = zeroed_buffers(plan, forms_of) if call.clears else frozenset[str]()
    return CallPlan(plan, len(inputs), tuple(results), slots, copies, written, frozenset(zeroed), unwritten)


def load_call(
    backend: ArrayBackend, call: KernelCall, operands: Sequence[Operand]
) -> tuple[CallPlan, Loaded]:
    """The plan of a call on such operands, compiled."""
    plan = plan_of(call, operands, as_target(backend.dispatcher).forms_of)
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
        elif isinstance(argument, CopiedInput) and argument.is_result:
            source = operands[argument.input]
            results.append(backend.new_result(source.shape, source.kind, source.owner))
    if len(results) == 1 and call.shape is not None:
        return [results[0].reshape(call.shape)]
    return results


def run_call(backend: ArrayBackend, call: Call, operands: Sequence[Operand]) -> Any:
    """The result of a call that comes once."""
    like = operands[call.like]
    if isinstance(call, EmptyResult):
        return backend.new_result(call.shape, call.kind or like.kind, like.owner)
    if isinstance(call, CopyOfInput):
        return backend.result(backend.copy(like).array, like.shape, like)
    return run_all(backend, call, operands)[0]


def run_all(backend: ArrayBackend, call: KernelCall, operands: Sequence[Operand]) -> list[Any]:
    """The results of a launch that comes once."""
    plan, loaded = load_call(backend, call, operands)
    results = results_of(backend, call, operands)
    bound, arrays = bind(backend, plan, loaded, operands, results)
    return bound.fill(arrays, (), results)
