"""Compiled patterns: the automaton that finds where matches end, and what finds where they start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .automaton import Automaton, Corrupt, checked_array

__all__ = ["CompiledPatterns"]

Array = np.ndarray[Any, Any]

_VERSION = 1


@dataclass(frozen=True, eq=False)
class CompiledPatterns:
    """`search`: reads the data forwards and shows where matches end; which patterns, and not where they start.

    `lengths`: u32[patterns], the bytes of a match, or 0 where matches of a pattern differ in length.
    `longest`: bytes of the longest match; 0 if there is no bound.
    `reverse`: reads the data backwards from the end of a match; the last place where it shows one, before it comes to
        state 0 or to the start of the data, is the leftmost start.  It has a row of entries for each pattern whose
        length is 0, in their order.  None if there are none.
    """

    search: Automaton
    lengths: Array
    longest: int
    reverse: Automaton | None

    @property
    def num_patterns(self) -> int:
        return self.search.num_patterns

    @property
    def warmup(self) -> int | None:
        """How many bytes before an index a walk must see to be in the right state after it; None: all of them.

        The walk begins in `search.entries`, by the context of the byte before the first that it sees.
        """
        return self.longest - 1 + self.search.looks_ahead if self.longest else None

    def reverse_rows(self) -> Array:
        """The row of `reverse.entries` of each pattern, where its length is 0."""
        return np.cumsum(self.lengths == 0) - 1

    def validate(self) -> None:
        """Raise Corrupt unless every index that a walker computes from the arrays is inside of them."""
        self.search.validate()
        if self.reverse is not None:
            self.reverse.validate()
        self._validate_together()

    def _validate_together(self) -> None:
        """That the parts, each valid, belong together."""
        varying = int(np.count_nonzero(self.lengths == 0))
        rows = 0 if self.reverse is None else len(self.reverse.entries)
        _hold(len(self.search.entries) == 1, "a search has one row of entries")
        _hold(len(self.lengths) == self.search.num_patterns, "each pattern has a length")
        _hold(rows == varying, "each pattern of varying length has entries to read backwards from")
        longest = int(self.lengths.max(initial=0))
        _hold(
            self.longest >= longest or (self.longest == 0 and varying > 0),
            "no match is longer than the longest",
        )

    def to_arrays(self) -> dict[str, Array]:
        """Plain arrays, for np.savez."""
        arrays = {
            "version": np.array([_VERSION], np.uint32),
            "lengths": self.lengths,
            "longest": np.array([self.longest], np.uint32),
        }
        for prefix, automaton in (("search", self.search), ("reverse", self.reverse)):
            if automaton is not None:
                arrays |= {f"{prefix}_{name}": array for name, array in automaton.to_arrays().items()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> CompiledPatterns:
        """The patterns that `to_arrays` gave these arrays of.  Raises Corrupt if they are none."""
        version = checked_array(arrays, "version", np.uint32, 1)
        _hold(version.tolist() == [_VERSION], f"the version is {_VERSION}")
        longest = checked_array(arrays, "longest", np.uint32, 1)
        _hold(len(longest) == 1, "there is one longest match")
        parts = {
            prefix: {
                name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)
            }
            for prefix in ("search_", "reverse_")
        }
        compiled = cls(
            Automaton.from_arrays(parts["search_"]),
            checked_array(arrays, "lengths", np.uint32, 1),
            int(longest[0]),
            Automaton.from_arrays(parts["reverse_"]) if parts["reverse_"] else None,
        )
        compiled._validate_together()
        return compiled


def _hold(condition: bool, invariant: str) -> None:
    if not condition:
        raise Corrupt(f"these arrays are no compiled patterns, of which holds: {invariant}")
