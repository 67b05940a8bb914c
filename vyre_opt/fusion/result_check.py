"""Checks of the results of launch_fusion, decode_scan_fuse and store_forward, before they replace the original.

A check compares a pass's program with the programs that it replaces, by footprints of its own.  It has no cache, and
trusts no fact that the pass relied on:

    grid        each workgroup of each launch runs
    effects     all stores and other effects of the launches are there: at equal indices, under equal conditions
    conflicts   two bodies access one element, one writing, only within a workgroup, and there in one lane or with a
                barrier between
    hand-offs   a workgroup reads only its own writes in a buffer that others no longer see

The certifier, not this check, compares the stored values.  A result that fails is discarded: the pass restores the
original, and a remark gives the reason.  With the environment variable VYRE_REFUSED_RESULT=error, which the project's own
tests set, it is an exception.
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
"""Environment variable: `error` makes a result that fails an exception."""


class UnsoundResult(AssertionError):
    """A pass made a program that its check refuses: a mistake of the pass, or of an analysis."""


class Sink(Protocol):
    """Receives the remarks and the statistics of a pass; the pass context is one."""

    def count(self, what: str, number: int = 1) -> None: ...

    def remark(self, kind: str, message: str, loc: Location | None = None, **certificate: object) -> None: ...


def refuse_result(sink: Sink, programs: Sequence[str], refusal: Refusal, loc: Location | None = None) -> None:
    """Remark that the result for `programs` is discarded.  Raises UnsoundResult if VARIABLE says so."""
    listing = " and ".join(f"@{name}" for name in programs)
    message = f"what became of {listing} is not kept: {refusal.message}"
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
    """An original launch of a joined program: `member` over `grid`.

    `member` passes buffers by their names in the pipeline.  `factor`: workgroups of the launch that one joined workgroup
    runs, after a test that they exist; None if it runs exactly one.
    """

    member: BoundProgram
    grid: Grid
    factor: int | None = None


@dataclass(frozen=True, slots=True)
class JoinedResult:
    """A joined program and the launches that it replaces.

    `owners`: op -> number of its part.  `grid`: grid of the joined launch.  `names`: buffer of the program -> buffer of
    the pipeline.  `lengths`: equal numbers for equal lengths, by the pipeline's names.  `local`: buffers in which a
    workgroup reads only its own writes.  `halos`: buffers that each workgroup computes with its neighbours' elements.
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
    """Return the first mistake in a joined program; None without one."""
    refusal = _missing_workgroups(result) or _missing_effects(result)
    if refusal is not None:
        return refusal
    bodies = _JoinedBodies(result)
    return bodies.conflict() or bodies.uncovered_read() or bodies.wrong_halo()


def _missing_workgroups(result: JoinedResult) -> Refusal | None:
    for part in result.parts:
        (x, *rest), (whole, *others) = part.grid, result.grid
        runs = x == whole if part.factor is None else _runs_all(whole, x, part.factor)
        if not runs or rest != others or part.member.program.workgroup != result.program.workgroup:
            message = f"its workgroups are not those of @{part.member.program.name}"
            return Refusal("grid", message, loc=part.member.program.loc)
    return None


def _runs_all(grid: Extent, extent: Extent, factor: int) -> bool:
    """Whether `factor` times the workgroups of the joined grid are at least `extent`."""
    if isinstance(extent, GridCall) and extent.name == "max":
        return all(_runs_all(grid, arg, factor) for arg in extent.args if not isinstance(arg, str))
    grid_bounds, extent_bounds = bounds(grid), bounds(extent)
    if grid_bounds is not None and extent_bounds is not None and grid_bounds[0] * factor >= extent_bounds[1]:
        return True
    if isinstance(grid, GridCall) and grid.name == "max":
        return any(_runs_all(arg, extent, factor) for arg in grid.args if not isinstance(arg, str))
    return grid == ceil_divided(extent, factor) or (factor == 1 and grid == extent)


def _missing_effects(result: JoinedResult) -> Refusal | None:
    """Refusal for an effect of a part that the joined program lacks or reorders; None without one."""
    program, owners, names = result.program, result.owners, result.names
    outer = {name: names[name] for name in program.buffers if name in names}
    tiles = {names[name] for name in result.halos}
    reruns = dict(_rerun_branches(program, result.halos)) if tiles else {}
    joined_effects: dict[int, list[Effect]] = {number: [] for number in range(len(result.parts))}
    for effect in effect_keys(
        program, outer, result.lengths, lambda op: _logical_indices(op, result.halos), reruns
    ):
        number = owners.get(effect.op)
        if number is not None:
            joined_effects[number].append(effect)
    for number, part in enumerate(result.parts):
        buffers = {formal.name: actual for formal, actual in part.member.bindings}
        is_rerun = any(owners.get(op) == number for op in reruns)
        expected = effect_keys(part.member.program, buffers, result.lengths, is_of_one_dimension=is_rerun)
        for op in (effect.op for effect in expected) if is_rerun else ():
            if op.name != "store" or buffers.get(op.attrs["buffer"]) not in tiles:
                message = (
                    f"@{part.member.program.name} is run again, and does more than to store what is read"
                )
                return Refusal("halo", message, loc=op.loc)
        if [effect.key for effect in expected] != [effect.key for effect in joined_effects[number]]:
            op = _first_missing(expected, joined_effects[number])
            message = f"this {op.name} of @{part.member.program.name} is not in it as it was"
            return Refusal("effects", message, loc=op.loc)
    return None


