"""Checks of results: what launch_fusion, decode_scan_fuse and store_forward have made is looked at before it is kept.

A check has a program that a pass made and the programs that it stands for, and makes footprints of its own.  It has no
cache, and takes nothing of what the pass believed for true:

    grid        each workgroup of each launch is run
    effects     what the launches store, and all else that they do, is there: at equal indices, under equal conditions
    conflicts   where the bodies of two launches meet in memory, one writing, it is in one workgroup, and in one lane
                or with a barrier between
    hand-offs   of a buffer that others no longer see, a workgroup reads only what it has written

That what is stored is the same value is for the certifier.  A result that fails is not kept: the pass leaves what it had,
a remark says why, and the environment variable VYRE_REFUSED_RESULT=error, which the project's own tests set, makes it an
exception.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from ..analysis.affine import AffineExpr, SymbolKind
from ..analysis.affine_rules import near_zero
from ..analysis.clamped import clamped_access, clamped_expr
from ..analysis.coverage import CoverageWalk, covered_accesses
from ..analysis.dependence import DependenceTest, workgroup_axis
from ..analysis.footprint import (
    Barrier,
    BranchEnd,
    BranchStart,
    Event,
    Footprints,
    LoopEnd,
    LoopStart,
    MemoryAccess,
)
from ..analysis.locality import prove_local
from ..analysis.refusal import Refusal
from ..execution.variables import value_of
from ..ir.diagnostics import Location
from ..ir.grids import Extent, Grid, GridCall, bounds, ceil_divided, lengths_by_dimension
from ..ir.loops import bounds as loop_bounds
from ..ir.program import Op, Program, Value
from ..records import dataclass
from .bound_program import BoundProgram
from .effect_keys import Effect, effect_keys
from .join import JoinPlan, join

__all__ = [
    "JoinedResult",
    "Part",
    "UnsoundResult",
    "check_joined",
    "check_stores",
    "check_tiles",
    "refuse_result",
]

VARIABLE = "VYRE_REFUSED_RESULT"
"""`error` where a result that fails is to be an exception."""


class UnsoundResult(AssertionError):
    """A pass made a program that its check refuses: a mistake of the pass, or of an analysis."""


class Sink(Protocol):
    """Receives the remarks and the statistics of a pass; the pass context is one."""

    def count(self, what: str, number: int = 1) -> None: ...

    def remark(self, kind: str, message: str, loc: Location | None = None, **certificate: object) -> None: ...


def refuse_result(sink: Sink, programs: Sequence[str], refusal: Refusal, loc: Location | None = None) -> None:
    """Say that what was made of programs is not kept.  Raises UnsoundResult where that is an error."""
    shown = " and ".join(f"@{name}" for name in programs)
    message = f"what became of {shown} is not kept: {refusal.message}"
    if value_of(VARIABLE) == "error":
        raise UnsoundResult(message)
    sink.count("results refused")
    sink.remark(
        "refused",
        message,
        refusal.loc or loc,
        reason="result",
        missing=refusal.reason,
        programs=list(programs),
    )


# --- joined programs


@dataclass(frozen=True, slots=True)
class Part:
    """A launch of a joined program as it was: `member` over `grid`.

    `member` passes the buffers by the names that the pipeline has for them.  `factor`: how many of the launch's workgroups
    each of the whole runs, where it asks whether there are such; None where each runs one.
    """

    member: BoundProgram
    grid: Grid
    factor: int | None = None


@dataclass(frozen=True, slots=True)
class JoinedResult:
    """A joined program and what it stands for.

    `owners`: the part that an op comes from.  `grid`: what it is launched over.  `names`: the pipeline's name of each
    buffer.  `lengths`: equal for lengths that are, by the pipeline's names.  `local`: buffers that it reads only where
    it has written.  `halos`: those that each workgroup computes itself, with what its neighbours do of them.
    """

    program: Program
    owners: Mapping[Op, int]
    parts: Sequence[Part]
    grid: Grid
    names: Mapping[str, str]
    lengths: Mapping[str, Hashable]
    local: Collection[str]
    halos: Collection[str]


def check_joined(result: JoinedResult) -> Refusal | None:
    """Return the first mistake in a joined program; None for a right one."""
    refusal = _missing_workgroups(result) or _missing_effects(result)
    if refusal is not None:
        return refusal
    bodies = _JoinedBodies(result)
    return bodies.conflict() or bodies.uncovered() or bodies.wrong_halo()


def _missing_workgroups(result: JoinedResult) -> Refusal | None:
    for part in result.parts:
        (x, *rest), (whole, *others) = part.grid, result.grid
        runs = x == whole if part.factor is None else _runs_all(whole, x, part.factor)
        if not runs or rest != others or part.member.program.workgroup != result.program.workgroup:
            message = f"its workgroups are not those of @{part.member.program.name}"
            return Refusal("grid", message, loc=part.member.program.loc)
    return None


def _runs_all(whole: Extent, extent: Extent, factor: int) -> bool:
    """Whether `factor` times the workgroups of the whole are at least `extent`."""
    if isinstance(extent, GridCall) and extent.name == "max":
        return all(_runs_all(whole, arg, factor) for arg in extent.args if not isinstance(arg, str))
    least, most = bounds(whole), bounds(extent)
    if least is not None and most is not None and least[0] * factor >= most[1]:
        return True
    if isinstance(whole, GridCall) and whole.name == "max":
        return any(_runs_all(arg, extent, factor) for arg in whole.args if not isinstance(arg, str))
    return whole == ceil_divided(extent, factor) or (factor == 1 and whole == extent)


def _missing_effects(result: JoinedResult) -> Refusal | None:
    """Whether the parts' effects are those of the joined program, in order."""
    program, owners, names = result.program, result.owners, result.names
    outer = {name: names[name] for name in program.buffers if name in names}
    tiles = {names[name] for name in result.halos}
    again = dict(_invocations_again(program, result.halos)) if tiles else {}
    made: dict[int, list[Effect]] = {number: [] for number in range(len(result.parts))}
    for effect in effect_keys(
        program, outer, result.lengths, lambda op: _logical_indices(op, result.halos), again
    ):
        number = owners.get(effect.op)
        if number is not None:
            made[number].append(effect)
    for number, part in enumerate(result.parts):
        buffers = {formal.name: actual for formal, actual in part.member.bindings}
        is_again = any(owners.get(op) == number for op in again)
        wanted = effect_keys(part.member.program, buffers, result.lengths, is_of_one_dimension=is_again)
        for op in (effect.op for effect in wanted) if is_again else ():
            if op.name != "store" or buffers.get(op.attrs["buffer"]) not in tiles:
                message = (
                    f"@{part.member.program.name} is run again, and does more than to store what is read"
                )
                return Refusal("halo", message, loc=op.loc)
        if [effect.key for effect in wanted] != [effect.key for effect in made[number]]:
            op = _first_missing(wanted, made[number])
            message = f"this {op.name} of @{part.member.program.name} is not in it as it was"
            return Refusal("effects", message, loc=op.loc)
    return None


