"""`//` and `%` as Python has them: the quotient is rounded down, and the remainder has the sign of the divisor.

The IR's div and rem round towards zero, so signed integers and floats need a correction:

    q, r = div a, b; rem a, b        of integers, where r is not 0 and has not the sign of b:  q - 1, r + b

By 0 they give what the IR's ops give, x and 0, where Python raises an error.
"""

from __future__ import annotations

from typing import Any

from ..ir.program import Op, Value
from ..ir.rewrite import constant_value
from ..ir.types import DataType
from .emitter import Emitter
from .inference import AnyType, known

__all__ = ["float_floor_div", "float_remainder", "floor_div", "floor_rem", "is_settled_unsigned"]


def is_settled_unsigned(dtype: AnyType) -> bool:
    """Whether div and rem are what Python has: for unsigned integers."""
    dtype = known(dtype)
    return isinstance(dtype, DataType) and dtype.element.kind == "uint"


def floor_div(emitter: Emitter, op: Op) -> Value:
    """The quotient of integers rounded down."""
    (a, b), dtype = op.operands, op.results[0].type
    divisor = _positive(b)
    if not dtype.element.is_signed:
        return emitter.value("div", (a, b), dtype)
    if divisor is not None and divisor & (divisor - 1) == 0:
        return emitter.value("shr", (a, emitter.number(divisor.bit_length() - 1, dtype, b)), dtype)
    quotient, remainder = emitter.value("div", (a, b), dtype), emitter.value("rem", (a, b), dtype)
    less = emitter.value("sub", (quotient, emitter.number(1, dtype, b)), dtype)
    return emitter.value("select", (_is_off(emitter, remainder, b, dtype), less, quotient), dtype)


def floor_rem(emitter: Emitter, op: Op) -> Value:
    """The remainder of integers, of the sign of the divisor."""
    (a, b), dtype = op.operands, op.results[0].type
    divisor = _positive(b)
    if not dtype.element.is_signed:
        return emitter.value("rem", (a, b), dtype)
    if divisor is not None and divisor & (divisor - 1) == 0:
        return emitter.value("and", (a, emitter.number(divisor - 1, dtype, b)), dtype)
    remainder = emitter.value("rem", (a, b), dtype)
    more = emitter.value("add", (remainder, b), dtype)
    return emitter.value("select", (_is_off(emitter, remainder, b, dtype), more, remainder), dtype)


def float_remainder(emitter: Emitter, op: Op) -> Value:
    """The remainder of floats, of the sign of the divisor, 0.0 for a multiple too."""
    (a, b), dtype = op.operands, op.results[0].type
    remainder = emitter.value("rem", (a, b), dtype)
    is_rest, is_off = _float_tests(emitter, remainder, b, dtype)
    moved = emitter.value("select", (is_off, emitter.value("add", (remainder, b), dtype), remainder), dtype)
    # a zero of the sign of b: 0 * b would be NaN where b is inf
    flag = dtype.with_element(DataType.BOOL)
    is_negative = emitter.value("lt", (b, emitter.number(0.0, dtype, b)), flag)
    zero = emitter.value(
        "select", (is_negative, emitter.number(-0.0, dtype, b), emitter.number(0.0, dtype, b)), dtype
    )
    return emitter.value("select", (is_rest, moved, zero), dtype)


def float_floor_div(emitter: Emitter, op: Op) -> Value:
    """The quotient of floats rounded down: of a - rem(a, b), which is nearly a multiple; by 0 it is a / b.

    In f16 and bf16 that difference would be rounded too coarsely, so these are f32 meanwhile, as in NumPy.
    """
    dtype = op.results[0].type
    if dtype.element in (DataType.F16, DataType.BF16):
        wide = dtype.with_element(DataType.F32)
        a, b = (emitter.value("cast", (operand,), wide) for operand in op.operands)
        return emitter.value("cast", (_floored(emitter, a, b, wide),), dtype)
    a, b = op.operands
    return _floored(emitter, a, b, dtype)


def _floored(emitter: Emitter, a: Value, b: Value, dtype: DataType) -> Value:
    flag, emit = dtype.with_element(DataType.BOOL), emitter.value
    remainder = emit("rem", (a, b), dtype)
    _, is_off = _float_tests(emitter, remainder, b, dtype)
    plain = emit("div", (emit("sub", (a, remainder), dtype), b), dtype)
    one, zero = emitter.number(1.0, dtype, b), emitter.number(0.0, dtype, b)
    quotient = emit("select", (is_off, emit("sub", (plain, one), dtype), plain), dtype)
    whole = emit("floor", (quotient,), dtype)
    is_nearer = emit("gt", (emit("sub", (quotient, whole), dtype), emitter.number(0.5, dtype, b)), flag)
    nearest = emit("select", (is_nearer, emit("add", (whole, one), dtype), whole), dtype)
    exact = emit("div", (a, b), dtype)
    signed_zero = emit("mul", (zero, exact), dtype)
    result = emit("select", (emit("eq", (quotient, zero), flag), signed_zero, nearest), dtype)
    return emit("select", (emit("eq", (b, zero), flag), exact, result), dtype)


def _float_tests(emitter: Emitter, remainder: Value, b: Value, dtype: DataType) -> tuple[Value, Value]:
    """Whether a remainder is not 0, and whether it is not 0 and has not the sign of the divisor."""
    zero, flag, emit = emitter.number(0.0, dtype, b), dtype.with_element(DataType.BOOL), emitter.value
    is_rest = emit("ne", (remainder, zero), flag)
    differs = emit("ne", (emit("lt", (remainder, zero), flag), emit("lt", (b, zero), flag)), flag)
    return is_rest, emit("and", (is_rest, differs), flag)


def _is_off(emitter: Emitter, remainder: Value, b: Value, dtype: DataType) -> Value:
    """Whether a remainder is not 0 and has not the sign of the divisor."""
    zero, flag = emitter.number(0, dtype, b), dtype.with_element(DataType.BOOL)
    is_rest = emitter.value("ne", (remainder, zero), flag)
    if _positive(b) is not None:
        return emitter.value("lt", (remainder, zero), flag)
    signs = emitter.value("xor", (remainder, b), dtype)
    differs = emitter.value("lt", (signs, zero), flag)
    return emitter.value("and", (is_rest, differs), flag)


def _positive(value: Value) -> int | None:
    """The value of a positive constant, the same in all lanes."""
    constant: Any = constant_value(value)
    return constant if isinstance(constant, int) and constant > 0 else None
