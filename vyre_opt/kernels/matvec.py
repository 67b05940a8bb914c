"""math.matvec_fixed: y = M x in signed 16.16, M in rows; a subgroup for each row.

The lanes of a subgroup go along the row side by side, and add up what they have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Program
from ..ir.types import DataType
from .collective import SUBGROUP, subgroup_total
from .fixed import multiply_add, signed, stored, zero
from .tiles import each_tile, tiles_of

__all__ = ["MatvecSchedule", "matvec_fixed", "matvec_grid"]


@dataclass(frozen=True)
class MatvecSchedule:
    """`rows` of a workgroup, each a subgroup's.  `strided`: right for every grid."""

    rows: int = 4
    strided: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= 32:
            raise ValueError(f"a workgroup has 1 to 32 subgroups: {self}")


def matvec_grid(schedule: MatvecSchedule, rows: int) -> int:
    """Workgroups for a matrix of `rows` rows."""
    return max(1, -(-rows // schedule.rows))


@lru_cache(maxsize=64)
def matvec_fixed(
    dtype: DataType = DataType.U32,
    schedule: MatvecSchedule = MatvecSchedule(),
    x_dtype: DataType | None = None,
    y_dtype: DataType | None = None,
) -> Program:
    """The program `matvec_fixed`: @m, @x, @y of u32 or i32; len @x is the number of columns."""
    b = Builder("matvec_fixed", workgroup=schedule.rows * SUBGROUP)
    m = b.buffer("m", dtype, None, "read", 0)
    x = b.buffer("x", x_dtype or dtype, None, "read", 1)
    y = b.buffer("y", y_dtype or dtype, None, "write", 2, live_out=True)

    columns = b.len(x, name="columns")
    rows = b.div(b.len(m), columns, name="rows")
    lane = b.lane_id()
    with each_tile(b, tiles_of(b, rows, schedule.rows), schedule.strided) as tile:
        row = b.add(b.mul(tile, schedule.rows), b.subgroup_id(), name="row")
        with b.if_(b.lt(row, rows)):
            start = b.mul(row, columns)
            with b.for_(lane, columns, SUBGROUP, carry=[zero(b, dtype)]) as loop:
                left = signed(b, b.load(m, b.add(start, loop.index)))
                right = signed(b, b.load(x, loop.index))
                loop.yield_(multiply_add(b, left, right, loop.args[0]))
            total = subgroup_total(b, loop.result, "add")
            with b.if_(b.eq(lane, 0)):
                b.store(stored(b, total, y.dtype), y, row)
    return b.finish(verify=False)
