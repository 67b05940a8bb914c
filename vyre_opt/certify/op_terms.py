"""The meaning of each pure op on scalars, as a z3 term: one table from op name to function.

It is written from the language's text (docs/reference/language.md, "Arithmetic") and from nothing else, so
that folds, rewrite rules and lowerings can be checked against it.

    type                     a term of it is
    bool                     a z3 Bool
    u8 to u64, i8 to i64     a bit-vector of its width; signed types in two's complement
    f16, bf16, f32, f64      a bit-vector too: the float's IEEE bit pattern

A float is its bits because `bitcast`, `select` and memory keep those of a NaN.  Ops that compute a
NaN give the canonical one here, where the language leaves open which it is: results are compared
by `same`, which takes all NaNs for equal.

Every integer op is total, so no term has a condition on its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import z3

from ..ir.program import NO_ATTRS, Op
from ..ir.types import DataType

__all__ = [
    "FLOAT_FORMATS",
    "NoTerm",
    "Term",
    "has_term",
    "is_nan",
    "literal",
    "op_term",
    "same",
    "sort",
    "term",
    "variable",
]

Term: TypeAlias = z3.ExprRef
"""A z3 expression; `sort` gives its sort."""


class NoTerm(LookupError):
    """Error for an op, or an op on a type, without a term: mathematical functions, vectors, and ops with effects."""


# --- sorts, variables and constants

# name: (exponent bits, significand bits with the hidden one)
FLOAT_FORMATS = {"f16": (5, 11), "bf16": (8, 8), "f32": (8, 24), "f64": (11, 53)}


def sort(dtype: DataType) -> z3.SortRef:
    """The z3 sort of a scalar type.  Raises NoTerm for a type without arithmetic, and for a vector."""
    if dtype.is_bool:
        return z3.BoolSort()
    if dtype.is_int or dtype.is_float:
        return z3.BitVecSort(_bits(dtype))
    raise NoTerm(f"no term is of type {dtype}")


def variable(name: str, dtype: DataType) -> Term:
    """A free variable: any value of the type, NaNs of every payload included."""
    return z3.Const(name, sort(dtype))


def literal(value: int, dtype: DataType) -> Term:
    """An encoded constant: a number, 0 or 1 for a bool, the bit pattern of a float."""
    return z3.BoolVal(bool(value)) if dtype.is_bool else z3.BitVecVal(value, _bits(dtype))


def is_nan(bits: Term, dtype: DataType) -> z3.BoolRef:
    """Whether a bit pattern of a float type is a NaN."""
    magnitude = bits & z3.BitVecVal(~_sign(dtype), _bits(dtype))
    return z3.UGT(magnitude, z3.BitVecVal(_infinity(dtype), _bits(dtype)))


def same(a: Term, b: Term, dtype: DataType) -> z3.BoolRef:
    """Whether two results of a type are equal as the language means it: in all bits, or both are NaN."""
    if not dtype.is_float:
        return a == b
    return z3.Or(a == b, z3.And(is_nan(a, dtype), is_nan(b, dtype)))


def _bits(dtype: DataType) -> int:
    assert dtype.bits is not None
    return dtype.bits


def _sign(dtype: DataType) -> int:
    """The sign bit of a float."""
    return 1 << (_bits(dtype) - 1)


def _infinity(dtype: DataType) -> int:
    exponent_bits, precision = FLOAT_FORMATS[dtype.name]
    return ((1 << exponent_bits) - 1) << (precision - 1)


# --- the entry points


def has_term(name: str, dtype: DataType) -> bool:
    """Whether `term` knows the op on a scalar type; a cast is known between any two of them."""
    if name in ("cast", "bitcast", "select"):
        return dtype.has_arithmetic and not dtype.is_vec
    return name in _table(dtype)


def term(
    name: str,
    dtype: DataType,
    operands: Sequence[Term],
    attrs: Mapping[str, Any] = NO_ATTRS,
    source: DataType | None = None,
) -> Term:
    """The result of an op.

    `dtype`: the type that the op's text names: that of the operands of arithmetic and compares, of the
    arms of a `select`, of the result of a `cast` or `bitcast`, whose operand is of type `source`.
    `attrs`: as the op has them.  With `fastmath` the result is the one without: each flag allows it.
    Raises NoTerm for an op without a term.
    """
    if name == "const":
        return literal(attrs["value"], dtype)
    if name in ("cast", "bitcast"):
        assert source is not None, f"{name} needs its operand's type"
        return _cast(operands[0], source, dtype) if name == "cast" else operands[0]
    if name == "select":
        return z3.If(*operands)
    function = _table(dtype).get(name)
    if function is None:
        raise NoTerm(f"{name} : {dtype} has no term")
    return function(dtype, *operands)


def op_term(op: Op, operands: Sequence[Term]) -> Term:
    """The result of an op of the IR whose operands have these terms.  Raises NoTerm for an op without a term."""
    is_compare = op.definition.format == "compare"
    dtype = op.operands[0].type if is_compare else op.result.type
    source = op.operands[0].type if op.definition.format == "convert" else None
    if dtype.is_vec or (source is not None and source.is_vec):
        raise NoTerm(f"{op.name} : {dtype} has no term: it is on vectors")
    return term(op.name, dtype, operands, op.attrs, source)


def _table(dtype: DataType) -> Mapping[str, Callable[..., Term]]:
    if dtype.is_bool:
        return _BOOL_OPS
    if dtype.is_float:
        return _FLOAT_OPS
    return _INT_OPS if dtype.is_int else {}


# --- integers: each takes the type, then the operands


def _number(value: int, t: DataType) -> Term:
    return z3.BitVecVal(value, _bits(t))


def _limits(t: DataType) -> tuple[int, int]:
    """The least and the greatest value."""
    bits = _bits(t)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if t.is_signed else (0, (1 << bits) - 1)


def _less(t: DataType, a: Term, b: Term) -> z3.BoolRef:
    return a < b if t.is_signed else z3.ULT(a, b)


def _at_most(t: DataType, a: Term, b: Term) -> z3.BoolRef:
    return a <= b if t.is_signed else z3.ULE(a, b)


def _extended(t: DataType, a: Term, more: int) -> Term:
    """The same number in `more` further bits."""
    return z3.SignExt(more, a) if t.is_signed else z3.ZeroExt(more, a)


def _low_bits(t: DataType, a: Term) -> Term:
    return z3.Extract(_bits(t) - 1, 0, a)


def _div(t: DataType, a: Term, b: Term) -> Term:
    """Truncates; x / 0 = x.  z3 divides INT_MIN by -1 modulo 2^bits, which is INT_MIN."""
    return z3.If(b == 0, a, a / b if t.is_signed else z3.UDiv(a, b))


def _rem(t: DataType, a: Term, b: Term) -> Term:
    """The sign of the dividend; x % 0 = 0."""
    return z3.If(b == 0, _number(0, t), z3.SRem(a, b) if t.is_signed else z3.URem(a, b))


def _abs_diff(t: DataType, a: Term, b: Term) -> Term:
    difference = _extended(t, a, 1) - _extended(t, b, 1)
    return _low_bits(t, z3.If(difference < 0, -difference, difference))


def _product(t: DataType, a: Term, b: Term) -> Term:
    return _extended(t, a, _bits(t)) * _extended(t, b, _bits(t))


def _mul_hi(t: DataType, a: Term, b: Term) -> Term:
    return z3.Extract(2 * _bits(t) - 1, _bits(t), _product(t, a, b))


def _clamped(t: DataType, exact: Term) -> Term:
    """An exact result, a signed number of more bits, clamped to the type's range."""
    low, high = (z3.BitVecVal(limit, exact.size()) for limit in _limits(t))
    return _low_bits(t, z3.If(exact < low, low, z3.If(exact > high, high, exact)))


