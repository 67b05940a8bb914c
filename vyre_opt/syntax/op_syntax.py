"""Syntax of the ops of each format: functions that parse and print them.

`OpDef.format` names a row of SYNTAX, at the end of this file.  T is the type written after the colon:

    const      const LITERAL : T                 id         NAME x|y|z          -> u32
    spec       spec @s : T                       size       NAME                -> u32
    param      param @s : T
    unary      NAME %a : T           -> T        len        len @b              -> u32
    binary     NAME %a, %b : T       -> T        splat      splat %a : V        -> V
    ternary    NAME %a, %b, %c : T   -> T        vector     vector %a, ... : V  -> V
    compare    NAME %a, %b : T       -> bool     extract    extract %v[i] : V   -> element
    select     select %p, %a, %b : T -> T        insert     insert %a, %v[i] : V -> V
    permute    NAME %table, %index : T -> T      movemask   NAME %m : vec<32 x bool> -> u32
    convert    NAME %a : T -> U                  load       load @b[%i] : T     -> T
    atomic     NAME<order> @b[%i], %v... : T     store      NAME %v, @b[%i] : T
    barrier    barrier workgroup|grid|subgroup   shuffle    NAME<mode> %a, %lane : T
    copy_wait  copy_wait 2
    reduce     NAME<op> %a : T                   scan       NAME<mode, op> %a : T
    ballot     NAME %p -> u32                    kernel     NAME(@b, ...) {schedule}
    matrix_load   NAME<layout> @b[%r, %c] : M    matrix_store   NAME<layout> %m, @b[%r, %c] : M
    matrix_mul_add   NAME %a, %b, %c : M         matrix_unpack, matrix_pack   NAME %a : M
    assert     assert %p, "message"              trap       trap "message"
    check_bounds   check_bounds<load> @b[%i], %n : T
    debug_print   debug_print "format" %a, ...      breakpoint
    slice_load    NAME<edge> @b[%r, %c] : S       slice_store    NAME<edge> %v, @b[%r, %c] : S
    slice_broadcast   NAME %a, %like : S          slice_reduce   NAME<op> %v[axis] : T
    slice_len     NAME %v[axis]                   slice_scan     NAME<mode, op> %v[axis] : S
    slice_gather  NAME @b[%r, %v] : S             slice_iota, slice_transpose, slice_dot   NAME %a, ... : S
    for, while, if, region, call, yield, condition: control flow, see the grammar
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ..ir.fixes import conversion
from ..ir.formats import FORMATS, mask_type, no_mask, type_list
from ..ir.literals import LiteralError, encode_constant, quote, read_int, show
from ..ir.loops import bounds, inits
from ..ir.ops import AXES, FASTMATH, SCOPES, OpDef
from ..ir.program import NO_ATTRS, Block, Op, Value
from ..ir.types import UNKNOWN, DataType
from ..records import dataclass

__all__ = [
    "SYNTAX",
    "MalformedOp",
    "OpPrinter",
    "OpSyntax",
    "Tail",
    "fastmath_flags",
    "kernel_text",
    "parse_op",
    "symbol_list",
    "types_text",
]

_U32, _BOOL = DataType.U32, DataType.BOOL


class Tail(NamedTuple):
    """The parts of an op's text after its name."""

    modifiers: tuple[str, ...] | list[str] = ()
    operands: list[Value] | tuple[Value, ...] = ()
    access: tuple[Any, ...] | None = None  # (kind, operands, detail), from an access_ rule of the grammar
    fastmath: list[str] | None = None
    dtype: DataType | None = None
    target: DataType | None = None


Parsed = tuple[tuple[Value, ...], tuple[DataType, ...], dict[str, Any]]
"""Operands, result types and attributes."""


