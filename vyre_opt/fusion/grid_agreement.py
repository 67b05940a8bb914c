"""Grids that agree: groups of launches over different grids become one, each launch over a grid of them all.

    launch @decode grid(9)   (@text, @bytes)     a workgroup writes 2048 elements of @bytes
    launch @count  grid(141) (@bytes, @hits)     a workgroup reads 256 of them: the first eight
                                                 read what the first of @decode has written

So a workgroup of the joined launch runs one of @decode and eight of @count (see regrid).  The factors follow from the
stride of a shared buffer between neighbouring workgroups; then the usual proofs for launches over one grid must succeed.
The loop of a grid-stride program is replaced by a branch for one round (see grid_stride).
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
"""The most workgroups that one runs in sequence: more would leave multiprocessors of a GPU idle."""

CAUSES = ("grid", "raw", "war", "waw", "unknown-footprint")
"""Reasons of a cut that another grid may resolve; all but the first only where a loop is over the grid."""


@dataclass(eq=False, slots=True)
class Form:
    """A launch in the form that is put over another grid: `member` over `extent` workgroups along x.

    `single`: its loops over all elements by `global_size` have one round.
    """

    member: BoundProgram
    extent: Extent
    single: bool
    strides: dict[str, int]
    """Buffer of the pipeline -> elements between the accesses of neighbouring workgroups."""


@dataclass(slots=True)
class Stretch:
    """Consecutive launches that become one, if they are several.

    `nodes`: launches as the pipeline has them.  `factors`: workgroups of each launch that one workgroup of the joined
    launch runs.  `window`: the proofs that they may be joined, for launches `start` to `end` - 1 of its run.
    """

    nodes: Sequence[LaunchNode]
    factors: list[int]
    window: GroupLegality
    start: int
    end: int
    refusal: Refusal | None = None
    """Why it was not joined with the stretch before it."""


@dataclass(slots=True)
class GridAgreement:
    """Joins stretches of a run over different grids.

    `windows`: returns the proofs for consecutive launches.  `lengths`: elements of the pipeline's buffers.
    """

    windows: Callable[[Sequence[LaunchNode]], GroupLegality]
    lengths: Mapping[str, int | None]
    forms: dict[Any, Form | Refusal] = field(default_factory=dict)
    programs: dict[Any, Program | Refusal] = field(default_factory=dict)

    def merge(self, stretches: Sequence[Stretch]) -> list[Stretch]:
        """The stretches, with neighbours joined wherever they agree on a grid."""
        result = [stretches[0]]
        for stretch in stretches[1:]:
            cause = _cause(stretch)
            joined = self.agree(result[-1], stretch, cause) if cause is not None else None
            if isinstance(joined, Stretch):
                result[-1] = joined
            else:
                result.append(stretch)
                stretch.refusal = joined
        return result

    def agree(self, left: Stretch, right: Stretch, cause: Refusal) -> Stretch | Refusal | None:
        """The two as one stretch; otherwise a refusal, or None if only `cause` is to be reported."""
        forms: list[Form] = []
        for node in (*left.nodes, *right.nodes):
            form = self.form(node)
            if isinstance(form, Refusal):
                return _with_reason(cause, form)
            forms.append(form)
        if cause.reason != "grid" and not any(form.single for form in forms):
            return None
        factors = _factors(forms, [*left.factors, *right.factors], len(left.nodes))
        if factors is None:
            message = "there is no buffer of which their workgroups access parts of known sizes"
            return _with_reason(cause, Refusal("grid", message))
        nodes = [*left.nodes, *right.nodes]
        # at most half of the lanes, so that `factor * workgroup_id` cannot wrap (see `regrid`)
        max_factor = max(1, min(MAX_FACTOR, *(node.member.program.lanes // 2 for node in nodes)))
        if max(factors) > max_factor:
            message = (
                f"one workgroup of the whole would run {max(factors)} of one launch, more than {max_factor}"
            )
            return _with_reason(cause, Refusal("grid", message))
        variants = self.variants(nodes, forms, factors)
        if isinstance(variants, Refusal):
            return _with_reason(cause, variants)
        window = self.windows(variants)
        for last in range(1, len(variants)):
            if not window.may_join(0, last):
                _, refusal = window.refusals.get(last, (0, None))
                return _with_reason(cause, window.over_limit(0, last) or refusal)
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
            max_groups = limits[1] if limits is not None else None
            variant = replace(
                node,
                member=member,
                grid=(grid, 1, 1),
                sized_grid=(grid, 1, 1),
                regrid=plan,
                max_groups=max_groups,
            )
            variants.append(variant)
        return variants

    def program(self, member: BoundProgram, plan: Regrid, grid: Extent) -> Program | Refusal:
        key = member, plan, grid
        if key not in self.programs:
            self.programs[key] = over_grid(member, plan, grid)
        return self.programs[key]

    def form(self, node: LaunchNode) -> Form | Refusal:
        key = node.member, node.grid
        if key not in self.forms:
            self.forms[key] = form_of(*key, self.lengths)
        return self.forms[key]


def over_grid(member: BoundProgram, plan: Regrid, grid: Extent) -> Program | Refusal:
    """A launch's program over the joined grid; the program itself if that is its own grid and a number."""
    if plan.factor == 1 and plan.extent == grid and isinstance(grid, int):
        return member.program
    return regrid(member.program, plan, grid, {actual: formal.name for formal, actual in member.bindings})


