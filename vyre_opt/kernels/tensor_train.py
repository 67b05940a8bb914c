"""tt.contract_step: out_j = sum_i acc_i * core_ij, one step of a tensor-train contraction.

A lane for each j: neighbours read neighbouring elements of each row of the core.  @acc has
r elements, @core r rows of len @out.  f32, or signed 16.16 in u32 or i32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Program, Value
from ..ir.types import DataType
from .collective import offset
from .multiply_add import multiply_add, signed, stored, zero
from .targets import is_gpu

__all__ = ["StepSchedule", "contract_step", "contract_step_grid", "contract_step_schedule"]


CACHED_CELLS = 1 << 22  # of a core: 16 MiB, about what the caches next to a CPU's core hold


@dataclass(frozen=True)
class StepSchedule:
    """`lanes` of a workgroup; `unroll`: rows of the core whose loads are in flight together."""

    lanes: int = 256
    unroll: int = 4

    def __post_init__(self) -> None:
        if not 1 <= self.lanes <= 1024 or not 1 <= self.unroll <= 32:
            raise ValueError(f"1 to 1024 lanes, 1 to 32 rows together: {self}")


def contract_step_schedule(inner: int | None, cells: int | None = None, target: str = "") -> StepSchedule:
    """The default schedule for a core of `inner` rows and `cells` elements (None: unknown).

    A lane does little but load its column, so it should have many loads in flight.  On a GPU each of them
    takes a register.  ptxas limits a lane to 32 registers, with which a multiprocessor runs at full
    occupancy; workgroups of one subgroup get 64, as a multiprocessor holds at most 32 such workgroups.
    (From a core of 1024 x 16384 f32 an H100 reads 1.5 TB/s with 32 lanes, half of it with more.)  So 32 rows
    are unrolled where a column has several times as many; rows left over are done one by one.  On the CPU
    target the 32 sums of a subgroup fill most vector registers; unrolling pays where the core comes from memory.
    """
    if is_gpu(target):
        rows = inner or 16
        return StepSchedule(lanes=32, unroll=32 if rows >= 4 * 32 else min(16, 1 << rows.bit_length() - 1))
    if target == "cpu":
        return StepSchedule(unroll=8 if (cells or 0) > CACHED_CELLS else 2)
    return StepSchedule()


def contract_step_grid(schedule: StepSchedule, rank: int) -> int:
    """Workgroups for `rank` outputs; any grid does all the work."""
    return max(1, -(-rank // schedule.lanes))


@lru_cache(maxsize=64)
def contract_step(dtype: DataType = DataType.U32, schedule: StepSchedule = StepSchedule()) -> Program:
    """The program `contract_step`: @acc, @core, @out."""
    b = Builder("contract_step", workgroup=schedule.lanes)
    acc = b.buffer("acc", dtype, None, "read", 0)
    core = b.buffer("core", dtype, None, "read", 1)
    out = b.buffer("out", dtype, None, "write", 2, live_out=True)

    inner = b.len(acc, name="inner")
    outer = b.div(b.len(core), inner, name="outer")
    whole = b.sub(inner, b.rem(inner, schedule.unroll), name="whole")
    with b.for_(b.global_id("x"), outer, b.global_size("x")) as columns:
        j = columns.index

        def add_row(i: Value, total: Value, j: Value = j) -> Value:
            cell = b.add(b.mul(i, outer), j)
            return multiply_add(b, signed(b, b.load(acc, i)), signed(b, b.load(core, cell)), total)

        with b.for_(0, whole, schedule.unroll, carry=[zero(b, dtype)], dtype=DataType.U32) as rows:
            total = rows.args[0]
            for ahead in range(schedule.unroll):
                total = add_row(offset(b, rows.index, ahead), total)
            rows.yield_(total)
        with b.for_(whole, inner, carry=[rows.result]) as rest:
            rest.yield_(add_row(rest.index, rest.args[0]))
        b.store(stored(b, rest.result, dtype), out, j)
    return b.finish(verify=False)
