"""Accesses that invocations make in a run, with what stands around them and what is before them."""

from __future__ import annotations

from typing import Any

from ...records import dataclass
from ..program import Op
from .data_conditions import Assumption

__all__ = ["Access", "Around", "Place", "Touch"]

Place = int | tuple[Any, ...]
"""Element of a buffer, by its indices."""


class Around:
    """A run of an `if` or a loop.  `is_shared`: all invocations take the same way.  `assumed`: of the condition, where it is not known whether it
    holds, and which way, 0 where it does."""

    def __init__(self, op: Op, is_shared: bool, assumed: Assumption | None = None, way: int = 0) -> None:
        self.op, self.is_shared, self.assumed, self.way = op, is_shared, assumed, way


@dataclass(slots=True)
class Access:
    """A run of an access by all invocations that come to it: its op, the runs of conditions and loops around it, and how many barriers of
    each scope were before it: of the grid, of a workgroup, of a subgroup; and ops that may wait for other workgroups."""

    op: Op
    around: tuple[Around, ...]
    behind: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def is_assumed(self) -> bool:
        """Whether it is behind a condition that is not known to hold."""
        return any(each.assumed for each in self.around)


Touch = tuple[int, Access]
"""An invocation and its access of an element."""
