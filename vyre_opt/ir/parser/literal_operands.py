"""A number in the place of a value: where it stands, and the constant to write for it.

Operands are values, so a number among them is a syntax error, or leaves the op without operands.  The constant
that is suggested has the type that is written on the line, or else that of the other operands, of the buffer, or
of an index.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..ops import OPS
from ..program import Buffer, Value
from ..types import UNKNOWN

__all__ = ["LiteralOperand", "literal_operand"]

_LITERAL = r"[+-]?(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|inf\b|nan\b)[fFhuUlL]*|true\b|false\b"
_OPERAND = re.compile(rf"(?<![\w%@.$<])(?P<number>{_LITERAL})(?=\s*(?:[,):{{\]]|//|$))", re.ASCII)
_INDEX = re.compile(rf"@(?P<buffer>[\w.$]+)\[\s*(?P<number>{_LITERAL})\s*\]", re.ASCII)
_CARRIED = re.compile(rf"%[\w.$]+\s*=\s*(?P<number>{_LITERAL})\s*:\s*(?P<type>\w+(?:<[^>]*>)?)", re.ASCII)
_STATEMENT = re.compile(
    r"\s*(?:%[\w.$]+\s*(?:,\s*%[\w.$]+\s*)*=(?!=))?\s*(?P<op>[a-z]\w*)(?:\s*<[^>]*>)?(?P<operands>[^:/{]*)"
    r"(?::\s*(?P<type>[@\w]+(?:<[^>]*>)?))?",
    re.ASCII,
)
_NO_VALUES = frozenset({"const", "spec", "len", "trap", "buffer", "launch", "program", "grid"})
"""What may have numbers, or no operands."""
_CONDITIONS = frozenset({"if", "condition", "subgroup_ballot", "assert"})


class LiteralOperand(NamedTuple):
    """Offsets of the number in the text, the message about it, and what to write."""

    start: int
    end: int
    message: str
    help: str


def literal_operand(
    line: str, offset: int, scope: Mapping[str, Value], buffers: Mapping[str, Buffer]
) -> LiteralOperand | None:
    """The first number among the operands of the op that `line` begins with; None if there is none.

    `offset`: of the line in the text.
    """
    statement = _STATEMENT.match(line)
    if statement is None or statement["op"] in _NO_VALUES:
        return None
    op = statement["op"]
    if op not in OPS and op not in ("if", "while"):
        return None
    start, end = statement.span("operands")
    if index := _INDEX.search(line):
        found, dtype, message = index, "u32", "an index is a value in brackets"
    elif carried := _CARRIED.search(line):
        found, dtype, message = carried, carried["type"], "an iteration argument is %name = %initial : type"
    elif op not in ("extract", "insert", "for") and (
        operand := _OPERAND.search(line, start, end)
    ):  # lanes are numbers
        found, dtype = operand, _type_of(op, statement, line[: operand.start()], scope, buffers)
        message = "the condition of an if is a value" if op == "if" else "an operand is a value"
    else:
        return None
    return _suggestion(line, offset, statement, found, dtype, message, scope)


def _suggestion(
    line: str,
    offset: int,
    statement: re.Match[str],
    found: re.Match[str],
    dtype: str,
    message: str,
    scope: Mapping[str, Value],
) -> LiteralOperand:
    """The message about the number `found` of `statement`, and the constant of type `dtype` for it."""
    start, end = found.span("number")
    number = found["number"]
    value = (
        number
        if number[:2].lower() == "0x"
        else number.rstrip("fFhuUlL")
        if number[0] not in "tfin"
        else number
    )
    is_fraction = any(c in value for c in ".eE") and value[:2].lower() != "0x"
    dtype = dtype or ("f32" if is_fraction else "u32")
    if dtype.endswith(("bool", "bool>")) != (value in ("true", "false")):
        dtype = "bool" if value in ("true", "false") else dtype
    name = next(n for n in ("%c", *(f"%c{k}" for k in range(1, len(scope) + 2))) if n not in scope)
    element = dtype.rpartition(" x ")[2].rstrip(">") or dtype
    if is_fraction and found.re is _INDEX:
        help = f"an index is an integer: {name} = const 0 : u32, then @{found['buffer']}[{name}]"
        return LiteralOperand(offset + start, offset + end, message, help)
    if is_fraction and element[:1] in "iu":
        help = (
            f"{value} is a float: write {name} = const {value} : f32, and cast the other operand from {dtype}"
        )
        return LiteralOperand(offset + start, offset + end, message, help)
    if not is_fraction and "f" in element and value.lstrip("+-").isdigit():
        value = f"{value}.0"
    written = f"{line[:start]}{name}{line[end:]}".partition("//")[0].strip().rstrip(";")
    if statement["op"] == "vector" and not re.search(r"[%@]", statement["operands"]):
        lanes = statement["operands"].strip()
        help = f"a vector of constants is one: const [{lanes}] : {statement['type'] or 'vec<4 x f32>'}"
        return LiteralOperand(offset + start, offset + end, message, help)
    help = f"give the constant a name: {name} = const {value} : {dtype}, then {written}"
    return LiteralOperand(offset + start, offset + end, message, help)


def _type_of(
    op: str, statement: re.Match[str], before: str, scope: Mapping[str, Value], buffers: Mapping[str, Buffer]
) -> str:
    """The type that a number among the operands was meant to have, as text; "" if nothing says so."""
    if op in _CONDITIONS or (op == "select" and "," not in before):
        return "bool"
    if op in ("splat", "vector") and statement["type"]:
        return statement["type"].rpartition(" x ")[2].rstrip(">")
    if statement["type"]:
        return statement["type"]
    operands = statement["operands"]
    names = re.findall(r"(?<!\[)%[\w.$]+", operands)
    types = [scope[name].type for name in names if name in scope and scope[name].type is not UNKNOWN]
    if op == "select":
        types = types[1:]
    buffer = re.search(r"@([\w.$]+)", operands)
    if buffer is not None and buffer[1] in buffers and buffers[buffer[1]].dtype is not UNKNOWN:
        types.insert(0, buffers[buffer[1]].dtype)
    if types:
        return str(types[0])
    return "f32" if op in OPS and OPS[op].types == "float" else ""
