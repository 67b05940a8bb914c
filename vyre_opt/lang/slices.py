"""Slices in kernels: rows and blocks of arrays, with which operators and ops compute element by element.

row = x[r, :]
e = vyre.exp(row - vyre.max(row))
y[r, :] = e / vyre.sum(e)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeGuard

from ..ir.diagnostics import Diagnostic
from ..ir.formats import sum_type
from ..ir.program import Op, Value
from ..ir.rewrite import constant_value
from ..ir.types import DataType, TypeNameError
from ..ir.warnings.racing_stores import identity
from .array_types import element_text
from .bindings import Binding, BufferView, Static
from .emitter import type_of
from .expressions import (
    COMPARISONS,
    CONDITION_OF_SLICE,
    Expressions,
    number_of_indices,
    of_whole_product,
    size_of,
)
from .inference import AnyType, TypeMismatch, known, unify
from .python_source import FunctionSource, Unsupported
from .remedies import corrected, free_name, product_text, refuse_ellipsis, statement_of

__all__ = [
    "MASK",
    "SliceExpressions",
    "is_slice_index",
    "load",
    "loop_over",
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

    def subscript(self, node: ast.Subscript, base: Binding) -> Binding:
        if isinstance(base, Value) and slice_type(type_of(base)) is not None:
            return _with_axis(self, node, base)
        if isinstance(base, BufferView) and is_slice_index(node.slice):
            return load(self, node, base)
        return super().subscript(node, base)

    def elements(self, node: ast.Subscript, view: BufferView, indices: Sequence[Value]) -> Value:
        if view.fill is not None:
            raise Unsupported(node, "filled is for blocks", "x.filled(0)[i:i + 64] is one of an array x")
        if any(slice_type(type_of(index)) is not None for index in indices):
            return _gathered(self, node, view, indices)
        return super().elements(node, view, indices)

    def alike(self, node: ast.expr, bindings: Sequence[Binding], nodes: Sequence[ast.expr]) -> list[Value]:
        return super().alike(node, _to_common_extents(self, bindings, node), nodes)

    def index(self, node: ast.expr, binding: Binding, view: BufferView, dimension: int) -> Value:
        dtype = slice_type(type_of(binding)) if isinstance(binding, Value) else None
        if isinstance(binding, Value) and dtype is not None and dtype.element.is_int and view.lanes == 1:
            return binding
        if dtype is not None and dtype.element.is_bool:
            raise _mask(node, element_text(view.buffer), self.source.text(node))
        return super().index(node, binding, view, dimension)

    def indices(self, node: ast.expr, view: BufferView) -> tuple[Value, ...]:
        try:
            return super().indices(node, view)
        except Unsupported as error:
            parts = node.elts if isinstance(node, ast.Tuple) else [node]
            if error.message == MASK and error.node is parts[-1]:
                row = ", ".join([*map(self.source.text, parts[:-1]), ":"])
                error.help = _mask(parts[-1], f"{view.buffer.name}[{row}]", self.source.text(parts[-1])).help
            raise

    def attribute_of_value(self, node: ast.Attribute, value: Value) -> Binding:
        dtype = slice_type(type_of(value))
        if dtype is not None and node.attr in ("shape", "ndim"):
            return shape_of(self, value) if node.attr == "shape" else Static(len(dtype.extents))
        if dtype is not None and node.attr == "T":
            return transposed(self, node.value, value)
        return super().attribute_of_value(node, value)

    def binary(
        self, node: ast.expr, kind: ast.operator, a: Binding, b: Binding, a_node: ast.expr, b_node: ast.expr
    ) -> Binding:
        if isinstance(kind, ast.MatMult) and any(
            isinstance(each, Value) and slice_type(type_of(each)) is not None for each in (a, b)
        ):
            return product(self, node, a, b, (a_node, b_node))
        if isinstance(kind, ast.Add):
            for factors, at, total in ((b, b_node, a), (a, a_node, b)):
                if (
                    _is_product(factors, at)
                    and isinstance(total, Value)
                    and type_of(total) is type_of(factors)
                ):
                    return _added(self, factors, total)
        return super().binary(node, kind, a, b, a_node, b_node)

    def as_condition(self, binding: Binding, node: ast.expr) -> Value:
        if isinstance(binding, Value) and slice_type(type_of(binding)) is not None:
            text = self.source.text(node)
            help = f"choose for each element, vyre.where({text}, a, b), instead of the if; vyre.any({text}) is whether it holds for one"
            raise Unsupported(node, CONDITION_OF_SLICE, help)
        return super().as_condition(binding, node)

    def visit_boolop(self, node: ast.BoolOp) -> Binding:
        with self._element_by_element(node):
            return super().visit_boolop(node)

    def visit_unaryop(self, node: ast.UnaryOp) -> Binding:
        with self._element_by_element(node):
            return super().visit_unaryop(node)

    def visit_compare(self, node: ast.Compare) -> Binding:
        with self._element_by_element(node):
            return super().visit_compare(node)

    @contextmanager
    def _element_by_element(self, node: ast.expr) -> Iterator[None]:
        """An error that one of the operands is no single condition says how the node is written for each element."""
        try:
            yield
        except Unsupported as error:
            if error.message == CONDITION_OF_SLICE and error.node in _conditions(node):
                error.help = f"write {_by_element(self.source, node)}"
            raise


# --- arrays


def load(t: Expressions, node: ast.Subscript, view: BufferView) -> Value:
    t.check_access(node, view, "read")
    indices, dtype = _box(t, node, view)
    attrs = {"edge": "checked" if view.fill is None else "filled", "buffer": view.buffer.name}
    if view.fill is not None and None in dtype.extents:
        raise Unsupported(
            node,
            f"{t.source.text(node)} ends where the array does, so nothing is beyond its edge",
            "give the block an extent: x.filled(0)[i:i + 64]",
        )
    if view.fill is not None:
        indices = [*indices, t.as_value(view.fill, node, dtype.element)]
    return t.emitter.value("slice_load", indices, dtype, attrs)


def _gathered(t: Expressions, node: ast.Subscript, view: BufferView, indices: Sequence[Value]) -> Value:
    """The elements that slices among the indices name, which broadcast."""
    common = _to_common_extents(t, indices, node)
    leader = max((v for v in common if isinstance(v, Value)), key=lambda v: size_of(type_of(v)))
    places = [
        index
        if slice_type(type_of(index)) is None
        else spread(t, leader, index, node, known(type_of(index)).element)  # type: ignore[union-attr]
        for index in indices
    ]
    dtype = slice_type(type_of(leader))
    assert dtype is not None
    attrs = {"buffer": view.buffer.name}
    return t.emitter.value("slice_gather", places, dtype.with_element(view.buffer.dtype), attrs)


def filled(t: Expressions, node: ast.Call, view: BufferView) -> BufferView:
    """`x.filled(0)`: the array as one that has a value beyond its edges, for blocks of it."""
    if len(node.args) != 1 or node.keywords or view.lanes != 1:
        raise Unsupported(node, "filled takes the value that is beyond the edges: x.filled(0)[i:i + 64]")
    fill = t.expression(node.args[0])
    if not isinstance(fill, (Static, Value)):
        raise Unsupported(node.args[0], "what is beyond the edges of an array is a number")
    t.as_value(fill, node.args[0], view.buffer.dtype)
    return BufferView(view.buffer, fill=fill)


def store(t: Expressions, target: ast.Subscript, view: BufferView, binding: Binding, node: ast.expr) -> None:
    """Store a slice.  Elements beyond the edge of a block are not written; a row has the length of the array's."""
    t.check_access(target, view, "written")
    if view.fill is not None:
        raise Unsupported(target, "filled is for blocks that are read", "write to the array itself")
    indices, dtype = _box(t, target, view)
    value = t.as_value(binding, node, None if isinstance(binding, Value) else dtype.element)
    found = slice_type(type_of(value))
    if found is None and None not in dtype.extents:
        unified = _unified(t, node, type_of(value), dtype.element)
        value = t.emitter.value("slice_broadcast", (value,), dtype.with_element(unified))
    elif found is None and len(dtype.extents) == 1:
        unified = _unified(t, node, type_of(value), dtype.element)
        value = t.emitter.value(
            "slice_broadcast", (value, _rest(t, view, indices[-1], node)), dtype.with_element(unified)
        )
    elif found is None:
        text = t.source.text(target)
        raise Unsupported(
            node, f"{t.source.text(node)} is one value, and {text} rows of any length", "write row after row"
        )
    elif found is not dtype:
        text = t.source.text(node)
        if found.element is not dtype.element:
            help = f"write {dtype.element}({text})"
        elif len(found.extents) == 2 and len(dtype.extents) == 1 and 1 in found.extents:
            help = f"write vyre.sum({text}, axis={found.extents.index(1)}), a row of the same values"
        else:
            help = "give both the same extents"
            parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
            ranges = [part for part in parts if isinstance(part, ast.Slice)]
            if (
                len(ranges) == len(found.extents)
                and None not in found.extents
                and all(r.lower is None for r in ranges)
            ):
                sizes = dict(zip(map(id, ranges), found.extents, strict=True))
                box = ", ".join(f"0:{sizes[id(p)]}" if id(p) in sizes else t.source.text(p) for p in parts)
                help = f"write {t.source.text(target.value)}[{box}] = {text}"
        raise Unsupported(
            node, f"{t.source.text(node)} is {found}, and {t.source.text(target)} takes {dtype}", help
        )
    edge = "checked" if None in dtype.extents else "clipped"
    t.emitter.op("slice_store", (value, *indices), attrs={"edge": edge, "buffer": view.buffer.name})


