"""May a launch follow another one in the same program?  The proofs, for two launches at a time.

Before, all workgroups of the first are done when the second begins.  After, only what a
workgroup did itself is.  So the two may be joined if no element is written by one of them and
touched by the other *in another workgroup*; within a workgroup a barrier between the two bodies
keeps the order.

The condition speaks of the launches as they are written, one after the other, so several may be
joined if any two of them may.  What it rests on must hold there too: a value that both load is one
value only if no launch between them writes the buffer.  These buffers are `renewed`.

Programs have no data races, so "touched by another workgroup" may also be excluded by what would
race: if the workgroup that reads an element surely writes it in the other launch, then no other
workgroup writes it there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..analysis.affine_analysis import Unknown
from ..analysis.clamped import clamped_expr
from ..analysis.congruence import modulus
from ..analysis.coverage import covered_accesses
from ..analysis.dependence import DependenceTest, Extents
from ..analysis.footprint import Barrier, Event, Footprints, MemoryAccess
from ..analysis.refusal import Refusal
from ..ir.grids import Grid, show_extent
from ..ir.program import AccessMode, Dim3, Module, Op, Program
from ..ir.verifier import verify
from .join import BoundProgram, join

__all__ = [
    "PairAccesses",
    "Verdict",
    "extents_of",
    "prove_pair",
    "fill_placeholders",
    "placeholder",
    "raw_hazard",
    "static_grid",
    "incompatible",
    "verify_program",
    "war_hazard",
    "waw_hazard",
]


@dataclass(slots=True)
class Verdict:
    """What was found of two launches: they may be joined unless `refusal`.

    `ordered`: some element is touched by both, not by one lane alone, so a barrier is needed.
    """

    refusal: Refusal | None = None
    ordered: bool = False
    facts: PairAccesses | None = None


Conflict = tuple[MemoryAccess, MemoryAccess]
"""An access of the first launch and one of the second, which may meet in another workgroup."""


class PairAccesses:
    """The accesses of two launches, in one space of forms.

    `renewed`: buffers that both only read, and that a launch between them writes.
    """

    def __init__(
        self,
        first: BoundProgram,
        second: BoundProgram,
        lengths: Mapping[str, int | None],
        grid: Grid,
        renewed: Collection[str],
    ) -> None:
        self.members = (first, second)
        self.grid = grid
        self.program = join("pair", self.members, lengths, static_grid(grid), {1}, renewed=renewed)
        self.footprints = Footprints(self.program)
        self.dependence = DependenceTest(self.footprints, extents_of(grid))
        events = self.footprints.events
        between = self._boundary()
        at = next(i for i, event in enumerate(events) if isinstance(event, Barrier) and event.op is between)
        self.events: tuple[Sequence[Event], Sequence[Event]] = (events[:at], events[at + 1 :])
        self._accesses = [self._by_buffer(part) for part in self.events]

    def _boundary(self) -> Op:
        """The barrier that join has put between the two."""
        before = sum(op.name == "barrier" for op in self.members[0].program.body.ops)
        barriers = [op for op in self.program.body.ops if op.name == "barrier"]
        return barriers[before]

    def _by_buffer(self, events: Sequence[Event]) -> dict[str, list[MemoryAccess]]:
        """The accesses, at indices that were looked into where they are clamped."""
        found: dict[str, list[MemoryAccess]] = defaultdict(list)
        for event in events:
            if isinstance(event, MemoryAccess):
                expr = clamped_expr(self.footprints.affine, event.op.index)
                found[event.buffer].append(event if expr is None else replace(event, index=expr))
        return found

    def accesses(self, part: int, buffer: str, is_write: bool | None = None) -> list[MemoryAccess]:
        """Those of the first (0) or the second launch (1)."""
        found = self._accesses[part].get(buffer, [])
        return [a for a in found if is_write is None or a.is_write is is_write]

    def meeting(self, firsts: Sequence[MemoryAccess], seconds: Sequence[MemoryAccess]) -> Iterator[Conflict]:
        for q in seconds:
            for p in firsts:
                if not self.dependence.disjoint_between_workgroups(p, q):
                    yield p, q

    def covered(self, part: int, buffer: str, of_writes: bool) -> Callable[[MemoryAccess], bool]:
        """Tells whether the workgroup of an access of `part` surely writes the same in the other part."""
        known: list[set[Op]] = []

        def is_covered(access: MemoryAccess) -> bool:
            if not known:
                other, mine = self.events[1 - part], self.events[part]
                known.append(covered_accesses(self.footprints, buffer, other, mine, of_writes))
            return access.op in known[0]

        return is_covered

    def shared(self) -> list[str]:
        """Buffers that both touch and one of them writes."""
        names = [name for name in self._accesses[0] if name in self._accesses[1]]
        return [n for n in names if any(self.accesses(part, n, True) for part in (0, 1))]


# --- the three hazards: each gives the conflict that could not be excluded


def raw_hazard(facts: PairAccesses, buffer: str) -> Conflict | None:
    """The second reads what another workgroup of the first writes."""
    is_covered = facts.covered(1, buffer, of_writes=False)
    meeting = facts.meeting(facts.accesses(0, buffer, True), facts.accesses(1, buffer, False))
    return next(((p, q) for p, q in meeting if not is_covered(q)), None)


def war_hazard(facts: PairAccesses, buffer: str) -> Conflict | None:
    """The second writes what another workgroup of the first reads."""
    is_covered = facts.covered(0, buffer, of_writes=False)
    meeting = facts.meeting(facts.accesses(0, buffer, False), facts.accesses(1, buffer, True))
    return next(((p, q) for p, q in meeting if not is_covered(p)), None)


def waw_hazard(facts: PairAccesses, buffer: str) -> Conflict | None:
    """The second writes what another workgroup of the first writes."""
    first, second = (facts.covered(part, buffer, of_writes=True) for part in (0, 1))
    meeting = facts.meeting(facts.accesses(0, buffer, True), facts.accesses(1, buffer, True))
    return next(((p, q) for p, q in meeting if not (first(p) or second(q))), None)


_HAZARDS = {
    "raw": "{q} of @{b} may read what {p} of @{a} writes in another workgroup",
    "war": "{q} of @{b} may overwrite what {p} of @{a} still reads in another workgroup",
    "waw": "{q} of @{b} and {p} of @{a} may write the same element from two workgroups",
}


def hazard_of(facts: PairAccesses, buffer: str) -> Refusal | None:
    """The first hazard on a buffer that is not excluded."""
    for reason, found in (
        ("raw", raw_hazard(facts, buffer)),
        ("war", war_hazard(facts, buffer)),
        ("waw", waw_hazard(facts, buffer)),
    ):
        if found is not None:
            return _described(facts, buffer, reason, found)
    return None


def _described(facts: PairAccesses, buffer: str, reason: str, conflict: Conflict) -> Refusal:
    p, q = conflict
    a, b = (member.program.name for member in facts.members)
    for access, name in ((p, a), (q, b)):
        if isinstance(access.index, Unknown):
            message = (
                f"which elements of @{buffer} a workgroup of @{name} {'writes' if access.is_write else 'reads'} "
                f"is not known: the index of this {access.op.name} is not affine, {access.index.reason}"
            )
            return Refusal("unknown-footprint", message, buffer, facts={"hazard": reason})
    message = _HAZARDS[reason].format(p=p.describe(), q=q.describe(), a=a, b=b)
    if p.op.index.type is not q.op.index.type and modulus(p.residue, q.residue):
        wrapping = next(access for access in (p, q) if not access.residue.exact)
        message += f"; the index of this {wrapping.op.name} is a {wrapping.op.index.type} and may wrap around"
    return Refusal(
        reason, message, buffer, facts={"first_access": p.describe(), "second_access": q.describe()}
    )


def needs_barrier(facts: PairAccesses) -> bool:
    """Whether another lane of the workgroup touches what a lane touches, one of the two writing."""
    for buffer in facts.shared():
        for p in facts.accesses(0, buffer):
            for q in facts.accesses(1, buffer):
                if (p.is_write or q.is_write) and not facts.dependence.disjoint_between_lanes(p, q):
                    return True
    return False


# --- what rules two launches out before their accesses are looked at


def incompatible(a: BoundProgram, b: BoundProgram, grids: tuple[Grid, Grid]) -> Refusal | None:
    """What rules two launches out whatever buffers they share."""
    return _workgroups(a, b) or grids_differ(a, b, *grids) or _specs(a, b) or _grid_wide(a, b)


def _workgroups(a: BoundProgram, b: BoundProgram) -> Refusal | None:
    if a.program.workgroup == b.program.workgroup:
        return None
    one, other = ("x".join(map(str, m.program.workgroup)) for m in (a, b))
    message = f"workgroups differ: @{a.program.name} has {one} invocations, @{b.program.name} {other}"
    return Refusal("workgroup", message, facts={"workgroups": [a.program.workgroup, b.program.workgroup]})


def grids_differ(a: BoundProgram, b: BoundProgram, first: Grid, second: Grid) -> Refusal | None:
    """Equal numbers, or equal expressions over lengths."""
    if first == second:
        return None
    shown = [", ".join(map(show_extent, grid)) for grid in (first, second)]
    message = f"grids differ: @{a.program.name} runs over ({shown[0]}), @{b.program.name} over ({shown[1]})"
    if any(not isinstance(extent, int) for extent in (*first, *second)):
        message += "; that they are the same is not known"
    return Refusal("grid", message, facts={"grids": shown})


def _specs(a: BoundProgram, b: BoundProgram) -> Refusal | None:
    for name, spec in a.program.specs.items():
        other = b.program.specs.get(name)
        if other is not None and (other.dtype, other.default) != (spec.dtype, spec.default):
            message = f"@{a.program.name} and @{b.program.name} both have a spec @{name}, not the same"
            return Refusal("spec", message, facts={"spec": name})
    return None


def _grid_wide(a: BoundProgram, b: BoundProgram) -> Refusal | None:
    for program in (a.program, b.program):
        for op in program.walk():
            if op.name == "barrier" and op.attrs["scope"] == "grid":
                message = f"@{program.name} has a grid barrier: its workgroups exchange values"
                return Refusal("grid-wide", message, loc=op.loc)
            if op.definition.kernel is not None:
                message = f"@{program.name} is {op.name}: run expand_kernels first"
                return Refusal("named-kernel", message, loc=op.loc)
    return None


def aliased(a: BoundProgram, b: BoundProgram) -> Refusal | None:
    """A buffer passed twice has two names in one program, which is taken at its word that they are two."""
    for member in (a, b):
        for name in member.buffers:
            if member.buffers.count(name) > 1 and (_writes(a, name) or _writes(b, name)):
                message = f"@{name} is passed to @{member.program.name} twice, and one of the two launches writes it"
                return Refusal("aliasing", message, name)
    return None


def _writes(member: BoundProgram, name: str) -> bool:
    return any(actual == name and formal.access is not AccessMode.READ for formal, actual in member.bindings)


def _contents(a: BoundProgram, b: BoundProgram) -> Refusal | None:
    """Whether the two mean one buffer by what they share: as long, and kept from one to the other."""
    for formal, name in a.bindings:
        for other, shared in b.bindings:
            if shared != name:
                continue
            if None not in (formal.count, other.count) and formal.count != other.count:
                message = f"@{name} has {formal.count} elements in @{a.program.name}, {other.count} in @{b.program.name}"
                return Refusal("size", message, name)
            if formal.is_transient and (other.access is AccessMode.READ or other.live_in):
                message = f"@{a.program.name} leaves nothing in @{name}: it is transient there, and @{b.program.name} reads it"
                return Refusal("transient", message, name)
    return None


def _atomics(facts: PairAccesses) -> Refusal | None:
    for buffer in facts.shared():
        for part, member in enumerate(facts.members):
            for access in facts.accesses(part, buffer):
                if access.is_atomic:
                    message = f"{access.op.name} of @{member.program.name} on @{buffer}: atomics order across workgroups"
                    return Refusal("atomic", message, buffer, access.op.loc)
    return None


# --- the verdict


def prove_pair(
    module: Module,
    a: BoundProgram,
    b: BoundProgram,
    lengths: Mapping[str, int | None],
    grids: tuple[Grid, Grid],
    renewed: Collection[str] = (),
) -> Verdict:
    """Whether `b` may follow `a` in one program, with launches between them that write the `renewed`.

    Buffers are named by placeholders.
    """
    early = incompatible(a, b, grids) or aliased(a, b) or _contents(a, b)
    if early is not None:
        return Verdict(early)
    facts = PairAccesses(a, b, lengths, grids[0], renewed)
    refusal = _atomics(facts)
    for buffer in facts.shared() if refusal is None else ():
        refusal = refusal or hazard_of(facts, buffer)
    if refusal is None:
        refusal = _unverified(module, facts.program, b)
    return Verdict(refusal, needs_barrier(facts), facts if refusal and refusal.reason == "raw" else None)


def _unverified(module: Module, program: Program, second: BoundProgram) -> Refusal | None:
    """A load of what the other program writes agrees for fewer invocations than one of a read buffer."""
    problem = verify_program(module, program)
    if problem is None:
        return None
    return Refusal("divergent-barrier", f"joined with @{second.program.name}, it would not verify: {problem}")


def verify_program(module: Module, program: Program) -> str | None:
    """The first error in a program that may call the module's functions."""
    alone = Module(funcs=module.funcs)
    alone.add(program)
    return next((d.message for d in verify(alone) if d.severity == "error"), None)


def extents_of(grid: Grid) -> Extents:
    x, y, z = (extent if isinstance(extent, int) else None for extent in grid)
    return x, y, z


def static_grid(grid: Grid) -> Dim3 | None:
    x, y, z = extents_of(grid)
    return None if x is None or y is None or z is None else (x, y, z)


# --- placeholders: proofs are kept, and serve launches that pass other buffers in the same way


def placeholder(number: int) -> str:
    return f"<{number}>"


def fill_placeholders(text: str, names: Sequence[str]) -> str:
    """`text` with the buffers' names in place of placeholders."""
    return re.sub(r"<(\d+)>", lambda found: names[int(found[1])], text)
