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
    "Pattern",
    "compile_patterns",
    "read_patterns",
]

DEFAULT_MAX_STATES = 1 << 17
MAX_PATTERNS = 1 << 22
MAX_LITERAL_BYTES = 65_535


@dataclass(frozen=True, slots=True)
class Pattern:
    """`flags`: those of `re` for a regular expression; None for a literal."""

    content: bytes
    flags: int | None = None


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


def read_patterns(patterns: Iterable[Any], *, regex: bool, caseless: bool) -> list[Pattern]:
    """The patterns, each one checked alone but for the syntax of regular expressions.  Raises PatternError."""
    if isinstance(patterns, (str, bytes, bytearray, memoryview, re.Pattern)):
        raise PatternError(
            [Diagnostic("error", "patterns is a list of patterns, not one", help="write [pattern]")]
        )
    try:
        given = list(patterns)
    except TypeError:
        message = f"patterns is a list of patterns, not {type(patterns).__name__}"
        raise PatternError([Diagnostic("error", message)]) from None
    if not 1 <= len(given) <= MAX_PATTERNS:
        raise PatternError(
            [Diagnostic("error", f"there are {len(given)} patterns; 1 to {MAX_PATTERNS} are searched for")]
        )
    read, wrong = [], []
    for number, pattern in enumerate(given):
        try:
            read.append(_read(pattern, f"patterns[{number}]", regex, caseless))
        except PatternError as error:
            wrong += error.diagnostics
    if wrong:
        raise PatternError(wrong)
    return read


def _read(pattern: Any, name: str, regex: bool, caseless: bool) -> Pattern:
    flags = re.IGNORECASE * caseless if regex else None
    if isinstance(pattern, re.Pattern):
        flags = (pattern.flags & ~re.UNICODE) | re.IGNORECASE * caseless
        pattern = pattern.pattern
    content = _content(pattern, name)
    if flags is None and not 1 <= len(content) <= MAX_LITERAL_BYTES:
        raise _wrong(f"{name} has {len(content)} bytes; a literal has 1 to {MAX_LITERAL_BYTES}")
    if flags is not None and isinstance(pattern, str) and not pattern.isascii():
        place = next(at for at, byte in enumerate(content) if byte > 127)
        message = "a regular expression matches bytes, of which this character is several"
        loc = location_in(content, name, place, place + 2)
        advice = r"pass bytes, and write the bytes of a character in a group: (?:\xc3\xa9)"
        raise PatternError([Diagnostic("error", message, loc, help=advice)])
    return Pattern(content, flags)


def _content(pattern: Any, name: str) -> bytes:
    """The bytes of a pattern."""
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


def compiled(patterns: Sequence[Pattern], caseless: bool, max_states: int) -> CompiledPatterns:
    """As `compile_patterns`, of patterns that are read."""
    if all(pattern.flags is None for pattern in patterns):
        contents = [pattern.content for pattern in patterns]
        lengths = np.array([len(content) for content in contents], np.uint32)
        return CompiledPatterns(literal_automaton(contents, caseless), lengths, int(lengths.max()), None)
    nodes = _parsed(patterns)
    forward, backward = PositionAutomaton(), PositionAutomaton(backwards=True)
    lengths, longest = np.zeros(len(patterns), np.uint32), 0
    is_bounded = True
    for number, (pattern, node) in enumerate(zip(patterns, nodes, strict=True)):
        if node is None:
            forward.add_literal([_folded(byte, caseless) for byte in pattern.content], number)
            lengths[number], longest = len(pattern.content), max(longest, len(pattern.content))
            continue
        fragment = _fragment(pattern, node, number)
        forward.add(fragment, number, 0)
        is_bounded &= node.longest is not None
        longest = max(longest, node.longest or 0)
        if node.shortest == node.longest:
            lengths[number] = node.shortest
        else:
            backward.add(fragment.reversed(), number, len(backward.starts))
    return CompiledPatterns(
        _automaton(forward, patterns, max_states),
        lengths,
        longest if is_bounded else 0,
        _automaton(backward, patterns, max_states) if backward.starts else None,
    )


def _parsed(patterns: Sequence[Pattern]) -> list[Node | None]:
    """The trees of the regular expressions, None for literals.  Raises PatternError for all that are wrong."""
    nodes: list[Node | None] = []
    wrong: list[Diagnostic] = []
    for number, pattern in enumerate(patterns):
        name, node = f"patterns[{number}]", None
        if pattern.flags is not None:
            try:
                node = parse_regex(pattern.content, pattern.flags, name)
                if node.shortest == 0:
                    raise _matches_nothing(pattern.content, name)
            except PatternError as error:
                wrong += error.diagnostics
        nodes.append(node)
    if wrong:
        raise PatternError(wrong)
    return nodes


def _matches_nothing(content: bytes, name: str) -> PatternError:
    loc = location_in(content, name, 0, len(content))
    message = "the pattern matches the empty string, which is everywhere"
    return PatternError(
        [Diagnostic("error", message, loc, help="write + for *, or {1,n} for {0,n} and {,n}")]
    )


def _fragment(pattern: Pattern, node: Node, number: int) -> Fragment:
    name = f"patterns[{number}]"
    try:
        fragment = fragment_of(node)
    except LimitExceeded as error:
        raise LimitExceeded(f"{name}: {error}") from None
    if fragment.continues_after_last_line():
        place = max(pattern.content.rfind(b"$"), 0)
        message = "`$` before a newline of the pattern is outside of what an automaton matches"
        loc = location_in(pattern.content, name, place, place + 1)
        advice = "write \\n\\Z for a newline that is the last byte, (?m:$) for the end of any line"
        raise PatternError([Diagnostic("error", message, loc, help=advice)])
    return fragment


def _folded(byte: int, caseless: bool) -> int:
    """A byte of a literal as a set, in both cases if it is a letter and they are the same."""
    letter = bytes([byte])
    return sum(1 << case for case in {*letter.lower(), *letter.upper()}) if caseless else 1 << byte


def _automaton(positions: PositionAutomaton, patterns: Sequence[Pattern], max_states: int) -> Automaton:
    try:
        return minimized(determinize(positions, len(patterns), max_states))
    except TooManyStates as error:
        most = " and ".join(
            f"patterns[{number}] {patterns[number].content[:60]!r} (in {ways} ways)"
            for number, ways in error.needs[:2]
        )
        raise LimitExceeded(
            f"the automaton of the patterns needs {error}; most of them for what can be under way of {most}; bound "
            "repetitions, search for fewer patterns at a time, or raise max_states"
        ) from None