def _rest(t: Expressions, view: BufferView, start: Value, node: ast.AST) -> Value:
    """A slice as long as what is left of the last dimension of an array."""
    dimension = view.buffer.dimensions - 1
    length = t.length(view, dimension)
    left = t.emitter.adapted(length, DataType.U32, node) if isinstance(length, Static) else length
    if not (isinstance(start.owner, Op) and start.owner.name == "const" and start.owner.attrs["value"] == 0):
        left = t.emitter.value("sub", (left, t.emitter.value("cast", (start,), DataType.U32)), DataType.U32)
    first = t.emitter.adapted(Static(0), DataType.U32, node)
    return t.emitter.value("slice_iota", (first, left), DataType.slice((None,), DataType.U32))


def _with_axis(t: Expressions, node: ast.Subscript, value: Value) -> Value:
    """`row[None, :]` and `row[:, None]`."""
    dtype = slice_type(type_of(value))
    assert dtype is not None
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    kinds = ["axis" if isinstance(p, ast.Constant) and p.value is None else "other" for p in parts]
    whole = [
        isinstance(p, ast.Slice) and p.lower is None and p.upper is None and p.step is None for p in parts
    ]
    is_new_axis = sorted(kinds) == ["axis", "other"] and any(whole)
    if not is_new_axis or len(dtype.extents) != 1 or None in dtype.extents:
        raise _no_elements(t, node, value, dtype, parts)
    row = t.emitter.value("slice_broadcast", (value,), DataType.slice((1, *dtype.extents), dtype.element))
    return row if kinds[0] == "axis" else transposed(t, node.value, row)


