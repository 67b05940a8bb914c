"""A launch with another program over another grid: equal parts, and the numbers of workgroups before and after."""

from __future__ import annotations

import z3

from ..ir.grids import Extent, fold, renamed_lengths
from ..ir.ops import AXES
from ..ir.pipeline import Launch, Pipeline
from ..ir.program import Program
from ..records import dataclass
from .grid_terms import LONGEST, extent_parts, extent_term, lengths_in_range
from .lengths import LengthTerms
from .mismatch import Mismatch
from .points import MOST_INVOCATIONS, Group, Nesting, Point

__all__ = ["Relaunched", "Workgroups"]


@dataclass(frozen=True)
class Workgroups:
    """Terms along an axis: `count` workgroups before, `groups` workgroups after.

    `parts`: of what `count` is computed from.  `premises`: what is true of them.
    """

    count: z3.ArithRef
    groups: z3.ArithRef
    parts: list[z3.ArithRef]
    premises: list[z3.BoolRef]


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

    def extents(self, axis: str) -> tuple[Extent, Extent]:
        """The numbers of workgroups along an axis, before and after."""
        lengths, number = self.pipeline.static_lengths, AXES.index(axis)
        return fold(self.was.grid[number], lengths), fold(self.launch.grid[number], lengths)

    @property
    def launch(self) -> Launch:
        if self.now is None:
            raise Mismatch(f"@{self.after.name} is not launched")
        return self.now

    def check(self, axes: str) -> None:
        """Raises Mismatch unless the launches and the programs agree in all but the grid along `axes`, bodies and buffers."""
        was, now, terms = self.was, self.launch, LengthTerms(self.pipeline.buffers)
        if now.program != self.after.name:
            raise Mismatch(f"@{self.after.name} is not launched")
        if (was.buffers, was.params) != (now.buffers, now.params):
            raise Mismatch(f"@{self.after.name} is launched with other arguments")
        for axis, old, new in zip(AXES, was.grid, now.grid, strict=True):
            if axis not in axes and not terms.agree(old, new):
                raise Mismatch(f"the grid is another one along {axis}")
        if _declared(self.program) != _declared(self.after):
            raise Mismatch(f"@{self.after.name} is declared otherwise than @{self.program.name}")

    def point(self, nesting: Nesting) -> Point:
        """Any lane of any workgroup of the program after."""
        x, y, z = (extent if isinstance(extent, int) else None for _, extent in map(self.extents, AXES))
        known = {
            key: length
            for formal, actual in self.names.items()
            for key, length in renamed_lengths(self.pipeline.static_lengths, {actual: formal}).items()
            if length is not None
        }
        return Point.any(nesting, Group(self.after, grid=(x, y, z), lengths=known), "lane")

    def workgroups(self, point: Point, axis: str) -> Workgroups:
        """Along an axis, in terms of the lengths that the program after has at a point.  Raises Mismatch."""
        lengths = self.pipeline.static_lengths
        variables = {
            actual: point.group.length(formal).term
            for formal, actual in self.names.items()
            if self.program.buffers[formal].dimensions == 1
        }
        count, groups = (extent_term(extent, lengths, variables) for extent in self.extents(axis))
        parts = [extent_term(part, lengths, variables) for part in extent_parts(self.extents(axis)[0])]
        number = AXES.index(axis)
        most = MOST_INVOCATIONS // self.program.workgroup[number]
        given = [*lengths_in_range(point), *(z3.And(n >= 0, n <= LONGEST) for n in variables.values())]
        # more than that are no launch
        given += [count >= 0, count <= most, point.group.num_workgroups(number).term == groups]
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
