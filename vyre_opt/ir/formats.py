"""Op formats: how the ops of a row of the op table are parsed, checked, printed and built.

`OpDef.format` names a row of FORMATS, at the end of this file.  T is the type written after the colon:

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
    matrix_mul_add   NAME %a, %b, %c : M
    assert     assert %p, "message"              trap       trap "message"
    check_bounds   check_bounds<load> @b[%i], %n : T
    debug_print   debug_print "format" %a, ...
    for, while, if, region, call, yield, condition: control flow, see the grammar

The builder's methods of these formats:

    b.add(x, y)               b.select(p, x, y)    b.global_id("x")      b.cast(x, DataType.F32)
    b.splat(x, 4)             b.vector(x, y, z)    b.extract(v, 0)       b.insert(x, v, 0)
    b.permute(table, index)   b.movemask(flags)
    b.len(buffer)             b.load(buffer, i, lanes=1)                 b.atomic_add(buffer, i, x, order="relaxed")
    b.subgroup_ballot(p)      b.subgroup_shuffle(x, lane, "idx")
    b.subgroup_reduce(x, "add")                    b.subgroup_scan(x, "inclusive", "add")
    b.matrix_load(buffer, (r, c), dtype)           b.matrix_mul_add(x, y, z)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from . import arith
from .literals import Written, encode_constant, quote, show
from .loops import BOUND_NAMES, bounds, inits
from .ops import AXES, FASTMATH, NAMED_KERNELS, OPS, SCOPES, SUBGROUP_SIZE, OpDef
from .print_format import MAX_OPERANDS, Directive, FormatError, parse_format, why_not, wrong_count
from .program import NO_ATTRS, AccessMode, Buffer, Func, Op, Value
from .types import MATRIX_USES, MIN_VECTOR_LANES, UNKNOWN, DataType, TypeNameError, as_type, vector_lanes

if TYPE_CHECKING:
    from ..syntax.printer import Printer
    from .body_checker import BodyChecker
    from .builder import Builder

__all__ = [
    "FORMATS",
    "MAX_PENDING",
    "Malformed",
    "OpFormat",
    "Problem",
    "Tail",
    "fastmath_flags",
    "kernel_text",
    "lacks_else",
    "mask_type",
    "symbol_list",
    "type_list",
    "types_text",
]

_U32, _U64, _BOOL = DataType.U32, DataType.U64, DataType.BOOL

Number = bool | int | float
Operand = Value | Number
Problem = str | tuple[Value, str] | None
"""An error in an op: a message, or the operand to blame and a message."""


class Tail(NamedTuple):
    """The parts of an op's text after its name."""

    words: tuple[str, ...] | list[str] = ()
    operands: list[Value] | tuple[Value, ...] = ()
    access: tuple[Any, ...] | None = None  # (kind, operands, detail), from an access_ rule of the grammar
    fastmath: list[str] | None = None
    dtype: DataType | None = None
    target: DataType | None = None


Parsed = tuple[tuple[Value, ...], tuple[DataType, ...], dict[str, Any]]
"""Operands, result types and attributes."""


class Malformed(Exception):
    """The parts of an op do not fit its format; the text says how it is written."""


def _own_rule(row: OpDef, tail: Tail) -> Parsed:
    raise Malformed("is not written like this; see the grammar")


@dataclass(frozen=True, slots=True)
class OpFormat:
    """A row of FORMATS.

    `operands`, `results`, `blocks`: how many an op has; None is any number, and `check` looks.
    `check` gives the first problem of an op of the right shape; it checks the op's blocks too.
    `print` gives the op's text after its results.  Of an op with blocks it prints them,
    and gives the text before the first one.
    `example` is text for docs/ops.md, with {name} and {type} to fill in, and the form that the parser reads fastest.
    `parse` reads a `Tail`; a format with a rule of its own in the grammar has none.
    `build` is the builder's method; a format for which `Builder` has its own method has none.
    `shape` gives what is wrong with the number of parts beyond the three counts.
    `constants` gives the type of a constant in the place of each operand: T; element, that of T's lanes; u32; bool;
    result, that of what gets it; - where none can stand.  With ..., it is that of the operands between the others.
    """

    name: str
    operands: int | None
    results: int | None
    blocks: int | None
    check: Callable[[BodyChecker, Op], Problem]
    print: Callable[[Printer, Op], str]
    example: str
    parse: Callable[[OpDef, Tail], Parsed] = _own_rule
    build: Callable[..., Value] | None = None
    shape: Callable[[Op], str | None] | None = None
    takes_fastmath: bool = False
    has_type: bool = True  # the text has a T, which `OpDef.types` restricts
    needs_names: bool = True  # each result is named where the op is written
    constants: str = ""

    @property
    def has_own_rule(self) -> bool:
        """Whether a rule of the grammar is for this format alone, so that `parse` reads no `Tail` of it."""
        return self.parse is _own_rule


# --- what several formats share -----------------------------------------------------------


def fastmath_flags(words: list[str]) -> tuple[str, ...]:
    """The flags in the order of the table.  Raises Malformed for an unknown one."""
    for word in words:
        if word not in FASTMATH:
            raise Malformed(f"fastmath takes {', '.join(FASTMATH)}, not {word}")
    return tuple(word for word in FASTMATH if word in words)


def _need_operands(row: OpDef, tail: Tail, count: int) -> None:
    if len(tail.operands) != count:
        raise Malformed(f"takes {count} operand{'s' * (count != 1)}, {len(tail.operands)} given")
    if tail.access is not None and tail.access[0] != "lane":
        raise Malformed("takes values only")
    if tail.target is not None and row.format != "convert":
        raise Malformed("takes one type")


def _need_type(value: Value, dtype: DataType | None) -> None:
    """A type written for an operand is the operand's; an unknown one follows from another error."""
    if dtype not in (None, UNKNOWN, value.type) and value.type is not UNKNOWN:
        raise Malformed(f"{value} is {value.type}, not {dtype}")


def _mismatch(values: Iterable[Value], dtype: DataType) -> Problem:
    """The first of `values` that is not of type `dtype`."""
    for value in values:
        if value.type is not dtype:
            return value, f"{value} is {value.type}, not {dtype}"
    return None


def _parse_words(row: OpDef, tail: Tail) -> dict[str, Any]:
    """The word attributes, in the order of the table."""
    attrs = [attr for attr in row.attrs if attr.kind == "word"]
    words = list(tail.words)
    if row.format == "atomic" and not words:
        words = ["relaxed"]
    if len(words) != len(attrs):
        names = " and its ".join(
            f"{a.name}, one of {', '.join(a.choices)}" if a.choices else a.name for a in attrs
        )
        raise Malformed(f"needs its {names}" if attrs else f"takes no {words[0]}")
    for attr, word in zip(attrs, words, strict=True):
        if attr.choices and word not in attr.choices:
            raise Malformed(f"{attr.name} is {', '.join(attr.choices)}, not {word}")
    return {attr.name: word for attr, word in zip(attrs, words, strict=True)} or NO_ATTRS


