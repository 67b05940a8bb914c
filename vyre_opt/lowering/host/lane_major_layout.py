"""Vectors that a subgroup holds lane after lane, as they lie in memory.

Elsewhere a vec<N x T> is N LLVM vectors, each with one element of all 32 lanes.  An op that moves elements within a
lane would be code for each element then.  So vectors of integers and bools that `permute` or `movemask` work on, and
those computed with them, are held in chunks of a few whole lanes, each as long as a register of the machine:

    a vec<16 x u8>      %t0                          %t1                          ...
    by elements         e0 of lanes 0 to 31          e1 of lanes 0 to 31          16 of <32 x i8>
    lane after lane     e0 .. e15 of lanes 0 to 3    e0 .. e15 of lanes 4 to 7    8 of <64 x i8>

A value that is uniform over the subgroup is one LLVM vector with the elements of one lane.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op, Program, Value
from ...records import dataclass
from .lane_facts import LaneFacts

__all__ = ["LaneMajorLayout", "lane_major_layout"]

_MOVED_TOGETHER = frozenset({"unary", "binary", "compare", "select", "convert", "splat", "permute"})
"""Formats of the ops whose operands and result are best held alike."""

_SEEDS = frozenset({"permute", "movemask"})


@dataclass(frozen=True, slots=True)
class LaneMajorLayout:
    """`values`: those held lane after lane, and the registers that all lanes of each fill; `lanes`: the lanes of a chunk,
    where a value differs from lane to lane."""

    values: Mapping[Value, int]
    lanes: int


def lane_major_layout(program: Program, facts: LaneFacts, register_bytes: int) -> LaneMajorLayout:
    """The layout of a program: all vectors of integers and bools that ops connect with a permute or a movemask."""
    users: dict[Value, list[Op]] = {}
    for op in program.walk():
        for value in op.operands:
            users.setdefault(value, []).append(op)
    ops = [op for of_value in users.values() for op in of_value]
    seeds = {v for op in ops if op.definition.format in _SEEDS for v in (*op.operands, *op.results)}
    waiting = list(seeds)
    while waiting:
        value = waiting.pop()
        around = [*users.get(value, ()), *([value.owner] if isinstance(value.owner, Op) else [])]
        for op in around:
            if op.definition.format in _MOVED_TOGETHER and all(
                map(_is_integral, (*op.operands, *op.results))
            ):
                connected = {v for v in (*op.operands, *op.results) if v.type.is_vec} - seeds
                seeds |= connected
                waiting += connected
    values = [v for v in seeds if v.type.is_vec and _may_be_lane_major(v)]
    widest = max([1, *(v.type.lanes for v in values if not facts.is_uniform(v))])
    lanes = max(1, register_bytes // widest)
    registers = {v: -(-_bytes(v, facts) // register_bytes) for v in values}
    return LaneMajorLayout(registers, min(SUBGROUP_SIZE, 1 << (lanes.bit_length() - 1)))


def _bytes(value: Value, facts: LaneFacts) -> int:
    lanes = 1 if facts.is_uniform(value) else SUBGROUP_SIZE
    return lanes * value.type.lanes * max(1, (value.type.element.bits or 8) // 8)


def _is_integral(value: Value) -> bool:
    return value.type.element.is_int or value.type.element.is_bool


def _may_be_lane_major(value: Value) -> bool:
    """Whether a value's op is a load, or one that this layout supports."""
    op = value.owner
    if not isinstance(op, Op) or not all(map(_is_integral, (*op.operands, *op.results))):
        return False
    return op.definition.format in (*_MOVED_TOGETHER, "const", "load")
