"""Names and sentences in lines of a greatest length."""

from __future__ import annotations

import re

__all__ = ["wrap"]

_PIECE = re.compile(r"[^\s_.,]*[\s_.,]+|[^\s_.,]+")


def wrap(text: str, limit: int) -> list[str]:
    """Lines of at most `limit` characters, broken after blanks, `_`, `.` and commas, and within a longer word."""
    lines = [""]
    for piece in _PIECE.findall(text):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > limit:
            lines.append("")
        lines[-1] += piece
        while len(lines[-1].rstrip()) > limit:
            lines[-1:] = [lines[-1][:limit], lines[-1][limit:]]
    return [line.rstrip() for line in lines]
