"""Number of elements of a buffer that a whole launch touches, each counted once.

    x[256*w + l - 1], w below 4, l below 256, where 0 < 256*w + l < 1000     elements 0 to 998: 999 of them
    x[2*i + 1], i below 100                                                  1, 3, .. 199: 100
    x[y[i]]                                                                  what y holds: all of them at most

An index is a sum of symbols, each of which takes all values of a range, so its values are a sum of progressions.  A sum of
these is one again, or has gaps; then it is bounded by the one without.  Conditions around an access narrow what they compare.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import gcd, prod

from ..ir.loops import bounds
from ..ir.program import Op
from ..records import dataclass
from .affine import AffineExpr, Range, Symbol, SymbolKind
from .congruence import fits
from .footprint import Footprints, Guard, MemoryAccess

__all__ = ["Touched", "touched"]

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


@dataclass(frozen=True, slots=True)
class Touched:
    """`elements`: exactly so many, or at most."""

    elements: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class _Progression:
    """`low`, `low + step`, .. `high`.  `limit`: upper bound of their number if some are missing; `is_exact`: none is."""

    low: int
    high: int
    step: int
    limit: int
    is_exact: bool = True

    @staticmethod
    def of(low: int, high: int, step: int = 1) -> _Progression:
        return _Progression(low, high, step, max(0, (high - low) // step + 1))

    @property
    def count(self) -> int:
        return max(0, min(self.limit, (self.high - self.low) // self.step + 1))

    def scaled(self, factor: int) -> _Progression:
        if not self.count:
            return self
        ends = sorted((factor * self.low, factor * self.high))
        return replace(self, low=ends[0], high=ends[1], step=self.step * abs(factor))

    def clip(self, low: int, high: int) -> _Progression:
        """Its elements from `low` to `high`."""
        first = self.low + max(0, -(-(low - self.low) // self.step)) * self.step
        last = self.high - max(0, -(-(self.high - high) // self.step)) * self.step
        return replace(self, low=first, high=last)

    def __add__(self, other: _Progression) -> _Progression:
        """The sums of an element of each."""
        if not self.count or not other.count:
            return _Progression.of(0, -1)
        if self.count == 1 or other.count == 1:
            full, shift = (self, other.low) if other.count == 1 else (other, self.low)
            return replace(
                full,
                low=full.low + shift,
                high=full.high + shift,
                is_exact=self.is_exact and other.is_exact,
            )
        fine, coarse = sorted((self, other), key=lambda each: each.step)
        step, low, high = gcd(fine.step, coarse.step), fine.low + coarse.low, fine.high + coarse.high
        # the fine one reaches from each element of the coarse one to the next
        is_full = coarse.step % fine.step == 0 and coarse.step <= fine.high - fine.low + fine.step
        most = min(fine.count * coarse.count, (high - low) // step + 1)
        exact = fine.is_exact and coarse.is_exact and is_full
        return _Progression(low, high, step, most, exact)


def touched(footprints: Footprints, accesses: Sequence[MemoryAccess], shape: Sequence[int]) -> Touched:
    """The elements of a buffer of this shape that accesses to it touch.

    `footprints`: of the program as the launch binds it, with its grid (see `Program.grid`).
    """
    boxes = [_box(footprints, access, shape) for access in accesses]
    total = prod(shape)
    union = _union([box for box in boxes if all(along.count for along in box)])
    if union is not None:
        elements = prod(along.count for along in union)
        return Touched(min(elements, total), all(along.is_exact for along in union))
    return Touched(min(total, sum(prod(along.count for along in box) for box in boxes)), False)


def _union(boxes: Sequence[Sequence[_Progression]]) -> Sequence[_Progression] | None:
    """The box that is exactly the union of the boxes; None if there is no such box."""
    if not boxes:
        return [_Progression.of(0, -1)]
    union, *remaining = sorted(boxes, key=lambda box: [along.low for along in box])
    for box in remaining:
        differing = [axis for axis, (one, other) in enumerate(zip(union, box, strict=True)) if one != other]
        if not differing:
            continue
        if len(differing) > 1:
            if all(_holds(one, other) for one, other in zip(union, box, strict=True)):
                continue
            if not all(_holds(other, one) for one, other in zip(union, box, strict=True)):
                return None
            union = box
            continue
        axis = differing[0]
        union_of_axis = _join(union[axis], box[axis])
        if union_of_axis is None:
            return None
        union = [union_of_axis if number == axis else along for number, along in enumerate(union)]
    return union


def _holds(outer: _Progression, inner: _Progression) -> bool:
    """Whether one has all elements of the other."""
    fits = inner.step % outer.step == 0 and (inner.low - outer.low) % outer.step == 0
    return outer.is_exact and fits and outer.low <= inner.low and inner.high <= outer.high


def _join(first: _Progression, second: _Progression) -> _Progression | None:
    """One progression of the elements of both, if they make one."""
    for a, b in ((first, second), (second, first)):
        if _holds(a, b):
            return a
    if (
        first.step != second.step
        or (second.low - first.low) % first.step
        or second.low > first.high + first.step
    ):
        return None
    high = max(first.high, second.high)
    merged = _Progression.of(first.low, high, first.step)
    return replace(
        merged,
        limit=min(merged.count, first.count + second.count),
        is_exact=first.is_exact and second.is_exact,
    )


def _box(footprints: Footprints, access: MemoryAccess, shape: Sequence[int]) -> list[_Progression]:
    """The elements of one access along each dimension, all of them where its index is not known."""
    if not isinstance(access.index, AffineExpr):
        return [replace(_Progression.of(0, extent - 1), is_exact=False) for extent in shape]
    along = access.along()
    symbols = {symbol for each in along for symbol in each.expr.terms}
    conditions = [*map(_condition, access.guards), *_of_loops(footprints, access, symbols)]
    guards_used: set[int] = set()
    box = []
    for each, extent in zip(along, shape, strict=True):
        values = _values(each.expr, access.lanes, conditions, guards_used)
        wide = values + _Progression.of(0, each.width - 1) + _Progression.of(0, each.rows - 1)
        box.append(wide.clip(0, extent - 1))
    is_rest = any(
        number not in guards_used and not _is_always(each) for number, each in enumerate(conditions)
    )
    is_shared = len(symbols) < sum(len(each.expr.terms) for each in along)
    is_known = all(_is_free(symbol) for symbol in symbols) and not is_rest and not is_shared
    return box if is_known else [replace(each, is_exact=False) for each in box]


@dataclass(frozen=True, slots=True)
class _Condition:
    """A sum without a constant lies in a range.  Its coefficients have no common divisor, so `3 * i < n` narrows `i`."""

    expr: AffineExpr
    low: int
    high: int

    @staticmethod
    def of(expr: AffineExpr, low: int, high: int) -> _Condition:
        """The condition on `expr` without its constant; there are symbols in it."""
        by, low, high = gcd(*expr.terms.values()), low - expr.const, high - expr.const
        return _Condition(
            AffineExpr(0, {s: c // by for s, c in expr.terms.items()}), -(-low // by), high // by
        )


def _values(
    index: AffineExpr,
    lanes: Mapping[Symbol, Range],
    conditions: Sequence[_Condition | None],
    guards_used: set[int],
) -> _Progression:
    """The values of an index under conditions; numbers of the conditions that narrow it are added to `guards_used`."""
    index_left = index
    parts: dict[frozenset[tuple[Symbol, int]], tuple[int, _Condition]] = {}
    for number, condition in enumerate(conditions):
        if condition is None:
            continue
        key = condition.expr.key
        if key in parts:
            factor, is_known = parts[key]
            low, high = max(is_known.low, condition.low), min(is_known.high, condition.high)
            parts[key] = factor, replace(is_known, low=low, high=high)
        else:
            times = _factor(index_left, condition.expr)
            if times is None:
                continue
            parts[key] = times, condition
            index_left = index_left + condition.expr.scaled(-times)
        guards_used.add(number)
    terms = [
        _sum(each.expr, lanes).clip(each.low, each.high).scaled(factor) for factor, each in parts.values()
    ]
    total = _Progression.of(0, 0)
    for term in sorted([*terms, *_terms(index_left, lanes)], key=lambda term: term.step):
        total = total + term
    return total + _Progression.of(index.const, index.const)


def _condition(guard: Guard) -> _Condition | None:
    """The guard, if it compares a sum with a constant."""
    if guard.left is None or guard.right is None or guard.dtype is None or guard.relation == "ne":
        return None
    for relation, moving, bound in (
        (guard.relation, guard.left, guard.right),
        (_FLIPPED[guard.relation], guard.right, guard.left),
    ):
        if bound.is_const and not moving.is_const and fits(moving.range(), guard.dtype):
            low, high = moving.range()
            if relation in ("lt", "le", "eq"):
                high = bound.const - (relation == "lt")
            if relation in ("gt", "ge", "eq"):
                low = bound.const + (relation == "gt")
            return _Condition.of(moving, low, high)
    return None


def _of_loops(
    footprints: Footprints, access: MemoryAccess, symbols: Collection[Symbol]
) -> Iterator[_Condition | None]:
    """Relation that holds while the loops around have not ended: `lower + step * iteration < upper`."""
    for counter in access.loops:
        if counter is None:
            yield None
        elif counter.symbol in symbols or not counter.min_trips:
            loop = counter.symbol.identity
            assert isinstance(loop, Op)
            bound = bounds(loop)[1]
            upper = AffineExpr(bound) if isinstance(bound, int) else footprints.affine.form(bound)
            if upper is None or not upper.is_const:
                yield None
                continue
            expr = counter.lower + AffineExpr.of(counter.symbol).scaled(counter.step)
            yield _Condition.of(expr, expr.range()[0], upper.const - 1)


def _is_always(condition: _Condition | None) -> bool:
    """Whether a condition holds for all values of its symbols."""
    if condition is None:
        return False
    least, most = condition.expr.range()
    return condition.low <= least and most <= condition.high


def _is_free(symbol: Symbol) -> bool:
    """Whether a symbol takes all values of its range in a launch: an id, or a loop's iteration."""
    return symbol.kind in (SymbolKind.LOCAL, SymbolKind.LOOP) or symbol.name.startswith("workgroup_id.")


def _factor(multiple: AffineExpr, part: AffineExpr) -> int | None:
    """The number of times that a sum contains another one."""
    factors = {divmod(multiple.terms.get(symbol, 0), c) for symbol, c in part.terms.items()}
    (factor, remainder), *more_factors = factors
    return factor if factor and not remainder and not more_factors else None


def _sum(expr: AffineExpr, lanes: Mapping[Symbol, Range]) -> _Progression:
    total = _Progression.of(0, 0)
    for term in sorted(_terms(expr, lanes), key=lambda term: term.step):
        total = total + term
    return total


def _terms(expr: AffineExpr, lanes: Mapping[Symbol, Range]) -> list[_Progression]:
    return [_Progression.of(*lanes.get(symbol, symbol.range)).scaled(c) for symbol, c in expr.terms.items()]