class MalformedOp(Exception):
    """The parts of an op do not fit its format; the text says how it is written, `help` what to write where that is known."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


def _own_rule(row: OpDef, tail: Tail) -> Parsed:
    raise MalformedOp("is not written like this; see the grammar")


class OpPrinter(Protocol):
    """Methods that write the text of an op; see `Printer`."""

    lines: list[str]
    names: dict[Value, str]
    indent: str
    numbered: bool

    def define(self, value: Value) -> str: ...

    def rename(self, value: Value, name: str) -> None: ...

    def uses(self, values: tuple[Value, ...]) -> str: ...

    def entries(self, table: dict[str, Any]) -> list[tuple[str, Any]]: ...

    def block(self, block: Block, head: Callable[[], str] | None = None) -> str: ...


@dataclass(frozen=True, slots=True)
class OpSyntax:
    """A row of SYNTAX.

    `print` gives the op's text after its results.  Of an op with blocks it prints them,
    and gives the text before the first one.
    `example` is text for docs/reference/ops.md, with {name} and {type} to fill in, and the form that the parser reads fastest.
    `parse` reads a `Tail`; a format with a rule of its own in the grammar has none.
    `constants` gives the type of a constant in the place of each operand: T; element, that of T's lanes; u32; bool;
    result, that of what gets it; - where none can stand.  With ..., it is that of the operands between the others.
    """

    name: str
    print: Callable[[OpPrinter, Op], str]
    example: str
    parse: Callable[[OpDef, Tail], Parsed] = _own_rule
    has_type: bool = True  # the text has a T, which `OpDef.types` restricts
    needs_names: bool = True  # each result is named where the op is written
    constants: str = ""

    @property
    def has_own_rule(self) -> bool:
        """Whether a rule of the grammar is for this format alone, so that `parse` reads no `Tail` of it."""
        return self.parse is _own_rule


# --- what several formats share -----------------------------------------------------------


def fastmath_flags(flags: list[str]) -> tuple[str, ...]:
    """The flags in the order of the table.  Raises MalformedOp for an unknown one."""
    for flag in flags:
        if flag not in FASTMATH:
            raise MalformedOp(f"fastmath takes {', '.join(FASTMATH)}, not {flag}")
    return tuple(flag for flag in FASTMATH if flag in flags)


def _parse_fastmath(tail: Tail) -> dict[str, Any]:
    return NO_ATTRS if tail.fastmath is None else {"fastmath": fastmath_flags(tail.fastmath)}


def _print_fastmath(p: OpPrinter, op: Op) -> str:
    flags = op.attrs.get("fastmath", ())
    return f" fastmath<{', '.join(sorted(flags) if p.numbered else flags)}>" if flags else ""


def parse_op(row: OpDef, tail: Tail) -> Parsed:
    """The parts of an op, from its text.  Raises MalformedOp or LiteralError."""
    parsed = SYNTAX[row.format].parse(row, tail)
    if tail.fastmath is not None and "fastmath" not in parsed[2]:
        raise MalformedOp("takes no fastmath flags")
    return parsed


def _need_operands(row: OpDef, tail: Tail, count: int) -> None:
    if len(tail.operands) != count:
        raise MalformedOp(f"takes {count} operand{'s' * (count != 1)}, {len(tail.operands)} given")
    if tail.access is not None and tail.access[0] != "lane":
        raise MalformedOp("takes values only")
    if tail.target is not None and row.format != "convert":
        raise MalformedOp("takes one type")


def _need_type(value: Value, dtype: DataType | None) -> None:
    """A type written for an operand is the operand's; an unknown one follows from another error."""
    if dtype not in (None, UNKNOWN, value.type) and value.type is not UNKNOWN:
        assert dtype is not None
        raise MalformedOp(f"{value} is {value.type}, not {dtype}", conversion(value, dtype))


def _parse_words(row: OpDef, tail: Tail) -> dict[str, Any]:
    """The word attributes, in the order of the table."""
    attrs = [attr for attr in row.attrs if attr.kind == "word"]
    modifiers = list(tail.modifiers)
    if row.format == "atomic" and not modifiers:
        modifiers = ["relaxed"]
    if len(modifiers) != len(attrs):
        names = " and its ".join(
            f"{a.name}, one of {', '.join(a.choices)}" if a.choices else a.name for a in attrs
        )
        raise MalformedOp(f"needs its {names}" if attrs else f"takes no {modifiers[0]}")
    for attr, word in zip(attrs, modifiers, strict=True):
        if attr.choices and word not in attr.choices:
            raise MalformedOp(f"{attr.name} is {', '.join(attr.choices)}, not {word}")
    return {attr.name: word for attr, word in zip(attrs, modifiers, strict=True)} or NO_ATTRS


def _print_words(op: Op) -> str:
    """The name of an op and its words, if it has any."""
    modifiers = [op.attrs[attr.name] for attr in op.definition.attrs if attr.kind == "word"]
    return f"{op.name}<{', '.join(modifiers)}>" if modifiers else op.name


def _print_typed(p: OpPrinter, op: Op) -> str:
    """Words, operands and the type of the result."""
    return f"{_print_words(op)} {p.uses(op.operands)} : {op.results[0].type}"


def types_text(types: tuple[DataType, ...]) -> str:
    """The names of types; in parentheses unless there is exactly one."""
    return types[0].name if len(types) == 1 else f"({', '.join(t.name for t in types)})"


def symbol_list(names: tuple[str, ...]) -> str:
    return ", ".join(f"@{name}" for name in names)


# --- const, spec, param -------------------------------------------------------------------


def _parse_const(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] != "literal":
        raise MalformedOp("is written const 2 : u32")
    if tail.dtype is None:
        raise MalformedOp("needs a type: const 2 : u32")
    if tail.dtype is UNKNOWN:
        return (), (UNKNOWN,), {"value": 0}
    return (), (tail.dtype,), {"value": encode_constant(tail.access[2], tail.dtype)}


