"""Functions of the language as internal LLVM functions, which the optimiser inlines."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.program import Block, Func
from ..common.lane_shape import carrier
from .body import Body, Context, Elements
from .faults import fault_block

__all__ = ["define_function", "result_types"]


def result_types(func: Func) -> list[str]:
    """An LLVM type for each lane of each result."""
    return [carrier(dtype.element) for dtype in func.results for _ in range(dtype.lanes)]


def define_function(context: Context, func: Func, run: Callable[[Body, Block], list[Elements]]) -> str:
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
