r"""Output of vyre-scan for a match: a line for people, with colours on a terminal, or an object of JSON.

In a line, printable characters of UTF-8 are themselves, a backslash is `\\`, and every other byte is `\n`, `\r`, `\t` or `\xNN`, so
that a match is one line, a terminal is told nothing, and the bytes can be told from it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..search.grep_stream import GrepMatch

__all__ = ["MatchPrinter", "escaped", "json_line", "shown_name"]

NAMES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
STDIN_NAME = "(standard input)"
"""Name that grep has for it."""

MAGENTA, GREEN, CYAN, RED = "35", "32", "36", "01;31"
"""grep's colours of a file's name, an offset, what separates them, and a match."""


def escaped(content: bytes) -> str:
    """Bytes as one line of text."""
    text = content.decode("utf-8", "surrogateescape")
    if text.isprintable() and "\\" not in text:
        return text
    return re.sub(r"[^ -\[\]-~]", lambda match: _escaped_character(match[0]), text)


def _escaped_character(character: str) -> str:
    if character.isprintable() and character != "\\":
        return character
    octets = character.encode("utf-8", "surrogateescape")
    return NAMES.get(character) or "".join(f"\\x{octet:02x}" for octet in octets)


@dataclass(slots=True)
class MatchPrinter:
    """`shows_file`: a line begins with the file's name; `shows_offset`: then comes the place in the file."""

    shows_file: bool
    shows_offset: bool
    is_colored: bool

    def line(self, path: str, match: GrepMatch) -> str:
        head = self._head(path) if self.shows_file else ""
        if self.shows_offset:
            head += self._colored(str(match.start), GREEN) + self._colored(":", CYAN)
        return f"{head}{self._colored(escaped(match.content), RED)}\n"

    def count(self, path: str, count: int) -> str:
        return f"{self._head(path) if self.shows_file else ''}{count}\n"

    def name(self, path: str) -> str:
        return f"{self._colored(shown_name(path), MAGENTA)}\n"

    def _head(self, path: str) -> str:
        return self._colored(shown_name(path), MAGENTA) + self._colored(":", CYAN)

    def _colored(self, text: str, color: str) -> str:
        return f"\x1b[{color}m\x1b[K{text}\x1b[m\x1b[K" if self.is_colored else text


def json_line(path: str, match: GrepMatch, patterns: list[bytes]) -> str:
    """A match as an object: `path`, `start` and `end` in the file, `pattern`, `match`, and `number` of the pattern.

    What is no UTF-8 is {"base64": ...} in the place of a string.
    """
    import json

    record = {
        "path": _json_text(os.fsencode(shown_name(path))),
        "start": match.start,
        "end": match.end,
        "number": match.pattern,
        "pattern": _json_text(patterns[match.pattern]),
        "match": _json_text(match.content),
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def _json_text(content: bytes) -> Any:
    try:
        return content.decode()
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"base64": b64encode(content).decode()}


def shown_name(path: str) -> str:
    """The name of a file in output and messages."""
    return STDIN_NAME if path == "-" else path
