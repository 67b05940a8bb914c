"""Prints of kernels: `vyre.debug_print("i=%u v=%f", i, v)`, and Python's own `print`, f-strings among its arguments.

    print("row", i, v)             debug_print "row %v %v" %i, %v
    print(f"i={i} v={v:8.3f}")     debug_print "i=%v v=%8.3f" %i, %v

What is known when the kernel is translated is text of the format.  Directives are compared with the types of their
values once all types are resolved.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.ops import OpDef
from ..ir.print_format import MAX_OPERANDS, Directive, FormatError, parse_format, why_not, wrong_count
from ..ir.program import Value
from .bindings import Binding, Static
from .python_source import Unsupported

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["debug_print", "python_print"]

_EXAMPLE = 'write debug_print("i=%u v=%f", i, v)'

_SPECIFICATION = re.compile(
    r"(?P<align>[<>]?)(?P<flags>[-+ ]?#?0?)(?P<size>\d*(?:\.\d+)?)(?P<letter>[dxXfeg]?)", re.ASCII
)
"""Format specifications of Python that directives have, too."""

_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}

Part = str | tuple[str, Value, ast.expr]
"""Text that is printed as it is, or a directive, its value, and where that is written."""


def debug_print(t: Expressions, node: ast.Call, row: OpDef) -> Binding:
    """`debug_print(format, *values)`.  Raises Unsupported."""
    if node.keywords or not node.args:
        raise Unsupported(node, "debug_print takes a format and its values", _EXAMPLE)
    first, *arguments = node.args
    format = t.static(first, "the format of a debug_print")
    if not isinstance(format, str):
        raise Unsupported(first, f"a format is a text, not {format!r}", _EXAMPLE)
    directives = _directives(format, first)
    if len(directives) != len(arguments):
        raise Unsupported(node, wrong_count(len(directives), len(arguments)), _EXAMPLE)
    values = [t.value(argument) for argument in arguments]
    _write(t, node, format, list(zip(directives, values, arguments, strict=True)))
    return Static(None)


def python_print(t: Expressions, node: ast.Call) -> Binding:
    """`print(*values, sep=" ")`.  Raises Unsupported."""
    separator = " "
    for keyword in node.keywords:
        if keyword.arg != "sep":
            raise Unsupported(
                keyword,
                f"print takes no {keyword.arg or '**'} in a kernel",
                "leave it out: each print is a line",
            )
        separator = str(t.static(keyword.value, "a separator"))
    parts: list[Part] = []
    for number, argument in enumerate(node.args):
        parts += [separator] * (number > 0)
        parts += _parts(t, argument) if isinstance(argument, ast.JoinedStr) else [_part(t, argument)]
    format = "".join(part.replace("%", "%%") if isinstance(part, str) else part[0] for part in parts)
    operands = [part for part in parts if not isinstance(part, str)]
    directives = zip(_directives(format, node), operands, strict=True)
    # the last break of a format is the one that each line has anyway
    format += "\n" * format.endswith("\n")
    _write(t, node, format, [(directive, value, at) for directive, (_, value, at) in directives])
    return Static(None)


def _directives(format: str, node: ast.expr) -> list[Directive]:
    try:
        return [part for part in parse_format(format) if isinstance(part, Directive)]
    except FormatError as error:
        raise Unsupported(node, str(error), error.help) from None


def _write(
    t: Expressions, node: ast.Call, format: str, operands: Sequence[tuple[Directive, Value, ast.expr]]
) -> None:
    """The op, and a check of its directives for when types are resolved."""
    if len(operands) > MAX_OPERANDS:
        raise Unsupported(
            node, f"a print has {MAX_OPERANDS} values at most, not {len(operands)}", "print in several lines"
        )
    t.emitter.op("debug_print", [value for _, value, _ in operands], attrs={"format": format})

    def check() -> None:
        for directive, value, at in operands:
            problem = why_not(directive, value.type)
            if problem is not None:
                message, help = problem
                raise Unsupported(at, f"{message}, and {ast.unparse(at)} is {value.type}", help)

    t.emitter.checks.append(check)


# --- the arguments of print


def _part(t: Expressions, node: ast.expr) -> Part:
    binding = t.expression(node)
    return str(binding.value) if isinstance(binding, Static) else ("%v", t.as_value(binding, node), node)


def _parts(t: Expressions, node: ast.JoinedStr) -> list[Part]:
    """Parts of an f-string."""
    return [
        _formatted(t, piece) if isinstance(piece, ast.FormattedValue) else _part(t, piece)
        for piece in node.values
    ]


def _formatted(t: Expressions, node: ast.FormattedValue) -> Part:
    """`{value:specification}`."""
    specification = ""
    if isinstance(node.format_spec, ast.JoinedStr):
        texts = _parts(t, node.format_spec)
        if not all(isinstance(text, str) for text in texts):
            raise Unsupported(node.value, "a width is known when the kernel is translated", "write a number")
        specification = "".join(map(str, texts))
    binding = t.expression(node.value)
    if not isinstance(binding, Static):
        return _directive(node, specification), t.as_value(binding, node.value), node.value
    convert = _CONVERSIONS.get(node.conversion)
    try:
        return format(convert(binding.value) if convert else binding.value, specification)
    except (TypeError, ValueError) as error:
        raise Unsupported(node.value, f"{ast.unparse(node.value)}: {error}") from None


def _directive(node: ast.FormattedValue, specification: str) -> str:
    """The directive of a format specification; without a letter it may have a width only."""
    match = _SPECIFICATION.fullmatch(specification)
    text = ast.unparse(node.value)
    if match is None:
        help = f"write a width, a precision and d, x, f, e or g: {{{text}:8.3f}}"
        raise Unsupported(node.value, f"a kernel has no format {specification}", help)
    letter = match["letter"]
    if not letter and (match["flags"] or "." in match["size"]):
        help = f"write {{{text}:{specification}f}} for a float, {{{text}:{match['flags']}4d}} for an integer"
        raise Unsupported(node.value, f"the format {specification} has no letter", help)
    return f"%{'-' * (match['align'] == '<')}{match['flags']}{match['size']}{letter or 'v'}"
