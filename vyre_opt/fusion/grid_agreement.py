"""Grids that agree: groups of launches over different grids become one, each launch over a grid of them all.

    launch @decode grid(9)   (@text, @bytes)     a workgroup writes 2048 elements of @bytes
    launch @count  grid(141) (@bytes, @hits)     a workgroup reads 256 of them: the first eight
                                                 read what the first of @decode has written

So one of the joined launch runs one of @decode and eight of @count (see regrid).  How many each runs follows from the
elements of a shared buffer between one workgroup and the next; that nothing goes between the workgroups then is
proven as for launches over one grid.  The loop of a grid-stride program is taken with one round (see grid_stride).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from ..analysis.affine import AffineExpr
from ..analysis.clamped import clamped_expr
from ..analysis.dependence import workgroup_axis
from ..analysis.footprint import Footprints, MemoryAccess
from ..analysis.refusal import Refusal
from ..ir.grids import MAX_DEPTH, Extent, Grid, GridCall, bounds, ceil_divided, fold, largest, show_extent
from ..ir.program import Program
from ..records import dataclass
from .bound_program import BoundProgram
from .grid_stride import runs_wherever, single_round
from .group_legality import GroupLegality, LaunchNode
from .regrid import Regrid, regrid, regrid_refusal

__all__ = ["Form", "GridAgreement", "Stretch", "form_of", "over_grid"]

MAX_FACTOR = 64
"""The most workgroups that one runs, one after the other; more of them would leave a GPU idle."""

CAUSES = ("grid", "raw", "war", "waw", "unknown-footprint")
"""Reasons of a cut that another grid may resolve; all but the first only where a loop is over the grid."""


@dataclass(eq=False, slots=True)
class Form:
    """A launch in the form that another grid is chosen for: `member` over `extent` workgroups along x.

    `single`: its loops over all elements by `global_size` have one round.
    """

    member: BoundProgram
    extent: Extent
    single: bool
    strides: dict[str, int]
    """Buffer of the pipeline -> elements from what a workgroup accesses of it to what the next does."""


@dataclass(slots=True)
class Stretch:
    """Launches that follow each other and become one, if they are several.

    `nodes`: as the pipeline has them.  `factors`: how many workgroups of each one of the whole runs.  `window`: what
    has proven that they may be joined, of which they are the launches `start` to `end` - 1.
    """

    nodes: Sequence[LaunchNode]
    factors: list[int]
    window: GroupLegality
    start: int
    end: int
    refusal: Refusal | None = None
    """Why it was not joined with the one before."""


@dataclass(slots=True)
class GridAgreement:
    """Joins stretches of a run over different grids.

    `windows` makes the proofs for launches that follow each other.  `lengths`: of the pipeline's buffers.
    """

    windows: Callable[[Sequence[LaunchNode]], GroupLegality]
    lengths: Mapping[str, int | None]
    forms: dict[Any, Form | Refusal] = field(default_factory=dict)
    regridded: dict[Any, Program | Refusal] = field(default_factory=dict)

    def merged(self, stretches: Sequence[Stretch]) -> list[Stretch]:
        """The stretches, of which neighbours are joined wherever they agree on a grid."""
        result = [stretches[0]]
        for stretch in stretches[1:]:
            cause = _cause(stretch)
            both = self.agreed(result[-1], stretch, cause) if cause is not None else None
            if isinstance(both, Stretch):
                result[-1] = both
            else:
                result.append(stretch)
                stretch.refusal = both
        return result

    def agreed(self, left: Stretch, right: Stretch, cause: Refusal) -> Stretch | Refusal | None:
        """The two as one stretch; else why not, None if the cause stays."""
        forms: list[Form] = []
        for node in (*left.nodes, *right.nodes):
            form = self.form(node)
            if isinstance(form, Refusal):
                return _beside(cause, form)
            forms.append(form)
        if cause.reason != "grid" and not any(form.single for form in forms):
            return None
        factors = _factors(forms, [*left.factors, *right.factors], len(left.nodes))
        if factors is None:
            message = "there is no buffer of which their workgroups access parts of known sizes"
            return _beside(cause, Refusal("grid", message))
        nodes = [*left.nodes, *right.nodes]
        # with half of the lanes, a number of 2^32 workgroups and more would be a grid beyond 2^32 invocations
        most = max(1, min(MAX_FACTOR, *(node.member.program.lanes // 2 for node in nodes)))
        if max(factors) > most:
            message = f"one workgroup of the whole would run {max(factors)} of one launch, more than {most}"
            return _beside(cause, Refusal("grid", message))
        variants = self.variants(nodes, forms, factors)
        if isinstance(variants, Refusal):
            return _beside(cause, variants)
        window = self.windows(variants)
        for last in range(1, len(variants)):
            if not window.may_join(0, last):
                _, refusal = window.refusals.get(last, (0, None))
                return _beside(cause, window.over_limit(0, last) or refusal)
        return Stretch(nodes, factors, window, 0, len(variants))

    def variants(
        self, nodes: Sequence[LaunchNode], forms: Sequence[Form], factors: Sequence[int]
    ) -> list[LaunchNode] | Refusal:
        """The launches over a grid that has room for each."""
        grid = largest(ceil_divided(form.extent, factor) for form, factor in zip(forms, factors, strict=True))
        if isinstance(grid, GridCall) and grid.depth > MAX_DEPTH:
            return Refusal("grid", "the grid of both would be an expression of too many levels")
        limits = bounds(grid)
        variants = []
        for node, form, factor in zip(nodes, forms, factors, strict=True):
            plan = Regrid(factor, form.extent, form.single)
            program = self.program(form.member, plan, grid)
            if isinstance(program, Refusal):
                return program
            ids = "local" if factor > 1 or form.single else "both"
            member = replace(form.member, program=program, ids=ids)
            most = limits[1] if limits is not None else None
            variant = replace(
                node, member=member, grid=(grid, 1, 1), sized_grid=(grid, 1, 1), regrid=plan, most_groups=most
            )
            variants.append(variant)
        return variants

    def program(self, member: BoundProgram, plan: Regrid, grid: Extent) -> Program | Refusal:
        key = member, plan, grid
        if key not in self.regridded:
            self.regridded[key] = over_grid(member, plan, grid)
        return self.regridded[key]

    def form(self, node: LaunchNode) -> Form | Refusal:
        key = node.member, node.grid
        if key not in self.forms:
            self.forms[key] = form_of(*key, self.lengths)
        return self.forms[key]


def over_grid(member: BoundProgram, plan: Regrid, grid: Extent) -> Program | Refusal:
    """A launch's program over the grid of the whole; itself if that is a number, and its own."""
    if plan.factor == 1 and plan.extent == grid and isinstance(grid, int):
        return member.program
    return regrid(member.program, plan, grid, {actual: formal.name for formal, actual in member.bindings})


