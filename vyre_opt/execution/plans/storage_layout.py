"""Places of a pipeline's own buffers in one block of memory.

Buffers share memory where the last launch that takes one comes before the first that takes the other:

    launch                1    2    3    4
    @a                    w----r                 bytes 0 to 399
    @b                         w----r            bytes 448 to 847
    @c                              w----r       bytes 0 to 399

So a chain of launches needs no more than two buffers, which stay in the CPU's caches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...records import dataclass
from .steps import LaunchStep, PipelinePlan, steps_of

__all__ = ["ALIGNMENT", "StorageLayout", "storage_layout"]

ALIGNMENT = 64
"""A cache line, so that no two buffers have one in common."""


@dataclass(frozen=True, slots=True)
class StorageLayout:
    """`offsets`: of each buffer, in bytes, by name; `bytes`: of the block.  The block is aligned to ALIGNMENT."""

    offsets: dict[str, int]
    bytes: int


@dataclass(slots=True)
class _SharedBlock:
    """Memory of buffers that take turns.  `last`: the step after which it is free."""

    bytes: int
    last: int
    buffers: list[str]


def storage_layout(plan: PipelinePlan, names: Sequence[str], filled: Collection[str]) -> StorageLayout:
    """The layout of these buffers; those that are `filled` before the first launch share no memory.

    The first launch that takes one of the others must write it whole.
    """
    spans = _spans(plan)
    slots: list[_SharedBlock] = []
    for name in sorted(names, key=lambda name: spans.get(name, (0, 0))):
        first, last = (0, len(plan.steps)) if name in filled else spans.get(name, (0, 0))
        size = -(-plan.size(name) // ALIGNMENT) * ALIGNMENT
        # what is filled is there from the start, so no slot is free for it
        free = [slot for slot in slots if slot.last < first]
        if free:
            slot = min(free, key=lambda slot: abs(slot.bytes - size))
            slot.bytes, slot.last = max(slot.bytes, size), last
            slot.buffers.append(name)
        else:
            slots.append(_SharedBlock(size, last, [name]))
    offsets: dict[str, int] = {}
    start = 0
    for slot in slots:
        offsets |= dict.fromkeys(slot.buffers, start)
        start += slot.bytes
    return StorageLayout(offsets, start)


def _spans(plan: PipelinePlan) -> dict[str, tuple[int, int]]:
    """The first and the last of the plan's steps that take a buffer.

    A repeat is one step: what one of its rounds leaves, the next may find.
    """
    spans: dict[str, tuple[int, int]] = {}
    for number, top in enumerate(plan.steps):
        for step in steps_of([top]):
            if isinstance(step, LaunchStep):
                for name in step.buffers:
                    spans[name] = (spans.get(name, (number, number))[0], number)
    return spans
