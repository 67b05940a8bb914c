"""A run of the interpreter that stops, for whoever asks to: at breakpoints, after steps, where a condition holds.

A run is deterministic, so an op is named by its tick: how many ops were begun before it.  A step back is a run from the
start that looks for the last stop before the present tick, and another one that stops there.

    execute() --before, after--> the goal and the breakpoints --a hit--> `on_stop` --the next goal--> on
                                                                              |
                                                                              +-- Rewind --> execute() from the start
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Protocol, TypeVar

import numpy as np

from ..execution.debug_prints import on_debug_print
from ..execution.dispatcher import BadInputs, Invocation, ProgramError
from ..execution.environment import checks_of_environment
from ..execution.faults import invocation_at
from ..execution.plans.steps import LaunchStep
from ..execution.plans.watch import Watch
from ..ir.diagnostics import Location
from ..ir.program import Dim3, Op
from ..records import dataclass
from ..targets.ref import RefDispatcher
from ..targets.ref.frame import Frame
from ..targets.ref.machine import Machine
from ..targets.ref.memory import Storage
from .conditions import Condition
from .op_places import OpPlace, OpPlaces
from .view import View

__all__ = ["Breakpoint", "ExpectedFault", "Quit", "Session", "Stop", "ToFault", "Watchpoint", "Write"]

T = TypeVar("T")
Ids = int | Sequence[int] | None


class Quit(Exception):
    """Leaves a run before its end."""


class _Rewind(Exception):
    """Begins the run again."""


@dataclass(slots=True)
class Breakpoint:
    """`source`: the name of the file.  `condition`: None where each invocation stops."""

    number: int
    source: str
    line: int
    condition: Condition | None
    is_temporary: bool

    def __str__(self) -> str:
        condition = f" if {self.condition.text}" if self.condition else ""
        kind = "temporary breakpoint" if self.is_temporary else "breakpoint"
        return f"{kind} {self.number} at {self.source}:{self.line}{condition}"


@dataclass(frozen=True, slots=True)
class Watchpoint:
    """An element of a buffer: `key` is `Session.key` of its storage, `scalar` the offset of its first scalar."""

    number: int
    text: str
    key: Any
    scalar: int

    def __str__(self) -> str:
        return f"watchpoint {self.number}: {self.text}"


@dataclass(frozen=True, slots=True)
class Write:
    """Write of an element by an op.  The invocation is None where a workgroup or a launch writes together."""

    tick: int
    where: str
    by: str
    invocation: int | None
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class ExpectedFault:
    """The fault of a run before.  `place`: `file:line:column`."""

    place: str
    message: str
    invocation: Invocation | None

    def __str__(self) -> str:
        return f"  {self.place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Stop:
    """`reason`: lines for the reader; `view`: what can be seen.  `is_end`: whether the run is over; `fault`: how it ended, if so."""

    reason: str
    view: View
    is_end: bool = False
    fault: ProgramError | None = None


@dataclass(frozen=True, slots=True)
class _At:
    """A position of a run: before the op of a tick, after it, or at the end."""

    tick: int
    is_after: bool = False


class Goal(Protocol):
    """`hit`: the invocation for which to stop before an op, None to go on."""

    def hit(self, session: Session, frame: Frame, op: Op, place: OpPlace) -> int | None: ...


class Proceed:
    """Up to a breakpoint."""

    def hit(self, session: Session, frame: Frame, op: Op, place: OpPlace) -> int | None:
        return None


class ToFault:
    """Up to the fault of the run, past breakpoints."""

    def hit(self, session: Session, frame: Frame, op: Op, place: OpPlace) -> int | None:
        return None


class First:
    """Up to the first op of an invocation that may be looked at."""

    def hit(self, session: Session, frame: Frame, op: Op, place: OpPlace) -> int | None:
        return session.pick(frame, None) if place.is_shown else None


@dataclass(slots=True)
class Step:
    """Up to another line of an invocation, or another op of it; its next launch where it has ended.

    `depth`: how many calls may be around it.  `home`: a launch and the invocation to follow there.  It goes on as it is after a
    hit, as if there had been a stop.
    """

    launch: int = 0
    focus: int = -1
    statement: Any = None
    number: int = -1
    depth: int | None = None
    by_op: bool = False
    home: tuple[int, int | None] = 0, None

    def hit(self, session: Session, frame: Frame, op: Op, place: OpPlace) -> int | None:
        if not place.is_shown:
            return None
        if session.launch != self.launch:
            launch, focus = self.home
            if launch != session.launch or focus is None:
                focus = session.pick(frame, None)
            if focus is None or not is_in(frame, focus):
                return None
            self.launch, self.focus, self.statement, self.depth = session.launch, focus, None, None
        elif not is_in(frame, self.focus):
            return None
        is_earlier, self.number = place.number <= self.number, place.number
        if self.depth is not None and session.depth(place) > self.depth:
            return None
        if self.by_op or is_earlier or place.statement != self.statement:
            self.statement = place.statement
            return self.focus
        return None


@dataclass(slots=True)
class Until:
    """Up to a line before which, or an op that writes after which, a condition holds."""

    condition: Condition

    def hit(self, session: Session, frame: Frame, op: Op, place: OpPlace) -> int | None:
        return session.pick(frame, self.condition) if place.begins and place.is_shown else None


@dataclass(slots=True)
class Reach:
    """Up to an op, whichever time, by one invocation."""

    op: Op

    def hit(self, session: Session, frame: Frame, op: Op, place: OpPlace) -> int | None:
        return session.pick(frame, None) if op is self.op else None


@dataclass(slots=True)
class _Return:
    """Up to a position of an earlier run; `reason`: what to say there."""

    at: _At
    focus: int | None
    reason: str


@dataclass(slots=True)
class _LastHit:
    """The last hit of a goal, or of breakpoints, before a position; then a run up to it."""

    goal: Goal
    end: _At
    focus: int | None
    found: tuple[_At, int] | None = None


@dataclass(slots=True)
class _LastWrite:
    """The last write of a watched element before a position, for a stop there."""

    watched: Watchpoint
    end: _At
    focus: int | None
    found: Write | None = None


@dataclass(slots=True)
class _Access:
    """A write of a watched element that is under way."""

    watched: Watchpoint
    storage: Storage
    invocations: list[int]
    old: Any


class StageWatch(Watch):
    """Tells a session which launch of a pipeline begins."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    @contextmanager
    def lap(self, step: LaunchStep) -> Iterator[None]:
        self.session.step = step
        yield


