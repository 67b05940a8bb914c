"""Lines of a text as they should be, for mistakes whose message says how a thing is written."""

from __future__ import annotations

import re
from collections.abc import Container

__all__ = ["fresh", "head_of", "line_around", "rewritten"]

MOST_SHOWN = 400
"""Characters of a line before and behind a place, at most, so that a mistake in each word of a line of a megabyte takes no more."""


def rewritten(message: str, line: str, at: int, end: int, scope: Container[str]) -> str | None:
    """The remedy for a token of a line that does not fit; None where the line does not say it.  `scope`: names of values."""
    word = line[at:end]
    if message.startswith("operands are separated by commas") and line[:at].strip():
        return f"write {line[:at].strip()}, {line[at:].rstrip()}"
    if message == "an index is a value in brackets" and f"%{word}" in scope:
        return f"write {line[:at].lstrip()}%{line[at:].rstrip()}"
    if message == "the condition of an if is a value":
        condition = re.match(r"\s*(?:\}\s*else\s*)?if\s*(?:\((.*)\)|(.*?))\s*\{?\s*$", line)
        name = fresh("%p", scope)
        text = (condition[1] or condition[2]).strip() if condition else ""
        return f"write {name} = {text} before it, and if {name} {{" if re.match(r"[a-z_]+ ?%", text) else None
    if message.startswith("a grid is given as"):
        launch = re.match(r"\s*launch\s+(@[\w.$]+)\s*(\(.*\))\s*$", line)
        return f"write launch {launch[1]} grid(1) {launch[2]}" if launch else None
    brackets = re.match(r"\[([^\]]*)\]", line[at:]) if message.endswith("expected (") else None
    return (
        f"write {line[:at].lstrip()}({brackets[1]}){line[at + brackets.end() :].rstrip()}"
        if brackets
        else None
    )


def fresh(name: str, scope: Container[str]) -> str:
    """`%p`, `%p_1`, ...: the first that no value has."""
    number, found = 0, name
    while found in scope:
        number += 1
        found = f"{name}_{number}"
    return found


def line_around(text: str, at: int) -> str:
    """The line around an offset; of a very long one, what is near."""
    begin, end = max(0, at - MOST_SHOWN), min(len(text), at + MOST_SHOWN)
    return text[begin:at].rpartition("\n")[2] + text[at:end].partition("\n")[0]


def head_of(text: str, brace: int) -> str:
    """The line of a block's opening brace, up to it; of a very long one, what is near."""
    return text[max(0, brace - MOST_SHOWN) : brace].rpartition("\n")[2].strip()
