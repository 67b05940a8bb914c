"""Which stages of a line may share a group: a sliding window over what they hold."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .launch_groups import StageOverBudget, check_sum

__all__ = ["StageMemory", "check_each_fits", "earliest_starts", "required_bytes"]


class StageMemory(NamedTuple):
    """What a stage holds: buffers, by number and each once, and `scratch` bytes of its own.

    A group holds each buffer that its stages hold once, and the largest scratch of any: one
    stage is done with its scratch when the next begins.
    """

    buffers: tuple[int, ...]
    scratch: int


def required_bytes(group: Sequence[StageMemory], sizes: Sequence[int]) -> int:
    """What a group holds in all."""
    held = {buffer for stage in group for buffer in stage.buffers}
    return sum(sizes[buffer] for buffer in held) + max(stage.scratch for stage in group)


def check_each_fits(
    ids: Sequence[int], line: Sequence[StageMemory], sizes: Sequence[int], budget: int
) -> None:
    """Raises ByteCountOverflow or StageOverBudget for the first stage that does not fit alone."""
    for id, stage in zip(ids, line, strict=True):
        required = sum(sizes[buffer] for buffer in stage.buffers) + stage.scratch
        if required > budget:
            check_sum(required, "required_bytes")
            raise StageOverBudget(id, required, budget)


def earliest_starts(
    line: Sequence[StageMemory], sizes: Sequence[int], budget: int, may_join: Callable[[int, int], bool]
) -> list[int]:
    """For each stage, the first stage that a group which ends with it may begin with.

    `may_join(first, last)`: may stage `last` follow in a group of `first` to `last - 1`?  Where
    it may, it may join a part of that group too.  It is asked at most 2 n times.  A stage
    that does not fit alone is a group alone.  O(n + buffers held).
    """
    users = [0] * len(sizes)  # in the window, by buffer
    total = 0
    largest: deque[int] = deque()  # stages of the window with no larger scratch after them
    start, found = 0, []
    for last, stage in enumerate(line):
        for buffer in stage.buffers:
            total += 0 if users[buffer] else sizes[buffer]
            users[buffer] += 1
        while largest and line[largest[-1]].scratch <= stage.scratch:
            largest.pop()
        largest.append(last)
        while start < last and (total + line[largest[0]].scratch > budget or not may_join(start, last)):
            for buffer in line[start].buffers:
                users[buffer] -= 1
                total -= 0 if users[buffer] else sizes[buffer]
            if largest[0] == start:
                largest.popleft()
            start += 1
        found.append(start)
    return found
