"""The byte budget of a group: which neighbouring stages fit it together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .launch_groups import StageOverBudget, check_sum

__all__ = ["StageMemory", "check_each_fits", "earliest_starts", "required_bytes"]


class StageMemory(NamedTuple):
    """The memory that a stage needs: buffers, by number and each once, and `scratch` bytes of its own.

    A group needs each buffer of its stages once, and the largest scratch of any stage: a stage no longer
    needs its scratch when the next one begins.
    """

    buffers: tuple[int, ...]
    scratch: int


def required_bytes(group: Sequence[StageMemory], sizes: Sequence[int]) -> int:
    """Bytes that a group needs in all."""
    buffers = {buffer for stage in group for buffer in stage.buffers}
    return sum(sizes[buffer] for buffer in buffers) + max(stage.scratch for stage in group)


def check_each_fits(
    ids: Sequence[int], stages: Sequence[StageMemory], sizes: Sequence[int], budget: int
) -> None:
    """Raises ByteCountOverflow or StageOverBudget for the first stage that does not fit alone."""
    for id, stage in zip(ids, stages, strict=True):
        required = sum(sizes[buffer] for buffer in stage.buffers) + stage.scratch
        if required > budget:
            check_sum(required, "required_bytes")
            raise StageOverBudget(id, required, budget)


def earliest_starts(
    stages: Sequence[StageMemory], sizes: Sequence[int], budget: int, may_join: Callable[[int, int], bool]
) -> list[int]:
    """First stage of the longest group that ends with each stage.

    `may_join(first, last)`: whether stage `last` may follow in the group of `first` to `last - 1`; if so,
    it must be able to join any tail of it.  It is called at most 2 n times.  A stage that does not fit
    alone is a group alone.  Time is O(n + uses of buffers), by a sliding window: the result never decreases.
    """
    users = [0] * len(sizes)  # buffer -> number of stages of the window that need it
    total = 0
    largest: deque[int] = deque()  # stages of the window with no larger scratch after them, so falling
    start, starts = 0, []
    for last, stage in enumerate(stages):
        for buffer in stage.buffers:
            total += 0 if users[buffer] else sizes[buffer]
            users[buffer] += 1
        while largest and stages[largest[-1]].scratch <= stage.scratch:
            largest.pop()
        largest.append(last)
        while start < last and (total + stages[largest[0]].scratch > budget or not may_join(start, last)):
            for buffer in stages[start].buffers:
                users[buffer] -= 1
                total -= 0 if users[buffer] else sizes[buffer]
            if largest[0] == start:
                largest.popleft()
            start += 1
        starts.append(start)
    return starts