def _print_words(op: Op) -> str:
    """The name of an op and its words, if it has any."""
    words = [op.attrs[attr.name] for attr in op.definition.attrs if attr.kind == "word"]
    return f"{op.name}<{', '.join(words)}>" if words else op.name


def _print_typed(p: Printer, op: Op) -> str:
    """Words, operands and the type of the result."""
    return f"{_print_words(op)} {p.uses(op.operands)} : {op.results[0].type}"


def types_text(types: tuple[DataType, ...]) -> str:
    """The names of types; in parentheses unless there is exactly one."""
    return types[0].name if len(types) == 1 else f"({', '.join(t.name for t in types)})"


def type_list(values: tuple[Value, ...]) -> str:
    """The types of values."""
    return ", ".join([v.type.name for v in values])


def symbol_list(names: tuple[str, ...]) -> str:
    return ", ".join(f"@{name}" for name in names)


def _build_alike(b: Builder, row: OpDef, operands: tuple[Operand, ...], count: int) -> tuple[Value, ...]:
    """Operands of one type; numbers take the type of the first value among them."""
    if len(operands) != count:
        raise TypeError(f"{row.name} takes {count} operand{'s' * (count != 1)}, {len(operands)} given")
    dtype = next((v.type for v in operands if isinstance(v, Value)), None)
    if dtype is None:
        raise TypeError(f"{row.name}: give one operand at least as a value, to tell the type")
    return tuple(b.as_value(operand, dtype) for operand in operands)


# --- const, spec, param -------------------------------------------------------------------


def _parse_const(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] != "literal":
        raise Malformed("is written const 2 : u32")
    if tail.dtype is None:
        raise Malformed("needs a type: const 2 : u32")
    if tail.dtype is UNKNOWN:
        return (), (UNKNOWN,), {"value": 0}
    return (), (tail.dtype,), {"value": encode_constant(tail.access[2], tail.dtype)}


def _check_const(checker: BodyChecker, op: Op) -> Problem:
    dtype, value = op.results[0].type, op.attrs["value"]
    if not dtype.has_arithmetic:
        return f"no constant of {dtype} exists"
    if dtype.is_matrix and isinstance(value, tuple):
        return f"a constant of {dtype} is one value for all elements"
    lanes = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) and len(value) != dtype.lanes:
        return f"{dtype} has {dtype.lanes} lanes, {len(value)} given"
    element = dtype.element
    # a float is kept as its bit pattern
    low, high = (0, (1 << (element.bits or 0)) - 1) if element.is_float else arith.int_range(element)
    if any(type(lane) not in (int, Written) or not low <= lane <= high for lane in lanes):
        return f"the value does not fit in {element}"
    return None


def _print_const(p: Printer, op: Op) -> str:
    return f"const {show(op.attrs['value'], op.results[0].type)} : {op.results[0].type}"


def _check_spec(checker: BodyChecker, op: Op) -> Problem:
    name = op.attrs["spec"]
    if isinstance(checker.owner, Func):
        return "a function has no spec constants; pass the value"
    spec = checker.owner.specs.get(name)
    if spec is None:
        message = f"program @{checker.owner.name} has no spec constant @{name}"
        checker.unknown_name(op, message, name, checker.owner.specs, checker.owner)
    elif op.results[0].type is not spec.dtype and not checker.poisoned(spec.dtype):
        return f"@{name} is {spec.dtype}, not {op.results[0].type}"
    return None


def _print_spec(p: Printer, op: Op) -> str:
    return f"spec @{op.attrs['spec']} : {op.results[0].type}"


def _check_param(checker: BodyChecker, op: Op) -> Problem:
    name = op.attrs["param"]
    if isinstance(checker.owner, Func):
        return "a function has no params; pass the value"
    param = checker.owner.params.get(name)
    if param is None:
        message = f"program @{checker.owner.name} has no param @{name}"
        checker.unknown_name(op, message, name, checker.owner.params, checker.owner)
    elif op.results[0].type is not param.dtype and not checker.poisoned(param.dtype):
        return f"@{name} is {param.dtype}, not {op.results[0].type}"
    return None


def _print_param(p: Printer, op: Op) -> str:
    return f"param @{op.attrs['param']} : {op.results[0].type}"


# --- id, size, len ------------------------------------------------------------------------


def _parse_id(row: OpDef, tail: Tail) -> Parsed:
    if tail.operands or tail.access:
        raise Malformed(f"is written {row.name} {'|'.join(AXES)}" if row.attrs else "takes no operands")
    if tail.dtype not in (None, _U32):
        raise Malformed(f"gives u32, not {tail.dtype}")
    return (), (_U32,), _parse_words(row, tail)


def _check_id(checker: BodyChecker, op: Op) -> Problem:
    if isinstance(checker.owner, Func):
        return "a function does not know its invocation; pass the id"
    return None if op.results[0].type is _U32 else "gives u32"


def _print_id(p: Printer, op: Op) -> str:
    return f"{op.name} {op.attrs['axis']}"


def _build_id(b: Builder, row: OpDef, axis: str = "x") -> Value:
    return b.emit(row, (), (_U32,), {"axis": axis}).result


def _build_size(b: Builder, row: OpDef) -> Value:
    return b.emit(row, (), (_U32,)).result


def _parse_len(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] not in ("symbol", "dimension"):
        raise Malformed("is written len @buffer, or len @buffer, 1 for dimension 1")
    _, _, name, *dimension = tail.access
    attrs = {"buffer": name, "dimension": dimension[0]} if dimension else {"buffer": name}
    return (), (tail.dtype or _U32,), attrs


def _check_len(checker: BodyChecker, op: Op) -> Problem:
    if op.results[0].type not in (_U32, _U64):
        return "gives u32 or u64"
    return checker.access(op, reads=False, writes=False) or checker.dimension(op)


def _print_len(p: Printer, op: Op) -> str:
    dtype = op.results[0].type
    dimension = f", {op.attrs['dimension']}" if "dimension" in op.attrs else ""
    return f"len @{op.attrs['buffer']}{dimension}" + ("" if dtype is _U32 else f" : {dtype}")


def _build_len(
    b: Builder,
    row: OpDef,
    buffer: Buffer | str,
    dtype: DataType | str = _U32,
    *,
    dimension: int | None = None,
) -> Value:
    attrs = {} if dimension is None else {"dimension": dimension}
    return b.emit(row, (), (as_type(dtype),), {"buffer": b.find_buffer(buffer).name, **attrs}).result


# --- unary, binary, ternary, compare, select ----------------------------------------------


def _parse_elementwise(row: OpDef, tail: Tail) -> Parsed:
    words, operands, access, fastmath, dtype, target = tail
    count = FORMATS[row.format].operands or 0
    # the exact message only once something is wrong: this runs for most ops of a text
    if len(operands) != count or access is not None or words or target is not None:
        _need_operands(row, tail, count)
        _parse_words(row, tail)
    if dtype is None:
        dtype = operands[-1].type
    elif row.format == "compare" and dtype is not operands[0].type:
        _need_type(operands[0], dtype)  # the result does not show it, so the verifier could not
    attrs = NO_ATTRS if fastmath is None else {"fastmath": fastmath_flags(fastmath)}
    if row.format == "compare" and dtype is not UNKNOWN and not dtype.is_matrix:
        dtype = dtype.with_element(_BOOL)
    return tuple(operands), (dtype,), attrs


