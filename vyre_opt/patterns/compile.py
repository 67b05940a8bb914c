"""Patterns as a caller writes them, checked and compiled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.diagnostics import Diagnostic
from .automaton import Automaton
from .compiled import CompiledPatterns
from .determinize import TooManyStates, determinize
from .errors import LimitExceeded, PatternError
from .literals import literal_automaton
from .minimize import minimized
from .positions import Fragment, PositionAutomaton, fragment_of
from .regex_syntax import Node, location_in, parse_regex

__all__ = [
    "DEFAULT_MAX_STATES",
    "MAX_LITERAL_BYTES",
    "MAX_PATTERNS",
    "Patterns",
    "compile_patterns",
    "read_patterns",
]

DEFAULT_MAX_STATES = 1 << 17
MAX_PATTERNS = 1 << 22
MAX_LITERAL_BYTES = 65_535


@dataclass(frozen=True, slots=True)
class Patterns:
    """`contents`: the bytes of each.  `flags`: by number, those of `re` for what is a regular expression."""

    contents: list[bytes]
    flags: dict[int, int]


def compile_patterns(
    patterns: Iterable[Any],
    *,
    regex: bool = False,
    caseless: bool = False,
    max_states: int = DEFAULT_MAX_STATES,
) -> CompiledPatterns:
    """The automata of `patterns`.

    A pattern is bytes, an array of u8, or a str, of which its UTF-8 counts.  It is a literal; with `regex` it is a
    regular expression (see regex_syntax), and so is what `re.compile` returns, with its flags.  `caseless`: ASCII letters
    match in either case.  `max_states`: of the automata of a set with regular expressions.

    Raises PatternError for wrong patterns, with the place of each mistake, and LimitExceeded for patterns whose automata
    are too large.
    """
    return compiled(read_patterns(patterns, regex=regex, caseless=caseless), caseless, max_states)


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
        own = re.IGNORECASE * caseless if regex else None
        if isinstance(pattern, re.Pattern):
            own = (pattern.flags & ~re.UNICODE) | re.IGNORECASE * caseless
            pattern = pattern.pattern
        if own is not None:
            flags[number] = int(own)
        try:
            listed[number] = _content(pattern, f"patterns[{number}]", own is not None)
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
        place = next(at for at, byte in enumerate(content) if byte > 127)
        message = "a regular expression matches bytes, of which this character is several"
        loc = location_in(content, name, place, place + 2)
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


def compiled(patterns: Patterns, caseless: bool, max_states: int) -> CompiledPatterns:
    """As `compile_patterns`, of patterns that are read."""
    contents = patterns.contents
    lengths = np.fromiter(map(len, contents), np.uint32, len(contents))
    if not patterns.flags:
        return CompiledPatterns(literal_automaton(contents, caseless), lengths, int(lengths.max()), None)
    nodes = _parsed(patterns)
    forward, backward = PositionAutomaton(), PositionAutomaton(backwards=True)
    longest = []
    for number, content in enumerate(contents):
        node = nodes.get(number)
        if node is None:
            forward.add_literal([_folded(byte, caseless) for byte in content], number)
            longest.append(len(content))
            continue
        fragment = _fragment(content, node, number)
        forward.add(fragment, number, 0)
        longest.append(node.longest or 0)
        lengths[number] = node.shortest if node.shortest == node.longest else 0
        if not lengths[number]:
            backward.add(fragment.reversed(), number, len(backward.starts))
    return CompiledPatterns(
        _automaton(forward, contents, max_states),
        lengths,
        max(longest) if all(longest) else 0,
        _automaton(backward, contents, max_states) if backward.starts else None,
    )


def _parsed(patterns: Patterns) -> dict[int, Node]:
    """The trees of the regular expressions, by number.  Raises PatternError for all that are wrong."""
    nodes: dict[int, Node] = {}
    wrong: list[Diagnostic] = []
    for number, flags in patterns.flags.items():
        content, name = patterns.contents[number], f"patterns[{number}]"
        try:
            nodes[number] = parse_regex(content, flags, name)
            if nodes[number].shortest == 0:
                raise _matches_nothing(content, name)
        except PatternError as error:
            wrong += error.diagnostics
    if wrong:
        raise PatternError(wrong)
    return nodes


def _matches_nothing(content: bytes, name: str) -> PatternError:
    loc = location_in(content, name, 0, len(content))
    message = "the pattern matches the empty string, which is everywhere"
    return PatternError(
        [Diagnostic("error", message, loc, help="write + for *, or {1,n} for {0,n} and {,n}")]
    )


def _fragment(content: bytes, node: Node, number: int) -> Fragment:
    name = f"patterns[{number}]"
    try:
        fragment = fragment_of(node)
    except LimitExceeded as error:
        raise LimitExceeded(f"{name}: {error}") from None
    if fragment.continues_after_last_line():
        place = max(content.rfind(b"$"), 0)
        message = "`$` before a newline of the pattern is outside of what an automaton matches"
        loc = location_in(content, name, place, place + 1)
        advice = "write \\n\\Z for a newline that is the last byte, (?m:$) for the end of any line"
        raise PatternError([Diagnostic("error", message, loc, help=advice)])
    return fragment


def _folded(byte: int, caseless: bool) -> int:
    """A byte of a literal as a set, in both cases if it is a letter and they are the same."""
    letter = bytes([byte])
    return sum(1 << case for case in {*letter.lower(), *letter.upper()}) if caseless else 1 << byte


def _automaton(positions: PositionAutomaton, patterns: Sequence[bytes], max_states: int) -> Automaton:
    try:
        return minimized(determinize(positions, len(patterns), max_states))
    except TooManyStates as error:
        most = " and ".join(
            f"patterns[{number}] {patterns[number][:60]!r} (in {ways} ways)"
            for number, ways in error.needs[:2]
        )
        raise LimitExceeded(
            f"the automaton of the patterns needs {error}; most of them for what can be under way of {most}; bound "
            "repetitions, search for fewer patterns at a time, or raise max_states"
        ) from None
