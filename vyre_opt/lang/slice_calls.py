"""Calls on slices: reductions, scans, indices of the largest, blocks of one value, transposes and products."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from ..ir.ops import OPS
from ..ir.program import Op, Value
from ..ir.types import DataType, TypeNameError
from .bindings import Binding, BufferView, Static
from .block_offsets import warn_of_offset
from .call_arguments import by_name
from .emitter import type_of
from .expressions import Expressions
from .inference import known
from .python_source import Unsupported
from .remedies import as_loop, is_of_lanes
from .scalars import scalar_type
from .slices import slice_type, spread, transposed

__all__ = ["OWN", "reduced"]

NARROW = (DataType.F16, DataType.BF16)
"""Added in f32, and rounded once."""


def _slice_of(t: Expressions, node: ast.expr, call: ast.Call) -> tuple[Value, DataType]:
    binding = t.expression(node)
    if isinstance(binding, BufferView):
        loop = (
            as_loop(t.source, call, binding.buffer.dtype.is_float)
            if is_of_lanes(t) and binding.buffer.dimensions == 1
            else None
        )
        if loop is not None:
            message = f"{t.source.text(call.func)} is of a slice, which a whole workgroup has, and this says what each invocation does"
            raise Unsupported(call, message, loop)
        text, rows = t.source.text(node), binding.buffer.dimensions - 1
        row = f"{text}[{', '.join([*_rows(t, rows), ':'])}]"
        raise Unsupported(node, f"{text} is a whole array, and this is of a row", f"write {row}")
    value = t.as_value(binding, node)
    dtype = slice_type(type_of(value))
    if dtype is None:
        raise Unsupported(
            node,
            f"{t.source.text(node)} is {known(type_of(value))}, no slice",
            "x[r, :] is one of an array x",
        )
    return value, dtype


def _rows(t: Expressions, count: int) -> list[str]:
    """Indices of a row of a whole array: the workgroup's where there is a name for it, else all rows, of two dimensions."""
    named = [
        n
        for n, v in t.env.items()
        if isinstance(v, Value) and isinstance(v.owner, Op) and v.owner.name == "workgroup_id"
    ]
    return named[:count] if len(named) >= count else [":"] * count


def _axis_of(t: Expressions, given: dict[str, ast.expr], dtype: DataType) -> int | None:
    """The axis that a call names; None if it names none."""
    rank = len(dtype.extents)
    axis = t.static(given["axis"], "an axis") if "axis" in given else None
    if axis is None:
        return None
    if type(axis) is not int or not -rank <= axis < rank:
        text = t.source.text(given["x"])
        raise Unsupported(
            given["axis"],
            f"{text} has {'one axis' if rank == 1 else 'axes 0 and 1'}, and no axis {axis!r}",
            "leave axis= out for all elements" if rank == 1 else "write axis=0 or axis=1",
        )
    return axis % rank


def _flag(t: Expressions, given: dict[str, ast.expr], name: str) -> bool:
    value = t.static(given[name], name) if name in given else False
    if not isinstance(value, bool):
        raise Unsupported(given[name], f"{name} is True or False, not {value!r}")
    return value


def _only_axis(t: Expressions, node: ast.Call, given: dict[str, ast.expr], dtype: DataType) -> int:
    axis = _axis_of(t, given, dtype)
    if axis is None and len(dtype.extents) > 1:
        name, text = t.source.text(node.func), t.source.text(given["x"])
        raise Unsupported(
            node, f"{text} has two axes, and {name} works along one", f"write {name}({text}, axis=1)"
        )
    return axis or 0


def _check_numbers(t: Expressions, node: ast.Call, x: ast.expr, dtype: DataType) -> None:
    if not OPS["add"].accepts(dtype.element):
        name, text = t.source.text(node.func), t.source.text(x)
        message = f"{name} takes numbers, and {text} is of {dtype.element}"
        raise Unsupported(x, message, f"write {name}(u32({text}))")


# --- reductions


