"""Sets of integers as bit masks, for exact footprints.

An affine expression maps a box of symbol values to a set of elements: a sum (in the sense of Minkowski)
of strided ranges.  Adding one more range takes O(log n) shifts and ors of one big integer, since
`{a} + {0, s, 2s, ..., (n-1)s}` can be doubled at every step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from ..records import dataclass
from .virtual_index import component

__all__ = ["EMPTY", "MAX_SPAN", "Elements"]

ROWS = {1: 1, 2: 1 << 11, 3: 1 << 7}
"""Elements of a row in sets of elements of so many dimensions, so that their square, or cube, is about MAX_SPAN."""

MAX_SPAN = 1 << 22
"""Largest distance between elements of a set (512 KiB of bits); sets that span more are not tracked."""


@dataclass(frozen=True, slots=True)
class Elements:
    """The set `{low + i : bit i of bits is set}`; bit 0 is set unless the set is empty.

    Elements of several dimensions are numbers in a grid whose rows are `ROWS[dimensions]` long; callers count in virtual
    indices (see virtual_index.py).  `box`: bounds of what the set spans along each dimension, which is less than
    half of that; () for one dimension.
    """

    low: int
    bits: int
    box: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    @staticmethod
    def single(value: int, dimensions: int = 1) -> Elements | None:
        """One element; None where it is too far from 0 to track."""
        if dimensions == 1:
            return Elements(value, 1)
        element = component(value, dimensions)
        return _checked(_linear_index(element), 1, tuple((index, index) for index in element))

    @staticmethod
    def of(values: Iterable[int], dimensions: int = 1) -> Elements | None:
        """Set of the values; None past MAX_SPAN."""
        numbers = set(values)
        box: tuple[tuple[int, int], ...] = ()
        if dimensions > 1 and numbers:
            elements = [component(number, dimensions) for number in numbers]
            numbers = set(map(_linear_index, elements))
            box = tuple((min(along), max(along)) for along in zip(*elements, strict=True))
            if not _is_tracked(box):
                return None
        low, high = min(numbers, default=0), max(numbers, default=0)
        if high - low >= MAX_SPAN:
            return None
        mask = bytearray((high - low) // 8 + 1)
        for number in numbers:
            mask[(number - low) // 8] |= 1 << (number - low) % 8
        return Elements(low, int.from_bytes(mask, "little"), box)

    def spread(self, stride: int, count: int) -> Elements | None:
        """The sum with `{0, stride, ..., (count-1) * stride}`; None past MAX_SPAN."""
        if count <= 0 or not self.bits:
            return EMPTY
        if stride == 0 or count == 1:
            return self
        box = self.box
        if box:
            by = component(stride, len(box))
            box = _hull(box, _translate(box, tuple(each * (count - 1) for each in by)))
            if not _is_tracked(box):
                return None
            stride = _linear_index(by)
        reach = (count - 1) * stride
        low = self.low + min(0, reach)
        if self.bits.bit_length() + abs(reach) > MAX_SPAN:
            return None
        stride, bits, done = abs(stride), self.bits, 1
        while done < count:
            step = min(done, count - done)
            bits |= bits << (step * stride)
            done += step
        return Elements(low, bits, box)

    def shifted(self, by: int) -> Elements | None:
        """All elements moved; None where they get too far from 0 to track."""
        if not self.box:
            return Elements(self.low + by, self.bits)
        step = component(by, len(self.box))
        return _checked(self.low + _linear_index(step), self.bits, _translate(self.box, step))

    def union(self, other: Elements) -> Elements | None:
        """The union; None past MAX_SPAN."""
        if not self.bits:
            return other
        if not other.bits:
            return self
        low = min(self.low, other.low)
        if max(self.high, other.high) - low >= MAX_SPAN:
            return None
        bits = (self.bits << (self.low - low)) | (other.bits << (other.low - low))
        return Elements(low, bits, _hull(self.box, other.box))

    def minus(self, other: Elements) -> Elements:
        """The difference: the elements that `other` does not have."""
        if other.low > self.high or other.high < self.low:
            return self  # disjoint, and perhaps so far apart that the shift below would be huge
        offset = other.low - self.low
        mask = other.bits << offset if offset >= 0 else other.bits >> -offset
        bits = self.bits & ~mask
        if not bits:
            return EMPTY
        first = (bits & -bits).bit_length() - 1
        return Elements(self.low + first, bits >> first, self.box)

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


# --- several dimensions

Box = tuple[tuple[int, int], ...]


def _linear_index(element: tuple[int, ...]) -> int:
    """The number of a place in the grid."""
    number, row = 0, ROWS[len(element)]
    for index in element:
        number = number * row + index
    return number


def _is_tracked(box: Box) -> bool:
    """Whether no two places in the box have one number: inner indices lie within half a row on either side of 0."""
    half = ROWS[len(box)] // 2
    return all(-half < low and high < half for low, high in box[1:])


def _checked(low: int, bits: int, box: Box) -> Elements | None:
    return Elements(low, bits, box) if _is_tracked(box) else None


def _translate(box: Box, step: tuple[int, ...]) -> Box:
    return tuple((low + by, high + by) for (low, high), by in zip(box, step, strict=True))


def _hull(one: Box, other: Box) -> Box:
    pairs = zip(one, other, strict=True)
    return tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in pairs)