def _no_elements(
    t: Expressions, node: ast.Subscript, value: Value, dtype: DataType, parts: Sequence[ast.expr]
) -> Unsupported:
    """The error for an element, or some, of a slice."""
    text, index = t.source.text(node.value), t.source.text(node.slice)
    if len(parts) == 1 and isinstance(parts[0], (ast.Compare, ast.Name, ast.BinOp, ast.UnaryOp, ast.BoolOp)):
        mask = t.expression(parts[0])
        if (
            isinstance(mask, Value)
            and (flags := slice_type(type_of(mask))) is not None
            and flags.element.is_bool
        ):
            return _mask(node, text, index)
    is_made = _is_made(t, node.value)
    message = f"{text} is a slice, {dtype}, and its elements are not to be had one by one"
    if is_made and None not in dtype.extents:
        size = dtype.extents[0] if len(dtype.extents) == 1 else dtype.extents
        return Unsupported(
            node,
            message,
            f"an array with elements is {text} = vyre.local({dtype.element}, {size}), each invocation's own",
        )
    if len(parts) == 1 and not isinstance(parts[0], ast.Slice):
        element = _element_in_array(value, index)
        if element is not None:
            return Unsupported(node, message, f"read it from the array: {element}")
    if any(isinstance(part, ast.Slice) for part in parts):
        if (statement := _of_loaded(t, node)) is not None:
            return Unsupported(node, message, f"write {statement}")
        return Unsupported(
            node,
            message,
            f"load the part that is meant as a slice of its own, x[r, 0:32] of an array x; of a row of fixed extent, {text}[:, None] is a column",
        )
    at = t.expression(node.slice)
    if isinstance(at, Value) and known(type_of(at)) is not DataType.U32:
        index = f"u32({index})"
    help = f"choose it by vyre.sum(vyre.where(vyre.arange(len({text})) == {index}, {text}, 0))"
    if len(dtype.extents) > 1:
        help = f"one element is read from the array, x[r, {index}]"
    return Unsupported(node, message, help)


def _of_loaded(t: Expressions, node: ast.expr) -> str | None:
    """The statement around a slice of a loaded row, with all such slices as elements of the array; None for a slice of another value."""
    changes: dict[ast.AST, str] = {}
    for each in ast.walk(statement_of(t.source, node)):
        if (
            not isinstance(each, ast.Subscript)
            or not isinstance(each.slice, ast.Slice)
            or each.slice.step is not None
        ):
            continue
        value = t.env.get(getattr(each.value, "id", ""))
        loaded = value.owner if isinstance(value, Value) and isinstance(value.owner, Op) else None
        if loaded is None or loaded.name != "slice_load" or loaded.loc is None:
            continue
        row = next(
            (
                n
                for n in ast.walk(t.source.tree)
                if isinstance(n, ast.Subscript) and t.source.location(n).start == loaded.loc.start
            ),
            None,
        )
        if row is not None and t.source.text(row).endswith(":]"):
            changes[each] = gathered_text(t, each, each.slice, row)
    return corrected(t.source, changes) if any(each is node for each in changes) else None


