"""Observers of a run of a plan: of what the host reads, and of how long launches take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import field
from time import perf_counter
from typing import Any

import numpy as np

from ...ir.diagnostics import Location
from ...ir.program import Buffer
from ...records import dataclass
from .. import output_memory
from ..arrays import new_storage
from ..shapes import in_shape_of
from .steps import HostReadStep, LaunchStep

__all__ = ["LaunchTime", "Times", "Watch", "in_main_memory", "label_of"]


@dataclass(slots=True)
class LaunchTime:
    """A launch, described by `what`, that ran `count` times in `seconds` in all; `loc` is its stage's.

    `steps`: the launch, or all of a graph of them.
    """

    what: str
    loc: Location | None
    steps: tuple[LaunchStep, ...]
    count: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Times:
    """The times of launches, in the order of their first runs.  `notes`: remarks for the reader of the times."""

    rows: dict[object, LaunchTime] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, key: object, what: str, seconds: float, steps: Sequence[LaunchStep]) -> None:
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = LaunchTime(what, steps[0].loc, tuple(steps))
        row.count += 1
        row.seconds += seconds

    @contextmanager
    def of(self, step: LaunchStep) -> Iterator[None]:
        """Adds the time of the body, by this machine's clock, to a launch's."""
        start = perf_counter()
        try:
            yield
        finally:
            self.add(step, label_of(step), perf_counter() - start, (step,))


def label_of(step: LaunchStep) -> str:
    """A name for a launch, such as `@scale over 16 workgroups`."""
    x, y, z = step.grid
    return f"@{step.program.name} over {x * y * z} workgroup{'s' if x * y * z > 1 else ''}"


def in_main_memory(buffer: Buffer) -> tuple[Any, int]:
    """A new NumPy array for a buffer, and its address."""
    array = new_storage(buffer, np.empty)
    return in_shape_of(buffer, array), output_memory.address(array)


@dataclass(slots=True)
class Watch:
    """`on_read(read, array)`: called at every host read, in order, with a copy of the buffer.

    `allocate(buffer)`: a new array for such a copy, and its address.  `apart`: whether launches that would run as one graph are
    timed one by one.
    """

    on_read: Callable[[HostReadStep, Any], None] | None = None
    times: Times | None = None
    allocate: Callable[[Buffer], tuple[Any, int]] = in_main_memory
    apart: bool = False

    def lap(self, step: LaunchStep) -> AbstractContextManager[None]:
        return nullcontext() if self.times is None else self.times.of(step)
