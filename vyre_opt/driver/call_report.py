"""Report of a call's use of the machine: the bytes and operations of each launch, its limit, and the decisions about it.

@scale over 4 workgroups, k.vyre:12:3
  moves 8 kB: reads @x 4 kB; writes @y 4 kB
  computes 2048 operations of f32, 0.256 a byte
  a lane does the work of 4 invocations; it loads 16 bytes at a time, stores 16; 16 bytes in flight a lane
  memory is the limit: 2.4 ns at least on H100 SXM (3350 GB/s)
  applied: 4 invocations are one
@scale over 4 workgroups: moved 8 kB in 4.1 us: 1.95 GB/s, 0.73 of a copy
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import prod
from statistics import median

from ..execution.dispatcher import shared_dispatcher
from ..execution.plans.call_plan import CallPlan
from ..execution.plans.steps import AnyStep, FormDecision, LaunchStep, RepeatStep
from ..execution.plans.watch import LaunchTime, Times, label_of
from ..execution.target import Target, as_target
from ..ir.diagnostics import Location
from ..records import dataclass
from ..scheduling.launch_forms import RESIDENT
from ..scheduling.launch_work import LaunchWork, launch_work
from ..scheduling.machines import Limit, Machine, limit_of
from .copy_speed import copy_speed
from .machine_target import machine_behind

__all__ = ["CallReport", "LaunchReport", "LaunchTiming", "call_report"]


def show_quantity(number: float, unit: str) -> str:
    """`8.4 MB`: to three digits, by powers of 1000 as vendors count."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {prefix}{unit}"
    return f"{number:.3g} {unit}"


def show_count(number: float) -> str:
    """`2.1 million`."""
    for name, scale in (("trillion", 1e12), ("billion", 1e9), ("million", 1e6)):
        if number >= scale:
            return f"{number / scale:.3g} {name}"
    return f"{number:.0f}"


def show_speed(bytes_per_s: float) -> str:
    """`1950 GB/s`, as vendors say it."""
    number = bytes_per_s / 1e9
    return f"{number:.0f} GB/s" if number >= 100 else f"{number:.3g} GB/s"


def show_seconds(seconds: float) -> str:
    """`4.5 us`, to three digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """A launch that runs `times` in a call.

    `neighbours`: invocations as written that one is.  `resident`: lanes that a multiprocessor of a GPU holds at a time, at
    most; 0 for other targets.  `machine`: None where nothing is known of it.
    """

    what: str
    loc: Location | None
    times: int
    work: LaunchWork
    neighbours: int
    resident: int
    decisions: Sequence[FormDecision]
    machine: Machine | None

    @property
    def limit(self) -> Limit | None:
        if self.machine is None:
            return None
        return limit_of(self.work.moved, self.work.operations, self.machine)

    @property
    def in_flight(self) -> int:
        """Bytes that loads of a multiprocessor ask for at a time, if it holds as many lanes as it can."""
        return self.resident * self.work.lane.in_flight

    def lines(self) -> Iterator[str]:
        often = "" if self.times == 1 else f", {self.times} times"
        yield f"{self.what}{often}{f', {self.loc}' if self.loc else ''}"
        yield f"  {self.moves}"
        yield f"  {self.computes}"
        yield from (f"  {each}" for each in (self.lane, self.limited, *self.decided) if each)

    def speed_of(self, seconds: float) -> str:
        """Use of this machine's CPU by a run of so many seconds."""
        copy = copy_speed(as_target(shared_dispatcher("cpu")), self.work.moved)
        timing = LaunchTiming(self.what, self.loc, seconds, self.work.moved, {}, None, copy)
        return str(timing)

    @property
    def moves(self) -> str:
        work, sides = self.work, []
        for verb, moved in (("reads", work.reads), ("writes", work.writes)):
            parts = [
                f"{'' if each.is_exact else 'at most '}{show_quantity(work.sizes[name] * each.elements, 'B')} of @{name}"
                for name, each in moved.items()
            ]
            sides += [f"{verb} {', '.join(parts)}"] if parts else []
        head = f"moves {'' if work.is_exact else 'at most '}{show_quantity(work.moved, 'B')}"
        return f"{head}: {'; '.join(sides)}" if sides else "moves nothing"

    @property
    def computes(self) -> str:
        work = self.work
        total = sum(work.operations.values())
        if not total:
            return "computes no floats"
        parts = [f"{show_count(count)} operations of {unit}" for unit, count in work.operations.items()]
        least = "" if work.is_counted else "at least "
        a_byte = f", {total / work.moved:.3g} a byte" if work.moved else ""
        return f"computes {least}{', '.join(parts)}{a_byte}"

    @property
    def lane(self) -> str:
        """Way in which a lane moves its bytes; "" where lanes are those of vectors that the target's compiler makes."""
        if not self.resident:
            return ""
        lane, several = self.work.lane, self.neighbours > 1
        does = (
            f"a lane does the work of {self.neighbours} invocations"
            if several
            else "a lane does the work of one"
        )
        sizes = [
            f"{verb} {' or '.join(map(str, accesses))} byte{'s' * (accesses != (1,))} at a time"
            for verb, accesses in (("loads", lane.loads), ("stores", lane.stores))
            if accesses
        ]
        in_all = show_quantity(self.in_flight, "B")
        flight = f"{lane.in_flight} byte{'s' * (lane.in_flight > 1)} in flight, {in_all} a multiprocessor"
        return "; ".join([does, *sizes, *([flight] if lane.in_flight else [])])

    @property
    def limited(self) -> str:
        """Resource that limits the launch; "" for an unknown machine."""
        machine, limit = self.machine, self.limit
        if machine is None or limit is None:
            return ""
        if machine.is_measured:
            return f"memory is the limit: {show_seconds(limit.seconds)} as fast as a copy ({show_speed(machine.bytes_per_s)})"
        if limit.unit == "memory":
            peak = show_speed(machine.bytes_per_s)
        else:
            peak = f"{show_count(machine.operations_per_s[limit.unit])} a second"
        return f"{limit.unit} is the limit: {show_seconds(limit.seconds)} at least on {machine.name} ({peak})"

    @property
    def decided(self) -> list[str]:
        """Decisions about the launch, refusals included; equal decisions on loops of one text are one line."""
        return list(
            dict.fromkeys(f"{each.kind}: {each.message.partition(chr(10))[0]}" for each in self.decisions)
        )


