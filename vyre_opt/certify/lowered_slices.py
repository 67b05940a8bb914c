"""The claim of `lower_slices`: invocations of a workgroup compute the slices of a program.

Both programs are run with terms for the elements, the one after by all invocations in lock step.  What is written and asked for must be
the same, with the same terms.  The terms are of numbers and operations that are not looked into, in the order in which they are done; so
equal ones are equal to the last bit, whatever the buffers hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import z3

from ..ir.program import Op, Program
from .element_terms import ElementTerms
from .lane_effects import Layout, same_effects
from .mismatch import Mismatch
from .obligations import Obligation, not_seen
from .slice_meaning import Meaning

__all__ = ["lowered_slices"]


def lowered_slices(
    before: Program, after: Program, layouts: Mapping[Op, Sequence[Layout]]
) -> list[Obligation]:
    """All that has to hold.  `layouts`: how the slices are held that each loop of the program before carries."""
    what = f"the invocations of @{after.name} do what its slices say"
    try:
        _match_declarations(before, after)
        terms = ElementTerms(after.cluster or 1)
        same_effects(Meaning(before, terms), after, terms, layouts)
    except Mismatch as mismatch:
        return [not_seen(what, str(mismatch), mismatch.ops)]
    return [Obligation(what, [], [], [], z3.BoolVal(True)), *terms.obligations()]


def _match_declarations(before: Program, after: Program) -> None:
    """Raises Mismatch."""
    if before.workgroup != (1, 1, 1) or before.cluster or after.workgroup[1:] != (1, 1):
        raise Mismatch("slices are of a workgroup of one invocation, and become those of one along x")
    grid = before.grid and (before.grid[0] * (after.cluster or 1), *before.grid[1:])
    if (before.specs, before.params, grid) != (after.specs, after.params, after.grid):
        raise Mismatch("its grid, constants or params are declared otherwise")
    for name, buffer in after.buffers.items():
        if before.buffers.get(name, buffer) != buffer or (
            name not in before.buffers and not buffer.is_on_chip
        ):
            raise Mismatch(f"@{name} is declared otherwise")
    if before.buffers.keys() - after.buffers.keys():
        raise Mismatch("a buffer is not there any more")
