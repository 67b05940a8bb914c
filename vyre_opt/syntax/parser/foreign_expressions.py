"""Expressions of other languages, written out in as many ops as they take.

%a * %v + 1.0             %t = mul %a, %v : f32, then %r = add %t, 1.0 : f32
x[i] > 0 && !done         %t = load @x[%i] : f32, then %t_1 = gt %t, 0.0 : f32, then %t_2 = not %done : bool, then %p = and %t_1, %t_2 : bool
"""

from __future__ import annotations

import ast
import re
from collections import ChainMap
from collections.abc import Mapping, Sequence

from ...ir.ops import OPS
from ...ir.program import Buffer, Value
from ...ir.types import UNKNOWN, DataType
from .rewritten_lines import fresh

__all__ = ["MOST_READ", "SIGN", "written_out"]

MOST_READ = 400
"""Characters of an expression that is written out, at most."""
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Mod: "rem", ast.Pow: "pow", ast.LShift: "shl",
    ast.RShift: "shr", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.And: "and", ast.Or: "or", ast.Eq: "eq",
    ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.USub: "neg", ast.Not: "not", ast.Invert: "not",
}  # fmt: skip
SIGN = re.compile(r">>>|<<|>>|&&|\|\||===|[=!<>]=|\*\*|[-+*/&|^<>!~]|%(?=\s)|\b(?:and|or|not)\b", re.ASCII)
"""An operator."""
_NAME = re.compile(r"[%@][\w$][\w.$]*", re.ASCII)
_OF_C = (("&&", " and "), ("||", " or "), ("===", "=="), (">>>", ">>"))
_FORMATS = {"unary": 1, "binary": 2, "ternary": 3}
"""Formats of ops that are written like functions elsewhere, with the number of their operands."""


