"""Short forms of ops as one regular expression, made from the op table.

The example of a format (see formats.py) is its commonest text, so the pattern is made from the examples:

    {name} %a, %b : {type}            ->   operands : type
    {name} %a, @b[%i] : {type}        ->   operands , symbol indices : type

Beginnings that several formats share are matched once, as in a trie, and the last group of a match tells what it is.
The pattern is narrower than the grammar: an op stands on one line, and a comma and a space between operands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from functools import cache
from itertools import count

from ...ir.formats import FORMATS
from ...ir.ops import OPS, OpDef
from ...records import dataclass
from ..op_syntax import SYNTAX, OpSyntax

__all__ = ["NAME", "RESULT", "UNNAMED", "ShortForm", "ShortForms", "is_simple", "short_forms"]

RESULT, NAME, UNNAMED = 1, 2, 3
"""Groups of the pattern: `%r`, the name of an op behind `%r =`, and that of an op without a result."""

_HEAD = re.compile(r"(?:%r = )?\w+")
_PART = re.compile(
    r"""\[(?P<indices>%\w+(?:,[ ]%\w+)*)\]
      | \[(?P<lane>\d+)\]
      | (?P<operands>%\w+(?:,[ ]%\w+)*)
      | @(?P<symbol>\w+)
      | (?<=:[ ])(?P<type>\w+(?:<[^>]+>)?)
      | (?<=->[ ])(?P<target>\w+(?:<[^>]+>)?)
      | <(?P<words>[^>]+)>
      | (?P<literal>\d+)
      | (?P<word>\w+)
      | (?P<sign>:|,|->)
    """,
    re.ASCII | re.VERBOSE,
)
"""A part of an example."""

_SPACE = r"[ \t]*+"
_OPERAND = r"(?:%[\w.$]++|[-+]?(?:\d[-+.\w]*+|(?:inf|nan)\b)|(?:true|false)\b)"
_OPERANDS = rf"{_OPERAND}(?:, {_OPERAND})*+"
_TYPE = r"([A-Za-z_]\w*+(?:<[\w, ?]++>)?+)"
_SYNTAX = {
    "indices": rf"(\[{_OPERANDS}\])",
    "lane": r"(\[\d++\])",
    "operands": f"({_OPERANDS})",
    "values": f"({_OPERANDS})",
    "fastmath": rf"(?:fastmath{_SPACE}<([\w, ]++)>)?+",
    "symbol": r"@([\w.$]++)",
    "type": _TYPE,
    "target": _TYPE,
    "words": r"<([\w, ]++)>",
    "literal": r"([-+.\w]++)",
    "word": r"([A-Za-z_]\w*+)",
}
_LAST = ("type", "target", "word", "symbol", "fastmath", "indices", "values", "lane")
"""The parts that an op may end in: where these end needs no look at what follows."""
_FIRST = ("literal", "operands")
"""Parts to try first: the literal by which a `const` is known, then the operands that most ops have."""
_SKIPPED = r"(?:\s++|//[^\n]*+)*+"  # SPACE and COMMENT of the grammar


@dataclass(slots=True)
class ShortForm:
    """The groups of the pattern that hold the parts of an op; 0 for a part that it does not have.

    `operands`: those before the buffer, or all where there is none; `values`: those behind the buffer's indices.
    """

    words: int = 0
    word: int = 0
    operands: int = 0
    fastmath: int = 0
    symbol: int = 0
    indices: int = 0
    values: int = 0
    lane: int = 0
    literal: int = 0
    type: int = 0
    target: int = 0


@dataclass(slots=True)
class ShortForms:
    """`pattern` matches an op and what is skipped behind it, or else the empty text with no group.

    `by_last_group`: the form of a match by its `lastindex`.  `elementwise`: that of `%r = add %a, %b : u32`.
    """

    pattern: re.Pattern[str]
    by_last_group: dict[int, ShortForm]
    elementwise: ShortForm


@dataclass(slots=True)
class _TrieNode:
    """A place in an op: the parts that may come next; `is_end`: there may be none."""

    next: dict[str, _TrieNode] = field(default_factory=dict)
    is_end: bool = False


def is_simple(row: OpDef) -> bool:
    """Whether the format of an op reads it; those with blocks, say, have rules of their own in the grammar."""
    return not SYNTAX[row.format].has_own_rule


@cache
def short_forms() -> ShortForms:
    """Short forms of all formats.  They take milliseconds to make, in which the tables read some hundred ops."""
    unnamed = "|".join(row.name for row in OPS.values() if is_simple(row) and _may_be_unnamed(row))
    forms: dict[int, ShortForm] = {}
    tail = _tail(_trie(), {}, count(UNNAMED + 1), forms)
    forms[UNNAMED] = forms[NAME]
    elementwise = next(form for form in forms.values() if _kinds(form) == {"operands", "fastmath", "type"})
    head = rf"(?:(%[\w.$]++){_SPACE}={_SPACE}([A-Za-z_]\w*+)|({unnamed})(?![\w.]))"
    return ShortForms(re.compile(f"{head}{tail}{_SKIPPED}|", re.ASCII), forms, elementwise)


def _kinds(form: ShortForm) -> set[str]:
    return {kind for kind in ShortForm.__slots__ if getattr(form, kind)}


def _may_be_unnamed(row: OpDef) -> bool:
    return FORMATS[row.format].results == 0 or not SYNTAX[row.format].needs_names


def _trie() -> _TrieNode:
    root = _TrieNode()
    for format in SYNTAX.values():
        parts = None if format.has_own_rule else _parts(format)
        if parts is not None:
            node = root
            for index, part in enumerate(parts):
                # a type may be left out
                node.is_end |= part == ":" and parts[index - 1] in _LAST
                node = node.next.setdefault(part, _TrieNode())
            node.is_end = True
    return root


def _parts(format: OpSyntax) -> list[str] | None:
    """Text behind the name in the example of a format, signs as they are; None if its end cannot be told."""
    parts: list[str] = []
    for match in _PART.finditer(_HEAD.sub("", format.example.format(name="name", type="u32"), count=1)):
        kind = str(match.lastgroup)
        if kind == "operands" and "symbol" in parts:
            parts.append("values")
            continue
        parts.append(match[kind] if kind == "sign" else kind)
        if kind == "operands":
            parts.append("fastmath")  # which ops of any format may have in a text, wrongly
    return None if parts and parts[-1] not in _LAST else parts


def _tail(
    node: _TrieNode, groups: dict[str, int], numbers: Iterator[int], forms: dict[int, ShortForm]
) -> str:
    """The regular expression of what follows the parts that `groups` has.  Enters the forms that end in it in `forms`."""
    alternatives = []
    for part, following in sorted(node.next.items(), key=lambda item: item[0] not in _FIRST):
        known = groups if part not in _SYNTAX else {**groups, part: next(numbers)}
        alternatives.append(_SYNTAX.get(part, part) + _tail(following, known, numbers, forms))
    if node.is_end:
        forms[max((n for part, n in groups.items() if part != "fastmath"), default=NAME)] = ShortForm(
            **groups
        )
        alternatives.append("")
    return "" if not node.next else f"{_SPACE}(?:{'|'.join(alternatives)})"
