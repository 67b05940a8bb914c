"""`Dispatcher.dispatch` of a target that loads plans: a program once over a grid, as the plan of one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..ir.program import AccessMode, Buffer, Module, Program
from ..kernels.call import CopiedInput, KernelCall
from .array_backend import ArrayBackend, Operand
from .arrays import kind_of
from .bound_call import bind
from .dispatcher import OutputAlloc
from .inputs import Parameter, check_declarations, check_grid, check_inputs, check_params, input_name
from .kernel_call import load_call
from .shapes import argument_shape, array_of

__all__ = ["planned_dispatch"]


def planned_dispatch(
    backend: ArrayBackend,
    program: Program,
    inputs: Sequence[Any],
    grid: int | Sequence[int] | None = None,
    module: Module | None = None,
    specs: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
) -> list[Any]:
    """See `Dispatcher.dispatch`.  Outputs on a GPU have the shapes and types of the arrays that are passed for them."""
    values = check_declarations(program, module, specs)
    words = tuple(check_params(program, params).values())
    check_inputs(program, inputs)
    if specs:
        bound_specs = {name: replace(spec, default=values[name]) for name, spec in program.specs.items()}
        program = replace(program, specs=bound_specs)
    operands: list[Operand] = []
    arguments: list[int | OutputAlloc | CopiedInput] = []
    leader = None
    for buffer, value in zip(program.bound_buffers, inputs, strict=True):
        where = input_name(program, buffer)
        if isinstance(value, OutputAlloc):
            arguments.append(Parameter.of(buffer, where).alloc(value))
            continue
        leader = leader or buffer.dtype
        is_read = buffer.access is AccessMode.READ
        arguments.append(len(operands) if is_read else CopiedInput(len(operands), buffer.is_output))
        operands.append(backend.operand(value, buffer, where))

    def new(buffer: Buffer, argument: CopiedInput | OutputAlloc) -> Any:
        if isinstance(argument, CopiedInput) and backend.on_gpu:
            like = operands[argument.input]
            return backend.new_result(like.shape, like.kind, like.owner)
        if buffer.dimensions > 1:
            passed = operands[argument.input] if isinstance(argument, CopiedInput) else argument
            shape = argument_shape(buffer, passed, input_name(program, buffer))
        elif isinstance(argument, CopiedInput):
            shape = (operands[argument.input].count // buffer.dtype.lanes,)
        else:
            shape = (argument.count,)
        if not backend.on_gpu or leader is None:
            return backend.new_result(array_of(buffer, shape), kind_of(buffer.dtype, None), None)
        owner, kind = operands[0].owner, operands[0].kind
        return backend.new_result(array_of(buffer, shape), kind_of(buffer.dtype, owner, leader, kind), owner)

    call = KernelCall(program, check_grid(program, grid), tuple(arguments), module=module, clears=True)
    made = [
        (buffer, new(buffer, argument))
        for buffer, argument in zip(program.bound_buffers, arguments, strict=True)
        if isinstance(argument, OutputAlloc) or (isinstance(argument, CopiedInput) and argument.is_result)
    ]
    plan, loaded = load_call(backend, call, operands)
    bound, arrays = bind(backend, plan, loaded, operands, [array for _, array in made])
    bound.fill(arrays, words, [array for _, array in made])
    return [array for buffer, array in made if buffer.is_output]
