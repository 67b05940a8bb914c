"""Compiled patterns: the automaton that finds where matches end, and what finds where they start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .automaton import Automaton, Corrupt, checked_array

__all__ = ["CompiledPatterns"]

Array = np.ndarray[Any, Any]

_VERSION = 1
_PARTS = ("search", "reverse", "confirm")


@dataclass(frozen=True, eq=False)
class CompiledPatterns:
    """`search`: reads the data forwards and shows where matches end; which patterns, and not where they start.

    `lengths`: u32[patterns], the bytes of a match, or 0 where matches of a pattern differ in length.
    `prefixes`: u32[patterns]; where it is not 0, `search` shows only the first so many bytes of a match (see prefix).
    `longest`: bytes of the longest match, or prefix, that `search` shows; 0 if there is no bound.
    `reverse`: reads the data backwards from the end of a match; the last place where it shows one, before it comes to
        state 0 or to the start of the data, is the leftmost start.  It has a row of entries for each pattern that has
        neither a length nor a prefix, in their order.  None if there are none.
    `confirm`: reads the data from the start of a prefix on, until it comes to state 0, and shows the matches that begin
        there.  It has a row of entries for each pattern with a prefix.  None if there are none.
    """

    search: Automaton
    lengths: Array
    prefixes: Array
    longest: int
    reverse: Automaton | None = None
    confirm: Automaton | None = None

    @property
    def num_patterns(self) -> int:
        return self.search.num_patterns

    @cached_property
    def warmup(self) -> int | None:
        """How many bytes before an index a walk must see to be in the right state after it; None: all of them.

        The walk begins in `search.entries`, by the context of the byte before the first that it sees.
        """
        return self.longest - 1 + self.search.looks_ahead if self.longest else None

    @property
    def is_reversed(self) -> Array:
        """Whether `reverse` finds the starts of each pattern."""
        return np.asarray((self.lengths == 0) & (self.prefixes == 0))

    def validate(self) -> None:
        """Raise Corrupt unless every index that a walker computes from the arrays is inside of them."""
        for automaton in (self.search, self.reverse, self.confirm):
            if automaton is not None:
                automaton.validate()
        self._validate_together()

    def _validate_together(self) -> None:
        """That the parts, each valid, belong together."""
        _hold(len(self.search.entries) == 1, "a search has one row of entries")
        _hold(
            len(self.lengths) == len(self.prefixes) == self.num_patterns,
            "each pattern has a length and a prefix",
        )
        for automaton, count, name in (
            (self.reverse, np.count_nonzero(self.is_reversed), "a pattern of varying length"),
            (self.confirm, np.count_nonzero(self.prefixes), "a prefix"),
        ):
            _hold(
                (0 if automaton is None else len(automaton.entries)) == count, f"{name} has a row of entries"
            )
        longest = max(int(self.lengths.max(initial=0)), int(self.prefixes.max(initial=0)))
        bounded = self.longest >= longest or (self.longest == 0 and bool(self.is_reversed.any()))
        _hold(bounded, "no match is longer than the longest")

    def to_arrays(self) -> dict[str, Array]:
        """Plain arrays, for np.savez."""
        arrays = {
            "version": np.array([_VERSION], np.uint32),
            "lengths": self.lengths,
            "prefixes": self.prefixes,
            "longest": np.array([self.longest], np.uint32),
        }
        for prefix in _PARTS:
            automaton = getattr(self, prefix)
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
        parts: dict[str, Automaton | None] = {}
        for prefix in _PARTS:
            start = prefix + "_"
            part = {
                name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)
            }
            parts[prefix] = Automaton.from_arrays(part) if part or prefix == "search" else None
        search = parts["search"]
        assert search is not None
        compiled = cls(
            search,
            checked_array(arrays, "lengths", np.uint32, 1),
            checked_array(arrays, "prefixes", np.uint32, 1),
            int(longest[0]),
            parts["reverse"],
            parts["confirm"],
        )
        compiled._validate_together()
        return compiled


def _hold(condition: bool, invariant: str) -> None:
    if not condition:
        raise Corrupt(f"these arrays are no compiled patterns, of which holds: {invariant}")
