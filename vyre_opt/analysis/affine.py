"""Affine forms: a constant and integer multiples of symbols.

A form stands for an integer value modulo 2^bits of the value's type.  Where the
form's range lies within the type's, the value *is* the form; `Forms` asks for that
before it goes through an op that a wrap would break (a widening cast, a division).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ..ir.program import Op, Value

__all__ = ["Affine", "Range", "Symbol", "SymbolKind"]

Range = tuple[int, int]
"""Smallest and largest value, both included."""


class SymbolKind(Enum):
    """What a symbol varies with."""

    GROUP = "group"  # the same for a whole workgroup, whatever it is
    LOCAL = "local"  # local id along an axis
    LOOP = "loop"  # iterations done of a for: 0, 1, ..., trip count - 1


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable of a form.  Equal symbols have equal values in one workgroup and iteration.

    `loops` are the loops in which the value may change from one iteration to the next.
    """

    kind: SymbolKind
    name: str
    range: Range = field(compare=False)
    loops: frozenset[Op] = field(default=frozenset(), compare=False)
    value: Value | None = field(default=None, compare=False, repr=False)
    identity: object = None

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
        ordered = sorted(self.terms.items(), key=lambda item: (item[0].kind.value, item[0].name))
        parts = [("-" if c < 0 else "+", s.name if abs(c) == 1 else f"{abs(c)}*{s.name}") for s, c in ordered]
        if self.const or not parts:
            parts.append(("-" if self.const < 0 else "+", str(abs(self.const))))
        text = " ".join(f"{sign} {part}" for sign, part in parts)
        return text[2:] if text.startswith("+") else f"-{text[2:]}"

    __repr__ = __str__