def _rerun_branches(program: Program, halos: Collection[str]) -> Iterator[tuple[Op, Value]]:
    """The ifs in which a body is run again for a halo, each with its global id: see `_Halo`."""
    for loop in program.body.ops:
        inner = loop.regions[0].ops[-1] if loop.name == "for" and loop.regions[0].ops else loop
        exists = inner.operands[0].owner if inner.name == "if" and not inner.results else None
        if not isinstance(exists, Op) or exists.name != "lt":
            continue
        if any(
            op.name == "store" and op.attrs["buffer"] in halos for body in inner.regions for op in body.walk()
        ):
            yield inner, exists.operands[0]


def _first_missing(expected: Sequence[Effect], actual: Sequence[Effect]) -> Op:
    remaining = Counter(effect.key for effect in actual)
    for effect in expected:
        if not remaining[effect.key]:
            return effect.op
        remaining[effect.key] -= 1
    return (actual or expected)[0].op


def _logical_indices(op: Op, tiles: Collection[str]) -> tuple[Value, ...]:
    """The indices of an access; for a tile, the index before the tile's start is subtracted."""
    difference = _tile_difference(op) if op.attrs["buffer"] in tiles else None
    return op.indices if difference is None else difference[:1]


def _tile_difference(op: Op) -> tuple[Value, Value] | None:
    """The operands of a tile's index: the element's index and the tile's start, which is subtracted; None otherwise."""
    owner = op.index.owner
    return (owner.operands[0], owner.operands[1]) if isinstance(owner, Op) and owner.name == "sub" else None


@dataclass(frozen=True, slots=True)
class _OwnedAccess:
    """An access, the number of its part, and the number of barriers before it outside of loops and branches."""

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
        """Refusal for two accesses of different parts to one element that nothing orders."""
        for name, accesses in self.accesses.items():
            is_shared = not self.result.program.buffers[name].is_on_chip
            for p, q in _cross_part_pairs(accesses):
                refusal = self.conflict_of(p, q, is_shared)
                if refusal is not None and not (is_shared and self.are_disjoint_alone(p, q)):
                    return refusal
        return None

    def conflict_of(self, p: _OwnedAccess, q: _OwnedAccess, is_shared: bool) -> Refusal | None:
        if is_shared and (p.access.is_atomic or q.access.is_atomic):
            return self.between("atomic", p, q, "are atomics, which order across workgroups")
        if is_shared and self.may_conflict(p, q):
            return self.between("conflict", p, q, "may be at one element in two workgroups")
        if p.barriers == q.barriers and not self.dependence.disjoint_between_lanes(p.access, q.access):
            problem = "may be at one element in two lanes, without a barrier"
            return self.between("no-barrier", p, q, problem)
        return None

    def are_disjoint_alone(self, p: _OwnedAccess, q: _OwnedAccess) -> bool:
        """Whether the two parts are disjoint when joined without the others.

        Other parts may split ids into digits, and then some conditions give no bounds."""
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
        """Whether a part uses a halo's buffer, whose extent differs from that of its launch."""
        halos = {self.result.names[name] for name in self.result.halos}
        return not halos.isdisjoint(self.result.parts[number].member.buffers)

    def between(self, reason: str, p: _OwnedAccess, q: _OwnedAccess, problem: str) -> Refusal:
        return Refusal(reason, f"{p} and {q} {problem}", p.access.buffer, q.access.op.loc)

    def may_conflict(self, p: _OwnedAccess, q: _OwnedAccess) -> bool:
        """Whether two workgroups may access one element.

        Not if the workgroup of one access surely writes the element in the other's launch: then an access of another
        workgroup there would be a race of that launch."""
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

    def uncovered_read(self) -> Refusal | None:
        """Refusal for a read of a local buffer that the workgroup has not written before."""
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
        """Refusal for a tile with a halo that lacks an element that is read, or has a wrong one."""
        for name in self.result.halos:
            refusal = _Halo(self, name).mistake()
            if refusal is not None:
                return refusal
        return None


def _cross_part_pairs(accesses: Sequence[_OwnedAccess]) -> Iterator[tuple[_OwnedAccess, _OwnedAccess]]:
    """Pairs of accesses of different parts, one writing, in order."""
    if len({each.owner for each in accesses}) < 2:
        return
    for index, q in enumerate(accesses):
        for p in accesses[:index]:
            if p.owner != q.owner and (p.access.is_write or q.access.is_write):
                yield p, q


class _StoreRange(NamedTuple):
    """A store to the indices `stride * t + [low, high]` of a tile, by each t below `runs`."""

    stride: int
    low: int
    high: int
    runs: int

    def is_within(self, size: int) -> bool:
        return self.low >= 0 and self.stride * (self.runs - 1) + self.high < size