def _element_in_array(value: Value, index: str) -> str | None:
    """The element of the array that a slice of one dimension is loaded from: m[r, j] of m[r, :]; None for another value."""
    loaded = value.owner.loc if isinstance(value.owner, Op) and value.owner.name == "slice_load" else None
    row = loaded.source.text[loaded.start : loaded.end] if loaded is not None else ""
    if row.endswith(":]") and row.count(":") == 1:
        return f"{row[:-2]}{index}]"
    array, _, first = row[:-1].partition("[")
    if row.count(":") != 1 or "(" in array:
        return None
    *before, block = first.split(", ")
    begin = block.partition(":")[0].strip()
    at = index if begin in ("", "0") else f"{begin} + {index}"
    return f"{array}[{', '.join([*before, at])}]"


def loop_over(value: Value, names: Sequence[str]) -> str | None:
    """The loop over the elements of a loaded slice, for a counter and the name of an element; None for another value."""
    dtype = slice_type(type_of(value))
    counter, name = names
    element = _element_in_array(value, counter)
    if dtype is None or element is None:
        return None
    array = element.partition("[")[0]
    tree = ast.parse(element, mode="eval").body
    indices = tree.slice if isinstance(tree, ast.Subscript) else tree
    open_extent = f"len({array})"
    if isinstance(indices, ast.Tuple):
        open_extent = f"{array}.shape[{len(indices.elts) - 1}]"
    extent = dtype.extents[-1] or open_extent
    return f"for {counter} in range({extent}): {name} = {element}"


def _is_made(t: Expressions, node: ast.expr) -> bool:
    """Whether a name is of `vyre.zeros` or its like, from its first assignment on."""
    values = [
        n.value
        for n in ast.walk(t.source.tree)
        if isinstance(n, ast.Assign)
        and any(
            ast.dump(each) == ast.dump(ast.Name(getattr(node, "id", ""), ast.Store())) for each in n.targets
        )
    ]
    return (
        bool(values)
        and isinstance(values[0], ast.Call)
        and isinstance(values[0].func, ast.Attribute)
        and values[0].func.attr in ("zeros", "full")
    )