@dataclass(eq=False)
class Session:
    """Runs of one call.  `on_stop` gets each stop, and gives what to go on to; `on_print` the lines that programs print.

    `workgroup`, `local`: which invocations may be looked at, by their ids along x, y and z, or by linear ones; all where nothing is said.
    A chosen workgroup runs first, and alone, where programs allow that.  `nan`: an op that makes a NaN of none is at fault, as VYRE_CHECK
    may ask for.
    """

    on_stop: Callable[[Stop], Goal]
    on_print: Callable[[str], object] = print
    workgroup: Ids = None
    local: Ids = None
    breakpoints: list[Breakpoint] = field(default_factory=list)
    watchpoints: list[Watchpoint] = field(default_factory=list)
    expected: ExpectedFault | None = None
    nan: bool = False

    def __post_init__(self) -> None:
        self.dispatcher = RefDispatcher(observer=self, nan=self.nan or "nan" in checks_of_environment())
        self.watch = StageWatch(self)
        self.goal: Goal | _Return | _LastHit | _LastWrite = First()
        self.focus: int | None = None
        self._last_places: tuple[Any, OpPlaces] | None = None
        self._begin()

    def _begin(self) -> None:
        self.tick, self.launch, self.calls = 0, 0, 0
        self.step: LaunchStep | None = None
        self.machine: Machine | None = None
        self.frame: Frame | None = None
        self.op: Op | None = None
        self.storages: dict[str, Storage] = {}
        """Storages of the launches up to here, by the names of the pipeline's buffers."""
        self._accesses: list[_Access] = []
        self._launched: dict[str, str] = {}
        """Workgroups and invocations of the last launch of each program, in words."""
        self._has_choice = False
        """Whether some launch has the invocations that may be looked at."""

    # --- runs

    def run(self, execute: Callable[[], T]) -> T:
        """Result of `execute`, which makes a whole run by `dispatcher` with `watch`.  Raises Quit, and the errors of the run."""
        while True:
            self._begin()
            try:
                try:
                    with on_debug_print(self._print):
                        result = execute()
                except ProgramError as fault:
                    self._at_end(fault)
                    raise
                self._at_end(None)
                return result
            except _Rewind:
                continue

    def _print(self, line: str) -> None:
        if not isinstance(self.goal, (_Return, _LastHit, _LastWrite)):  # it was shown when it ran first
            self.on_print(line)

    def _at_end(self, fault: ProgramError | None) -> None:
        goal, reason = self.goal, ""
        if isinstance(goal, _LastHit):
            self._found(goal)
        elif isinstance(goal, _LastWrite):
            reason = _last_write(goal)
        elif isinstance(goal, _Return):
            reason = goal.reason
        elif fault is None:
            reason = self._never(goal)
        if fault is None or (self.op is not None and fault.diagnostic.loc is not self.op.loc):
            self.op = self.focus = None  # a host_read, after the launches
        if fault is not None and self.op is not None:
            candidates, frame = [self._invocation_of(fault.invocation), self.focus], self.frame
            if self.expected is not None and self.expected.place == str(fault.diagnostic.loc):
                candidates.insert(0, self._invocation_of(self.expected.invocation))
            elif self.expected is not None and not reason:
                reason = f"this fault comes before the recorded one:\n{self.expected}"
            present = (each for each in candidates if each is not None and frame and is_in(frame, each))
            self.focus = next(present, None)
            if not self._has_choice:
                reason = "\n".join(filter(None, (reason, f"no launch up to here has {self.choice()}")))
        self.position = _At(self.tick + (self.op is None))
        self.goal = self.on_stop(Stop(reason, self.view(), fault is None, fault))

    def _never(self, goal: Any) -> str:
        """Message for the end of a run that never reached its goal."""
        conditions = [b.condition for b in self.breakpoints if b.condition]
        if isinstance(goal, Until):
            conditions.append(goal.condition)
        lines = [
            f"{c.text}: never computed: {c.problem}" for c in conditions if c.problem and not c.is_computed
        ]
        if self.expected is not None and isinstance(goal, ToFault):
            lines.append(f"the recorded fault does not come again:\n{self.expected}")
        if not self._has_choice:
            lines.append("; ".join((f"no launch has {self.choice()}", *self._launched.values())))
        return "\n".join(lines)

    def rewind(self, goal: Goal | _Return | _LastHit | _LastWrite) -> Any:
        """Begin again, with another goal."""
        self.goal = goal
        raise _Rewind

    def _back_to(self, target: _Return) -> None:
        self.rewind(target)

    def back(self, by_op: bool = False) -> Any:
        """Go back to the line, or the op, of this invocation before the present one."""
        self.rewind(_LastHit(Step(by_op=by_op, home=(self.launch, self.focus)), self.position, self.focus))

    def back_to_stop(self) -> Any:
        """Go back to the last stop at a breakpoint or a watchpoint."""
        self.rewind(_LastHit(Proceed(), self.position, self.focus))

    def last_write(self, watched: Watchpoint) -> Any:
        """Come back to this stop, and say there who wrote an element last."""
        self.rewind(_LastWrite(watched, self.position, self.focus))

    def _found(self, search: _LastHit) -> None:
        if search.found is None:
            is_step = isinstance(search.goal, Step)
            reason = "this is where the run begins" if is_step else "no breakpoint was met before this"
            self._back_to(_Return(search.end, search.focus, reason))
        at, focus = search.found  # type: ignore[misc]
        self._back_to(_Return(at, focus, ""))

    # --- as the observer of the interpreter

    def order(self, machine: Machine) -> Sequence[range]:
        self.launch += 1
        self.machine, self.calls = machine, 0
        program, step = machine.program, self.step
        names = [buffer.name for buffer in program.bound_buffers]
        actual = step.buffers if step is not None else names
        self.storages.update(
            (name, machine.storages[formal]) for formal, name in zip(names, actual, strict=True)
        )
        total = machine.call.workgroups
        row, local = self._chosen(machine)
        self._has_choice |= -1 not in (row, local)
        grid, lanes = ("x".join(map(str, extents)) for extents in (machine.call.grid, program.workgroup))
        self._launched[program.name] = f"@{program.name} has {grid} workgroups of {lanes} invocations"
        if row is None or machine.in_one_batch or not 0 <= row < total:
            return [range(total)]
        return [part for part in (range(row, row + 1), range(row), range(row + 1, total)) if part]

    def before(self, machine: Machine, frame: Frame, op: Op) -> None:
        self.tick += 1
        self.frame, self.op = frame, op
        goal = self.goal
        if isinstance(goal, _Return):
            if goal.at.tick == self.tick and not goal.at.is_after:
                self._stop(goal.focus, goal.reason)
        elif isinstance(goal, _LastWrite):
            self._end_of_writes(goal, is_after=False)
        elif isinstance(goal, _LastHit) and goal.end == _At(self.tick, is_after=False):
            self._found(goal)
        else:
            self._look(machine, frame, op)
        self.calls += op.name == "call"

    def _look(self, machine: Machine, frame: Frame, op: Op) -> None:
        """Stop if the goal or a breakpoint asks for it; a search notes it."""
        goal, place = self.goal, self.places(machine).of[op]
        asks = goal.goal if isinstance(goal, _LastHit) else goal
        focus, reason = asks.hit(self, frame, op, place), ""  # type: ignore[union-attr]
        if focus is None and not isinstance(asks, ToFault):
            focus, reason = self._breakpoint(frame, op, place)
            if isinstance(goal, _LastHit) and not isinstance(goal.goal, Proceed):
                focus = None
        if focus is None:
            return
        if isinstance(goal, _LastHit):
            goal.found = _At(self.tick), focus
        else:
            self._stop(focus, reason)

    def _breakpoint(self, frame: Frame, op: Op, place: OpPlace) -> tuple[int | None, str]:
        if op.name == "breakpoint":
            return self.pick(frame, None), ""
        if place.begins and place.is_shown:
            for each in self.breakpoints:
                if each.line == place.line and each.source == place.source:
                    focus = self.pick(frame, each.condition)
                    if focus is not None:
                        if each.is_temporary and not isinstance(self.goal, _LastHit):
                            self.breakpoints.remove(each)
                        return focus, str(each)
        return None, ""

    def access(
        self, machine: Machine, frame: Frame, op: Op, storage: Storage, offsets: np.ndarray, kind: str
    ) -> None:
        if kind == "read":
            return
        goal = self.goal
        watched = [goal.watched] if isinstance(goal, _LastWrite) else self.watchpoints
        for each in watched:
            if each.key != self.key(storage, frame):
                continue
            rows = np.flatnonzero((offsets == each.scalar).reshape(len(offsets), -1).any(axis=1))
            if len(rows):
                lanes = len(offsets) == frame.size and op.definition.kernel is None
                invocations = [int(frame.invocations[row]) for row in rows] if lanes else []
                self._accesses.append(_Access(each, storage, invocations, self._scalar(storage, each.scalar)))

    def after(self, machine: Machine, frame: Frame, op: Op) -> None:
        self.calls -= op.name == "call"
        goal = self.goal
        accesses, self._accesses = self._accesses, []
        for access in accesses:
            self._written(access, frame, op)
        if isinstance(goal, _Return) and goal.at == _At(self.tick, True):
            self.frame, self.op = frame, op
            self._stop(goal.focus, goal.reason, is_after=True)
        elif isinstance(goal, _LastWrite):
            self._end_of_writes(goal, is_after=True)
        elif isinstance(goal, _LastHit):
            if goal.end == _At(self.tick, is_after=True):
                self._found(goal)
        elif isinstance(goal, Until) and op.definition.effects & {"write", "atomic"}:
            focus = self.pick(frame, goal.condition)
            if focus is not None:
                self.frame, self.op = frame, op
                self._stop(focus, "", is_after=True)

    def _written(self, access: _Access, frame: Frame, op: Op) -> None:
        goal, watched = self.goal, access.watched
        new = self._scalar(access.storage, watched.scalar)
        by = self._by(access.invocations)
        invocation = access.invocations[-1] if access.invocations else None
        write = Write(self.tick, self.where(op), by, invocation, access.old, new)
        if isinstance(goal, _LastWrite):
            goal.found = write
        elif isinstance(goal, _LastHit):
            if isinstance(goal.goal, Proceed) and _At(self.tick, True) != goal.end:
                goal.found = _At(self.tick, True), invocation if invocation is not None else -1
        elif not isinstance(goal, _Return):
            self.frame, self.op = frame, op
            old, new = show_scalar(write.old), show_scalar(write.new)
            reason = f"{watched} was {old}, is {new}: written by {by}"
            self._stop(invocation, reason, is_after=True)

    def _end_of_writes(self, goal: _LastWrite, is_after: bool) -> None:
        if goal.end == _At(self.tick, is_after):
            self._stop(goal.focus, _last_write(goal), is_after)

    def _by(self, invocations: list[int]) -> str:
        assert self.machine is not None
        if not invocations:
            return "all invocations together"
        names = [str(self.machine.invocation(each)) for each in invocations[-3:]]
        more = len(invocations) - len(names)
        return ", ".join(names) + (f" and {more} before" if more else "")

    def _stop(self, focus: int | None, reason: str, is_after: bool = False) -> None:
        self.position = _At(self.tick, is_after)
        self.focus = focus if focus is None or focus >= 0 else None
        self.goal = self.on_stop(Stop(reason, self.view(is_after)))

    # --- what goals and views ask

    def view(self, is_after: bool = False) -> View:
        return View(
            self.machine, self.frame, self.op, self.focus, self.storages, self._places_now(), is_after
        )

    def _places_now(self) -> OpPlaces | None:
        return None if self.machine is None else self.places(self.machine)

    def places(self, machine: Machine) -> OpPlaces:
        """Places of the ops of the program that runs."""
        if self._last_places is None or self._last_places[0] is not machine.program:
            self._last_places = machine.program, OpPlaces(machine.program, machine.funcs.values())
        return self._last_places[1]

    def depth(self, place: OpPlace) -> int:
        """Number of calls around an op that is about to run."""
        return self.calls + place.calls

    def pick(self, frame: Frame, condition: Condition | None) -> int | None:
        """An invocation of a frame that may be looked at, and for which a condition holds: the one that was looked at last, or
        the first."""
        machine = self.machine
        assert machine is not None
        row, local = self._chosen(machine)
        lanes = np.arange(frame.size)
        if row is not None:
            lanes = lanes[frame.invocations[lanes] // machine.program.lanes == row]
        if local is not None:
            lanes = lanes[frame.locals[lanes] == local]
        if not len(lanes):
            return None
        if condition is not None:
            view = View(machine, frame, self.op, None, self.storages, self.places(machine))
            lanes = condition.lanes(view, lanes)
        invocations = frame.invocations[lanes]
        if self.focus is not None and self.focus in invocations:
            return self.focus
        return int(invocations[0]) if len(invocations) else None

    def _chosen(self, machine: Machine) -> tuple[int | None, int | None]:
        """The linear workgroup and local id that may be looked at; -1 for one that the dispatch does not have."""
        return (
            linear(self.workgroup, machine.call.grid),
            linear(self.local, machine.program.workgroup),
        )

    def choice(self) -> str:
        """The invocations that may be looked at, in words."""
        workgroup = "" if self.workgroup is None else f"workgroup {_shown(self.workgroup)}"
        local = "" if self.local is None else f"local id {_shown(self.local)}"
        return " ".join(filter(None, (workgroup, local))) or "any invocation"

    def key(self, storage: Storage, frame: Frame | None) -> Any:
        """A storage by a name that is the same in each run: that of the pipeline's buffer, if it is one; on-chip memory is another
        for each batch of workgroups."""
        for name, known in self.storages.items():
            if known.data is storage.data:
                return name
        return self.launch, storage.buffer.name, None if frame is None else frame.batch.first

    def _scalar(self, storage: Storage, scalar: int) -> Any:
        from ..targets.ref.registers import from_storage

        if storage.written is not None and not storage.written[scalar]:
            return None
        return from_storage(storage.data[scalar : scalar + 1], storage.buffer.dtype)[0]

    def where(self, op: Op) -> str:
        """An op by its line, and the stage of a pipeline that launches it."""
        here = f"  {op.name}" if op.loc is None else _line_at(op.loc)
        return "\n".join([here, *self.stage()])

    def stage(self) -> list[str]:
        """The stage of a pipeline that launches what runs, as a line."""
        step = self.step
        if step is None or step.launch is None or step.loc is None:
            return []
        return [f"{_line_at(step.loc)}, launch {self.launch}"]

    def _invocation_of(self, by: Invocation | None) -> int | None:
        """The linear id of an invocation."""
        machine = self.machine
        if by is None or by.workgroup is None or machine is None:
            return None
        row = linear(by.workgroup, machine.call.grid)  # type: ignore[arg-type]
        local = linear(by.local, machine.program.workgroup)  # type: ignore[arg-type]
        return None if row is None or local is None else row * machine.program.lanes + local


def _last_write(goal: _LastWrite) -> str:
    """Last writer of an element, as lines."""
    found, text = goal.found, goal.watched.text
    if found is None:
        return f"{text}: nothing has written it up to here"
    old, new = show_scalar(found.old), show_scalar(found.new)
    return f"{text} was {old}, became {new}: written by {found.by}\n{found.where}"


def is_in(frame: Frame, invocation: int) -> bool:
    """Whether an invocation, by its linear id, is a lane of a frame."""
    at = int(np.searchsorted(frame.invocations, invocation))
    return at < frame.size and int(frame.invocations[at]) == invocation


def linear(ids: Ids, extents: Dim3) -> int | None:
    """The linear id of ids along x, y and z, or of a linear one; None for none, -1 for one outside of the extents."""
    if ids is None:
        return None
    total = extents[0] * extents[1] * extents[2]
    if isinstance(ids, int):
        return ids if 0 <= ids < total else -1
    x, y, z = (*ids, 0, 0)[:3]
    if not all(0 <= at < extent for at, extent in zip((x, y, z), extents, strict=True)):
        return -1
    return int(x + extents[0] * (y + extents[1] * z))


def _line_at(loc: Location) -> str:
    return f"  {loc.source.name}({loc.line}): {loc.source.line_text(loc.line).strip()}"


def _shown(ids: Ids) -> str:
    return str(ids) if isinstance(ids, int) or ids is None else f"({','.join(map(str, ids))})"


def checked_ids(ids: Any, what: str) -> Ids:
    """One to three whole numbers.  Raises BadInputs."""
    parts = [*ids] if isinstance(ids, (tuple, list)) else [ids]
    is_whole = all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0 for n in parts)
    if ids is None:
        return None
    if not 1 <= len(parts) <= 3 or not is_whole:
        raise BadInputs(f"{what} is a whole number, or up to three of them along x, y and z, not {ids!r}")
    return int(parts[0]) if not isinstance(ids, (tuple, list)) else tuple(int(n) for n in parts)


def show_scalar(value: Any) -> str:
    """A scalar as a reader sees it."""
    return "unwritten" if value is None else str(value)


def name_of(machine: Machine, invocation: int) -> str:
    """An invocation, by its linear id, in words."""
    return str(invocation_at(invocation, machine.program.workgroup, machine.call.grid))
