"""Combinations of lanes by add, mul, min, max, and, or, xor, as terms: equal terms are equal in every bit.

    leaf      a value in a lane, of which no more is known; a constant
    a op b    floats by add and mul: a tree, whose two sides may be exchanged
              all else: the leaves that are combined, since neither order nor nesting changes the result

A leaf that changes nothing by a combiner is left out: 0 of add, but of floats only -0.0.  What 0.0 does to a sum is that
-0.0 becomes 0.0, wherever in the tree it stands: such a sum is marked, and so is what it is added to.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from heapq import heappop, heappush

from ..ir import arith
from ..ir.ops import SUBGROUP_SIZE
from ..ir.types import DataType

__all__ = ["Term", "Terms", "is_ordered"]

Term = int
"""The number of a term; equal terms have one number."""

_PLUS_ZERO = "plus zero"


def is_ordered(combine: str, dtype: DataType) -> bool:
    """Whether the order of combination may change a result."""
    return dtype.is_float and combine in ("add", "mul")


class Terms:
    def __init__(self) -> None:
        self._numbers: dict[Hashable, Term] = {}
        self._keys: list[tuple[Hashable, ...]] = []
        self._combined: dict[tuple[str, DataType, Term, Term], Term] = {}

    def leaf(self, *key: Hashable) -> Term:
        """The term of all that has this key."""
        return self._number(("leaf", *key))

    def const(self, value: int, dtype: DataType) -> Term:
        """Term of an encoded value."""
        return self._number(("const", value, dtype))

    def combine(self, combine: str, dtype: DataType, a: Term, b: Term) -> Term:
        key = combine, dtype, min(a, b), max(a, b)
        term = self._combined.get(key)
        if term is None:
            term = self._combined[key] = self._combine(*key)
        return term

    def fold(self, combine: str, dtype: DataType, terms: Sequence[Term]) -> Term:
        """Combine the terms of up to 32 lanes as `subgroup_reduce` does."""
        half, lanes = SUBGROUP_SIZE // 2, list(terms)
        while half:
            upper = lanes[half:]
            lanes = [
                self.combine(combine, dtype, v, upper[k]) if k < len(upper) else v
                for k, v in enumerate(lanes[:half])
            ]
            half //= 2
        return lanes[0]

    def run(self, combine: str, dtype: DataType, terms: Sequence[Term]) -> list[Term]:
        """Combine the terms of up to 32 lanes as an inclusive `subgroup_scan` does."""
        distance, lanes = 1, list(terms)
        while distance < SUBGROUP_SIZE:
            lanes = [
                self.combine(combine, dtype, lanes[k - distance], v) if k >= distance else v
                for k, v in enumerate(lanes)
            ]
            distance *= 2
        return lanes

    # --- looking into terms

    def combiner(self, term: Term) -> str | None:
        """Combiner of a term; None for a leaf."""
        kind, *parts = self._keys[self._without_zero(term)]
        return None if kind in ("leaf", "const") else str(parts[0])

    def leaves(self, term: Term) -> Counter[Term]:
        """The leaves that a term combines, constants included, and how often each.

        Each term inside is looked at once, however often it is combined: those that it is made of have lower numbers.
        """
        counts: Counter[Term] = Counter()
        times = Counter([self._without_zero(term)])
        pending = [-each for each in times]
        while pending:
            each = -heappop(pending)
            kind, *parts = self._keys[each]
            if kind in ("leaf", "const"):
                counts[each] += times[each]
                continue
            inside: tuple[Term, ...] = parts[-1]  # type: ignore[assignment]
            for part in map(self._without_zero, inside):
                if part not in times:
                    heappush(pending, -part)
                times[part] += times[each]
        return counts

    def constants(self, term: Term) -> list[Term]:
        """The constants that a term combines, 0.0 included."""
        literals = [leaf for leaf in self.leaves(term) if self._keys[leaf][0] == "const"]
        return literals + ([self._keys[term][2]] if self._has_zero(term) else [])  # type: ignore[list-item]

    def value(self, constant: Term) -> int:
        """The encoded value of a constant."""
        return self._keys[constant][1]  # type: ignore[return-value]

    def _has_zero(self, term: Term) -> bool:
        return self._keys[term][0] == _PLUS_ZERO

    def _without_zero(self, term: Term) -> Term:
        key = self._keys[term]
        return key[1] if key[0] == _PLUS_ZERO else term  # type: ignore[return-value]

    # --- numbers

    def _number(self, key: tuple[Hashable, ...]) -> Term:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return number

    def _combine(self, combine: str, dtype: DataType, a: Term, b: Term) -> Term:
        for constant, other in ((a, b), (b, a)):
            if self._is_neutral(constant, combine, dtype):
                return other
        if not is_ordered(combine, dtype):
            return self._unordered(combine, dtype, a, b)
        if combine == "add":
            zero = self.const(0, dtype)
            sides = [self._without_zero(side) for side in (a, b) if side != zero]
            if len(sides) < 2 or self._has_zero(a) or self._has_zero(b):
                total = self.combine(combine, dtype, *sides) if len(sides) == 2 else (sides or [zero])[0]
                return total if total == zero else self._number((_PLUS_ZERO, self._without_zero(total), zero))
        return self._number(("tree", combine, dtype, (a, b)))

    def _unordered(self, combine: str, dtype: DataType, a: Term, b: Term) -> Term:
        left, right = self._members(a, combine), self._members(b, combine)
        if combine in ("add", "mul"):
            members: Iterable[Term] = left + right
        elif combine == "xor":
            members = {*left} ^ {*right}
        else:
            members = {*left, *right}
        together = tuple(sorted(members))
        if not together:
            return self.const(arith.identity(combine, dtype), dtype)
        return together[0] if len(together) == 1 else self._number(("set", combine, dtype, together))

    def _members(self, term: Term, combine: str) -> tuple[Term, ...]:
        key = self._keys[term]
        return key[3] if key[0] == "set" and key[1] == combine else (term,)  # type: ignore[return-value]

    def _is_neutral(self, term: Term, combine: str, dtype: DataType) -> bool:
        key = self._keys[term]
        if key[0] != "const":
            return False
        value = key[1]
        assert isinstance(value, int)
        if dtype.is_float and combine in ("min", "max"):
            return math.isnan(arith.decode_float(value, dtype))
        return value == arith.neutral(combine, dtype)
