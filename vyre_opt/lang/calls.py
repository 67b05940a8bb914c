"""Translates calls in kernels: ops of the table, conversions, functions of Python that have ops, and functions of kernels."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..ir import arith
from ..ir.formats import mask_type
from ..ir.ops import AXES, FASTMATH, OPS, OpDef
from ..ir.program import Op, Value
from ..ir.suggestions import suggest
from ..ir.types import MAX_VECTOR_LANES, MIN_VECTOR_LANES, DataType, vector_lanes
from . import copies, local_arrays, matrices, slice_calls, slices
from .axis_numbers import along_axis, axis_argument, warn_of_axis
from .bindings import Binding, BufferView, LocalArray, Static, Unbound
from .call_arguments import KEYWORDS, array_of, into, positional, word_of
from .constants import evaluate
from .emitter import type_of
from .exchange_loops import as_atomic
from .fastmath import words_of
from .foreign_words import dotted_name, foreign_help, type_meant
from .inference import OpenType, flags_of, resolved
from .intrinsics import Intrinsic, KernelIntrinsic, ceil_div, static
from .named_tuples import construct, is_named_class
from .pointer_calls import is_pointer_call, of_pointer
from .printing import debug_print, python_print
from .python_source import Unsupported
from .remedies import as_floats, lanes_of, product_text, rank_of
from .scalars import scalar_type

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["call"]

Handler = Callable[["Expressions", ast.Call], Binding]


def call(t: Expressions, node: ast.Call) -> Binding:
    """The result of a call.  Raises Unsupported."""
    base: Binding | None = None
    if isinstance(node.func, ast.Attribute):
        try:
            base = t.owner(node.func)
        except Unsupported as error:
            if dotted_name(node.func):
                error.help = _with_arguments(t, node, error.help)
            raise
        if isinstance(base, BufferView) and node.func.attr == "vec":
            return t.vector_view(node, base)
        if isinstance(base, BufferView) and node.func.attr == "filled":
            return slices.filled(t, node, base)
        if isinstance(base, Value) and node.func.attr in ("astype", "to") and len(node.args) == 1:
            _refuse_method(t, node, node.func)
    try:
        callee = t.expression(node.func)
    except Unsupported as error:
        method = node.func
        if isinstance(base, Value) and isinstance(method, ast.Attribute) and rank_of(t, method.value):
            plain = ast.Call(method, [method.value, *node.args], node.keywords)
            help = foreign_help(method.attr)
            if help is not None and help.startswith("write vyre."):  # row.sum(0)
                error.help = _with_arguments(t, ast.copy_location(plain, node), help)
        elif dotted_name(node.func):
            error.help = _with_arguments(t, node, error.help)
        raise
    name = t.source.text(node.func)
    is_rebound = isinstance(node.func, ast.Name) and node.func.id in t.env
    if not isinstance(callee, Static) or (is_rebound and not callable(callee.value)):
        raise _no_function(t, node, callee, name)
    function = callee.value
    dtype = scalar_type(function)
    if dtype is not None and function is not bool:
        return _convert(t, node, dtype)
    if is_named_class(function):
        return construct(t, node, function)
    if isinstance(function, KernelIntrinsic):
        raise Unsupported(
            node, f"{name} is a kernel of its own", "launch it in a function with @vyre.pipeline"
        )
    if isinstance(function, Intrinsic):
        return _intrinsic(t, node, function.__name__)
    if _is_hashable(function) and function in _PYTHON:
        return _PYTHON[function](t, node)
    translate = getattr(function, "__vyre_call__", None)
    if translate is not None:
        return translate(t, node)  # type: ignore[no-any-return]
    return _static_call(t, node, function, name)


def _no_function(t: Expressions, node: ast.Call, callee: Binding, name: str) -> Unsupported:
    """The error for a call of a value, perhaps of one that has the name of a function."""
    if isinstance(callee, Unbound):
        return t.unbound(node.func, callee)
    is_array = isinstance(callee, (BufferView, LocalArray))
    what = "an array" if is_array else "a value"
    if not isinstance(node.func, ast.Name) or name not in t.source.names:
        arguments = ", ".join(map(t.source.text, node.args))
        return Unsupported(
            node,
            f"{name} is {what}, and no function",
            f"an element is {name}[{arguments or 'i'}]" if is_array else None,
        )
    is_argument = any(argument.arg == name for argument in t.source.arguments)
    places = [
        n
        for n in ast.walk(t.source.tree)
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
    ]
    places.sort(key=lambda n: (n.lineno, n.col_offset))
    place: ast.AST | None = next(
        (a for a in t.source.arguments if is_argument and a.arg == name), places[0] if places else None
    )
    error = Unsupported(
        node.func,
        f"{name} is {what} here, and no function any more",
        f"give {what} another name, such as {name}_of_x",
    )
    if place is not None:
        error.notes.append(
            (
                f"{name} is assigned here" if not is_argument else f"{name} is declared here",
                t.source.location(place),
            )
        )
    return error


def _refuse_method(t: Expressions, node: ast.Call, method: ast.Attribute) -> None:
    """`x[1].astype(u32)`.  Raises Unsupported for a type."""
    target = t.expression(node.args[0])
    name = target.value if isinstance(target, Static) else None
    meant = (
        (foreign_help(name) or "").removeprefix("write ").partition(";")[0]
        if isinstance(name, str)
        else type_meant(name)
    )
    if meant:
        is_named = isinstance(target, Static) and scalar_type(target.value) is not None
        written = f"{t.source.text(node.args[0]) if is_named else meant}({t.source.text(method.value)})"
        raise Unsupported(method, f"a value has no attribute {method.attr}", f"write {written}")


def _is_hashable(value: object) -> bool:
    return getattr(value, "__hash__", None) is not None


# --- conversions


def _convert(t: Expressions, node: ast.Call, dtype: DataType) -> Value:
    """`f32(x)`."""
    (argument,) = positional(t, node, "x")
    binding = t.expression(argument)
    if isinstance(binding, Static):
        value = binding.value
        if isinstance(value, bool):
            value = int(value)
        if isinstance(value, float) and dtype.is_int:
            value = arith.convert(arith.encode_float(value, DataType.F64), DataType.F64, dtype)
        return t.as_value(Static(value, binding.loc), argument, dtype)
    value = t.as_value(binding, argument)
    source = type_of(value)
    t.warn_of_narrow_sum(node, argument, value, dtype)
    if isinstance(source, OpenType):  # a conversion takes any type, and so asks for none
        return t.emitter.value("cast", (value,), dtype)
    # `len(x)` and `x.shape[0]` themselves, but no name of one, which is a u32
    length = (
        value.owner if isinstance(argument, (ast.Call, ast.Subscript)) and dtype is DataType.U64 else None
    )
    if isinstance(length, Op) and length.name == "len":  # as a u32 it would wrap at 2^32 elements
        return t.emitter.value("len", (), dtype, length.attrs)
    if source.is_matrix:
        return matrices.converted(t, node, value, dtype)
    target = source.with_element(dtype)
    return value if source is target else t.emitter.value("cast", (value,), target)


def _bitcast(t: Expressions, node: ast.Call) -> Value:
    argument, to = positional(t, node, "x", "dtype")
    value, dtype = t.value(argument), scalar_type(t.static(to, "a type"))
    if dtype is None:
        raise Unsupported(to, "bitcast takes a type: bitcast(x, u32)")
    source = resolved(type_of(value))
    if (
        source.is_slice
        and source.element.bits == dtype.bits
        and not (source.element.is_bool or dtype.is_bool)
    ):
        return t.emitter.value("bitcast", (value,), source.with_element(dtype))
    if source.is_slice:
        raise Unsupported(node, f"elements of {source} have other sizes than {dtype}, or are bools")
    if source.element.is_bool or dtype.is_bool:
        raise Unsupported(node, "a bool has no bits of its own", "write u32(flag), or bool(x)")
    assert source.bits is not None and dtype.bits is not None
    lanes, rest = divmod(source.bits, dtype.bits)
    if rest or not 1 <= lanes <= MAX_VECTOR_LANES:
        raise Unsupported(node, f"{source} has {source.bits} bits, which are no vector of {dtype}")
    return t.emitter.value("bitcast", (value,), dtype if lanes == 1 else DataType.vec(dtype, lanes))


# --- ops of the table


def _intrinsic(t: Expressions, node: ast.Call, name: str) -> Binding:
    if name in _OWN:
        return _OWN[name](t, node)
    row = OPS[name.removesuffix("_")]
    return _FORMATS[row.format](t, node, row)


def _elementwise(t: Expressions, node: ast.Call, row: OpDef) -> Binding:
    if (
        row.name in ("min", "max")
        and len(node.args) == 1
        and not any(k.arg in ("a", "b") for k in node.keywords)
    ):
        return slice_calls.reduced(t, node, row.name)
    names = ["a", "b", "c"][: {"unary": 1, "ternary": 3}.get(row.format, 2)]
    flags, plain = _fastmath(t, node, row)
    arguments = positional(t, plain, *names)
    operands = _alike(t, plain, arguments)
    dtype = t.accepted(node, row.name, type_of(operands[0]))
    if row.name in ("min", "max"):
        warn_of_axis(t, node, row.name, slices.slice_type(type_of(operands[0])))
    attrs = {} if flags is None else {"fastmath": flags}
    if row.format == "compare":
        dtype = flags_of(dtype)
    return t.emitter.value(row.name, operands, dtype, attrs)


def _fastmath(t: Expressions, node: ast.Call, row: OpDef) -> tuple[tuple[str, ...] | None, ast.Call]:
    """The flags of `fastmath=`, which replace the program's, or None; and the call without it."""
    keywords = [k for k in node.keywords if k.arg == "fastmath"]
    if not keywords:
        return None, node
    names = words_of(t.static(keywords[0].value, "fastmath"))
    if not row.fastmath:
        raise Unsupported(keywords[0].value, f"{row.name} takes no fastmath flags")
    wrong = [str(word) for word in names if word not in row.fastmath]
    if wrong:
        raise Unsupported(
            keywords[0].value,
            f"fastmath takes {', '.join(row.fastmath)}, not {wrong[0]}",
            suggest(wrong[0], row.fastmath),
        )
    plain = ast.Call(node.func, node.args, [k for k in node.keywords if k.arg != "fastmath"])
    return tuple(flag for flag in FASTMATH if flag in names), ast.copy_location(plain, node)