def _add_sat(t: DataType, a: Term, b: Term) -> Term:
    return _clamped(t, _extended(t, a, 2) + _extended(t, b, 2))


def _sub_sat(t: DataType, a: Term, b: Term) -> Term:
    return _clamped(t, _extended(t, a, 2) - _extended(t, b, 2))


def _mul_sat(t: DataType, a: Term, b: Term) -> Term:
    product = _product(t, a, b)
    if t.is_signed:
        return _clamped(t, product)
    # the product fills the double width, so as a signed number it may be negative
    high = _limits(t)[1]
    return z3.If(z3.UGT(product, z3.BitVecVal(high, product.size())), _number(high, t), _low_bits(t, product))


def _amount(t: DataType, b: Term) -> Term:
    """A shift amount modulo the width; a negative one too, as the width divides 2^bits."""
    return z3.URem(b, _number(_bits(t), t))


def _shl(t: DataType, a: Term, b: Term) -> Term:
    return a << _amount(t, b)


def _shr(t: DataType, a: Term, b: Term) -> Term:
    return a >> _amount(t, b) if t.is_signed else z3.LShR(a, _amount(t, b))


def _rotl(t: DataType, a: Term, b: Term) -> Term:
    # by 0 the right part shifts by 0 as well: a | a
    return (a << _amount(t, b)) | z3.LShR(a, _amount(t, -b))


