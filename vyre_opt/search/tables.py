"""What a search works with: compiled patterns, and what is made of them once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..patterns.automaton import Corrupt, checked_array
from ..patterns.compiled import CompiledPatterns
from ..patterns.pattern_list import Patterns
from .automaton_cells import AutomatonCells
from .prefilter import Prefilter, prefilter_of

if TYPE_CHECKING:
    from .gpu import GpuSearch
    from .gpu_tables import GpuTables

__all__ = ["SearchTables"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class SearchTables:
    """`prefilter`: None where a walk through all bytes is as fast."""

    compiled: CompiledPatterns
    prefilter: Prefilter | None

    @classmethod
    def of(cls, patterns: Patterns, caseless: bool, compiled: CompiledPatterns) -> SearchTables:
        if patterns.flags:
            return cls(compiled, None)
        return cls(compiled, prefilter_of(patterns.contents, caseless))

    @cached_property
    def search(self) -> AutomatonCells:
        return AutomatonCells(self.compiled.search)

    @cached_property
    def reverse(self) -> AutomatonCells | None:
        return None if self.compiled.reverse is None else AutomatonCells(self.compiled.reverse)

    @cached_property
    def confirm(self) -> AutomatonCells | None:
        return None if self.compiled.confirm is None else AutomatonCells(self.compiled.confirm)

    @cached_property
    def reach(self) -> int:
        """Bytes before a place that tell the state there, and one that tells where to begin; 0 if it takes all of them."""
        return 0 if self.compiled.warmup is None else self.compiled.warmup + 1

    @cached_property
    def for_gpu(self) -> GpuTables | None:
        """None if no GPU searches by them."""
        from .gpu_tables import GpuTables

        return GpuTables.of(self.compiled, self.prefilter is not None)

    @cached_property
    def gpu_searches(self) -> dict[tuple[int, str | None], GpuSearch]:
        """Those that were made, by the numbers of their GPUs and the names of encodings."""
        return {}

    @cached_property
    def knows_lengths(self) -> bool:
        """Whether a match's end tells its start."""
        return bool((self.compiled.lengths > 0).all())

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
        if compiled.search.entries.any() or compiled.search.looks_ahead or compiled.warmup is None:
            raise Corrupt("a prefilter belongs to automata that begin in state 0 everywhere")
        return cls(compiled, prefilter)
