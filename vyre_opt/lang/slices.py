"""Slices in kernels: rows and blocks of arrays, with which operators and ops compute element by element.

row = x[r, :]
e = vyre.exp(row - vyre.max(row))
y[r, :] = e / vyre.sum(e)
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..ir.ops import OPS
from ..ir.program import Value
from ..ir.types import DataType, TypeNameError
from .bindings import Binding, BufferView, Static
from .call_arguments import by_name
from .emitter import type_of
from .expressions import Expressions, number_of_indices
from .inference import AnyType, TypeMismatch, known, unify
from .python_source import Unsupported

__all__ = [
    "OWN",
    "SliceExpressions",
    "is_slice_index",
    "load",
    "reduced",
    "shape_of",
    "slice_type",
    "spread",
    "store",
]


def is_slice_index(node: ast.expr) -> bool:
    """Whether an index has a `:`."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(isinstance(part, ast.Slice) for part in parts)


def slice_type(dtype: AnyType) -> DataType | None:
    """The type if it is that of a slice."""
    dtype = known(dtype)
    return dtype if isinstance(dtype, DataType) and dtype.is_slice else None


class SliceExpressions(Expressions):
    """Expressions some of whose values are slices."""

    def like(self, leader: Value, operand: Binding, node: ast.expr) -> Value:
        if slice_type(type_of(leader)) is not None:
            return spread(self, leader, operand, node)
        return super().like(leader, operand, node)

    def visit_subscript(self, node: ast.Subscript) -> Binding:
        if is_slice_index(node.slice):
            base = self.expression(node.value)
            if isinstance(base, BufferView):
                return load(self, node, base)
        return super().visit_subscript(node)

    def attribute_of_value(self, node: ast.Attribute, value: Value) -> Binding:
        if node.attr == "shape" and slice_type(type_of(value)) is not None:
            return shape_of(self, value)
        return super().attribute_of_value(node, value)

    def as_condition(self, binding: Binding, node: ast.expr) -> Value:
        if isinstance(binding, Value) and slice_type(type_of(binding)) is not None:
            help = f"write vyre.any({self.source.text(node)}), or vyre.select(c, a, b)"
            raise Unsupported(node, "a condition is one bool, not one for each element", help)
        return super().as_condition(binding, node)


# --- arrays


def load(t: Expressions, node: ast.Subscript, view: BufferView) -> Value:
    t.check_access(node, view, "read")
    indices, dtype = _box(t, node, view)
    return t.emitter.value("slice_load", indices, dtype, {"edge": "checked", "buffer": view.buffer.name})


def store(t: Expressions, target: ast.Subscript, view: BufferView, binding: Binding, node: ast.expr) -> None:
    """What is beyond the edge of a block is not written; a row has the length of the array's."""
    t.check_access(target, view, "written")
    indices, dtype = _box(t, target, view)
    value = t.as_value(binding, node, None if isinstance(binding, Value) else dtype.element)
    found = slice_type(type_of(value))
    if found is None and None not in dtype.extents:
        unified = _unified(t, node, type_of(value), dtype.element)
        value = t.emitter.value("slice_broadcast", (value,), dtype.with_element(unified))
    elif found is None:
        text = t.source.text(target)
        raise Unsupported(
            node, f"{t.source.text(node)} is one value, and {text} a row", "write a loop, or a slice"
        )
    elif found is not dtype:
        help = None if found.element is dtype.element else f"write {dtype.element}({t.source.text(node)})"
        raise Unsupported(
            node, f"{t.source.text(node)} is {found}, and {t.source.text(target)} takes {dtype}", help
        )
    edge = "checked" if None in dtype.extents else "clipped"
    t.emitter.op("slice_store", (value, *indices), attrs={"edge": edge, "buffer": view.buffer.name})


def _unified(t: Expressions, node: ast.expr, a: AnyType, b: DataType) -> DataType:
    try:
        unify(a, b, t.source.location(node))
    except TypeMismatch as mismatch:
        raise t.wrong_type(node, mismatch, b) from None
    return b


def _box(t: Expressions, node: ast.Subscript, view: BufferView) -> tuple[list[Value], DataType]:
    """The place of the first element, and the type of what `x[r, :]` or `x[i:i + 64]` is."""
    buffer = view.buffer
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if view.lanes > 1:
        raise Unsupported(node, "a slice is of an array, not of one as vectors")
    if len(parts) != buffer.dimensions:
        name, wanted = buffer.name, ", ".join([*"ijk"[: buffer.dimensions - 1], ":"])
        given = number_of_indices(len(parts), with_noun=False)
        raise Unsupported(
            node.slice,
            f"{name} takes {number_of_indices(buffer.dimensions)}, not {given}",
            f"write {name}[{wanted}]",
        )
    first = next(number for number, part in enumerate(parts) if isinstance(part, ast.Slice))
    behind = next((part for part in parts[first:] if not isinstance(part, ast.Slice)), None)
    if behind is not None:
        raise Unsupported(
            behind,
            "a slice is of the last dimensions of an array",
            "lay the array out the other way, or write a loop over the elements",
        )
    indices: list[Value] = []
    extents: list[int | None] = []
    for dimension, part in enumerate(parts):
        if not isinstance(part, ast.Slice):
            indices.append(t.index(part, t.expression(part), view, dimension))
            continue
        if part.step is not None:
            raise Unsupported(part.step, "a slice of a kernel has no step", "write a loop over the elements")
        lower = ast.copy_location(ast.Constant(0), node) if part.lower is None else part.lower
        indices.append(t.index(lower, t.expression(lower), view, dimension))
        extents.append(None if part.upper is None else _extent(t, lower, part.upper))
    try:
        return indices, DataType.slice(extents, buffer.dtype)
    except TypeNameError as error:
        raise Unsupported(node, str(error)) from None