def _conditions(node: ast.expr) -> list[ast.expr]:
    """The conditions that `and`, `or` and `not` join."""
    if isinstance(node, ast.BoolOp):
        return [leaf for each in node.values for leaf in _conditions(each)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _conditions(node.operand)
    return [node]


def _by_element(source: FunctionSource, node: ast.expr) -> str:
    """The text of a condition whose `and`, `or` and `not` are `&`, `|` and the opposite comparison."""
    text = source.text
    if isinstance(node, ast.BoolOp):
        sign = " & " if isinstance(node.op, ast.And) else " | "
        return sign.join(f"({_by_element(source, each)})" for each in node.values)
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        terms = [text(each) for each in (node.left, *node.comparators)]
        signs = [COMPARISONS[type(each)][0] for each in node.ops]
        return " & ".join(f"({a} {sign} {b})" for a, sign, b in zip(terms, signs, terms[1:], strict=False))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        opposite = source.opposite(node.operand)
        return opposite or f"~({_by_element(source, node.operand)})"
    return text(node)


MASK = "a mask chooses no elements: a slice keeps its extent"


def _mask(node: ast.expr, text: str, mask: str) -> Unsupported:
    """The error for a slice of bools in the place of an index."""
    help = f"write vyre.where({mask}, {text}, 0), whose other elements are 0, and count those that hold by vyre.sum(u32({mask}))"
    return Unsupported(node, MASK, help)


def transposed(t: Expressions, node: ast.expr, value: Value) -> Value:
    """`block.T`."""
    dtype = slice_type(type_of(value))
    if dtype is None or len(dtype.extents) != 2:
        raise Unsupported(
            node, f"{t.source.text(node)} is {known(type_of(value))}, not a block of two extents"
        )
    result = DataType.slice(dtype.extents[::-1], dtype.element)
    return t.emitter.value("slice_transpose", (value,), result)


def _are_columns_of_both(values: Sequence[Value]) -> bool:
    """Whether the columns of two blocks begin at one index, and the rows of the second at another: `a[i : i + 8, k : k + 8] @ w[j : j + 8, k : k + 8]`."""
    loads = [value.owner for value in values]
    if not all(isinstance(load, Op) and load.name == "slice_load" for load in loads):
        return False
    starts = [load.indices[-2:] for load in loads]  # type: ignore[union-attr]
    if any(len(each) != 2 for each in starts) or constant_value(starts[1][1]) is not None:
        return False
    (_, left), (row, column) = ([identity(index) for index in each] for each in starts)
    return column == left != row


def product(t: Expressions, node: ast.expr, a: Binding, b: Binding, nodes: Sequence[ast.expr]) -> Value:
    """`a @ b`: of f16 and bf16 in f32, of integers of 8 and 16 bits in 32."""
    values = [t.as_value(each, at) for each, at in zip((a, b), nodes, strict=True)]
    types: list[DataType] = []
    for value, at in zip(values, nodes, strict=True):
        dtype = slice_type(type_of(value))
        if dtype is None or len(dtype.extents) != 2 or None in dtype.extents or dtype.element.is_bool:
            raise Unsupported(
                node,
                f"@ takes blocks of two fixed extents of numbers, and {t.source.text(at)} is {known(type_of(value))}",
                of_whole_product(t, node, *nodes)
                if _are_open_blocks(values)
                else f"write {rows}"
                if (rows := product_text(t, nodes)) and "vyre.sum" in rows
                else _block_of(t, at, dtype, nodes),
            )
        types.append(dtype)
    left, right = types
    if left.extents[1] != right.extents[0]:
        of_left, of_right = map(t.source.text, nodes)
        help = f"give {of_right} the {left.extents[1]} rows that {of_left} has columns"
        if left.extents[1] == right.extents[1]:
            help = f"write {of_left} @ {of_right}.T"
        raise Unsupported(node, f"@ takes M x K and K x N, not {left} and {right}", help)
    if _are_columns_of_both(values):
        of_left, of_right = map(t.source.text, nodes)
        message = f"the columns of {of_right} go along those of {of_left}, and @ multiplies columns by rows: its rows go elsewhere"
        t.emitter.warnings.append(
            Diagnostic("warning", message, t.source.location(node), help=f"write {of_left} @ {of_right}.T")
        )
    if left.element is not right.element:
        wide = left.element if (left.bits or 0) >= (right.bits or 0) else right.element
        narrow = nodes[0] if wide is right.element else nodes[1]
        help = f"write {wide}({t.source.text(narrow)})"
        raise Unsupported(node, f"@ takes blocks of one type, not {left.element} and {right.element}", help)
    try:
        result = DataType.slice((left.extents[0], right.extents[1]), sum_type(left.element))
    except TypeNameError as error:
        raise Unsupported(node, str(error), "give each workgroup a smaller block of the product") from None
    return t.emitter.value("slice_dot", values, result)


def _are_open_blocks(values: Sequence[Value]) -> bool:
    types = [slice_type(type_of(value)) for value in values]
    return all(dtype is not None and dtype.extents == (None, None) for dtype in types)


def _block_of(t: Expressions, node: ast.expr, dtype: DataType | None, factors: Sequence[ast.expr]) -> str:
    """Help for one of two factors that is no block."""
    if dtype is not None and len(dtype.extents) == 1 and None not in dtype.extents:
        text = t.source.text(node)
        left, right = map(t.source.text, factors)
        product = (
            f"{left}[:, None] * {right}, axis=0"
            if node is factors[0]
            else f"{left} * {right}[None, :], axis=1"
        )
        return f"write vyre.sum({product}), a row; {text}[None, :] is a block of one row, {text}[:, None] of one column"
    if dtype is None:
        return "x[i:i + 64, k:k + 32] is a block of an array x; a number multiplies with *"
    return "x[i:i + 64, k:k + 32] is a block of fixed extents of an array x"


def _is_product(binding: Binding, node: ast.expr) -> TypeGuard[Value]:
    """Whether it is `a @ b` of blocks as it is written, rather than a name of it."""
    is_written = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    return is_written and isinstance(binding, Value) and slice_type(type_of(binding)) is not None


def _added(t: Expressions, factors: Value, total: Value) -> Value:
    """`total + a @ b`, which is one op: the products are added to the total one after the other."""
    dot = factors.owner
    assert isinstance(dot, Op)
    t.emitter.block.ops.remove(dot)  # the total may have come after it
    return t.emitter.value("slice_dot", (*dot.operands, total), factors.type)


def _unified(t: Expressions, node: ast.expr, a: AnyType, b: DataType) -> DataType:
    try:
        unify(a, b, t.source.location(node))
    except TypeMismatch as mismatch:
        raise t.wrong_type(node, mismatch, b) from None
    return b


def _box(t: Expressions, node: ast.Subscript, view: BufferView) -> tuple[list[Value], DataType]:
    """The place of the first element, and the type of what `x[r, :]` or `x[i:i + 64]` is."""
    buffer = view.buffer
    refuse_ellipsis(t, node.slice)
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
            _column(t, node, parts),
        )
    indices: list[Value] = []
    extents: list[int | None] = []
    for dimension, part in enumerate(parts):
        if not isinstance(part, ast.Slice):
            indices.append(t.index(part, t.expression(part), view, dimension))
            continue
        if part.step is not None:
            raise Unsupported(part.step, "a slice of a kernel has no step", _with_step(t, node, view, part))
        lower = ast.copy_location(ast.Constant(0), node) if part.lower is None else part.lower
        begin = t.expression(lower)
        if view.fill is not None and isinstance(begin, Static) and type(begin.value) is int:
            # before the first element and beyond the last one, too
            indices.append(t.emitter.adapted(begin, DataType.I32 if begin.value < 0 else DataType.U32, lower))
        elif isinstance(begin, Static) and type(begin.value) is int and begin.value < 0:
            message = f"a slice does not count from the end, {t.source.text(lower)}"
            raise Unsupported(lower, message, _of_any_extent(t, node, part))
        else:
            indices.append(t.index(lower, begin, view, dimension))
        extents.append(None if part.upper is None else _extent(t, node, part, lower))
    try:
        return indices, DataType.slice(extents, buffer.dtype)
    except TypeNameError as error:
        raise Unsupported(node, str(error)) from None