def _check_same_type(checker: BodyChecker, op: Op) -> Problem:
    operands, result = op.operands, op.results[0]
    dtype = result.type
    for operand in operands:
        if operand.type is not dtype:
            return operand, f"{operand} is {operand.type}, not {dtype}"
    if not op.definition.accepts(dtype):
        return f"does not take {dtype}"
    return None


def _check_compare(checker: BodyChecker, op: Op) -> Problem:
    a, b = op.operands
    if a.type is not b.type:
        return a, f"{a} is {a.type}, {b} is {b.type}"
    if not op.definition.accepts(a.type):
        return f"does not take {a.type}"
    if a.type.is_matrix:
        return a, f"{a} is {a.type}, and there are no matrices of bools"
    dtype = a.type.with_element(_BOOL)
    return None if op.results[0].type is dtype else f"gives {dtype}, not {op.results[0].type}"


def _check_select(checker: BodyChecker, op: Op) -> Problem:
    predicate, a, b = op.operands
    dtype = op.results[0].type
    if a.type is not dtype or b.type is not dtype:
        return a, f"{a} is {a.type} and {b} is {b.type}, where both are {dtype}"
    if predicate.type is not _BOOL and (dtype.is_matrix or predicate.type is not dtype.with_element(_BOOL)):
        return predicate, f"{predicate} is {predicate.type}, not bool"
    return None


def _print_elementwise(p: Printer, op: Op) -> str:
    names = p.names
    operands = op.operands
    flags = op.attrs.get("fastmath", ())
    fast = f" fastmath<{', '.join(sorted(flags) if p.numbered else flags)}>" if flags else ""
    return f"{op.definition.name} {', '.join([names[v] for v in operands])}{fast} : {operands[-1].type.name}"


def _build_elementwise(b: Builder, row: OpDef, *operands: Operand, fastmath: Sequence[str] = ()) -> Value:
    values = _build_alike(b, row, operands, FORMATS[row.format].operands or 0)
    dtype = values[0].type
    result = dtype.with_element(_BOOL) if row.format == "compare" else dtype
    attrs = {"fastmath": tuple(fastmath)} if fastmath else NO_ATTRS
    return b.emit(row, values, (result,), attrs).result


def _build_select(b: Builder, row: OpDef, predicate: Operand, *operands: Operand) -> Value:
    values = _build_alike(b, row, operands, 2)
    return b.emit(row, (b.as_value(predicate, _BOOL), *values), (values[0].type,)).result


# --- convert ------------------------------------------------------------------------------


def _parse_convert(row: OpDef, tail: Tail) -> Parsed:
    _need_operands(row, tail, 1)
    if tail.target is None:
        raise Malformed(f"is written {row.name} %x : u8 -> u32")
    _need_type(tail.operands[0], tail.dtype)
    return tuple(tail.operands), (tail.target,), NO_ATTRS


def _check_convert(checker: BodyChecker, op: Op) -> Problem:
    source, target = op.operands[0].type, op.results[0].type
    if not (source.has_arithmetic and target.has_arithmetic):
        return f"no conversion from {source} to {target} exists"
    if op.name == "bitcast":
        if source.bits != target.bits or source.element.is_bool or target.element.is_bool:
            return f"{source} and {target} have different sizes"
        return (
            "the lanes of a matrix are open, and so are its bits"
            if source.is_matrix or target.is_matrix
            else None
        )
    if source.is_matrix or target.is_matrix:
        return _check_matrix_cast(source, target)
    return None if source.lanes == target.lanes else f"{source} and {target} have different shapes"


def _check_matrix_cast(source: DataType, target: DataType) -> str | None:
    """Elements stay in their lanes, so a target has them at the same places in both types: sums of all types are alike, and
    factors of a width; those on the left, of 16 bits, are like sums."""
    if not (source.is_matrix and target.is_matrix) or source.shape != target.shape:
        return f"{source} and {target} have different shapes"
    from_sum = source.use == "acc" and (
        target.use == "acc" or (target.use == "a" and target.element.bits == 16)
    )
    if from_sum or (source.use == target.use and source.element.bits == target.element.bits):
        return None
    return f"no conversion from {source} to {target} exists; store it and load it again"


def _print_convert(p: Printer, op: Op) -> str:
    return f"{op.name} {p.uses(op.operands)} : {op.operands[0].type} -> {op.results[0].type}"


def _build_convert(b: Builder, row: OpDef, operand: Value, dtype: DataType | str) -> Value:
    return b.emit(row, (operand,), (as_type(dtype),)).result


# --- splat, vector, extract, insert -------------------------------------------------------


def _parse_vector(row: OpDef, tail: Tail) -> Parsed:
    if tail.dtype is None or not tail.operands or tail.access or tail.words or tail.target:
        raise Malformed(f"is written {row.name} %a, %b : vec<2 x u32>")
    return tuple(tail.operands), (tail.dtype,), NO_ATTRS


def _check_vector(checker: BodyChecker, op: Op) -> Problem:
    dtype = op.results[0].type
    if dtype.is_matrix and op.definition.format == "splat" and dtype.has_arithmetic:
        return _mismatch(op.operands, dtype.element)
    if dtype.is_matrix and op.definition.format == "splat":
        return f"gives no {dtype}, which has no arithmetic"
    if not dtype.is_vec:
        return f"gives a vector, not {dtype}"
    count = 1 if op.definition.format == "splat" else dtype.lanes
    if len(op.operands) != count:
        return f"{dtype} takes {count} operands, {len(op.operands)} given"
    return _mismatch(op.operands, dtype.element)


def _vector_of(element: DataType, lanes: int) -> DataType:
    if lanes < MIN_VECTOR_LANES:
        raise TypeNameError(vector_lanes(lanes))
    return DataType.vec(element, lanes)


def _build_splat(b: Builder, row: OpDef, operand: Value, lanes: int | DataType) -> Value:
    dtype = lanes if isinstance(lanes, DataType) else _vector_of(operand.type, lanes)
    return b.emit(row, (operand,), (dtype,)).result


def _build_vector(b: Builder, row: OpDef, *operands: Operand) -> Value:
    values = _build_alike(b, row, operands, len(operands))
    return b.emit(row, values, (_vector_of(values[0].type, len(values)),)).result


def _parse_lane(row: OpDef, tail: Tail) -> Parsed:
    count = 1 if row.format == "extract" else 2
    text = "extract %v[0]" if count == 1 else "insert %x, %v[0]"
    if tail.access is None or tail.access[0] != "lane" or len(tail.operands) != count:
        raise Malformed(f"is written {text} : vec<4 x u32>")
    _need_type(tail.operands[-1], tail.dtype)
    dtype = tail.dtype or tail.operands[-1].type
    result = dtype.element if count == 1 else dtype
    return tuple(tail.operands), (result,), {"index": tail.access[2]}