def _alike(t: Expressions, node: ast.Call, arguments: Sequence[ast.expr]) -> list[Value]:
    """Arguments as values of one type (see `Expressions.alike`)."""
    return t.alike(node, [t.expression(argument) for argument in arguments], arguments)


def _select(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    condition, a, b = positional(t, node, "condition", "a", "b")
    flag = t.value(condition)
    shape = type_of(flag)
    is_mask = isinstance(shape, DataType) and shape.is_vec and shape.element.is_bool
    if isinstance(shape, DataType) and shape.is_slice and not shape.element.is_bool:
        text = t.source.text(condition)
        raise Unsupported(condition, f"{text} is of {shape.element}, not of bools", f"write {text} != 0")
    if isinstance(shape, DataType) and shape.is_slice:
        return _select_elements(t, node, flag, [a, b])
    if not is_mask:
        flag = t.as_condition(flag, condition)
    x, y = _alike(t, node, [a, b])
    if is_mask and isinstance(shape, DataType):
        vector = shape.with_element(resolved(type_of(x)).element)
        x, y = t.emitter.broadcast(x, vector), t.emitter.broadcast(y, vector)
    if is_mask and flags_of(type_of(x)) is not shape:
        text, found = t.source.text(condition), type_of(x)
        raise Unsupported(
            node,
            f"{text} is {shape}, which chooses lanes of vectors as long, and {t.source.text(a)} is {found}",
        )
    return t.emitter.value("select", (flag, x, y), type_of(x))


def _select_elements(t: Expressions, node: ast.Call, flags: Value, arguments: Sequence[ast.expr]) -> Value:
    """Element by element of slices; numbers are the same for all."""
    x, y = _alike(t, node, arguments)
    dtype = type_of(x)
    if slices.slice_type(dtype) is None:
        element = resolved(dtype)
        x, y = (
            slices.spread(t, flags, each, at, element) for each, at in zip((x, y), arguments, strict=True)
        )
    return t.emitter.value("select", (slices.spread(t, x, flags, node, DataType.BOOL), x, y), type_of(x))


def _id(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    arguments = positional(t, node, "axis", optional=1)
    axis = t.static(arguments[0], "an axis") if arguments else 0
    if axis in (0, 1, 2) and not isinstance(axis, bool):
        axis = AXES[axis]
    if axis not in AXES:
        help = f"write vyre.{row.name}(0), which counts along x; 1 is y, and 2 is z"
        raise Unsupported(arguments[0], f"an axis is 0, 1 or 2, not {axis!r}", help)
    return t.emitter.value(row.name, (), DataType.U32, {"axis": axis})


def _size(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    positional(t, node)
    return t.emitter.value(row.name, (), DataType.U32)


def _atomic(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    names = ["expected", "value"] if row.name.endswith("compare_exchange") else ["value"]
    flags, plain = _fastmath(t, node, row)
    _refuse_element(t, plain, names)
    array, at, *rest = positional(t, plain, "array", "index", *names, "order", optional=1)
    view = array_of(t, array, "read")
    t.check_access(array, view, "written")
    indices = t.indices(at, view)
    values = [t.value(argument, view.buffer.dtype) for argument in rest[: len(names)]]
    dtype = view.buffer.dtype
    if dtype.is_vec or not row.accepts(dtype):
        raise Unsupported(
            node, f"{row.name} does not take {dtype}", _of_bits(t, node, view, at, rest[: len(names)])
        )
    if flags and not dtype.is_float:
        raise Unsupported(
            node, f"fastmath is for floats, and the elements of {t.source.text(array)} are {dtype}"
        )
    orders = row.attrs[0].choices or ()
    order = word_of(t, rest[-1], "order", orders) if len(rest) > len(names) else "relaxed"
    attrs = {"order": order, "buffer": view.buffer.name} | ({} if flags is None else {"fastmath": flags})
    return t.emitter.value(row.name, (*indices, *values), dtype, attrs)


def _of_bits(
    t: Expressions, node: ast.Call, view: BufferView, at: ast.expr, values: Sequence[ast.expr]
) -> str | None:
    """Remedy for an atomic that does not take the elements of its array: one on words of as many bits, or of 32 of them."""
    dtype, name = view.buffer.dtype, view.buffer.name
    word = {32: "u32", 64: "u64"}.get(dtype.bits or 0)
    if not dtype.is_float or word is None or dtype.is_vec:
        wide = "f32" if dtype.is_float else "i32" if dtype.kind == "int" else "u32"
        return f"declare it {name}: ReadWrite[{wide}], and pass {name}.astype(np.{python_name(wide)})"
    bits = [
        f"vyre.bitcast({f'{dtype}({t.source.text(v)})' if isinstance(v, ast.Constant) else t.source.text(v)}, {word})"
        for v in values
    ]
    place = [name, t.source.text(at)]
    if (atomic := as_atomic(t.source, node, place, values)) is not None:
        return f"write {atomic} in the place of the loop"
    call = f"{t.source.text(node.func)}({', '.join([*place, *bits])})"
    return (
        f"declare it {name}: ReadWrite[{word}], pass {name}.view(np.{python_name(word)}), write vyre.bitcast({call}, {dtype}) here, "
        f"and vyre.bitcast({name}[...], {dtype}) where it is read"
    )


def python_name(dtype: str) -> str:
    """Name of a type in NumPy: float32 for f32."""
    return dtype.replace("f", "float").replace("u", "uint") if dtype[0] != "i" else f"int{dtype[1:]}"


def _refuse_element(t: Expressions, node: ast.Call, names: Sequence[str]) -> None:
    """Raise Unsupported for `vyre.atomic_add(out[0], v)`, an element in the place of an array and an index."""
    if not node.args:
        return
    element, *values = node.args
    if not isinstance(element, ast.Subscript) or not isinstance(t.expression(element.value), BufferView):
        return
    if len(values) > len(names):  # an index too
        values = values[1:]
    index = t.source.text(element.slice)
    index = f"({index})" if isinstance(element.slice, ast.Tuple) and not index.startswith("(") else index
    arguments = [
        t.source.text(element.value),
        index,
        *map(t.source.text, values),
        *map(t.source.text, node.keywords),
    ]
    help = f"write {t.source.text(node.func)}({', '.join(arguments)})"
    raise Unsupported(
        element,
        f"{t.source.text(element)} is what an element holds; an atomic takes the array and an index",
        help,
    )


def _barrier(t: Expressions, node: ast.Call, row: OpDef) -> Binding:
    arguments = positional(t, node, "scope", optional=1)
    scopes = row.attrs[0].choices or ()
    scope = word_of(t, arguments[0], "the scope of a barrier", scopes) if arguments else "workgroup"
    t.emitter.op("barrier", attrs={"scope": scope})
    return Static(None)


def _trap(t: Expressions, node: ast.Call, row: OpDef) -> Binding:
    (message,) = positional(t, node, "message")
    text = t.static(message, "the message of a trap")
    t.emitter.op("trap", attrs={"message": str(text)})
    return Static(None)


def _splat(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    argument, lanes = positional(t, node, "x", "lanes")
    value = t.value(argument)
    return t.emitter.value("splat", (value,), DataType.vec(resolved(type_of(value)), _lanes(t, lanes)))


def _lanes(t: Expressions, node: ast.expr) -> int:
    lanes = t.static(node, "the number of lanes")
    if not isinstance(lanes, int) or not MIN_VECTOR_LANES <= lanes <= MAX_VECTOR_LANES:
        raise Unsupported(node, f"a vector has {MIN_VECTOR_LANES} to {MAX_VECTOR_LANES} lanes, not {lanes!r}")
    return lanes


def _vector(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    if len(node.args) < MIN_VECTOR_LANES or node.keywords:
        raise Unsupported(node, f"a vector has {MIN_VECTOR_LANES} or more lanes: vector(a, b)")
    values = _alike(t, node, positional(t, node, *map(str, range(len(node.args)))))
    dtype = resolved(type_of(values[0]))
    return t.emitter.value("vector", values, DataType.vec(dtype, len(values)))


def _permute(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    table, index = (_byte_vector(t, argument) for argument in positional(t, node, "table", "index"))
    return t.emitter.value(row.name, (table, index), type_of(index))


def _byte_vector(t: Expressions, node: ast.expr) -> Value:
    """A vector of u8: a value, or what Python makes bytes of."""
    binding = t.expression(node)
    if isinstance(binding, tuple) and all(isinstance(part, Static) for part in binding):
        binding = Static(tuple(part.value for part in binding))
    if isinstance(binding, Static) and isinstance(binding.value, (bytes, tuple, list)):
        try:
            lanes = bytes(binding.value)
        except (TypeError, ValueError):
            raise Unsupported(
                node, f"{t.source.text(node)} has something else than numbers from 0 to 255"
            ) from None
        if not MIN_VECTOR_LANES <= len(lanes) <= MAX_VECTOR_LANES:
            raise Unsupported(node, vector_lanes(len(lanes)))
        value = lanes[0] if len(set(lanes)) == 1 else tuple(lanes)
        return t.emitter.value("const", (), DataType.vec(DataType.U8, len(lanes)), {"value": value})
    vector = t.as_value(binding, node)
    dtype = type_of(vector)
    if not isinstance(dtype, DataType) or not dtype.is_vec or dtype.element is not DataType.U8:
        raise Unsupported(
            node,
            f"permute takes vectors of u8, and {t.source.text(node)} is {dtype}",
            "x.vec(16)[i] is one of an array x, and bytes(range(16)) one of constants",
        )
    return vector


def _movemask(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    (argument,) = positional(t, node, "flags")
    flags = t.value(argument)
    shape = type_of(flags)
    dtype = mask_type(shape) if isinstance(shape, DataType) else None
    if dtype is None:
        raise Unsupported(
            argument,
            f"movemask takes a vector of 8, 16, 32 or 64 bools, and {t.source.text(argument)} is {shape}",
            "a comparison of vectors gives one",
        )
    return t.emitter.value(row.name, (flags,), dtype)


def _shuffle(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    argument, lane, *mode = positional(t, node, "x", "lane", "mode", optional=1)
    value, source = t.value(argument), t.value(lane, DataType.U32)
    word = word_of(t, mode[0], "the mode of a shuffle", row.attrs[0].choices or ()) if mode else "idx"
    return t.emitter.value(row.name, (value, source), type_of(value), {"mode": word})


def _reduce(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    argument, *combine = positional(t, node, "x", "combine", optional=1)
    value = t.value(argument)
    word = word_of(t, combine[0], "what combines lanes", row.attrs[0].choices or ()) if combine else "add"
    t.accepted(node, "and" if word in ("and", "or", "xor") else "add", type_of(value))
    return t.emitter.value(row.name, (value,), type_of(value), {"combine": word})


def _scan(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    written = {"x", *("x", "mode", "combine")[: len(node.args)], *(k.arg for k in node.keywords)}
    defaults = {"mode": "inclusive", "combine": "add"}
    keywords = [ast.keyword(n, ast.Constant(word)) for n, word in defaults.items() if n not in written]
    complete = ast.copy_location(ast.Call(node.func, node.args, [*node.keywords, *keywords]), node)
    ast.fix_missing_locations(complete)
    argument, *modifiers = positional(t, complete, "x", "mode", "combine")
    value = t.value(argument)
    choices = [attr.choices or () for attr in row.attrs]
    mode = word_of(t, modifiers[0], "the mode of a scan", choices[0])
    combine = word_of(t, modifiers[1], "what combines lanes", choices[1])
    t.accepted(node, "and" if combine in ("and", "or", "xor") else "add", type_of(value))
    return t.emitter.value(row.name, (value,), type_of(value), {"mode": mode, "combine": combine})


def _ballot(t: Expressions, node: ast.Call, row: OpDef) -> Value:
    (argument,) = positional(t, node, "predicate")
    flag = t.as_condition(t.as_value(t.expression(argument), argument), argument)
    return t.emitter.value(row.name, (flag,), DataType.U32)


_FORMATS: dict[str, Callable[[Expressions, ast.Call, OpDef], Binding]] = {
    **dict.fromkeys(("unary", "binary", "ternary", "compare"), _elementwise),
    "select": _select,
    "id": _id,
    "size": _size,
    "atomic": _atomic,
    "barrier": _barrier,
    "trap": _trap,
    "debug_print": debug_print,
    "splat": _splat,
    "vector": _vector,
    "permute": _permute,
    "movemask": _movemask,
    "shuffle": _shuffle,
    "reduce": _reduce,
    "scan": _scan,
    "ballot": _ballot,
    **copies.FORMATS,
    **matrices.FORMATS,
}


def _shared(t: Expressions, node: ast.Call) -> Binding:
    raise Unsupported(node, "shared memory needs a name", "assign it: tile = vyre.shared(f32, 256)")


def _buffer(t: Expressions, node: ast.Call) -> Binding:
    raise Unsupported(
        node,
        f"{t.source.text(node.func)} is of pipelines",
        "in a program, write vyre.shared(f32, 256), or take an array argument",
    )


def _fill(t: Expressions, node: ast.Call) -> Binding:
    message = f"{t.source.text(node.func)} is of pipelines"
    raise Unsupported(node, message, "in a program, store to each element: x[i] = 0")


_OWN: dict[str, Handler] = {
    "bitcast": _bitcast,
    "shared": _shared,
    "buffer": _buffer,
    "fill": _fill,
    "host_read": _buffer,
    **copies.OWN,
    "local": lambda t, node: local_arrays.made(t, node, *positional(t, node, "dtype", "size")),
    **matrices.OWN,
    **slice_calls.OWN,
    "where": lambda t, node: _select(t, node, OPS["select"]),
}


# --- functions of Python


def _len(t: Expressions, node: ast.Call) -> Binding:
    (argument,) = positional(t, node, "x")
    binding = t.expression(argument)
    if isinstance(binding, BufferView):
        return t.length(binding)
    if isinstance(binding, LocalArray):
        return Static(binding.shape[0])
    if isinstance(binding, tuple):
        return Static(len(binding))
    if isinstance(binding, Static):
        return t.computed(node, len, binding)
    dtype = type_of(binding) if isinstance(binding, Value) else None
    if isinstance(dtype, DataType) and dtype.is_vec:
        return Static(dtype.lanes)
    if isinstance(binding, Value) and slices.slice_type(type_of(binding)) is not None:
        return slices.shape_of(t, binding)[0]
    raise Unsupported(
        node, f"{t.source.text(argument)} has no length", "len is of arrays, rows and tuples: len(x)"
    )


def _extremum(op: str, function: Callable[..., Any]) -> Handler:
    def handle(t: Expressions, node: ast.Call) -> Binding:
        starred = next((argument for argument in node.args if isinstance(argument, ast.Starred)), None)
        if starred is not None:
            parts = t.source.text(starred.value)
            raise Unsupported(
                starred, "a kernel does not unpack with *", f"write {op}({parts}[0], {parts}[1])"
            )
        if len(node.args) < 2 or node.keywords:
            help = f"write vyre.{op} for that of a slice, x[r, :], and a loop for {op} of an array"
            if len(node.args) == 1 and (lanes := lanes_of(t, node.args[0])):
                raise Unsupported(node, f"{op} takes two or more values", f"write {op}({', '.join(lanes)})")
            if len(node.args) == 1 and not node.keywords and rank_of(t, node.args[0]) != 0:
                help = f"write vyre.{op}({_row_text(t, node.args[0])})"
            raise Unsupported(node, f"{op} takes two or more values", help)
        bindings = [t.expression(argument) for argument in node.args]
        constants = [b for b in bindings if isinstance(b, Static)]
        if len(constants) == len(bindings):
            return t.computed(node, function, *constants)
        first, *rest = t.alike(node, bindings, node.args)
        dtype = t.accepted(node, op, type_of(first))
        warn_of_axis(t, node, op, slices.slice_type(type_of(first)))
        for value in rest:
            first = t.emitter.value(op, (first, value), dtype)
        return first

    return handle


def _abs(t: Expressions, node: ast.Call) -> Binding:
    (argument,) = positional(t, node, "x")
    binding = t.expression(argument)
    if isinstance(binding, Static):
        return t.computed(node, abs, binding)
    value = t.as_value(binding, argument)
    return t.emitter.value("abs", (value,), t.accepted(node, "abs", type_of(value)))


def _bool(t: Expressions, node: ast.Call) -> Binding:
    """`x != 0`; of a vector, lane by lane."""
    (argument,) = positional(t, node, "x")
    binding = t.expression(argument)
    if isinstance(binding, Static):
        return t.computed(node, bool, binding)
    value = t.as_value(binding, argument)
    dtype = type_of(value)
    if isinstance(dtype, DataType) and dtype.element.is_bool:
        return value
    dtype = t.accepted(node, "ne", dtype, "bool")
    zero = t.like(value, Static(0), argument)
    return t.emitter.value("ne", (value, zero), flags_of(dtype))


def _pow(t: Expressions, node: ast.Call) -> Binding:
    a, b = positional(t, node, "a", "b")
    return t.binary(node, ast.Pow(), t.expression(a), t.expression(b), a, b)


def _ceil_div(t: Expressions, node: ast.Call) -> Binding:
    """-(-a // b): for unsigned integers (a + b - 1) / b would wrap near the largest."""
    a_node, b_node = positional(t, node, "a", "b")
    a, b = t.expression(a_node), t.expression(b_node)
    if isinstance(a, Static) and isinstance(b, Static):
        return t.computed(node, ceil_div, a, b)
    x, y = t.alike(node, (a, b), (a_node, b_node))
    dtype = resolved(t.accepted(node, "rem", type_of(x), "ceil_div"))
    if not dtype.element.kind == "uint":
        raise Unsupported(
            node,
            f"ceil_div takes unsigned integers in a kernel, not {dtype}",
            f"write -(-{t.source.text(a_node)} // {t.source.text(b_node)})",
        )
    quotient, rest = t.emitter.value("div", (x, y), dtype), t.emitter.value("rem", (x, y), dtype)
    flag = dtype.with_element(DataType.BOOL)
    is_rest = t.emitter.value("ne", (rest, t.emitter.number(0, dtype)), flag)
    return t.emitter.value("add", (quotient, t.emitter.value("cast", (is_rest,), dtype)), dtype)


def _static(t: Expressions, node: ast.Call) -> Binding:
    """Result of Python for an expression whose names are constants."""
    (argument,) = positional(t, node, "value")
    try:
        return Static(t.static(argument, "what is static"))
    except Unsupported:  # lists, functions of Python: what a kernel does not have
        return Static(evaluate(argument, t.source.text(argument), partial(t.static, what="it"), t.is_length))


def _range(t: Expressions, node: ast.Call) -> Binding:
    values = [t.static(argument, "the range of a static loop") for argument in node.args]
    return t.computed(node, range, *map(Static, values))


def _advise(message: str, help: str) -> Handler:
    def handle(t: Expressions, node: ast.Call) -> Binding:
        bindings = [t.expression(argument) for argument in node.args]
        constants = [b for b in bindings if isinstance(b, Static)]
        if bindings and not node.keywords and len(constants) == len(bindings):
            function = t.expression(node.func)
            assert isinstance(function, Static)
            return t.computed(node, function.value, *constants)
        written = ", ".join(map(t.source.text, node.args))
        lanes = lanes_of(t, node.args[0]) if len(node.args) == 1 else []
        if lanes and "vyre.sum " in help:
            raise Unsupported(node, message, f"write {' + '.join(lanes)}")
        reduction = re.match(r"write vyre\.(sum|any|all) ", help)
        if (
            reduction
            and len(node.args) == 1
            and isinstance(node.args[0], (ast.Name, ast.Subscript))
            and rank_of(t, node.args[0]) != 0
        ):
            raise Unsupported(node, message, f"write vyre.{reduction[1]}({_row_text(t, node.args[0])})")
        raise Unsupported(node, message, help.replace("(x)", f"({written})") if written else help)

    return handle


def _breakpoint(t: Expressions, node: ast.Call) -> Binding:
    positional(t, node)
    t.emitter.op("breakpoint")
    return Static(None)


_CONVERSION = "a kernel's numbers have sizes"
_PYTHON: dict[Any, Handler] = {
    len: _len,
    min: _extremum("min", min),
    max: _extremum("max", max),
    abs: _abs,
    range: _range,
    ceil_div: _ceil_div,
    static: _static,
    int: _advise(_CONVERSION, "write i32(x), u32(x) or the like"),
    float: _advise(_CONVERSION, "write f32(x), f16(x) or the like"),
    bool: _bool,
    round: _advise("a kernel has no round(...)", "write vyre.round_even(x), vyre.floor(x) or vyre.trunc(x)"),
    sum: _advise(
        "a kernel has no sum(...)",
        'write vyre.sum for that of a slice, x[r, :], vyre.workgroup_reduce(x, "add") for one over invocations, or a loop',
    ),
    any: _advise("a kernel has no any(...)", "write vyre.any for that of a slice, x[r, :], or a loop"),
    all: _advise("a kernel has no all(...)", "write vyre.all for that of a slice, x[r, :], or a loop"),
    pow: _pow,
    print: python_print,
    breakpoint: _breakpoint,
}


def _with_arguments(t: Expressions, node: ast.Call, help: str | None) -> str | None:
    """A remedy for a function of another library with the arguments of this call, for the letters that stand for them."""
    written = [t.source.text(argument) for argument in node.args]
    if help is None or not written or any(" ..." in text for text in written):
        return help
    if any(keyword.arg == "out" for keyword in node.keywords):
        plain = ast.Call(node.func, node.args, [k for k in node.keywords if k.arg != "out"])
        inner = _with_arguments(t, ast.copy_location(plain, node), help)
        whole = into(t, node, next(k for k in node.keywords if k.arg == "out"))
        if whole is None or inner is None or not inner.startswith("write "):
            return inner
        return f"{whole.partition(' = ')[0]} = {inner.removeprefix('write ')}"
    keywords = [(KEYWORDS.get(k.arg or "", k.arg), t.source.text(k.value)) for k in node.keywords]
    form, behind, more = help.removeprefix("write ").partition("; ")
    if not help.startswith("write "):
        return help
    if is_pointer_call(node) and (element := of_pointer(t, node)) is not None:
        is_masked = any(keyword.arg == "mask" for keyword in node.keywords) and "where(" not in element
        return f"write {element}" + "; its edge is that of the array, without a mask" * is_masked
    if form == "block @ block":
        product = product_text(t, node.args)
        return f"write {product}" if product and not keywords else help
    if (atomic := _atomic_on(t, node, form)) is not None:
        return f"write {atomic}"
    if form.startswith(("tile = vyre.shared(", "mine = vyre.local(")):
        size = written[0]
        dtype = next(
            (type_name(t, k.value) for k in node.keywords if k.arg in ("dtype", "type")),
            type_name(t, node.args[1]) if len(written) > 1 else "f32",
        )
        return f"write {form.partition(' = ')[2].partition('(')[0]}({dtype}, {size})"
    if form == "vyre.arange(64)" and len(written) <= 2:
        return (
            f"write vyre.arange({', '.join(written[1:] if written[0] == '0' and written[1:] else written)})"
        )
    is_of_rows = re.search(r"(?<![\w.])row(?!\w)", form) is not None
    axis, rank = axis_argument(node), rank_of(t, node.args[0])
    if is_of_rows and rank and (len(written) == 1 or axis is not None):
        if not {k for k, _ in keywords} <= {"axis", "keepdims"}:
            return help
        keeps = any(k == "keepdims" and v == "True" for k, v in keywords)
        return f"write {along_axis(form, _row_text(t, node.args[0]), rank, axis, keeps)}"
    if keywords:
        return help
    op = re.match(r"vyre\.(\w+)", form)
    if op is not None and op[1] in OPS and OPS[op[1]].types == "float":
        floats = as_floats(t, node.args)
        written = [floats.get(each, text) for each, text in zip(node.args, written, strict=True)]
    pattern = r"(?<![\w.\"'])[abcpij](?![\w(\"'])"
    letters = [*dict.fromkeys(re.findall(pattern, form))]  # in the order of the arguments
    if re.fullmatch(r"vyre\.\w+", form):
        form += f"({', '.join(written)})"
    elif len(letters) == len(written) and not re.search(r"(?<![\w.])[nxy](?![\w(])", form):
        by_letter = dict(zip(letters, written, strict=True))
        form = re.sub(pattern, lambda m: _as_operand(by_letter[m[0]], form), form)
    else:
        return help
    return f"write {form}{behind}{more}"


def _loop_names(t: Expressions, node: ast.Call) -> tuple[str, str]:
    """Names of the number and the element in a loop over this call, `for j, v in enumerate(x)`."""
    for loop in ast.walk(t.source.tree):
        if isinstance(loop, ast.For) and loop.iter is node and isinstance(loop.target, ast.Tuple):
            names = [target.id for target in loop.target.elts if isinstance(target, ast.Name)]
            if len(names) == 2:
                return names[0], names[1]
    return "i", "v"


def type_name(t: Expressions, node: ast.expr) -> str:
    """The type that an expression names, here or in another library; f32 for one that is unknown."""
    try:
        return type_meant(t.static(node, "a type")) or "f32"
    except Unsupported:
        return (foreign_help(dotted_name(node)) or "write f32").removeprefix("write ").partition(";")[0]


def _atomic_on(t: Expressions, node: ast.Call, form: str) -> str | None:
    """An atomic of another language with the arguments of this call: atomicAdd(h[i], 1), cuda.atomic.add(h, i, 1)."""
    name = re.match(r"vyre\.(atomic_\w+)\(", form)
    if name is None or node.keywords or not node.args:
        return None
    first, *rest = node.args
    operands = 2 if name[1] == "atomic_compare_exchange" else 1
    if isinstance(first, ast.Subscript) and len(rest) == operands:
        index = t.source.text(first.slice)
        index = f"({index})" if isinstance(first.slice, ast.Tuple) else index
        return f"vyre.{name[1]}({', '.join([t.source.text(first.value), index, *map(t.source.text, rest)])})"
    if isinstance(first, ast.Name) and len(rest) == operands + 1:
        return f"vyre.{name[1]}({', '.join(map(t.source.text, node.args))})"
    return None


def _row_text(t: Expressions, node: ast.expr) -> str:
    """The text of an argument that is a row; of a whole array of one dimension, all of its elements."""
    view = t.env.get(getattr(node, "id", ""))
    text = t.source.text(node)
    return f"{text}[:]" if isinstance(view, BufferView) and view.buffer.dimensions == 1 else text


def _as_operand(text: str, form: str) -> str:
    """An argument in the place of a letter, in parentheses where an operator could part it."""
    if form == text or len(form) == 1:
        return text
    is_simple = isinstance(
        ast.parse(text, mode="eval").body, (ast.Name, ast.Constant, ast.Subscript, ast.Call, ast.Attribute)
    )
    return text if is_simple or re.search(r"\(|\w,", form) else f"({text})"


def _static_call(t: Expressions, node: ast.Call, function: Any, name: str) -> Binding:
    """A call of plain Python with arguments that are known now: of builtins and the module math only."""
    module = getattr(function, "__module__", None)
    is_of_python = module in ("math", "builtins") or function in vars(builtins).values()
    if not is_of_python:
        if name.rpartition(".")[2] == "set_trace":  # of pdb and its kin
            raise Unsupported(
                node,
                f"{name} stops in Python, before the kernel runs",
                "write breakpoint(), and call vyre.debug(kernel)[grid](...) to stop there",
            )
        if callable(function) and hasattr(function, "__code__"):
            help = foreign_help(name) if "." in name else None
            defined = f"write @vyre.func above def {name}" if "." not in name else f"put @vyre.func on {name}"
            raise Unsupported(
                node, f"{name} is a function of plain Python", _with_arguments(t, node, help) or defined
            )
        if (module and module.startswith("numpy")) or type(function).__module__.startswith("numpy"):
            raise Unsupported(node, f"{name} is of NumPy", _with_arguments(t, node, foreign_help(name)))
        if not callable(function):
            raise Unsupported(node, f"{name} is no function")
        if isinstance(function, type) and not function.__module__.startswith("vyre_opt."):
            raise Unsupported(
                node,
                f"{name} is a class, and a kernel makes no objects",
                f"a class of typing.NamedTuple has values with names: class {name}(NamedTuple)",
            )
        raise Unsupported(node, f"{name} cannot be called in a kernel", foreign_help(name))
    bindings = [t.expression(argument) for argument in node.args]
    constants = [b for b in bindings if isinstance(b, Static)]
    if node.args and isinstance(bindings[0], BufferView) and bindings[0].buffer.dimensions == 1:
        array = t.source.text(node.args[0])
        number, element = _loop_names(t, node)
        help = f"write for {number} in range(len({array})): {element} = {array}[{number}]"
        raise Unsupported(node, f"{name} computes in Python, before the kernel runs", help)
    if node.keywords or len(constants) < len(bindings):
        message = f"{name} computes in Python, before the kernel runs"
        raise Unsupported(node, message, _with_arguments(t, node, foreign_help(name)))
    return t.computed(node, function, *constants)