def _column(t: Expressions, node: ast.Subscript, parts: Sequence[ast.expr]) -> str:
    """Remedy for a slice of another dimension than the last ones: elements at indices, where they are read."""
    array = t.source.text(node.value)
    ranges = [part for part in parts if isinstance(part, ast.Slice)]
    if (
        len(ranges) != 1
        or isinstance(node.ctx, ast.Store)
        or ranges[0].step is not None
        or ".filled(" in array
    ):
        return "lay the array out the other way, or write a loop over the elements"
    begin, count = _span(t, ranges[0], f"{array}.shape[{parts.index(ranges[0])}]")
    length = f"{array}.shape[{parts.index(ranges[0])}]"
    count = count or (f"{length} - {begin}" if begin else length)
    index = f"{begin + ' + ' * bool(begin)}vyre.arange({count})"
    return f"write {array}[{', '.join(index if p is ranges[0] else t.source.text(p) for p in parts)}], the elements at these indices"


def _with_step(t: Expressions, node: ast.Subscript, view: BufferView, part: ast.Slice) -> str:
    """Remedy for `x[r, ::2]`: the elements at indices, which are loaded; a store has none at indices, and goes by lanes."""
    assert part.step is not None
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    array, step = t.source.text(node.value), t.source.text(part.step)
    begin = (
        "" if part.lower is None or t.source.text(part.lower) == "0" else f"{t.source.text(part.lower)} + "
    )
    if step in ("1", "None"):
        bounds = [each and t.source.text(each) for each in (part.lower, part.upper)]
        index = f"{bounds[0] or ''}:{bounds[1] or ''}"
        return f"leave it out: {array}[{', '.join(index if p is part else t.source.text(p) for p in parts)}]"
    if isinstance(node.ctx, ast.Store):
        index = f"{begin}{step} * vyre.global_id(0)"
        element = ", ".join(index if each is part else t.source.text(each) for each in parts)
        return f"write a program with an invocation for each element, @vyre.program(workgroup=64), and in it {array}[{element}] = ..."
    length = f"len({array})" if view.buffer.dimensions == 1 else f"{array}.shape[{parts.index(part)}]"
    upper = length if part.upper is None else t.source.text(part.upper)
    if step.startswith("-"):
        stride = step[1:]
        last = f"{length} - 1" if part.lower is None else t.source.text(part.lower)
        count = f"{last} + 1" if part.upper is None else f"{last} - {upper}"
        if part.lower is None and part.upper is None:
            count = length
        index = f"{last} - {'' if stride == '1' else f'{stride} * '}vyre.arange({_quotient(count, stride)})"
    else:
        count = f"{upper} - {t.source.text(part.lower)}" if begin and part.lower is not None else upper
        index = f"{begin}{step} * vyre.arange({_quotient(count, step)})"
    element = ", ".join(index if each is part else t.source.text(each) for each in parts)
    return f"write {array}[{element}], the elements at these indices"