def form_of(member: BoundProgram, grid: Grid, lengths: Mapping[str, int | None]) -> Form | Refusal:
    """A launch over `grid` as another one may be chosen for it.  `lengths`: of the pipeline's buffers."""
    extent, is_single = grid[0], False
    if grid[1:] != (1, 1):
        return Refusal("grid", f"the grid of @{member.program.name} has more than one dimension")
    refusal = regrid_refusal(member.program)
    if refusal is not None:
        return refusal
    single = single_round(member.program)
    if isinstance(single, Refusal):
        return single
    if single is not None:
        names = {formal.name: actual for formal, actual in member.bindings}
        count = fold(_renamed(single.count, names), lengths)
        if not runs_wherever(fold(extent, lengths), count):
            message = (
                f"the grid of @{member.program.name}, {show_extent(extent)}, may have no workgroup where its "
                f"loop has {show_extent(count)} elements"
            )
            return Refusal("grid", message, loc=member.program.loc)
        member, is_single = replace(member, program=single.program), True
        extent = fold(_renamed(single.extent, names), lengths)
    return Form(member, extent, is_single, _strides(member))


def _cause(stretch: Stretch) -> Refusal | None:
    """Why the stretch does not join the one before, if another grid may help."""
    _, refusal = stretch.window.refusals.get(stretch.start, (0, None))
    return refusal if refusal is not None and refusal.reason in CAUSES else None


def _beside(cause: Refusal, why: Refusal | None) -> Refusal | None:
    """The cause of a cut, with the reason why no grid resolves it."""
    if why is None:
        return None
    message = f"{cause.message}; no other grid is chosen for them, since {why.message}"
    return replace(cause, message=message, loc=cause.loc, facts={**cause.facts, "agreement": why.reason})


def _factors(forms: Sequence[Form], factors: Sequence[int], split: int) -> list[int] | None:
    """Number of workgroups of each launch that one of the whole runs, so that it accesses as many elements of the first
    buffer that launches of both sides share; `factors`: the same within the sides, whose first is `split` long."""
    for i, j in _nearest(split, len(forms)):
        for name, stride in forms[i].strides.items():
            other = forms[j].strides.get(name)
            if other is not None:
                sides = stride * factors[i], other * factors[j]
                both = math.lcm(*sides)
                return [f * (both // sides[at >= split]) for at, f in enumerate(factors)]
    return None


def _nearest(split: int, count: int) -> Iterator[tuple[int, int]]:
    """Pairs of a launch before the cut and one behind, the nearest first."""
    pairs = [(i, j) for i in range(split) for j in range(split, count)]
    return iter(sorted(pairs, key=lambda pair: pair[1] - pair[0]))


def _strides(member: BoundProgram) -> dict[str, int]:
    footprints = Footprints(member.program)
    names = {formal.name: actual for formal, actual in member.bindings}
    strides: dict[str, set[int]] = {}
    for event in footprints.events:
        if isinstance(event, MemoryAccess) and event.buffer in names:
            index = clamped_expr(footprints.affine, event.op.index) or event.index
            strides.setdefault(names[event.buffer], set()).add(_stride(index))
    # of one workgroup and of no other: a buffer that all of them access says nothing
    return {name: min(each) for name, each in strides.items() if len(each) == 1 and min(each) > 0}


def _stride(index: Any) -> int:
    """Elements from a workgroup to the next along x; 0 where that is not known."""
    if not isinstance(index, AffineExpr):
        return 0
    return sum(coefficient for symbol, coefficient in index.terms.items() if workgroup_axis(symbol) == 0)


def _renamed(extent: Extent, names: dict[str, str]) -> Extent:
    """An expression over a program's buffers, over those of the pipeline that are passed for them."""
    if isinstance(extent, int):
        return extent
    args = (names[arg] if isinstance(arg, str) else _renamed(arg, names) for arg in extent.args)
    return GridCall(extent.name, tuple(args))
