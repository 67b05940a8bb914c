"""Patterns as a caller writes them: bytes, text, arrays, rules, or what `re.compile` returns; read as bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field
from typing import Any

import numpy as np

from vyre_opt.ir.diagnostics import Diagnostic
from vyre_opt.records import dataclass

from .errors import PatternError
from .rule import Rule

__all__ = ["BOUNDS", "MAX_LITERAL_BYTES", "MAX_PATTERNS", "ExpressionSyntax", "Patterns", "read_patterns"]

MAX_PATTERNS = 1 << 22
MAX_LITERAL_BYTES = 65_535

BOUNDS = ("", "line", "word", "whole")
"""Bounds of a match: none; within a line; as `line`, with no letter, digit or _ before and after it; a whole line."""


@dataclass(frozen=True, slots=True)
class ExpressionSyntax:
    """Syntax of an expression.  `flags`: those of `re`.  `is_text`: bytes above 127 are characters of UTF-8.

    `is_of_re`: nothing is to be translated.  `bounds`: one of BOUNDS.  `rule`: has the conditions.
    """

    flags: int
    is_text: bool = False
    is_of_re: bool = False
    bounds: str = ""
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Patterns:
    """Patterns as bytes, and the syntax of each regular expression by its number."""

    contents: list[bytes]
    expressions: dict[int, ExpressionSyntax] = field(default_factory=dict)


def read_patterns(patterns: Iterable[Any], *, regex: bool, caseless: bool, bounds: str = "") -> Patterns:
    """Read patterns; the syntax of regular expressions is checked later.  Raises PatternError."""
    if isinstance(patterns, (str, bytes, bytearray, memoryview, re.Pattern, Rule)):
        raise _wrong("patterns is a list of patterns, not one", "write [pattern]")
    try:
        contents = list(patterns)
    except TypeError:
        raise _wrong(f"patterns is a list of patterns, not {type(patterns).__name__}") from None
    if not 1 <= len(contents) <= MAX_PATTERNS:
        raise _wrong(f"there are {len(contents)} patterns; 1 to {MAX_PATTERNS} are searched for")
    expressions: dict[int, ExpressionSyntax] = {}
    mistakes: list[Diagnostic] = []
    for number, pattern in enumerate(contents):
        if not regex and type(pattern) is bytes and 1 <= len(pattern) <= MAX_LITERAL_BYTES:
            continue  # most patterns: for all of them, the rest of this loop takes as long as their automaton
        name = f"patterns[{number}]"
        rule = pattern if isinstance(pattern, Rule) else None
        content: Any = pattern if rule is None else rule.expression
        flags, is_of_re = int(re.IGNORECASE) * caseless, False
        is_expression = regex or rule is not None or isinstance(content, re.Pattern)
        if isinstance(content, re.Pattern):
            flags |= content.flags & ~int(re.UNICODE)
            content, is_of_re = content.pattern, isinstance(content.pattern, bytes)
        try:
            if rule is not None:
                _check_conditions(rule, name)
            contents[number] = octets = _octets(content, name)
            if is_expression:
                is_text = isinstance(content, str)
                expressions[number] = ExpressionSyntax(flags, is_text, is_of_re, bounds, rule)
            elif not 1 <= len(octets) <= MAX_LITERAL_BYTES:
                raise _wrong(f"{name} has {len(octets)} bytes; a literal has 1 to {MAX_LITERAL_BYTES}")
        except PatternError as error:
            mistakes += error.diagnostics
    if mistakes:
        raise PatternError(mistakes)
    return Patterns(contents, expressions)


def _check_conditions(rule: Rule, name: str) -> None:
    """Raise PatternError for a wrong condition of a rule."""
    if (
        isinstance(rule.entropy, bool)
        or not isinstance(rule.entropy, (int, float))
        or not 0 <= rule.entropy <= 8
    ):
        raise _wrong(f"the entropy of {name} is 0 to 8 bits a byte, not {rule.entropy!r}")
    if rule.where is not None and not callable(rule.where):
        raise _wrong(f"`where` of {name} is a function of a match, not {type(rule.where).__name__}")
    if isinstance(rule.allow, (str, bytes, re.Pattern)):
        raise _wrong(f"`allow` of {name} is a list of expressions, not one", "write [expression]")
    for allowed in rule.allow:
        try:
            is_of_bytes = isinstance(re.compile(allowed).pattern, bytes)
        except (re.error, TypeError) as error:
            raise _wrong(f"`allow` of {name} has {allowed!r}: {error}") from None
        if not is_of_bytes:
            raise _wrong(f"`allow` of {name} has {allowed!r}, which is text; data are bytes", "write rb'...'")


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
