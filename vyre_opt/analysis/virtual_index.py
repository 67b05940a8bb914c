"""The index of an element of a buffer of several dimensions, as one affine expression.

    @x[%r, %c]      row * RADIX + column

RADIX is a number that no coefficient comes near, so the expression has that of each dimension in it (`along`), and two
accesses are of one element exactly if theirs are equal, whatever the extents are.  So what is known of the expressions
of indices (that they are disjoint, that one set covers another) holds for several dimensions as it does for one.

That needs the expression of each dimension to be equal to the index as an integer, not only modulo 2^bits of its type.
An access that happens is in bounds, and an extent has 31 bits, so a range that is not too wide is enough.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.arith import int_range
from ..ir.program import MAX_EXTENT, Buffer, Op, Value
from ..records import dataclass
from .affine import AffineExpr, Range, Symbol
from .congruence import Residue, is_in_bounds_value

__all__ = ["EXACT", "RADIX", "MayWrap", "along", "component", "components", "is_exact_index", "virtual_index"]

RADIX = 1 << 80

EXACT = Residue(bits=1 << 10, exact=1 << 10, straight=True)
"""Mark of an expression that is equal to its index as an integer."""


@dataclass(frozen=True, slots=True)
class MayWrap:
    """The first dimension along which the index may wrap around its type, or has no expression (`unknown`)."""

    dimension: int
    unknown: object = None


def virtual_index(
    op: Op,
    buffer: Buffer,
    form: Callable[[Value], object],
    limits: Callable[[AffineExpr], Range],
) -> AffineExpr | MayWrap:
    """The expression of an access to a buffer of several dimensions.

    `form`: the expression of an index, or anything else if it has none; `limits`: the range of an expression where
    the access happens.
    """
    total = AffineExpr()
    for dimension, index in enumerate(op.indices):
        expr = form(index)
        if not isinstance(expr, AffineExpr):
            return MayWrap(dimension, expr)
        if not is_exact_index(limits(expr), index, buffer.shape[dimension]):
            return MayWrap(dimension)
        total = total.scaled(RADIX) + expr
    return total


def is_exact_index(limits: Range, index: Value, extent: int | None) -> bool:
    """Whether an expression with these bounds is equal to an index along a dimension that is in bounds."""
    limit = min(MAX_EXTENT if extent is None else extent, int_range(index.type)[1] + 1)
    return is_in_bounds_value(limits, index.type, limit)


def component(number: int, dimensions: int) -> tuple[int, ...]:
    """A coefficient, or a sum, along each dimension."""
    parts: list[int] = []
    for _ in range(dimensions - 1):
        low = (number + RADIX // 2) % RADIX - RADIX // 2
        parts.append(low)
        number = (number - low) // RADIX
    return (number, *reversed(parts))


def components(expr: AffineExpr, dimensions: int) -> tuple[AffineExpr, ...]:
    """The expression along each dimension."""
    consts = component(expr.const, dimensions)
    terms: list[dict[Symbol, int]] = [{} for _ in range(dimensions)]
    for symbol, coefficient in expr.terms.items():
        for component_terms, part in zip(terms, component(coefficient, dimensions), strict=True):
            component_terms[symbol] = part
    return tuple(
        AffineExpr(const, component_terms) for const, component_terms in zip(consts, terms, strict=True)
    )


def along(expr: AffineExpr, dimensions: int) -> str:
    """The expressions in words: `workgroup_id.y, local_id.x`."""
    return ", ".join(map(str, components(expr, dimensions)))