def _extent(t: Expressions, lower: ast.expr, upper: ast.expr) -> int:
    """Of `i:i + 64` or `16:32`."""
    if (
        isinstance(upper, ast.BinOp)
        and isinstance(upper.op, ast.Add)
        and ast.dump(upper.left) == ast.dump(lower)
    ):
        extent = t.static(upper.right, "the extent of a block")
    else:
        ends = [t.expression(each) for each in (lower, upper)]
        if not all(isinstance(end, Static) for end in ends):
            begin = t.source.text(lower)
            raise Unsupported(
                upper,
                "the extent of a block is known when the kernel is translated; this is computed while it runs",
                f"write {begin}:{begin} + 64, or leave the end out for all that is left",
            )
        extent = ends[1].value - ends[0].value  # type: ignore[union-attr]
    if not isinstance(extent, int) or isinstance(extent, bool) or extent < 1:
        raise Unsupported(upper, f"a block has a whole number of elements, from 1 on, not {extent!r}")
    return extent


# --- values


def shape_of(t: Expressions, value: Value) -> tuple[Binding, ...]:
    """`row.shape`."""
    dtype = slice_type(type_of(value))
    assert dtype is not None
    return tuple(
        Static(extent)
        if extent is not None
        else t.emitter.value("slice_len", (value,), DataType.U32, {"axis": axis})
        for axis, extent in enumerate(dtype.extents)
    )


def spread(
    t: Expressions, leader: Value, operand: Binding, node: ast.expr, element: DataType | None = None
) -> Value:
    """An operand of an op as a slice of the extents of another one, and of its elements or of others.  Raises TypeMismatch."""
    dtype = slice_type(type_of(leader))
    assert dtype is not None
    if element is not None:
        dtype = dtype.with_element(element)
    if isinstance(operand, Static):
        value = t.emitter.adapted(operand, dtype.element, node)
    else:
        value = t.as_value(operand, node)
        found = slice_type(type_of(value))
        if found is not None and found.extents == dtype.extents:
            unify(found, dtype, t.source.location(node))
            return value
        unify(type_of(value) if found is None else found.element, dtype.element, t.source.location(node))
        if found is not None and not _may_spread(found, dtype):
            raise Unsupported(
                node,
                f"{t.source.text(node)} is {found}, which does not broadcast to {dtype}",
                "extents are the same or 1, from the last one on",
            )
    like = (leader,) if None in dtype.extents else ()
    return t.emitter.value("slice_broadcast", (value, *like), dtype)


def _may_spread(found: DataType, dtype: DataType) -> bool:
    pairs = zip(reversed(found.extents), reversed(dtype.extents), strict=False)
    return len(found.extents) <= len(dtype.extents) and all(a in (1, b) for a, b in pairs)


def reduced(t: Expressions, node: ast.Call, combine: str) -> Value:
    """`vyre.sum(row)`, `vyre.max(block, axis=1, keepdims=True)`."""
    given = by_name(t, node, "x", "axis", "keepdims", optional=2)
    value = t.value(given["x"])
    dtype = slice_type(type_of(value))
    name, text = t.source.text(node.func), t.source.text(given["x"])
    if dtype is None:
        raise Unsupported(
            given["x"], f"{text} is {known(type_of(value))}, no slice", "x[r, :] is one of an array x"
        )
    is_flags = combine in ("and", "or")
    if is_flags and not dtype.element.is_bool:
        raise Unsupported(
            given["x"], f"{name} takes bools, and {text} is of {dtype.element}", f"write {name}({text} != 0)"
        )
    if not is_flags and not OPS["add"].accepts(dtype.element):
        raise Unsupported(
            given["x"],
            f"{name} takes numbers, and {text} is of {dtype.element}",
            f"write {name}(u32({text}))",
        )
    rank = len(dtype.extents)
    keeps = bool(t.static(given["keepdims"], "keepdims")) if "keepdims" in given else False
    axis = t.static(given["axis"], "an axis") if "axis" in given else None
    if axis is not None and (type(axis) is not int or not -rank <= axis < rank):
        raise Unsupported(
            given["axis"], f"{text} has {'one axis' if rank == 1 else 'axes 0 and 1'}, and no axis {axis!r}"
        )
    is_narrow = combine == "add" and dtype.element in (DataType.F16, DataType.BF16)
    found = dtype
    if is_narrow:  # rounded once, at the end
        found = dtype.with_element(DataType.F32)
        value = t.emitter.value("cast", (value,), found)
    for each in [*range(rank - 1, -1, -1)] if axis is None else [axis % rank]:
        kept = (*found.extents[:each], *[1] * keeps, *found.extents[each + 1 :])
        found = DataType.slice(kept, found.element) if kept else found.element
        value = t.emitter.value("slice_reduce", (value,), found, {"combine": combine, "axis": each})
    return t.emitter.value("cast", (value,), found.with_element(dtype.element)) if is_narrow else value


def _reduction(combine: str) -> Callable[[Expressions, ast.Call], Binding]:
    return lambda t, node: reduced(t, node, combine)


OWN: dict[str, Callable[[Expressions, ast.Call], Binding]] = {
    "sum": _reduction("add"),
    "prod": _reduction("mul"),
    "any": _reduction("or"),
    "all": _reduction("and"),
}
