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
from .matmul_form import (
    ACTIVATIONS,
    Choice,
    MatmulForm,
    MatmulProblem,
    MatmulSchedule,
    gpu_tiles,
    of_least_time,
)
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
    "gpu_tiles",
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
"""Forms by the name that `MatmulSchedule.form` gives."""

LEAST_BLOCK = 48
"""Rows of a workgroup for which copying a panel takes a tenth of the time of their products."""

PANELS = MatmulSchedule(rows_per_thread=6, columns_per_thread=2, block_m=192, block_k=256)
FEW_ROWS = MatmulSchedule(rows_per_thread=4, columns_per_thread=3, block_m=16, block_k=0)
FEW_COLUMNS = MatmulSchedule(rows_per_thread=12, columns_per_thread=1, block_m=192, block_k=0)
DOTS = MatmulSchedule(lanes_n=1, rows_per_thread=6, columns_per_thread=1, block_m=192, block_k=0)
"""Schedule for a CPU; the sums take 24 registers of 512 bits.

A core of an EPYC with AVX-512 does 100 GFLOP/s by panels of 1024 columns; of 16 rows 105 where they are not copied,
and 80 where they are; of a single column 15 by dots, 3 by lanes of which the others idle.
"""

GPU_CHOICES = (
    Choice(gpu_tiles(128, 128, 16, 8, 8), 1.0, 0.94),
    Choice(gpu_tiles(128, 64, 16, 8, 8, prefetch=True), 0.96, 0.81),
    Choice(gpu_tiles(64, 128, 8, 8, 8, prefetch=True), 0.94, 0.73),
    Choice(gpu_tiles(64, 64, 16, 8, 4, prefetch=True), 0.88, 0.63),
    Choice(gpu_tiles(32, 64, 32, 4, 4), 0.74, 0.55),
    Choice(gpu_tiles(32, 32, 32, 4, 4, prefetch=True), 0.63, 0.31),
    Choice(gpu_tiles(128, 16, 32, 4, 4), 0.53, 0.45),
    Choice(gpu_tiles(32, 16, 64, 2, 2, unroll=32), 0.34, 0.2),
)
F64_CHOICES = (
    Choice(gpu_tiles(64, 64, 16, 4, 4), 1.0),
    Choice(gpu_tiles(32, 32, 16, 4, 2), 0.7),
    Choice(gpu_tiles(32, 16, 32, 2, 2), 0.4),
)
"""Schedule for a GPU, with sums of f32, and of f64, which take two registers each.

Of f32 an H100 (SXM, 1,980 MHz; 2026-11-28) makes 48.5 TFLOP/s by the first, with 8 blocks a multiprocessor and a depth of 2,048; the
rates are shares of that, with 8 blocks and with 1.  Those of f64 are not measured.
"""


def matmul_schedule(
    rows: int | None,
    columns: int,
    target: str = "",
    workers: int = 0,
    sums: DataType = DataType.F32,
    matrices: int = 1,
) -> MatmulSchedule:
    """The default schedule for products of `rows` (None: unknown) by `columns`, as many as `matrices`.  `workers`: threads
    of the cpu target, which get two blocks each where rows allow, or multiprocessors of a GPU; 0 if unknown.  `sums`: their
    type; of f64 a lane has half as many."""
    if is_gpu(target):
        choices = F64_CHOICES if sums is DataType.F64 else GPU_CHOICES
        return of_least_time(choices, rows, columns, workers or MULTIPROCESSORS, matrices)
    if sums is DataType.F64:
        schedule = matmul_schedule(rows, columns, target, workers, matrices=matrices)
        return replace(schedule, columns_per_thread=-(-schedule.columns_per_thread // 2))
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
    return max(1, matrices * schedule.grid(rows, columns))


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
