"""Compiled patterns: the automaton that finds where matches end, and the bytes that each has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .automaton import Automaton
from .literal_automaton import literal_automaton

__all__ = ["CompiledPatterns"]

Array = np.ndarray[Any, Any]


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
        """The automaton of literals.  Raises LimitExceeded."""
        lengths = np.fromiter(map(len, contents), np.uint32, len(contents))
        return cls(literal_automaton(contents, caseless), lengths, int(lengths.max()))

    @cached_property
    def warmup(self) -> int:
        """Number of bytes before an index that a walk must see to be in the right state after it."""
        return self.longest - 1
