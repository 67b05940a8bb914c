"""signal.smooth: y_i is the average of x_i and x_(i+1); the last element stays."""

from __future__ import annotations

from dataclasses import dataclass

from vyre_opt import Builder, Expansion, ExpansionRequest, register_kernel


@dataclass(frozen=True)
class SmoothSchedule:
    """`lanes`: invocations of a workgroup."""

    lanes: int = 256


@register_kernel(
    "signal.smooth",
    "Each element averaged with the next one; the last one stays.",
    "x:read y:write",
    types={"x": ("u32", "i32"), "y": ("u32", "i32")},
    like={"y": ("x",)},
    schedule="lanes",
)
def smooth(request: ExpansionRequest) -> Expansion:
    """An element a lane, each workgroup as many elements apart as the grid has lanes: right for every grid."""
    schedule, count, dtype = request.at(SmoothSchedule()), request.count(0), request.dtype(0)
    b = Builder("smooth", workgroup=schedule.lanes)
    x = b.buffer("x", dtype, None, "read", 0)
    y = b.buffer("y", dtype, None, "write", 1, live_out=True)
    last = b.sub(b.len(x), 1)
    with b.for_(b.global_id("x"), b.len(x), b.global_size("x")) as loop:
        following = b.min(b.add(loop.index, 1), last)
        mean = b.op("signal.average", b.load(x, loop.index), b.load(x, following))
        b.store(mean, y, loop.index)
    grid = None if count is None else max(1, -(-count // schedule.lanes))
    return Expansion(b.finish(), schedule, grid)
