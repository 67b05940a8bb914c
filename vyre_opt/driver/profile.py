"""Profile of a process: its launches, and the passes, compilations and calls around them.

launches on cpu                     times   seconds     each  moves               of the limit
@scale over 4 workgroups                3   12.3 us   4.1 us    8 kB   1.95 GB/s  0.73 of a copy

passes and compilation              times   seconds
compile @scale                          1   31.2 ms
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cached_property, update_wrapper
from pathlib import Path
from statistics import median
from threading import get_ident
from time import perf_counter
from typing import Any, NoReturn, Self

from ..execution.observed_run import TimedLaunch
from ..execution.plans.watch import label_of
from ..ir.diagnostics import Location
from ..ir.tracebacks import CallTypeError, hide_own_frames, level_of_caller, public
from ..observers import OBSERVERS
from ..records import dataclass
from ..scheduling.launch_work import LaunchWork, launch_work
from .call_report import LaunchTiming, show_quantity, show_seconds, show_speed
from .copy_speed import copy_speed
from .machine_target import machine_behind

__all__ = ["Profile", "ProfiledLaunch", "Span", "profile"]

_REMEDY = "write with vyre_opt.profile() as p: around the calls"

CALL = "call"
"""The kind of spans that launches are in."""


@dataclass(frozen=True, slots=True)
class Span:
    """A pass, a compilation, a read from the cache, a load into the driver or a call (`kind`).

    `start`, `seconds`: by `time.perf_counter`; `thread`: its identifier.
    """

    kind: str
    name: str
    start: float
    seconds: float
    thread: int


@dataclass(frozen=True)
class ProfiledLaunch:
    """All launches of a program over one grid that move as many bytes on one target.

    `loc`: of the stage of the pipeline that launches it, if one does.
    """

    name: str
    grid: tuple[int, int, int]
    loc: Location | None
    work: LaunchWork
    runs: Sequence[TimedLaunch]

    @property
    def target(self) -> str:
        target = self.runs[0].target
        return target.device_name or target.name

    @property
    def count(self) -> int:
        return len(self.runs)

    @property
    def seconds(self) -> float:
        """Seconds of all launches."""
        return sum(run.seconds for run in self.runs)

    @property
    def moved(self) -> int:
        """Bytes that one reads and writes."""
        return self.work.moved

    @cached_property
    def timing(self) -> LaunchTiming:
        """The median of them, beside a copy of as many bytes, which is measured now."""
        target, each = self.runs[0].target, max(median(run.seconds for run in self.runs), 1e-9)
        machine, copy = machine_behind(target, self.moved), copy_speed(target, self.moved)
        label = label_of(self.runs[0].step)
        return LaunchTiming(label, self.loc, each, self.moved, self.work.operations, machine, copy)


@dataclass(eq=False)
class Profile:
    """Result of `profile`: `launches`, and `spans` in the order of their ends; `print` shows a table.

    It observes the whole process, all threads of it, from the beginning of its block to the end; another block goes on with it.
    """

    times_launches = True
    spans: list[Span] = field(default_factory=list)
    runs: list[TimedLaunch] = field(default_factory=list)
    """Each launch by itself, in the order of their ends."""
    _origin: float = field(default_factory=perf_counter)
    _has_begun: bool = False

    def __enter__(self) -> Self:
        if any(each is self for each in OBSERVERS):
            raise RuntimeError("this profile is being taken already; begin another: vyre_opt.profile()")
        self._has_begun = True
        OBSERVERS.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        OBSERVERS[:] = [each for each in OBSERVERS if each is not self]

    # --- of an observer, see `vyre_opt.observers`

    @contextmanager
    def span(self, kind: str, name: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self.spans.append(Span(kind, name, start, perf_counter() - start, get_ident()))

    def launch(self, launch: TimedLaunch) -> None:
        self.runs.append(launch)

    # --- what was observed

    @property
    def launches(self) -> list[ProfiledLaunch]:
        """The launches, those of a kind together, in the order of their first runs."""
        if not self._has_begun:
            warnings.warn(f"this profile has observed nothing: {_REMEDY}", stacklevel=level_of_caller())
        groups: dict[Any, list[TimedLaunch]] = {}
        works: dict[Any, LaunchWork] = {}
        for run in self.runs:
            made_of = run.step, *run.words
            if made_of not in works:
                works[made_of] = _work(run)
            work = works[made_of]
            place = str(run.step.loc or "")
            key = run.step.program.name, run.step.grid, work.moved, place, id(run.target)
            groups.setdefault(key, []).append(run)
        return [
            ProfiledLaunch(f"@{key[0]}", key[1], runs[0].step.loc, works[runs[0].step, *runs[0].words], runs)
            for key, runs in groups.items()
        ]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        launches = sorted(self.launches, key=lambda launch: -launch.seconds)
        for target in dict.fromkeys(launch.target for launch in launches):
            head = (f"launches on {target}", "times", "seconds", "each", "moves", "", "of the limit")
            yield from _table([head, *(_row(each) for each in launches if each.target == target)])
            yield ""
        steps: dict[str, list[float]] = {}
        for each in self.spans:
            if each.kind != CALL:
                steps.setdefault(f"{each.kind} {each.name}", []).append(each.seconds)
        rows = sorted(steps.items(), key=lambda row: -sum(row[1]))
        if rows:
            shown = [(name, str(len(s)), show_seconds(sum(s))) for name, s in rows]
            yield from _table([("passes and compilation", "times", "seconds"), *shown])
        elif not launches:
            begun = "nothing was launched or compiled"
            yield begun if self._has_begun else f"nothing was observed: {_REMEDY}"

    def trace(self, path: str | Path) -> None:
        """Write a trace that chrome://tracing and ui.perfetto.dev read.  Raises OSError."""
        text = self.trace_text()
        try:
            Path(path).write_text(text)
        except OSError as error:
            hide_own_frames(error)
            raise

    def trace_text(self) -> str:
        """The trace, in Chrome's format of events."""
        process = os.getpid()

        def event(
            kind: str, name: str, start: float, seconds: float, row: int, **args: object
        ) -> dict[str, Any]:
            begin, duration = (start - self._origin) * 1e6, seconds * 1e6
            times = {"ph": "X", "ts": round(begin, 3), "dur": round(duration, 3)}
            return {"name": name, "cat": kind, **times, "pid": process, "tid": row, "args": args}

        events = [event(s.kind, f"{s.kind} {s.name}", s.start, s.seconds, s.thread) for s in self.spans]
        names: dict[int, str] = {}
        for launch in self.launches:
            on_gpu = bool(launch.runs[0].target.architecture)
            facts: dict[str, object] = {
                "grid": list(launch.grid),
                "workgroup": list(launch.runs[0].step.program.workgroup),
                "bytes": launch.moved,
            }
            if launch.loc is not None:
                facts["launched at"] = str(launch.loc)
            for run in launch.runs:
                # below the thread that waits for it
                row = run.thread * 2 + 1 if on_gpu else run.thread
                names.setdefault(row, launch.target if on_gpu else "")
                events.append(event("launch", launch.name, run.end - run.seconds, run.seconds, row, **facts))
        named = [
            {"name": "thread_name", "ph": "M", "pid": process, "tid": row, "args": {"name": name}}
            for row, name in names.items()
            if name
        ]
        events.sort(key=lambda each: each["ts"])
        return json.dumps({"traceEvents": [*named, *events], "displayTimeUnit": "ms"}) + "\n"