def _rotr(t: DataType, a: Term, b: Term) -> Term:
    return _rotl(t, a, -b)


def _bit(a: Term, bit: int) -> z3.BoolRef:
    return z3.Extract(bit, bit, a) == 1


def _popcount(t: DataType, a: Term) -> Term:
    ones = [z3.ZeroExt(_bits(t) - 1, z3.Extract(bit, bit, a)) for bit in range(_bits(t))]
    return sum(ones[1:], ones[0])


def _first_bit(t: DataType, a: Term, bits: Sequence[int]) -> Term:
    """Number of `bits` before the first bit that is set; all of them for 0."""
    count = _number(len(bits), t)
    for before, bit in reversed([*enumerate(bits)]):
        count = z3.If(_bit(a, bit), _number(before, t), count)
    return count


def _clz(t: DataType, a: Term) -> Term:
    return _first_bit(t, a, range(_bits(t) - 1, -1, -1))


def _ctz(t: DataType, a: Term) -> Term:
    return _first_bit(t, a, range(_bits(t)))


def _reverse_bits(t: DataType, a: Term) -> Term:
    return z3.Concat(*(z3.Extract(bit, bit, a) for bit in range(_bits(t))))


_COMPARISONS: dict[str, Callable[..., Term]] = {
    "eq": lambda t, a, b: a == b,
    "ne": lambda t, a, b: a != b,
    "lt": _less,
    "le": _at_most,
    "gt": lambda t, a, b: _less(t, b, a),
    "ge": lambda t, a, b: _at_most(t, b, a),
}

_INT_OPS: dict[str, Callable[..., Term]] = {
    "add": lambda t, a, b: a + b,
    "sub": lambda t, a, b: a - b,
    "mul": lambda t, a, b: a * b,
    "div": _div,
    "rem": _rem,
    "min": lambda t, a, b: z3.If(_less(t, a, b), a, b),
    "max": lambda t, a, b: z3.If(_less(t, a, b), b, a),
    "abs_diff": _abs_diff,
    "neg": lambda t, a: -a,
    "abs": lambda t, a: z3.If(_less(t, a, _number(0, t)), -a, a),
    "mul_hi": _mul_hi,
    "add_sat": _add_sat,
    "sub_sat": _sub_sat,
    "mul_sat": _mul_sat,
    "and": lambda t, a, b: a & b,
    "or": lambda t, a, b: a | b,
    "xor": lambda t, a, b: a ^ b,
    "not": lambda t, a: ~a,
    "shl": _shl,
    "shr": _shr,
    "rotl": _rotl,
    "rotr": _rotr,
    "popcount": _popcount,
    "clz": _clz,
    "ctz": _ctz,
    "reverse_bits": _reverse_bits,
    **_COMPARISONS,
}

_BOOL_OPS: dict[str, Callable[..., Term]] = {
    "and": lambda t, a, b: z3.And(a, b),
    "or": lambda t, a, b: z3.Or(a, b),
    "xor": lambda t, a, b: z3.Xor(a, b),
    "not": lambda t, a: z3.Not(a),
    "eq": lambda t, a, b: a == b,
    "ne": lambda t, a, b: z3.Xor(a, b),
}