def _check_lane(checker: BodyChecker, op: Op) -> Problem:
    vector = op.operands[-1].type
    if not vector.is_vec:
        return op.operands[-1], f"%{op.operands[-1].name} is {vector}, not a vector"
    if not 0 <= op.attrs["index"] < vector.lanes:
        return f"lane {op.attrs['index']} of {vector} does not exist"
    dtype = vector.element if op.definition.format == "extract" else vector
    problem = _mismatch(op.operands[:-1], vector.element)  # the inserted elements
    return problem or (None if op.results[0].type is dtype else f"gives {dtype}")


def _print_lane(p: Printer, op: Op) -> str:
    return f"{op.name} {p.uses(op.operands)}[{op.attrs['index']}] : {op.operands[-1].type}"


def _build_extract(b: Builder, row: OpDef, vector: Value, index: int) -> Value:
    return b.emit(row, (vector,), (vector.type.element,), {"index": index}).result


def _build_insert(b: Builder, row: OpDef, operand: Operand, vector: Value, index: int) -> Value:
    value = b.as_value(operand, vector.type.element)
    return b.emit(row, (value, vector), (vector.type,), {"index": index}).result


# --- permute, movemask --------------------------------------------------------------------

_MASK_TYPES = {8: DataType.U8, 16: DataType.U16, 32: _U32, 64: _U64}


def _parse_permute(row: OpDef, tail: Tail) -> Parsed:
    _need_operands(row, tail, 2)
    index = tail.operands[1]
    _need_type(index, tail.dtype)
    return tuple(tail.operands), (index.type,), NO_ATTRS


def _check_permute(checker: BodyChecker, op: Op) -> Problem:
    """The table may have another number of lanes than the index, whose type is that of the result."""
    for value in op.operands:
        if not value.type.is_vec or value.type.element is not DataType.U8:
            return value, f"{value} is {value.type}, not a vector of u8"
    dtype = op.operands[1].type
    return None if op.results[0].type is dtype else f"gives {dtype}, not {op.results[0].type}"


def _build_permute(b: Builder, row: OpDef, table: Value, index: Value) -> Value:
    return b.emit(row, (table, index), (index.type,)).result


def mask_type(dtype: DataType) -> DataType | None:
    """The unsigned integer with a bit for each lane of a vector of bools; None where there is none."""
    return _MASK_TYPES.get(dtype.lanes) if dtype.element.is_bool else None


def _no_mask(dtype: DataType) -> str:
    return f"takes a vector of {', '.join(map(str, _MASK_TYPES))} bools, not {dtype}"


def _parse_movemask(row: OpDef, tail: Tail) -> Parsed:
    _need_operands(row, tail, 1)
    (flags,) = tail.operands
    _need_type(flags, tail.dtype)
    result = UNKNOWN if flags.type is UNKNOWN else mask_type(flags.type)
    if result is None:
        raise Malformed(_no_mask(flags.type))
    return (flags,), (result,), NO_ATTRS


def _check_movemask(checker: BodyChecker, op: Op) -> Problem:
    flags, result = op.operands[0], op.results[0].type
    dtype = mask_type(flags.type)
    if dtype is None:
        return flags, _no_mask(flags.type)
    return None if result is dtype else f"gives {dtype}, not {result}"


def _print_movemask(p: Printer, op: Op) -> str:
    return f"{op.name} {p.uses(op.operands)} : {op.operands[0].type}"


def _build_movemask(b: Builder, row: OpDef, flags: Value) -> Value:
    dtype = mask_type(flags.type)
    if dtype is None:
        raise TypeError(f"{row.name} {_no_mask(flags.type)}")
    return b.emit(row, (flags,), (dtype,)).result


# --- load, store, atomic ------------------------------------------------------------------


def _parse_load(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] != "load" or tail.dtype is None:
        raise Malformed("is written load @buffer[%i] : u32")
    return tuple(tail.operands), (tail.dtype,), {"buffer": tail.access[2]}


def _check_load(checker: BodyChecker, op: Op) -> Problem:
    return checker.access(op, True, False) or checker.element(op, op.results[0].type)


def _print_load(p: Printer, op: Op) -> str:
    return f"load @{op.attrs['buffer']}[{p.uses(op.operands)}] : {op.results[0].type}"


def _build_load(
    b: Builder, row: OpDef, buffer: Buffer | str, index: Operand | Sequence[Operand], lanes: int = 1
) -> Value:
    source = b.find_buffer(buffer)
    dtype = source.dtype if lanes == 1 else DataType.vec(source.dtype, lanes)
    return b.emit(row, b.as_indices(index), (dtype,), {"buffer": source.name}).result


def _parse_store(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] != "store" or len(tail.operands) != 1 + tail.access[3]:
        raise Malformed(f"is written {row.name} %value, @buffer[%i] : u32")
    _need_type(tail.operands[0], tail.dtype)
    return tuple(tail.operands), (), {"buffer": tail.access[2]}


def _check_store(checker: BodyChecker, op: Op) -> Problem:
    problem = checker.access(op, False, True) or checker.element(op, op.operands[0].type)
    buffer = checker.buffers.get(op.attrs["buffer"])
    if problem is None and op.name == "copy_async" and buffer is not None and not buffer.is_workgroup:
        return f"copies to workgroup memory, and @{buffer.name} is in storage"
    return problem


def _print_store(p: Printer, op: Op) -> str:
    value = op.operands[0]
    return f"{op.name} {p.names[value]}, @{op.attrs['buffer']}[{p.uses(op.indices)}] : {value.type}"


def _shape_load(op: Op) -> str | None:
    return None if op.operands else "takes an index for each dimension of its buffer"


def _shape_store(op: Op) -> str | None:
    return None if len(op.operands) > 1 else "takes a value, and an index for each dimension of its buffer"


def _shape_atomic(op: Op) -> str | None:
    values = op.definition.atomic_values
    if len(op.operands) > values:
        return None
    return f"takes an index for each dimension of its buffer, and {values} value{'s' * (values > 1)}"


def _parse_atomic(row: OpDef, tail: Tail) -> Parsed:
    count = row.atomic_values
    if tail.access is None or tail.access[0] != "atomic" or len(tail.operands) != count + tail.access[3]:
        extra = ", %new" if count == 2 else ""
        raise Malformed(f"is written {row.name}<relaxed> @buffer[%i], %value{extra} : u32")
    dtype = tail.dtype or tail.operands[-1].type
    return tuple(tail.operands), (dtype,), {**_parse_words(row, tail), "buffer": tail.access[2]}


def _check_atomic(checker: BodyChecker, op: Op) -> Problem:
    values = op.operands[-op.definition.atomic_values :]
    dtype = op.results[0].type
    denied = checker.access(op, True, True)
    if dtype.is_vec or not op.definition.accepts(dtype) or dtype.bits not in (32, 64):
        denied = f"works on elements of 32 or 64 bits, not {dtype}"
    return _mismatch(values, dtype) or denied or checker.element(op, dtype)


