"""Sets of integers as bit masks, for exact footprints.

An affine expression maps a box of symbol values to a set of elements: a sum (in the sense of Minkowski)
of strided ranges.  Adding one more range takes O(log n) shifts and ors of one big integer, since
`{a} + {0, s, 2s, ..., (n-1)s}` can be doubled at every step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["MAX_SPAN", "Elements"]

MAX_SPAN = 1 << 22
"""Largest distance between elements of a set (512 KiB of bits); sets that span more are not tracked."""


@dataclass(frozen=True, slots=True)
class Elements:
    """The set `{low + i : bit i of bits is set}`; bit 0 is set unless the set is empty."""

    low: int
    bits: int

    @staticmethod
    def single(value: int) -> Elements:
        return Elements(value, 1)

    @staticmethod
    def of(values: Iterable[int]) -> Elements | None:
        """These values; None past MAX_SPAN."""
        numbers = set(values)
        low, high = min(numbers, default=0), max(numbers, default=0)
        if high - low >= MAX_SPAN:
            return None
        mask = bytearray((high - low) // 8 + 1)
        for number in numbers:
            mask[(number - low) // 8] |= 1 << (number - low) % 8
        return Elements(low, int.from_bytes(mask, "little"))

    def spread(self, stride: int, count: int) -> Elements | None:
        """The sum with `{0, stride, ..., (count-1) * stride}`; None past MAX_SPAN."""
        if count <= 0 or not self.bits:
            return EMPTY
        if stride == 0 or count == 1:
            return self
        reach = (count - 1) * stride
        low = self.low + min(0, reach)
        if self.bits.bit_length() + abs(reach) > MAX_SPAN:
            return None
        stride, bits, done = abs(stride), self.bits, 1
        while done < count:
            step = min(done, count - done)
            bits |= bits << (step * stride)
            done += step
        return Elements(low, bits)

    def shifted(self, by: int) -> Elements:
        return Elements(self.low + by, self.bits)

    def union(self, other: Elements) -> Elements | None:
        """The union; None past MAX_SPAN."""
        if not self.bits:
            return other
        if not other.bits:
            return self
        low = min(self.low, other.low)
        if max(self.high, other.high) - low >= MAX_SPAN:
            return None
        return Elements(low, (self.bits << (self.low - low)) | (other.bits << (other.low - low)))

    def minus(self, other: Elements) -> Elements:
        """The difference: the elements that `other` does not have."""
        if other.low > self.high or other.high < self.low:
            return self  # disjoint, and perhaps so far apart that the shift below would be huge
        offset = other.low - self.low
        removed = other.bits << offset if offset >= 0 else other.bits >> -offset
        bits = self.bits & ~removed
        if not bits:
            return EMPTY
        first = (bits & -bits).bit_length() - 1
        return Elements(self.low + first, bits >> first)

    @property
    def high(self) -> int:
        """The largest element (low - 1 for the empty set)."""
        return self.low + self.bits.bit_length() - 1

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __bool__(self) -> bool:
        return self.bits != 0

    def __str__(self) -> str:
        if not self.bits:
            return "{}"
        if len(self) == 1:
            return f"{{{self.low}}}"
        dense = len(self) == self.high - self.low + 1
        return f"[{self.low}, {self.high}]" + ("" if dense else f" ({len(self)} of them)")


EMPTY = Elements(0, 0)