# --- floats


def _float_sort(t: DataType) -> z3.FPSortRef:
    return z3.FPSort(*FLOAT_FORMATS[t.name])


def _decoded(bits: Term, t: DataType) -> z3.FPRef:
    return z3.fpBVToFP(bits, _float_sort(t))


def _encoded(number: z3.FPRef, t: DataType) -> Term:
    """The bit pattern; of a NaN the canonical one, as z3 leaves it open."""
    quiet = _infinity(t) | (1 << (FLOAT_FORMATS[t.name][1] - 2))
    return z3.If(z3.fpIsNaN(number), _number(quiet, t), z3.fpToIEEEBV(number))


def _rounded(compute: Callable[..., z3.FPRef]) -> Callable[..., Term]:
    """An op that rounds its exact result once, to nearest even."""
    return lambda t, *operands: _encoded(compute(z3.RNE(), *(_decoded(a, t) for a in operands)), t)


def _integral(mode: Callable[[], Any]) -> Callable[..., Term]:
    """An op that rounds to an integral value."""
    return lambda t, a: _encoded(z3.fpRoundToIntegral(mode(), _decoded(a, t)), t)


def _float_comparison(compare: Callable[..., z3.BoolRef]) -> Callable[..., Term]:
    return lambda t, a, b: compare(_decoded(a, t), _decoded(b, t))


def _negative(t: DataType, a: Term) -> z3.BoolRef:
    return a & _sign(t) != 0


def _float_min(t: DataType, a: Term, b: Term) -> Term:
    """Ignores a NaN operand; of two zeros, -0.0 is the smaller."""
    x, y = _decoded(a, t), _decoded(b, t)
    smaller = z3.If(z3.fpEQ(x, y), _negative(t, a), z3.fpLT(x, y))
    return z3.If(z3.fpIsNaN(x), b, z3.If(z3.Or(z3.fpIsNaN(y), smaller), a, b))


def _float_max(t: DataType, a: Term, b: Term) -> Term:
    """Ignores a NaN operand; of two zeros, -0.0 is the smaller."""
    x, y = _decoded(a, t), _decoded(b, t)
    larger = z3.If(z3.fpEQ(x, y), z3.Not(_negative(t, a)), z3.fpGT(x, y))
    return z3.If(z3.fpIsNaN(x), b, z3.If(z3.Or(z3.fpIsNaN(y), larger), a, b))


def _magnitude(t: DataType, a: Term) -> Term:
    return a & _number(~_sign(t), t)


def _as_multiple(t: DataType, a: Term) -> Term:
    """|a| of a finite number in units of the least subnormal: an integer that is wide enough for all."""
    exponent_bits, precision = FLOAT_FORMATS[t.name]
    width, hidden = (1 << exponent_bits) + precision, 1 << (precision - 1)
    exponent = z3.LShR(_magnitude(t, a), precision - 1)
    fraction = a & _number(hidden - 1, t)
    is_normal = exponent != 0
    significand = z3.If(is_normal, fraction | _number(hidden, t), fraction)
    shift = z3.If(is_normal, exponent - 1, exponent)
    return z3.ZeroExt(width - _bits(t), significand) << z3.ZeroExt(width - _bits(t), shift)


def _from_multiple(t: DataType, units: Term) -> Term:
    """The bits of a number that the type holds exactly, given in units of the least subnormal."""
    precision = FLOAT_FORMATS[t.name][1]
    # up to 2^precision a pattern counts the units
    bits = _low_bits(t, units)
    for top in range(precision, units.size() - 2):
        fraction = z3.Extract(top - 1, top - precision + 1, units)
        exponent = z3.BitVecVal(top - precision + 2, _bits(t) - precision + 1)
        bits = z3.If(z3.UGE(units, z3.BitVecVal(1 << top, units.size())), z3.Concat(exponent, fraction), bits)
    return bits