def _print_atomic(p: Printer, op: Op) -> str:
    values = op.operands[-op.definition.atomic_values :]
    return (
        f"{_print_words(op)} @{op.attrs['buffer']}[{p.uses(op.indices)}], {p.uses(values)} : {values[0].type}"
    )


def _build_atomic(
    b: Builder,
    row: OpDef,
    buffer: Buffer | str,
    index: Operand | Sequence[Operand],
    *operands: Operand,
    order: str = "relaxed",
) -> Value:
    target = b.find_buffer(buffer)
    count = row.atomic_values
    if len(operands) != count:
        raise TypeError(f"{row.name} takes {count} operand{'s' * (count != 1)} after the index")
    values = tuple(b.as_value(operand, target.dtype) for operand in operands)
    attrs = {"order": order, "buffer": target.name}
    return b.emit(row, (*b.as_indices(index), *values), (target.dtype,), attrs).result


# --- copy_wait, barrier, shuffle, reduce, scan, ballot ------------------------------------

MAX_PENDING = 64
"""Groups of copies that a wait may leave."""


def _parse_copy_wait(row: OpDef, tail: Tail) -> Parsed:
    access = tail.access or ("literal", (), ("int", "0"))
    is_int = access[0] == "literal" and access[2][0] == "int"
    if tail.operands or tail.words or tail.dtype or not is_int:
        raise Malformed("is written copy_wait, or copy_wait 2 for all but the copies of the last two")
    return (), (), {"pending": int(access[2][1], 0)}


def _check_copy_wait(checker: BodyChecker, op: Op) -> Problem:
    if isinstance(checker.owner, Func):
        return "not in a function"
    pending = op.attrs["pending"]
    return (
        None if 0 <= pending <= MAX_PENDING else f"leaves 0 to {MAX_PENDING} groups of copies, not {pending}"
    )


def _print_copy_wait(p: Printer, op: Op) -> str:
    return f"{op.name} {op.attrs['pending']}" if op.attrs["pending"] else op.name


def _parse_barrier(row: OpDef, tail: Tail) -> Parsed:
    if tail.operands or tail.access or tail.dtype or len(tail.words) != 1 or tail.words[0] not in SCOPES:
        raise Malformed(f"is written barrier {'|'.join(SCOPES)}")
    return (), (), {"scope": tail.words[0]}


def _check_sync(checker: BodyChecker, op: Op) -> Problem:
    checker.has_sync = True
    return "not in a function" if isinstance(checker.owner, Func) else None


def _print_barrier(p: Printer, op: Op) -> str:
    return f"barrier {op.attrs['scope']}"


def _parse_subgroup(row: OpDef, tail: Tail) -> Parsed:
    _need_operands(row, tail, FORMATS[row.format].operands or 0)
    if row.format == "ballot":
        _need_type(tail.operands[0], tail.dtype)
        return tuple(tail.operands), (_U32,), NO_ATTRS
    return tuple(tail.operands), (tail.dtype or tail.operands[0].type,), _parse_words(row, tail)


def _check_subgroup(checker: BodyChecker, op: Op) -> Problem:
    problem = _check_sync(checker, op)
    if problem:
        return problem
    format, dtype = op.definition.format, op.results[0].type
    if format == "ballot":
        return _mismatch(op.operands, _BOOL) if dtype is _U32 else f"gives u32, not {dtype}"
    problem = _mismatch(op.operands[:1], dtype)
    if dtype.is_matrix:
        return "takes no matrix, of which it is open what a lane has"
    if problem or format == "shuffle":
        return problem or _mismatch(op.operands[1:], _U32)
    combine = op.attrs["combine"]
    # a combiner takes the types of the op of its kind: bits or numbers
    if dtype.is_vec or not OPS["and" if combine in ("and", "or", "xor") else "add"].accepts(dtype):
        return f"cannot combine {dtype} by {combine}"
    return None


def _print_operands(p: Printer, op: Op) -> str:
    return f"{op.name} {p.uses(op.operands)}" if op.operands else op.name


def _build_shuffle(b: Builder, row: OpDef, operand: Value, lane: Operand, mode: str = "idx") -> Value:
    return b.emit(row, (operand, b.as_value(lane, _U32)), (operand.type,), {"mode": mode}).result


def _build_reduce(b: Builder, row: OpDef, operand: Value, combine: str = "add") -> Value:
    return b.emit(row, (operand,), (operand.type,), {"combine": combine}).result


def _build_scan(
    b: Builder, row: OpDef, operand: Value, mode: str = "inclusive", combine: str = "add"
) -> Value:
    return b.emit(row, (operand,), (operand.type,), {"mode": mode, "combine": combine}).result


def _build_ballot(b: Builder, row: OpDef, predicate: Value) -> Value:
    return b.emit(row, (predicate,), (_U32,)).result


# --- matrices -----------------------------------------------------------------------------


def _layout(row: OpDef, tail: Tail) -> dict[str, Any]:
    return _parse_words(row, tail._replace(words=tail.words or ("row_major",)))


def _print_layout(op: Op) -> str:
    return op.name if op.attrs["layout"] == "row_major" else f"{op.name}<{op.attrs['layout']}>"


def _parse_matrix_load(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] != "load" or tail.dtype is None:
        raise Malformed("is written matrix_load @buffer[%r, %c] : matrix<16x16xf16, a>")
    return tuple(tail.operands), (tail.dtype,), {**_layout(row, tail), "buffer": tail.access[2]}


def _check_matrix_load(checker: BodyChecker, op: Op) -> Problem:
    return (
        _check_full_subgroups(checker)
        or checker.access(op, True, False)
        or checker.element(op, op.results[0].type)
    )


def _print_matrix_load(p: Printer, op: Op) -> str:
    return f"{_print_layout(op)} @{op.attrs['buffer']}[{p.uses(op.operands)}] : {op.results[0].type}"


def _build_matrix_load(
    b: Builder,
    row: OpDef,
    buffer: Buffer | str,
    index: Operand | Sequence[Operand],
    dtype: DataType,
    layout: str = "row_major",
) -> Value:
    attrs = {"layout": layout, "buffer": b.find_buffer(buffer).name}
    return b.emit(row, b.as_indices(index), (dtype,), attrs).result


def _parse_matrix_store(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] != "store" or len(tail.operands) != 1 + tail.access[3]:
        raise Malformed("is written matrix_store %m, @buffer[%r, %c] : matrix<16x16xf32, acc>")
    _need_type(tail.operands[0], tail.dtype)
    return tuple(tail.operands), (), {**_layout(row, tail), "buffer": tail.access[2]}


def _check_matrix_store(checker: BodyChecker, op: Op) -> Problem:
    problem = _check_full_subgroups(checker) or checker.access(op, False, True)
    buffer = checker.buffers.get(op.attrs["buffer"])
    if problem is None and buffer is not None and buffer.dimensions == 1:
        return f"@{buffer.name} has one dimension, in which a matrix has no rows of its own"
    return problem or checker.element(op, op.operands[0].type)


def _print_matrix_store(p: Printer, op: Op) -> str:
    value = op.operands[0]
    return f"{_print_layout(op)} {p.names[value]}, @{op.attrs['buffer']}[{p.uses(op.indices)}] : {value.type}"


