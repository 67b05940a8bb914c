"""Where patterns were found, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Match", "Matches"]

Offsets = NDArray[np.uint64]
SHOWN = 3
"""Matches that `repr` shows at each end."""


class Match(NamedTuple):
    """The bytes from `start` up to `end`, exclusive, match the pattern with the number `pattern`, from 0."""

    start: int
    end: int
    pattern: int


class Matches(Sequence[Match]):
    """Matches in the order of their ends, those with one end in the order of their patterns.

    `starts`, `ends`: u64, offsets in the decoded bytes, as of slices: `decoded[start:end]` is what matched.
    `patterns`: u32, the numbers of the patterns, from 0.
    A slice is `Matches` that share the arrays.
    """

    __slots__ = ("_spans_of", "ends", "patterns", "starts")

    def __init__(
        self,
        starts: Offsets,
        ends: Offsets,
        patterns: NDArray[np.uint32],
        spans_of: Callable[[Offsets, Offsets], tuple[Offsets, Offsets]] | None = None,
    ) -> None:
        """`spans_of`: where the text has the characters of decoded bytes; None for bytes that nothing encodes."""
        self.starts, self.ends, self.patterns = starts, ends, patterns
        self._spans_of = spans_of

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
            return Matches(self.starts[place], self.ends[place], self.patterns[place], self._spans_of)
        return Match(int(self.starts[place]), int(self.ends[place]), int(self.patterns[place]))

    def __eq__(self, other: object) -> bool:
        """Whether the matches are the same; the texts may be others."""
        if not isinstance(other, Matches):
            return NotImplemented
        mine, theirs = (self.starts, self.ends, self.patterns), (other.starts, other.ends, other.patterns)
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    __hash__ = None  # type: ignore[assignment] - arrays may be changed

    def __repr__(self) -> str:
        shown = [f"{m.start}-{m.end} pattern {m.pattern}" for m in (*self[:SHOWN], *self[SHOWN:][-SHOWN:])]
        if len(self) > 2 * SHOWN:
            shown.insert(SHOWN, "...")
        return f"<{len(self)} matches{': ' * bool(shown)}{', '.join(shown)}>"

    def encoded_spans(self) -> tuple[Offsets, Offsets]:
        """The starts and ends, u64, of the characters that hold the matches in the text as it was given.

        A span has all characters that hold a bit of its match, and what the text has between them, such as line breaks.
        """
        return (self.starts, self.ends) if self._spans_of is None else self._spans_of(self.starts, self.ends)

    def to_arrow(self) -> pyarrow.Table:
        """A table with the columns start, end (u64) and pattern (u32), which shares the arrays.

        Raises ImportError without pyarrow: `pip install 'vyre-opt[arrow]'`.
        """
        import pyarrow

        columns: dict[str, Any] = {"start": self.starts, "end": self.ends, "pattern": self.patterns}
        return pyarrow.table({name: pyarrow.array(column) for name, column in columns.items()})
