"""Calls, and the functions of the language as internal LLVM functions, which the optimiser inlines.

A function takes and returns one LLVM value for each lane of each parameter and result; more than
one result is a struct.  A kernel that may fault hands `%status` and `%call` on.
"""

from __future__ import annotations

from ...ir.program import Func, Op
from ..common.lane_shape import carrier
from .faults import fault_blocks
from .function_emitter import FunctionEmitter, KernelContext, RunBlock

__all__ = ["call"]


def call(emitter: FunctionEmitter, op: Op, run: RunBlock) -> None:
    func = emitter.context.funcs[op.attrs["callee"]]
    name = _define_function(emitter.context, func, run)
    args = [
        f"{carrier(value.type.element)} {element}" for value in op.operands for element in emitter.get(value)
    ]
    if emitter.context.may_fault:
        args += ["ptr addrspace(1) %status", "i64 %call"]
    kinds = _result_types(func)
    callee = f"@{name}({', '.join(args)})"
    if not kinds:
        emitter.w.line(f"call void {callee}")
        return
    if len(kinds) == 1:
        emitter.set(op, emitter.w.emit(f"call {kinds[0]} {callee}"))
        return
    struct_type = f"{{ {', '.join(kinds)} }}"
    struct = emitter.w.emit(f"call {struct_type} {callee}")
    field = 0
    for result in op.results:
        lanes = result.type.lanes
        emitter.values[result] = tuple(
            emitter.w.emit(f"extractvalue {struct_type} {struct}, {field + lane}") for lane in range(lanes)
        )
        field += lanes


def _result_types(func: Func) -> list[str]:
    """An LLVM type for each lane of each result."""
    return [carrier(dtype.element) for dtype in func.results for _ in range(dtype.lanes)]


def _define_function(context: KernelContext, func: Func, run: RunBlock) -> str:
    """The function's name in the LLVM module; its text is written at the first call."""
    name = f"{context.symbol}.func.{list(context.funcs).index(func.name)}"
    if context.text.defines(name):
        return name
    emitter = FunctionEmitter(context)
    emitter.w.at(func.loc)
    params: list[str] = []
    for number, param in enumerate(func.params):
        names = [f"%p{number}.{lane}" for lane in range(param.type.lanes)]
        params += [f"{carrier(param.type.element)} {n}" for n in names]
        emitter.values[param] = tuple(names)
    if context.may_fault:
        params += ["ptr addrspace(1) %status", "i64 %call"]
    results = [element for elements in run(emitter, func.body) for element in elements]
    kinds = _result_types(func)
    result = kinds[0] if len(kinds) == 1 else f"{{ {', '.join(kinds)} }}" if kinds else "void"
    emitter.w.line(f"ret {result} {_packed(emitter, kinds, results)}" if kinds else "ret void")
    fault_blocks(emitter)
    text = f"define internal {result} @{name}({', '.join(params)}) alwaysinline {{\nentry:\n{emitter}\n}}"
    context.text.define(name, text, func.name)
    return name


def _packed(emitter: FunctionEmitter, kinds: list[str], results: list[str]) -> str:
    if len(kinds) == 1:
        return results[0]
    struct_type, struct = f"{{ {', '.join(kinds)} }}", "poison"
    for field, (kind, element) in enumerate(zip(kinds, results, strict=True)):
        struct = emitter.w.emit(f"insertvalue {struct_type} {struct}, {kind} {element}, {field}")
    return struct
