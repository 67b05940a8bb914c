"""math.softmax_step: floor((x_i << 16) / max(sum x, 1)) in 16.16, sum and numerator 64 bits wide.

In one launch, each workgroup sums all of @x for itself and then divides its share of the elements.  So any grid does
all the work, and no workgroup waits for another.

In two launches, for many elements: `softmax_step_parts` leaves the sum of each of its workgroups in @parts, and
`softmax_step_quotients` adds these up in place of all of @x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Buffer, Program, Value
from ..ir.types import DataType
from .collective import SUBGROUP, as_type
from .targets import is_gpu

__all__ = [
    "SoftmaxStepSchedule",
    "softmax_step",
    "softmax_step_grid",
    "softmax_step_launches",
    "softmax_step_parts",
    "softmax_step_quotients",
    "softmax_step_schedule",
]

ELEMENTS_OF_TWO = 1 << 17  # from which on a GPU gains by a second launch
ELEMENTS_OF_THREADS = 1 << 20  # from which on threads of a CPU do


@dataclass(frozen=True)
class SoftmaxStepSchedule:
    """`lanes`: of a workgroup, a multiple of 32.  `elements_per_workgroup`: elements for each workgroup of the grid."""

    lanes: int = 256
    elements_per_workgroup: int = 4096

    def __post_init__(self) -> None:
        if self.lanes % SUBGROUP or not SUBGROUP <= self.lanes <= 1024 or self.elements_per_workgroup < 1:
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
    return min(64, max(1, -(-count // schedule.elements_per_workgroup)))


@lru_cache(maxsize=64)
def softmax_step(schedule: SoftmaxStepSchedule = SoftmaxStepSchedule()) -> Program:
    """The program `softmax_step`: @x, @y, u32."""
    lanes = schedule.lanes
    b = Builder("softmax_step", workgroup=lanes)
    x = b.buffer("x", DataType.U32, None, "read", 0)
    y = b.buffer("y", DataType.U32, None, "write", 1, live_out=True)
    total = _sum(b, x, b.local_id("x"), lanes)
    _divide(b, x, y, total)
    return b.finish(verify=False)


def softmax_step_launches(count: int, target: str, workers: int) -> tuple[int, int] | None:
    """Lanes and workgroups of the two launches for `count` elements; None where one is faster.

    `workers`: threads of the cpu target.
    """
    if is_gpu(target) and count >= ELEMENTS_OF_TWO:
        return 256, min(1056, -(-count // 1024))
    if target == "cpu" and workers > 1 and count >= ELEMENTS_OF_THREADS:
        return SUBGROUP, 4 * workers
    return None


@lru_cache(maxsize=8)
def softmax_step_parts(lanes: int) -> Program:
    """The program `softmax_step_parts`: @x, u32, and @parts, u64, an element for each workgroup of the grid."""
    b = Builder("softmax_step_parts", workgroup=lanes)
    x = b.buffer("x", DataType.U32, None, "read", 0)
    parts = b.buffer("parts", DataType.U64, None, "write", 1, live_out=True)
    total = _sum(b, x, b.global_id("x"), b.global_size("x"))
    with b.if_(b.eq(b.local_id("x"), 0)):
        b.store(total, parts, b.workgroup_id("x"))
    return b.finish(verify=False)


@lru_cache(maxsize=8)
def softmax_step_quotients(lanes: int) -> Program:
    """The program `softmax_step_quotients`: @x, u32, @parts, u64 numbers whose sum is that of @x, and @y, u32."""
    b = Builder("softmax_step_quotients", workgroup=lanes)
    x = b.buffer("x", DataType.U32, None, "read", 0)
    parts = b.buffer("parts", DataType.U64, None, "read", 1)
    y = b.buffer("y", DataType.U32, None, "write", 2, live_out=True)
    total = _sum(b, parts, b.local_id("x"), lanes)
    _divide(b, x, y, total)
    return b.finish(verify=False)


def _sum(b: Builder, x: Buffer, first: Value, step: Value | int) -> Value:
    """The sum of the elements that a workgroup's lanes read from `first` on, `step` apart; every lane gets it."""
    with b.for_(first, b.len(x), step, carry=[b.const(0, DataType.U64)]) as loop:
        loop.yield_(b.add(loop.args[0], as_type(b, b.load(x, loop.index), DataType.U64)))
    return b.workgroup_reduce(loop.result, "add")


def _divide(b: Builder, x: Buffer, y: Buffer, total: Value) -> None:
    divisor = b.max(total, 1, name="divisor")
    with b.for_(b.global_id("x"), b.len(x, name="n"), b.global_size("x")) as loop:
        wide = b.cast(b.load(x, loop.index), DataType.U64)
        b.store(b.cast(b.div(b.shl(wide, 16), divisor), DataType.U32), y, loop.index)
