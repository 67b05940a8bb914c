r"""Facts that hold of every match of an expression, from the tree that `re` makes of it.

A match of `(?i)api[_-]?key\s*=\s*[0-9a-f]{32}` has 37 bytes or more, and one of two strings of classes of bytes:

    [aA][pP][iI]          and       [0-9a-f] 32 times

Of all such strings (alternatives are several) the cheapest to search for are its atoms: those that are rarest, as literals
where they are few.  Where none is rare, an expression has no atoms.
"""

from __future__ import annotations

import re
import re._constants as sre
from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache, reduce
from math import prod
from operator import or_
from typing import Any

from vyre_opt.records import dataclass

from .byte_weights import WEIGHTS

__all__ = ["ALL_BYTES", "UNBOUNDED", "Classes", "Facts", "facts_of", "literals_of", "members_of"]

ALL_BYTES = (1 << 256) - 1
UNBOUNDED = 1 << 62
"""A number of bytes that stands, as all above it do, for any number."""
Classes = tuple[int, ...]
"""Sets of bytes, as bits of ints, one after the other."""

MOST_STRINGS, MOST_BYTES = 96, 64
"""Strings of classes that are kept apart, and the bytes of each."""
FEW_STRINGS = 8
"""Most strings that are kept apart where a part may be left out, as in `message[_-]?bird`."""
MOST_LITERALS = 64
"""Most literals that stand for a string of classes."""
LONGEST_LITERAL, LONGEST_STRING = 16, 32
STARTS_OF_ANY = 32
"""Number of places that counts for a match that may begin at any of them."""
LITERAL_COST, WALK_COST = 2e-7, 1e-3
"""Cost of a literal, and of strings of classes, which take a walk through all bytes; a hit at every byte costs 1."""
WORD, PREDICTED = 1e-2, 0.3
"""Estimates by which the longer of two rare strings is chosen: the share of places with a word, and of these the share that have
the next letter of a string, too."""
MOST_COST = 0.02
"""Most cost of atoms: where they are more frequent, `re` alone is as fast."""
OF_REPEATED = 0.4
"""The share of places behind a byte that have it again, at least: lines of dashes, runs of digits."""


def _set_of(characters: Iterable[int]) -> int:
    return reduce(or_, (1 << byte for byte in characters), 0)


