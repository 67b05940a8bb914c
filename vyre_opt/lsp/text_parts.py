"""A text in parts that can be parsed each alone: its items, and the statements of an item's body.

The parts are found by a glance at the starts of lines and at braces, so a text that is being typed has parts too.
Where that is not enough, as where braces do not match, a part is not divided further.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from ..ir.ops import OPS

__all__ = ["ItemParts", "Span", "body_of", "items_of"]

_ITEM = re.compile(r"^[ \t]*(program|func|pipeline)\b", re.ASCII | re.MULTILINE)
_RESULTS = r"%[\w.$]++(?:[ \t]*+,[ \t]*+%[\w.$]++){0,63}+\s*+="
_SIGN = re.compile(
    rf"""//[^\n]*+ | "(?:[^"\\\n]|\\.)*+" | (?P<brace>[{{}}])
       | ^[ \t]*+(?:(?P<results>{_RESULTS}) | (?P<word>[A-Za-z_][\w.]*+) | (?P<string>"(?:[^"\\\n]|\\.)*+"))""",
    re.ASCII | re.MULTILINE | re.VERBOSE,
)
_LAST_BRACE = re.compile(r"^\}(?=(?:\s|//[^\n]*)*\Z)", re.ASCII | re.MULTILINE)
_STATEMENTS = frozenset(OPS) | {"for", "while", "if", "region", "call", "trap", "assert"}
_DECLARATIONS = ("buffer", "spec", "param")


class Span(NamedTuple):
    """A part of a text by the offsets of its start and its end."""

    start: int
    end: int


class ItemParts(NamedTuple):
    """The parts of an item: its head and declarations, its statements, and from its closing brace on the rest.

    Offsets are in the text of the item.
    """

    head: Span
    statements: list[Span]
    tail: Span


def items_of(text: str) -> tuple[Span, list[Span]]:
    """What stands before the first item of a text, and its items.

    An item begins with its keyword at the start of a line, and goes on to the next one.
    """
    starts = [match.start() for match in _ITEM.finditer(text)]
    bounds = [*starts, len(text)]
    return Span(0, bounds[0]), [Span(*pair) for pair in pairwise(bounds)]


def body_of(item: str) -> ItemParts | None:
    """The parts of a program or a func; None where they cannot be told apart.

    A statement begins at the start of a line, outside of inner braces, by what it defines or by the name of an op.  Where
    a brace is missing, all lines are outside that are indented as the first statement is.
    """
    return _by_braces(item) or _by_indentation(item)


def _by_braces(item: str) -> ItemParts | None:
    """None where braces do not match, something follows the item, or declarations are among the statements."""
    depth, opened, closed = 0, 0, -1
    starts: list[int] = []
    for match in _SIGN.finditer(item):
        if brace := match["brace"]:
            depth += 1 if brace == "{" else -1
            if brace == "{" and depth == 1 and not opened:
                opened = match.end()
            if depth < 0:
                return None
            if depth == 0:
                closed = match.start()
                break
        elif depth == 1 and match.lastgroup is not None:
            word = match["word"]
            if word in _DECLARATIONS:
                if starts:
                    return None  # whether it is one too late is a matter of the statements before it
                continue
            is_op = word in _STATEMENTS or match["string"] is not None
            if match["results"] or (is_op and not _awaits_op(item[(starts or [opened])[-1] : match.start()])):
                starts.append(match.start())
    if closed < 0 or _is_code(item[closed + 1 :]):
        return None
    return _body(item, starts, closed)


def _body(item: str, starts: list[int], closed: int) -> ItemParts:
    bounds = [*starts, closed]
    return ItemParts(Span(0, bounds[0]), [Span(*pair) for pair in pairwise(bounds)], Span(closed, len(item)))


def _by_indentation(item: str) -> ItemParts | None:
    """None where no brace is missing, or the last line does not close the item."""
    last = _LAST_BRACE.search(item)
    signs = [match["brace"] for match in _SIGN.finditer(item) if match["brace"]]
    if last is None or signs.count("{") <= signs.count("}"):
        return None
    starts: list[int] = []
    indentation = ""
    for match in _SIGN.finditer(item, item.find("{") + 1, last.start()):
        written = match[0][: len(match[0]) - len(match[0].lstrip())]
        if starts and (written != indentation or match["brace"]):
            continue
        if match["word"] in _DECLARATIONS:
            if starts:
                return None
        elif match["results"] or match["string"] or match["word"] in _STATEMENTS:
            starts.append(match.start())
            indentation = written
    return _body(item, starts, last.start())


def _awaits_op(statement: str) -> bool:
    """Whether a statement ends with the `=` behind its results."""
    if "=" not in statement:
        return False
    lines = [line.partition("//")[0].rstrip() for line in statement.splitlines()]
    return next(filter(None, reversed(lines)), "").endswith("=")


def _is_code(text: str) -> bool:
    """Whether a text is more than space and comments."""
    return any(line.partition("//")[0].strip() for line in text.splitlines())
