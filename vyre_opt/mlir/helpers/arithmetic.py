"""Bodies of helpers for arithmetic on scalars, where MLIR has no op for it or leaves some results open.

x / 0 = x,  x % 0 = 0,  INT_MIN / -1 = INT_MIN,  INT_MIN % -1 = 0        divisor 1 gives all four
shift and rotate amounts modulo the width
min and max ignore a NaN; of two zeros -0.0 is the smaller
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir import arith
from ...ir.types import DataType
from ..code import Code
from ..helper_key import HelperKey
from ..op_map import direct_op
from ..spelling import mlir_type
from .fmod import fmod
from .functions import FUNCTION_OPS, function

__all__ = ["ARITHMETIC", "arithmetic", "scalar_op"]

F32 = DataType.F32


def arithmetic(code: Code, key: HelperKey, args: list[str]) -> str:
    """The result of an op on scalars of one type."""
    (dtype,) = key.types
    if dtype.is_float and dtype.bits == 16 and key.name not in _OF_HALVES:
        return _through_f32(code, key, args)
    if key.name in FUNCTION_OPS:
        return function(code, key.name, dtype, args, approximates="afn" in key.modifiers)
    rules = _FLOATS if dtype.is_float else _INTS
    return rules[key.name](code, dtype, *args)


def scalar_op(
    code: Code, name: str, dtype: DataType, args: list[str], modifiers: tuple[str, ...] = ()
) -> str:
    """An op on scalars of one type: MLIR's, or a call of its helper."""
    direct = direct_op(name, dtype)
    kind = mlir_type(dtype)
    if direct is None or (dtype.is_int and name in ("div", "rem", "shl", "shr")):
        return code.call(HelperKey(name, modifiers, (dtype,)), [(a, kind) for a in args], kind)
    if direct.form == "intrinsic":
        return code.intrinsic(direct.name, kind, *args)
    if direct.form == "generic":
        return code.emit(f'"{direct.name}"({args[0]}) : ({kind}) -> {kind}')
    return code.op(direct.name, kind, *args)


# --- integers


def _sign(dtype: DataType) -> str:
    return "s" if dtype.is_signed else "u"


def _divisor(code: Code, dtype: DataType, a: str, b: str) -> str:
    """b, or 1 where MLIR leaves a division by b open."""
    kind = mlir_type(dtype)
    is_open = code.compare("eq", kind, b, code.integer(0, kind))
    if dtype.is_signed:
        is_lowest = code.compare("eq", kind, a, code.integer(arith.int_range(dtype)[0], kind))
        is_minus_one = code.compare("eq", kind, b, code.integer(-1, kind))
        is_open = code.op("arith.ori", "i1", is_open, code.op("arith.andi", "i1", is_lowest, is_minus_one))
    return code.select(is_open, kind, code.integer(1, kind), b)


def _division(verb: str) -> Callable[[Code, DataType, str, str], str]:
    def write(code: Code, dtype: DataType, a: str, b: str) -> str:
        divisor = _divisor(code, dtype, a, b)
        return code.op(f"arith.{verb}{_sign(dtype)}i", mlir_type(dtype), a, divisor)

    return write


def _amount(code: Code, dtype: DataType, b: str) -> str:
    kind = mlir_type(dtype)
    return code.op("arith.andi", kind, b, code.integer((dtype.bits or 0) - 1, kind))


def _shl(code: Code, dtype: DataType, a: str, b: str) -> str:
    return code.op("arith.shli", mlir_type(dtype), a, _amount(code, dtype, b))


def _shr(code: Code, dtype: DataType, a: str, b: str) -> str:
    return code.op(f"arith.shr{_sign(dtype)}i", mlir_type(dtype), a, _amount(code, dtype, b))


def _rotate(code: Code, dtype: DataType, a: str, b: str, verbs: tuple[str, str]) -> str:
    kind = mlir_type(dtype)
    shifted_up = code.op(f"arith.{verbs[0]}", kind, a, _amount(code, dtype, b))
    # by 0 both ways gives a | a
    back = _amount(code, dtype, code.op("arith.subi", kind, code.integer(0, kind), b))
    return code.op("arith.ori", kind, shifted_up, code.op(f"arith.{verbs[1]}", kind, a, back))


def _neg(code: Code, dtype: DataType, a: str) -> str:
    kind = mlir_type(dtype)
    return code.op("arith.subi", kind, code.integer(0, kind), a)


def _not(code: Code, dtype: DataType, a: str) -> str:
    kind = mlir_type(dtype)
    ones = code.literal("true", "i1") if dtype.is_bool else code.integer(-1, kind)
    return code.op("arith.xori", kind, a, ones)


def _abs(code: Code, dtype: DataType, a: str) -> str:
    if not dtype.is_signed:
        return a
    kind = mlir_type(dtype)
    is_negative = code.compare("slt", kind, a, code.integer(0, kind))
    return code.select(is_negative, kind, _neg(code, dtype, a), a)


def _int_abs_diff(code: Code, dtype: DataType, a: str, b: str) -> str:
    kind, sign = mlir_type(dtype), _sign(dtype)
    larger, smaller = (code.op(f"arith.{verb}{sign}i", kind, a, b) for verb in ("max", "min"))
    return code.op("arith.subi", kind, larger, smaller)


def _product(code: Code, dtype: DataType, a: str, b: str) -> tuple[str, str]:
    """The product in twice the width, and its type."""
    kind, wide = mlir_type(dtype), f"i{2 * (dtype.bits or 0)}"
    x, y = (code.convert(f"arith.ext{_sign(dtype)}i", kind, wide, value) for value in (a, b))
    return code.op("arith.muli", wide, x, y), wide