def _print_const(p: OpPrinter, op: Op) -> str:
    return f"const {show(op.attrs['value'], op.results[0].type)} : {op.results[0].type}"


def _print_spec(p: OpPrinter, op: Op) -> str:
    return f"spec @{op.attrs['spec']} : {op.results[0].type}"


def _print_param(p: OpPrinter, op: Op) -> str:
    return f"param @{op.attrs['param']} : {op.results[0].type}"


# --- id, size, len ------------------------------------------------------------------------


def _parse_id(row: OpDef, tail: Tail) -> Parsed:
    if tail.operands or tail.access:
        raise MalformedOp(f"is written {row.name} {'|'.join(AXES)}" if row.attrs else "takes no operands")
    if tail.dtype not in (None, _U32):
        raise MalformedOp(f"gives u32, not {tail.dtype}")
    return (), (_U32,), _parse_words(row, tail)


def _print_id(p: OpPrinter, op: Op) -> str:
    return f"{op.name} {op.attrs['axis']}"


def _parse_len(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] not in ("symbol", "dimension"):
        raise MalformedOp("is written len @buffer, or len @buffer, 1 for dimension 1")
    _, _, name, *dimension = tail.access
    attrs = {"buffer": name, "dimension": dimension[0]} if dimension else {"buffer": name}
    return (), (tail.dtype or _U32,), attrs


def _print_len(p: OpPrinter, op: Op) -> str:
    dtype = op.results[0].type
    dimension = f", {op.attrs['dimension']}" if "dimension" in op.attrs else ""
    return f"len @{op.attrs['buffer']}{dimension}" + ("" if dtype is _U32 else f" : {dtype}")


# --- unary, binary, ternary, compare, select ----------------------------------------------


def _parse_elementwise(row: OpDef, tail: Tail) -> Parsed:
    modifiers, operands, access, _, dtype, target = tail
    count = FORMATS[row.format].operands or 0
    # the exact message only once something is wrong: this runs for most ops of a text
    if len(operands) != count or access is not None or modifiers or target is not None:
        _need_operands(row, tail, count)
        _parse_words(row, tail)
    if dtype is None:
        dtype = operands[-1].type
        if dtype.element.is_bool and row.format == "select" and not operands[0].type.element.is_bool:
            dtype = operands[0].type  # the condition stands last, which the verifier tells
    elif row.format == "compare" and dtype is not operands[0].type:
        _need_type(operands[0], dtype)  # the result does not show it, so the verifier could not
    attrs = _parse_fastmath(tail)
    if row.format == "compare" and dtype is not UNKNOWN and not dtype.is_matrix:
        dtype = dtype.with_element(_BOOL)
    return tuple(operands), (dtype,), attrs


def _print_elementwise(p: OpPrinter, op: Op) -> str:
    names = p.names
    operands = op.operands
    fast = _print_fastmath(p, op) if op.attrs else ""
    return f"{op.definition.name} {', '.join([names[v] for v in operands])}{fast} : {operands[-1].type.name}"


# --- convert ------------------------------------------------------------------------------


def _parse_convert(row: OpDef, tail: Tail) -> Parsed:
    _need_operands(row, tail, 1)
    if tail.target is None:
        raise MalformedOp(f"is written {row.name} %x : u8 -> u32")
    _need_type(tail.operands[0], tail.dtype)
    return tuple(tail.operands), (tail.target,), NO_ATTRS


def _print_convert(p: OpPrinter, op: Op) -> str:
    return f"{op.name} {p.uses(op.operands)} : {op.operands[0].type} -> {op.results[0].type}"


# --- splat, vector, extract, insert -------------------------------------------------------


def _parse_vector(row: OpDef, tail: Tail) -> Parsed:
    if tail.dtype is None or not tail.operands or tail.access or tail.modifiers or tail.target:
        raise MalformedOp(f"is written {row.name} %a, %b : vec<2 x u32>")
    return tuple(tail.operands), (tail.dtype,), NO_ATTRS


def _parse_lane(row: OpDef, tail: Tail) -> Parsed:
    count = 1 if row.format == "extract" else 2
    text = "extract %v[0]" if count == 1 else "insert %x, %v[0]"
    if tail.access is None or tail.access[0] != "lane" or len(tail.operands) != count:
        raise MalformedOp(f"is written {text} : vec<4 x u32>")
    _need_type(tail.operands[-1], tail.dtype)
    dtype = tail.dtype or tail.operands[-1].type
    result = dtype.element if count == 1 else dtype
    return tuple(tail.operands), (result,), {"index": tail.access[2]}


