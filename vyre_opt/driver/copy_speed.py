"""Speed of copies on a target: a program that copies an array, launched as any other, and timed as launches are.

What a copy of as many bytes reaches is what a launch can hope for where memory is its limit: more than that shows only in
caches.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

import numpy as np

from ..execution.bound_call import bind
from ..execution.kernel_call import plan_of, results_of
from ..execution.plans.watch import Times, Watch
from ..execution.target import Target
from ..kernels.call import KernelCall, OutputAlloc
from ..syntax.parser import parse
from .launch_rewrites import LaunchRewrites
from .placement import array_backend_of

__all__ = ["copy_speed"]

_COPY = """vyre 1

program @copy workgroup(256) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %i = global_id x
  %n = len @x
  %is_in = lt %i, %n : u32
  if %is_in {
    %v = load @x[%i] : u32
    store %v, @y[%i] : u32
  }
}
"""
LEAST, MOST = 1 << 6, 1 << 29
"""Bytes that are read and written; sizes between are rounded up to powers of two."""
ROUNDS, SECONDS = 21, 0.1

_speeds: dict[tuple[str, int, int], float] = {}


def copy_speed(target: Target, moved: int) -> float | None:
    """Bytes a second, read and written ones, of a copy that moves about so many; None for a target that compiles nothing.

    Measured once a process for each power of two.
    """
    if not target.architecture and target.name != "cpu":
        return None
    size = 1 << (min(max(moved, LEAST), MOST) - 1).bit_length()
    key = target.key, target.workers, size
    if key not in _speeds:
        _speeds[key] = size / _seconds_of_copy(target, size // 8)
    return _speeds[key]


def _seconds_of_copy(target: Target, elements: int) -> float:
    module, source = parse(_COPY), np.arange(elements, dtype=np.uint32)
    backend = array_backend_of(target, {"x": source})
    operands = [backend.take(source, "x")]
    grid = -(-elements // 256)
    launch = KernelCall(module.programs["copy"], grid, (0, OutputAlloc(elements)), module=module)
    call = LaunchRewrites(module).of(plan_of(launch, operands), target)
    loaded, results = backend.load(call), results_of(backend, launch, operands)
    bound, arrays = bind(backend, call, loaded, operands, results)
    seconds: list[float] = []
    end = perf_counter() + SECONDS
    while len(seconds) < ROUNDS and (len(seconds) < 2 or perf_counter() < end):
        times = Times()
        bound.watched(Watch(None, times, backend.allocate), arrays, (), results)
        seconds.append(sum(row.seconds for row in times.rows.values()))
    return max(median(seconds[1:]), 1e-9)
