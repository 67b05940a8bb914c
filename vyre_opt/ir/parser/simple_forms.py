"""Simple ops by form: from the parts of the text to operands, result types and attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..literals import encode
from ..ops import AXES, FASTMATH, SCOPES, OpDef
from ..program import NO_ATTRS, Value
from ..shapes import ARITY
from ..types import UNKNOWN, DataType


class Tail(NamedTuple):
    """The parts of a simple op after its name."""

    words: tuple[str, ...] | list[str] = ()
    operands: list[Value] | tuple[Value, ...] = ()
    access: tuple[Any, ...] | None = None  # (kind, ...) as built by the access_ methods
    fastmath: list[str] | None = None
    dtype: DataType | None = None
    target: DataType | None = None


Built = tuple[tuple[Value, ...], tuple[DataType, ...], dict[str, Any]]
_U32, _BOOL = DataType.U32, DataType.BOOL


class Malformed(Exception):
    """A simple op whose parts do not fit its form; the text says how it is written."""


def fastmath_flags(words: list[str]) -> tuple[str, ...]:
    for word in words:
        if word not in FASTMATH:
            raise Malformed(f"fastmath takes {', '.join(FASTMATH)}, not {word}")
    return tuple(word for word in FASTMATH if word in words)


def _check_operands(row: OpDef, tail: Tail, count: int) -> None:
    if len(tail.operands) != count:
        given = len(tail.operands)
        raise Malformed(f"takes {count} operand{'s' * (count != 1)}, {given} given")
    if tail.access is not None and tail.access[0] != "lane":
        raise Malformed("takes values only")
    if tail.target is not None and row.format != "convert":
        raise Malformed("takes one type")


def _written(value: Value, dtype: DataType | None) -> None:
    """The type that is written for an operand, if one is, is the operand's."""
    if dtype not in (None, UNKNOWN, value.type) and value.type is not UNKNOWN:
        raise Malformed(f"%{value.name} is {value.type}, not {dtype}")


def _words(row: OpDef, tail: Tail) -> dict[str, Any]:
    """The word attributes, in the order of the table."""
    wanted = [attr for attr in row.attrs if attr.kind == "word"]
    given = list(tail.words)
    if row.format == "atomic" and not given:
        given = ["relaxed"]
    if len(given) != len(wanted):
        names = " and its ".join(
            f"{a.name}, one of {', '.join(a.choices)}" if a.choices else a.name for a in wanted
        )
        raise Malformed(f"needs its {names}" if wanted else f"takes no {given[0]}")
    for attr, word in zip(wanted, given, strict=True):
        if attr.choices and word not in attr.choices:
            raise Malformed(f"{attr.name} is {', '.join(attr.choices)}, not {word}")
    return {attr.name: word for attr, word in zip(wanted, given, strict=True)} or NO_ATTRS


def _elementwise(row: OpDef, tail: Tail) -> Built:
    words, operands, access, fastmath, dtype, target = tail
    if len(operands) != ARITY[row.format] or access is not None or words or target is not None:
        _check_operands(row, tail, ARITY[row.format])
        _words(row, tail)
    if dtype is None:
        dtype = operands[-1].type
    elif row.format == "compare" and dtype is not operands[0].type:
        _written(operands[0], dtype)
    attrs = NO_ATTRS if fastmath is None else {"fastmath": fastmath_flags(fastmath)}
    if row.format == "compare" and dtype is not UNKNOWN:
        return tuple(operands), (dtype.with_element(_BOOL),), attrs
    return tuple(operands), (dtype,), attrs


def _const(row: OpDef, tail: Tail) -> Built:
    if tail.access is None or tail.access[0] not in ("literal", "literals"):
        raise Malformed("is written const 2 : u32")
    if tail.dtype is None:
        raise Malformed("needs a type: const 2 : u32")
    if tail.dtype is UNKNOWN:
        return (), (UNKNOWN,), {"value": 0}
    element = tail.dtype.element
    if element.kind not in ("bool", "uint", "int", "float"):
        raise Malformed(f"no constant of {tail.dtype} exists")
    if tail.access[0] == "literal":
        return (), (tail.dtype,), {"value": encode(tail.access[2], element)}
    lanes = tuple(encode(lane, element) for lane in tail.access[2])
    if len(lanes) != tail.dtype.lanes:
        raise Malformed(f"{tail.dtype} has {tail.dtype.lanes} lanes, {len(lanes)} given")
    return (), (tail.dtype,), {"value": lanes[0] if len(set(lanes)) == 1 else lanes}