def _invocations_again(program: Program, halos: Collection[str]) -> Iterator[tuple[Op, Value]]:
    """The ifs in which a body is run for a halo, with the number of the invocation: see `_Halo`."""
    for loop in program.body.ops:
        inner = loop.regions[0].ops[-1] if loop.name == "for" and loop.regions[0].ops else loop
        exists = inner.operands[0].owner if inner.name == "if" and not inner.results else None
        if not isinstance(exists, Op) or exists.name != "lt":
            continue
        if any(
            op.name == "store" and op.attrs["buffer"] in halos for body in inner.regions for op in body.walk()
        ):
            yield inner, exists.operands[0]


def _first_missing(wanted: Sequence[Effect], made: Sequence[Effect]) -> Op:
    left = Counter(effect.key for effect in made)
    for effect in wanted:
        if not left[effect.key]:
            return effect.op
        left[effect.key] -= 1
    return (made or wanted)[0].op


def _logical_indices(op: Op, tiles: Collection[str]) -> tuple[Value, ...]:
    """The indices of an access; of a tile, those before its start was taken off."""
    based = _based(op) if op.attrs["buffer"] in tiles else None
    return op.indices if based is None else based[:1]


def _based(op: Op) -> tuple[Value, Value] | None:
    """The index of an access to a tile, which is a difference: of the element's index and the tile's start."""
    owner = op.index.owner
    return (owner.operands[0], owner.operands[1]) if isinstance(owner, Op) and owner.name == "sub" else None


