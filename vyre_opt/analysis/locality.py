"""Proves that a buffer hands values over within single workgroups, so that a tile per workgroup can replace it.

The claim, for one buffer: a workgroup has itself written each element that it reads, by the same lane or
with a workgroup barrier between (see coverage).  Then no value comes from another workgroup, and each
workgroup may have a copy of its own: its accesses lie in a tile, at a base that depends on the workgroup.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

from ..ir.program import Dim3, Op
from ..records import dataclass
from .affine import AffineExpr, SymbolKind
from .congruence import modulus, same_element
from .coverage import CoverageWalk
from .dependence import workgroup_axis
from .elements import EMPTY, Elements
from .footprint import Barrier, BranchEnd, BranchStart, Footprints, LoopEnd, LoopStart, MemoryAccess
from .refusal import Refusal

__all__ = ["TileProof", "Verdict", "prove_local", "stores_overlap"]

GROUP = SymbolKind.GROUP


@dataclass(slots=True)
class TileProof:
    """The claim holds: every access of a workgroup is at `base + e` with e in `extent`.

    `base` has the GROUP terms of the indices.  `accesses`: all those of the buffer.  `order`: for each
    read what orders it after its write, `barrier` or `same lane`.  `written_by`: the writes that cover each read.
    """

    base: AffineExpr
    extent: Elements
    accesses: list[MemoryAccess]
    order: dict[Op, str]
    written_by: dict[Op, list[MemoryAccess]]

    def certificate(self) -> dict[str, Any]:
        """The facts of the proof as JSON values."""
        reads = [
            {
                "access": a.describe(),
                "covered_by": self.order[a.op],
                "written_by": [w.describe() for w in self.written_by.get(a.op, ())],
                **_access_facts(a),
            }
            for a in self.accesses
            if not a.is_write
        ]
        writes = [{"access": a.describe(), **_access_facts(a)} for a in self.accesses if a.is_write]
        return {
            "base": str(self.base),
            "tile": [self.extent.low, self.extent.high],
            "writes": writes,
            "reads": reads,
        }


def _access_facts(access: MemoryAccess) -> dict[str, Any]:
    ranges = {str(s): list(access.lanes.get(s, s.range)) for s in access.expr.terms if s.kind is not GROUP}
    facts: dict[str, Any] = {"where": str(access.op.loc) if access.op.loc else None}
    if ranges:
        facts["ranges"] = ranges
    if access.guards:
        facts["guards"] = sorted(
            f"%{g.value.name}" if g.holds else f"not %{g.value.name}" for g in access.guards
        )
    return facts


Verdict = TileProof | Refusal


def prove_local(footprints: Footprints, names: Iterable[str]) -> dict[str, Verdict]:
    """A verdict for each of the buffers `names` that the program touches."""
    walk = CoverageWalk(footprints, set(names))
    walk.run()
    verdicts: dict[str, Verdict] = {}
    for name, accesses in walk.accesses.items():
        if name in walk.refused:
            verdicts[name] = walk.refused[name]
        elif name in walk.failed:
            verdicts[name] = _explain_uncovered(name, accesses, *walk.failed[name])
        else:
            verdicts[name] = _prove_tile(walk, name, accesses)
    return verdicts


def stores_overlap(proof: TileProof, grid: Dim3 | None) -> bool:
    """Whether workgroups surely store to each other's elements of a buffer that is read.

    Nothing orders workgroups, so the program as written then has a race, which the tiles hide.
    """
    if all(access.is_write for access in proof.accesses) or proof.accesses[0].dimensions > 1:
        return False
    strides = {workgroup_axis(symbol): abs(c) for symbol, c in proof.base.terms.items()}
    elements: Elements | None = EMPTY
    for access in proof.accesses:
        extent = _extent(access) if access.is_write and not access.predicates else None
        elements = elements.union(extent[1]) if elements is not None and extent is not None else elements
    if not elements or None in strides:  # the base depends on something else than workgroup ids
        return False
    # of a grid that is not known, only x is taken to have more than one workgroup
    for axis in [0] if grid is None else [axis for axis in range(3) if grid[axis] > 1]:
        stride = strides.get(axis, 0)
        if not stride:
            return True
        for distance in range(stride, elements.high - elements.low + 1, stride):
            shifted = elements.shifted(distance)
            if shifted is not None and len(elements.minus(shifted)) < len(elements):
                return True
    return False


def _explain_uncovered(
    name: str, accesses: list[MemoryAccess], read: MemoryAccess, only_unordered: bool
) -> Refusal:
    """Fact that is missing to prove a read covered: the first that fits, the most specific first."""
    position = accesses.index(read)
    before = [a for a in accesses[:position] if a.is_write]
    after = [a for a in accesses[position:] if a.is_write]

    def refusal(reason: str, message: str, **facts: Any) -> Refusal:
        return Refusal(reason, message, name, read.op.loc, {"access": read.describe(), **facts})

    if only_unordered:
        message = f"another lane of the workgroup wrote this element of @{name}, but no barrier lies between"
        return refusal("no-barrier", message)
    unknown = next((a for a in before if a.expr.has_unknown), None)
    if unknown is not None:
        message = f"which elements {unknown.describe()} writes is not known, only in which range they are"
        return refusal("not-affine", message)
    wraps = next(
        (a for a in before if isinstance(a.index, AffineExpr) and not same_element(a.residue, read.residue)),
        None,
    )
    if wraps is not None and _covers(read, before):
        message = (
            f"an index of @{name} may wrap around its type, {wraps.op.index.type} where it is written and "
            f"{read.op.index.type} where it is read: equal indices need not be one element"
        )
        return refusal("may-wrap", message)
    if before and _covers(read, before):
        message = f"@{name} is written only under a condition that need not hold where it is read"
        return refusal("partial-write", message)
    if any(set(a.inside) & set(read.inside) for a in after) and _covers(read, [*before, *after]):
        message = f"@{name} is read before this iteration writes it: a value carried around the loop"
        return refusal("loop-carried", message)
    if not before:
        return refusal("read-before-write", f"@{name} is read before anything writes it")
    missing = _missing(read, before)
    if missing is None:
        bases = sorted({str(a.expr.terms_of(GROUP)) for a in before if isinstance(a.index, AffineExpr)})
        message = f"@{name} is read at base {read.expr.terms_of(GROUP)}, but written at {', '.join(bases)}"
        return refusal("different-bases", message)
    spans = [extent[1] for a in before if (extent := _extent(a)) is not None and extent[1]]
    above, below = (missing.low > e.high for e in spans), (missing.high < e.low for e in spans)
    is_outside = bool(spans) and (all(above) or all(below))
    whose = "belong to another workgroup's tile" if is_outside else "are not written by this workgroup"
    message = f"elements {missing} of @{name}, counted from the workgroup's base, are read, but {whose}"
    return refusal(
        "other-workgroup" if is_outside else "uncovered", message, missing=[missing.low, missing.high]
    )


def _prove_tile(walk: CoverageWalk, name: str, accesses: list[MemoryAccess]) -> Verdict:
    """The tile of a buffer whose reads are all covered: one base for all accesses, and the span of the rest."""
    first, extent = accesses[0], EMPTY
    base = first.expr.terms_of(GROUP)
    for access in accesses:
        tile = _extent(access)
        if tile is None:
            return Refusal("too-large", f"the tile of @{name} spans too far to track", name, access.op.loc)
        if tile[0] != base:
            message = f"@{name} is accessed at different bases: {base} and {tile[0]}"
            return Refusal("different-bases", message, name, access.op.loc)
        union = extent.union(tile[1])
        if union is None:
            return Refusal("too-large", f"the tile of @{name} spans too far to track", name, access.op.loc)
        extent = union
    if not _offsets_determine_elements(accesses, extent):
        return Refusal("may-wrap", f"an index of @{name} may wrap around its type", name, first.op.loc)
    # Where the base moves from one iteration to the next, the tile is used again for other elements: the
    # accesses of two iterations must not mix.  All accesses are inside these loops, as they share the base.
    for loop in (op for op in first.inside if op in base.loops):
        if not _barrier_between_iterations(walk.footprints, loop, name):
            message = f"the base {base} of @{name} moves in a loop, and no barrier parts its iterations"
            return Refusal("moving-base", message, name, loop.loc)
    reads = {a.op: walk.order[a.op] for a in accesses if not a.is_write}
    return TileProof(base, extent, accesses, reads, walk.written_by)


def _offsets_determine_elements(accesses: list[MemoryAccess], extent: Elements) -> bool:
    """Whether accesses of one workgroup are at the same element exactly if they are at the same place of the tile."""
    residues = {access.residue for access in accesses}
    for a, b in combinations_with_replacement(residues, 2):
        wrap = modulus(a, b)
        if not same_element(a, b) or (wrap and extent.high - extent.low >= wrap):
            return False
    return True


def _barrier_between_iterations(footprints: Footprints, loop: Op, name: str) -> bool:
    """Whether each iteration of `loop` has a barrier before or after all its accesses of a buffer."""
    events = footprints.events
    start = next(i for i, e in enumerate(events) if isinstance(e, LoopStart) and e.op is loop)
    depth, is_accessed, before, after = 0, False, False, False
    for event in events[start + 1 :]:
        if isinstance(event, LoopEnd) and event.op is loop:
            break
        if isinstance(event, MemoryAccess) and event.buffer == name:
            is_accessed, after = True, False  # only a barrier after the last access counts
        elif isinstance(event, Barrier) and event.scope != "subgroup" and depth == 0:  # not a conditional one
            before, after = before or not is_accessed, True
        elif isinstance(event, BranchStart | LoopStart):
            depth += 1
        elif isinstance(event, BranchEnd | LoopEnd):
            depth -= 1
    return before or after


def _missing(read: MemoryAccess, writes: list[MemoryAccess]) -> Elements | None:
    """The elements of a read that `writes` would not cover even unconditionally; None if all have other bases."""
    elements = _extent(read)
    if elements is None:
        return None
    (base, missing), comparable = elements, not writes
    for write in writes:
        # without the lanes' ranges: a condition is named as the missing fact, not the elements it leaves out
        stored = _extent(replace(write, lanes={})) if isinstance(write.index, AffineExpr) else None
        if stored is not None and stored[0] == base:
            missing, comparable = missing.minus(stored[1]), True
    return missing if comparable else None


def _covers(read: MemoryAccess, writes: list[MemoryAccess]) -> bool:
    missing = _missing(read, writes)
    return missing is not None and not missing


def _extent(access: MemoryAccess) -> tuple[AffineExpr, Elements] | None:
    """The GROUP terms of the index, and all values of the rest; None if these span too far."""
    elements = access.elements()
    for counter in access.loops:
        if counter is None or elements is None:
            continue
        coefficient = access.expr.terms.get(counter.symbol, 0)
        if coefficient:
            elements = elements.spread(coefficient, counter.max_trips)
    if elements is None:
        return None
    return access.expr.terms_of(GROUP), elements
