"""The matches of expressions near the places where their atoms were found, as `re.finditer` gives them.

    data       ....AKIA............adobe.......
    atoms          |               |
    starts         |    |----------|             where a match with that atom may begin
    `re`           |==>                 |==>     tries these, and the next match begins behind the last one

Starts that are near each other are tried at once.  A match depends on no more than its bytes and those that anchors and
lookaround see, so `re` is shown these alone, and no bytes between the places that it tries.  Where matches have any length, a
byte that no match has ends what is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from ..arrays import Array
from ..patterns.expression import Expression
from ..patterns.literal_automaton import LimitExceeded
from ..patterns.rule_facts import UNBOUNDED

__all__ = ["ByteSource", "Columns", "RuleSearch", "WholeData"]

Columns = tuple[Array, Array, Array]
"""Starts and ends of matches, i64, and their patterns, u32; or of atoms, and the numbers of their expressions."""

FEW_STARTS, MOST_IN_VAIN = 8, 4
"""Starts that are tried one by one, and bytes for each start that may be looked at behind the last one."""
MOST_GAP = 16
"""Bytes between places where a match may begin, which are tried with them."""
FIRST_LOOK = 256
"""Bytes in which a byte that no match has is looked for at first."""


class ByteSource(Protocol):
    """Gives a buffer that has the bytes from `first` up to `end` at least, and the place of its first one."""

    def bytes_of(self, first: int, end: int) -> tuple[Array, int]: ...


class WholeData:
    """All bytes of the data, or the last of them, from `base` on."""

    def __init__(self, octets: Array, base: int = 0) -> None:
        self.octets, self.base = octets, base

    def bytes_of(self, first: int, end: int) -> tuple[Array, int]:
        return self.octets, self.base


class _ExpressionSearch:
    """A search for one expression.  `next_start`: where the next match may begin."""

    def __init__(self, expression: Expression, limit: int | None, raises: bool) -> None:
        self.expression, self.limit, self.raises = expression, limit, raises
        self.next_start = 0
        self.atoms: list[Array] = []  # places of atoms
        self.firsts, self.lasts = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.needs_from = 0
        """The first byte that must be at hand from now on."""
        self.settled = 0
        """All matches that begin before it were given."""
        self.matches: list[tuple[int, int]] = []

    def advance(self, source: ByteSource, total: int, is_end: bool) -> None:
        """Look for the matches that `total` bytes tell."""
        expression, facts = self.expression, self.expression.facts
        if self.atoms:
            atoms = np.concatenate(self.atoms)  # a match with one begins in a range before it
            firsts = np.maximum(atoms - min(facts.most_before, UNBOUNDED), 0)
            self.firsts = np.concatenate([self.firsts, firsts])
            self.lasts = np.concatenate([self.lasts, atoms - facts.least_before])
            self.atoms = []
        last = self._last_start(source, total, is_end)
        if expression.is_direct:
            self._go_through(source, last, total, is_end)
        elif len(self.lasts) and int(self.firsts.min()) <= last:
            order = np.argsort(self.lasts, kind="stable")
            firsts, lasts = self.firsts[order], self.lasts[order]
            is_known = firsts <= last
            self._try(source, firsts[is_known], np.minimum(lasts[is_known], last), total, is_end)
            is_waiting = lasts > last
            self.firsts, self.lasts = np.maximum(firsts[is_waiting], last + 1), lasts[is_waiting]
        self.settled = max(0, last + 1)
        if not expression.is_direct:
            self.settled = max(self.settled, total - facts.most_before - facts.longest_atom)
            if len(self.firsts):
                self.settled = min(self.settled, int(self.firsts.min()))
        self.needs_from = max(0, self.settled - facts.behind)

    def _last_start(self, source: ByteSource, total: int, is_end: bool) -> int:
        """The last place of which is known whether a match begins there."""
        span, facts = self.expression.span, self.expression.facts
        if is_end:
            return UNBOUNDED
        if span < UNBOUNDED:
            return total - span
        last = -1 if self.limit is None else total - self.limit
        sees_back = self.expression.is_direct or facts.most_before >= UNBOUNDED
        if sees_back or len(self.lasts):
            least, end = max(self.needs_from, last), total - facts.ahead
            last = max(last, self._last_of(self.expression.separators, source, end, least))
        return last

    def _last_of(self, table: bytes | None, source: ByteSource, end: int, least: int) -> int:
        """The last place from `least` on and before `end` of a byte of which a table has 1; -1 for none."""
        look = FIRST_LOOK
        while table is not None and end > least:
            first = max(least, end - look)
            data, base = source.bytes_of(first, end)
            at = data[first - base : end - base].tobytes().translate(table).rfind(1)
            if at >= 0:
                return first + at
            end, look = first, 4 * look
        return -1

    def _separator_from(self, source: ByteSource, first: int, total: int) -> int:
        """The first place from `first` on of a byte that no match has; `total` for none."""
        table = self.expression.separators
        look = FIRST_LOOK
        while table is not None and first < total:
            end = min(total, first + look)
            data, base = source.bytes_of(first, end)
            at = data[first - base : end - base].tobytes().translate(table).find(1)
            if at >= 0:
                return first + at
            first, look = end, 4 * look
        return total

    # --- ways through the data

    def _go_through(self, source: ByteSource, last: int, total: int, is_end: bool) -> None:
        if min(last, total) < self.next_start:
            return
        data, base = source.bytes_of(max(0, self.next_start - self.expression.facts.behind), total)
        for match in self.expression.pattern.finditer(data.data, self.next_start - base, total - base):
            if match.start() + base > last:
                break
            self._add(match, base, total, is_end)
        self.next_start = max(self.next_start, last + 1)

    def _try(self, source: ByteSource, firsts: Array, lasts: Array, total: int, is_end: bool) -> None:
        """Look for matches that begin in ranges, given by ascending last places: where these are near each other, at once."""
        begins = np.append(0, np.flatnonzero(np.diff(lasts) > MOST_GAP) + 1)
        regions = np.minimum.reduceat(firsts, begins), lasts[begins], np.maximum.reduceat(lasts, begins)
        table, facts = self.expression.not_before, self.expression.facts
        for first, atom, last in zip(*(places.tolist() for places in regions), strict=True):
            begin = max(first, self.next_start)
            if begin < atom:  # behind all bytes that no match has before its atom
                begin = max(begin, self._last_of(table, source, atom + facts.least_before, begin) + 1)
            if begin <= last:
                self._search(source, begin, last, total, is_end)

    def _search(self, source: ByteSource, begin: int, last: int, total: int, is_end: bool) -> None:
        """The matches that begin from `begin` up to `last`."""
        facts, span, pattern = self.expression.facts, self.expression.span, self.expression.pattern
        starts, end = last - begin + 1, total
        if span < UNBOUNDED:
            end = min(total, last + span)
        elif starts >= FEW_STARTS and facts.ahead < UNBOUNDED:
            end = min(total, self._separator_from(source, last, total) + 1 + facts.ahead)
        data, base = source.bytes_of(max(0, begin - facts.behind), end)
        # `search` goes on behind `last`, in vain
        goes_on = end - last <= MOST_IN_VAIN * starts
        find = pattern.search if goes_on else pattern.match
        while begin <= last:
            match = find(data.data, begin - base, end - base)
            if match is not None and match.start() + base <= last:
                self._add(match, base, total, is_end)
                begin = self.next_start
            elif goes_on:
                break
            else:
                begin += 1
        self.next_start = max(self.next_start, last + 1)

    def _add(self, match: re.Match[bytes], base: int, total: int, is_end: bool) -> None:
        start, end = match.span()
        self.next_start = max(self.next_start, end + base)
        if self.raises and end + base == total and not is_end and self.expression.span >= UNBOUNDED:
            raise LimitExceeded(
                f"a match of patterns[{self.expression.number}] from {start + base} on has more than the "
                f"{self.limit} bytes that a stream sees of one; scan takes the whole"
            )
        rule = self.expression.rule
        if rule is None or not rule.has_conditions or rule.accepts(match):
            self.matches.append((start + base, end + base))


class RuleSearch:
    """A search for expressions in data that comes in parts.

    `limit`: bytes that are seen, from where a match may begin on, of those whose matches may have any length; None: all.
    `raises`: a match that goes on behind them raises LimitExceeded; otherwise it ends there.
    """

    def __init__(self, expressions: Sequence[Expression], limit: int | None, raises: bool) -> None:
        self._searches = [_ExpressionSearch(expression, limit, raises) for expression in expressions]

    def add(self, places: Array, numbers: Array) -> None:
        """Add places of atoms, i64, each with the number of an expression in the list."""
        if not len(places):
            return
        order = np.argsort(numbers, kind="stable")
        numbers, places = numbers[order], places[order]
        begins = np.append(0, np.flatnonzero(numbers[1:] != numbers[:-1]) + 1)
        for number, group in zip(numbers[begins].tolist(), np.split(places, begins[1:]), strict=True):
            self._searches[number].atoms.append(group)

    def advance(self, source: ByteSource, total: int, is_end: bool) -> Iterator[Columns]:
        """The matches that the first `total` bytes tell, by their expressions."""
        for search in self._searches:
            search.advance(source, total, is_end)
            if search.matches:
                starts, ends = np.array(search.matches, np.int64).T
                yield starts, ends, np.full(len(starts), search.expression.number, np.uint32)
                search.matches = []

    @property
    def needs_from(self) -> int:
        """The first byte that `advance` asks its source for from now on."""
        return min(search.needs_from for search in self._searches)

    @property
    def settled(self) -> int:
        """All matches that begin before it were given."""
        return min(search.settled for search in self._searches)
