"""Groups the steps of a plan for the GPU: batches of launches, each one submission, between host reads.

launch @a                         LaunchBatch @a @b @b @b
repeat 3 { launch @b }
host_read @x                      HostReadStep @x
repeat 1000000 { launch @c }      RepeatedParts 244 times: LaunchBatch of 4096 @c
                                  LaunchBatch of 576 @c
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...execution.plans.steps import AnyStep, HostReadStep, LaunchStep
from ...records import dataclass

__all__ = ["MAX_UNROLLED", "LaunchBatch", "Part", "RepeatedParts", "batches_of", "parts_of"]

MAX_UNROLLED = 4096
"""The most launches of a batch that comes from unrolling a repeat."""


@dataclass(slots=True, eq=False)
class LaunchBatch:
    """Launches in order, with repeats unrolled, that are submitted as one graph."""

    steps: list[LaunchStep]


@dataclass(slots=True, eq=False)
class RepeatedParts:
    """Parts that are submitted `times` times."""

    times: int
    parts: list[Part]


Part = LaunchBatch | HostReadStep | RepeatedParts


def parts_of(steps: Iterable[AnyStep]) -> list[Part]:
    """The parts of steps, in order; neighbouring launches are one batch."""
    parts: list[Part] = []
    for step in steps:
        if isinstance(step, LaunchStep):
            _append(parts, [step])
        elif isinstance(step, HostReadStep):
            parts.append(step)
        else:
            _repeat(parts, step.times, parts_of(step.steps))
    return parts


def _append(parts: list[Part], steps: list[LaunchStep]) -> None:
    if parts and isinstance(parts[-1], LaunchBatch):
        parts[-1].steps += steps
    elif steps:
        parts.append(LaunchBatch(list(steps)))


def _repeat(parts: list[Part], times: int, body: list[Part]) -> None:
    if len(body) != 1 or not isinstance(body[0], LaunchBatch):
        parts.append(RepeatedParts(times, body))
        return
    steps = body[0].steps
    rounds = max(1, MAX_UNROLLED // len(steps))
    whole, rest = divmod(times, rounds)
    if times <= rounds:
        _append(parts, steps * times)
        return
    parts.append(RepeatedParts(whole, [LaunchBatch(steps * rounds)]))
    if rest:
        parts.append(LaunchBatch(steps * rest))


def batches_of(parts: Iterable[Part]) -> Iterator[LaunchBatch]:
    """All batches, each once."""
    for part in parts:
        if isinstance(part, LaunchBatch):
            yield part
        elif isinstance(part, RepeatedParts):
            yield from batches_of(part.parts)
