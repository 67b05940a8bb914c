"""Bodies of helpers for vectors: lane by lane where the op of the lanes is no op of MLIR, bytes by other bytes, masks."""

from __future__ import annotations

from ...ir.ops import OPS
from ...ir.types import DataType
from ..code import Code
from ..helper_key import HelperKey
from ..spelling import mlir_type
from .arithmetic import scalar_op

__all__ = ["lane_by_lane", "movemask", "permute", "vector"]


def _lane(code: Code, vector: str, number: int, dtype: DataType) -> str:
    index = code.integer(number, "index")
    return code.emit(f"vector.extractelement {vector}[{index} : index] : {mlir_type(dtype)}")


def _of_lanes(code: Code, lanes: list[str], dtype: DataType) -> str:
    """A vector of scalars."""
    kind, element = mlir_type(dtype), dtype.element
    zero = "false" if element.is_bool else "0.0" if element.is_float else "0"
    whole = code.literal(zero, kind)
    for number, lane in enumerate(lanes):
        index = code.integer(number, "index")
        whole = code.emit(f"vector.insertelement {lane}, {whole}[{index} : index] : {kind}")
    return whole


def lane_by_lane(code: Code, key: HelperKey, args: list[str]) -> str:
    """An op on vectors, whose lanes are those of the op on scalars."""
    source, target = key.types[0], key.types[-1]
    lanes = []
    for number in range(source.lanes):
        scalars = [_lane(code, arg, number, source) for arg in args]
        if OPS[key.name].format == "convert":
            scalar_key = HelperKey(key.name, key.modifiers, (source.element, target.element))
            kinds = mlir_type(source.element), mlir_type(target.element)
            lanes.append(code.call(scalar_key, [(scalars[0], kinds[0])], kinds[1]))
        else:
            lanes.append(scalar_op(code, key.name, source.element, scalars, key.modifiers))
    return _of_lanes(code, lanes, target)


def vector(code: Code, key: HelperKey, args: list[str]) -> str:
    return _of_lanes(code, args, key.types[0])


def permute(code: Code, key: HelperKey, args: list[str]) -> str:
    """A byte of the table for each byte of the index; 0 where the table has no such lane."""
    table_type, index_type = key.types
    table, indices = args
    count, zero = code.integer(table_type.lanes, "i8"), code.integer(0, "i8")
    lanes = []
    for number in range(index_type.lanes):
        at = _lane(code, indices, number, index_type)
        exists = code.compare("ult", "i8", at, count)
        inside = code.convert("arith.index_castui", "i8", "index", code.select(exists, "i8", at, zero))
        byte = code.emit(f"vector.extractelement {table}[{inside} : index] : {mlir_type(table_type)}")
        lanes.append(code.select(exists, "i8", byte, zero))
    return _of_lanes(code, lanes, index_type)


def movemask(code: Code, key: HelperKey, args: list[str]) -> str:
    """The lanes as the bits of an integer, lane 0 lowest."""
    (flags,) = key.types
    kind = f"i{flags.lanes}"
    word = code.integer(0, kind)
    for number in range(flags.lanes):
        flag = _lane(code, args[0], number, flags)
        bit = code.select(flag, kind, code.integer(1 << number, kind), code.integer(0, kind))
        word = code.op("arith.ori", kind, word, bit)
    return word
