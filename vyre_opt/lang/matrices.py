"""Matrices in kernels: calls that make, load, store, convert and multiply them; operators work on them as on numbers.

total = vyre.matrix(32, 32, f32)
for k in range(0, a.shape[1], 16):
    x = vyre.matrix_load(a, (r, k), 32, 16, "a")
    y = vyre.matrix_load(b, (k, n), 16, 32, "b")
    total = vyre.matrix_mul_add(x, y, total)
vyre.matrix_store(c, (r, n), total)
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..ir.ops import OpDef
from ..ir.program import Value
from ..ir.types import MATRIX_USES, DataType, TypeNameError
from .bindings import Binding, Static
from .call_arguments import array_of, by_name, word_of
from .emitter import type_of
from .python_source import Unsupported
from .scalars import scalar_type

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["FORMATS", "OWN", "converted"]

Arguments = dict[str, ast.expr]


def _matrix(t: Expressions, node: ast.Call) -> Value:
    given = by_name(t, node, "rows", "columns", "dtype", "value", "use", optional=2)
    element = scalar_type(t.static(given["dtype"], "a type"))
    if element is None:
        raise Unsupported(given["dtype"], "the elements of a matrix have a type such as f32")
    dtype = _type(t, node, given, element)
    if "value" not in given:
        return t.emitter.constant(Static(0), node, dtype)
    binding = t.expression(given["value"])
    if isinstance(binding, Static):
        return t.emitter.constant(binding, given["value"], dtype)
    value = t.as_value(binding, given["value"], element)
    return t.emitter.value("splat", (value,), dtype)


def _load(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    given = by_name(t, node, "array", "index", "rows", "columns", "use", "layout", optional=2)
    view = array_of(t, given["array"], "read")
    element = view.buffer.dtype
    if element is DataType.F32 and _use(t, given) != "acc":
        element = DataType.TF32
    dtype = _type(t, node, given, element)
    attrs = {"layout": _layout(t, given, row), "buffer": view.buffer.name}
    return t.emitter.value(row.name, t.indices(given["index"], view), dtype, attrs)


def _store(t: Expressions, node: ast.Call, row: OpDef) -> Binding:
    given = by_name(t, node, "array", "index", "value", "layout", optional=1)
    view = array_of(t, given["array"], "written")
    value = _operand(t, given["value"])
    dtype = type_of(value)
    if not isinstance(dtype, DataType) or dtype.stored is not view.buffer.dtype:
        text, element = t.source.text(given["value"]), view.buffer.dtype
        raise Unsupported(
            given["value"],
            f"{text} is {dtype}, and {view.buffer.name} holds {element}",
            f"write {element}({text})",
        )
    attrs = {"layout": _layout(t, given, row), "buffer": view.buffer.name}
    t.emitter.op(row.name, (value, *t.indices(given["index"], view)), attrs=attrs)
    return Static(None)


def _mul_add(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    given = by_name(t, node, "a", "b", "c")
    operands = [_operand(t, argument) for argument in given.values()]
    return t.emitter.value(row.name, operands, type_of(operands[2]))


def _cast(t: Expressions, node: ast.Call) -> Value:
    given = by_name(t, node, "x", "dtype", "use", optional=1)
    value = _operand(t, given["x"])
    element = scalar_type(t.static(given["dtype"], "a type"))
    if element is None:
        raise Unsupported(given["dtype"], "the elements of a matrix have a type such as f32")
    return converted(t, node, value, element, _use(t, given, _matrix_type(value).use))


def converted(t: Expressions, node: ast.Call, value: Value, element: DataType, use: str = "") -> Value:
    """A matrix of other elements, `bf16(x)`, or for another use."""
    source = _matrix_type(value)
    try:
        target = DataType.matrix(*source.shape, element, use or source.use)
    except TypeNameError as error:
        raise Unsupported(node, str(error)) from None
    return value if source is target else t.emitter.value("cast", (value,), target)


def _operand(t: Expressions, node: ast.expr) -> Value:
    value = t.value(node)
    dtype = type_of(value)
    if not isinstance(dtype, DataType) or not dtype.is_matrix:
        raise Unsupported(node, f"{t.source.text(node)} is {dtype}, no matrix", "vyre.matrix_load gives one")
    return value


def _matrix_type(value: Value) -> DataType:
    dtype = type_of(value)
    assert isinstance(dtype, DataType)
    return dtype


def _type(t: Expressions, node: ast.Call, given: Arguments, element: DataType) -> DataType:
    sizes = [t.static(given[name], f"the {name} of a matrix") for name in ("rows", "columns")]
    if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in sizes):
        raise Unsupported(node, f"rows and columns are numbers, not {sizes[0]!r} and {sizes[1]!r}")
    try:
        return DataType.matrix(sizes[0], sizes[1], element, _use(t, given))
    except TypeNameError as error:
        raise Unsupported(node, str(error)) from None


def _use(t: Expressions, given: Arguments, default: str = "acc") -> str:
    return word_of(t, given["use"], "the use of a matrix", MATRIX_USES) if "use" in given else default


def _layout(t: Expressions, given: Arguments, row: OpDef) -> str:
    choices = row.attrs[0].choices or ()
    return word_of(t, given["layout"], "the layout of a matrix", choices) if "layout" in given else choices[0]


FORMATS: dict[str, Callable[[Expressions, ast.Call, OpDef], Binding]] = {
    "matrix_load": _load,
    "matrix_store": _store,
    "matrix_mul_add": _mul_add,
}
OWN: dict[str, Callable[[Expressions, ast.Call], Binding]] = {"matrix": _matrix, "matrix_cast": _cast}
