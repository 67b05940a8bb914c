"""Functions of packs on arrays of a GPU, and their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import vyre_opt as vyre

from .packed_kernels import FUNCTIONS, random

__all__ = ["ARRAY_CALLS", "NUMBERS", "PIPELINE", "ROWS", "OnGpu", "compiled", "options_of"]

ROWS, NUMBERS = random(12, 50), np.arange(3000, dtype=np.uint32)
ARRAY_CALLS: dict[str, list[tuple[Any, ...]]] = {
    "softmax": [(ROWS,), (random(3, 5000),)],
    "softmax_step": [(NUMBERS,)],
    "prefix_scan": [(NUMBERS,), (ROWS,)],
    "matvec_fixed": [(np.ones((5, 9), np.int32), np.arange(9, dtype=np.int32))],
    "matmul": [(ROWS, random(50, 7)), (ROWS, random(50, 7), random(7), {"activation": "relu"})],
    "tt_contract_step": [(random(8), random(8, 6))],
    "tt_chain": [(random(4), [random(4, 8), random(8, 3)])],
}

PIPELINE = """vyre 1
program @twice workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %i = global_id x
  %n = len @x
  %in = lt %i, %n : u32
  if %in {
    %v = load @x[%i] : f32
    %w = add %v, %v : f32
    store %w, @y[%i] : f32
  }
}
pipeline @main {
  buffer @x : f32[?] read
  buffer @t : f32[len(@x)]
  buffer @y : f32[len(@x)] write live_out
  launch @twice grid(ceil_div(len(@x), 64)) (@x, @t)
  host_read @t
  repeat 2 {
    launch @twice grid(ceil_div(len(@x), 64)) (@t, @y)
  }
}
"""


class OnGpu:
    """A function whose arrays of NumPy go to a GPU, and are written back; its faults are told at once."""

    def __init__(self, function: Any, to: Callable[[Any], Any], back: Callable[[Any], np.ndarray]) -> None:
        self.function, self.to, self.back = function, to, back

    def __getitem__(self, grid: Any) -> OnGpu:
        return OnGpu(self.function[grid], self.to, self.back)

    def __call__(self, *args: Any, **options: Any) -> Any:
        moved = [[*map(self.to, arg)] if isinstance(arg, list) else self.to(arg) for arg in args]
        result = self.function(*moved, **options)
        vyre.synchronize()
        for before, after in zip(args, moved, strict=True):
            if isinstance(before, np.ndarray) and before.flags.writeable:
                before[...] = self.back(after)
        return result if result is None else self.back(result)


def compiled(name: str) -> Any:
    return next(function for function in FUNCTIONS if function.function.__name__ == name)


def options_of(call: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (call[:-1], call[-1]) if isinstance(call[-1], dict) else (call, {})
