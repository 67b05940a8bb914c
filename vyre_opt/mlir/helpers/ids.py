"""Bodies of helpers for ids and sizes that the gpu dialect does not have, or mlir-opt 19 does not lower."""

from __future__ import annotations

from ...ir.ops import AXES, SUBGROUP_SIZE
from ..code import Code
from ..helper_key import HelperKey

__all__ = ["IDS", "id_or_size", "linear_id"]

IDS = ("global_id", "global_size", "lane_id", "subgroup_id", "subgroup_size", "num_subgroups")


def _dimension(code: Code, name: str, axis: str) -> str:
    """An id or a size of the gpu dialect along an axis, as i32; none is larger."""
    return code.convert("arith.index_castui", "index", "i32", code.emit(f"gpu.{name} {axis}"))


def linear_id(code: Code) -> str:
    """x + size_x * (y + size_y * z), as i32."""
    total = _dimension(code, "thread_id", "z")
    for axis in ("y", "x"):
        total = code.op("arith.muli", "i32", total, _dimension(code, "block_dim", axis))
        total = code.op("arith.addi", "i32", total, _dimension(code, "thread_id", axis))
    return total


def id_or_size(code: Code, key: HelperKey, args: list[str]) -> str:
    if key.name in ("global_id", "global_size"):
        axis = key.modifiers[0]
        groups = _dimension(code, "block_id" if key.name == "global_id" else "grid_dim", axis)
        first = code.op("arith.muli", "i32", groups, _dimension(code, "block_dim", axis))
        if key.name == "global_size":
            return first
        return code.op("arith.addi", "i32", first, _dimension(code, "thread_id", axis))
    size = code.integer(SUBGROUP_SIZE, "i32")
    if key.name == "subgroup_size":
        return size
    if key.name == "num_subgroups":
        lanes = code.integer(1, "i32")
        for axis in AXES:
            lanes = code.op("arith.muli", "i32", lanes, _dimension(code, "block_dim", axis))
        rounded = code.op("arith.addi", "i32", lanes, code.integer(SUBGROUP_SIZE - 1, "i32"))
        return code.op("arith.divui", "i32", rounded, size)
    verb = "arith.remui" if key.name == "lane_id" else "arith.divui"
    return code.op(verb, "i32", linear_id(code), size)
