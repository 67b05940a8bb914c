"""Dependence tests: whether two accesses of one body may touch one element from different workgroups or lanes.

When two launches become one body, one after the other, the end of the first launch no longer orders
them; only the order within a workgroup is left.  So for an access of the first part and one of the
second, one of which writes, the question is whether they can touch the same element *from different
workgroups*.  Three arguments exclude it:

  ids       The element determines the workgroup.  Both indices have the same strides from one
            workgroup to the next, and the remaining terms span less than a stride:

                @h[64*workgroup_id.x + local_id.x]  and  @h[64*workgroup_id.x - local_id.x + 63]
                stride 64, the rest within [0, 63]

  disjoint  The element sets have nothing in common: their bounds do not overlap, or they differ
            modulo what divides all strides (the GCD test).

  covered   (in coverage)  The workgroup that makes one access surely writes the same element in the
            other part.  An access of it by another workgroup would be a race in that part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..ir.ops import AXES
from ..ir.program import Value
from ..ir.uniformity import Level, Uniformity
from ..records import dataclass
from .affine import AffineExpr, Range, Symbol, SymbolKind
from .congruence import modulus
from .footprint import Footprints, MemoryAccess

__all__ = ["Extents", "DependenceTest", "workgroup_axis"]

MAX_COUNT = 1 << 32  # invocations along an axis, since ids are u32

Extents = tuple[int | None, int | None, int | None]
"""Workgroups of a dispatch along each axis; None where unknown."""


def workgroup_axis(symbol: Symbol) -> int | None:
    """0, 1 or 2 for a workgroup id, None for any other symbol."""
    if (
        symbol.kind is SymbolKind.GROUP
        and symbol.identity is None
        and symbol.name.startswith("workgroup_id.")
    ):
        return AXES.index(symbol.name[-1])
    return None


@dataclass(frozen=True, slots=True)
class _IndexParts:
    """The terms of an index, by what they vary with.

    `strides`: the coefficient of each coordinate.  Coordinates are the workgroup ids (`wx`, `wy`, `wz`)
    and local ids (`lx`, `ly`, `lz`).  `shared`: the terms that are one number for the whole dispatch.
    `rest`: bounds of all other terms.
    """

    strides: Mapping[str, int]
    shared: AffineExpr
    rest: Range


class DependenceTest:
    """Proves that accesses of one body, run over `extents` workgroups, do not overlap.  False means unknown."""

    def __init__(self, footprints: Footprints, extents: Extents) -> None:
        self.uniformity: Uniformity = footprints.uniformity
        lanes = footprints.program.workgroup
        max_groups = [MAX_COUNT // size for size in lanes]
        counts = [limit if n is None else min(n, limit) for n, limit in zip(extents, max_groups, strict=True)]
        self.groups = {f"w{axis}": n for axis, n in zip(AXES, counts, strict=True) if n > 1}
        self.lanes = {f"l{axis}": n for axis, n in zip(AXES, lanes, strict=True) if n > 1}

    def disjoint_between_workgroups(self, p: MemoryAccess, q: MemoryAccess) -> bool:
        """No element is touched by `p` in one workgroup and by `q` in another."""
        return self.disjoint(p, q) or self._element_determines_ids(p, q, self.groups)

    def disjoint_between_lanes(self, p: MemoryAccess, q: MemoryAccess) -> bool:
        """No element is touched by `p` in one invocation and by `q` in another."""
        if self.disjoint(p, q):
            return True
        # any lane of a collective access may touch any of its elements
        is_collective = p.is_collective or q.is_collective
        return not is_collective and self._element_determines_ids(p, q, {**self.groups, **self.lanes})

    def disjoint(self, p: MemoryAccess, q: MemoryAccess) -> bool:
        """No element is touched by both, in any workgroups: along some dimension, no index is."""
        return any(self._disjoint(a, b) for a, b in zip(p.along(), q.along(), strict=True))

    def _disjoint(self, p: MemoryAccess, q: MemoryAccess) -> bool:
        difference = self._difference(p, q, {})
        if difference is None:
            return False
        (low, high), const, strides = difference
        # equal elements have expressions that are equal only modulo this, so bounds that are apart as
        # integers prove nothing if the difference can reach it
        wrap = modulus(p.residue, q.residue)
        if (low > 0 or high < 0) and (not wrap or max(-low, high) < wrap):
            return True
        unit = math.gcd(*strides, wrap)
        if unit < 2:
            return False
        # the elements of two vectors meet at any of these offsets
        return all((const + offset) % unit for offset in range(1 - q.width, p.width))

    # --- the element determines the coordinates ---------------------------------------------

    def _element_determines_ids(self, p: MemoryAccess, q: MemoryAccess, counts: Mapping[str, int]) -> bool:
        """Whether equal elements have equal coordinates; `counts`: how many values each coordinate takes.

        Along each dimension, equal indices may show that some coordinates are equal, and then other dimensions more.
        """
        # under `if local_id.x == 0` on both sides, the local id cannot differ at all
        fixed_ids = {name for name in counts if _is_single_lane(p, q, name)}
        pairs = list(zip(p.along(), q.along(), strict=True))
        while fixed_ids != counts.keys():
            before = len(fixed_ids)
            for a, b in pairs:
                fixed_ids |= self._determined_ids(a, b, counts, fixed_ids)
            if len(fixed_ids) == before:
                return False
        return True

    def _determined_ids(
        self, p: MemoryAccess, q: MemoryAccess, counts: Mapping[str, int], fixed_ids: set[str]
    ) -> set[str]:
        """The coordinates that are equal where the indices along a dimension are, as those in `fixed_ids` are.

        If the coordinates differ by d, the indices differ by sum(stride * d) + rest.  Of the coordinates
        that differ, take the one with the largest stride: if its stride exceeds all that the smaller
        strides and the rest can add up to, the indices differ.
        """
        difference = self._difference(p, q, counts)
        if difference is None:
            return set()
        (low, high), _, _ = difference
        strides = self._index_parts(p, counts).strides
        reaches = [max(-low, high)]
        names = sorted(
            (name for name in counts.keys() - fixed_ids if strides.get(name)),
            key=lambda name: abs(strides[name]),
        )
        for name in names:
            reaches.append(reaches[-1] + abs(strides[name]) * (counts[name] - 1))
        # numbers that are equal modulo `wrap` and differ by less than it are equal
        wrap = modulus(p.residue, q.residue)
        if wrap and reaches[-1] >= wrap:
            return set()
        ids: set[str] = set()
        for name, reach in reversed(list(zip(names, reaches, strict=False))):
            if abs(strides[name]) <= reach:
                break
            ids.add(name)
        return ids

    def _difference(
        self, p: MemoryAccess, q: MemoryAccess, counts: Mapping[str, int]
    ) -> tuple[Range, int, list[int]] | None:
        """Elements of `p` minus those of `q` at equal coordinates: bounds, the constant, and all strides.

        None where an expression is missing, or the two have different strides for the coordinates `counts`.
        """
        if not (isinstance(p.index, AffineExpr) and isinstance(q.index, AffineExpr)):
            return None
        a, b = self._index_parts(p, counts), self._index_parts(q, counts)
        if a.strides != b.strides:  # 4*w and 8*w meet at w = 2 and w = 1, whatever the bounds of the rest
            return None
        shared = a.shared - b.shared  # equal symbols cancel, however large they may be
        lowest, highest = (shared - AffineExpr(shared.const)).range()
        low = shared.const + lowest + a.rest[0] - b.rest[1] - (q.width - 1)
        high = shared.const + highest + a.rest[1] - b.rest[0] + (p.width - 1)
        # the GCD test assumes nothing of coordinates: those of `p` and of `q` are independent
        strides = [*shared.terms.values()]
        for expr in (p.expr, q.expr):
            strides += [c for symbol, c in expr.terms.items() if not self._is_shared(symbol)]
        return (low, high), shared.const, strides

    def _index_parts(self, access: MemoryAccess, counts: Mapping[str, int]) -> _IndexParts:
        strides: dict[str, int] = {}
        shared, low, high = AffineExpr(access.expr.const), 0, 0
        ids = access.expr.local_id_coefficients()[0] if any(name in self.lanes for name in counts) else {}
        strides.update({f"l{axis}": c for axis, c in ids.items() if f"l{axis}" in counts})
        for symbol, coefficient in access.expr.terms.items():
            axis = workgroup_axis(symbol)
            if axis is not None and f"w{AXES[axis]}" in counts:
                strides[f"w{AXES[axis]}"] = coefficient
            elif symbol.digit is not None and f"l{symbol.digit.axis}" in strides:
                continue
            elif self._is_shared(symbol):
                shared += AffineExpr(0, {symbol: coefficient})
            else:
                lowest, highest = self._range(access, symbol)
                low += min(coefficient * lowest, coefficient * highest)
                high += max(coefficient * lowest, coefficient * highest)
        return _IndexParts(strides, shared, (low, high))

    def _range(self, access: MemoryAccess, symbol: Symbol) -> Range:
        axis = workgroup_axis(symbol)
        if axis is not None:
            return 0, self.groups.get(f"w{AXES[axis]}", 1) - 1
        lowest, highest = access.lanes.get(symbol, symbol.range)
        return lowest, max(lowest, highest)  # an empty range: no lane gets here

    def _is_shared(self, symbol: Symbol) -> bool:
        """Whether the symbol is one number for the whole dispatch.

        GROUP symbols may differ between workgroups, so being one of them is not enough.
        """
        if symbol.kind is not SymbolKind.GROUP or symbol.loops or workgroup_axis(symbol) is not None:
            return False
        value = symbol.identity
        return isinstance(value, Value) and self.uniformity.level(value) is Level.GRID


def _is_single_lane(p: MemoryAccess, q: MemoryAccess, name: str) -> bool:
    """Whether one and the same local id along an axis makes both accesses."""
    if not name.startswith("l"):
        return False
    first = _fixed_local_id(p, name[1])
    return first is not None and first == _fixed_local_id(q, name[1])


def _fixed_local_id(access: MemoryAccess, axis: str) -> int | None:
    """The local id along an axis that the guards narrow the access to: all digits of it, as one alone is not enough."""
    number, lanes = 0, 1
    for symbol, (lowest, highest) in access.lanes.items():
        digit = symbol.digit
        if digit is not None and digit.axis == axis and lowest == highest:
            number, lanes = number + digit.stride * lowest, lanes * digit.radix
            if lanes == digit.size:
                return number
    return None