def _parse_matrix_mul_add(row: OpDef, tail: Tail) -> Parsed:
    _need_operands(row, tail, 3)
    _parse_words(row, tail)
    _need_type(tail.operands[-1], tail.dtype)
    return tuple(tail.operands), (tail.operands[-1].type,), NO_ATTRS


def _check_matrix_mul_add(checker: BodyChecker, op: Op) -> Problem:
    for value, use in zip(op.operands, MATRIX_USES, strict=True):
        if not value.type.is_matrix or value.type.use != use:
            return value, f"{value} is {value.type}, not a matrix of use {use}"
    a, b, c = (value.type for value in op.operands)
    if op.results[0].type is not c:
        return f"gives {c}, not {op.results[0].type}"
    if a.element is not b.element:
        return op.operands[1], f"{op.operands[1]} is of {b.element}, {op.operands[0]} of {a.element}"
    total = DataType.I32 if a.element.is_int else DataType.F32
    if c.element is not total:
        return op.operands[2], f"products of {a.element} are added in {total}, not {c.element}"
    (rows, depth), (b_rows, columns) = a.shape, b.shape
    if depth != b_rows or c.shape != (rows, columns):
        sizes = ", ".join(f"{r} x {k}" for r, k in (a.shape, b.shape, c.shape))
        return f"takes a of M x K, b of K x N and c of M x N, not {sizes}"
    return _check_full_subgroups(checker)


def _check_full_subgroups(checker: BodyChecker) -> str | None:
    """Every lane of a subgroup holds a part of a matrix."""
    owner = checker.owner
    if isinstance(owner, Func):
        return "not in a function"
    checker.has_sync = True
    if owner.lanes % SUBGROUP_SIZE:
        return f"needs workgroups of whole subgroups of {SUBGROUP_SIZE}, not of {owner.lanes} invocations"
    return None


def _build_matrix_mul_add(b: Builder, row: OpDef, x: Value, y: Value, z: Value) -> Value:
    return b.emit(row, (x, y, z), (z.type,)).result


# --- for, while ---------------------------------------------------------------------------


def _shape_for(op: Op) -> str | None:
    if not op.regions[0].args:
        return "has a block whose first argument is the counter"
    dynamic = sum(op.attrs.get(name) is None for name in BOUND_NAMES)
    if len(op.operands) < dynamic:
        plural, operands = "s" * (dynamic != 1), "s" * (len(op.operands) != 1)
        return f"has {dynamic} dynamic bound{plural}, but {len(op.operands)} operand{operands}"
    return None


def _check_for(checker: BodyChecker, op: Op) -> Problem:
    body = op.regions[0]
    problem = _check_bounds(op, body.args[0]) or _check_iteration(op, body.args[1:], inits(op))
    checker.block(body, tuple(r.type for r in op.results), op)
    return problem


def _check_bounds(op: Op, counter: Value) -> Problem:
    if not counter.type.is_int:
        return f"the counter {counter} is {counter.type}, not an integer"
    low, high = arith.int_range(counter.type)
    for bound, name in zip(bounds(op), ("lower bound", "upper bound", "step"), strict=True):
        if isinstance(bound, Value):
            if bound.type is not counter.type:
                return bound, f"the {name} {bound} is {bound.type}, the counter {counter.type}"
        elif not low <= bound <= high:
            return f"the {name} {bound} does not fit in {counter.type}"
    step = bounds(op)[2]
    if isinstance(step, int) and step < 1:
        return f"the step is at least 1, not {step}"
    return None


def _check_iteration(op: Op, args: tuple[Value, ...], initial: tuple[Value, ...]) -> Problem:
    if not len(args) == len(initial) == len(op.results):
        return f"{len(initial)} initial values, {len(args)} arguments and {len(op.results)} results"
    for arg, value, result in zip(args, initial, op.results, strict=True):
        if value.type is not arg.type:
            return value, f"{arg} starts as {value.type}, but is {arg.type}"
        if result.type is not arg.type:
            return result, f"{result} is {result.type}, but {arg} is {arg.type}"
    return None


def _print_iteration(p: Printer, args: tuple[Value, ...], initial: tuple[Value, ...]) -> str:
    if not args:
        return ""
    pairs = zip(args, initial, strict=True)
    return f" iter({', '.join(f'{p.define(a)} = {p.names[i]} : {a.type}' for a, i in pairs)})"


def _print_for(p: Printer, op: Op) -> str:
    body = op.regions[0]

    def head() -> str:
        lower, upper, step = (b if isinstance(b, int) else p.names[b] for b in bounds(op))
        counter = p.define(body.args[0])
        iteration = _print_iteration(p, body.args[1:], inits(op))
        dtype = body.args[0].type
        suffix = "" if dtype is _U32 else f" : {dtype}"
        return f"for {counter} = {lower} to {upper} step {step}{iteration}{suffix} {{\n"

    return p.block(body, head)


def _check_while(checker: BodyChecker, op: Op) -> Problem:
    condition, body = op.regions
    problem = _check_iteration(op, condition.args, op.operands)
    problem = problem or _check_iteration(op, body.args, op.operands)
    checker.block(condition, (_BOOL,), op)
    checker.block(body, tuple(r.type for r in op.results), op)
    return problem


def _print_while(p: Printer, op: Op) -> str:
    condition, body = op.regions
    head = p.block(condition, lambda: f"while{_print_iteration(p, condition.args, op.operands)} {{\n")
    p.lines.append(f"{p.indent}}} do {{\n")
    # the text has one list of arguments, so those of the body have the names of the condition's
    for arg, named in zip(body.args, condition.args, strict=True):
        p.rename(arg, p.names[named])
    p.block(body)
    return head


# --- if, region ---------------------------------------------------------------------------


def lacks_else(op: Op | None) -> bool:
    """Whether this is an `if` that gives values and has one block, which may hold what was meant for two."""
    return op is not None and op.name == "if" and len(op.regions) == 1 and bool(op.results)


def _shape_if(op: Op) -> str | None:
    if len(op.regions) not in (1, 2):
        return f"has 1 or 2 blocks, not {len(op.regions)}"
    return _shape_region(op)


def _shape_region(op: Op) -> str | None:
    return "has blocks without arguments" if any(block.args for block in op.regions) else None


def _check_if(checker: BodyChecker, op: Op) -> Problem:
    types = None if lacks_else(op) else tuple(r.type for r in op.results)
    for block in op.regions:
        checker.block(block, types, op)
    return _mismatch(op.operands, _BOOL) if types is not None else "gives values, so it needs an else"


def _print_result_types(op: Op) -> str:
    return f" -> {types_text(tuple(v.type for v in op.results))}" if op.results else ""


def _print_if(p: Printer, op: Op) -> str:
    head = f"if {p.names[op.operands[0]]}{_print_result_types(op)} {{\n"
    p.block(op.regions[0])
    if len(op.regions) > 1:
        p.lines.append(f"{p.indent}}} else {{\n")
        p.block(op.regions[1])
    return head


def _check_region(checker: BodyChecker, op: Op) -> Problem:
    checker.block(op.regions[0], tuple(r.type for r in op.results), op)
    return None