@dataclass(frozen=True, slots=True)
class _OwnedAccess:
    """An access, the part that it is of, and the number of barriers before it that all lanes come to."""

    access: MemoryAccess
    owner: int
    barriers: int

    def __str__(self) -> str:
        return self.access.describe()


class _JoinedBodies:
    """The events of a joined program, by the parts that they come from."""

    def __init__(self, result: JoinedResult) -> None:
        self.result = result
        self.footprints = Footprints(result.program)
        limits = [bounds(extent) for extent in result.grid]
        x, y, z = (None if each is None else each[1] for each in limits)
        self.dependence = DependenceTest(self.footprints, (x, y, z))
        self.accesses: dict[str, list[_OwnedAccess]] = {}
        self.events: dict[int, list[Event]] = {}
        self._covered: dict[tuple[str, int, int, bool], set[Op]] = {}
        depth = barriers = 0
        for event in self.footprints.events:
            if isinstance(event, LoopStart | BranchStart):
                depth += 1
            elif isinstance(event, LoopEnd | BranchEnd):
                depth -= 1
            elif isinstance(event, Barrier):
                barriers += depth == 0 and event.scope != "subgroup"
            owner = result.owners.get(event.op)
            if owner is None:
                continue
            self.events.setdefault(owner, []).append(event)
            if isinstance(event, MemoryAccess):
                access = _OwnedAccess(clamped_access(self.footprints, event), owner, barriers)
                self.accesses.setdefault(event.buffer, []).append(access)

    # --- conflicts

    def conflict(self) -> Refusal | None:
        """Two accesses of different parts to one element that nothing orders any more."""
        for name, accesses in self.accesses.items():
            is_shared = not self.result.program.buffers[name].is_on_chip
            for p, q in _meeting(accesses):
                found = self.conflict_of(p, q, is_shared)
                if found is not None and not (is_shared and self.are_apart_alone(p, q)):
                    return found
        return None

    def conflict_of(self, p: _OwnedAccess, q: _OwnedAccess, is_shared: bool) -> Refusal | None:
        if is_shared and (p.access.is_atomic or q.access.is_atomic):
            return self.between("atomic", p, q, "are atomics, which order across workgroups")
        if is_shared and self.may_conflict(p, q):
            return self.between("conflict", p, q, "may be at one element in two workgroups")
        if p.barriers == q.barriers and not self.dependence.disjoint_between_lanes(p.access, q.access):
            what = "may be at one element in two lanes, without a barrier"
            return self.between("no-barrier", p, q, what)
        return None

    def are_apart_alone(self, p: _OwnedAccess, q: _OwnedAccess) -> bool:
        """Whether the two parts are apart where they are looked at alone, as others may split ids into digits, of which
        some conditions say nothing."""
        result = self.result
        numbers = sorted((p.owner, q.owner))
        if len(result.parts) == 2 or any(self.is_of_halo(number) for number in numbers):
            return False
        parts = [result.parts[number] for number in numbers]
        lengths: dict[str, int | None] = {}
        for name, buffer in result.program.buffers.items():
            if name in result.names:
                lengths[result.names[name]] = buffer.count
                lengths.update(lengths_by_dimension(result.names[name], buffer.shape))
        members = tuple(part.member for part in parts)
        barriers = frozenset({1} if p.barriers != q.barriers else ())
        owners: dict[Op, int] = {}
        plan = JoinPlan(members, tuple(lengths.items()), result.program.grid, barriers)
        alone = replace(result, program=join("alone", plan, owners), owners=owners, parts=parts)
        return _JoinedBodies(alone).conflict() is None

    def is_of_halo(self, number: int) -> bool:
        """Whether a part has another extent of a buffer than its launch, since that is computed again."""
        halos = {self.result.names[name] for name in self.result.halos}
        return not halos.isdisjoint(self.result.parts[number].member.buffers)

    def between(self, reason: str, p: _OwnedAccess, q: _OwnedAccess, what: str) -> Refusal:
        return Refusal(reason, f"{p} and {q} {what}", p.access.buffer, q.access.op.loc)

    def may_conflict(self, p: _OwnedAccess, q: _OwnedAccess) -> bool:
        """Whether two workgroups may meet at an element: none does that another one surely writes in the same launch, as
        that would be a race of the launch."""
        if self.dependence.disjoint_between_workgroups(p.access, q.access):
            return False
        if p.access.is_write and q.access.is_write:
            return not (self.is_covered(p, q.owner, True) or self.is_covered(q, p.owner, True))
        read, write = (q, p) if p.access.is_write else (p, q)
        return not self.is_covered(read, write.owner, False)

    def is_covered(self, access: _OwnedAccess, part: int, of_writes: bool) -> bool:
        name = access.access.buffer
        key = name, part, access.owner, of_writes
        if key not in self._covered:
            before, after = self.events[part], self.events[access.owner]
            self._covered[key] = covered_accesses(self.footprints, name, before, after, of_writes)
        return access.access.op in self._covered[key]

    # --- hand-offs

    def uncovered(self) -> Refusal | None:
        """A read of what nobody else sees that the workgroup has not written before."""
        names = {name for name in self.result.local if name in self.accesses}
        if not names:
            return None
        walk = CoverageWalk(self.footprints, names)
        walk.run()
        for refusal in walk.refused.values():
            return refusal
        for name, (read, _) in walk.failed.items():
            message = f"{read.describe()} is not covered by what its workgroup has written before"
            return Refusal("uncovered", message, name, read.op.loc)
        return None

    def wrong_halo(self) -> Refusal | None:
        """A tile with a halo that lacks an element that is read, or has another in its place."""
        for name in self.result.halos:
            refusal = _Halo(self, name).wrong()
            if refusal is not None:
                return refusal
        return None


