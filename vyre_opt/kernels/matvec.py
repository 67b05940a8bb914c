"""math.matvec_fixed: y = M x in signed 16.16, M in rows; a subgroup for each row.

Neighbouring lanes read neighbouring elements of the row.  `unroll` turns of 32 elements are loaded
together, so that their loads are in flight at the same time; turns left over are done one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Program, Value
from ..ir.types import DataType
from .collective import SUBGROUP, subgroup_total
from .multiply_add import multiply_add, signed, stored, zero
from .tiles import each_tile, tiles_of

__all__ = ["MatvecSchedule", "matvec_fixed", "matvec_grid", "matvec_schedule"]

MOST_TURNS = 8
"""The most turns whose loads are in flight together.

With so many an H100 reads a matrix of 4096 x 4096 at 2.5 TB/s; with one, at 1.1.
"""


@dataclass(frozen=True)
class MatvecSchedule:
    """`rows` of a workgroup, each a subgroup's; `unroll`: turns whose loads are in flight together.

    `strided`: right for every grid.
    """

    rows: int = 4
    unroll: int = 8
    strided: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= 32:
            raise ValueError(f"a workgroup has 1 to 32 subgroups: {self}")
        if not 1 <= self.unroll <= 32:
            raise ValueError(f"1 to 32 turns together: {self}")


def matvec_schedule(columns: int | None) -> MatvecSchedule:
    """The default schedule for rows of `columns` (None: unknown): no more turns together than a row has."""
    turns = MOST_TURNS if columns is None else min(MOST_TURNS, max(1, columns // SUBGROUP))
    return MatvecSchedule(unroll=1 << turns.bit_length() - 1)


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

            def add_cell(column: Value, total: Value, start: Value = start) -> Value:
                left, right = b.load(m, b.add(start, column)), b.load(x, column)
                return multiply_add(b, signed(b, left), signed(b, right), total)

            turn = SUBGROUP * schedule.unroll
            whole = b.sub(columns, b.rem(columns, turn), name="whole")
            with b.for_(0, whole, turn, carry=[zero(b, dtype)], dtype=DataType.U32) as turns:
                total = turns.args[0]
                for k in range(schedule.unroll):
                    total = add_cell(b.add(turns.index, b.add(lane, k * SUBGROUP)), total)
                turns.yield_(total)
            with b.for_(b.add(whole, lane), columns, SUBGROUP, carry=[turns.result]) as rest:
                rest.yield_(add_cell(rest.index, rest.args[0]))
            total = subgroup_total(b, rest.result, "add")
            with b.if_(b.eq(lane, 0)):
                b.store(stored(b, total, y.dtype), y, row)
    return b.finish(verify=False)