def _print_region(p: Printer, op: Op) -> str:
    p.block(op.regions[0])
    return f"region @{op.attrs['label']}{_print_result_types(op)} {{\n"


# --- yield, condition ---------------------------------------------------------------------


def _parse_terminator(row: OpDef, tail: Tail) -> Parsed:
    if tail.access or tail.words or tail.target or tail.fastmath:
        raise Malformed(f"is written {row.name} %a")
    for operand in tail.operands:
        _need_type(operand, tail.dtype)
    return tuple(tail.operands), (), NO_ATTRS


def _check_terminator(checker: BodyChecker, op: Op) -> Problem:
    return None  # checked at the end of its block, where the types are known


# --- call, trap, assert, debug_print, kernel ---------------------------------------------


def _check_call(checker: BodyChecker, op: Op) -> Problem:
    name = op.attrs["callee"]
    func = checker.module.funcs.get(name)
    if func is None:
        checker.unknown_name(op, f"there is no func @{name}", name, checker.module.funcs, None)
        return None
    args, params = tuple(v.type for v in op.operands), tuple(v.type for v in func.params)
    if checker.poisoned(*params, *func.results) or checker.holes.is_invalid(func):
        return None
    if args != params:
        return f"@{name} takes ({', '.join(t.name for t in params)}), not ({', '.join(t.name for t in args)})"
    if tuple(v.type for v in op.results) != func.results:
        return f"@{name} gives ({', '.join(t.name for t in func.results)})"
    return None


def _print_call(p: Printer, op: Op) -> str:
    text = f"call @{op.attrs['callee']}({p.uses(op.operands)})"
    return f"{text} : ({type_list(op.operands)}){_print_result_types(op)}" if op.results else text


def _check_trap(checker: BodyChecker, op: Op) -> Problem:
    return "not in a function" if isinstance(checker.owner, Func) else None


def _print_trap(p: Printer, op: Op) -> str:
    return f"trap {quote(op.attrs['message'])}"


def _check_assert(checker: BodyChecker, op: Op) -> Problem:
    return _check_trap(checker, op) or _mismatch(op.operands, _BOOL)


def _print_assert(p: Printer, op: Op) -> str:
    return f"assert {p.uses(op.operands)}, {quote(op.attrs['message'])}"


def _parse_check_bounds(row: OpDef, tail: Tail) -> Parsed:
    if tail.access is None or tail.access[0] != "atomic" or (len(tail.operands), tail.access[3]) != (2, 1):
        raise Malformed("is written check_bounds<load> @buffer[%index], %length : u32")
    _need_type(tail.operands[0], tail.dtype)
    return tuple(tail.operands), (), {**_parse_words(row, tail), "of": tail.access[2]}


def _check_check_bounds(checker: BodyChecker, op: Op) -> Problem:
    dtype = op.operands[0].type
    if dtype not in (DataType.U32, DataType.U64):
        return op.operands[0], f"compares indices and lengths of u32 or u64, not {dtype}"
    return _check_trap(checker, op) or _mismatch(op.operands, dtype)


def _print_check_bounds(p: Printer, op: Op) -> str:
    index, length = op.operands
    return f"{_print_words(op)} @{op.attrs['of']}[{p.uses((index,))}], {p.uses((length,))} : {index.type}"


def _check_debug_print(checker: BodyChecker, op: Op) -> Problem:
    if isinstance(checker.owner, Func):
        return "not in a function"
    if len(op.operands) > MAX_OPERANDS:
        return f"takes up to {MAX_OPERANDS} operands, {len(op.operands)} given"
    try:
        directives = [part for part in parse_format(op.attrs["format"]) if isinstance(part, Directive)]
    except FormatError as error:
        where = op.loc.find(error.directive) if op.loc else None
        checker.error(op, f"debug_print: {error}", where, error.help)
        return None
    if len(directives) != len(op.operands):
        return wrong_count(len(directives), len(op.operands))
    for directive, value in zip(directives, op.operands, strict=True):
        if value.type.is_matrix:
            return value, f"takes no {value.type}, of which it is open what a lane has"
        problem = None if checker.poisoned(value.type) else why_not(directive, value.type)
        if problem is not None:
            message, help = problem
            where = op.loc.find(f"{value}") if op.loc else None
            checker.error(op, f"debug_print: {message}, and {value} is {value.type}", where, help)
    return None


def _print_debug_print(p: Printer, op: Op) -> str:
    return " ".join(filter(None, ("debug_print", quote(op.attrs["format"]), p.uses(op.operands))))


def _check_kernel(checker: BodyChecker, op: Op) -> Problem:
    from .kernel_rules import check_kernel

    if isinstance(checker.owner, Func):
        return "not in a function"
    if len(checker.owner.body.ops) != 1:
        return "stands alone in its program"
    names = op.attrs["buffers"]
    missing = [name for name in names if name not in checker.buffers]
    for name in missing:
        message = f"program @{checker.owner.name} has no buffer @{name}"
        checker.unknown_name(op, message, name, checker.buffers, checker.owner)
    if missing:
        return None
    params, diagnostics = op.attrs["params"], checker.diagnostics
    check_kernel(op.name, names, params, checker.buffers, op.loc, diagnostics, checker.holes)
    # not strict: a wrong number of buffers has just been reported
    for name, role in zip(names, NAMED_KERNELS[op.name].roles, strict=False):
        if role.access is AccessMode.READ:
            checker.read.add(name)
        else:
            checker.written.setdefault(name, op.loc)
    return None


def _print_kernel(p: Printer, op: Op) -> str:
    return kernel_text(p, op.name, op.attrs["buffers"], op.attrs["params"])


def kernel_text(p: Printer, name: str, buffers: tuple[str, ...], params: dict[str, Any]) -> str:
    """A named kernel, as an op or as a stage."""
    attrs = ", ".join(f"{key} = {value}" for key, value in p.entries(params))
    return f"{name}({symbol_list(buffers)})" + (f" {{{attrs}}}" if attrs else "")


# --- the table ----------------------------------------------------------------------------