def _print_lane(p: OpPrinter, op: Op) -> str:
    return f"{op.name} {p.uses(op.operands)}[{op.attrs['index']}] : {op.operands[-1].type}"


# --- permute, movemask --------------------------------------------------------------------


def _parse_permute(row: OpDef, tail: Tail) -> Parsed:
    _need_operands(row, tail, 2)
    index = tail.operands[1]
    _need_type(index, tail.dtype)
    return tuple(tail.operands), (index.type,), NO_ATTRS


def _parse_movemask(row: OpDef, tail: Tail) -> Parsed:
    _need_operands(row, tail, 1)
    (flags,) = tail.operands
    _need_type(flags, tail.dtype)
    result = UNKNOWN if flags.type is UNKNOWN else mask_type(flags.type)
    if result is None:
        raise MalformedOp(no_mask(flags.type))
    return (flags,), (result,), NO_ATTRS


def _print_movemask(p: OpPrinter, op: Op) -> str:
    return f"{op.name} {p.uses(op.operands)} : {op.operands[0].type}"


# --- load, store, atomic ------------------------------------------------------------------


def _parse_load(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] != "load" or tail.dtype is None:
        raise MalformedOp("is written load @buffer[%i] : u32")
    return tuple(tail.operands), (tail.dtype,), {"buffer": tail.access[2]}


def _print_load(p: OpPrinter, op: Op) -> str:
    return f"{op.name} @{op.attrs['buffer']}[{p.uses(op.operands)}] : {op.results[0].type}"


def _parse_store(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] != "store" or len(tail.operands) != 1 + tail.access[3]:
        message = f"is written {row.name} %value, @buffer[%i] : u32"
        if (
            tail.access is not None
            and len(tail.access) > 2
            and isinstance(tail.access[2], str)
            and len(tail.operands) > 1
        ):
            *indices, value = (f"%{operand.name}" for operand in tail.operands)
            dtype = tail.dtype or tail.operands[-1].type
            message += f": write {row.name} {value}, @{tail.access[2]}[{', '.join(indices)}] : {dtype}"
        raise MalformedOp(message)
    _need_type(tail.operands[0], tail.dtype)
    return tuple(tail.operands), (), {"buffer": tail.access[2]}


def _print_store(p: OpPrinter, op: Op) -> str:
    value = op.operands[0]
    return f"{op.name} {p.names[value]}, @{op.attrs['buffer']}[{p.uses(op.indices)}] : {value.type}"


def _parse_atomic(row: OpDef, tail: Tail) -> Parsed:
    count = row.atomic_values
    if tail.access is None or tail.access[0] != "atomic" or len(tail.operands) != count + tail.access[3]:
        extra = ", %new" if count == 2 else ""
        raise MalformedOp(f"is written {row.name}<relaxed> @buffer[%i], %value{extra} : u32")
    dtype = tail.dtype or tail.operands[-1].type
    attrs = {**_parse_words(row, tail), "buffer": tail.access[2], **_parse_fastmath(tail)}
    return tuple(tail.operands), (dtype,), attrs


def _print_atomic(p: OpPrinter, op: Op) -> str:
    values = op.operands[-op.definition.atomic_values :]
    text = f"{_print_words(op)} @{op.attrs['buffer']}[{p.uses(op.indices)}], {p.uses(values)}"
    return f"{text}{_print_fastmath(p, op)} : {values[0].type}"


# --- copy_wait, barrier, shuffle, reduce, scan, ballot ------------------------------------


def _parse_copy_wait(row: OpDef, tail: Tail) -> Parsed:
    access = tail.access or ("literal", (), ("int", "0"))
    is_int = access[0] == "literal" and access[2][0] == "int"
    if tail.operands or tail.modifiers or tail.dtype or not is_int:
        raise MalformedOp("is written copy_wait, or copy_wait 2 for all but the copies of the last two")
    try:
        return (), (), {"pending": read_int(access[2][1])}
    except LiteralError as error:
        raise MalformedOp(f"leaves so many groups of copies: {error}") from None


def _print_copy_wait(p: OpPrinter, op: Op) -> str:
    return f"{op.name} {op.attrs['pending']}" if op.attrs["pending"] else op.name


def _parse_barrier(row: OpDef, tail: Tail) -> Parsed:
    if (
        tail.operands
        or tail.access
        or tail.dtype
        or len(tail.modifiers) != 1
        or tail.modifiers[0] not in SCOPES
    ):
        raise MalformedOp(f"is written barrier {'|'.join(SCOPES)}")
    return (), (), {"scope": tail.modifiers[0]}


def _print_barrier(p: OpPrinter, op: Op) -> str:
    return f"barrier {op.attrs['scope']}"