def _fmod(t: DataType, a: Term, b: Term) -> Term:
    """C's fmod, which is exact: the sign of the dividend, also on a zero; NaN for x % 0 and inf % x."""
    x, y = _decoded(a, t), _decoded(b, t)
    rest = _from_multiple(t, z3.URem(_as_multiple(t, a), _as_multiple(t, b)))
    signed = rest | (a & _number(_sign(t), t))
    undefined = z3.Or(z3.fpIsNaN(x), z3.fpIsNaN(y), z3.fpIsInf(x), z3.fpIsZero(y))
    finite = z3.If(z3.fpIsInf(y), a, signed)
    return z3.If(undefined, _encoded(z3.fpNaN(_float_sort(t)), t), finite)


_FLOAT_OPS: dict[str, Callable[..., Term]] = {
    "add": _rounded(z3.fpAdd),
    "sub": _rounded(z3.fpSub),
    "mul": _rounded(z3.fpMul),
    "div": _rounded(z3.fpDiv),
    "rem": _fmod,
    "min": _float_min,
    "max": _float_max,
    "abs_diff": _rounded(lambda mode, x, y: z3.fpAbs(z3.fpSub(mode, x, y))),
    "neg": lambda t, a: a ^ _number(_sign(t), t),
    "abs": _magnitude,
    "fma": _rounded(z3.fpFMA),
    "sqrt": _rounded(z3.fpSqrt),
    "floor": _integral(z3.RTN),
    "ceil": _integral(z3.RTP),
    "trunc": _integral(z3.RTZ),
    "round_even": _integral(z3.RNE),
    "eq": _float_comparison(z3.fpEQ),
    "ne": _float_comparison(lambda x, y: z3.Not(z3.fpEQ(x, y))),
    "lt": _float_comparison(z3.fpLT),
    "le": _float_comparison(z3.fpLEQ),
    "gt": _float_comparison(z3.fpGT),
    "ge": _float_comparison(z3.fpGEQ),
}


# --- casts


def _cast(a: Term, source: DataType, target: DataType) -> Term:
    """Keeps the value as far as the target can hold it; see the table in docs/reference/language.md."""
    if source is target:
        return a
    if source.is_bool:
        return z3.If(a, _one(target), literal(0, target))
    if source.is_float:
        return _from_float(a, source, target)
    if target.is_bool:
        return a != 0
    if target.is_float:
        convert = z3.fpSignedToFP if source.is_signed else z3.fpUnsignedToFP
        return _encoded(convert(z3.RNE(), a, _float_sort(target)), target)
    more = _bits(target) - _bits(source)
    return _extended(source, a, more) if more >= 0 else _low_bits(target, a)


def _one(t: DataType) -> Term:
    if not t.is_float:
        return literal(1, t)
    exponent_bits, precision = FLOAT_FORMATS[t.name]
    return literal(((1 << (exponent_bits - 1)) - 1) << (precision - 1), t)


def _from_float(a: Term, source: DataType, target: DataType) -> Term:
    number = _decoded(a, source)
    if target.is_bool:
        return z3.Not(z3.fpIsZero(number))
    if target.is_float:
        return _encoded(z3.fpToFP(z3.RNE(), number, _float_sort(target)), target)
    return _saturated(number, source, target)


def _saturated(number: z3.FPRef, source: DataType, target: DataType) -> Term:
    """Truncates; what lies beyond the range of an integer type becomes its end, NaN 0."""
    # f32 represents all f16 and bf16, and the ends of every integer range except the 1 subtracted from the upper end
    wide = z3.Float64() if source is DataType.F64 else z3.Float32()
    exact = z3.fpToFP(z3.RNE(), number, wide)
    low, high = _limits(target)
    below = z3.fpLEQ(exact, z3.FPVal(low, wide))
    above = z3.fpGEQ(exact, z3.FPVal(high + 1, wide))
    convert = z3.fpToSBV if target.is_signed else z3.fpToUBV
    inside = convert(z3.RTZ(), exact, z3.BitVecSort(_bits(target)))
    clamped = z3.If(below, _number(low, target), z3.If(above, _number(high, target), inside))
    return z3.If(z3.fpIsNaN(number), _number(0, target), clamped)
