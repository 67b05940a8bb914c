"""Indices as linear expressions over other values, exact modulo 2^bits: which accesses are neighbours.

    %a = mul %g, 4          4*%g
    %b = add %a, 3          4*%g + 3           one element behind 4*%g + 2, whatever %g is
    %c = cast %b -> u64     u64(4*%g) + 3      4*%g is a multiple of 4, so that adding 3 carries nothing

`AffineAnalysis` tells which values an index may have; this tells by how much two indices differ, for any
values at all, such as an index that was loaded.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.program import Op, Program, Value
from .alignment import Alignment

__all__ = ["LinearAnalysis", "LinearExpr", "Terms"]

MAX_TERMS = 8
"""A value with more terms becomes a term itself, so that long sums take linear time."""

Terms = frozenset[tuple[object, int]]
"""Pairs of a value (or what identifies it) and its coefficient, which is not zero."""

LinearExpr = tuple[Terms, int]
"""Terms and a constant, both modulo 2^bits of the value's type."""


class LinearAnalysis:
    """The linear expressions of a program's integer values."""

    def __init__(self, program: Program, alignment: Alignment) -> None:
        self.alignment = alignment
        self.known: dict[Value, LinearExpr] = {}
        worklist = [program.body]
        while worklist:  # blocks before those nested in them, so that operands come first
            for op in worklist.pop().ops:
                worklist += op.regions
                if len(op.results) == 1 and op.result.type.is_int and not op.regions:
                    self.known[op.result] = self._op(op) or _leaf(_identity(op))

    def of(self, value: Value) -> LinearExpr:
        return self.known.get(value) or _leaf(value)

    def zeros(self, value: Value) -> int:
        """Trailing zero bits that `value` has at least."""
        terms, const = self.of(value)
        lowest = (const & -const).bit_length() - 1 if const else value.type.bits or 1
        return max(self.alignment.of(value), min(lowest, self._zeros(terms, value.type.bits or 1)))

    def _op(self, op: Op) -> LinearExpr | None:
        """None where the result becomes a term itself."""
        bits = op.result.type.bits or 1
        if op.name == "const":
            return frozenset(), op.attrs["value"] % (1 << bits)
        if op.name == "cast":
            return self._cast(op.operands[0], bits) if op.operands[0].type.is_int else None
        rule = _RULES.get(op.name)
        expr = rule(self, op, bits) if rule is not None else None
        return expr if expr is not None and len(expr[0]) <= MAX_TERMS else None

    def _cast(self, source: Value, bits: int) -> LinearExpr:
        """A widening cast: where the terms are a multiple of 2^k, adding the low k bits of the constant never
        carries, so these bits may be added after the cast; all else becomes one term."""
        terms, const = self.of(source)
        old = source.type.bits or 1
        if bits <= old:
            return _reduce(dict(terms), const, bits)
        if not terms:
            is_negative = source.type.is_signed and const >> (old - 1)
            return terms, (const - (1 << old) if is_negative else const) % (1 << bits)
        low = const & ((1 << self._zeros(terms, old)) - 1)
        return frozenset({(("cast", source.type, terms, const - low), 1)}), low

    def _zeros(self, terms: Terms, bits: int) -> int:
        """A lower bound on the trailing zeros of the sum of `terms`: the fewest of any term."""
        zeros = bits
        for leaf, coefficient in terms:
            value_zeros = self.alignment.of(leaf) if isinstance(leaf, Value) else 0
            zeros = min(zeros, value_zeros + (coefficient & -coefficient).bit_length() - 1)
        return zeros


def _identity(op: Op) -> object:
    """The key of an op's result as a term; ops that read the same id or size have the same key."""
    if op.definition.is_pure and not op.operands:
        return (op.name, *(op.attrs.get(a.name) for a in op.definition.attrs))
    return op.result


def _leaf(term: object) -> LinearExpr:
    return frozenset({(term, 1)}), 0


def _reduce(terms: dict[object, int], const: int, bits: int) -> LinearExpr:
    modulus = 1 << bits
    return frozenset((t, c % modulus) for t, c in terms.items() if c % modulus), const % modulus


def _sum(linear: LinearAnalysis, op: Op, bits: int) -> LinearExpr:
    (left, a), (right, b) = (linear.of(operand) for operand in op.operands)
    sign = -1 if op.name == "sub" else 1
    terms = dict(left)
    for leaf, coefficient in right:
        terms[leaf] = terms.get(leaf, 0) + sign * coefficient
    return _reduce(terms, a + sign * b, bits)


def _product(linear: LinearAnalysis, op: Op, bits: int) -> LinearExpr | None:
    (left, a), (right, b) = (linear.of(operand) for operand in op.operands)
    if left and right:
        return None
    terms, const, factor = (left, a, b) if not right else (right, b, a)
    return _reduce({leaf: c * factor for leaf, c in terms}, const * factor, bits)


def _shift(linear: LinearAnalysis, op: Op, bits: int) -> LinearExpr | None:
    (terms, const), (varying, amount) = (linear.of(operand) for operand in op.operands)
    if varying:
        return None
    factor = 1 << (amount % bits)
    return _reduce({leaf: c * factor for leaf, c in terms}, const * factor, bits)


def _or(linear: LinearAnalysis, op: Op, bits: int) -> LinearExpr | None:
    """A sum, where a constant lies below the lowest bit of the other operand."""
    for value, mask in (op.operands, op.operands[::-1]):
        terms, low = linear.of(mask)
        if not terms and low >> linear.alignment.of(value) == 0:
            return _sum(linear, op, bits)
    return None


_RULES: dict[str, Callable[[LinearAnalysis, Op, int], LinearExpr | None]] = {
    "add": _sum, "sub": _sum, "mul": _product, "shl": _shift, "or": _or, "xor": _or,
}  # fmt: skip