def _parse_subgroup(row: OpDef, tail: Tail) -> Parsed:
    _need_operands(row, tail, FORMATS[row.format].operands or 0)
    if row.format == "ballot":
        _need_type(tail.operands[0], tail.dtype)
        return tuple(tail.operands), (_U32,), NO_ATTRS
    return tuple(tail.operands), (tail.dtype or tail.operands[0].type,), _parse_words(row, tail)


def _print_operands(p: OpPrinter, op: Op) -> str:
    return f"{op.name} {p.uses(op.operands)}" if op.operands else op.name


# --- matrices -----------------------------------------------------------------------------


def _layout(row: OpDef, tail: Tail) -> dict[str, Any]:
    """The word of an op, by default the first one that there is."""
    return _parse_words(row, tail._replace(modifiers=tail.modifiers or (row.attrs[0].choices or ())[:1]))


def _print_layout(op: Op) -> str:
    name, choices = op.definition.attrs[0].name, op.definition.attrs[0].choices or ()
    return op.name if op.attrs[name] in choices[:1] else f"{op.name}<{op.attrs[name]}>"


def _parse_matrix_load(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] != "load" or tail.dtype is None:
        raise MalformedOp("is written matrix_load @buffer[%r, %c] : matrix<16x16xf16, a>")
    return tuple(tail.operands), (tail.dtype,), {**_layout(row, tail), "buffer": tail.access[2]}


def _print_placed_load(p: OpPrinter, op: Op) -> str:
    fill = op.operands[len(op.indices) :]
    place = f"@{op.attrs['buffer']}[{p.uses(op.indices)}]"
    return f"{_print_layout(op)} {place}{''.join(f', {p.names[v]}' for v in fill)} : {op.results[0].type}"


def _parse_placed_store(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] != "store" or len(tail.operands) != 1 + tail.access[3]:
        value = "%m, @buffer[%r, %c] : matrix<16x16xf32, acc>"
        if row.format == "slice_store":
            value = "%v, @buffer[%r, %c] : slice<?xf32>"
        raise MalformedOp(f"is written {row.name} {value}")
    _need_type(tail.operands[0], tail.dtype)
    return tuple(tail.operands), (), {**_layout(row, tail), "buffer": tail.access[2]}


def _print_placed_store(p: OpPrinter, op: Op) -> str:
    value = op.operands[0]
    return f"{_print_layout(op)} {p.names[value]}, @{op.attrs['buffer']}[{p.uses(op.indices)}] : {value.type}"


def _parse_matrix_mul_add(row: OpDef, tail: Tail) -> Parsed:
    _need_operands(row, tail, 3)
    _parse_words(row, tail)
    _need_type(tail.operands[-1], tail.dtype)
    return tuple(tail.operands), (tail.operands[-1].type,), NO_ATTRS


def _parse_matrix_unpack(row: OpDef, tail: Tail) -> Parsed:
    _need_operands(row, tail, 1)
    _parse_words(row, tail)
    matrix = tail.operands[0].type
    _need_type(tail.operands[0], tail.dtype)
    is_known = matrix.is_matrix and matrix.element.bits is not None
    return (
        tuple(tail.operands),
        (DataType.vec(matrix.element, matrix.lanes) if is_known else UNKNOWN,),
        NO_ATTRS,
    )


def _print_matrix_unpack(p: OpPrinter, op: Op) -> str:
    return f"{op.name} {p.uses(op.operands)} : {op.operands[0].type}"


# --- slices -------------------------------------------------------------------------------


def _parse_slice_load(row: OpDef, tail: Tail) -> Parsed:
    attrs = _layout(row, tail)
    kind = "atomic" if attrs["edge"] == "filled" else "load"
    if tail.access is None or tail.access[0] != kind or tail.dtype is None:
        raise MalformedOp(
            "is written slice_load @buffer[%r, %c] : slice<?xf32>, or slice_load<filled> @buffer[%r, %c], %fill : slice<64xf32>"
        )
    if kind == "atomic" and len(tail.operands) != 1 + tail.access[3]:
        raise MalformedOp("takes one value for what is beyond the edge")
    return tuple(tail.operands), (tail.dtype,), {**attrs, "buffer": tail.access[2]}


def _parse_slice_gather(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] != "load" or tail.dtype is None or tail.modifiers:
        raise MalformedOp("is written slice_gather @buffer[%r, %indices] : slice<64xf32>")
    return tuple(tail.operands), (tail.dtype,), {"buffer": tail.access[2]}


_SLICES_WRITTEN = {
    "slice_broadcast": "slice_broadcast %x, %like : slice<?xf32>, or slice_broadcast %x : slice<64xf32>",
    "slice_iota": "slice_iota 0 : slice<64xu32>, or slice_iota 0, %n : slice<?xu32>",
    "slice_transpose": "slice_transpose %v : slice<32x64xf32>",
    "slice_dot": "slice_dot %a, %b : slice<64x64xf32>, or slice_dot %a, %b, %sum : slice<64x64xf32>",
}