# A table reads by its columns: name; operands, results, blocks; check; print; example; the rest by name.
# fmt: off
FORMATS: dict[str, OpFormat] = {row.name: row for row in (
    OpFormat("const", 0, 1, 0, _check_const, _print_const, "%r = const 2 : {type}", _parse_const),
    OpFormat("spec", 0, 1, 0, _check_spec, _print_spec, "%r = spec @s : {type}"),
    OpFormat("param", 0, 1, 0, _check_param, _print_param, "%r = param @n : {type}"),
    OpFormat("id", 0, 1, 0, _check_id, _print_id, "%r = {name} x", _parse_id, _build_id, has_type=False),
    OpFormat("size", 0, 1, 0, _check_id, _print_operands, "%r = {name}", _parse_id, _build_size, has_type=False),
    OpFormat("len", 0, 1, 0, _check_len, _print_len, "%r = len @b", _parse_len, _build_len, has_type=False),
    OpFormat("unary", 1, 1, 0, _check_same_type, _print_elementwise, "%r = {name} %a : {type}",
             _parse_elementwise, _build_elementwise, takes_fastmath=True, constants="T"),
    OpFormat("binary", 2, 1, 0, _check_same_type, _print_elementwise, "%r = {name} %a, %b : {type}",
             _parse_elementwise, _build_elementwise, takes_fastmath=True, constants="T T"),
    OpFormat("ternary", 3, 1, 0, _check_same_type, _print_elementwise, "%r = {name} %a, %b, %c : {type}",
             _parse_elementwise, _build_elementwise, takes_fastmath=True, constants="T T T"),
    OpFormat("compare", 2, 1, 0, _check_compare, _print_elementwise, "%r = {name} %a, %b : {type}",
             _parse_elementwise, _build_elementwise, takes_fastmath=True, constants="T T"),
    OpFormat("select", 3, 1, 0, _check_select, _print_elementwise, "%r = {name} %p, %a, %b : {type}",
             _parse_elementwise, _build_select, takes_fastmath=True, constants="bool T T"),
    OpFormat("convert", 1, 1, 0, _check_convert, _print_convert, "%r = {name} %a : u32 -> f32",
             _parse_convert, _build_convert, constants="T"),
    OpFormat("splat", 1, 1, 0, _check_vector, _print_typed, "%r = splat %a : vec<4 x {type}>",
             _parse_elementwise, _build_splat, constants="element"),
    OpFormat("vector", None, 1, 0, _check_vector, _print_typed, "%r = vector %a, %b : vec<2 x {type}>",
             _parse_vector, _build_vector, constants="element..."),
    OpFormat("extract", 1, 1, 0, _check_lane, _print_lane, "%r = extract %v[0] : vec<4 x {type}>",
             _parse_lane, _build_extract, constants="T"),
    OpFormat("insert", 2, 1, 0, _check_lane, _print_lane, "%r = insert %a, %v[0] : vec<4 x {type}>",
             _parse_lane, _build_insert, constants="element T"),
    OpFormat("permute", 2, 1, 0, _check_permute, _print_typed, "%r = {name} %table, %index : vec<16 x u8>",
             _parse_permute, _build_permute, has_type=False, constants="- T"),
    OpFormat("movemask", 1, 1, 0, _check_movemask, _print_movemask, "%r = {name} %m : vec<32 x bool>",
             _parse_movemask, _build_movemask, has_type=False, constants="T"),
    OpFormat("load", None, 1, 0, _check_load, _print_load, "%r = load @b[%i] : {type}", _parse_load, _build_load,
             shape=_shape_load, constants="u32..."),
    OpFormat("store", None, 0, 0, _check_store, _print_store, "{name} %a, @b[%i] : {type}", _parse_store,
             shape=_shape_store, constants="T u32..."),
    OpFormat("copy_wait", 0, 0, 0, _check_copy_wait, _print_copy_wait, "copy_wait 1", _parse_copy_wait, has_type=False),
    OpFormat("atomic", None, 1, 0, _check_atomic, _print_atomic, "%r = {name}<relaxed> @b[%i], %a : {type}",
             _parse_atomic, _build_atomic, shape=_shape_atomic, needs_names=False, constants="u32... T"),
    OpFormat("barrier", 0, 0, 0, _check_sync, _print_barrier, "barrier workgroup", _parse_barrier, has_type=False),
    OpFormat("shuffle", 2, 1, 0, _check_subgroup, _print_typed, "%r = {name}<idx> %a, %i : {type}",
             _parse_subgroup, _build_shuffle, constants="T u32"),
    OpFormat("reduce", 1, 1, 0, _check_subgroup, _print_typed, "%r = {name}<add> %a : {type}",
             _parse_subgroup, _build_reduce, constants="T"),
    OpFormat("scan", 1, 1, 0, _check_subgroup, _print_typed, "%r = {name}<inclusive, add> %a : {type}",
             _parse_subgroup, _build_scan, constants="T"),
    OpFormat("ballot", 1, 1, 0, _check_subgroup, _print_operands, "%r = {name} %p",
             _parse_subgroup, _build_ballot, has_type=False, constants="bool"),
    OpFormat("matrix_load", None, 1, 0, _check_matrix_load, _print_matrix_load,
             "%r = {name} @b[%i, %j] : matrix<16x16xf16, a>", _parse_matrix_load, _build_matrix_load, shape=_shape_load,
             has_type=False, constants="u32..."),
    OpFormat("matrix_store", None, 0, 0, _check_matrix_store, _print_matrix_store,
             "{name} %m, @b[%i, %j] : matrix<16x16xf32, acc>", _parse_matrix_store, shape=_shape_store, has_type=False, constants="T u32..."),
    OpFormat("matrix_mul_add", 3, 1, 0, _check_matrix_mul_add, _print_typed,
             "%r = {name} %a, %b, %c : matrix<16x16xf32, acc>", _parse_matrix_mul_add, _build_matrix_mul_add,
             has_type=False, constants="- - T"),
    OpFormat("for", None, None, 1, _check_for, _print_for,
             "%r = for %k = 0 to 8 step 1 iter(%s = %a : {type}) {{ yield %s }}",
             shape=_shape_for, has_type=False, needs_names=False, constants="result..."),
    OpFormat("while", None, None, 2, _check_while, _print_while,
             "%r = while iter(%s = %a : {type}) {{ condition %p }} do {{ yield %s }}",
             has_type=False, needs_names=False, constants="result..."),
    OpFormat("if", 1, None, None, _check_if, _print_if, "%r = if %p -> {type} {{ yield %a }} else {{ yield %b }}",
             shape=_shape_if, has_type=False, needs_names=False, constants="bool"),
    OpFormat("region", 0, None, 1, _check_region, _print_region, "%r = region @name -> {type} {{ yield %a }}",
             shape=_shape_region, has_type=False, needs_names=False),
    OpFormat("yield", None, 0, 0, _check_terminator, _print_operands, "yield %a", _parse_terminator, has_type=False, constants="result..."),
    OpFormat("condition", None, 0, 0, _check_terminator, _print_operands, "condition %p",
             _parse_terminator, has_type=False, constants="bool"),
    OpFormat("call", None, None, 0, _check_call, _print_call, "%r = call @f(%a) : ({type}) -> {type}",
             has_type=False, needs_names=False, constants="result..."),
    OpFormat("trap", 0, 0, 0, _check_trap, _print_trap, 'trap "message"', has_type=False),
    OpFormat("assert", 1, 0, 0, _check_assert, _print_assert, 'assert %p, "message"', has_type=False, constants="bool"),
    OpFormat("check_bounds", 2, 0, 0, _check_check_bounds, _print_check_bounds, "{name}<load> @b[%i], %c : {type}",
             _parse_check_bounds, constants="T T"),
    OpFormat("debug_print", None, 0, 0, _check_debug_print, _print_debug_print, 'debug_print "i=%u" %i',
             has_type=False, constants="-..."),
    # its buffers and parameters differ by row, and so does its example
    OpFormat("kernel", 0, 0, 0, _check_kernel, _print_kernel, ""),
)}
# fmt: on
