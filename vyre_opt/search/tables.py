"""What a search works with: compiled patterns, and what is made of them once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..kernels.pattern_filter import ENTRIES, POSITIONS
from ..patterns.automaton import Corrupt
from ..patterns.compiled import CompiledPatterns
from ..patterns.pattern_list import Patterns
from .prefilter import MOST_CANDIDATES, filter_table

__all__ = ["SearchTables"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class SearchTables:
    """`filter`: the table of pattern_filter, or None where a walk through all bytes is as fast."""

    compiled: CompiledPatterns
    filter: Array | None

    @classmethod
    def of(cls, patterns: Patterns, caseless: bool, compiled: CompiledPatterns) -> SearchTables:
        if patterns.flags:
            return cls(compiled, None)
        table, share = filter_table(patterns.contents, caseless)
        return cls(compiled, table if share < MOST_CANDIDATES else None)

    @cached_property
    def cells(self) -> Array:
        """The transitions, each state as the cell where its row begins."""
        search = self.compiled.search
        return (search.transitions * np.uint32(search.num_classes)).reshape(-1)

    @cached_property
    def shows_one_each(self) -> bool:
        """Whether each accepting state shows one pattern."""
        search = self.compiled.search
        return len(search.accept_patterns) == len(search.accept_offsets) - 1

    @cached_property
    def knows_lengths(self) -> bool:
        """Whether a match's end tells its start."""
        return bool((self.compiled.lengths > 0).all())

    def to_arrays(self) -> dict[str, Array]:
        """Plain arrays, for np.savez."""
        arrays = self.compiled.to_arrays()
        return arrays if self.filter is None else arrays | {"filter": self.filter}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> SearchTables:
        """The tables that `to_arrays` gave these arrays of.  Raises Corrupt if they are none."""
        table = arrays.get("filter")
        if table is not None and (table.dtype != np.uint8 or table.shape != (POSITIONS * ENTRIES,)):
            raise Corrupt(f"`filter` is u8[{POSITIONS * ENTRIES}]")
        compiled = CompiledPatterns.from_arrays(arrays)
        is_idle = not compiled.search.entries.any() and not compiled.search.looks_ahead
        if table is not None and not is_idle:
            raise Corrupt("a filter belongs to automata that begin in state 0 everywhere")
        return cls(compiled, table)