def _parse_slice_typed(row: OpDef, tail: Tail) -> Parsed:
    if tail.dtype is None or not tail.operands or tail.access or tail.modifiers or tail.target:
        raise MalformedOp(f"is written {_SLICES_WRITTEN[row.format]}")
    return tuple(tail.operands), (tail.dtype,), NO_ATTRS


def _print_slice_typed(p: OpPrinter, op: Op) -> str:
    return f"{_print_operands(p, op)} : {op.results[0].type}"


def _parse_of_axis(row: OpDef, tail: Tail) -> Parsed:
    words = {"slice_reduce": "<add>", "slice_scan": "<inclusive, add>"}.get(row.format, "")
    if tail.access is None or tail.access[0] != "lane" or len(tail.operands) != 1:
        raise MalformedOp(f"is written {row.name}{words} %v[0]{' : f32' if words else ''}")
    dtype = _U32 if row.format == "slice_len" else tail.dtype
    if dtype is None:
        raise MalformedOp(f"needs a type: {row.name}{words} %v[0] : f32")
    return tuple(tail.operands), (dtype,), {**_parse_words(row, tail), "axis": tail.access[2]}


def _print_of_axis(p: OpPrinter, op: Op) -> str:
    text = f"{_print_words(op)} {p.uses(op.operands)}[{op.attrs['axis']}]"
    return text if op.definition.format == "slice_len" else f"{text} : {op.results[0].type}"


# --- for, while ---------------------------------------------------------------------------


def _print_iteration(p: OpPrinter, args: tuple[Value, ...], initial: tuple[Value, ...]) -> str:
    if not args:
        return ""
    pairs = zip(args, initial, strict=True)
    return f" iter({', '.join(f'{p.define(a)} = {p.names[i]} : {a.type}' for a, i in pairs)})"


def _print_for(p: OpPrinter, op: Op) -> str:
    body = op.regions[0]

    def head() -> str:
        lower, upper, step = (b if isinstance(b, int) else p.names[b] for b in bounds(op))
        counter = p.define(body.args[0])
        iteration = _print_iteration(p, body.args[1:], inits(op))
        dtype = body.args[0].type
        suffix = "" if dtype is _U32 else f" : {dtype}"
        return f"for {counter} = {lower} to {upper} step {step}{iteration}{suffix} {{\n"

    return p.block(body, head)


def _print_while(p: OpPrinter, op: Op) -> str:
    condition, body = op.regions
    head = p.block(condition, lambda: f"while{_print_iteration(p, condition.args, op.operands)} {{\n")
    p.lines.append(f"{p.indent}}} do {{\n")
    # the text has one list of arguments, so those of the body have the names of the condition's
    for arg, named in zip(body.args, condition.args, strict=True):
        p.rename(arg, p.names[named])
    p.block(body)
    return head


# --- if, region ---------------------------------------------------------------------------


def _print_result_types(op: Op) -> str:
    return f" -> {types_text(tuple(v.type for v in op.results))}" if op.results else ""


def _print_if(p: OpPrinter, op: Op) -> str:
    head = f"if {p.names[op.operands[0]]}{_print_result_types(op)} {{\n"
    p.block(op.regions[0])
    if len(op.regions) > 1:
        p.lines.append(f"{p.indent}}} else {{\n")
        p.block(op.regions[1])
    return head


def _print_region(p: OpPrinter, op: Op) -> str:
    p.block(op.regions[0])
    return f"region @{op.attrs['label']}{_print_result_types(op)} {{\n"


# --- yield, condition ---------------------------------------------------------------------


def _parse_terminator(row: OpDef, tail: Tail) -> Parsed:
    if tail.access or tail.modifiers or tail.target or tail.fastmath:
        raise MalformedOp(f"is written {row.name} %a")
    for operand in tail.operands:
        _need_type(operand, tail.dtype)
    return tuple(tail.operands), (), NO_ATTRS


# --- call, trap, assert, debug_print, kernel ---------------------------------------------


def _print_call(p: OpPrinter, op: Op) -> str:
    text = f"call @{op.attrs['callee']}({p.uses(op.operands)})"
    return f"{text} : ({type_list(op.operands)}){_print_result_types(op)}" if op.results else text


def _print_trap(p: OpPrinter, op: Op) -> str:
    operands = f" {p.uses(op.operands)}" if op.operands else ""  # in a lowered program
    return f"trap {quote(op.attrs['message'])}{operands}"


def _print_assert(p: OpPrinter, op: Op) -> str:
    return f"assert {p.uses(op.operands)}, {quote(op.attrs['message'])}"


