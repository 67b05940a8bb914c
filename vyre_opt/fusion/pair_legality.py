"""Whether one launch may follow another in the same program: proofs for two launches at a time.

As separate launches, all workgroups of the first have finished when the second begins.  In one program,
only the same workgroup has finished the first body.  So the two may be joined if no element is written
by one of them and accessed by the other *in another workgroup*; within a workgroup a barrier between the
bodies keeps the order (`needs_barrier`).

The condition is about the launches as they are written, one after the other, so several may be joined
if any two of them may.  The assumptions of a proof must hold there too: values that both load from a
buffer are equal only if no launch between them writes the buffer.  Such buffers are `rewritten`.

Programs have no data races, so an access by another workgroup is also excluded where it would race: if
the workgroup that reads an element surely writes it in the other launch, no other workgroup does there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from ..analysis.affine_analysis import Unknown
from ..analysis.clamped import clamped_access
from ..analysis.congruence import modulus
from ..analysis.coverage import covered_accesses
from ..analysis.dependence import DependenceTest, Extents
from ..analysis.footprint import Barrier, Event, Footprints, MemoryAccess
from ..analysis.refusal import Refusal
from ..ir.grids import Grid, show_extent
from ..ir.program import AccessMode, Dim3, Module, Op, Program
from ..ir.shapes import shapes_agree, show_shape
from ..ir.types import with_article
from ..ir.verifier import errors_of
from ..records import dataclass
from .bound_program import BoundProgram
from .join import JoinPlan, join

__all__ = [
    "LaunchPair",
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
    "with_buffer_names",
    "war_hazard",
    "waw_hazard",
]


@dataclass(frozen=True, slots=True)
class LaunchPair:
    """Two launches, the second after the first: all inputs of a verdict, so that equal pairs have equal verdicts.

    `members`: with placeholders for the buffers that they pass.  `lengths`: lengths of the placeholders, sorted.
    `rewritten`: buffers that both only read and that a launch between them writes.  `max_groups`: upper bound of the
    workgroups along x that access memory, for open grids.
    """

    members: tuple[BoundProgram, BoundProgram]
    lengths: tuple[tuple[str, int | None], ...]
    grids: tuple[Grid, Grid]
    rewritten: frozenset[str] = frozenset()
    max_groups: int | None = None


@dataclass(slots=True)
class Verdict:
    """Whether two launches may be joined: they may unless there is a `refusal`.

    `needs_barrier`: one must lie between their bodies.  `accesses`: for a refusal that a halo might resolve.
    """

    refusal: Refusal | None = None
    needs_barrier: bool = False
    accesses: PairAccesses | None = None


Conflict = tuple[MemoryAccess, MemoryAccess]
"""An access of the first launch and one of the second that may be at one element, from two workgroups."""


class PairAccesses:
    """The accesses of two launches over one grid, analysed in one joined program so that they share symbols."""

    def __init__(self, pair: LaunchPair) -> None:
        self.members = pair.members
        self.grid = pair.grids[0]
        plan = JoinPlan(
            pair.members, pair.lengths, static_grid(self.grid), frozenset({1}), rewritten=pair.rewritten
        )
        self.program = join("pair", plan)
        self.footprints = Footprints(self.program)
        x, y, z = extents_of(self.grid)
        self.dependence = DependenceTest(self.footprints, (x or pair.max_groups, y, z))
        events = self.footprints.events
        boundary = self._boundary()
        at = next(i for i, event in enumerate(events) if isinstance(event, Barrier) and event.op is boundary)
        self.events: tuple[Sequence[Event], Sequence[Event]] = (events[:at], events[at + 1 :])
        self._accesses = [self._by_buffer(events) for events in self.events]

    def _boundary(self) -> Op:
        """The barrier that `join` put between the two bodies."""
        before = sum(op.name == "barrier" for op in self.members[0].program.body.ops)
        # the first body may end in barriers of its own, which are copied before the boundary
        barriers = [op for op in self.program.body.ops if op.name == "barrier"]
        return barriers[before]

    def _by_buffer(self, events: Sequence[Event]) -> dict[str, list[MemoryAccess]]:
        """The accesses; clamped indices are resolved where possible."""
        accesses: dict[str, list[MemoryAccess]] = defaultdict(list)
        for event in events:
            if isinstance(event, MemoryAccess):
                accesses[event.buffer].append(clamped_access(self.footprints, event))
        return accesses

    def accesses(self, part: int, buffer: str, is_write: bool | None = None) -> list[MemoryAccess]:
        """Accesses of the first launch (`part` 0) or of the second (1)."""
        accesses = self._accesses[part].get(buffer, [])
        return [a for a in accesses if is_write is None or a.is_write is is_write]

    def conflicts(
        self, firsts: Sequence[MemoryAccess], seconds: Sequence[MemoryAccess]
    ) -> Iterator[Conflict]:
        for q in seconds:
            for p in firsts:
                if not self.dependence.disjoint_between_workgroups(p, q):
                    yield p, q

    def coverage(self, part: int, buffer: str, of_writes: bool) -> Callable[[MemoryAccess], bool]:
        """A predicate of accesses of `part`: whether their own workgroup surely writes the element in the other part."""
        cache: list[set[Op]] = []  # computed at the first conflict: most pairs have none

        def is_covered(access: MemoryAccess) -> bool:
            if not cache:
                earlier, events = self.events[1 - part], self.events[part]
                cache.append(covered_accesses(self.footprints, buffer, earlier, events, of_writes))
            return access.op in cache[0]

        return is_covered

    def shared(self) -> list[str]:
        """Buffers that both access and at least one writes."""
        names = [name for name in self._accesses[0] if name in self._accesses[1]]
        return [n for n in names if any(self.accesses(part, n, True) for part in (0, 1))]


# --- the three hazards: each returns a conflict that could not be excluded, or None


def raw_hazard(pair: PairAccesses, buffer: str) -> Conflict | None:
    """The second reads what another workgroup of the first writes."""
    is_covered = pair.coverage(1, buffer, of_writes=False)
    conflicts = pair.conflicts(pair.accesses(0, buffer, True), pair.accesses(1, buffer, False))
    return next(((p, q) for p, q in conflicts if not is_covered(q)), None)


def war_hazard(pair: PairAccesses, buffer: str) -> Conflict | None:
    """The second writes what another workgroup of the first reads."""
    is_covered = pair.coverage(0, buffer, of_writes=False)
    conflicts = pair.conflicts(pair.accesses(0, buffer, False), pair.accesses(1, buffer, True))
    return next(((p, q) for p, q in conflicts if not is_covered(p)), None)


def waw_hazard(pair: PairAccesses, buffer: str) -> Conflict | None:
    """The second writes what another workgroup of the first writes."""
    first, second = (pair.coverage(part, buffer, of_writes=True) for part in (0, 1))
    conflicts = pair.conflicts(pair.accesses(0, buffer, True), pair.accesses(1, buffer, True))
    return next(((p, q) for p, q in conflicts if not (first(p) or second(q))), None)


_HAZARDS = {
    "raw": "{q} of @{b} may read what {p} of @{a} writes in another workgroup",
    "war": "{q} of @{b} may overwrite what {p} of @{a} still reads in another workgroup",
    "waw": "{q} of @{b} and {p} of @{a} may write the same element from two workgroups",
}


def hazard_of(pair: PairAccesses, buffer: str) -> Refusal | None:
    """Refusal if the order of two launches matters between workgroups, for one buffer; None if it does not."""
    for reason, hazard in (("raw", raw_hazard), ("war", war_hazard), ("waw", waw_hazard)):
        if (conflict := hazard(pair, buffer)) is not None:
            return _describe(pair, buffer, reason, conflict)
    return None


def _describe(pair: PairAccesses, buffer: str, reason: str, conflict: Conflict) -> Refusal:
    p, q = conflict
    a, b = (member.program.name for member in pair.members)
    for access, name in ((p, a), (q, b)):
        if isinstance(access.index, Unknown):
            message = (
                f"which elements of @{buffer} a workgroup of @{name} {'writes' if access.is_write else 'reads'} "
                f"is not known: the index of this {access.op.name} is not affine, {access.index.reason}"
            )
            return Refusal("unknown-footprint", message, buffer, facts={"hazard": reason})
    message = _HAZARDS[reason].format(p=p.describe(), q=q.describe(), a=a, b=b)
    if modulus(p.residue, q.residue) and p.op.index.type is not q.op.index.type:
        wrapping = next(access for access in (p, q) if not access.residue.exact)
        message += f"; the index of this {wrapping.op.name} is {with_article(wrapping.op.index.type)} and may wrap around"
    return Refusal(
        reason, message, buffer, facts={"first_access": p.describe(), "second_access": q.describe()}
    )


def needs_barrier(pair: PairAccesses) -> bool:
    """Whether two lanes of a workgroup may access one element, one in each launch, and one of them writes."""
    for buffer in pair.shared():
        for p in pair.accesses(0, buffer):
            for q in pair.accesses(1, buffer):
                if (p.is_write or q.is_write) and not pair.dependence.disjoint_between_lanes(p, q):
                    return True
    return False


# --- conditions on two launches as a whole, before their accesses


def incompatible(a: Program, b: Program, grids: tuple[Grid, Grid]) -> Refusal | None:
    """Why two launches cannot be in one program, whatever buffers they share; None if they can."""
    return _workgroups_differ(a, b) or grids_differ(a, b, *grids) or _specs_differ(a, b) or _grid_wide(a, b)


def _workgroups_differ(a: Program, b: Program) -> Refusal | None:
    if a.workgroup == b.workgroup:
        return None
    first, second = ("x".join(map(str, m.workgroup)) for m in (a, b))
    message = f"workgroups differ: @{a.name} has {first} invocations, @{b.name} {second}"
    return Refusal("workgroup", message, facts={"workgroups": [a.workgroup, b.workgroup]})


def grids_differ(a: Program, b: Program, first: Grid, second: Grid) -> Refusal | None:
    """Grids are equal if their numbers, or their expressions over lengths, are."""
    if first == second:
        return None
    texts = [", ".join(map(show_extent, grid)) for grid in (first, second)]
    message = f"grids differ: @{a.name} runs over ({texts[0]}), @{b.name} over ({texts[1]})"
    if any(not isinstance(extent, int) for extent in (*first, *second)):
        message += "; that they are the same is not known"
    return Refusal("grid", message, facts={"grids": texts})


def _specs_differ(a: Program, b: Program) -> Refusal | None:
    for name, spec in a.specs.items():
        other = b.specs.get(name)
        if other is not None and (other.dtype, other.default) != (spec.dtype, spec.default):
            message = f"@{a.name} and @{b.name} both have a spec @{name}, not the same"
            return Refusal("spec", message, facts={"spec": name})
    return None


def _grid_wide(a: Program, b: Program) -> Refusal | None:
    for program in (a, b):
        if program.cluster is not None:
            message = f"@{program.name} runs in clusters: its workgroups exchange values"
            return Refusal("grid-wide", message, loc=program.loc)
        for op in program.walk():
            if op.name == "barrier" and op.attrs["scope"] == "grid":
                message = f"@{program.name} has a grid barrier: its workgroups exchange values"
                return Refusal("grid-wide", message, loc=op.loc)
            if op.definition.kernel is not None:
                message = f"@{program.name} is {op.name}: run expand_kernels first"
                return Refusal("named-kernel", message, loc=op.loc)
    return None


def alias_refusal(a: BoundProgram, b: BoundProgram) -> Refusal | None:
    """Refuse a written buffer that a launch passes twice: analyses assume that different names are different memory."""
    for member in (a, b):
        for name in member.buffers:
            if member.buffers.count(name) > 1 and (_writes(a, name) or _writes(b, name)):
                message = f"@{name} is passed to @{member.program.name} twice, and one of the two launches writes it"
                return Refusal("aliasing", message, name)
    return None


def _writes(member: BoundProgram, name: str) -> bool:
    return any(actual == name and formal.access is not AccessMode.READ for formal, actual in member.bindings)


def _shared_buffers_differ(a: BoundProgram, b: BoundProgram) -> Refusal | None:
    """Refusal if a shared buffer has two lengths, or loses its contents between the launches; None otherwise."""
    for formal, name in a.bindings:
        for other, actual in b.bindings:
            if actual != name:
                continue
            # a program may depend on its own count: by `len`, and by proofs that indices are in bounds
            if not shapes_agree(formal.shape, other.shape):
                one, two = (show_shape(each.shape) for each in (formal, other))
                message = f"@{name} has {one} elements in @{a.program.name}, {two} in @{b.program.name}"
                return Refusal("size", message, name)
            if formal.is_transient and (other.access is AccessMode.READ or other.live_in):
                message = f"@{a.program.name} leaves nothing in @{name}: it is transient there, and @{b.program.name} reads it"
                return Refusal("transient", message, name)
    return None


def _atomics(pair: PairAccesses) -> Refusal | None:
    for buffer in pair.shared():
        for part, member in enumerate(pair.members):
            for access in pair.accesses(part, buffer):
                if access.is_atomic:
                    message = f"{access.op.name} of @{member.program.name} on @{buffer}: atomics order across workgroups"
                    return Refusal("atomic", message, buffer, access.op.loc)
    return None


# --- the verdict


def prove_pair(module: Module, launches: LaunchPair) -> Verdict:
    """Whether the second launch may follow the first in one program.  `module`: has the functions that both call."""
    a, b = launches.members
    refusal = (
        incompatible(a.program, b.program, launches.grids)
        or alias_refusal(a, b)
        or _shared_buffers_differ(a, b)
    )
    if refusal is not None:
        return Verdict(refusal)
    pair = PairAccesses(launches)
    refusal = _atomics(pair)
    for buffer in pair.shared() if refusal is None else ():
        refusal = refusal or hazard_of(pair, buffer)
    if refusal is None:
        refusal = _verifier_refusal(module, pair.program, b)
    return Verdict(refusal, needs_barrier(pair), pair if refusal and refusal.reason == "raw" else None)


def _verifier_refusal(module: Module, program: Program, second: BoundProgram) -> Refusal | None:
    # A value loaded from a read-only buffer is uniform if its index is.  If the other program writes the
    # buffer, the joined one is not read-only, and a barrier under such a value does not verify.
    problem = verify_program(module, program)
    if problem is None:
        return None
    return Refusal("divergent-barrier", f"joined with @{second.program.name}, it would not verify: {problem}")


def verify_program(module: Module, program: Program) -> str | None:
    """The first error in a program that may call the module's functions; None if it verifies."""
    single = Module(funcs=module.funcs)
    single.add(program)
    return next((d.message for d in errors_of(single)), None)


def extents_of(grid: Grid) -> Extents:
    x, y, z = (extent if isinstance(extent, int) else None for extent in grid)
    return x, y, z


def static_grid(grid: Grid) -> Dim3 | None:
    x, y, z = extents_of(grid)
    return None if x is None or y is None or z is None else (x, y, z)


# --- placeholders: cached proofs serve launches that pass other buffers in the same way


def placeholder(number: int) -> str:
    return f"<{number}>"


def fill_placeholders(text: str, names: Sequence[str]) -> str:
    """`text` with the buffers' names in place of placeholders."""
    return re.sub(r"<(\d+)>", lambda match: names[int(match[1])], text)


def with_buffer_names(refusal: Refusal, names: Sequence[str]) -> Refusal:
    """A refusal with buffers' names in place of placeholders."""
    facts = {k: fill_placeholders(v, names) if isinstance(v, str) else v for k, v in refusal.facts.items()}
    buffer = fill_placeholders(refusal.buffer, names) if refusal.buffer else None
    return Refusal(refusal.reason, fill_placeholders(refusal.message, names), buffer, refusal.loc, facts)
