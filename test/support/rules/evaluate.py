"""Terms over bit-vectors as NumPy expressions, to look at all 65,536 pairs of bytes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import z3

__all__ = ["evaluate"]

Array = np.ndarray[Any, Any]


def evaluate(term: z3.ExprRef, columns: Mapping[str, Array]) -> Array:
    """A term of at most 32 bits; `columns` has its variables by name, as bit patterns.  The result is bits or bools."""
    return _evaluate(term, columns, {})


def _evaluate(term: z3.ExprRef, columns: Mapping[str, Array], known: dict[int, Array]) -> Array:
    if term.get_id() in known:
        return known[term.get_id()]
    result: Array
    if z3.is_bv_value(term):
        result = np.asarray(np.int64(term.as_long()))
    elif z3.is_const(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED:
        result = columns[str(term)]
    elif term.decl().kind() in (z3.Z3_OP_TRUE, z3.Z3_OP_FALSE):
        result = np.asarray(z3.is_true(term))
    else:
        operands = [_evaluate(child, columns, known) for child in term.children()]
        result = _OPS[term.decl().kind()](term, *operands)
        if z3.is_bv(term):
            result = result & ((1 << term.size()) - 1)
    known[term.get_id()] = np.asarray(result)
    return known[term.get_id()]


def _signed(term: z3.ExprRef, a: Array) -> Array:
    """Bits of an operand of `term` as a signed number."""
    width = term.arg(0).size()
    return np.where(a >> (width - 1) & 1, a - (1 << width), a)


def _concat(term: z3.ExprRef, *parts: Array) -> Array:
    total = np.int64(0)
    for child, part in zip(term.children(), parts, strict=True):
        total = total << child.size() | part
    return np.asarray(total)


def _quotient(a: Array, b: Array) -> Array:
    """Truncated; by 0 anything."""
    divisor = np.where(b == 0, 1, b)
    return np.asarray(np.sign(a) * np.sign(divisor) * (np.abs(a) // np.abs(divisor)))


def _shifted(shift: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """By the width or more all bits are gone, or copies of the sign, which 31 places do as well."""
    return lambda term, a, b: shift(a, np.minimum(b, 31))


def _compare(compare: Callable[[Array, Array], Array], signed: bool) -> Callable[..., Array]:
    if not signed:
        return lambda term, a, b: compare(a, b)
    return lambda term, a, b: compare(_signed(term, a), _signed(term, b))


def _joined(compute: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def run(term: z3.ExprRef, *operands: Array) -> Array:
        total = operands[0]
        for operand in operands[1:]:
            total = compute(total, operand)
        return total

    return run


_OPS: dict[int, Callable[..., Array]] = {
    z3.Z3_OP_BADD: _joined(np.add),
    z3.Z3_OP_BSUB: _joined(np.subtract),
    z3.Z3_OP_BMUL: _joined(np.multiply),
    z3.Z3_OP_BAND: _joined(np.bitwise_and),
    z3.Z3_OP_BOR: _joined(np.bitwise_or),
    z3.Z3_OP_BXOR: _joined(np.bitwise_xor),
    z3.Z3_OP_BNOT: lambda t, a: ~a,
    z3.Z3_OP_BNEG: lambda t, a: -a,
    z3.Z3_OP_BUDIV: lambda t, a, b: _quotient(a, b),
    z3.Z3_OP_BUREM: lambda t, a, b: a - b * _quotient(a, b),
    z3.Z3_OP_BSDIV: lambda t, a, b: _quotient(_signed(t, a), _signed(t, b)),
    z3.Z3_OP_BSREM: lambda t, a, b: _signed(t, a) - _signed(t, b) * _quotient(_signed(t, a), _signed(t, b)),
    z3.Z3_OP_BSHL: _shifted(np.left_shift),
    z3.Z3_OP_BLSHR: _shifted(np.right_shift),
    z3.Z3_OP_BASHR: lambda t, a, b: _signed(t, a) >> np.minimum(b, 31),
    z3.Z3_OP_ZERO_EXT: lambda t, a: a,
    z3.Z3_OP_SIGN_EXT: _signed,
    z3.Z3_OP_EXTRACT: lambda t, a: a >> t.params()[1],
    z3.Z3_OP_CONCAT: _concat,
    z3.Z3_OP_ITE: lambda t, c, a, b: np.asarray(np.where(c, a, b)),
    z3.Z3_OP_EQ: lambda t, a, b: a == b,
    z3.Z3_OP_DISTINCT: lambda t, a, b: a != b,
    z3.Z3_OP_NOT: lambda t, a: ~a,
    z3.Z3_OP_AND: _joined(np.logical_and),
    z3.Z3_OP_OR: _joined(np.logical_or),
    z3.Z3_OP_XOR: _joined(np.logical_xor),
    z3.Z3_OP_ULT: _compare(np.less, False),
    z3.Z3_OP_ULEQ: _compare(np.less_equal, False),
    z3.Z3_OP_UGT: _compare(np.greater, False),
    z3.Z3_OP_UGEQ: _compare(np.greater_equal, False),
    z3.Z3_OP_SLT: _compare(np.less, True),
    z3.Z3_OP_SLEQ: _compare(np.less_equal, True),
    z3.Z3_OP_SGT: _compare(np.greater, True),
    z3.Z3_OP_SGEQ: _compare(np.greater_equal, True),
}