def _meeting(accesses: Sequence[_OwnedAccess]) -> Iterator[tuple[_OwnedAccess, _OwnedAccess]]:
    """Pairs of accesses of different parts, one writing, in order."""
    if len({each.owner for each in accesses}) < 2:
        return
    for at, q in enumerate(accesses):
        for p in accesses[:at]:
            if p.owner != q.owner and (p.access.is_write or q.access.is_write):
                yield p, q


class _Stored(NamedTuple):
    """A store to the indices `stride * t + [low, high]` of a tile, by each t below `runs`."""

    stride: int
    low: int
    high: int
    runs: int

    def is_within(self, size: int) -> bool:
        return self.low >= 0 and self.stride * (self.runs - 1) + self.high < size


class _Halo:
    """A buffer that each workgroup computes itself: for the elements that it reads, it runs invocations of the producer.

    for %t = local_id to count step lanes {
      %id = lanes * workgroup_id + first + %t
      if %id < invocations { ...  store %v, @tile[index(%id) - start] }
    }
    load @tile[index - start]
    """

    def __init__(self, bodies: _JoinedBodies, name: str) -> None:
        self.bodies = bodies
        self.affine = bodies.footprints.affine
        self.accesses = bodies.accesses.get(name, [])
        self.buffer = bodies.result.program.buffers[name]
        self.lanes = bodies.result.program.lanes

    def wrong(self) -> Refusal | None:
        starts = [self.start(each.access) for each in self.accesses]
        for each, start in zip(self.accesses, starts, strict=True):
            if start is None or start != starts[0]:
                return self.refusal(each.access, "is not at a place that is counted from the tile's start")
        written: list[_Stored] = []
        stores = [each for each in self.accesses if each.access.is_write]
        for each, original in zip(stores, self.originals(stores), strict=True):
            stored = self.stored(each.access, original, starts[0]) if starts[0] is not None else None
            if stored is None or not stored.is_within(self.buffer.count or 0):
                return self.refusal(each.access, "is not one of each invocation that there is")
            written.append(stored)
        for each, start in zip(self.accesses, starts, strict=True):
            if (
                not each.access.is_write
                and start is not None
                and not self.is_computed(each.access, start, written)
            ):
                return self.refusal(each.access, "is of elements that the workgroup does not compute")
        return None

    def originals(self, stores: Sequence[_OwnedAccess]) -> list[MemoryAccess]:
        """The stores as the launches have them: that they are the same is known of their effects."""
        name = self.bodies.result.names[self.buffer.name]
        originals: list[MemoryAccess] = []
        for owner in sorted({each.owner for each in stores}):
            member = self.bodies.result.parts[owner].member
            formals = {formal.name for formal, actual in member.bindings if actual == name}
            # over the grid, which says how long its loops by `global_size` are
            events = Footprints(replace(member.program, grid=self.bodies.result.program.grid)).events
            originals += [
                e for e in events if isinstance(e, MemoryAccess) and e.buffer in formals and e.is_write
            ]
        return originals

    def refusal(self, access: MemoryAccess, what: str) -> Refusal:
        return Refusal("halo", f"{access.describe()} {what}", access.buffer, access.op.loc)

    def start(self, access: MemoryAccess) -> AffineExpr | None:
        based = _based(access.op)
        start = self.affine.form(based[1]) if based is not None else None
        if based is None or start is None or any(workgroup_axis(symbol) != 0 for symbol in start.terms):
            return None
        return near_zero(start, based[1].type)

    def tile_index(self, access: MemoryAccess, start: AffineExpr) -> AffineExpr | None:
        """The index in the tile, modulo 2^bits of the index, without terms of the workgroup."""
        based = _based(access.op)
        assert based is not None
        element = clamped_expr(self.affine, based[0])
        tile_index = element - start if element is not None else None
        if tile_index is None or tile_index.terms_of(SymbolKind.GROUP).terms:
            return None
        return near_zero(tile_index, based[0].type)

    def stored(self, access: MemoryAccess, original: MemoryAccess, start: AffineExpr) -> _Stored | None:
        """Index at which the invocations store; None unless all of them do, at a multiple of their number."""
        if not access.guards or not access.loops or access.loops[0] is None:
            return None
        counter, exists = access.loops[0], access.guards[0]
        _, count, step = loop_bounds(access.inside[0])
        if (
            step != self.lanes
            or not isinstance(count, int)
            or not self.is_existence(exists.relation, exists.right)
        ):
            return None
        pattern = self.pattern(original)
        number = exists.left
        if pattern is None or number is None:
            return None
        stride, low, high = pattern
        tile_index = near_zero(number.scaled(stride) - start, access.op.index.type)
        turn = counter.lower + AffineExpr(0, {counter.symbol: self.lanes})
        ids, rest = counter.lower.local_id_coefficients()
        is_from_lane = ids == ({"x": 1} if self.lanes > 1 else {}) and not rest and not counter.lower.const
        offset = tile_index - turn.scaled(stride)
        if not is_from_lane or any(s is not counter.symbol or counter.max_trips > 1 for s in offset.terms):
            return None
        return _Stored(stride, offset.const + low, offset.const + high + access.width - 1, count)

    def pattern(self, original: MemoryAccess) -> tuple[int, int, int] | None:
        """(s, low, high) of a store to `s * global_id + c` with c in [low, high]; None of any other."""
        if not isinstance(original.index, AffineExpr) or (original.op.index.type.bits or 0) < 32:
            return None
        ids, rest = original.expr.local_id_coefficients()
        groups = sum(c for symbol, c in rest.items() if workgroup_axis(symbol) == 0)
        others = {symbol: c for symbol, c in rest.items() if workgroup_axis(symbol) != 0}
        stride = ids.get("x", 0) if self.lanes > 1 else groups or 1
        is_one_group = self.bodies.result.grid[0] == 1
        if stride < 1 or groups != (0 if is_one_group and not groups else stride * self.lanes):
            return None
        if any(symbol.kind is not SymbolKind.LOOP for symbol in others):
            return None
        return stride, *AffineExpr(original.expr.const, others).range()

    def is_existence(self, relation: str, limit: AffineExpr | None) -> bool:
        """Whether a condition on a number says that there is such an invocation: it is below lanes * workgroups."""
        groups = self.bodies.result.grid[0]
        if relation != "lt" or limit is None or not isinstance(groups, int):
            return False
        return limit.is_const and limit.const == groups * self.lanes

    def is_computed(self, access: MemoryAccess, start: AffineExpr, written: Iterable[_Stored]) -> bool:
        """Whether all invocations that may write what is read are among those that the workgroup runs."""
        tile_index = self.tile_index(access, start)
        if tile_index is None:
            return False
        # a range that the branches leave empty is the wrong way round
        lanes = {symbol: (lowest, max(lowest, highest)) for symbol, (lowest, highest) in access.lanes.items()}
        low, high = tile_index.range(lanes)
        high += access.width - 1
        if low < 0 or self.buffer.count is None or high >= self.buffer.count:
            return False
        return all(
            -((each.high - low) // each.stride) >= 0 and (high - each.low) // each.stride < each.runs
            for each in written
        )


# --- tiles and forwarded values


def check_tiles(program: Program, names: Collection[str]) -> Refusal | None:
    """Return the first mistake in the tiles of a program: each workgroup has its own, and reads its own writes."""
    for name, verdict in prove_local(Footprints(program), names).items():
        if isinstance(verdict, Refusal):
            return verdict
        count = program.buffers[name].count or 0
        if verdict.base.terms or (
            verdict.extent and not 0 <= verdict.extent.low <= verdict.extent.high < count
        ):
            message = (
                f"the accesses of @{name} are at {verdict.base} and {verdict.extent}, of {count} elements"
            )
            return Refusal("tile", message, name, program.buffers[name].loc)
    return None


def check_stores(before: Program, ops: Iterable[Op], program: Program) -> Refusal | None:
    """Whether an effect is lost that no other store to its location stands for, and that changes something.

    `ops`: those of `before`, as `walk` gives them, as `program` has them or had them.
    """
    remaining = set(program.walk())
    kept = {copy for copy, op in zip(before.walk(), ops, strict=True) if op in remaining}
    effects = effect_keys(before)
    kept_locations = {effect.location for effect in effects if effect.op in kept}
    stored: dict[int | None, set[int | None]] = {}
    for effect in effects:
        stored.setdefault(effect.loaded, set()).add(effect.value)
    for effect in effects:
        if effect.op in kept or effect.location in kept_locations:
            continue
        if effect.loaded is None or effect.loaded not in _sources(effect.value, stored):
            message = f"this {effect.op.name} is gone, and nothing else writes its elements"
            return Refusal("effects", message, effect.op.attrs.get("buffer"), effect.op.loc)
    return None


def _sources(value: int | None, stored: Mapping[int | None, Collection[int | None]]) -> set[int | None]:
    """Values that a value may be: itself, and for a load the values stored at its location."""
    sources: set[int | None] = set()
    pending = [value]
    while pending:
        source = pending.pop()
        if source not in sources:
            sources.add(source)
            pending += stored.get(source, ())
    return sources