class _Halo:
    """A buffer that each workgroup computes itself: it runs the producer's invocations for all elements that it reads.

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

    def mistake(self) -> Refusal | None:
        starts = [self.start(each.access) for each in self.accesses]
        for each, start in zip(self.accesses, starts, strict=True):
            if start is None or start != starts[0]:
                return self.refusal(each.access, "is not at a place that is counted from the tile's start")
        store_ranges: list[_StoreRange] = []
        stores = [each for each in self.accesses if each.access.is_write]
        for each, original in zip(stores, self.originals(stores), strict=True):
            store_range = (
                self.store_range(each.access, original, starts[0]) if starts[0] is not None else None
            )
            if store_range is None or not store_range.is_within(self.buffer.count or 0):
                return self.refusal(each.access, "is not one of each invocation that there is")
            store_ranges.append(store_range)
        for each, start in zip(self.accesses, starts, strict=True):
            if (
                not each.access.is_write
                and start is not None
                and not self.is_computed(each.access, start, store_ranges)
            ):
                return self.refusal(each.access, "is of elements that the workgroup does not compute")
        return None

    def originals(self, stores: Sequence[_OwnedAccess]) -> list[MemoryAccess]:
        """The stores in the original launches; `_missing_effects` has shown that they are the same."""
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

    def refusal(self, access: MemoryAccess, problem: str) -> Refusal:
        return Refusal("halo", f"{access.describe()} {problem}", access.buffer, access.op.loc)

    def start(self, access: MemoryAccess) -> AffineExpr | None:
        difference = _tile_difference(access.op)
        start = self.affine.form(difference[1]) if difference is not None else None
        if difference is None or start is None or any(workgroup_axis(symbol) != 0 for symbol in start.terms):
            return None
        return near_zero(start, difference[1].type)

    def tile_index(self, access: MemoryAccess, start: AffineExpr) -> AffineExpr | None:
        """The index in the tile, modulo 2^bits of the index, without terms of the workgroup."""
        difference = _tile_difference(access.op)
        assert difference is not None
        element = clamped_expr(self.affine, difference[0])
        tile_index = element - start if element is not None else None
        if tile_index is None or tile_index.terms_of(SymbolKind.GROUP).terms:
            return None
        return near_zero(tile_index, difference[0].type)

    def store_range(
        self, access: MemoryAccess, original: MemoryAccess, start: AffineExpr
    ) -> _StoreRange | None:
        """The indices at which the invocations store; None unless all store, at multiples of their number."""
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
        return _StoreRange(stride, offset.const + low, offset.const + high + access.width - 1, count)

    def pattern(self, original: MemoryAccess) -> tuple[int, int, int] | None:
        """(s, low, high) of a store to `s * global_id + c` with c in [low, high]; None for any other."""
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
        """Whether a condition on a number is exactly that the invocation exists: below lanes * workgroups."""
        groups = self.bodies.result.grid[0]
        if relation != "lt" or limit is None or not isinstance(groups, int):
            return False
        return limit.is_const and limit.const == groups * self.lanes

    def is_computed(
        self, access: MemoryAccess, start: AffineExpr, store_ranges: Iterable[_StoreRange]
    ) -> bool:
        """Whether the workgroup runs all invocations that may write the elements read."""
        tile_index = self.tile_index(access, start)
        if tile_index is None:
            return False
        # the range of a branch that no lane takes is inverted
        lanes = {symbol: (lowest, max(lowest, highest)) for symbol, (lowest, highest) in access.lanes.items()}
        low, high = tile_index.range(lanes)
        high += access.width - 1
        if low < 0 or self.buffer.count is None or high >= self.buffer.count:
            return False
        return all(
            -((each.high - low) // each.stride) >= 0 and (high - each.low) // each.stride < each.runs
            for each in store_ranges
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
    """Refusal for a lost effect that changes something and that no other store to its location replaces.

    `ops`: the ops of `program` before the pass, in the order of `before.walk()`.
    """
    remaining = set(program.walk())
    survivors = {copy for copy, op in zip(before.walk(), ops, strict=True) if op in remaining}
    effects = effect_keys(before)
    remaining_locations = {effect.location for effect in effects if effect.op in survivors}
    values_by_location: dict[int | None, set[int | None]] = {}
    for effect in effects:
        values_by_location.setdefault(effect.loaded, set()).add(effect.value)
    for effect in effects:
        if effect.op in survivors or effect.location in remaining_locations:
            continue
        if effect.loaded is None or effect.loaded not in _sources(effect.value, values_by_location):
            message = f"this {effect.op.name} is gone, and nothing else writes its elements"
            return Refusal("effects", message, effect.op.attrs.get("buffer"), effect.op.loc)
    return None


def _sources(
    value: int | None, values_by_location: Mapping[int | None, Collection[int | None]]
) -> set[int | None]:
    """Values that may be equal to `value`: itself, and for a load the values stored at its location."""
    sources: set[int | None] = set()
    pending = [value]
    while pending:
        source = pending.pop()
        if source not in sources:
            sources.add(source)
            pending += values_by_location.get(source, ())
    return sources