def _work(run: TimedLaunch) -> LaunchWork:
    plan, step = run.call.plan, run.step
    params = dict(zip(sorted(plan.pipeline.params), run.words, strict=True))
    # targets pass extents too, see execution/row_major.py
    own = replace(step, params=step.params[: len(step.program.params)])
    return launch_work(own, plan.buffers, params, plan.module)


def _row(launch: ProfiledLaunch) -> tuple[str, ...]:
    timing, count = launch.timing, launch.count
    x, y, z = launch.grid
    grid = "x".join(map(str, (x, y, z) if z > 1 else (x, y) if y > 1 else (x,)))
    what = f"{launch.name} over {grid} workgroup{'s' if x * y * z != 1 else ''}"
    where = f"  {launch.loc}" if launch.loc else ""
    moves = (
        (show_quantity(launch.moved, "B"), show_speed(launch.moved / timing.seconds))
        if launch.moved
        else ("", "")
    )
    times = str(count), show_seconds(launch.seconds), show_seconds(timing.seconds)
    return (f"{what}{where}", *times, *moves, timing.share)


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows in columns, the first and the last of seven to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if number in (0, 6) else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


class _Called:
    """Function whose result a `with` enters; its name alone, without parentheses, is an error."""

    def __init__(self, function: Callable[[], Profile]) -> None:
        update_wrapper(self, function)
        self._function = function

    def __call__(self) -> Profile:
        return self._function()

    @public
    def __enter__(self) -> NoReturn:
        raise CallTypeError(f"profile is named, not called: {_REMEDY}")

    def __exit__(self, *error: object) -> None:
        """Nothing: nobody gets here."""


@_Called
def profile() -> Profile:
    """`with profile() as p:` observes launches, passes and compilations in all threads of the process; then `print(p)`.

    Launches run one by one and are waited for meanwhile: on a GPU they are timed by its events, elsewhere by the clock.  So
    calls take longer than without, and launches do not.  In a block within a block both get all of the inner one.  Not seen:
    launches that another library records into a graph, or makes on a stream of its own, and those of child processes.
    """
    return Profile()
