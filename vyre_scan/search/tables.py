"""Tables of a search: automata, and their derived forms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from vyre_opt.records import dataclass

from ..patterns.automaton import Automaton, concatenated_ranges
from ..patterns.class_strings import automata_of
from ..patterns.expression import Expression
from ..patterns.literal_automaton import literal_automaton
from ..patterns.pattern_list import Patterns
from ..patterns.rule_facts import UNBOUNDED, Classes, literals_of
from .prefilter import Prefilter, prefilter_of

if TYPE_CHECKING:
    from .gpu import GpuSearch
    from .gpu_tables import GpuTables
from ..arrays import Array

__all__ = ["PatternTables", "SearchTables", "atom_tables"]

MOST_REACH = 1 << 14
"""Bytes before a window that stand in front of it; expressions that need more have them copied."""
LEAST_LITERAL = 4
"""Bytes of an atom that is searched for as a literal: a look at grams needs as many."""


@dataclass(frozen=True, eq=False)
class SearchTables:
    """Tables of one automaton, of `literals` or of strings of classes.

    Of atoms, the k-th is one of those of the expressions, by their places in a list, that are in `owners[k]`.
    `owners`: None for patterns that are literals.
    """

    automaton: Automaton
    owners: Sequence[Sequence[int]] | None = None
    literals: Sequence[bytes] = ()
    caseless: bool = False

    @classmethod
    def of_literals(
        cls, literals: Sequence[bytes], caseless: bool, owners: Sequence[Sequence[int]] | None = None
    ) -> SearchTables:
        """Tables of literals.  `owners`: of each one, if these are atoms.  Raises LimitExceeded."""
        return cls(literal_automaton(literals, caseless), owners, literals, caseless)

    @cached_property
    def prefilter(self) -> Prefilter | None:
        """The filter of literals; None where a walk through all bytes is as fast."""
        return prefilter_of(self.literals, self.caseless) if self.literals else None

    @cached_property
    def _expressions(self) -> tuple[Array, Array]:
        """The owners of all atoms, one after the other, and where those of each begin."""
        owners = self.owners or ()
        return np.array([*chain.from_iterable(owners)], np.int64), np.cumsum([0, *map(len, owners)])

    def atoms(self, hits: Array, base: int) -> tuple[Array, Array, Array]:
        """The starts and ends of atoms, i64, and the numbers of their expressions; see Automaton.matches."""
        starts, ends, numbers = self.automaton.matches(hits, base)
        owners, offsets = self._expressions
        firsts = offsets[numbers]
        counts = offsets[numbers + 1] - firsts
        places = concatenated_ranges(firsts, counts)
        starts, ends = (np.repeat(column.view(np.int64), counts) for column in (starts, ends))
        return starts, ends, owners[places]

    @cached_property
    def for_gpu(self) -> GpuTables | None:
        """The tables of a search on a GPU; None if no GPU searches by them."""
        from .gpu_tables import GpuTables

        return GpuTables.of(self.automaton, self.literals, self.caseless)

    @cached_property
    def gpu_searches(self) -> dict[tuple[int, str | None], GpuSearch]:
        """Searches on GPUs, by the numbers of their GPUs and the names of encodings."""
        return {}


def atom_tables(expressions: Sequence[Expression]) -> list[SearchTables]:
    """Tables of the atoms of all expressions: literals together, strings of classes in as many automata as it takes."""
    owners: dict[Classes, list[int]] = {}
    for number, expression in enumerate(expressions):
        for atom in dict.fromkeys(expression.facts.atoms):
            owners.setdefault(atom, []).append(number)
    literals: dict[bytes, set[int]] = {}
    strings: dict[Classes, list[int]] = {}
    for atom, numbers in owners.items():
        options = literals_of(atom) if len(atom) >= LEAST_LITERAL else None
        if options is None:
            strings[atom] = numbers
        for literal in options or ():
            literals.setdefault(literal.lower(), set()).update(numbers)
    strings_owners = [*strings.values()]
    tables = [
        SearchTables(one, [strings_owners[k] for k in places]) for one, places in automata_of([*strings])
    ]
    if literals:
        tables.insert(0, SearchTables.of_literals([*literals], True, [*map(sorted, literals.values())]))
    return tables


@dataclass(frozen=True, eq=False)
class PatternTables:
    """Tables of a list of patterns.  `searches`: all that go through the data, that of literals, if there are any, first."""

    patterns: Patterns
    caseless: bool
    searches: Sequence[SearchTables]
    expressions: tuple[Expression, ...] = ()

    @property
    def num_patterns(self) -> int:
        return len(self.patterns.contents)

    @cached_property
    def numbers(self) -> Array | None:
        """The numbers of the literals; None where all patterns are literals."""
        if not self.expressions:
            return None
        expressions = self.patterns.expressions
        return np.array([k for k in range(self.num_patterns) if k not in expressions], np.uint32)

    @property
    def literals(self) -> SearchTables | None:
        """Tables of the literals; None for expressions alone."""
        return next((tables for tables in self.searches if tables.owners is None), None)

    @cached_property
    def reach(self) -> int:
        """Bytes before a place that a search there sees, of bytes that are at hand anyway."""
        reach = max((tables.automaton.longest for tables in self.searches), default=1)
        for expression in self.expressions:
            facts = expression.facts
            needed = max(expression.span, facts.most_before + facts.longest_atom) + facts.behind
            if needed < UNBOUNDED:
                reach = max(reach, min(needed, MOST_REACH))
        return reach

    @cached_property
    def longest(self) -> int:
        """Bytes of the longest match."""
        longest = 0 if self.literals is None else self.literals.automaton.longest
        return max([longest, *(expression.facts.longest for expression in self.expressions)])

    @cached_property
    def searches_on_gpu(self) -> Sequence[SearchTables]:
        """All searches, or none if a GPU does not make them: not where `re` goes through all data."""
        is_direct = any(expression.is_direct for expression in self.expressions)
        return () if is_direct or any(one.for_gpu is None for one in self.searches) else self.searches

    @property
    def has_conditions(self) -> bool:
        return any(one.rule and one.rule.has_conditions for one in self.expressions)
