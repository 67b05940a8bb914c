"""Texts read by Lark alone: its lexer, its parser and its tree, and then the actions of the grammar.

The parse loop, and the fast path before it, read the same grammar by tables; this is what they are held to.  It takes some
twenty times as long, and reports the first syntax error only, in Lark's terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from ...ir.diagnostics import Diagnostic
from . import tables

if TYPE_CHECKING:
    from lark import Lark

    from .recovery import RecoveringActions

__all__ = ["read_by_lark"]


def read_by_lark(actions: RecoveringActions) -> None:
    """Call the actions for what their source has, if all of it is of the language."""
    from lark import UnexpectedInput

    try:
        tree = _lark().parse(actions.source.text)
    except UnexpectedInput as error:
        _report(actions, error)
        actions.aborted([])
        return
    _call(tree, actions)


def _call(tree: Any, actions: RecoveringActions) -> None:
    """Call the actions in the order in which the parse loop does: of the parts from left to right, then of the whole."""
    frames: list[tuple[Any, Iterator[Any], list[Any]]] = [(tree, iter(tree.children), [])]
    end = 0
    while frames:
        node, children, values = frames[-1]
        for child in children:
            if hasattr(child, "children"):
                frames.append((child, iter(getattr(child, "items", child.children)), []))
                break
            values.append(None if child is None else str(child))
        else:
            frames.pop()
            start, end = (end, end) if node.meta.empty else (node.meta.start_pos, node.meta.end_pos)
            is_list = hasattr(node, "items")
            value = values if is_list else getattr(actions, node.data)(start, end, *values)
            if frames:
                frames[-1][2].append(value)


def _report(actions: RecoveringActions, error: Any) -> Diagnostic:
    size = len(actions.source.text)
    start = size if error.pos_in_stream is None or error.pos_in_stream < 0 else error.pos_in_stream
    token = str(getattr(error, "token", "") or actions.source.text[start : start + 1])
    expected = sorted(
        getattr(error, "accepts", None) or getattr(error, "expected", None) or error.allowed or ()
    )
    shown = f"unexpected {token[:40]}" if token else "unexpected end of the text"
    return actions.error(
        shown, start, max(start + len(token), start + 1), f"Lark expects {', '.join(expected)}"
    )


@cache
def _lark() -> Lark:
    from lark import Lark, Tree

    class Part(Tree[Any]):
        """A tree, of which a repetition is one child of its parent: a list, as the actions take it."""

        def __init__(self, data: str, children: list[Any], meta: Any = None) -> None:
            if data.startswith("__"):
                first = children[0] if children else None
                self.items: list[Any] = children
                if isinstance(first, Part) and first.data == data:
                    self.items = first.items
                    self.items += children[1:]
                children = [self]
            super().__init__(data, children, meta)

    return Lark(
        tables.grammar_text(),
        parser="lalr",
        lexer="basic",
        maybe_placeholders=True,
        propagate_positions=True,
        g_regex_flags=tables.FLAGS,
        tree_class=Part,
    )
