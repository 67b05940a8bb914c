"""Makes types simple throughout a module: vectors narrower or scalar, integers and floats of 32 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ir import arith
from ..ir.program import Block, Module, Op, Value
from ..ir.rewrite import bodies
from ..ir.types import DataType
from .shapes import every_buffer
from .variants import Selection

__all__ = ["simplify_types"]


def simplify_types(module: Module, selection: Selection) -> None:
    """Types for which there is a simpler one; the simpler one stands wherever the type stood."""
    for dtype in sorted(_types(module), key=lambda dtype: dtype.name):
        for simpler in _simpler(dtype):
            if selection.drops():
                _change(module, dtype, simpler)


def _simpler(dtype: DataType) -> list[DataType]:
    if dtype.is_open or dtype.is_matrix:
        return []
    if dtype.is_vec:
        narrower = [DataType.vec(dtype.element, dtype.lanes // 2)] if dtype.lanes >= 4 else []
        return [dtype.element, *narrower]
    standard = DataType.F32 if dtype.is_float else DataType.I32 if dtype.is_signed else DataType.U32
    return [standard] if (dtype.is_float or dtype.is_int) and dtype is not standard else []


def _types(module: Module) -> set[DataType]:
    types = {value.type for body in bodies(module) for value in _values(body)}
    types |= {dtype for func in module.funcs.values() for dtype in func.results}
    types |= {buffer.dtype for buffer in every_buffer(module)}
    return types | {dtype.element for dtype in types if dtype.is_vec}


def _values(block: Block) -> Iterator[Value]:
    yield from block.args
    for op in block.walk():
        yield from op.results
        for region in op.regions:
            yield from region.args


def _change(module: Module, old: DataType, new: DataType) -> None:
    def changed(dtype: DataType) -> DataType:
        if dtype is old:
            return new
        return dtype.with_element(new) if dtype.is_vec and dtype.element is old else dtype

    for body in bodies(module):
        for op in body.walk():
            if op.name == "const":
                _change_constant(op, changed(op.result.type))
            elif op.name in ("extract", "insert") and op.operands[-1].type is old:
                op.attrs = op.attrs | {"index": op.attrs["index"] % max(1, new.lanes)}
        for value in _values(body):
            value.type = changed(value.type)
    for func in module.funcs.values():
        func.results = tuple(map(changed, func.results))
    for buffer in every_buffer(module):
        buffer.dtype = changed(buffer.dtype)


def _change_constant(op: Op, dtype: DataType) -> None:
    """Its value in another type: the first lanes of a vector, each converted."""
    before = op.result.type
    if dtype is before:
        return
    value: Any = op.attrs["value"]
    lanes = value[: dtype.lanes] if isinstance(value, tuple) else (value,)
    converted = tuple(arith.convert(lane, before.element, dtype.element) for lane in lanes)
    op.attrs = op.attrs | {"value": converted if len(converted) > 1 else converted[0]}