def _quotient(count: str, step: str) -> str:
    """Text of the number of elements of a slice with a step."""
    if re.fullmatch(r"\d+( [-+] \d+)?", count):
        count = str(sum(int(each) for each in count.replace(" - ", " -").replace(" + ", " ").split()))
    if count.isdigit() and step.isdigit():
        return str(-(-int(count) // int(step)))
    return count if step == "1" else f"vyre.ceil_div({count}, {step})"


_RAGGED = "the extent of a block is known when the kernel is translated; this is computed while it runs"


def _of_any_extent(t: Expressions, node: ast.Subscript, part: ast.Slice) -> str:
    """Remedy for a block that ends at a computed place, or before the end: elements at indices, or a loop where it is stored."""
    statement = statement_of(t.source, node)
    if isinstance(statement, (ast.Assign, ast.AugAssign)):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if isinstance(target, ast.Subscript) and (target is node or _is_ragged(t, target)):
            loop = _as_loop(t, statement, target)
            return (
                f"write {loop}"
                if loop
                else "give the block a fixed extent, and choose elements by vyre.where"
            )
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if sum(isinstance(p, ast.Slice) for p in parts) > 1:
        return "give the block a fixed extent, and choose its elements by vyre.where; or loop over its rows"
    if ".filled(" in t.source.text(node.value):
        begin, count = _span(t, part, "")
        block = ", ".join(
            f"{begin or 0}:{begin + ' + ' * bool(begin)}64" if p is part else t.source.text(p) for p in parts
        )
        return f"write vyre.where(vyre.arange(64) < {count}, {t.source.text(node.value)}[{block}], 0), which has room for 64 elements"
    return f"write {gathered_text(t, node, part)}, the elements at these indices"


def gathered_text(t: Expressions, node: ast.Subscript, part: ast.Slice, whole: ast.expr | None = None) -> str:
    """`x[r, n + vyre.arange(m)]` for the part of an array, or of its slice `whole`, that a slice of Python names."""
    base = whole or node
    assert isinstance(base, ast.Subscript)
    parts = base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]
    slot = part if whole is None else next(p for p in parts if isinstance(p, ast.Slice))
    array = t.source.text(base.value)
    begin, count = _span(
        t, part, f"len({array})" if len(parts) == 1 else f"{array}.shape[{parts.index(slot)}]"
    )
    index = f"{begin}:" if count is None else f"{begin + ' + ' * bool(begin)}vyre.arange({count})"
    return f"{array}[{', '.join(index if p is slot else t.source.text(p) for p in parts)}]"


def _span(t: Expressions, part: ast.Slice, length: str) -> tuple[str, str | None]:
    """The text of the first index of a slice, "" for 0, and that of the number of elements; None for all behind the first."""
    lower, upper = (None if each is None else _bound(t, each, length) for each in (part.lower, part.upper))
    begin = "" if lower in (None, "0") else str(lower)
    if upper is None:
        return begin, None
    end = part.upper
    if isinstance(end, ast.BinOp) and isinstance(end.op, ast.Add) and t.source.text(end.left) == begin:
        return begin, _bound(t, end.right, length)
    rows = re.fullmatch(r"\((\w+) \+ 1\) \* (\w+)", upper)
    if rows and begin == f"{rows[1]} * {rows[2]}":
        return begin, rows[2]
    if not begin:
        return begin, upper
    if upper.startswith(f"{length} - ") and upper[len(length) + 3 :].isdigit() and begin.isdigit():
        return begin, f"{length} - {int(upper[len(length) + 3 :]) + int(begin)}"
    less = begin if re.fullmatch(r"[\w.]+", begin) else f"({begin})"
    return begin, f"{upper} - {less}"


def _bound(t: Expressions, node: ast.expr, length: str) -> str:
    """The text of a bound as a u32: one below 0 counts from the end."""
    with t.emitter.aside():
        binding = t.expression(node)
    if isinstance(binding, Static) and type(binding.value) is int and binding.value < 0:
        return f"{length} - {-binding.value}"
    text = t.source.text(node)
    dtype = known(type_of(binding)) if isinstance(binding, Value) else None
    is_other = isinstance(dtype, DataType) and dtype.is_int and dtype is not DataType.U32
    return f"u32({text})" if is_other else text


def _is_ragged(t: Expressions, node: ast.Subscript) -> bool:
    """Whether a block has a bound that is computed, or counts from the end."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    ends = [p.upper for p in parts if isinstance(p, ast.Slice) and p.upper is not None]
    return any(not isinstance(end, ast.Constant) for end in ends)


def _as_loop(t: Expressions, statement: ast.Assign | ast.AugAssign, target: ast.Subscript) -> str | None:
    """An assignment to a block as a loop over its elements; None where an element needs more than those at its own index."""
    counter = free_name(t, "k")
    spans: list[tuple[ast.AST, list[ast.expr], ast.Slice | None, str]] = []
    for each in ast.walk(statement):
        if (
            isinstance(each, ast.Call)
            and t.source.text(each.func).rpartition(".")[2] in _WHOLE
            and len(each.args) == 1
        ):
            return None
        if isinstance(each, ast.Subscript) and is_slice_index(each.slice):
            parts = each.slice.elts if isinstance(each.slice, ast.Tuple) else [each.slice]
            ranges = [p for p in parts if isinstance(p, ast.Slice)]
            if (
                len(ranges) != 1
                or ranges[0].step is not None
                or not isinstance(t.env.get(getattr(each.value, "id", "")), BufferView)
            ):
                return None
            spans.append((each, parts, ranges[0], t.source.text(each.value)))
        elif (
            isinstance(each, ast.Name)
            and isinstance(value := t.env.get(each.id), Value)
            and slice_type(type_of(value))
        ):
            element = _element_in_array(value, counter)
            if element is None:
                return None
            spans.append((each, [], None, element))
    begins = {id(part): _span(t, part, "") for _, _, part, _ in spans if part is not None}
    own = next(part for each, _, part, _ in spans if each is target)
    assert own is not None
    parts = next(parts for each, parts, _, _ in spans if each is target)
    array = t.source.text(target.value)
    _, count = _span(t, own, f"len({array})" if len(parts) == 1 else f"{array}.shape[{parts.index(own)}]")
    changes: dict[ast.AST, str] = {}
    for each, parts, part, text in spans:
        if part is not None:
            start = begins[id(part)][0]
            index = f"{start} + {counter}" if start else counter
            text = f"{text}[{', '.join(index if p is part else t.source.text(p) for p in parts)}]"
        changes[each] = text
    return f"for {counter} in range({count}): {corrected(t.source, changes)}"


_WHOLE = (
    "sum",
    "prod",
    "max",
    "min",
    "any",
    "all",
    "argmax",
    "argmin",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
)
"""Functions of all elements of a slice."""


def _extent(t: Expressions, node: ast.Subscript, part: ast.Slice, lower: ast.expr) -> int:
    """Extent of `i:i + 64` or `16:32`."""
    upper = part.upper
    assert upper is not None
    if (
        isinstance(upper, ast.BinOp)
        and isinstance(upper.op, ast.Add)
        and ast.dump(upper.left) == ast.dump(lower)
    ):
        size = t.expression(upper.right)
        if not isinstance(size, Static):
            raise Unsupported(upper.right, _RAGGED, _of_any_extent(t, node, part))
        extent = size.value
    else:
        ends = [t.expression(each) for each in (lower, upper)]
        if not all(isinstance(end, Static) for end in ends):
            raise Unsupported(upper, _RAGGED, _of_any_extent(t, node, part))
        extent = ends[1].value - ends[0].value  # type: ignore[union-attr]
        if type(ends[1].value) is int and ends[1].value < 0:  # type: ignore[union-attr]
            message = f"a block does not count from the end, {t.source.text(upper)}"
            raise Unsupported(upper, message, _of_any_extent(t, node, part))
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
                _kept_axis(t, node, found, dtype) or "extents are the same or 1, from the last one on",
            )
        if found is not None and _is_across(value, found, leader, dtype):
            help = _kept_axis(t, node, found, dtype)
            message = f"{t.source.text(node)} has one element a row, and goes along the columns here: extents are the same or 1, from the last one on"
            t.emitter.warnings.append(Diagnostic("warning", message, t.source.location(node), help=help))
    like = (leader,) if None in dtype.extents else ()
    return t.emitter.value("slice_broadcast", (value, *like), dtype)


_MOST_TERMS = 50
"""Ops that a slice is computed from which are looked at."""


def _is_across(value: Value, found: DataType, leader: Value, dtype: DataType) -> bool:
    """Whether rows of a square block are combined, and the results spread along its columns: `block - vyre.max(block, axis=1)`."""
    extents = dtype.extents
    if len(found.extents) != 1 or len(extents) != 2 or extents[0] != extents[1] or extents[0] == 1:
        return False
    sources = {leader, *_computed_from(leader)}
    for part in (value, *_computed_from(value)):
        op = part.owner
        if isinstance(op, Op) and op.name == "slice_reduce" and op.attrs["axis"] == 1:
            parts = {op.operands[0], *_computed_from(op.operands[0])}
            return any(getattr(known(type_of(each)), "extents", ()) == extents for each in parts & sources)
    return False


def _computed_from(value: Value) -> list[Value]:
    """The values that one is computed from, the nearest first."""
    found = [value]
    for each in found:
        if isinstance(each.owner, Op) and each.owner.definition.is_pure and len(found) < _MOST_TERMS:
            found += each.owner.operands
    return found[1:]


def _to_common_extents(t: Expressions, bindings: Sequence[Binding], node: ast.expr) -> Sequence[Binding]:
    """Operands one of which has the extents that all slices among them broadcast to, if there are any."""
    types = [slice_type(type_of(b)) if isinstance(b, Value) else None for b in bindings]
    slices = [dtype for dtype in types if dtype is not None]
    rank = max((len(dtype.extents) for dtype in slices), default=0)
    padded = [(1,) * (rank - len(dtype.extents)) + dtype.extents for dtype in slices]
    common = tuple(next((e for e in column if e != 1), 1) for column in zip(*padded, strict=True))
    fits = all(a in (1, b) for extents in padded for a, b in zip(extents, common, strict=True))
    if not slices or None in common or not fits or any(dtype.extents == common for dtype in slices):
        return bindings
    number = next(k for k, dtype in enumerate(types) if dtype is not None)
    value, dtype = bindings[number], types[number]
    assert isinstance(value, Value) and dtype is not None
    wide = t.emitter.value("slice_broadcast", (value,), DataType.slice(common, dtype.element))
    return [wide if k == number else each for k, each in enumerate(bindings)]


def _kept_axis(t: Expressions, node: ast.expr, found: DataType, dtype: DataType) -> str | None:
    """Remedy for a reduction along the last axis of a block, which is to be a column; None for another slice."""
    if len(found.extents) != 1 or len(dtype.extents) != 2 or found.extents[0] != dtype.extents[0]:
        return None
    if isinstance(node, ast.Call) and any(k.arg == "axis" for k in node.keywords):
        return f"write {t.source.text(node)[:-1]}, keepdims=True)"
    return f"write {t.source.text(node)}[:, None], a column" if isinstance(node, ast.Name) else None


def _may_spread(found: DataType, dtype: DataType) -> bool:
    pairs = zip(reversed(found.extents), reversed(dtype.extents), strict=False)
    return len(found.extents) <= len(dtype.extents) and all(a in (1, b) for a, b in pairs)
