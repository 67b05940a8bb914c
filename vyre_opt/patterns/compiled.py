"""Compiled patterns: the automaton that finds where matches end, and the bytes that each has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .automaton import Automaton, Corrupt, checked_array
from .literals import literal_automaton

__all__ = ["CompiledPatterns"]

Array = np.ndarray[Any, Any]

_VERSION = 2


@dataclass(frozen=True, eq=False)
class CompiledPatterns:
    """`search`: reads the data forwards and shows where matches end.

    `lengths`: u32[patterns], the bytes of a match of each; `longest`: the most of them.
    """

    search: Automaton
    lengths: Array
    longest: int

    @classmethod
    def of_literals(cls, contents: Sequence[bytes], caseless: bool = False) -> CompiledPatterns:
        """Those of literals.  Raises LimitExceeded."""
        lengths = np.fromiter(map(len, contents), np.uint32, len(contents))
        return cls(literal_automaton(contents, caseless), lengths, int(lengths.max()))

    @property
    def num_patterns(self) -> int:
        return self.search.num_patterns

    @cached_property
    def warmup(self) -> int:
        """How many bytes before an index a walk must see to be in the right state after it."""
        return self.longest - 1

    def validate(self) -> None:
        """Raise Corrupt unless every index that a walker computes from the arrays is inside of them."""
        self.search.validate()
        self._validate_together()

    def _validate_together(self) -> None:
        """That the parts, each valid, belong together."""
        _hold(len(self.lengths) == self.num_patterns, "each pattern has a length")
        _hold(self.longest >= int(self.lengths.max(initial=1)), "no match is longer than the longest")
        _hold(int(self.lengths.min(initial=1)) > 0, "no match is empty")

    def to_arrays(self) -> dict[str, Array]:
        """Plain arrays, for np.savez."""
        return {
            "version": np.array([_VERSION], np.uint32),
            "lengths": self.lengths,
            "longest": np.array([self.longest], np.uint32),
        } | {f"search_{name}": array for name, array in self.search.to_arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> CompiledPatterns:
        """The patterns that `to_arrays` gave these arrays of.  Raises Corrupt if they are none."""
        version = checked_array(arrays, "version", np.uint32, 1)
        _hold(version.tolist() == [_VERSION], f"the version is {_VERSION}")
        longest = checked_array(arrays, "longest", np.uint32, 1)
        _hold(len(longest) == 1, "there is one longest match")
        prefix = "search_"
        search = {
            name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)
        }
        compiled = cls(
            Automaton.from_arrays(search), checked_array(arrays, "lengths", np.uint32, 1), int(longest[0])
        )
        compiled._validate_together()
        return compiled


def _hold(condition: bool, invariant: str) -> None:
    if not condition:
        raise Corrupt(f"these arrays are no compiled patterns, of which holds: {invariant}")
