"""scan.prefix in its forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from vyre_opt.ir import DataType
from vyre_opt.kernels.scan import ScanSchedule, prefix, prefix_grid, prefix_schedule, prefix_state

from .case import Array, KernelCase, Use

__all__ = ["prefix_cases"]

TYPES = {
    DataType.U32: np.uint32,
    DataType.I32: np.int32,
    DataType.F32: np.float32,
    DataType.U64: np.uint64,
    DataType.I64: np.int64,
    DataType.F64: np.float64,
}
SCHEDULES = {
    "look-back": ScanSchedule(),
    "chunked": ScanSchedule(look_back=False),
    "look-back, 64 lanes": ScanSchedule(64, 2, 1),
    "look-back, more tiles than lanes": ScanSchedule(32, 1, 2),
    "chunked, 96 lanes": ScanSchedule(96, 3, 1, look_back=False),
    "look-back, read twice": ScanSchedule(32, 3, 1, two_pass=True),
    "chunked, read twice": ScanSchedule(32, 3, 1, look_back=False, two_pass=True),
    "as on the cpu": prefix_schedule(10001, "cpu"),
    "as on the cpu, one workgroup": prefix_schedule(10001, "cpu", look_back=False),
}
COUNTS = (1, 2, 31, 32, 33, 1000, 4096, 4097, 10001)


def prefix_cases() -> Iterator[KernelCase]:
    """Over the schedule's own grid, and over one that is too small."""
    for name, schedule in SCHEDULES.items():
        for dtype in TYPES:
            for count in COUNTS:
                for grid in (0, 3) if schedule.look_back else (0,):
                    what = f"{dtype}, {count}, {name}" + (f", grid {grid}" if grid else "")
                    yield KernelCase("scan.prefix", what, _scan(dtype, count, schedule, grid))


def _scan(dtype: DataType, count: int, schedule: ScanSchedule, grid: int) -> Callable[[], Use]:
    def make() -> Use:
        rng = np.random.default_rng(count)
        expected: Array
        kind = TYPES[dtype]
        if dtype.is_float:
            x = rng.standard_normal(count).astype(kind)
            expected = np.cumsum(x, dtype=np.longdouble).astype(np.float64)
            bound: Array | float = (1e-5 * np.abs(expected) + 1e-4) * (1e-8 if kind is np.float64 else 1)
        else:
            x = np.frombuffer(rng.bytes(count * np.dtype(kind).itemsize), kind)
            expected, bound = np.cumsum(x, dtype=kind), 0.0
        inputs = [x, np.zeros_like(x)]
        if schedule.look_back:
            inputs += [np.zeros(prefix_state(schedule, count, dtype), np.uint64), np.zeros(1, np.uint32)]
        return Use(
            prefix(dtype, schedule),
            inputs,
            grid or prefix_grid(schedule, count),
            expected,
            bound,
            order_varies=schedule.look_back and dtype.is_float,
        )

    return make
