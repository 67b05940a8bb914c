"""Lanes as Python generators that run one after the other, and what their accesses say of a program.

This is the definition of docs/reference/language.md, taken literally: every access is kept, and every two that meet at an
element are compared.  Nothing of the project is used, and lanes do not go in lock step, so it shares neither code
nor schedule with the interpreter that it is held against.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Generator
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations

from .variants import SUBGROUP, WORKGROUP

__all__ = ["Barrier", "Lane", "Memory", "Reduce", "Verdict", "run_lanes"]

_SCOPES = ("grid", "workgroup", "subgroup")


@dataclass(frozen=True, slots=True)
class Barrier:
    """A lane waits for its subgroup, workgroup or grid."""

    scope: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Reduce:
    """A lane gives a value, and gets the combination over its subgroup."""

    combine: Callable[[int, int], int]
    value: int


Wait = Barrier | Reduce
LaneProgram = Generator[Wait, int, None]


@dataclass(frozen=True, slots=True)
class _Access:
    place: str
    kind: str  # read, write, atomic
    invocation: int
    interval: tuple[int, ...]  # barriers passed: of the grid, of its workgroup, of its subgroup

    def races(self, other: _Access) -> bool:
        kinds = {self.kind, other.kind}
        if self.invocation == other.invocation or ("write" not in kinds and kinds != {"read", "atomic"}):
            return False
        groups = zip(_groups(self.invocation), _groups(other.invocation), strict=True)
        intervals = zip(self.interval, other.interval, strict=True)
        # ordered if a barrier of a group that both belong to stands between them
        return not any(
            mine == its and before != after
            for (mine, its), (before, after) in zip(groups, intervals, strict=True)
        )


def _groups(invocation: int) -> tuple[int, int, int]:
    """The grid, the workgroup and the subgroup of an invocation."""
    return 0, invocation // WORKGROUP, invocation // SUBGROUP


@dataclass(slots=True)
class Verdict:
    """What an execution does wrong, by the places of its accesses; nothing at all if it is clean.

    `races`: pairs of places (a set of one: the same place twice).  `outside`: places out of bounds.  `unwritten`:
    places that read what nobody ever writes.  `diverges`: whether part of a workgroup waits for ever.
    """

    races: set[frozenset[str]] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)
    unwritten: set[str] = field(default_factory=set)
    diverges: bool = False

    @property
    def kinds(self) -> set[str]:
        """The kinds of error that an execution may end with, as `ProgramError.kind` names them."""
        parts = {
            "race": self.races,
            "bounds": self.outside,
            "uninitialised": self.unwritten,
            "divergence": self.diverges,
        }
        return {kind for kind, part in parts.items() if part}


class Memory:
    """The buffers of a dispatch.

    Those in `per_workgroup` have an array for each workgroup; those in `undefined` hold nothing until they
    are written.
    """

    def __init__(
        self, buffers: dict[str, list[int]], per_workgroup: Container[str], undefined: Container[str]
    ) -> None:
        self.buffers = buffers
        self.per_workgroup = per_workgroup
        self.undefined = undefined
        self.own: dict[tuple[str, int], list[int]] = {}
        self.accesses: defaultdict[tuple[str, int, int], list[_Access]] = defaultdict(list)
        self.outside: set[str] = set()

    def access(self, lane: Lane, place: str, kind: str, buffer: str, index: int) -> list[int] | None:
        """Keep an access: the buffer as the lane sees it, or None if the index is out of bounds."""
        elements, workgroup = self.buffers[buffer], 0
        if buffer in self.per_workgroup:
            workgroup = lane.workgroup
            elements = self.own.setdefault((buffer, workgroup), list(elements))
        if not 0 <= index < len(elements):
            self.outside.add(place)
            return None
        interval = tuple(lane.passed[scope] for scope in _SCOPES)
        self.accesses[buffer, workgroup, index].append(_Access(place, kind, lane.invocation, interval))
        return elements

    def verdict(self, diverges: bool) -> Verdict:
        verdict = Verdict(outside=self.outside)
        if diverges:  # the execution ends there, so nothing else counts
            return Verdict(diverges=True)
        for (buffer, _, _), accesses in self.accesses.items():
            different = list(dict.fromkeys(accesses))
            kinds = {access.kind for access in different}
            if buffer in self.undefined and kinds == {"read"}:
                verdict.unwritten |= {access.place for access in different}
            if len(kinds) > 1 or kinds == {"write"}:
                racing = (pair for pair in combinations(different, 2) if pair[0].races(pair[1]))
                verdict.races |= {frozenset({a.place, b.place}) for a, b in racing}
        return verdict


@dataclass(slots=True)
class Lane:
    """An invocation: its ids, and its accesses of memory, each with the name of its place."""

    memory: Memory
    invocation: int
    workgroups: int
    passed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SCOPES, 0))

    @property
    def workgroup(self) -> int:
        return self.invocation // WORKGROUP

    @property
    def local(self) -> int:
        return self.invocation % WORKGROUP

    def load(self, place: str, buffer: str, index: int) -> int:
        """The element; 0 out of bounds."""
        elements = self.memory.access(self, place, "read", buffer, index)
        return 0 if elements is None else elements[index]

    def store(self, place: str, buffer: str, index: int, value: int) -> None:
        elements = self.memory.access(self, place, "write", buffer, index)
        if elements is not None:
            elements[index] = value

    def atomic(
        self, place: str, buffer: str, index: int, combine: Callable[[int, int], int], value: int
    ) -> int:
        """The old value; 0 out of bounds."""
        elements = self.memory.access(self, place, "atomic", buffer, index)
        if elements is None:
            return 0
        old, elements[index] = elements[index], combine(elements[index], value)
        return old


def run_lanes(memory: Memory, workgroups: int, program: Callable[[Lane], LaneProgram]) -> Verdict:
    """Run all lanes of a dispatch, each as far as it comes before the next one; changes `memory`."""
    lanes = [Lane(memory, invocation, workgroups) for invocation in range(workgroups * WORKGROUP)]
    running = {lane.invocation: program(lane) for lane in lanes}
    waiting: dict[int, Wait] = {}
    answers: dict[int, int | None] = dict.fromkeys(running)
    while answers:
        for invocation, answer in answers.items():
            try:
                # a generator that has not begun takes None
                waiting[invocation] = running[invocation].send(answer)  # type: ignore[arg-type]
            except StopIteration:
                waiting.pop(invocation, None)
                del running[invocation]
        answers = _release(lanes, waiting)
    return memory.verdict(diverges=bool(running))


def _release(lanes: list[Lane], waiting: dict[int, Wait]) -> dict[int, int | None]:
    """The lanes whose whole group has come to one place, with what they get; they no longer wait."""
    groups: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for invocation, wait in waiting.items():
        scope = wait.scope if isinstance(wait, Barrier) else "subgroup"
        groups[scope, _groups(invocation)[_SCOPES.index(scope)]].append(invocation)
    sizes = {"grid": len(lanes), "workgroup": WORKGROUP, "subgroup": SUBGROUP}
    answers: dict[int, int | None] = {}
    for (scope, _), members in groups.items():
        waits = [waiting[invocation] for invocation in sorted(members)]
        if len(members) < sizes[scope] or len({getattr(wait, "place", "") for wait in waits}) > 1:
            continue
        total = None
        if isinstance(waits[0], Reduce):
            total = reduce(waits[0].combine, (wait.value for wait in waits if isinstance(wait, Reduce)))
        else:
            for invocation in members:
                lanes[invocation].passed[scope] += 1
        answers |= dict.fromkeys(members, total)
    for invocation in answers:
        del waiting[invocation]
    return answers
