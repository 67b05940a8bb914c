"""How many invocations a workgroup gets for its slices."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.program import Program
from ..ir.rewrite import every_op

__all__ = ["FOLDED", "GROUP", "SliceSchedule", "has_slices", "slice_schedule"]

FOLDED = 4096
"""Positions of a sum that are a multiple of it apart are folded first, see language.md."""
GROUP = 4
"""Neighbours that an invocation has: the first steps of the tree that a sum is."""
FEWEST, MANY = 64, 256
"""Lanes of a workgroup: with fewer each would have more sums than registers hold, and for long rows."""


@dataclass(frozen=True)
class SliceSchedule:
    """`lanes`: invocations of a workgroup, a power of two."""

    lanes: int = MANY

    def __post_init__(self) -> None:
        if self.lanes & (self.lanes - 1) or not FEWEST <= self.lanes <= FOLDED // GROUP:
            raise ValueError(f"lanes are a power of two from {FEWEST} to {FOLDED // GROUP}, not {self.lanes}")


def has_slices(program: Program) -> bool:
    return any(op.definition.format.startswith("slice_") for op in every_op(program.body))


def slice_schedule(program: Program) -> SliceSchedule:
    """The default: no more lanes than the longest slice has groups."""
    longest = 0
    for op in every_op(program.body):
        if op.definition.format not in ("slice_load", "slice_broadcast"):
            continue
        extent = op.result.type.extents[-1]
        if extent is None and op.name == "slice_load":
            extent = program.buffers[op.attrs["buffer"]].shape[-1]
        longest = max(longest, FOLDED if extent is None and op.name == "slice_load" else extent or 0)
    lanes = FEWEST
    while lanes < MANY and lanes * GROUP < longest:
        lanes *= 2
    return SliceSchedule(lanes)
