"""math.matmul: C = activation(A B + bias), by the form that the schedule asks for."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Program
from ..ir.types import DataType
from .collective import SUBGROUP
from .matmul_batch import Batch, batch_of
from .matmul_direct import Direct
from .matmul_dots import Dots
from .matmul_form import ACTIVATIONS, MatmulForm, MatmulProblem, MatmulSchedule
from .matmul_panels import Panels
from .matmul_tiles import Tiles
from .matmul_units import Units, UnitSchedule, unit_schedule, units_take
from .targets import MULTIPROCESSORS, is_gpu

__all__ = [
    "ACTIVATIONS",
    "Batch",
    "LANE_FIELDS",
    "MatmulProblem",
    "MatmulSchedule",
    "Schedule",
    "UNIT_FIELDS",
    "UnitSchedule",
    "batch_of",
    "matmul",
    "matmul_grid",
    "matmul_schedule",
    "unit_schedule",
    "units_take",
]

Schedule = MatmulSchedule | UnitSchedule
_LANE, _UNIT = ({field.name for field in fields(kind)} for kind in (MatmulSchedule, UnitSchedule))
LANE_FIELDS, UNIT_FIELDS = _LANE - _UNIT, _UNIT - _LANE
"""The fields that only schedules without and with matrix units have."""

FORMS: dict[str, type[MatmulForm]] = {"direct": Direct, "dots": Dots, "panels": Panels, "tiles": Tiles}
"""By the name that `MatmulSchedule.form` gives."""

LEAST_BLOCK = 48
"""Rows of a workgroup for which copying a panel takes a tenth of the time of their products."""

PANELS = MatmulSchedule(rows_per_thread=6, columns_per_thread=2, block_m=192, block_k=256)
FEW_ROWS = MatmulSchedule(rows_per_thread=4, columns_per_thread=3, block_m=16, block_k=0)
FEW_COLUMNS = MatmulSchedule(rows_per_thread=12, columns_per_thread=1, block_m=192, block_k=0)
DOTS = MatmulSchedule(lanes_n=1, rows_per_thread=6, columns_per_thread=1, block_m=192, block_k=0)
"""For a CPU; the sums take 24 registers of 512 bits.

A core of an EPYC with AVX-512 does 100 GFLOP/s by panels of 1024 columns; of 16 rows 105 where they are not copied,
and 80 where they are; of a single column 15 by dots, 3 by lanes of which the others idle.
"""

LARGE = MatmulSchedule(
    lanes=256, lanes_n=16, rows_per_thread=8, columns_per_thread=8, block_m=128, block_k=16
)
SMALL = MatmulSchedule(lanes=256, lanes_n=16, rows_per_thread=4, columns_per_thread=4, block_m=64, block_k=16)
"""For a GPU: large blocks load less, where there are enough of them for its multiprocessors."""


def matmul_schedule(
    rows: int | None,
    columns: int,
    target: str = "",
    workers: int = 1,
    sums: DataType = DataType.F32,
    matrices: int = 1,
) -> MatmulSchedule:
    """The default schedule for products of `rows` (None: unknown) by `columns`, as many as `matrices`.  `workers`: threads
    of the cpu target, which get two blocks each where rows allow.  `sums`: their type; of f64 a lane has half as many."""
    if sums is DataType.F64:
        schedule = matmul_schedule(rows, columns, target, workers, matrices=matrices)
        return (
            SMALL
            if is_gpu(target)
            else replace(schedule, columns_per_thread=-(-schedule.columns_per_thread // 2))
        )
    if is_gpu(target):
        is_enough = rows is not None and matmul_grid(LARGE, rows, columns, matrices) >= MULTIPROCESSORS
        return LARGE if is_enough else SMALL
    if columns <= 4:
        schedule = DOTS
    elif columns <= SUBGROUP:
        schedule = FEW_COLUMNS
    else:
        schedule = FEW_ROWS if rows is not None and rows <= FEW_ROWS.block_m else PANELS
    if rows is not None and workers > 1:
        while schedule.block_m > LEAST_BLOCK and matmul_grid(schedule, rows, columns, matrices) < 2 * workers:
            schedule = replace(schedule, block_m=schedule.block_m // 2)
    return schedule


def matmul_grid(schedule: Schedule, rows: int, columns: int, matrices: int = 1) -> int:
    """Workgroups for products of `rows` by `columns`, as many as `matrices`."""
    if isinstance(schedule, UnitSchedule):
        return max(1, matrices * schedule.grid(rows, columns))
    return max(1, matrices * -(-rows // schedule.block_m) * -(-columns // schedule.block_n))


@lru_cache(maxsize=64)
def matmul(problem: MatmulProblem, schedule: Schedule) -> Program:
    """The program `matmul`: @a, @b, @c and, if there is one, @bias."""
    b = Builder("matmul", workgroup=schedule.lanes)
    b.buffer("a", problem.dtype, None, "read", 0)
    b.buffer("b", problem.dtype, None, "read", 1)
    b.buffer("c", problem.out, None, "write", 2, live_out=True)
    if problem.bias is not None:
        b.buffer("bias", problem.bias, None, "read", 3)
    if isinstance(schedule, UnitSchedule):
        Units(b, problem, schedule).build()
    else:
        FORMS[schedule.form](b, problem, schedule).build()
    return b.finish(verify=False)
