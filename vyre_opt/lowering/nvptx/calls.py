"""Functions of the language as internal LLVM functions, which the optimiser inlines."""

from __future__ import annotations

from ...ir.program import Func, Op
from ..common.lane_shape import carrier
from .faults import fault_block
from .function_emitter import Body, Context, RunBlock

__all__ = ["call"]


def call(body: Body, op: Op, run: RunBlock) -> None:
    func = body.context.funcs[op.attrs["callee"]]
    name = define_function(body.context, func, run)
    given = [
        f"{carrier(value.type.element)} {element}" for value in op.operands for element in body.get(value)
    ]
    if body.context.may_fault:
        given.append("ptr addrspace(1) %status")
    kinds = result_types(func)
    called = f"@{name}({', '.join(given)})"
    if not kinds:
        body.w.line(f"call void {called}")
        return
    if len(kinds) == 1:
        body.set(op, body.w.emit(f"call {kinds[0]} {called}"))
        return
    whole = f"{{ {', '.join(kinds)} }}"
    struct = body.w.emit(f"call {whole} {called}")
    place = 0
    for result in op.results:
        lanes = result.type.lanes
        body.values[result] = tuple(
            body.w.emit(f"extractvalue {whole} {struct}, {place + lane}") for lane in range(lanes)
        )
        place += lanes


def result_types(func: Func) -> list[str]:
    """An LLVM type for each lane of each result."""
    return [carrier(dtype.element) for dtype in func.results for _ in range(dtype.lanes)]


def define_function(context: Context, func: Func, run: RunBlock) -> str:
    """Its name in the LLVM module, where it is written at the first call."""
    number = list(context.funcs).index(func.name)
    name = f"{context.prefix}.func.{number}"
    if context.text.defines(name):
        return name
    body = Body(context)
    params: list[str] = []
    for place, param in enumerate(func.params):
        names = [f"%p{place}.{lane}" for lane in range(param.type.lanes)]
        params += [f"{carrier(param.type.element)} {n}" for n in names]
        body.values[param] = tuple(names)
    if context.may_fault:
        params.append("ptr addrspace(1) %status")
    given = [element for elements in run(body, func.body) for element in elements]
    kinds = result_types(func)
    result = kinds[0] if len(kinds) == 1 else f"{{ {', '.join(kinds)} }}" if kinds else "void"
    body.w.line(f"ret {result} {_packed(body, kinds, given)}" if kinds else "ret void")
    fault_block(body)
    text = f"define internal {result} @{name}({', '.join(params)}) alwaysinline {{\nentry:\n{body}\n}}"
    context.text.define(name, text)
    return name


def _packed(body: Body, kinds: list[str], given: list[str]) -> str:
    if len(kinds) == 1:
        return given[0]
    whole, struct = f"{{ {', '.join(kinds)} }}", "poison"
    for place, (kind, element) in enumerate(zip(kinds, given, strict=True)):
        struct = body.w.emit(f"insertvalue {whole} {struct}, {kind} {element}, {place}")
    return struct
