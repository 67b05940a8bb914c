"""How many invocations a workgroup gets for its slices, and for which lengths of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ..analysis.alignment import Alignment
from ..ir.program import Program, Shape
from ..ir.rewrite import constant_value, every_op

__all__ = ["FOLDED", "GROUP", "SliceSchedule", "has_slices", "slice_schedule", "with_open_extents"]

FOLDED = 4096
"""Positions of a sum that are a multiple of it apart are folded first, see language.md."""
GROUP = 4
"""Neighbours that an invocation has: the first steps of the tree that a sum is."""
FEWEST, MOST = 32, 1024
"""Lanes of a workgroup."""
MANY = 256
"""Lanes for rows whose length is not known."""
SHARED = (1, 2, 4, 8, 16)
"""Workgroups that may share a row."""
WIDE = 8192
"""Elements of rows that are shared, at least."""
SHARES = {1: 48, 2: 32, 4: 32, 8: 48, 16: 64}
"""Elements that each lane of so many workgroups holds, at most, where fewer workgroups do (softmax on an H200: of 40,001 columns by 4
workgroups 71 us, by 8 64; of 77,777 by 8 117, by 16 126)."""
HELD = {32: 16, 64: 16, 128: 16, 256: 48, 512: 48, 1024: 64}
"""Elements that each lane of so many holds, at most, where fewer lanes do."""


@dataclass(frozen=True)
class SliceSchedule:
    """`lanes`: invocations of a workgroup, a power of two.  `neighbours`: elements side by side that each has at a time, 4 where
    vectors of them are aligned, or 1.  `workgroups`: of a cluster, which share the rows."""

    lanes: int = MANY
    neighbours: int = GROUP
    workgroups: int = 1

    def __post_init__(self) -> None:
        if self.workgroups not in SHARED or self.lanes * self.workgroups * self.neighbours > FOLDED:
            raise ValueError(
                f"workgroups that share a row are {', '.join(map(str, SHARED[:-1]))} or {SHARED[-1]}, and together have up to "
                f"{FOLDED} elements at a time, not {self.workgroups} of {self.lanes} lanes with {self.neighbours}"
            )
        if self.neighbours not in (1, GROUP):
            raise ValueError(f"neighbours are 1 or {GROUP}, not {self.neighbours}")
        if self.lanes not in HELD:
            raise ValueError(f"lanes are a power of two from {FEWEST} to {MOST}, not {self.lanes}")


def has_slices(program: Program) -> bool:
    return any(op.definition.format.startswith("slice_") for op in every_op(program.body))


def slice_schedule(program: Program, processors: int = 0) -> SliceSchedule:
    """As few lanes as hold the longest slice in registers.

    `processors`: multiprocessors of a GPU that has clusters; 0 for what has none.
    """
    longest = longest_slice(program)
    lanes = next((lanes for lanes, held in HELD.items() if longest <= lanes * held), MOST)
    schedule = SliceSchedule(lanes, GROUP if _are_aligned(program) else 1)
    if not processors or program.grid is None or longest < WIDE or not may_share(program):
        return schedule
    return _shared(schedule, longest, prod(program.grid), processors)


def _shared(schedule: SliceSchedule, longest: int, rows: int, processors: int) -> SliceSchedule:
    """As many workgroups a row as hold it, and give all multiprocessors work; the schedule itself where one is enough."""
    most = FOLDED // (MANY * schedule.neighbours)
    neighbours = schedule.neighbours if longest <= MANY * most * SHARES[most] else 1
    most, workgroups = FOLDED // (MANY * neighbours), 1
    while workgroups < most and (
        longest > MANY * workgroups * SHARES[workgroups] or rows * workgroups * 2 <= processors
    ):
        workgroups *= 2
    if workgroups == 1 or longest > MANY * workgroups * SHARES[workgroups]:
        return schedule
    return SliceSchedule(MANY, neighbours, workgroups)


def may_share(program: Program) -> bool:
    """Whether clusters can compute with the rows: each once, their sums before anything is written, of 4 or 8 bytes."""
    read: set[str] = set()
    written: set[str] = set()
    for op in program.body.ops:
        format, effects = op.definition.format, op.definition.effects
        if op.regions or effects & {"atomic", "print", "trap", "wait", "sync", "subgroup"}:
            return False
        if format in ("slice_scan", "slice_transpose", "slice_dot", "slice_gather"):
            return False
        if format == "slice_reduce" and (written or (op.operands[0].type.element.bits or 0) < 32):
            return False
        if any(len(value.type.extents) > 1 for value in (*op.operands, *op.results)):
            return False
        if "read" in effects:
            read.add(op.attrs["buffer"])
        if "write" in effects:
            written.add(op.attrs["buffer"])
    return not read & written


def longest_slice(program: Program) -> int:
    """Elements of the longest slice of a program; of one whose length is not known, as many as MANY lanes hold."""
    longest = 0
    for op in every_op(program.body):
        if not op.definition.format.startswith("slice_") or not op.results:
            continue
        extents = op.result.type.extents
        if op.name == "slice_load":
            shape = program.buffers[op.attrs["buffer"]].shape
            extents = tuple(
                total if extent is None else extent
                for extent, total in zip(extents, shape[len(shape) - len(extents) :], strict=True)
            )
        if None not in extents:
            longest = max(longest, prod(extent or 0 for extent in extents))
        elif op.name == "slice_load":
            longest = max(longest, MANY * HELD[MANY])
    return longest


def _are_aligned(program: Program) -> bool:
    """Whether GROUP neighbours of each slice are a vector of a buffer."""
    alignment = Alignment(program)
    for op in every_op(program.body):
        if op.definition.format not in ("slice_load", "slice_store"):
            continue
        rows = program.buffers[op.attrs["buffer"]].shape[1:]
        if (rows and (rows[-1] or 1) % GROUP) or 1 << alignment.of(op.indices[-1]) < GROUP:
            return False
    return True


def with_open_extents(program: Program, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """The shapes of buffers that rows of open extents are taken from, along these dimensions as a call has them."""
    fixed: dict[str, Shape] = {}
    for op in every_op(program.body):
        if op.definition.format not in ("slice_load", "slice_store"):
            continue
        name = op.attrs["buffer"]
        extents = (op.operands[0] if op.name == "slice_store" else op.result).type.extents
        buffer = program.buffers[name]
        shape = list(fixed.get(name, buffer.shape))
        first = len(shape) - len(extents)
        for axis, extent in enumerate(extents):
            known = shapes[name][first + axis] if name in shapes else None
            if extent is None and known is not None and constant_value(op.indices[first + axis]) is not None:
                shape[first + axis] = known
        if shape != [*buffer.shape]:
            fixed[name] = tuple(shape)
    return fixed