_UPPER, _LOWER = (_set_of(range(first, first + 26)) for first in b"Aa")
_DIGIT, _SPACE = _set_of(b"0123456789"), _set_of(b" \t\n\r\f\v")
_WORD = _DIGIT | _UPPER | _LOWER | _set_of(b"_")
_CATEGORIES = {
    sre.CATEGORY_DIGIT: _DIGIT,
    sre.CATEGORY_NOT_DIGIT: ALL_BYTES & ~_DIGIT,
    sre.CATEGORY_SPACE: _SPACE,
    sre.CATEGORY_NOT_SPACE: ALL_BYTES & ~_SPACE,
    sre.CATEGORY_WORD: _WORD,
    sre.CATEGORY_NOT_WORD: ALL_BYTES & ~_WORD,
}
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of an expression.  `shortest`, `longest`: bytes of a match.  `members`: the bytes that a match may have.

    `atoms`: every match has one of these strings of classes; none: no such strings are worth a search.  They have up to
    `longest_atom` bytes (0: there are none), have only `before_members` before them in a match, and begin at least
    `least_before` and at most `most_before` bytes behind the start of the match.
    `behind`, `ahead`: bytes before and after what is matched that it depends on.
    """

    shortest: int
    longest: int
    members: int
    least_before: int
    most_before: int
    behind: int
    ahead: int
    longest_atom: int
    before_members: int
    atoms: tuple[Classes, ...] = ()


def facts_of(tree: Any) -> Facts:
    """The facts of an expression, given as the tree of `re._parser`.  Raises re.error where no length of a lookbehind is
    known."""
    analysis = _Analysis()
    flags = tree.state.flags
    part = analysis.sequence(tree, flags)
    choice = part.choice
    if choice is None or choice.cost > MOST_COST or flags & re.LOCALE:
        choice = _Choice()
    members = ALL_BYTES if flags & re.LOCALE else part.members
    return Facts(
        part.shortest,
        part.longest,
        members,
        choice.least_before,
        choice.most_before,
        analysis.behind,
        analysis.ahead,
        max(map(len, choice.atoms), default=0),
        choice.before_members,
        choice.atoms,
    )


def literals_of(atom: Classes) -> list[bytes] | None:
    """The literals that a string of classes stands for, of letters in both cases one; None for too many."""
    if prod(_folded(members).bit_count() for members in atom) > MOST_LITERALS:
        return None
    literals = [b""]
    for members in atom:
        octets = _octets(_folded(members))
        literals = [literal + octet for literal in literals for octet in octets]
    return literals


@dataclass(frozen=True, slots=True)
class _Choice:
    atoms: tuple[Classes, ...] = ()
    least_before: int = 0
    most_before: int = 0
    before_members: int = 0
    cost: float = 0.0

    def after(self, shortest: int, longest: int, members: int) -> _Choice:
        """The choice behind a part of so many bytes, which are among `members`."""
        least, most = self.least_before + shortest, self.most_before + longest
        return _Choice(self.atoms, least, most, self.before_members | members, self.cost)

    @property
    def whole_cost(self) -> float:
        """The cost with that of the places where a match may begin."""
        starts = self.most_before - self.least_before if self.most_before < UNBOUNDED else STARTS_OF_ANY
        return self.cost * (1 + starts / 8)


@dataclass(slots=True)
class _Part:
    """A part of an expression.  `strings`: all that it matches, where these are few."""

    shortest: int = 0
    longest: int = 0
    members: int = 0
    strings: list[Classes] | None = None
    choice: _Choice | None = None

    def followed_by(self, part: _Part) -> _Part:
        """Both parts, one after the other, without their strings and choices."""
        return _Part(self.shortest + part.shortest, self.longest + part.longest, self.members | part.members)


@dataclass(slots=True)
class _Analysis:
    behind: int = 0
    ahead: int = 0
    groups: dict[int, _Part] = field(default_factory=dict)

    def sequence(self, nodes: Any, flags: int) -> _Part:
        return _concatenated(part for node in nodes for part in self.parts(node, flags))

    def parts(self, node: Any, flags: int) -> list[_Part]:
        """The parts that a node is, one after the other."""
        kind, value = node
        if kind in _REPEATS:
            return self.repeated(value, flags)
        if kind is sre.SUBPATTERN:
            number, added, removed, nodes = value
            parts = [part for inner in nodes for part in self.parts(inner, (flags | added) & ~removed)]
            if number is not None:
                self.groups[number] = _concatenated(parts)
            return parts
        if kind is sre.ATOMIC_GROUP:
            return [self.sequence(value, flags)]
        if kind is sre.BRANCH:
            return [_alternatives([self.sequence(option, flags) for option in value[1]])]
        if kind in (sre.ASSERT, sre.ASSERT_NOT):
            self.look(value, flags)
            return []
        if kind is sre.AT:
            self.behind = max(self.behind, 1)
            self.ahead = max(self.ahead, 2 if value is sre.AT_END else 1)
            return []
        if kind is sre.GROUPREF:
            group = self.groups.get(value, _Part(0, UNBOUNDED, ALL_BYTES))
            members = ALL_BYTES if flags & re.IGNORECASE else group.members
            return [_Part(0, group.longest, members)]
        if kind is sre.GROUPREF_EXISTS:
            _, yes, no = value
            both = _alternatives([self.sequence(yes, flags), self.sequence(no or [], flags)])
            return [_Part(both.shortest, both.longest, both.members)]
        members = members_of(kind, value, flags)
        return [_Part(1, 1, members, [(members,)])]

    def look(self, value: tuple[int, Any], flags: int) -> None:
        """Lookahead, and lookbehind (direction -1), perhaps one in the other."""
        direction, nodes = value
        inner = _Analysis(groups=self.groups)
        part = inner.sequence(nodes, flags)
        if direction < 0:
            if part.shortest != part.longest:
                raise re.error("look-behind requires fixed-width pattern")
            inner.behind += part.shortest
        else:
            inner.ahead += part.longest
        self.behind, self.ahead = max(self.behind, inner.behind), max(self.ahead, inner.ahead)

    def repeated(self, value: tuple[Any, Any, Any], flags: int) -> list[_Part]:
        low, high, nodes = value
        item = self.sequence(nodes, flags)
        low, most = int(low), UNBOUNDED if high is sre.MAXREPEAT else int(high)
        if most == 0:
            return []
        if (low, most) == (0, 1) and item.strings is not None and len(item.strings) < FEW_STRINGS:
            return [_Part(0, item.longest, item.members, [(), *item.strings])]
        copies, parts = 0, []
        if low and item.strings is not None:
            # the first ones are as if they were written out
            longest = max(map(len, item.strings), default=0)
            copies = min(low, MOST_BYTES // max(1, longest)) if len(item.strings) == 1 else min(low, 2)
            parts = [item] * copies
        if copies == low == most:
            return parts
        shortest, longest = item.shortest * (low - copies), item.longest * (most - copies)
        choice = item.choice if low > copies else None
        return [*parts, _Part(shortest, longest, item.members, None, choice)]


def members_of(kind: Any, value: Any, flags: int) -> int:
    """The bytes of a node that is one byte."""
    if kind is sre.LITERAL:
        return _cased(1 << value, flags)
    if kind is sre.NOT_LITERAL:
        return ALL_BYTES & ~_cased(1 << value, flags)
    if kind is sre.ANY:
        return ALL_BYTES if flags & re.DOTALL else ALL_BYTES & ~(1 << ord("\n"))
    if kind is not sre.IN:
        return ALL_BYTES
    members, is_negated = 0, False
    for inner, argument in value:
        if inner is sre.NEGATE:
            is_negated = True
        elif inner is sre.LITERAL:
            members |= 1 << argument
        elif inner is sre.RANGE:
            members |= (1 << argument[1] + 1) - (1 << argument[0])
        else:
            members |= _CATEGORIES[argument]
    members = _cased(members, flags)
    return ALL_BYTES & ~members if is_negated else members


def _cased(members: int, flags: int) -> int:
    if not flags & re.IGNORECASE:
        return members
    return members | (members & _UPPER) << 32 | (members & _LOWER) >> 32


def _concatenated(parts: Iterable[_Part]) -> _Part:
    whole = _Part()
    run: list[Classes] = [()]
    before = _Part()  # the run
    choices: list[_Choice] = []
    is_run = True

    def end_run() -> None:
        if all(run):
            choices.append(_cheapest(run).after(before.shortest, before.longest, before.members))

    for part in parts:
        strings = _product(run, part.strings)
        if strings is not None:
            run = strings
        else:
            is_run = False
            end_run()
            if part.choice is not None:
                choices.append(part.choice.after(whole.shortest, whole.longest, whole.members))
            run = list(part.strings or [()])
            before = whole if part.strings is not None else whole.followed_by(part)
        whole = whole.followed_by(part)
    end_run()
    whole.strings = run if is_run else None
    whole.choice = min(choices, key=lambda choice: choice.whole_cost, default=None)
    return whole


def _product(left: list[Classes], right: list[Classes] | None) -> list[Classes] | None:
    """The strings of one part followed by those of another; None if they are too many, or too long."""
    if right is None or len(left) * len(right) > MOST_STRINGS:
        return None
    if max(map(len, left), default=0) + max(map(len, right), default=0) > MOST_BYTES:
        return None
    return [one + other for one in left for other in right]


def _alternatives(options: list[_Part]) -> _Part:
    strings = [one for option in options for one in option.strings or ()]
    is_few = all(option.strings is not None for option in options) and len(strings) <= MOST_STRINGS
    whole = _Part(
        min(option.shortest for option in options),
        max(option.longest for option in options),
        reduce(or_, (option.members for option in options)),
        [*dict.fromkeys(strings)] if is_few else None,
    )
    choices = [option.choice for option in options if option.choice is not None]
    if len(choices) == len(options):
        whole.choice = _Choice(
            tuple(dict.fromkeys(atom for choice in choices for atom in choice.atoms)),
            min(choice.least_before for choice in choices),
            max(choice.most_before for choice in choices),
            reduce(or_, (choice.before_members for choice in choices)),
            sum(choice.cost for choice in choices),
        )
    return whole


def _cheapest(strings: list[Classes]) -> _Choice:
    """Part of each string that is cheapest to find."""
    costs: dict[Classes, float] = {}
    starts, members = list[int](), 0
    for string in dict.fromkeys(strings):
        atom, start, cost = _cheapest_window(string)
        costs[atom] = cost
        starts.append(start)
        members |= reduce(or_, string[:start], 0)
    return _Choice(tuple(costs), min(starts), max(starts), members, sum(costs.values()))


@lru_cache(maxsize=4096)
def _cheapest_window(string: Classes) -> tuple[Classes, int, float]:
    """A part of a string, where it begins, and its cost."""
    # repetitions are more frequent than chance
    shares = [
        max(_share(members), OF_REPEATED * (before == members))
        for before, members in zip((None, *string), string)  # noqa: B905
    ]
    best = (string[:LONGEST_STRING], 0, prod(shares[:LONGEST_STRING]) + WALK_COST)
    least = best[2]
    for first in range(len(string)):
        share, count = 1.0, 1
        for end in range(first + 1, min(first + LONGEST_LITERAL, len(string)) + 1):
            share *= shares[end - 1]
            count *= _folded(string[end - 1]).bit_count()
            if count > MOST_LITERALS:
                break
            cost = max(share, 1e-10) + LITERAL_COST * count
            if end - first < 4:  # those are found by a walk
                cost += WALK_COST
            rank = cost + WORD * PREDICTED ** (end - first)
            if rank < least:
                best, least = (string[first:end], first, cost), rank
    return best


@lru_cache(maxsize=4096)
def _share(members: int) -> float:
    """Expected frequency of one of some bytes."""
    return float(WEIGHTS[[byte for byte in range(256) if members >> byte & 1]].sum())


def _folded(members: int) -> int:
    """The set without the capital of each letter that it has in both cases."""
    return members & ~(members & _UPPER & members >> 32)


@lru_cache(maxsize=4096)
def _octets(members: int) -> tuple[bytes, ...]:
    return tuple(bytes([byte]) for byte in range(256) if members >> byte & 1)
