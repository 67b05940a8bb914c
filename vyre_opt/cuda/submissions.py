"""How the steps of a plan are handed to the GPU: batches, each one submission, between host reads.

launch @a                         Batch @a @b @b @b
repeat 3 { launch @b }
host_read @x                      Read @x
repeat 1000000 { launch @c }      Again 244 times: Batch of 4096 @c
                                  Batch of 576 @c
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..runtime.pipelines.steps import AnyStep, Read, Step

__all__ = ["MAX_UNROLLED", "Again", "Batch", "Part", "batches_of", "parts_of"]

MAX_UNROLLED = 4096
"""Launches of a batch that repeats may unroll to."""


@dataclass(slots=True, eq=False)
class Batch:
    """Launches in order, repeats unrolled."""

    steps: list[Step]


@dataclass(slots=True, eq=False)
class Again:
    """Parts that are submitted `times` over."""

    times: int
    parts: list[Part]


Part = Batch | Read | Again


def parts_of(steps: Iterable[AnyStep]) -> list[Part]:
    """The submissions of steps, in order; neighbouring launches are one."""
    parts: list[Part] = []
    for step in steps:
        if isinstance(step, Step):
            _append(parts, [step])
        elif isinstance(step, Read):
            parts.append(step)
        else:
            _repeat(parts, step.times, parts_of(step.steps))
    return parts


def _append(parts: list[Part], steps: list[Step]) -> None:
    if parts and isinstance(parts[-1], Batch):
        parts[-1].steps += steps
    elif steps:
        parts.append(Batch(list(steps)))


def _repeat(parts: list[Part], times: int, body: list[Part]) -> None:
    if len(body) != 1 or not isinstance(body[0], Batch):
        parts.append(Again(times, body))
        return
    steps = body[0].steps
    rounds = max(1, MAX_UNROLLED // len(steps))
    whole, rest = divmod(times, rounds)
    if times <= rounds:
        _append(parts, steps * times)
        return
    parts.append(Again(whole, [Batch(steps * rounds)]))
    if rest:
        parts.append(Batch(steps * rest))


def batches_of(parts: Iterable[Part]) -> Iterator[Batch]:
    """All batches, each once."""
    for part in parts:
        if isinstance(part, Batch):
            yield part
        elif isinstance(part, Again):
            yield from batches_of(part.parts)
