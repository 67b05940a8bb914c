"""Affine expressions: a constant and integer multiples of symbols.

An expression is equal to a program's integer value modulo 2^bits of the value's type.  Where its
range lies within the type's, it is equal to the value as an integer; `AffineAnalysis` requires that
for the ops that a wrap would break (a widening cast, a division).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import NamedTuple

from ..ir.program import Op
from ..records import dataclass

__all__ = ["AffineExpr", "ByLane", "Digit", "Range", "Symbol", "SymbolKind"]

Range = tuple[int, int]
"""Smallest and largest value, both included."""

ByLane = tuple[int, ...]
"""A value of each lane of a workgroup, x counting up first, then y, then z."""


class SymbolKind(Enum):
    """Kind of a symbol, by the ids or values that it varies with."""

    GROUP = "group"  # any value that is uniform over a workgroup
    LOCAL = "local"  # local id along an axis, or a digit of it
    LOOP = "loop"  # iteration number of a `for`: 0, 1, ..., trip count - 1
    VALUE = "value"  # varies between lanes; only its range, or its value in each lane, is known


class Digit(NamedTuple):
    """A local symbol is `local id / stride % radix`, `size` lanes along the axis; radix = size is the whole id."""

    axis: str
    stride: int
    radix: int
    size: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable of an affine expression.  Equal symbols have equal values in one workgroup and iteration.

    `loops`: the loops in which the value may change from one iteration to the next.
    `identity`: tells symbols of one kind and name apart; mostly the Value or the loop Op it stands for.
    `by_lane`: its values, if they depend on the local ids alone.
    """

    kind: SymbolKind
    name: str
    range: Range = field(compare=False)
    loops: frozenset[Op] = field(default=frozenset(), compare=False)
    identity: object = None
    digit: Digit | None = field(default=None, compare=False)
    by_lane: ByLane | None = field(default=None, compare=False, repr=False)

    def __hash__(self) -> int:
        return hash(self.name)  # tells nearly all apart, and a string keeps its hash

    def __str__(self) -> str:
        return self.name


class AffineExpr:
    """`const + sum(coefficient * symbol)`; immutable, without zero coefficients."""

    __slots__ = ("const", "terms")

    def __init__(self, const: int = 0, terms: Mapping[Symbol, int] | None = None) -> None:
        self.const = const
        self.terms: dict[Symbol, int] = {s: c for s, c in terms.items() if c} if terms else {}

    @staticmethod
    def of(symbol: Symbol) -> AffineExpr:
        return AffineExpr(0, {symbol: 1})

    @property
    def is_const(self) -> bool:
        return not self.terms

    @property
    def has_unknown(self) -> bool:
        """Whether of a symbol no more than its range is known."""
        return any(s.kind is SymbolKind.VALUE and s.by_lane is None for s in self.terms)

    def plus(self, other: AffineExpr, factor: int = 1) -> AffineExpr:
        """Return self + factor * other."""
        result = AffineExpr(self.const + factor * other.const)
        terms = result.terms = dict(self.terms)
        for symbol, coefficient in other.terms.items():
            total = terms.get(symbol, 0) + factor * coefficient
            if total:
                terms[symbol] = total
            else:
                terms.pop(symbol, None)
        return result

    __add__ = plus

    def __neg__(self) -> AffineExpr:
        return self.scaled(-1)

    def __sub__(self, other: AffineExpr) -> AffineExpr:
        return self.plus(other, -1)

    def scaled(self, factor: int) -> AffineExpr:
        return AffineExpr(self.const * factor, {s: c * factor for s, c in self.terms.items()})

    def range(self, narrowed: Mapping[Symbol, Range] | None = None) -> Range:
        """Smallest and largest value; `narrowed` overrides the ranges of some symbols."""
        low = high = self.const
        for symbol, coefficient in self.terms.items():
            lowest, highest = (narrowed or {}).get(symbol, symbol.range)
            low += coefficient * (lowest if coefficient > 0 else highest)
            high += coefficient * (highest if coefficient > 0 else lowest)
        return low, high

    def terms_of(self, *kinds: SymbolKind) -> AffineExpr:
        """The terms over symbols of these kinds, without the constant."""
        return AffineExpr(0, {s: c for s, c in self.terms.items() if s.kind in kinds})

    def without(self, symbols: Iterable[Symbol]) -> AffineExpr:
        excluded = set(symbols)
        return AffineExpr(self.const, {s: c for s, c in self.terms.items() if s not in excluded})

    def local_id_coefficients(self) -> tuple[dict[str, int], dict[Symbol, int]]:
        """Coefficients of whole local ids by axis, put together from their digits, and the other terms."""
        ids: dict[str, int] = {}
        terms = dict(self.terms)
        digits = {s: s.digit for s in terms if s.digit is not None}
        for axis in sorted({digit.axis for digit in digits.values()}):
            of_axis = {s: digit for s, digit in digits.items() if digit.axis == axis}
            # digits make up `factor * id` if all are there and each has the coefficient factor * stride
            factors = {divmod(terms[s], digit.stride) for s, digit in of_axis.items()}
            complete = math.prod(d.radix for d in of_axis.values()) == next(iter(of_axis.values())).size
            (factor, remainder), *more_factors = factors
            if complete and not remainder and not more_factors:
                ids[axis] = factor
                terms = {s: c for s, c in terms.items() if s not in of_axis}
        return ids, terms

    @property
    def key(self) -> frozenset[tuple[Symbol, int]]:
        """The terms, hashable."""
        return frozenset(self.terms.items())

    @property
    def loops(self) -> frozenset[Op]:
        """Loops in which the value may change from one iteration to the next."""
        return frozenset().union(*(s.loops for s in self.terms))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffineExpr) and self.const == other.const and self.terms == other.terms

    def __hash__(self) -> int:
        return hash((self.const, self.key))

    def __str__(self) -> str:
        ids, rest = self.local_id_coefficients()
        named_terms = [(s.kind.value, s.name, c) for s, c in rest.items()]
        named_terms += [(SymbolKind.LOCAL.value, f"local_id.{axis}", c) for axis, c in ids.items()]
        parts = [
            ("-" if c < 0 else "+", name if abs(c) == 1 else f"{abs(c)}*{name}")
            for _, name, c in sorted(named_terms)
        ]
        if self.const or not parts:
            parts.append(("-" if self.const < 0 else "+", str(abs(self.const))))
        text = " ".join(f"{sign} {part}" for sign, part in parts)
        return text[2:] if text.startswith("+") else f"-{text[2:]}"

    __repr__ = __str__
