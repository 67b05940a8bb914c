"""String tokens."""

from __future__ import annotations

_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


def unquote(text: str) -> str:
    """The contents of a string token."""
    parts = text[1:-1].split("\\")
    out = [parts[0]]
    at = 1
    while at < len(parts):
        part = parts[at]
        if part == "" and at + 1 < len(parts):  # an escaped backslash
            out += ["\\", parts[at + 1]]
            at += 2
            continue
        out.append(_ESCAPES.get(part[:1], part[:1]) + part[1:])
        at += 1
    return "".join(out)
