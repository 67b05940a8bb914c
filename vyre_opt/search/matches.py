"""Where patterns were found, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from ..patterns.find import Match

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Match", "Matches", "no_matches"]

Offsets = NDArray[np.uint64]
SHOWN = 3
"""Matches that `repr` shows at each end."""


class Matches(Sequence[Match]):
    """Matches in the order of their ends, those with one end in the order of their patterns.

    `starts`, `ends`: u64, offsets in the decoded bytes, as of slices: `decoded[start:end]` is what matched.
    `patterns`: u32, the numbers of the patterns, from 0.
    A slice is `Matches` that share the arrays.
    """

    __slots__ = ("_spans", "ends", "patterns", "starts")

    def __init__(
        self,
        starts: Offsets,
        ends: Offsets,
        patterns: NDArray[np.uint32],
        spans: tuple[Offsets, Offsets] | None = None,
    ) -> None:
        """`spans`: starts and ends in the text as it was given; None for bytes that nothing encodes."""
        self.starts, self.ends, self.patterns = starts, ends, patterns
        self._spans = (starts, ends) if spans is None else spans

    @classmethod
    def joined(cls, parts: Sequence[Matches]) -> Matches:
        """The matches of all parts, which follow each other."""
        filled = [part for part in parts if len(part)]
        if len(filled) <= 1:
            return (filled or parts)[0]
        columns = [
            np.concatenate([each[k] for each in ((p.starts, p.ends, p.patterns, *p._spans) for p in filled)])
            for k in range(5)
        ]
        return cls(columns[0], columns[1], columns[2], (columns[3], columns[4]))

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[Match]:
        # Python's integers, a block at a time: NumPy's, one at a time, take ten times as long
        for first in range(0, len(self), 4096):
            block = slice(first, first + 4096)
            yield from map(
                Match, self.starts[block].tolist(), self.ends[block].tolist(), self.patterns[block].tolist()
            )

    @overload
    def __getitem__(self, place: int) -> Match: ...
    @overload
    def __getitem__(self, place: slice) -> Matches: ...
    def __getitem__(self, place: int | slice) -> Match | Matches:
        if isinstance(place, slice):
            first, last = self._spans
            columns = self.starts[place], self.ends[place], self.patterns[place]
            return Matches(*columns, (first[place], last[place]))
        return Match(int(self.starts[place]), int(self.ends[place]), int(self.patterns[place]))

    def __eq__(self, other: object) -> bool:
        """Whether the matches are the same; the texts may be others."""
        if not isinstance(other, Matches):
            return NotImplemented
        pairs = (self.starts, other.starts), (self.ends, other.ends), (self.patterns, other.patterns)
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [f"{m.start}-{m.end} pattern {m.pattern}" for m in (*self[:SHOWN], *self[SHOWN:][-SHOWN:])]
        if len(self) > 2 * SHOWN:
            shown.insert(SHOWN, "...")
        return f"<{len(self)} matches{': ' * bool(shown)}{', '.join(shown)}>"

    def encoded_spans(self) -> tuple[Offsets, Offsets]:
        """The starts and ends, u64, of the characters that hold the matches in the text as it was given.

        A span has all characters that hold a bit of its match, and what the text has between them, such as line breaks.
        """
        return self._spans

    def to_arrow(self) -> pyarrow.Table:
        """A table with the columns start, end (u64) and pattern (u32), which shares the arrays.

        Raises ImportError without pyarrow: `pip install 'vyre-opt[arrow]'`.
        """
        import pyarrow

        columns: dict[str, Any] = {"start": self.starts, "end": self.ends, "pattern": self.patterns}
        return pyarrow.table({name: pyarrow.array(column) for name, column in columns.items()})


def no_matches() -> Matches:
    return Matches(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.uint32))
