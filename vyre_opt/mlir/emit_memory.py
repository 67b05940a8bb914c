"""Accesses as MLIR: loads and stores of memref and vector, atomics, asynchronous copies.

A bool is a byte in memory.  A vector moves elements that follow each other; where the elements of a buffer are vectors,
their lanes are its last dimension.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.program import Op
from ..ir.types import DataType
from .function_code import FunctionCode
from .helper_key import HelperKey
from .helpers.atomics import direct_atomic, memory_key
from .spelling import attributes, memory_element, mlir_type

__all__ = ["MEMORY_OPS"]


def _element(f: FunctionCode, op: Op) -> tuple[str, str]:
    """`%x[%i]`, and the memref's type."""
    memory = f.buffers[op.attrs["buffer"]]
    indices = f.indices(op)
    if memory.buffer.dtype.is_vec:
        indices += f", {f.code.integer(0, 'index')}"
    return f"{memory.name}[{indices}]", memory.type


def _access_type(dtype: DataType) -> str:
    """The type that moves: a bool is a byte."""
    element = memory_element(dtype.element)
    return f"vector<{dtype.lanes}x{element}>" if dtype.is_vec else element


def _load(f: FunctionCode, op: Op) -> None:
    dtype = op.result.type
    element, memref = _element(f, op)
    text = (
        f"vector.load {element} : {memref}, {_access_type(dtype)}"
        if dtype.is_vec
        else f"memref.load {element} : {memref}"
    )
    if not dtype.element.is_bool:
        f.set(op, text)
        return
    raw, kind = f.code.emit(text), _access_type(dtype)
    f.set(op, f"arith.cmpi ne, {raw}, {f.code.literal('0', kind)} : {kind}")


def _store(f: FunctionCode, op: Op) -> None:
    value = op.operands[0]
    dtype, text = value.type, f.get(value)
    element, memref = _element(f, op)
    if dtype.element.is_bool:
        text = f.code.convert("arith.extui", mlir_type(dtype), _access_type(dtype), text)
    verb = "vector.store" if dtype.is_vec else "memref.store"
    mark = attributes([("vyre.op", '"copy_async"')]) if op.name == "copy_async" else ""
    f.code.line(
        f"{verb} {text}, {element}{mark} : {memref}" + (f", {_access_type(dtype)}" if dtype.is_vec else "")
    )


def _copy_wait(f: FunctionCode, op: Op) -> None:
    """Copies are stores here, which are done at once; what waits for them waits for nothing."""
    f.code.line('"nvvm.cp.async.commit.group"() : () -> ()')
    f.code.line(f'"nvvm.cp.async.wait.group"() {{n = {op.attrs["pending"]} : i32}} : () -> ()')


def _atomic(f: FunctionCode, op: Op) -> None:
    dtype, order = op.result.type, op.attrs["order"]
    memory = f.buffers[op.attrs["buffer"]]
    kind = direct_atomic(op.name, dtype, order, memory.buffer.is_workgroup)
    element = mlir_type(dtype)
    values = op.operands[-op.definition.atomic_values :]
    if kind is not None:
        target, memref = _element(f, op)
        f.set(
            op, f"memref.atomic_rmw {kind} {f.get(values[0])}, {target} : ({element}, {memref}) -> {element}"
        )
        return
    operands = [(memory.name, memory.type)]
    operands += [(f.index(index), "index") for index in op.indices]
    operands += [(f.get(value), element) for value in values]
    key = HelperKey(op.name, (order,), (dtype,), memory_key(memory.type))
    f.names[op.result] = f.code.call(key, operands, element, name=op.result.name)


MEMORY_OPS: dict[str, Callable[[FunctionCode, Op], None]] = {
    "load": _load,
    "store": _store,
    "copy_wait": _copy_wait,
    "atomic": _atomic,
}
"""Emitters keyed by the op's format in the op table."""
