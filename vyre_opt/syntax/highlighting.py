"""The text language as HTML with colours, for notebooks.

Colours are set at each word, so that the HTML needs no style sheet, and are as legible on white as on black.
"""

from __future__ import annotations

import re
from html import escape

from ..ir.ops import OPS

__all__ = ["colored", "highlight"]

COLORS = {
    "comment": "#6f7a87",
    "string": "#2f8132",
    "symbol": "#b3561c",
    "value": "#3d76c2",
    "number": "#8a6d00",
    "type": "#0f8080",
    "op": "#9a52c7",
    "keyword": "#c43d6b",
}
"""Colours of a luminance near 0.18, whose contrast with white and with black is alike."""

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<symbol>[@!][A-Za-z_][\w.]*)
      | (?P<value>%\w+)
      | (?P<number>-?\b(?:0[xX][\da-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?))
      | (?P<word>[A-Za-z_][\w.]*)""",
    re.VERBOSE,
)
_TYPES = re.compile(r"(?:[uif]\d+|bf16|bool|vec)$")


def highlight(text: str) -> str:
    """The text of a module as a `pre` element."""
    return f'<pre style="line-height: 1.35; overflow-x: auto">{colored(text)}</pre>'


def colored(text: str) -> str:
    """The words of a text with their colours, for the inside of an element."""
    parts, end = [], 0
    for match in _TOKEN.finditer(text):
        parts.append(escape(text[end : match.start()]))
        parts.append(_colored(match[0], match.lastgroup or ""))
        end = match.end()
    parts.append(escape(text[end:]))
    return "".join(parts)


def _colored(word: str, kind: str) -> str:
    if kind == "word":
        kind = "type" if _TYPES.match(word) else "op" if word in OPS else "keyword"
    return f'<span style="color: {COLORS[kind]}">{escape(word)}</span>'