def form_of(member: BoundProgram, grid: Grid, lengths: Mapping[str, int | None]) -> Form | Refusal:
    """The form of a launch over `grid` in which it may get another grid.  `lengths`: elements of the pipeline's buffers."""
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
        count = fold(_with_pipeline_names(single.count, names), lengths)
        if not runs_wherever(fold(extent, lengths), count):
            message = (
                f"the grid of @{member.program.name}, {show_extent(extent)}, may have no workgroup where its "
                f"loop has {show_extent(count)} elements"
            )
            return Refusal("grid", message, loc=member.program.loc)
        member, is_single = replace(member, program=single.program), True
        extent = fold(_with_pipeline_names(single.extent, names), lengths)
    return Form(member, extent, is_single, _strides(member))


def _cause(stretch: Stretch) -> Refusal | None:
    """Why the stretch does not join the one before, if another grid may help."""
    _, refusal = stretch.window.refusals.get(stretch.start, (0, None))
    return refusal if refusal is not None and refusal.reason in CAUSES else None


def _with_reason(cause: Refusal, reason: Refusal | None) -> Refusal | None:
    """The cause of a cut, with the reason why no grid resolves it."""
    if reason is None:
        return None
    message = f"{cause.message}; no other grid is chosen for them, since {reason.message}"
    return replace(cause, message=message, loc=cause.loc, facts={**cause.facts, "agreement": reason.reason})


def _factors(forms: Sequence[Form], factors: Sequence[int], split: int) -> list[int] | None:
    """Workgroups of each launch that one workgroup of the joined launch runs, so that both sides advance by equally many
    elements in the first buffer that they share; None without such a buffer.

    `factors`: factors within each side.  `split`: number of launches on the left side.
    """
    for i, j in _nearest(split, len(forms)):
        for name, stride in forms[i].strides.items():
            other_stride = forms[j].strides.get(name)
            if other_stride is not None:
                sides = stride * factors[i], other_stride * factors[j]
                common = math.lcm(*sides)
                return [f * (common // sides[index >= split]) for index, f in enumerate(factors)]
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
    # a stride of 0 means that all workgroups access the same elements, which determines no factor
    return {name: min(values) for name, values in strides.items() if len(values) == 1 and min(values) > 0}


def _stride(index: Any) -> int:
    """Elements between neighbouring workgroups along x; 0 if unknown."""
    if not isinstance(index, AffineExpr):
        return 0
    return sum(coefficient for symbol, coefficient in index.terms.items() if workgroup_axis(symbol) == 0)


def _with_pipeline_names(extent: Extent, names: dict[str, str]) -> Extent:
    """An expression over a program's buffers, rewritten over the pipeline's buffers passed for them."""
    if isinstance(extent, int):
        return extent
    args = (names[arg] if isinstance(arg, str) else _with_pipeline_names(arg, names) for arg in extent.args)
    return GridCall(extent.name, tuple(args))
