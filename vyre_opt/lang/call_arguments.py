"""The arguments of a call in a kernel, by the names that its function gives them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir.diagnostics import suggest
from .bindings import BufferView, LocalArray
from .python_source import Unsupported

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["array_of", "by_name", "positional", "word_of"]

_WORDS = {
    "sum": "add", "+": "add", "plus": "add", "prod": "mul", "product": "mul", "*": "mul", "multiply": "mul", "minimum": "min", "maximum": "max",
    "any": "or", "all": "and", "|": "or", "&": "and", "^": "xor", "block": "workgroup",
}  # fmt: skip
"""Words of other libraries for what combines lanes, and for scopes."""


def positional(t: Expressions, node: ast.Call, *names: str, optional: int = 0) -> list[ast.expr]:
    """The arguments in the order of `names`, of which the last `optional` may be left out.  Raises Unsupported."""
    given = by_name(t, node, *names, optional=optional)
    return [given[n] for n in names if n in given]


def by_name(t: Expressions, node: ast.Call, *names: str, optional: int = 0) -> dict[str, ast.expr]:
    """The same, those that are there by their names."""
    name = t.source.text(node.func)
    given: dict[str, ast.expr] = {}
    required = len(names) - optional
    signature = f"{name}({', '.join([*names[:required], *(f'{n}=...' for n in names[required:])])})"
    for number, arg in enumerate(node.args):
        if isinstance(arg, ast.Starred):
            raise Unsupported(arg, "a kernel does not unpack with *", "write the arguments")
        if number >= len(names):
            raise Unsupported(arg, "this is one argument too many", f"it is {signature}")
        given[names[number]] = arg
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in names or keyword.arg in given:
            hint = suggest(keyword.arg or "", names) or f"it is {signature}"
            raise Unsupported(keyword, f"{name} takes no {keyword.arg or '**'} here", hint)
        given[keyword.arg] = keyword.value
    missing = [n for n in names[: len(names) - optional] if n not in given]
    if missing:
        raise Unsupported(node, f"{name} needs {', '.join(missing)}", f"it is {signature}")
    return given


def word_of(t: Expressions, node: ast.expr, what: str, choices: Sequence[str]) -> str:
    """A word of an op, one of `choices`."""
    value = t.static(node, what)
    if value not in choices:
        meant = _WORDS.get(str(value).rpartition(".")[2].lower())
        help = (
            f'write "{meant}"'
            if meant in choices
            else suggest(str(value), choices) or f'write "{choices[0]}"'
        )
        raise Unsupported(node, f"{what} is {', '.join(choices)}, not {value!r}", help)
    return str(value)


def array_of(t: Expressions, node: ast.expr, verb: str) -> BufferView:
    binding = t.expression(node)
    if not isinstance(binding, BufferView):
        text = t.source.text(node)
        if isinstance(binding, LocalArray):
            help = f"it is each invocation's own: {text}[i] += v; one that they share is {text} = vyre.shared({binding.dtype}, {len(binding)})"
            raise Unsupported(
                node, f"{text} is a local array, and this is for arrays that invocations share", help
            )
        raise Unsupported(
            node, f"{text} is no array", "name an array argument, or one that vyre.shared(f32, 256) made"
        )
    if binding.lanes > 1:
        raise Unsupported(node, "this takes an array, not one as vectors")
    t.check_access(node, binding, verb)
    return binding
