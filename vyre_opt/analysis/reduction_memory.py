"""Workgroup memory in which the subgroups of a workgroup hand over what `workgroup_reduce` and `workgroup_scan` combine.

    straight line    @a, @b, @a, @b ...    by turns: before @a is written again, all have met to fill @b, and so have read @a
    if, for, while   @c                    behind a barrier of its own, since it is open which one came before

Each element type has buffers of its own; a workgroup of one subgroup needs none.
"""

from __future__ import annotations

from collections import Counter

from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import AccessMode, Block, Buffer, Op, Program
from ..ir.rewrite import fresh_name
from ..records import dataclass

__all__ = ["Exchange", "exchanges", "has_workgroup_reductions", "is_workgroup_reduction", "reduction_bytes"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """The memory of one op: an element for the total of each subgroup, and one for what the first subgroup makes of them.

    `is_awaited`: whether somebody may still be reading it when the op begins.
    """

    buffer: Buffer
    is_awaited: bool


def is_workgroup_reduction(op: Op) -> bool:
    return "workgroup" in op.definition.effects


def has_workgroup_reductions(program: Program) -> bool:
    return any(is_workgroup_reduction(op) for op in program.walk())


def reduction_bytes(program: Program) -> int:
    """The bytes of workgroup memory that the workgroup's reductions and scans take beside the buffers of `program`."""
    buffers = {each.buffer.name: each.buffer for each in exchanges(program).values()}
    return sum(buffer.size_bytes or 0 for buffer in buffers.values())


def exchanges(program: Program) -> dict[Op, Exchange]:
    """The memory of each of the workgroup's reductions and scans; none in a workgroup of one subgroup."""
    if program.lanes <= SUBGROUP_SIZE:
        return {}
    straight = set(_straight_line(program.body))
    count = 2 * -(-program.lanes // SUBGROUP_SIZE)
    names: set[str] = {*program.buffers}
    turns: Counter[str] = Counter()
    buffers: dict[tuple[str, int], Buffer] = {}
    result: dict[Op, Exchange] = {}
    for op in program.walk():
        if not is_workgroup_reduction(op):
            continue
        dtype = op.operands[0].type
        turn = 2
        if op in straight:
            turn = turns[dtype.name] % 2
            turns[dtype.name] += 1
        key = dtype.name, turn
        if key not in buffers:
            name = fresh_name(f"totals.{dtype.name}", names)
            names.add(name)
            buffers[key] = Buffer(name, dtype, count, AccessMode.WORKGROUP)
        result[op] = Exchange(buffers[key], op not in straight)
    return result


def _straight_line(block: Block) -> list[Op]:
    """The ops that every run of a program executes once, in their order."""
    ops: list[Op] = []
    for op in block.ops:
        ops += _straight_line(op.regions[0]) if op.name == "region" else [op]
    return ops
