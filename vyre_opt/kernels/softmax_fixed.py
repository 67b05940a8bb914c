"""math.softmax_step: floor((x_i << 16) / max(sum x, 1)) in 16.16, sum and numerator 64 bits wide.

Each workgroup sums all of @x for itself and then divides its share of the elements.  So any grid does
all the work, and no workgroup waits for another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Program
from ..ir.types import DataType
from .collective import SUBGROUP, workgroup_total
from .targets import is_gpu

__all__ = ["SoftmaxStepSchedule", "softmax_step", "softmax_step_grid", "softmax_step_schedule"]


@dataclass(frozen=True)
class SoftmaxStepSchedule:
    """`lanes`: of a workgroup, a multiple of 32.  `share`: elements for each workgroup of the grid."""

    lanes: int = 256
    share: int = 4096

    def __post_init__(self) -> None:
        if self.lanes % SUBGROUP or not SUBGROUP <= self.lanes <= 1024 or self.share < 1:
            raise ValueError(f"lanes are a multiple of 32 up to 1024, a share is at least 1: {self}")


def softmax_step_schedule(count: int | None, target: str = "") -> SoftmaxStepSchedule:
    """The default schedule for `count` elements (None: unknown).

    On a GPU all workgroups sum at the same time, and a sum takes as long as a lane's loads, one after the
    other: use as many lanes as there are elements.  On the CPU target each workgroup adds its whole sum to
    the time of a thread.  Adding an element costs 1/28 of dividing it, so at most eight workgroups cost a
    single thread a quarter more (7/28), and still give each of eight threads one.
    """
    if is_gpu(target):
        lanes = min(1024, -(-(count or 1024) // SUBGROUP) * SUBGROUP)
        return SoftmaxStepSchedule(max(SUBGROUP, lanes), 1024)
    if target == "cpu":
        return SoftmaxStepSchedule(SUBGROUP, max(1 << 16, -(-(count or 0) // 8)))
    return SoftmaxStepSchedule()


def softmax_step_grid(schedule: SoftmaxStepSchedule, count: int) -> int:
    """Workgroups for `count` elements; each reads all of them, so there are few."""
    return min(64, max(1, -(-count // schedule.share)))


@lru_cache(maxsize=64)
def softmax_step(schedule: SoftmaxStepSchedule = SoftmaxStepSchedule()) -> Program:
    """The program `softmax_step`: @x, @y, u32."""
    lanes = schedule.lanes
    b = Builder("softmax_step", workgroup=lanes)
    x = b.buffer("x", DataType.U32, None, "read", 0)
    y = b.buffer("y", DataType.U32, None, "write", 1, live_out=True)
    sums = b.buffer("sums", DataType.U64, lanes // SUBGROUP, "workgroup") if lanes > SUBGROUP else None

    count = b.len(x, name="n")
    with b.for_(b.local_id("x"), count, lanes, carry=[b.const(0, DataType.U64)]) as loop:
        loop.yield_(b.add(loop.args[0], b.cast(b.load(x, loop.index), DataType.U64)))
    total = workgroup_total(b, loop.result, sums, lanes)
    divisor = b.max(total, 1, name="divisor")

    with b.for_(b.global_id("x"), count, b.global_size("x")) as loop:
        wide = b.cast(b.load(x, loop.index), DataType.U64)
        b.store(b.cast(b.div(b.shl(wide, 16), divisor), DataType.U32), y, loop.index)
    return b.finish(verify=False)
