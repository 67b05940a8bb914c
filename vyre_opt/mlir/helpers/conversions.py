"""Bodies of helpers for conversions: from float to integer, to bool, between f16 and bf16, and bits in other lanes."""

from __future__ import annotations

from ...ir import arith
from ...ir.types import DataType
from ..code import Code
from ..helper_key import HelperKey
from ..op_map import CASTS, type_class
from ..spelling import constant, mlir_type

__all__ = ["bitcast", "cast", "direct_cast"]


def direct_cast(source: DataType, target: DataType) -> str | None:
    """MLIR's op for a cast between scalar types, "" if the bits stay; None where it needs a helper."""
    if source is target:
        return ""
    if target.is_bool or (source.is_float and target.is_int):
        return None
    sign = "s" if source.is_signed else "u"
    if source.is_float:
        old, new = source.bits or 0, target.bits or 0
        return None if old == new else CASTS["extend" if old < new else "round", ""]
    if target.is_float:
        return CASTS["to_float", sign]
    old, new = 1 if source.is_bool else source.bits or 0, target.bits or 0
    if old == new:
        return ""
    return CASTS["widen", sign] if old < new else CASTS["narrow", ""]


def cast(code: Code, key: HelperKey, args: list[str]) -> str:
    source, target = key.types
    (value,) = args
    kind = mlir_type(source)
    if target.is_bool:
        zero = code.literal(constant(0, source), kind)
        return code.compare("une" if source.is_float else "ne", kind, value, zero)
    if target.is_float:
        return code.convert(
            "arith.truncf", "f32", mlir_type(target), code.convert("arith.extf", kind, "f32", value)
        )
    if source.bits == 16:
        return _to_integer(code, DataType.F32, target, code.convert("arith.extf", kind, "f32", value))
    return _to_integer(code, source, target, value)


def _to_integer(code: Code, source: DataType, target: DataType, value: str) -> str:
    """Truncates, saturates at the ends of the range, and gives 0 for a NaN: arith leaves all but the first open.

    2^bits and the like are floats, which the largest integers need not be.
    """
    kind, ints = mlir_type(source), mlir_type(target)
    low, high = arith.int_range(target)
    sign = "s" if target.is_signed else "u"

    def number(of: float) -> str:
        return code.literal(constant(arith.encode_float(of, source), source), kind)

    above = code.compare("oge", kind, value, number(float(high + 1)))
    # low itself is a float; below it by less than 1 is truncated to it
    below = code.compare("olt", kind, value, number(float(low)))
    is_nan = code.compare("uno", kind, value, value)
    outside = code.op("arith.ori", "i1", code.op("arith.ori", "i1", above, below), is_nan)
    inside = code.select(outside, kind, number(0.0), value)
    result = code.convert(f"arith.fpto{sign}i", kind, ints, inside)
    result = code.select(above, ints, code.integer(high, ints), result)
    return code.select(below, ints, code.integer(low, ints), result)


def bitcast(code: Code, key: HelperKey, args: list[str]) -> str:
    """The bits as lanes of another width; lane 0 has the lowest."""
    source, target = key.types
    value, kind = args[0], mlir_type(source)
    if not source.is_vec:
        whole = f"vector<1x{kind}>"
        zero = code.literal("0.0" if source.is_float else "0", whole)
        value, kind = _inserted(code, value, zero, whole), whole
    target_type = mlir_type(target) if target.is_vec else f"vector<1x{mlir_type(target)}>"
    value = code.convert("vector.bitcast", kind, target_type, value)
    if target.is_vec:
        return value
    first = code.integer(0, "index")
    return code.emit(f"vector.extractelement {value}[{first} : index] : {target_type}")


def _inserted(code: Code, scalar: str, vector: str, kind: str) -> str:
    first = code.integer(0, "index")
    return code.emit(f"vector.insertelement {scalar}, {vector}[{first} : index] : {kind}")


def has_same_lanes(source: DataType, target: DataType) -> bool:
    """Whether a bitcast keeps the number of lanes, as arith.bitcast needs it."""
    return source.lanes == target.lanes and source.is_vec == target.is_vec and type_class(source) != "b"
