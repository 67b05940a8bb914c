"""Who watches a pipeline run: for what the host reads, and for how long its launches take."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from types import TracebackType
from typing import Any

from ...ir.diagnostics import Location
from .steps import Read, Step

__all__ = ["Times", "Watch", "label_of"]


@dataclass(slots=True)
class Row:
    """`what` ran `count` times, in `seconds`; `loc` is of its stage."""

    what: str
    loc: Location | None = None
    count: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Times:
    """Seconds by launch, in the order of the first runs; `notes` say what is special about them."""

    rows: dict[Any, Row] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, key: Any, what: str, seconds: float, loc: Location | None = None) -> None:
        row = self.rows.setdefault(key, Row(what, loc))
        row.count += 1
        row.seconds += seconds

    def of(self, step: Step) -> AbstractContextManager[Any]:
        return _Lap(self, step)


class _Lap:
    """The time that a launch takes, on this machine."""

    def __init__(self, times: Times, step: Step) -> None:
        self.times, self.step = times, step

    def __enter__(self) -> None:
        self.started = perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = perf_counter() - self.started
        self.times.add(self.step, label_of(self.step), seconds, self.step.launch.loc)


def label_of(step: Step) -> str:
    """`@scale over 16 workgroups`."""
    x, y, z = step.grid
    return f"@{step.program.name} over {x * y * z} workgroup{'s' if x * y * z > 1 else ''}"


@dataclass(slots=True)
class Watch:
    """`on_read(read, array)`: called at every host read, in order, with an array of its own."""

    on_read: Callable[[Read, Any], None] | None = None
    times: Times | None = None

    def lap(self, step: Step) -> AbstractContextManager[Any]:
        return nullcontext() if self.times is None else self.times.of(step)