def _mul_hi(code: Code, dtype: DataType, a: str, b: str) -> str:
    product, wide = _product(code, dtype, a, b)
    high = code.op("arith.shrui", wide, product, _wide_integer(code, dtype.bits or 0, wide))
    return code.convert("arith.trunci", wide, mlir_type(dtype), high)


def _wide_integer(code: Code, value: int, kind: str) -> str:
    """An integer constant that is not negative unless it is written so."""
    return code.literal(str(value), kind)


def _mul_sat(code: Code, dtype: DataType, a: str, b: str) -> str:
    product, wide = _product(code, dtype, a, b)
    low, high = arith.int_range(dtype)
    product = code.op(f"arith.min{_sign(dtype)}i", wide, product, _wide_integer(code, high, wide))
    if dtype.is_signed:  # a product of unsigned numbers is never too small
        product = code.op("arith.maxsi", wide, product, _wide_integer(code, low, wide))
    return code.convert("arith.trunci", wide, mlir_type(dtype), product)


def _saturating(verb: str) -> Callable[[Code, DataType, str, str], str]:
    def write(code: Code, dtype: DataType, a: str, b: str) -> str:
        kind = mlir_type(dtype)
        low, high = arith.int_range(dtype)
        result = code.op(f"arith.{verb}i", kind, a, b)
        if not dtype.is_signed:
            wrapped = code.compare("ult", kind, *((result, a) if verb == "add" else (a, b)))
            return code.select(wrapped, kind, code.integer(high if verb == "add" else 0, kind), result)
        # it wrapped if the result's sign is not a's, where a's and b's sign lead away from 0 alike
        zero = code.integer(0, kind)
        differs = code.op("arith.xori", kind, a, result)
        other = code.op("arith.xori", kind, b if verb == "sub" else result, a if verb == "sub" else b)
        wrapped = code.compare("slt", kind, code.op("arith.andi", kind, differs, other), zero)
        is_low = code.compare("slt", kind, a, zero)
        limit = code.select(is_low, kind, code.integer(low, kind), code.integer(high, kind))
        return code.select(wrapped, kind, limit, result)

    return write


# --- floats


def _bits_type(dtype: DataType) -> str:
    return f"i{dtype.bits}"


def _magnitude(code: Code, dtype: DataType, a: str) -> str:
    kind, ints = mlir_type(dtype), _bits_type(dtype)
    bits = code.convert("arith.bitcast", kind, ints, a)
    mask = code.integer((1 << ((dtype.bits or 0) - 1)) - 1, ints)
    return code.convert("arith.bitcast", ints, kind, code.op("arith.andi", ints, bits, mask))


def _float_abs_diff(code: Code, dtype: DataType, a: str, b: str) -> str:
    return _magnitude(code, dtype, code.op("arith.subf", mlir_type(dtype), a, b))


def _extremum(name: str) -> Callable[[Code, DataType, str, str], str]:
    def write(code: Code, dtype: DataType, a: str, b: str) -> str:
        """Operands that compare equal differ in the sign of zero at most: or-ing their bits gives -0.0, and-ing 0.0."""
        kind, ints = mlir_type(dtype), _bits_type(dtype)
        a_wins = code.compare("olt" if name == "min" else "ogt", kind, a, b)
        b_is_nan = code.compare("uno", kind, b, b)
        selected = code.select(b_is_nan, kind, a, code.select(a_wins, kind, a, b))
        equal = code.compare("oeq", kind, a, b)
        x, y = (code.convert("arith.bitcast", kind, ints, value) for value in (a, b))
        combined_bits = code.op("arith.ori" if name == "min" else "arith.andi", ints, x, y)
        return code.select(equal, kind, code.convert("arith.bitcast", ints, kind, combined_bits), selected)

    return write


def _through_f32(code: Code, key: HelperKey, args: list[str]) -> str:
    """f16 and bf16 are computed in f32 and rounded once more."""
    (dtype,) = key.types
    kind = mlir_type(dtype)
    wide = [code.convert("arith.extf", kind, "f32", a) for a in args]
    return code.convert("arith.truncf", "f32", kind, scalar_op(code, key.name, F32, wide, key.modifiers))


_OF_HALVES = ("min", "max", "abs", "abs_diff")
"""Helpers that work on f16 and bf16 as they are."""

_FLOATS: dict[str, Callable[..., str]] = {
    "min": _extremum("min"),
    "max": _extremum("max"),
    "abs": _magnitude,
    "abs_diff": _float_abs_diff,
    "rem": fmod,
}

_INTS: dict[str, Callable[..., str]] = {
    "div": _division("div"),
    "rem": _division("rem"),
    "shl": _shl,
    "shr": _shr,
    "rotl": lambda code, dtype, a, b: _rotate(code, dtype, a, b, ("shli", "shrui")),
    "rotr": lambda code, dtype, a, b: _rotate(code, dtype, a, b, ("shrui", "shli")),
    "neg": _neg,
    "not": _not,
    "abs": _abs,
    "abs_diff": _int_abs_diff,
    "mul_hi": _mul_hi,
    "mul_sat": _mul_sat,
    "add_sat": _saturating("add"),
    "sub_sat": _saturating("sub"),
}

ARITHMETIC = frozenset({*_FLOATS, *_INTS, *FUNCTION_OPS, "sqrt", "floor", "ceil", "trunc", "round_even"})
"""Ops whose helpers are here; the last five of f16 and bf16 only."""
