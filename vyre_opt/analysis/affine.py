"""Affine forms: a constant and integer multiples of symbols.

A form stands for an integer value modulo 2^bits of the value's type.  Where the
form's range lies within the type's, the value *is* the form; `Forms` asks for that
before it goes through an op that a wrap would break (a widening cast, a division).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ..ir.program import Op

__all__ = ["Affine", "Digit", "Range", "Symbol", "SymbolKind"]

Range = tuple[int, int]
"""Smallest and largest value, both included."""


class SymbolKind(Enum):
    """What a symbol varies with."""

    GROUP = "group"  # the same for a whole workgroup, whatever it is
    LOCAL = "local"  # local id along an axis, or a digit of it
    LOOP = "loop"  # iterations done of a for: 0, 1, ..., trip count - 1
    VALUE = "value"  # a lane's own value, of which no more is known than its range


class Digit(NamedTuple):
    """What a local symbol is: `local id / stride % radix`, for ids of `size` lanes; all of the id if radix = size."""

    axis: str
    stride: int
    radix: int
    size: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable of a form.  Equal symbols have equal values in one workgroup and iteration.

    `loops` are the loops in which the value may change from one iteration to the next.
    """

    kind: SymbolKind
    name: str
    range: Range = field(compare=False)
    loops: frozenset[Op] = field(default=frozenset(), compare=False)
    identity: object = None
    digit: Digit | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.name


class Affine:
    """`const + sum(coefficient * symbol)`; immutable, without zero coefficients."""

    __slots__ = ("const", "terms")

    def __init__(self, const: int = 0, terms: Mapping[Symbol, int] | None = None) -> None:
        self.const = const
        self.terms: dict[Symbol, int] = {s: c for s, c in terms.items() if c} if terms else {}

    @staticmethod
    def of(symbol: Symbol) -> Affine:
        return Affine(0, {symbol: 1})

    @property
    def is_const(self) -> bool:
        return not self.terms

    def __add__(self, other: Affine) -> Affine:
        terms = dict(self.terms)
        for symbol, coefficient in other.terms.items():
            terms[symbol] = terms.get(symbol, 0) + coefficient
        return Affine(self.const + other.const, terms)

    def __neg__(self) -> Affine:
        return self.scaled(-1)

    def __sub__(self, other: Affine) -> Affine:
        return self + other.scaled(-1)

    def scaled(self, factor: int) -> Affine:
        return Affine(self.const * factor, {s: c * factor for s, c in self.terms.items()})

    def range(self, narrowed: Mapping[Symbol, Range] | None = None) -> Range:
        """Bounds of the form over the ranges of its symbols, `narrowed` ones first."""
        low = high = self.const
        for symbol, coefficient in self.terms.items():
            least, most = (narrowed or {}).get(symbol, symbol.range)
            low += coefficient * (least if coefficient > 0 else most)
            high += coefficient * (most if coefficient > 0 else least)
        return low, high

    def part(self, *kinds: SymbolKind) -> Affine:
        """The terms over symbols of `kinds`, without the constant."""
        return Affine(0, {s: c for s, c in self.terms.items() if s.kind in kinds})

    def without(self, symbols: Iterable[Symbol]) -> Affine:
        dropped = set(symbols)
        return Affine(self.const, {s: c for s, c in self.terms.items() if s not in dropped})

    def by_id(self) -> tuple[dict[str, int], dict[Symbol, int]]:
        """The terms: coefficients of whole local ids by axis, put together from their digits, and the rest."""
        ids: dict[str, int] = {}
        rest = dict(self.terms)
        digits = {s: s.digit for s in rest if s.digit is not None}
        for axis in sorted({digit.axis for digit in digits.values()}):
            mine = {s: digit for s, digit in digits.items() if digit.axis == axis}
            times = {divmod(rest[s], digit.stride) for s, digit in mine.items()}
            complete = math.prod(digit.radix for digit in mine.values()) == next(iter(mine.values())).size
            (factor, left), *others = times
            if complete and not left and not others:
                ids[axis] = factor
                rest = {s: c for s, c in rest.items() if s not in mine}
        return ids, rest

    @property
    def key(self) -> frozenset[tuple[Symbol, int]]:
        """The terms, hashable."""
        return frozenset(self.terms.items())

    @property
    def loops(self) -> frozenset[Op]:
        """Loops in which the form may change."""
        return frozenset().union(*(s.loops for s in self.terms))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Affine) and self.const == other.const and self.terms == other.terms

    def __hash__(self) -> int:
        return hash((self.const, self.key))

    def __str__(self) -> str:
        ids, rest = self.by_id()
        named = [(s.kind.value, s.name, c) for s, c in rest.items()]
        named += [(SymbolKind.LOCAL.value, f"local_id.{axis}", c) for axis, c in ids.items()]
        parts = [
            ("-" if c < 0 else "+", name if abs(c) == 1 else f"{abs(c)}*{name}")
            for _, name, c in sorted(named)
        ]
        if self.const or not parts:
            parts.append(("-" if self.const < 0 else "+", str(abs(self.const))))
        text = " ".join(f"{sign} {part}" for sign, part in parts)
        return text[2:] if text.startswith("+") else f"-{text[2:]}"

    __repr__ = __str__