def reduced(t: Expressions, node: ast.Call, combine: str) -> Value:
    """`vyre.sum(row)`, `vyre.max(block, axis=1, keepdims=True)`."""
    given = by_name(t, node, "x", "axis", "keepdims", optional=2)
    value, dtype = _slice_of(t, given["x"], node)
    name, text = t.source.text(node.func), t.source.text(given["x"])
    is_flags = combine in ("and", "or")
    if is_flags and not dtype.element.is_bool:
        raise Unsupported(
            given["x"], f"{name} takes bools, and {text} is of {dtype.element}", f"write {name}({text} != 0)"
        )
    if not is_flags:
        _check_numbers(t, node, given["x"], dtype)
    rank, axis = len(dtype.extents), _axis_of(t, given, dtype)
    keeps = _flag(t, given, "keepdims")
    found, is_narrow = dtype, combine == "add" and dtype.element in NARROW
    if is_narrow:
        found = dtype.with_element(DataType.F32)
        value = t.emitter.value("cast", (value,), found)
    for each in [*range(rank - 1, -1, -1)] if axis is None else [axis]:
        value, found = _along(t, value, found, combine, each, keeps)
    return t.emitter.value("cast", (value,), found.with_element(dtype.element)) if is_narrow else value


def _reduction(combine: str) -> Callable[[Expressions, ast.Call], Binding]:
    return lambda t, node: reduced(t, node, combine)


def _along(
    t: Expressions, value: Value, dtype: DataType, combine: str, axis: int, keeps: bool
) -> tuple[Value, DataType]:
    """The elements along an axis combined, and their type."""
    kept = (*dtype.extents[:axis], *[1] * keeps, *dtype.extents[axis + 1 :])
    result = DataType.slice(kept, dtype.element) if kept else dtype.element
    return t.emitter.value("slice_reduce", (value,), result, {"combine": combine, "axis": axis}), result


def _index_of(combine: str) -> Callable[[Expressions, ast.Call], Binding]:
    def first(t: Expressions, node: ast.Call) -> Binding:
        """The lowest index of an element that is the largest; 0 where all are NaN."""
        given = by_name(t, node, "x", "axis", "keepdims", optional=2)
        value, dtype = _slice_of(t, given["x"], node)
        axis, keeps = _only_axis(t, node, given, dtype), _flag(t, given, "keepdims")
        _check_numbers(t, node, given["x"], dtype)
        warn_of_offset(t, node, given["x"])
        most, _ = _along(t, value, dtype, combine, axis, keeps=True)
        is_most = t.emitter.value(
            "eq", (value, spread(t, value, most, node)), dtype.with_element(DataType.BOOL)
        )
        counted = spread(t, value, _counted(t, node, value, dtype, axis), node, DataType.U32)
        none = spread(t, value, Static(0xFFFFFFFF), node, DataType.U32)
        places = t.emitter.value("select", (is_most, counted, none), dtype.with_element(DataType.U32))
        found, result = _along(t, places, dtype.with_element(DataType.U32), "min", axis, keeps)
        last, zero = (_like(t, found, result, each, node) for each in (0xFFFFFFFF, 0))
        is_none = t.emitter.value("eq", (found, last), result.with_element(DataType.BOOL))
        return t.emitter.value("select", (is_none, zero, found), result)

    return first


def _like(t: Expressions, value: Value, dtype: DataType, number: int, node: ast.AST) -> Value:
    """A number of the type of a value, a slice or not."""
    assert isinstance(node, ast.expr)
    if dtype.is_slice:
        return spread(t, value, Static(number), node)
    return t.emitter.adapted(Static(number), dtype, node)


def _counted(t: Expressions, node: ast.AST, value: Value, dtype: DataType, axis: int) -> Value:
    """The indices along an axis of a slice."""
    first = t.emitter.adapted(Static(0), DataType.U32, node)
    extents = tuple(extent if k == axis else 1 for k, extent in enumerate(dtype.extents))
    if extents[axis] is not None:
        return t.emitter.value("slice_iota", (first,), DataType.slice(extents, DataType.U32))
    length = t.emitter.value("slice_len", (value,), DataType.U32, {"axis": axis})
    return t.emitter.value("slice_iota", (first, length), DataType.slice(extents, DataType.U32))


# --- scans


