"""The PTX texts in what mlir-opt prints."""

from __future__ import annotations

import re

__all__ = ["assembly"]

_ASSEMBLY = re.compile(r'assembly = "((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)")


def assembly(printed: str) -> list[str]:
    """The text of each gpu.binary, in their order."""
    return [_ESCAPE.sub(_unescaped, text).rstrip("\0") for text in _ASSEMBLY.findall(printed)]


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 16)) if len(code) == 2 else code