@dataclass(frozen=True, slots=True)
class LaunchTiming:
    """A launch, or a graph of launches, that took `seconds`; `copy`: bytes a second of a copy of as many bytes there."""

    what: str
    loc: Location | None
    seconds: float
    moved: int
    operations: Mapping[str, int]
    machine: Machine | None
    copy: float | None

    @property
    def _limit(self) -> Limit | None:
        """Resource other than memory that limits the launch."""
        limit = None if self.machine is None else limit_of(self.moved, self.operations, self.machine)
        return None if limit is None or limit.unit == "memory" else limit

    @property
    def share(self) -> str:
        """Nearness to the limit: 1.00 is as fast as the machine goes; "" on an unknown machine."""
        if self.machine is not None and self._limit is not None:
            return f"{self._limit.seconds / self.seconds:.2f} of the peak of {self.machine.name}"
        if not self.moved or self.copy is None:
            return ""
        return f"{self.moved / self.seconds / self.copy:.2f} of a copy"

    def __str__(self) -> str:
        took = f"in {show_seconds(self.seconds)}"
        if self._limit is not None:
            count = self.operations[self._limit.unit]
            rate = f"{show_count(count / self.seconds)} a second"
            return (
                f"computed {show_count(count)} operations of {self._limit.unit} {took}: {rate}, {self.share}"
            )
        if not self.moved:
            return f"moved nothing {took}"
        share = f", {self.share}" if self.share else ""
        return (
            f"moved {show_quantity(self.moved, 'B')} {took}: {show_speed(self.moved / self.seconds)}{share}"
        )


@dataclass(frozen=True, slots=True)
class CallReport:
    """Launches of a call; `timings`: their times, if they were measured; `notes`: remarks on them."""

    title: str
    launches: Sequence[LaunchReport]
    timings: Sequence[LaunchTiming] = ()
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return str(self)

    def _lines(self) -> Iterator[str]:
        yield self.title
        for launch in self.launches:
            yield from (f"  {line}" for line in launch.lines())
        for timing in self.timings:
            yield f"  {timing.what}: {timing}"
        yield from (f"  note: {note}" for note in self.notes)


def call_report(
    call: CallPlan, target: Target, words: Mapping[str, int], rounds: Sequence[Times] = ()
) -> CallReport:
    """The report of a call for a target.

    `words`: of its runtime scalars.  `rounds`: times of several runs, of which the medians count.
    """
    plan = call.plan
    counts = _launches(plan.steps)
    works = {_key(step): launch_work(step, plan.buffers, words, plan.module) for step in counts}
    launches = [_launch(step, times, works[_key(step)], target) for step, times in counts.items()]
    title = f"{plan.title} on {target.device_name or target.name}"
    if not rounds:
        return CallReport(title, launches)
    timings = [
        _timing([each.rows[key] for each in rounds if key in each.rows], works, target)
        for key in rounds[0].rows
    ]
    notes = [*dict.fromkeys(rounds[0].notes)]
    if launches and not timings:
        notes.append(
            "launches are not timed on a stream that another library made, or by a dispatcher of the caller's"
        )
    return CallReport(title, launches, timings, notes)


def _launches(steps: Sequence[AnyStep], times: int = 1) -> Counter[LaunchStep]:
    """All launches of steps, in order, each with how often it runs."""
    counts: Counter[LaunchStep] = Counter()
    for step in steps:
        if isinstance(step, RepeatStep):
            counts.update(_launches(step.steps, times * step.times))
        elif isinstance(step, LaunchStep):
            counts[step] += times
    return counts


def _key(step: LaunchStep) -> Hashable:
    """Key that a launch shares with the rewritten launches of targets, which pass extents too (see execution/row_major.py)."""
    return step.program, step.grid, step.buffers, step.params[: len(step.program.params)]


def _launch(step: LaunchStep, times: int, work: LaunchWork, target: Target) -> LaunchReport:
    resident = 0
    if target.architecture:
        resident = min(RESIDENT, -(-prod(step.grid) * step.program.lanes // target.workers))
    machine = machine_behind(target, work.moved)
    by = step.neighbours.count
    return LaunchReport(label_of(step), step.loc, times, work, by, resident, step.decisions, machine)


def _timing(rows: Sequence[LaunchTime], works: Mapping[Hashable, LaunchWork], target: Target) -> LaunchTiming:
    first = rows[0]
    of_steps = [works[_key(step)] for step in first.steps]
    moved = sum(work.moved for work in of_steps)
    operations: Counter[str] = Counter()
    for work in of_steps:
        operations.update(work.operations)
    seconds = max(median(row.seconds / row.count for row in rows), 1e-9)
    machine, copy = machine_behind(target, moved), copy_speed(target, moved)
    return LaunchTiming(first.what, first.loc, seconds, moved, operations, machine, copy)
