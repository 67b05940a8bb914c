"""Sets of elements that the lanes of a workgroup touch, exact: bit masks, counted from what all lanes of the workgroup agree on.

load @h[64*w + 4*l + k]   l of 16 lanes, k of 4 iterations:   fixed 64*w, elements {0..63}
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from .terms import GROUP, LANE, TURN, Form, Terms
from .walk import Access

__all__ = ["Elements", "elements", "lane_conditions"]

MOST_BITS = 1 << 21
"""Most bits of a mask."""
MOST_VALUES = 1 << 16
"""Most values of an atom that is taken for all of them."""


@dataclass(frozen=True)
class Elements:
    """Elements from `low` on whose bit is set in `mask`, beyond `fixed`: multiples of atoms that the workgroup agrees on."""

    fixed: tuple[tuple[int, int], ...]
    low: int
    mask: int

    @property
    def high(self) -> int:
        return self.low + self.mask.bit_length() - 1

    def spread(self, stride: int, count: int) -> Elements | None:
        """The union of the sets that are moved by each multiple of `stride` below `count`; None where that is large."""
        low = self.low + min(0, stride * (count - 1))
        if stride == 0 or count <= 1:
            return self
        stride, mask, done = abs(stride), self.mask, 1
        if mask.bit_length() + stride * count > MOST_BITS:
            return None
        while done < count:
            step = min(done, count - done)
            mask |= mask << stride * step
            done += step
        return Elements(self.fixed, low, mask)

    def without(self, atom: int) -> tuple[int, Elements]:
        """The multiple of an atom, and the elements beyond what is left."""
        factors = dict(self.fixed)
        times = factors.pop(atom, 0)
        return times, Elements(tuple(sorted(factors.items())), self.low, self.mask)

    def covers(self, other: Elements) -> bool:
        shift = other.low - self.low
        mask = other.mask << shift if shift >= 0 else other.mask >> -shift
        is_below = shift < 0 and other.mask & (1 << -shift) - 1
        return self.fixed == other.fixed and not is_below and mask & ~self.mask == 0

    def union(self, other: Elements) -> Elements:
        low = min(self.low, other.low)
        return Elements(self.fixed, low, self.mask << self.low - low | other.mask << other.low - low)


def lane_conditions(terms: Terms, access: Access) -> list[bool]:
    """Whether conditions on local ids alone let each lane come to an access."""
    lanes = [True] * terms.local_count
    for condition, holds in access.when:
        values = terms.lanes(condition)
        if values is not None:
            lanes = [lane and bool(value) == holds for lane, value in zip(lanes, values, strict=True)]
    return lanes


def elements(
    terms: Terms, access: Access, index: int, turns: Collection[int] = (), is_read: bool = False
) -> Elements | None:
    """The elements of an access whose index, or place, is `index`: in all lanes that come to it, and all iterations whose atoms are
    among `turns`.  Of a read also those of all values that an atom of few values may have.  None where they are not known."""
    form = terms.modular(index)
    if not terms.is_whole(index, access.width):
        return None
    lanes, fixed, counted = Form(form.const, {}), dict[int, int](), list[tuple[int, int, int]]()
    for atom, times in form.atoms.items():
        low, high = terms.bounds[atom]
        if terms.varies[atom] == LANE and terms.lanes(atom) is not None:
            lanes = lanes.plus(Form(0, {atom: times}))
        elif atom in turns:
            counted.append((times, low, high - low + 1))
        elif not terms.varies[atom] & ~(GROUP | TURN):
            fixed[atom] = times
        elif is_read and high - low < MOST_VALUES:
            counted.append((times, low, high - low + 1))
        else:
            return None
    values = terms.lane_sums(lanes)
    if values is None:
        return None
    lanes_of = [
        value for value, is_here in zip(values, lane_conditions(terms, access), strict=True) if is_here
    ]
    if not lanes_of:
        return Elements(tuple(sorted(fixed.items())), 0, 0)
    least = min(lanes_of)
    if max(lanes_of) - least > MOST_BITS:
        return None
    mask = 0
    for value in set(lanes_of):
        mask |= 1 << value - least
    result = Elements(tuple(sorted(fixed.items())), least, mask)
    for times, low, count in [(1, 0, access.width), *counted]:
        wider = result.spread(times, count)
        if wider is None:
            return None
        result = Elements(wider.fixed, wider.low + times * low, wider.mask)
    return result
