"""Matches of patterns, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from .encodings import Encoding

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Match", "Matches"]

Offsets = NDArray[np.uint64]
SHOWN = 3
"""Matches that `repr` shows at each end."""


class Match(NamedTuple):
    """Match of `data[start:end]` with the pattern of number `pattern`."""

    start: int
    end: int
    pattern: int


class Matches(Sequence[Match]):
    """Matches in the order of their ends, those with one end in the order of their patterns.

    `starts`, `ends`: u64, offsets in the decoded bytes, as of slices: `decoded[start:end]` is what matched.
    `patterns`: u32, the numbers of the patterns, from 0.
    A slice is `Matches` that share the arrays, which are read-only; a mask or a list of places gives `Matches`, too.
    """

    __slots__ = ("_encoding", "_spans", "ends", "patterns", "starts")

    def __init__(
        self,
        starts: Offsets,
        ends: Offsets,
        patterns: NDArray[np.uint32],
        spans: tuple[Offsets, Offsets] | None = None,
        encoding: Encoding | None = None,
    ) -> None:
        """Keep the arrays.  `spans`: starts and ends of the characters in the text.  None: they are those of the bytes, or follow
        from them by the encoding of a text without blanks."""
        self.starts, self.ends, self.patterns = starts, ends, patterns
        self._spans, self._encoding = spans, encoding
        for array in (starts, ends, patterns, *(spans or ())):
            array.flags.writeable = False

    @classmethod
    def none(cls) -> Matches:
        return cls(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.uint32))

    @classmethod
    def joined(cls, parts: Sequence[Matches]) -> Matches:
        """The matches of all parts, in order."""
        filled = [part for part in parts if len(part)]
        if len(filled) <= 1:
            return filled[0] if filled else cls.none()
        encoding = filled[0]._encoding
        is_regular = all(part._spans is None and part._encoding is encoding for part in filled)
        rows = [
            (part.starts, part.ends, part.patterns, *(() if is_regular else part.encoded_spans()))
            for part in filled
        ]
        columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
        _, ends, patterns, *_ = columns
        is_out_of_order = (ends[1:] < ends[:-1]) | ((ends[1:] == ends[:-1]) & (patterns[1:] < patterns[:-1]))
        if is_out_of_order.any():  # a part may show what ends in the one before
            order = np.lexsort((columns[2], columns[1]))
            columns = [column[order] for column in columns]
        if is_regular:
            return cls(columns[0], columns[1], columns[2], None, encoding)
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
    def __getitem__(self, key: int) -> Match: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | NDArray[Any]) -> Matches: ...
    def __getitem__(self, key: int | slice | Sequence[int] | NDArray[Any]) -> Match | Matches:
        if key is None or isinstance(key, tuple):
            raise TypeError(f"matches are chosen by a number, a slice, a list or a mask, not {key!r}")
        if not isinstance(key, (int, np.integer)):
            spans = None if self._spans is None else (self._spans[0][key], self._spans[1][key])
            columns = self.starts[key], self.ends[key], self.patterns[key]
            return Matches(*columns, spans, self._encoding)
        return Match(int(self.starts[key]), int(self.ends[key]), int(self.patterns[key]))

    def __eq__(self, other: object) -> bool:
        """Whether the matches are the same; the texts may be others."""
        if not isinstance(other, Matches):
            return NotImplemented
        pairs = (self.starts, other.starts), (self.ends, other.ends), (self.patterns, other.patterns)
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        texts = [f"{m.start}-{m.end} pattern {m.pattern}" for m in (*self[:SHOWN], *self[SHOWN:][-SHOWN:])]
        if len(self) > 2 * SHOWN:
            texts.insert(SHOWN, "...")
        return f"<{len(self)} match{'es' * (len(self) != 1)}{': ' * bool(texts)}{', '.join(texts)}>"

    def encoded_spans(self) -> tuple[Offsets, Offsets]:
        """The starts and ends, u64, of the characters that hold the matches in the text as it was given.

        A span has all characters that hold a bit of its match, and what the text has between them, such as line breaks.
        """
        if self._spans is None:
            if self._encoding is None:
                return self.starts, self.ends
            self._spans = self._encoding.spans(self.starts, self.ends)
            for array in self._spans:
                array.flags.writeable = False
        return self._spans

    def to_arrow(self) -> pyarrow.Table:
        """A table with the columns start, end (u64) and pattern (u32), which shares the arrays.

        Raises ImportError without pyarrow: `pip install 'vyre-opt[arrow]'`.
        """
        try:
            import pyarrow
        except ImportError:
            raise ImportError("tables need pyarrow: pip install 'vyre-opt[arrow]'") from None

        columns: dict[str, Any] = {"start": self.starts, "end": self.ends, "pattern": self.patterns}
        return pyarrow.table({name: pyarrow.array(column) for name, column in columns.items()})
