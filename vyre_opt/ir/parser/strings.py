"""String literals of the language."""

from __future__ import annotations

import re

_ESCAPES = {"n": "\n", "t": "\t"}  # after any other character a backslash is dropped


def unquote(token: str) -> str:
    """The contents of a STRING token: without its quotes, its escapes replaced."""
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), token[1:-1], flags=re.DOTALL)