def written_out(
    text: str, target: str, scope: Mapping[str, Value], buffers: Mapping[str, Buffer], version: int
) -> list[str] | None:
    """The lines that compute an expression, of which the last gives `target`, or %p or %r for ""; None for what is no expression
    with an operator.  `version`: of the text's format; the first has no constants in place."""
    if len(text) > MOST_READ:
        return None
    writer = _Writer(scope, buffers, version)
    names: list[str] = []

    def hidden(name: re.Match[str]) -> str:
        names.append(name[0])
        return f" _{len(names) - 1}_ "

    plain = _NAME.sub(hidden, text)
    for sign, word in _OF_C:
        plain = plain.replace(sign, word)
    plain = re.sub(r"!(?!=)", " not ", re.sub(r"(?<![\w.])(\d[\d.]*(?:e-?\d+)?)[fFuUlL]+\b", r"\1", plain))
    try:
        tree = ast.parse(plain.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None
    writer.names = names
    if not any(
        isinstance(node, (ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp)) for node in ast.walk(tree)
    ):
        return None
    is_flag = isinstance(tree, (ast.BoolOp, ast.Compare)) or isinstance(getattr(tree, "op", None), ast.Not)
    try:
        target = target or fresh("%p" if is_flag else "%r", scope)
        writer.taken[target] = None
        writer.value(tree, target)
    except _NoExpressionError:
        return None
    return writer.lines


def _literal(number: str, dtype: str) -> str:
    """A number as a constant of a type is written: with a point for floats."""
    is_float = dtype.partition("f")[2].isdigit()
    return f"{number}.0" if is_float and number.lstrip("+-").isdigit() else number


class _NoExpressionError(Exception):
    pass


class _Writer:
    """`lines`: ops so far.  `names`: those of values and buffers, in the order of the text."""

    def __init__(self, scope: Mapping[str, Value], buffers: Mapping[str, Buffer], version: int) -> None:
        self.scope, self.buffers, self.version = scope, buffers, version
        self.lines: list[str] = []
        self.names: list[str] = []
        self.taken = ChainMap[str, object]({}, scope)  # type: ignore[arg-type]

    def value(self, node: ast.expr, target: str = "") -> tuple[str, str | None]:
        """The name of a value or a number, and its type where one is known."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            return str(node.value).lower(), "bool" if isinstance(node.value, bool) else None
        if isinstance(node, ast.Name):
            name = self.name(node)
            if name.startswith("@") or name[1:] in self.buffers:
                raise _NoExpressionError
            dtype = self.scope[name].type if name in self.scope else UNKNOWN
            return name, None if dtype is UNKNOWN else str(dtype)
        if (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.operand, ast.Constant)
            and isinstance(node.op, ast.USub)
        ):
            return f"-{self.value(node.operand)[0]}", None
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            return self.element(self.name(node.value)[1:], node.slice, target)
        if isinstance(node, (ast.BoolOp, ast.Compare)):
            return self.flags(node, target)
        if isinstance(node, ast.BinOp):
            return self.op(_OPERATORS.get(type(node.op)), [node.left, node.right], target)
        if isinstance(node, ast.UnaryOp):
            return self.op(_OPERATORS.get(type(node.op)), [node.operand], target)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self.call(node.func.id, node.args, target)
        raise _NoExpressionError

    def name(self, node: ast.Name) -> str:
        """The name of a value or a buffer; `i` of another language would be `%i`."""
        hidden = re.fullmatch(r"_(\d+)_", node.id)
        return self.names[int(hidden[1])] if hidden else f"%{node.id}"

    def element(self, buffer: str, index: ast.expr, target: str) -> tuple[str, str | None]:
        if buffer not in self.buffers:
            raise _NoExpressionError
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        indices = ", ".join(self.constant(*self.value(part), "u32") for part in parts)
        dtype = str(self.buffers[buffer].dtype)
        return self.line(target, f"load @{buffer}[{indices}] : {dtype}"), dtype

    def flags(self, node: ast.BoolOp | ast.Compare, target: str) -> tuple[str, str | None]:
        """Comparisons and what combines them, two by two."""
        if isinstance(node, ast.BoolOp):
            pairs: Sequence[ast.expr] = node.values
            word = _OPERATORS[type(node.op)]
        else:
            operands, word = [node.left, *node.comparators], "and"
            if len(node.ops) == 1:
                name = _OPERATORS.get(type(node.ops[0]))
                return self.op(name, operands, target)[0], "bool"
            ends = zip(operands, node.ops, operands[1:], strict=False)
            pairs = [ast.Compare(low, [sign], [high]) for low, sign, high in ends]
        flag, _ = self.value(pairs[0])
        for number, each in enumerate(pairs[1:], start=2):
            other = self.value(each)[0]
            flag = self.line(target if number == len(pairs) else "", f"{word} {flag}, {other} : bool")
        return flag, "bool"

    def call(self, name: str, arguments: Sequence[ast.expr], target: str) -> tuple[str, str | None]:
        """`f32(%i)`, `max(%a, 0.0)`."""
        if name in DataType.all_names() and len(arguments) == 1:
            operand, dtype = self.value(arguments[0])
            return self.line(target, f"cast {operand} : {dtype or 'u32'} -> {name}"), name
        if name not in OPS or len(arguments) != _FORMATS.get(OPS[name].format):
            raise _NoExpressionError
        return self.op(name, arguments, target)

    def op(self, name: str | None, operands: Sequence[ast.expr], target: str) -> tuple[str, str | None]:
        if name is None:
            raise _NoExpressionError
        values = [self.value(operand) for operand in operands]
        is_float = any("." in text and not text.startswith("%") for text, _ in values)
        dtype = next((dtype for _, dtype in values if dtype), "f32" if is_float else "u32")
        texts = ", ".join(self.constant(*value, dtype) for value in values)
        return self.line(target, f"{name} {texts} : {dtype}"), dtype

    def constant(self, text: str, own: str | None, dtype: str) -> str:
        """An operand, a number as a constant of the type of the others."""
        if text.startswith("%"):
            return text
        number = _literal(text, own or dtype)
        return number if self.version > 1 else self.line("", f"const {number} : {own or dtype}", "%c")

    def line(self, target: str, op: str, kind: str = "%t") -> str:
        name = target or fresh(kind, self.taken)
        self.taken[name] = None
        self.lines.append(f"{name} = {op}")
        return name
