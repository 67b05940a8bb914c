"""Patterns compiled: each regular expression on its own, all literals at once, and these united."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from ..ir.diagnostics import Diagnostic
from .automaton import Automaton
from .compiled import CompiledPatterns
from .determinize import determinize
from .errors import LimitExceeded, PatternError
from .literals import literal_automaton
from .minimize import minimized
from .pattern_list import Patterns, read_patterns
from .positions import PositionAutomaton, positions_of
from .prefix import rare_prefix
from .regex_syntax import Concatenation, Node, location_in, parse_regex
from .union import renumbered_pattern, side_by_side, union

__all__ = ["DEFAULT_MAX_STATES", "compile_patterns", "compiled"]

Array = np.ndarray[Any, Any]

DEFAULT_MAX_STATES = 1 << 17
FEW_STATES = 128
"""An automaton of more, of one pattern that has a rare prefix, is not worth its table: the prefix is searched for."""


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


def compiled(patterns: Patterns, caseless: bool, max_states: int) -> CompiledPatterns:
    """As `compile_patterns`, of patterns that are read."""
    if not patterns.flags:
        lengths = _lengths(patterns.contents)
        automaton = literal_automaton(patterns.contents, caseless)
        return CompiledPatterns(automaton, lengths, np.zeros_like(lengths), int(lengths.max()))
    nodes = _parsed(patterns)
    try:
        return _compiled(patterns, nodes, caseless, max_states, FEW_STATES)
    except _TooManyTogether:
        return _compiled(patterns, nodes, caseless, max_states, 0)


class _TooManyTogether(LimitExceeded):
    """Patterns whose automata are small enough one by one."""


def _lengths(contents: Sequence[bytes]) -> Array:
    return np.fromiter(map(len, contents), np.uint32, len(contents))


def _compiled(
    patterns: Patterns, nodes: dict[int, Node], caseless: bool, max_states: int, few_states: int
) -> CompiledPatterns:
    """`few_states`: of patterns with a rare prefix, which is searched for in the place of those with more."""
    contents, flags = patterns.contents, patterns.flags
    lengths, prefixes = _lengths(contents), np.zeros(len(contents), np.uint32)
    longest: list[int | None] = lengths.tolist()
    searches, reverses, confirms = [], [], []
    for number, node in nodes.items():
        automata = _automata(contents[number], node, number, len(contents), max_states, few_states)
        searches.append(_PatternGroup(number, automata.search))
        lengths[number] = node.shortest if automata.finds_starts else 0
        prefixes[number] = automata.prefix
        longest[number] = automata.prefix or node.longest
        confirms += [automata.confirm] if automata.confirm else []
        reverses += [automata.reverse] if automata.reverse else []
    literals = np.array([number for number in range(len(contents)) if number not in flags], np.uint32)
    if len(literals):
        automaton = literal_automaton([contents[number] for number in literals], caseless)
        shown = literals[automaton.accept_patterns]
        automaton = replace(automaton, accept_patterns=shown, num_patterns=len(contents))
        searches.append(_PatternGroup(int(literals[0]), automaton))
    return CompiledPatterns(
        _united(searches, contents, max_states),
        lengths,
        prefixes,
        0 if None in longest else max(length or 0 for length in longest),
        side_by_side(reverses) if reverses else None,
        side_by_side(confirms) if confirms else None,
    )


@dataclass(slots=True)
class _PatternGroup:
    """An automaton of some patterns.  `largest`: that whose own automaton has the most states."""

    largest: int
    automaton: Automaton


@dataclass(slots=True)
class _Automata:
    """Those of one regular expression (see CompiledPatterns).  `prefix`: bytes of what `search` finds, or 0 for all."""

    search: Automaton
    prefix: int = 0
    reverse: Automaton | None = None
    confirm: Automaton | None = None

    @property
    def finds_starts(self) -> bool:
        """Whether all matches have the same length."""
        return self.reverse is None and self.confirm is None


def _automata(
    content: bytes, node: Node, number: int, num_patterns: int, max_states: int, few_states: int
) -> _Automata:
    def automaton(positions: PositionAutomaton, limit: int = max_states, **options: bool) -> Automaton:
        smallest = minimized(determinize(positions, limit, **options))
        return renumbered_pattern(smallest, number, num_patterns)

    try:
        positions, prefix = positions_of(node), rare_prefix(node)
        _check_last_line(content, positions, number)
        try:
            search = automaton(positions, min(few_states, max_states) if prefix else max_states)
        except LimitExceeded:
            if not prefix:
                raise
            begins = automaton(positions_of(Concatenation.of(prefix)))
            return _Automata(begins, len(prefix), confirm=automaton(positions, anchored=True))
        if node.shortest == node.longest:
            return _Automata(search)
        return _Automata(search, reverse=automaton(positions.reversed(), backwards=True))
    except LimitExceeded as error:
        raise LimitExceeded(
            f"the automaton of {_shown(content, number)} needs {error}; bound its repetitions, repeat less, or "
            "raise max_states"
        ) from None
    except RecursionError:
        loc = location_in(content, f"patterns[{number}]", 0, len(content))
        raise PatternError([Diagnostic("error", "groups are nested too deeply", loc)]) from None


def _united(parts: list[_PatternGroup], contents: Sequence[bytes], max_states: int) -> Automaton:
    """The automaton of all parts, the smallest put together first."""
    queue = [(part.automaton.num_states, order, part) for order, part in enumerate(parts)]
    heapify(queue)
    order = len(queue)
    while len(queue) > 1:
        (_, _, small), (_, _, large) = heappop(queue), heappop(queue)
        try:
            together = union(small.automaton, large.automaton, max_states)
        except LimitExceeded as error:
            names = (_shown(contents[part.largest], part.largest) for part in (small, large))
            raise _TooManyTogether(
                f"one automaton of all patterns needs {error}: while one match is under way others begin, here of "
                f"{' and '.join(names)} and what is with them; search for fewer patterns at a time, bound "
                "repetitions, or raise max_states"
            ) from None
        heappush(queue, (together.num_states, order, _PatternGroup(large.largest, together)))
        order += 1
    return queue[0][2].automaton


def _shown(content: bytes, number: int) -> str:
    return f"patterns[{number}] {content[:60]!r}{'...' * (len(content) > 60)}"


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


def _check_last_line(content: bytes, positions: PositionAutomaton, number: int) -> None:
    if positions.continues_after_last_line():
        offset = max(content.rfind(b"$"), 0)
        message = "`$` before a newline of the pattern is outside of what an automaton matches"
        loc = location_in(content, f"patterns[{number}]", offset, offset + 1)
        advice = r"write \n\Z for a newline that is the last byte, (?m:$) for the end of any line"
        raise PatternError([Diagnostic("error", message, loc, help=advice)])