def _scan(combine: str) -> Callable[[Expressions, ast.Call], Binding]:
    def scanned(t: Expressions, node: ast.Call) -> Binding:
        given = by_name(t, node, "x", "axis", "exclusive", optional=2)
        value, dtype = _slice_of(t, given["x"], node)
        axis = _only_axis(t, node, given, dtype)
        _check_numbers(t, node, given["x"], dtype)
        is_exclusive = _flag(t, given, "exclusive")
        attrs = {"mode": "exclusive" if is_exclusive else "inclusive", "combine": combine, "axis": axis}
        if combine != "add" or dtype.element not in NARROW:
            return t.emitter.value("slice_scan", (value,), dtype, attrs)
        wide = dtype.with_element(DataType.F32)
        sums = t.emitter.value("slice_scan", (t.emitter.value("cast", (value,), wide),), wide, attrs)
        return t.emitter.value("cast", (sums,), dtype)

    return scanned


# --- new slices


def _arange(t: Expressions, node: ast.Call) -> Binding:
    """`arange(64)`, `arange(1, 65)`, `arange(len(row))`."""
    given = by_name(t, node, "start", "stop", optional=1)
    limits = [t.expression(each) for each in given.values()]
    start, stop = limits if len(limits) == 2 else (Static(0), limits[0])
    if isinstance(start, Static) and isinstance(stop, Static):
        first, last = start.value, stop.value
        if type(first) is not int or type(last) is not int or last <= first:
            raise Unsupported(
                node, f"arange has whole numbers, and one element at least, not {first!r} to {last!r}"
            )
        dtype = _slice(node, (last - first,), DataType.I32 if first < 0 else DataType.U32)
        return t.emitter.value("slice_iota", (t.emitter.adapted(start, dtype.element, node),), dtype)
    if len(limits) == 2:
        raise Unsupported(
            node,
            "the start and the stop of arange are known when the kernel is translated",
            "write start + vyre.arange(64), or vyre.arange(n)",
        )
    length = t.as_value(stop, given["start"], DataType.U32)
    zero = t.emitter.adapted(Static(0), DataType.U32, node)
    return t.emitter.value("slice_iota", (zero, length), DataType.slice((None,), DataType.U32))


def _filled(value: int | None) -> Callable[[Expressions, ast.Call], Binding]:
    def filled(t: Expressions, node: ast.Call) -> Binding:
        """`zeros((64, 64), f32)`, `full((64, 64), 1.5, f32)`."""
        names = ("shape", "dtype") if value is not None else ("shape", "value", "dtype")
        given = by_name(t, node, *names)
        dtype = scalar_type(t.static(given["dtype"], "a type"))
        if dtype is None:
            raise Unsupported(
                given["dtype"], f"{t.source.text(given['dtype'])} is no type of a number", "write f32"
            )
        shape = t.static(given["shape"], "the shape of a block")
        extents = shape if isinstance(shape, tuple) else (shape,)
        if not all(type(each) is int and each > 0 for each in extents):
            raise Unsupported(given["shape"], f"a shape is one or two whole numbers from 1 on, not {shape!r}")
        binding = Static(value) if value is not None else t.expression(given["value"])
        number = t.as_value(binding, given.get("value", node), dtype)
        return t.emitter.value("slice_broadcast", (number,), _slice(node, extents, dtype))

    return filled


def _slice(node: ast.AST, extents: Sequence[int], element: DataType) -> DataType:
    try:
        return DataType.slice(extents, element)
    except TypeNameError as error:
        raise Unsupported(node, str(error)) from None


# --- matrices


def _transpose(t: Expressions, node: ast.Call) -> Binding:
    given = by_name(t, node, "x")
    return transposed(t, given["x"], t.value(given["x"]))


OWN: dict[str, Callable[[Expressions, ast.Call], Binding]] = {
    "sum": _reduction("add"),
    "prod": _reduction("mul"),
    "any": _reduction("or"),
    "all": _reduction("and"),
    "argmax": _index_of("max"),
    "argmin": _index_of("min"),
    "cumsum": _scan("add"),
    "cumprod": _scan("mul"),
    "cummax": _scan("max"),
    "cummin": _scan("min"),
    "arange": _arange,
    "zeros": _filled(0),
    "full": _filled(None),
    "transpose": _transpose,
}
