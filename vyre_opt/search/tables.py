"""What a search works with: automata, and what is made of them once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..patterns.automaton import Corrupt, checked_array
from ..patterns.class_strings import automata_of
from ..patterns.compiled import CompiledPatterns
from ..patterns.expression import Expression
from ..patterns.pattern_list import ExpressionSyntax, Patterns
from ..patterns.rule_facts import Classes, literals_of
from .automaton_cells import AutomatonCells
from .prefilter import Prefilter, prefilter_of

if TYPE_CHECKING:
    from .gpu import GpuSearch
    from .gpu_tables import GpuTables

__all__ = ["Atoms", "PatternTables", "SearchTables", "atoms_of", "patterns_of_arrays"]

Array = np.ndarray[Any, Any]

MOST_REACH = 1 << 14
"""Bytes before a window that stand in front of it; expressions that need more have them copied."""
FLAGS = int(re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.LOCALE | re.ASCII)
LEAST_LITERAL = 4
"""Bytes of an atom that is searched for as a literal: a look at grams needs as many."""


@dataclass(frozen=True, eq=False)
class SearchTables:
    """Of one automaton.  `prefilter`: None where a walk through all bytes is as fast."""

    compiled: CompiledPatterns
    prefilter: Prefilter | None = None

    @classmethod
    def of_literals(cls, contents: Sequence[bytes], caseless: bool) -> SearchTables:
        return cls(CompiledPatterns.of_literals(contents, caseless), prefilter_of(contents, caseless))

    @cached_property
    def search(self) -> AutomatonCells:
        return AutomatonCells(self.compiled.search)

    @cached_property
    def for_gpu(self) -> GpuTables | None:
        """None if no GPU searches by them."""
        from .gpu_tables import GpuTables

        return GpuTables.of(self.compiled, self.prefilter is not None)

    @cached_property
    def gpu_searches(self) -> dict[tuple[int, str | None], GpuSearch]:
        """Those that were made, by the numbers of their GPUs and the names of encodings."""
        return {}

    def to_arrays(self) -> dict[str, Array]:
        """Plain arrays, for np.savez."""
        arrays = self.compiled.to_arrays()
        prefilter = self.prefilter
        if prefilter is not None:
            arrays |= {
                "prefilter": prefilter.table,
                "prefilter_settings": np.array([prefilter.stride, prefilter.fold], np.uint32),
            }
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> SearchTables:
        """The tables that `to_arrays` gave these arrays of.  Raises Corrupt if they are none."""
        compiled = CompiledPatterns.from_arrays(arrays)
        if "prefilter" not in arrays:
            return cls(compiled, None)
        settings = checked_array(arrays, "prefilter_settings", np.uint32, 1)
        if len(settings) != 2:
            raise Corrupt("`prefilter_settings` are two numbers")
        prefilter = Prefilter(np.ascontiguousarray(arrays["prefilter"]), *settings.tolist())
        if not prefilter.is_valid:
            raise Corrupt("`prefilter` is a table of a filter, or a bitmap of grams")
        return cls(compiled, prefilter)


@dataclass(frozen=True, eq=False)
class Atoms:
    """An automaton that finds atoms of expressions.  The atom k is one of those of the expressions, by their places in a list,
    that stand in `owners` from offsets[k] up to offsets[k + 1]."""

    tables: SearchTables
    offsets: Array
    owners: Array

    @classmethod
    def of(cls, tables: SearchTables, owners: Sequence[set[int]]) -> Atoms:
        """`owners`: of each atom."""
        offsets = np.cumsum([0, *map(len, owners)])
        return cls(
            tables, offsets, np.array([number for some in owners for number in sorted(some)], np.int64)
        )


def atoms_of(expressions: Sequence[Expression]) -> list[Atoms]:
    """What finds the atoms of expressions: literals together, strings of classes in as many automata as it takes."""
    owners: dict[Classes, set[int]] = {}
    for number, expression in enumerate(expressions):
        for atom in expression.facts.atoms:
            owners.setdefault(atom, set()).add(number)
    literals: dict[bytes, set[int]] = {}
    strings: dict[Classes, set[int]] = {}
    for atom, numbers in owners.items():
        found = literals_of(atom, True) if len(atom) >= LEAST_LITERAL else None
        if found is None:
            strings[atom] = numbers
        else:
            for literal in found:
                literals.setdefault(literal.lower(), set()).update(numbers)
    atoms = []
    if literals:
        tables = SearchTables.of_literals([*literals], caseless=True)
        atoms.append(Atoms.of(tables, [*literals.values()]))
    listed = [*strings]
    for compiled, chosen in automata_of(listed):
        atoms.append(Atoms.of(SearchTables(compiled), [strings[listed[number]] for number in chosen]))
    return atoms


@dataclass(frozen=True, eq=False)
class PatternTables:
    """Of a list of patterns.  `literals`: the automaton of those that are literals; `numbers`: theirs in the list, u32."""

    patterns: Patterns
    caseless: bool
    literals: SearchTables | None
    expressions: tuple[Expression, ...] = ()
    atoms: tuple[Atoms, ...] = ()

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

    @cached_property
    def automata(self) -> list[tuple[SearchTables, Atoms | None]]:
        """All that go through the data: that of literals, and those of atoms."""
        literals = [] if self.literals is None else [(self.literals, None)]
        return [*literals, *((atoms.tables, atoms) for atoms in self.atoms)]

    @cached_property
    def reach(self) -> int:
        """Bytes before a place that a search there sees, of bytes that are at hand anyway."""
        reach = max((tables.compiled.longest for tables, _ in self.automata), default=1)
        for expression in self.expressions:
            facts, span = expression.facts, expression.span
            if span is not None and facts.most_before is not None:
                needed = max(span, facts.most_before + facts.longest_atom) + facts.behind
                reach = max(reach, min(needed, MOST_REACH))
        return reach

    @cached_property
    def longest(self) -> int | None:
        """Bytes of the longest match; None for any number."""
        longest = [expression.facts.longest for expression in self.expressions]
        longest += [] if self.literals is None else [self.literals.compiled.longest]
        return None if None in longest else max(length or 0 for length in longest)

    @cached_property
    def is_for_gpu(self) -> bool:
        """Whether a GPU searches by them: not where `re` goes through all data."""
        return not any(expression.is_direct for expression in self.expressions) and all(
            tables.for_gpu is not None for tables, _ in self.automata
        )

    # --- as arrays

    def to_arrays(self) -> dict[str, Array]:
        """Plain arrays, for np.savez: of expressions those that were written, which are read again."""
        if not self.expressions:
            assert self.literals is not None
            return self.literals.to_arrays()
        contents = self.patterns.contents
        kinds = np.zeros((len(contents), 2), np.uint32)
        for number, syntax in self.patterns.expressions.items():
            kinds[number] = 1 + 2 * syntax.is_text + 4 * syntax.is_of_re, syntax.flags
        return {
            "contents": np.frombuffer(b"".join(contents), np.uint8),
            "content_lengths": np.fromiter(map(len, contents), np.uint32, len(contents)),
            "kinds": kinds,
            "caseless": np.array([self.caseless], np.uint32),
        }

    @classmethod
    def of_literal_arrays(cls, arrays: Mapping[str, Array]) -> PatternTables:
        """The tables that `to_arrays` gave these arrays of, for literals alone.  Raises Corrupt if they are none."""
        tables = SearchTables.from_arrays(arrays)
        return cls(Patterns([b""] * tables.compiled.num_patterns), False, tables)

    @property
    def has_conditions(self) -> bool:
        return any(expression.rule and expression.rule.has_conditions for expression in self.expressions)


def patterns_of_arrays(arrays: Mapping[str, Array]) -> tuple[Patterns, bool]:
    """The patterns of `PatternTables.to_arrays`, of which some are expressions, and `caseless`.  Raises Corrupt."""
    lengths = checked_array(arrays, "content_lengths", np.uint32, 1)
    octets = checked_array(arrays, "contents", np.uint8, 1).tobytes()
    kinds = checked_array(arrays, "kinds", np.uint32, 2)
    if kinds.shape != (len(lengths), 2) or int(lengths.sum(dtype=np.int64)) != len(octets):
        raise Corrupt("each of the patterns has a length and a kind")
    if int(np.bitwise_or.reduce(kinds[:, 1], initial=0)) & ~FLAGS:
        raise Corrupt("expressions have flags of `re`")
    ends = np.cumsum(lengths, dtype=np.int64)
    contents = [octets[end - size : end] for end, size in zip(ends.tolist(), lengths.tolist(), strict=True)]
    expressions = {
        number: ExpressionSyntax(flags, bool(kind & 2), bool(kind & 4))
        for number, (kind, flags) in enumerate(kinds.tolist())
        if kind & 1
    }
    if not all(content or number in expressions for number, content in enumerate(contents)):
        raise Corrupt("no literal is empty")
    return Patterns(contents, expressions), bool(checked_array(arrays, "caseless", np.uint32, 1).any())
