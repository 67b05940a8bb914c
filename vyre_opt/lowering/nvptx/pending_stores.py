"""Whether two stores to replicas that are under way may meet in an element: nothing orders st.async, so either may come last."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from ...analysis.affine import AffineExpr, SymbolKind
from ...analysis.dependence import DependenceTest
from ...analysis.footprint import Footprints, MemoryAccess
from ...ir.program import Op, Program
from ...records import dataclass
from .owned_rows import column_in_row

__all__ = ["PendingStore", "StoreOverlaps"]


@dataclass(frozen=True, slots=True)
class PendingStore:
    """A store that no barrier of the cluster has followed yet.

    `in_order`: a barrier of the workgroup or the subgroup has.  `loop`: the outermost of which it is an earlier turn's.
    """

    op: Op
    in_order: bool = False
    loop: Op | None = None


class StoreOverlaps:
    """Proves that no element is stored to twice.  What a proof needs is analysed when the first is asked for.

    `rows`: buffers in whose rows each access is (see owned_rows.py), and the elements of one.  Elements in different columns of their
    rows are not the same, whichever the rows are.
    """

    def __init__(self, program: Program, rows: Mapping[str, int]) -> None:
        self.program, self.rows = program, rows

    @cached_property
    def footprints(self) -> Footprints:
        return Footprints(self.program)

    @cached_property
    def dependence(self) -> DependenceTest:
        return DependenceTest(self.footprints, self.program.grid or (None, None, None))

    @cached_property
    def accesses(self) -> dict[Op, MemoryAccess]:
        return {
            access.op: access for name in self.program.buffers for access in self.footprints.accesses(name)
        }

    def are_apart(self, before: PendingStore, op: Op) -> bool:
        """Whether no element is stored to by `before` and by `op` after it.  False means unknown.

        Other lanes' elements matter only where a barrier orders the two: else the program has a race.
        """
        p, q = self.accesses[before.op], self.accesses[op]
        if not (isinstance(p.index, AffineExpr) and isinstance(q.index, AffineExpr)):
            return False
        if self.dependence.disjoint(p, q):
            return True
        if before.in_order:
            return False
        columns = self._column(p), self._column(q)
        return any(
            _are_apart(first, p.width, second, q.width, before.loop)
            for first, second in ((p.expr, q.expr), columns)
            if first is not None and second is not None
        )

    def _column(self, access: MemoryAccess) -> AffineExpr | None:
        """Column at which an access begins in its row; None if that is unknown, or there are no rows."""
        row = self.rows.get(access.op.attrs["buffer"])
        return column_in_row(access.expr, row, access.width) if row else None


def _are_apart(first: AffineExpr, width: int, second: AffineExpr, other_width: int, loop: Op | None) -> bool:
    """Whether so many elements from `first` on, in an earlier turn of `loop`, are none of those from `second` on."""
    distance = first - second
    if not distance.is_const:
        return False
    if loop is None:
        return distance.const >= other_width or -distance.const >= width
    return _stride(first, loop) >= abs(distance.const) + max(width, other_width)


def _stride(expr: AffineExpr, loop: Op) -> int:
    """The least distance between the first elements of two turns of a loop; 0 if unknown.

    Loops inside of it are in any turn, each time.
    """
    turning, stride = set(loop.walk()), 0
    for symbol, coefficient in expr.terms.items():
        if not turning & symbol.loops:
            continue
        if symbol.kind is not SymbolKind.LOOP:
            return 0
        if symbol.identity is loop:
            stride += abs(coefficient)
        else:
            lowest, highest = symbol.range
            stride -= abs(coefficient) * (highest - lowest)
    return stride
