"""Arrays of an invocation's own, `a = vyre.local(f32, 8)`, whose elements are values in registers.

An index that is known when the kernel is translated names one of these values.  A computed one chooses by selects: a read by the bits of the
index, one select fewer than there are elements; a write by a select an element.  It is checked by an assert, so an index outside of
the array is a fault at its place on every target.

Elements are values and no memory, so an array has one name and functions get what it holds: nothing could tell two names that they are one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..ir.author_words import PYTHON
from ..ir.diagnostics import Diagnostic
from ..ir.ops import AXES
from ..ir.program import MAX_DIMENSIONS, Op, Value
from ..ir.types import DataType
from .bindings import Binding, LocalArray, Static, parts_of
from .emitter import type_of
from .inference import OpenType
from .python_source import Unsupported
from .remedies import statement_of

__all__ = ["element", "made", "refuse_second_name", "store", "update"]

MAX_ELEMENTS = 64
"""Most elements of an array: more take more registers than an invocation has on a GPU, and each computed index as many selects."""


def made(t: Any, node: ast.Call, of_type: ast.expr, of_size: ast.expr) -> LocalArray:
    """`vyre.local(f32, 8)`, `vyre.local(f32, (4, 4))`: zeros.  Raises Unsupported."""
    dtype = t.element_type(node, of_type, of_size, "a local array")
    size = t.static(of_size, "the size of a local array")
    shape = size if isinstance(size, tuple) else (size,)
    if not 1 <= len(shape) <= MAX_DIMENSIONS:
        raise Unsupported(of_size, f"a local array has 1 to {MAX_DIMENSIONS} dimensions, not {len(shape)}")
    for extent in shape:
        if type(extent) is not int or extent < 1:
            raise Unsupported(
                of_size, f"a local array has 1 or more elements along a dimension, not {extent!r}"
            )
    count = prod(shape)
    if count > MAX_ELEMENTS:
        message = f"a local array has at most {MAX_ELEMENTS} elements, which are in registers, not {count}"
        raise Unsupported(
            of_size,
            message,
            "write vyre.shared(...) for memory of a workgroup, a part of it for each invocation",
        )
    zero = t.as_value(Static(False if dtype.is_bool else 0), node, dtype)
    return LocalArray([zero] * count, dtype, shape, None)


def element(t: Any, node: ast.Subscript, array: LocalArray) -> Value:
    """`a[i]`.  Raises Unsupported."""
    position = _position(t, node, array)
    stored = _id_of(array.stored_at)
    if stored is not None and _id_of(position) != stored:
        name, (size, *more) = t.source.text(node.value), array.shape
        extents = f"({', '.join(map(str, array.shape))})" if more else str(size)
        message = f"each invocation has a {name} of its own, and stores to its element at {PYTHON.id(stored[0], AXES.index(stored[1] or 'x'))} alone: the others are 0"
        help = f"write {name} = vyre.shared({array.dtype}, {extents}), and vyre.barrier() behind the store, for what a workgroup has in common"
        t.emitter.warnings.append(Diagnostic("warning", message, t.source.location(node), help=help))
    return _at(t, node, array, position)


def _id_of(position: object) -> tuple[str, Any] | None:
    """The name and the axis of the id that a position is; None for another."""
    op = position.owner if isinstance(position, Value) else None
    is_id = isinstance(op, Op) and op.name in ("local_id", "global_id", "lane_id")
    return (op.name, op.attrs.get("axis")) if isinstance(op, Op) and is_id else None


def _at(t: Any, node: ast.Subscript, array: LocalArray, position: int | Value) -> Value:
    if isinstance(position, int):
        return array[position]  # type: ignore[no-any-return]
    parts, bit = list(array), 0
    while len(parts) > 1:
        mask, zero = (t.as_value(Static(n), node, DataType.U32) for n in (1 << bit, 0))
        masked = t.emitter.value("and", (position, mask), DataType.U32)
        is_set = t.emitter.value("ne", (masked, zero), DataType.BOOL)
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        parts = [_chosen(t, is_set, *pair[::-1]) if len(pair) == 2 else pair[0] for pair in pairs]
        bit += 1
    return parts[0]  # type: ignore[no-any-return]


def _chosen(t: Any, condition: Value, a: Value, b: Value) -> Value:
    return a if a is b else t.emitter.value("select", (condition, a, b), type_of(a))


def store(t: Any, target: ast.Subscript, array: LocalArray, binding: Binding, node: ast.expr) -> None:
    """`a[i] = v`.  Raises Unsupported."""
    update(t, target, array, lambda _: (binding, node))


def update(
    t: Any,
    target: ast.Subscript,
    array: LocalArray,
    change: Callable[[Callable[[], Value]], tuple[Binding, ast.expr]],
) -> None:
    """`a[i] += v`: `change` gets what reads the element.  The index is computed once.  Raises Unsupported."""
    if not isinstance(target.value, ast.Name):
        raise Unsupported(target, "an element of this cannot be assigned", "assign the array to a name")
    name = target.value.id
    if t.calls and any(name == argument.arg for argument in t.source.arguments):
        help = f"return what {name}[...] should be, and store it where {name} is made"
        raise Unsupported(
            target, f"{name} is an argument, and a function gets what a local array holds", help
        )
    position = _position(t, target, array)
    binding, node = change(lambda: _at(t, target, array, position))
    value = t.as_value(binding, node, array.dtype)
    parts = list(array)
    if isinstance(position, int):
        parts[position] = value
    else:
        for k, part in enumerate(parts):
            number = t.as_value(Static(k), target, DataType.U32)
            here = t.emitter.value("eq", (position, number), DataType.BOOL)
            parts[k] = _chosen(t, here, value, part)
    is_same = array.stored_at is None or (
        array.stored_at is not ... and _id_of(array.stored_at) == _id_of(position) is not None
    )
    t.env[name] = LocalArray(parts, array.dtype, array.shape, position if is_same else ...)


def _position(t: Any, node: ast.Subscript, array: LocalArray) -> int | Value:
    """The number of an element, row by row: known, or a u32 that an assert has checked.  Raises Unsupported."""
    nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    text = t.source.text(node.value)
    if any(isinstance(part, ast.Slice) for part in nodes):
        raise Unsupported(
            node, f"{text} is a local array, and has no slices", "write a loop over its elements"
        )
    binding = t.expression(node.slice)
    parts: Sequence[Any] = parts_of(binding) or (binding,)
    if len(parts) != len(array.shape):
        help = f"write {text}[{', '.join('ijk'[: len(array.shape)])}]"
        raise Unsupported(node, f"{text} takes {len(array.shape)} indices, not {len(parts)}", help)
    nodes = nodes if len(nodes) == len(parts) else [node.slice] * len(parts)
    position: int | Value = 0
    for index, at, extent in zip(parts, nodes, array.shape, strict=True):
        number = _index(t, node, index, at, extent)
        if isinstance(position, int) and isinstance(number, int):
            position = position * extent + number
            continue
        start, step, more = (
            t.as_value(Static(n) if isinstance(n, int) else n, at, DataType.U32)
            for n in (position, extent, number)
        )
        row = t.emitter.value("mul", (start, step), DataType.U32)
        position = t.emitter.value("add", (row, more), DataType.U32) if position != 0 else more
    return position


def _index(t: Any, node: ast.Subscript, binding: Binding, at: ast.expr, extent: int) -> int | Value:
    """An index along a dimension."""
    text = t.source.text(node.value)
    if isinstance(binding, Static):
        index = binding.value
        if not isinstance(index, int) or isinstance(index, bool):
            raise Unsupported(at, f"an index is an integer, not {index!r}")
        if not 0 <= index < extent:
            help = f"the last is {extent - 1}" + (
                "" if index < 0 else "; a longer array is vyre.local of a larger size"
            )
            raise Unsupported(at, f"{index} is no index of {text}, which has 0 to {extent - 1} here", help)
        return index
    value = t.as_value(binding, at)
    dtype = type_of(value)
    if dtype.is_float if isinstance(dtype, OpenType) else not dtype.is_int or dtype.element is not dtype:
        raise Unsupported(at, f"an index is an integer, not {dtype}", f"write u32({t.source.text(at)})")
    if isinstance(dtype, OpenType):
        dtype.is_scalar = True
    # as an unsigned number what is below 0 is too large; of 64 bits, before the upper half is lost
    wide = DataType.U64 if isinstance(dtype, DataType) and dtype.bits == 64 else DataType.U32
    number = value if dtype is wide else t.emitter.value("cast", (value,), wide)
    is_inside = t.emitter.value("lt", (number, t.as_value(Static(extent), at, wide)), DataType.BOOL)
    message = f"{t.source.text(at)} is an index of {text}: 0 to {extent - 1}"
    t.emitter.index_checks.add(t.emitter.op("assert", (is_inside,), attrs={"message": message}))
    position: Value = number if wide is DataType.U32 else t.emitter.value("cast", (number,), DataType.U32)
    return position


def refuse_second_name(t: Any, binding: Binding, node: ast.expr) -> None:
    """Raises Unsupported for a local array that has a name and would get another one, or a place in a tuple."""
    parts = parts_of(binding) or ()
    is_made = isinstance(binding, LocalArray) and isinstance(node, ast.Call)
    if (isinstance(binding, LocalArray) and not is_made) or any(
        isinstance(part, LocalArray) for part in parts
    ):
        help = "make another one, and copy its elements in a loop"
        assign = statement_of(t.source, node)
        pair = (assign.targets[0], assign.value) if isinstance(assign, ast.Assign) else ()
        if pair and all(isinstance(each, ast.Tuple) for each in pair):
            targets, values = pair
            made = [  # the calls that make arrays, with their names
                f"{t.source.text(name)} = {t.source.text(value)}"
                for name, value in zip(targets.elts, values.elts, strict=False)  # type: ignore[attr-defined]
                if isinstance(value, ast.Call) and t.source.text(value.func).endswith("local")
            ]
            help = f"write {made[0]} in a line of its own" if made else help
        raise Unsupported(node, "a local array has one name, and is no part of a tuple", help)