def _parse_check_bounds(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] != "atomic" or (len(tail.operands), tail.access[3]) != (2, 1):
        raise MalformedOp("is written check_bounds<load> @buffer[%index], %length : u32")
    _need_type(tail.operands[0], tail.dtype)
    return tuple(tail.operands), (), {**_parse_words(row, tail), "of": tail.access[2]}


def _print_check_bounds(p: OpPrinter, op: Op) -> str:
    index, length = op.operands
    return f"{_print_words(op)} @{op.attrs['of']}[{p.uses((index,))}], {p.uses((length,))} : {index.type}"


def _print_debug_print(p: OpPrinter, op: Op) -> str:
    return " ".join(filter(None, ("debug_print", quote(op.attrs["format"]), p.uses(op.operands))))


def _parse_breakpoint(row: OpDef, tail: Tail) -> Parsed:
    if tail.operands or tail.access or tail.modifiers or tail.dtype:
        raise MalformedOp("stands alone, and the debugger gets the condition: break LINE if COND")
    return (), (), NO_ATTRS


def _print_kernel(p: OpPrinter, op: Op) -> str:
    return kernel_text(p, op.name, op.attrs["buffers"], op.attrs["params"])


def kernel_text(p: OpPrinter, name: str, buffers: tuple[str, ...], params: dict[str, Any]) -> str:
    """A named kernel, as an op or as a stage."""
    attrs = ", ".join(f"{key} = {value}" for key, value in p.entries(params))
    return f"{name}({symbol_list(buffers)})" + (f" {{{attrs}}}" if attrs else "")


# --- the table ----------------------------------------------------------------------------

