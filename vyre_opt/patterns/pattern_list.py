"""Patterns as a caller writes them: bytes, text, arrays, or what `re.compile` returns; read as bytes and flags."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.diagnostics import Diagnostic
from .errors import PatternError
from .regex_syntax import location_in

__all__ = ["MAX_LITERAL_BYTES", "MAX_PATTERNS", "Patterns", "read_patterns"]

MAX_PATTERNS = 1 << 22
MAX_LITERAL_BYTES = 65_535


@dataclass(frozen=True, slots=True)
class Patterns:
    """`contents`: the bytes of each.  `flags`: by number, those of `re` for what is a regular expression."""

    contents: list[bytes]
    flags: dict[int, int]


def read_patterns(patterns: Iterable[Any], *, regex: bool, caseless: bool) -> Patterns:
    """The patterns, checked but for the syntax of regular expressions.  Raises PatternError."""
    if isinstance(patterns, (str, bytes, bytearray, memoryview, re.Pattern)):
        raise _wrong("patterns is a list of patterns, not one", "write [pattern]")
    try:
        listed = list(patterns)
    except TypeError:
        raise _wrong(f"patterns is a list of patterns, not {type(patterns).__name__}") from None
    if not 1 <= len(listed) <= MAX_PATTERNS:
        raise _wrong(f"there are {len(listed)} patterns; 1 to {MAX_PATTERNS} are searched for")
    flags: dict[int, int] = {}
    wrong: list[Diagnostic] = []
    for number, pattern in enumerate(listed):
        if not regex and type(pattern) is bytes and 1 <= len(pattern) <= MAX_LITERAL_BYTES:
            continue  # most patterns: for all of them, the rest of this loop takes as long as their automaton
        pattern_flags = re.IGNORECASE * caseless if regex else None
        if isinstance(pattern, re.Pattern):
            pattern_flags = (pattern.flags & ~re.UNICODE) | re.IGNORECASE * caseless
            pattern = pattern.pattern
        if pattern_flags is not None:
            flags[number] = int(pattern_flags)
        try:
            listed[number] = _content(pattern, f"patterns[{number}]", pattern_flags is not None)
        except PatternError as error:
            wrong += error.diagnostics
    if wrong:
        raise PatternError(wrong)
    return Patterns(listed, flags)


def _content(pattern: Any, name: str, is_regex: bool) -> bytes:
    """The bytes of a pattern."""
    content = _octets(pattern, name)
    if not is_regex and not 1 <= len(content) <= MAX_LITERAL_BYTES:
        raise _wrong(f"{name} has {len(content)} bytes; a literal has 1 to {MAX_LITERAL_BYTES}")
    if is_regex and isinstance(pattern, str) and not pattern.isascii():
        offset = next(at for at, byte in enumerate(content) if byte > 127)
        message = "a regular expression matches bytes, of which this character is several"
        loc = location_in(content, name, offset, offset + 2)
        advice = r"pass bytes, and write the bytes of a character in a group: (?:\xc3\xa9)"
        raise PatternError([Diagnostic("error", message, loc, help=advice)])
    return content


def _octets(pattern: Any, name: str) -> bytes:
    if isinstance(pattern, str):
        try:
            return pattern.encode()
        except UnicodeEncodeError as error:
            raise _wrong(f"{name} cannot be encoded as UTF-8: {error.reason}", "pass bytes") from None
    if isinstance(pattern, (bytes, bytearray, memoryview)):
        return bytes(pattern)
    if str(getattr(pattern, "dtype", "")).endswith("uint8"):
        return np.ascontiguousarray(pattern).tobytes()
    raise _wrong(f"{name} is {type(pattern).__name__}; a pattern is text, bytes or an array of uint8")


def _wrong(message: str, advice: str | None = None) -> PatternError:
    return PatternError([Diagnostic("error", message, help=advice)])
