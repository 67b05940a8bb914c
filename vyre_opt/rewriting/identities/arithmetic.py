"""Rules of arithmetic and logic, on integers, bools and floats."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir import arith
from ...ir.ops import OPS
from ...ir.program import Op
from ...ir.rewrite import become, constant_value
from ...ir.types import DataType
from ..pattern import Replacement
from ..rewriter import Rewriter
from ..terms import op, pattern
from .rules import add, defined_by, int_max, int_min, rule, scalar, set_constant

_Constant = Callable[[DataType], int]

# --- constants of a type, by what they do


def _zero(t: DataType) -> int:
    return 0


def _one(t: DataType) -> int:
    return 1


def _ones(t: DataType) -> int:
    return arith.wrap(-1, t)


# x op c = x, in integers and bools.  x/0 = x by definition.
_NEUTRAL: dict[str, tuple[_Constant, ...]] = {
    **dict.fromkeys(("add", "sub", "or", "xor", "add_sat", "sub_sat"), (_zero,)),
    **dict.fromkeys(("shl", "shr", "rotl", "rotr"), (_zero,)),
    **dict.fromkeys(("mul", "mul_sat"), (_one,)),
    "div": (_one, _zero),
    "and": (_ones,),
    "min": (int_max,),
    "max": (int_min,),
}

# x op c = d, in integers and bools: (c, d).  x%0 = 0 by definition.
_ABSORBING: dict[str, tuple[tuple[_Constant, _Constant], ...]] = {
    **dict.fromkeys(("mul", "mul_hi", "mul_sat", "and"), ((_zero, _zero),)),
    "rem": ((_one, _zero), (_zero, _zero)),
    "or": ((_ones, _ones),),
    "min": ((int_min, int_min),),
    "max": ((int_max, int_max),),
}

# x op x = x, x op x = 0, 0 op x = 0
_IDEMPOTENT = ("and", "or", "min", "max")
_CANCELLING = ("sub", "xor", "abs_diff", "sub_sat", "rem")
_ZERO_LEFT = ("div", "rem", "shl", "shr", "rotl", "rotr")

# (x op c) op d = x op (c op d), in integers and bools
_ASSOCIATIVE = ("add", "mul", "and", "or", "xor", "min", "max")

# x op c = x, in floats.  0.0 is neutral for sub only and -0.0 for add only: -0.0 + 0.0 is 0.0.
_FLOAT_NEUTRAL = {"mul": 1.0, "div": 1.0, "add": -0.0, "sub": 0.0}

# a op b = b op' a
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


@rule(*(name for name, row in OPS.items() if row.commutative), *_MIRRORED)
def _constant_right(op: Op, rewriter: Rewriter) -> Replacement:
    """c op x = x op c."""
    a, b = op.operands
    if constant_value(a) is None or constant_value(b) is not None:
        return None
    return become(op, _MIRRORED.get(op.name, op.name), (b, a), op.attrs)


@rule(*{*_NEUTRAL, *_ABSORBING} & OPS.keys())
def _int_constant(op: Op, rewriter: Rewriter) -> Replacement:
    """x op c, by the tables."""
    element = op.result.type.element
    known = None if element.is_float else scalar(op.operands[1])
    if known is None:
        return None
    if any(known == c(element) for c in _NEUTRAL.get(op.name, ())):
        return op.operands[0]
    for c, d in _ABSORBING.get(op.name, ()):
        if known == c(element):
            return set_constant(op, d(element))
    return None


@rule(*_ZERO_LEFT)
def _int_zero_left(op: Op, rewriter: Rewriter) -> Replacement:
    """0 op x = 0; for division 0/0 = 0 by definition."""
    is_zero = not op.result.type.element.is_float and scalar(op.operands[0]) == 0
    return op.operands[0] if is_zero else None


@rule(*_IDEMPOTENT)
def _same_twice(op: Op, rewriter: Rewriter) -> Replacement:
    """x op x = x, with floats too."""
    return op.operands[0] if op.operands[0] is op.operands[1] else None


@rule(*_CANCELLING)
def _cancelling(op: Op, rewriter: Rewriter) -> Replacement:
    """x op x = 0, not with floats, where it may be NaN."""
    if op.result.type.element.is_float or op.operands[0] is not op.operands[1]:
        return None
    return set_constant(op, 0)


@rule(*_FLOAT_NEUTRAL)
def _float_neutral(op: Op, rewriter: Rewriter) -> Replacement:
    """x * 1.0 = x / 1.0 = x + -0.0 = x - 0.0 = x."""
    t = op.result.type.element
    if not t.is_float or scalar(op.operands[1]) != arith.encode_float(_FLOAT_NEUTRAL[op.name], t):
        return None
    return op.operands[0]


@rule("mul", "div", "rem")
def _minus_one(op: Op, rewriter: Rewriter) -> Replacement:
    """x * -1 = x / -1 = -x, as INT_MIN / -1 = -INT_MIN = INT_MIN; x % -1 = 0 with signed integers."""
    t = op.result.type.element
    minus = arith.encode_float(-1.0, t) if t.is_float else -1
    if scalar(op.operands[1]) != minus or (op.name == "rem" and t.is_float):
        return None
    return set_constant(op, 0) if op.name == "rem" else become(op, "neg", op.operands[:1])


@rule("div")
def _float_reciprocal(op: Op, rewriter: Rewriter) -> Replacement:
    """x / 2^k = x * 2^-k, as both round the same exact value."""
    t, known = op.result.type.element, scalar(op.operands[1])
    if not t.is_float or known is None:
        return None
    divisor = arith.decode_float(known, t)
    if divisor == 0.0 or not math.isfinite(divisor) or abs(math.frexp(divisor)[0]) != 0.5:
        return None
    inverse = arith.encode_float(1.0 / divisor, t)
    if 1.0 / arith.decode_float(inverse, t) != divisor or not _is_normal(inverse, t):
        return None
    return become(op, "mul", (op.operands[0], rewriter.encoded_const(inverse, op.result.type)), op.attrs)


def _is_normal(bits: int, t: DataType) -> bool:
    fraction = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[t.name]
    return (bits & ~(1 << ((t.bits or 0) - 1))) >> fraction != 0


@rule("mul", "div", "rem")
def _power_of_two(op: Op, rewriter: Rewriter) -> Replacement:
    """Unsigned: x * 2^k = x << k, x / 2^k = x >> k, x % 2^k = x & (2^k - 1)."""
    dtype, known = op.result.type, scalar(op.operands[1])
    if dtype.element.kind != "uint" or known is None or known < 2 or known & (known - 1):
        return None
    name = {"mul": "shl", "div": "shr", "rem": "and"}[op.name]
    amount = known - 1 if op.name == "rem" else known.bit_length() - 1
    return become(op, name, (op.operands[0], rewriter.encoded_const(amount, dtype)))


@rule("sub")
def _sub_constant(op: Op, rewriter: Rewriter) -> Replacement:
    """Signed: x - c = x + -c.  An unsigned -c would be a huge offset, which proves nothing."""
    dtype, known = op.result.type, scalar(op.operands[1])
    if not dtype.element.is_signed or known is None:
        return None
    negated = arith.wrap(-known, dtype.element)
    return become(op, "add", (op.operands[0], rewriter.encoded_const(negated, dtype)))


@rule(*_ASSOCIATIVE)
def _associative(op: Op, rewriter: Rewriter) -> Replacement:
    """(x op c) op d = x op (c op d), not with floats."""
    dtype, known, inner = op.result.type, scalar(op.operands[1]), defined_by(op.operands[0], op.name)
    if dtype.element.is_float or known is None or inner is None:
        return None
    first, fold = scalar(inner.operands[1]), op.definition.fold_int
    if first is None or fold is None:
        return None
    both = arith.wrap(fold(first, known, dtype.element), dtype.element)
    return become(op, op.name, (inner.operands[0], rewriter.encoded_const(both, dtype)))


@rule("xor")
def _complement(op: Op, rewriter: Rewriter) -> Replacement:
    """x ^ ~0 = ~x."""
    is_mask = scalar(op.operands[1]) == _ones(op.result.type.element)
    return become(op, "not", op.operands[:1]) if is_mask else None


for _involution in (op.not_, op.neg):
    add(
        pattern(
            _involution(_involution("x")), "x", floats="exact",
            name="_involution", doc="not not x = x; neg neg x = x.",
        )
    )  # fmt: skip


@rule("abs")
def _abs(op: Op, rewriter: Rewriter) -> Replacement:
    """|x| = x where x is unsigned, or is itself |y|."""
    operand = op.operands[0]
    return operand if operand.type.element.kind == "uint" or defined_by(operand, "abs") else None


@rule("fma")
def _fma(op: Op, rewriter: Rewriter) -> Replacement:
    """fma x, 1.0, c = x + c; fma x, y, -0.0 = x * y."""
    t = op.result.type.element
    a, b, c = op.operands
    one = arith.encode_float(1.0, t)
    if scalar(a) == one:
        a, b = b, a
    if scalar(b) == one:
        return become(op, "add", (a, c), op.attrs)
    if scalar(c) == arith.encode_float(-0.0, t):
        return become(op, "mul", (a, b), op.attrs)
    return None