# A table reads by its columns: name; print; example; parse; the rest by name.
# fmt: off
SYNTAX: dict[str, OpSyntax] = {row.name: row for row in (
    OpSyntax("const", _print_const, "%r = const 2 : {type}", _parse_const),
    OpSyntax("spec", _print_spec, "%r = spec @s : {type}"),
    OpSyntax("param", _print_param, "%r = param @n : {type}"),
    OpSyntax("id", _print_id, "%r = {name} x", _parse_id, has_type=False),
    OpSyntax("size", _print_operands, "%r = {name}", _parse_id, has_type=False),
    OpSyntax("len", _print_len, "%r = len @b", _parse_len, has_type=False),
    OpSyntax("unary", _print_elementwise, "%r = {name} %a : {type}", _parse_elementwise, constants="T"),
    OpSyntax("binary", _print_elementwise, "%r = {name} %a, %b : {type}", _parse_elementwise, constants="T T"),
    OpSyntax("ternary", _print_elementwise, "%r = {name} %a, %b, %c : {type}", _parse_elementwise, constants="T T T"),
    OpSyntax("compare", _print_elementwise, "%r = {name} %a, %b : {type}", _parse_elementwise, constants="T T"),
    OpSyntax("select", _print_elementwise, "%r = {name} %p, %a, %b : {type}", _parse_elementwise, constants="bool T T"),
    OpSyntax("convert", _print_convert, "%r = {name} %a : u32 -> f32", _parse_convert, constants="T"),
    OpSyntax("splat", _print_typed, "%r = splat %a : vec<4 x {type}>", _parse_elementwise, constants="element"),
    OpSyntax("vector", _print_typed, "%r = vector %a, %b : vec<2 x {type}>", _parse_vector, constants="element..."),
    OpSyntax("extract", _print_lane, "%r = extract %v[0] : vec<4 x {type}>", _parse_lane, constants="T"),
    OpSyntax("insert", _print_lane, "%r = insert %a, %v[0] : vec<4 x {type}>", _parse_lane, constants="element T"),
    OpSyntax("permute", _print_typed, "%r = {name} %table, %index : vec<16 x u8>", _parse_permute,
             has_type=False, constants="- T"),
    OpSyntax("movemask", _print_movemask, "%r = {name} %m : vec<32 x bool>", _parse_movemask,
             has_type=False, constants="T"),
    OpSyntax("load", _print_load, "%r = load @b[%i] : {type}", _parse_load, constants="u32..."),
    OpSyntax("store", _print_store, "{name} %a, @b[%i] : {type}", _parse_store, constants="T u32..."),
    OpSyntax("copy_wait", _print_copy_wait, "copy_wait 1", _parse_copy_wait, has_type=False),
    OpSyntax("atomic", _print_atomic, "%r = {name}<relaxed> @b[%i], %a : {type}", _parse_atomic,
             needs_names=False, constants="u32... T"),
    OpSyntax("barrier", _print_barrier, "barrier workgroup", _parse_barrier, has_type=False),
    OpSyntax("shuffle", _print_typed, "%r = {name}<idx> %a, %i : {type}", _parse_subgroup, constants="T u32"),
    OpSyntax("reduce", _print_typed, "%r = {name}<add> %a : {type}", _parse_subgroup, constants="T"),
    OpSyntax("scan", _print_typed, "%r = {name}<inclusive, add> %a : {type}", _parse_subgroup, constants="T"),
    OpSyntax("ballot", _print_operands, "%r = {name} %p", _parse_subgroup, has_type=False, constants="bool"),
    OpSyntax("matrix_load", _print_placed_load, "%r = {name} @b[%i, %j] : matrix<16x16xf16, a>", _parse_matrix_load,
             has_type=False, constants="u32..."),
    OpSyntax("matrix_store", _print_placed_store, "{name} %m, @b[%i, %j] : matrix<16x16xf32, acc>", _parse_placed_store,
             has_type=False, constants="T u32..."),
    OpSyntax("matrix_mul_add", _print_typed, "%r = {name} %a, %b, %c : matrix<16x16xf32, acc>", _parse_matrix_mul_add,
             has_type=False, constants="- - T"),
    OpSyntax("matrix_unpack", _print_matrix_unpack, "%r = {name} %m : matrix<16x16xf32, acc>", _parse_matrix_unpack,
             has_type=False, constants="-"),
    OpSyntax("matrix_pack", _print_typed, "%r = {name} %v : matrix<16x16xf32, acc>", _parse_elementwise,
             has_type=False, constants="-"),
    OpSyntax("slice_load", _print_placed_load, "%r = {name} @b[%i] : slice<?x{type}>", _parse_slice_load, constants="u32..."),
    OpSyntax("slice_gather", _print_load, "%r = {name} @b[%v] : slice<?x{type}>", _parse_slice_gather, constants="u32..."),
    OpSyntax("slice_store", _print_placed_store, "{name} %v, @b[%i] : slice<?x{type}>", _parse_placed_store, constants="- u32..."),
    OpSyntax("slice_broadcast", _print_typed, "%r = {name} %a, %v : slice<?x{type}>", _parse_slice_typed, constants="element -"),
    OpSyntax("slice_iota", _print_slice_typed, "%r = {name} %a : slice<64x{type}>", _parse_slice_typed, constants="element u32"),
    OpSyntax("slice_reduce", _print_of_axis, "%r = {name}<add> %v[0] : {type}", _parse_of_axis, constants="-"),
    OpSyntax("slice_scan", _print_of_axis, "%r = {name}<inclusive, add> %v[0] : slice<?x{type}>", _parse_of_axis, constants="-"),
    OpSyntax("slice_transpose", _print_slice_typed, "%r = {name} %m : slice<32x32x{type}>", _parse_slice_typed, constants="-"),
    OpSyntax("slice_dot", _print_slice_typed, "%r = {name} %m, %m : slice<32x32x{type}>", _parse_slice_typed, constants="- -"),
    OpSyntax("slice_len", _print_of_axis, "%r = {name} %v[0]", _parse_of_axis, has_type=False, constants="-"),
    OpSyntax("for", _print_for, "%r = for %k = 0 to 8 step 1 iter(%s = %a : {type}) {{ yield %s }}",
             has_type=False, needs_names=False, constants="result..."),
    OpSyntax("while", _print_while, "%r = while iter(%s = %a : {type}) {{ condition %p }} do {{ yield %s }}",
             has_type=False, needs_names=False, constants="result..."),
    OpSyntax("if", _print_if, "%r = if %p -> {type} {{ yield %a }} else {{ yield %b }}",
             has_type=False, needs_names=False, constants="bool"),
    OpSyntax("region", _print_region, "%r = region @name -> {type} {{ yield %a }}", has_type=False, needs_names=False),
    OpSyntax("yield", _print_operands, "yield %a", _parse_terminator, has_type=False, constants="result..."),
    OpSyntax("condition", _print_operands, "condition %p", _parse_terminator, has_type=False, constants="bool"),
    OpSyntax("call", _print_call, "%r = call @f(%a) : ({type}) -> {type}",
             has_type=False, needs_names=False, constants="result..."),
    OpSyntax("trap", _print_trap, 'trap "message"', has_type=False),
    OpSyntax("assert", _print_assert, 'assert %p, "message"', has_type=False, constants="bool"),
    OpSyntax("check_bounds", _print_check_bounds, "{name}<load> @b[%i], %c : {type}", _parse_check_bounds,
             constants="T T"),
    OpSyntax("debug_print", _print_debug_print, 'debug_print "i=%u" %i', has_type=False, constants="-..."),
    OpSyntax("breakpoint", _print_operands, "breakpoint", _parse_breakpoint, has_type=False),
    # its buffers and parameters differ by row, and so does its example
    OpSyntax("kernel", _print_kernel, ""),
)}
# fmt: on
