r"""Expressions whose matches are within lines, as grep has them: trees of `re` without what a line break is.

    [^a]      [^a\n]
    \s        [\t\v\f\r ]
    ^ \A      (?m:^)
    $ \Z      (?m:$)

So a text is searched as a whole, and what is known of an expression (see rule_facts) says that a line break ends all matches.
"""

from __future__ import annotations

import re
import re._compiler as _compiler
import re._constants as sre
from typing import Any

from .rule_facts import members_of
from .rule_syntax import tree_of

__all__ = ["compiled_tree", "within_lines"]

_NEWLINE = ord("\n")
_AROUND = {"word": (rb"(?<!\w)", rb"(?!\w)"), "whole": (rb"(?m:^)", rb"(?m:$)")}
_ANCHORS = {
    sre.AT_BEGINNING: sre.AT_BEGINNING_LINE,
    sre.AT_BEGINNING_STRING: sre.AT_BEGINNING_LINE,
    sre.AT_END: sre.AT_END_LINE,
    sre.AT_END_STRING: sre.AT_END_LINE,
}


def compiled_tree(tree: Any) -> re.Pattern[bytes]:
    # by the same steps as re.compile, which takes a tree and has no word of it in its types
    pattern: re.Pattern[bytes] = _compiler.compile(tree, tree.state.flags)
    return pattern


def within_lines(tree: Any, bounds: str) -> Any:
    """Change the tree of an expression so that its matches are within `bounds` (see pattern_list)."""
    _change(tree, tree.state.flags)
    if bounds != "line":
        before, after = (tree_of(part, 0)[0] for part in _AROUND[bounds])
        inner = tree[:]  # a tree of its own
        tree.data[:] = [before, (sre.SUBPATTERN, (None, 0, 0, inner)), after]
        tree.width = None
    return tree


def _change(nodes: Any, flags: int) -> None:
    for place, (kind, value) in enumerate(nodes):
        if kind is sre.AT:
            nodes[place] = sre.AT, _ANCHORS.get(value, value)
        elif kind is sre.SUBPATTERN:
            _change(value[3], (flags | value[1]) & ~value[2])
        elif kind is sre.BRANCH:
            for option in value[1]:
                _change(option, flags)
        elif kind is sre.GROUPREF_EXISTS:
            for option in filter(None, value[1:]):
                _change(option, flags)
        elif kind in (sre.ASSERT, sre.ASSERT_NOT):
            _change(value[1], flags)
        elif kind is sre.ATOMIC_GROUP:
            _change(value, flags)
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            _change(value[2], flags)
        elif kind in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            members = members_of(kind, value, flags)
            if members >> _NEWLINE & 1:
                nodes[place] = _class_of(members & ~(1 << _NEWLINE))


def _class_of(members: int) -> tuple[Any, Any]:
    """The node of a set of bytes."""
    if not members:
        return sre.ASSERT_NOT, (1, [])  # which never matches
    return sre.IN, [(sre.LITERAL, byte) for byte in range(256) if members >> byte & 1]
