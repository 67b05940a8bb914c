"""Planned calls by the compiled launcher beside PyCUDA's, which makes each step a call:  python bench/launchers.py

Microseconds of the host for a call of a pipeline of some launches of a tiny kernel, medians over rounds that do both.
Needs a GPU and torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import vyre_opt
from vyre_opt.targets.cuda.launcher import CompiledLauncher
from vyre_opt.targets.cuda.steps import Launcher, PyCudaLauncher

LAUNCHES = (1, 2, 3, 8, 16)
ROUNDS, CALLS = 15, 200
TEXT = """vyre 2
program @increment workgroup(64) {{
  buffer @x : f32[64] read binding(0)
  buffer @y : f32[64] write binding(1)
  %g = global_id x
  %v = load @x[%g]
  %w = add %v, 1.0 : f32
  store %w, @y[%g]
}}
pipeline @main {{
{buffers}
{stages}
}}
"""


def pipeline(launches: int) -> str:
    names = ["x", *(f"t{number}" for number in range(1, launches)), "y"]
    kinds = ["read", *[""] * (launches - 1), "write"]
    buffers = [f"  buffer @{name} : f32[64] {kind}" for name, kind in zip(names, kinds, strict=True)]
    pairs = pairwise(names)
    stages = [f"  launch @increment grid(1) (@{read}, @{written})" for read, written in pairs]
    return TEXT.format(buffers="\n".join(buffers), stages="\n".join(stages))


def call_of(launches: int, x: Any) -> Any:
    """The bound call of a pipeline that has been called."""
    compiled = vyre_opt.compile(pipeline(launches), target="cuda")
    compiled([x])
    (call,) = compiled._bound.values()
    return call


def microseconds(call: Any, launcher: Launcher, x: Any, synchronize: Callable[[], None]) -> float:
    call.loaded.run = launcher.launch
    call.run([x])
    synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call.run([x])
    seconds = time.perf_counter() - start
    synchronize()
    return seconds / CALLS * 1e6


def main() -> None:
    import torch

    x = torch.zeros(64, device="cuda")
    print(torch.cuda.get_device_name())
    print("| Launches | PyCUDA | Compiled |\n|---|---|---|")
    for launches in LAUNCHES:
        call = call_of(launches, x)
        with call.loaded._dispatcher.device:
            sides = [make(*call.loaded._made_of) for make in (PyCudaLauncher, CompiledLauncher)]
        rounds = [
            [microseconds(call, side, x, torch.cuda.synchronize) for side in sides] for _ in range(ROUNDS)
        ]
        pycuda, compiled = (median(times) for times in zip(*rounds, strict=True))
        print(f"| {launches} | {pycuda:.1f} | {compiled:.1f} |")


if __name__ == "__main__":
    main()
