"""Loads and stores at pointers with masks, as Triton has them, as blocks of an array.

offs = pid * 64 + tl.arange(0, 64)
v = tl.load(x + offs, mask=offs < n, other=0.0)      v = x.filled(0.0)[pid * 64 : pid * 64 + 64]
tl.store(y + offs, v, mask=offs < n)                 y[pid * 64 : pid * 64 + 64] = v
tl.load(x + i)                                       x[i]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from .bindings import BufferView
from .foreign_words import dotted_name
from .remedies import rank_of

__all__ = ["is_pointer_call", "of_pointer"]


def is_pointer_call(node: ast.AST) -> bool:
    """Whether an expression is a load or a store of another language."""
    return isinstance(node, ast.Call) and dotted_name(node.func).rpartition(".")[2] in ("load", "store")


def of_pointer(t: Any, node: ast.Call) -> str | None:
    """A load or a store at `x + offs` written with an index; None for one whose elements are not seen."""
    terms = [*_terms(node.args[0])] if node.args else []
    views = [term for term in terms if isinstance(_view(t, term), BufferView)]
    view = _view(t, views[0]) if len(views) == 1 else None
    is_store = dotted_name(node.func).endswith("store")
    if view is None or view.buffer.dimensions != 1 or len(node.args) != 1 + is_store:
        return None
    keywords = {k.arg: t.source.text(k.value) for k in node.keywords}
    array, index = t.source.text(views[0]), [term for term in terms if term is not views[0]]
    block = _block(t, index)
    if not index:
        return None
    if block is None:
        text = " + ".join(map(t.source.text, index))
        if "mask" not in keywords and (len(index) != 1 or rank_of(t, index[0]) == 0):
            place = f"{array}[{text}]"
        elif is_store or len(index) != 1:
            return None
        else:
            mask, other = keywords.get("mask", ""), keywords.get("other", "0")
            return (
                f"vyre.where({mask}, {array}[vyre.where({mask}, {text}, 0)], {other})"
                if mask
                else f"{array}[{text}]"
            )
    else:
        fill = f".filled({keywords.get('other', '0')})" if "mask" in keywords and not is_store else ""
        place = f"{array}{fill}[{block}]"
    return f"{place} = {t.source.text(node.args[1])}" if is_store else place


def _view(t: Any, node: ast.expr) -> BufferView | None:
    view = t.env.get(node.id) if isinstance(node, ast.Name) else None
    return view if isinstance(view, BufferView) else None


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """Terms of a sum."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _block(t: Any, index: list[ast.expr]) -> str | None:
    """`pid * 64 : pid * 64 + 64` for the terms `pid * 64` and `arange(64)`, or a name of their sum."""
    terms: list[ast.expr] = []
    for term in index:
        assigned = t.source.assignments.get(term.id, []) if isinstance(term, ast.Name) else []
        terms += _terms(assigned[0].value) if len(assigned) == 1 else [term]
    ranges = [
        term for term in terms if isinstance(term, ast.Call) and dotted_name(term.func).endswith("arange")
    ]
    rest = [t.source.text(term) for term in terms if term not in ranges]
    if len(ranges) != 1 or any(rank_of(t, term) not in (0, None) for term in terms if term not in ranges):
        return None
    (call,) = ranges
    if len(call.args) == 2 and t.source.text(call.args[0]) != "0":
        return None
    count, begin = t.source.text(call.args[-1]), " + ".join(rest)
    return f"{begin} : {begin} + {count}" if begin else f"0 : {count}"
