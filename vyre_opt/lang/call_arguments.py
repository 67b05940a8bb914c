"""The arguments of a call in a kernel, by the names that its function gives them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..ir.program import AccessMode
from ..ir.suggestions import suggest
from .axis_numbers import axis_call
from .bindings import BufferView, LocalArray
from .foreign_words import type_meant
from .python_source import Unsupported
from .remedies import corrected, place_of

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["KEYWORDS", "array_of", "by_name", "into", "positional", "word_of"]

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
            help = into(t, node, arg) or f"write {_without(t, node, node.args[len(names) :])}"
            raise Unsupported(arg, "this is one argument too many", f"{help}; it is {signature}")
        given[names[number]] = arg
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in names or keyword.arg in given:
            hint = _keyword_help(t, node, keyword, names, given) or f"it is {signature}"
            raise Unsupported(keyword, f"{name} takes no {keyword.arg or '**'} here", hint)
        given[keyword.arg] = keyword.value
    missing = [n for n in names[: len(names) - optional] if n not in given]
    if missing:
        help = f"it is {signature}"
        if (
            node.args
            and not node.keywords
            and len(node.args) + len(missing) == required
            and all(n in _USUAL for n in missing)
        ):
            written = [*map(t.source.text, node.args), *(_USUAL[n] for n in missing)]
            help = f"write {name}({', '.join(written)}); {help}"
        raise Unsupported(node, f"{name} needs {', '.join(missing)}", help)
    return given


_USUAL = {
    "dtype": "f32",
    "lanes": "4",
    "index": "0",
    "value": "1",
    "lane": "0",
    "size": "256",
    "columns": "16",
}
"""Arguments that a remedy takes for those that a call has forgotten."""
KEYWORDS = {
    "dim": "axis",
    "axes": "axis",
    "keepdim": "keepdims",
    "keep_dims": "keepdims",
    "type": "dtype",
    "fill_value": "value",
    "val": "value",
    "shape": "size",
}
"""Names that other libraries have for the arguments of functions."""


def _keyword_help(
    t: Expressions, node: ast.Call, keyword: ast.keyword, names: Sequence[str], given: dict[str, ast.expr]
) -> str | None:
    """The call with what a wrong keyword means: another name, a conversion, an array for the result; or without it."""
    word = keyword.arg or ""
    if word == "out":
        return into(t, node, keyword)
    if word == "keepdims" and (better := axis_call(t.source, node)) is not None:
        return f"write {better}"
    taken = {k.arg for k in node.keywords} | given.keys()
    meant = [KEYWORDS[k.arg] if k.arg in KEYWORDS and k.arg not in names else k.arg for k in node.keywords]
    if word not in meant and all(each in names for each in meant):
        changes: dict[ast.AST, str] = {
            k: f"{m}={t.source.text(k.value)}" for k, m in zip(node.keywords, meant, strict=True)
        }
        return f"write {corrected(t.source, changes, within=node)}"
    close = suggest(word, [n for n in names if n not in taken])
    if close:
        return close
    if word == "dtype" and node.args and (dtype := type_meant(t.static(keyword.value, "a type"))):
        first: dict[ast.AST, str] = {node.args[0]: f"{dtype}({t.source.text(node.args[0])})"}
        return f"write {_without(t, node, [keyword], first)}"
    return f"leave it out: write {_without(t, node, [keyword])}" if word else None


def _without(
    t: Expressions, node: ast.Call, left_out: Sequence[ast.AST], changes: Mapping[ast.AST, str] | None = None
) -> str:
    """A call without some of its arguments."""
    parts = [part for part in (*node.args, *node.keywords) if part not in left_out]
    written = [(changes or {}).get(part) or t.source.text(part) for part in parts]
    return f"{t.source.text(node.func)}({', '.join(written)})"


def into(t: Expressions, node: ast.Call, argument: ast.expr | ast.keyword) -> str | None:
    """A call with an array for its result, as an assignment to elements of that; None for an argument that is no array."""
    target = argument.value if isinstance(argument, ast.keyword) else argument
    root = target.value if isinstance(target, ast.Subscript) else target
    view = t.env.get(root.id) if isinstance(root, ast.Name) else None
    if not isinstance(view, BufferView) or view.buffer.access is AccessMode.READ:
        return None
    plain = ast.copy_location(
        ast.Call(
            node.func,
            [a for a in node.args if a is not argument],
            [k for k in node.keywords if k is not argument],
        ),
        node,
    )
    place = t.source.text(target) if isinstance(target, ast.Subscript) else place_of(t, view, plain)
    return f"write {place} = {_without(t, node, [argument])}"


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
