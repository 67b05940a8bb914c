"""A launch that has another program over another grid: what is the same, and how many workgroups there are and were."""

from __future__ import annotations

from dataclasses import dataclass

import z3

from ..ir.grids import Extent, fold, renamed_lengths
from ..ir.pipeline import Launch, Pipeline
from ..ir.program import Program
from .grid_terms import LONGEST, extent_parts, extent_term, lengths_in_range
from .lengths import LengthTerms
from .mismatch import Mismatch
from .points import MOST_INVOCATIONS, Group, Nesting, Point

__all__ = ["Relaunched", "Workgroups"]


@dataclass(frozen=True)
class Workgroups:
    """Terms along x: `count`, of the workgroups that there were; `groups`, of those that there are.

    `parts`: of what `count` is computed from.  `given`: what is true of them.
    """

    count: z3.ArithRef
    groups: z3.ArithRef
    parts: list[z3.ArithRef]
    given: list[z3.BoolRef]


@dataclass(frozen=True)
class Relaunched:
    """`was`, a launch of `program`, is `now` one of `after`.  `pipeline`: with its buffers, which are the same ones."""

    pipeline: Pipeline
    was: Launch
    program: Program
    now: Launch | None
    after: Program

    @property
    def names(self) -> dict[str, str]:
        """The pipeline's buffer for each of the program's."""
        formals = [buffer.name for buffer in self.program.bound_buffers]
        return dict(zip(formals, self.was.buffers, strict=True))

    @property
    def extents(self) -> tuple[Extent, Extent]:
        """The workgroups along x that there were, and those that there are."""
        lengths = self.pipeline.static_lengths
        return fold(self.was.grid[0], lengths), fold(self.launch.grid[0], lengths)

    @property
    def launch(self) -> Launch:
        if self.now is None:
            raise Mismatch(f"@{self.after.name} is not launched")
        return self.now

    def check(self) -> None:
        """Raises Mismatch unless the launches and the programs agree in all but the grid along x, bodies and buffers."""
        was, now, terms = self.was, self.launch, LengthTerms(self.pipeline.buffers)
        if now.program != self.after.name:
            raise Mismatch(f"@{self.after.name} is not launched")
        if (was.buffers, was.params) != (now.buffers, now.params):
            raise Mismatch(f"@{self.after.name} is launched with other arguments")
        if not all(map(terms.agree, was.grid[1:], now.grid[1:])):
            raise Mismatch("the grid is another one along y or z")
        if _declared(self.program) != _declared(self.after):
            raise Mismatch(f"@{self.after.name} is declared otherwise than @{self.program.name}")

    def point(self, nesting: Nesting) -> Point:
        """Any lane of any workgroup of the program after."""
        _, groups = self.extents
        known = {
            key: length
            for formal, actual in self.names.items()
            for key, length in renamed_lengths(self.pipeline.static_lengths, {actual: formal}).items()
            if length is not None
        }
        group = Group(
            self.after, grid=(groups if isinstance(groups, int) else None, None, None), lengths=known
        )
        return Point.any(nesting, group, "lane")

    def workgroups(self, point: Point) -> Workgroups:
        """In terms of the lengths that the program after has at a point.  Raises Mismatch."""
        lengths = self.pipeline.static_lengths
        variables = {
            actual: point.group.length(formal).term
            for formal, actual in self.names.items()
            if self.program.buffers[formal].dimensions == 1
        }
        count, groups = (extent_term(extent, lengths, variables) for extent in self.extents)
        parts = [extent_term(part, lengths, variables) for part in extent_parts(self.extents[0])]
        most = MOST_INVOCATIONS // self.program.workgroup[0]
        given = [*lengths_in_range(point), *(z3.And(n >= 0, n <= LONGEST) for n in variables.values())]
        # more than that are no launch
        given += [count >= 0, count <= most, point.group.num_workgroups(0).term == groups]
        return Workgroups(count, groups, parts, given)


def _declared(program: Program) -> tuple[object, ...]:
    return (
        program.workgroup,
        program.cluster,
        program.prefer_shared,
        program.lowered_for,
        program.specs,
        program.params,
    )