def _id(row: OpDef, tail: Tail) -> Built:
    if tail.operands or tail.access:
        raise Malformed(f"is written {row.name} {'|'.join(AXES)}" if row.attrs else "takes no operands")
    if tail.dtype not in (None, _U32):
        raise Malformed(f"gives u32, not {tail.dtype}")
    return (), (_U32,), _words(row, tail)


def _len(row: OpDef, tail: Tail) -> Built:
    if tail.access is None or tail.access[0] != "symbol":
        raise Malformed("is written len @buffer")
    return (), (tail.dtype or _U32,), {"buffer": tail.access[2]}


def _convert(row: OpDef, tail: Tail) -> Built:
    _check_operands(row, tail, 1)
    if tail.target is None:
        raise Malformed(f"is written {row.name} %x : u8 -> u32")
    _written(tail.operands[0], tail.dtype)
    return tuple(tail.operands), (tail.target,), NO_ATTRS


def _vector(row: OpDef, tail: Tail) -> Built:
    if tail.dtype is None or not tail.operands or tail.access or tail.words or tail.target:
        raise Malformed(f"is written {row.name} %a, %b : vec<2 x u32>")
    return tuple(tail.operands), (tail.dtype,), NO_ATTRS


def _lane(row: OpDef, tail: Tail) -> Built:
    count = 1 if row.format == "extract" else 2
    text = "extract %v[0]" if count == 1 else "insert %x, %v[0]"
    if tail.access is None or tail.access[0] != "lane" or len(tail.operands) != count:
        raise Malformed(f"is written {text} : vec<4 x u32>")
    _written(tail.operands[-1], tail.dtype)
    dtype = tail.dtype or tail.operands[-1].type
    result = dtype.element if count == 1 else dtype
    return tuple(tail.operands), (result,), {"index": tail.access[2]}


def _load(row: OpDef, tail: Tail) -> Built:
    if tail.access is None or tail.access[0] != "load" or tail.dtype is None:
        raise Malformed("is written load @buffer[%i] : u32")
    return tuple(tail.operands), (tail.dtype,), {"buffer": tail.access[2]}


def _store(row: OpDef, tail: Tail) -> Built:
    if tail.access is None or tail.access[0] != "store" or len(tail.operands) != 2:
        raise Malformed("is written store %value, @buffer[%i] : u32")
    _written(tail.operands[0], tail.dtype)
    return tuple(tail.operands), (), {"buffer": tail.access[2]}


def _atomic(row: OpDef, tail: Tail) -> Built:
    values = 2 if row.name.endswith("compare_exchange") else 1
    if tail.access is None or tail.access[0] != "atomic" or len(tail.operands) != values + 1:
        extra = ", %new" if values == 2 else ""
        raise Malformed(f"is written {row.name}<relaxed> @buffer[%i], %value{extra} : u32")
    dtype = tail.dtype or tail.operands[1].type
    return tuple(tail.operands), (dtype,), {**_words(row, tail), "buffer": tail.access[2]}


def _barrier(row: OpDef, tail: Tail) -> Built:
    if tail.operands or tail.access or tail.dtype or len(tail.words) != 1 or tail.words[0] not in SCOPES:
        raise Malformed(f"is written barrier {'|'.join(SCOPES)}")
    return (), (), {"scope": tail.words[0]}


def _subgroup(row: OpDef, tail: Tail) -> Built:
    _check_operands(row, tail, ARITY[row.format])
    if row.format == "ballot":
        _written(tail.operands[0], tail.dtype)
        return tuple(tail.operands), (_U32,), NO_ATTRS
    return tuple(tail.operands), (tail.dtype or tail.operands[0].type,), _words(row, tail)


def _terminator(row: OpDef, tail: Tail) -> Built:
    if tail.access or tail.words or tail.target or tail.fastmath:
        raise Malformed(f"is written {row.name} %a")
    for operand in tail.operands:
        _written(operand, tail.dtype)
    return tuple(tail.operands), (), NO_ATTRS


def _structured(row: OpDef, tail: Tail) -> Built:
    raise Malformed("is not written like this; see the grammar")


BUILD: dict[str, Callable[[OpDef, Tail], Built]] = {
    **dict.fromkeys(("unary", "binary", "ternary", "compare", "select", "splat"), _elementwise),
    **dict.fromkeys(("id", "size"), _id),
    **dict.fromkeys(("extract", "insert"), _lane),
    **dict.fromkeys(("shuffle", "reduce", "scan", "ballot"), _subgroup),
    **dict.fromkeys(("yield", "condition"), _terminator),
    **dict.fromkeys(("for", "while", "if", "region", "call", "trap", "kernel", "spec"), _structured),
    "const": _const,
    "len": _len,
    "convert": _convert,
    "vector": _vector,
    "load": _load,
    "store": _store,
    "atomic": _atomic,
    "barrier": _barrier,
}
