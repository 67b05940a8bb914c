"""Softmax over rows on a GPU, beside torch and Triton in the same run:  python bench/softmax_gpu.py

f32 and bf16; 4096 rows of 256 to 12,544 columns, and two large squares.  Every kernel
works in place on the same tensors, rotated so that no run finds its input in the L2
cache; times are medians of events around ten launches, the kernels in turn.
"""

from __future__ import annotations

import importlib.metadata
import math
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from measure import machine, save, today

RESULT = Path(__file__).parent / "results" / "softmax_gpu.json"
SHAPES = [(4096, columns) for columns in range(256, 12545, 512)] + [(32768, 4096), (16384, 16384)]
ROUNDS, LAUNCHES = 7, 10
ROTATED_BYTES = 512 << 20  # ten times the L2 cache of an H100
BIG_BYTES = 64 << 20


def triton_softmax() -> Callable[[Any, Any], Callable[[], None]]:
    """Triton's kernel, tuned at every shape: the fastest of 18 configurations."""
    import torch
    from triton_softmax import launch

    processors = torch.cuda.get_device_properties(0).multi_processor_count
    options = [(w, p, s) for w in (4, 8, 16) for p in (2, 8, 1 << 20) for s in (1, 3)]
    best: dict[Any, tuple[int, int, int]] = {}

    def bind(x: Any, y: Any) -> Callable[[], None]:
        key = (x.shape, x.dtype)
        if key not in best:
            best[key] = min(options, key=lambda o: seconds(lambda: launch(x, y, processors, *o), 2))
        return lambda: launch(x, y, processors, *best[key])

    return bind


def seconds(run: Callable[[], None], rounds: int = 1) -> float:
    """Seconds a launch, by events around ten; the median of `rounds`."""
    import torch

    times = []
    run()
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(LAUNCHES):
            run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / LAUNCHES)
    return median(times)


def rotating(
    bind: Callable[[Any, Any], Callable[[], None]], pairs: list[tuple[Any, Any]]
) -> Callable[[], None]:
    bound = [bind(x, y) for x, y in pairs]
    state = [0]

    def run() -> None:
        state[0] = (state[0] + 1) % len(bound)
        bound[state[0]]()

    return run


def main() -> None:
    import torch

    from vyre_opt.cuda import CudaDispatcher
    from vyre_opt.ir.types import DataType
    from vyre_opt.kernels.softmax_rows import softmax, softmax_grid, softmax_schedule

    gpu = CudaDispatcher(bounds="none")
    compiled = torch.compile(lambda t: torch.softmax(t, dim=1))
    triton_bind = triton_softmax()

    def ours(x: Any, y: Any) -> Callable[[], None]:
        dtype = DataType.BF16 if x.dtype is torch.bfloat16 else DataType.F32
        columns = x.shape[1]
        grid = softmax_grid(softmax_schedule(columns, dtype), x.shape[0])
        bound = gpu.bind(softmax(columns, dtype), [x.view(-1), y.view(-1)], grid)
        stream = torch.cuda.current_stream()
        return lambda: bound.run(stream)

    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {"torch": [], "torch.compile": [], "triton": [], "copy": []}
    big_copy: list[float] = []
    samples = []
    with_compile = "--compile" in sys.argv
    for dtype in (torch.float32, torch.bfloat16):
        for count, columns in SHAPES:
            size = count * columns * dtype.itemsize
            sets = max(1, min(16, ROTATED_BYTES // (2 * size)))
            pairs = []
            for _ in range(sets):
                x = torch.randn(count, columns, device="cuda").to(dtype)
                pairs.append((x, torch.full_like(x, math.nan)))
            kernels: dict[str, Callable[[Any, Any], Callable[[], None]]] = {
                "ours": ours,
                "torch": lambda x, y: lambda: torch.softmax(x, dim=1, out=y),
                "triton": triton_bind,
                "copy": lambda x, y: lambda: y.copy_(x),
            }
            if with_compile:
                kernels["torch.compile"] = lambda x, y: lambda: compiled(x)
            runs = {name: rotating(bind, pairs) for name, bind in kernels.items()}
            for x, y in pairs:
                ours(x, y)()
                wanted = torch.softmax(x.double(), dim=1)
                error = ((y.double() - wanted).norm() / wanted.norm()).item()
                if not error < (4e-3 if dtype is torch.bfloat16 else 1e-5):
                    sys.exit(f"wrong softmax at {count}x{columns} {dtype}: relative error {error}")
            times: dict[str, list[float]] = {name: [] for name in runs}
            for _ in range(ROUNDS):
                for name, run in runs.items():
                    times[name].append(seconds(run))
            taken = {name: median(t) for name, t in times.items()}
            samples.append({"shape": [count, columns], "dtype": str(dtype), "seconds": taken})
            for name in ratios:
                if name in taken:
                    ratios[name].append(taken[name] / taken["ours"])
            if size >= BIG_BYTES:
                big_copy.append(taken["copy"] / taken["ours"])
            name = f"{count} x {columns} {'bf16' if dtype is torch.bfloat16 else 'f32'}"
            shown = [
                f"{taken[k] / taken['ours']:.2f}" if k in taken else "-" for k in ("torch", "triton", "copy")
            ]
            rows.append(
                [name, f"{taken['ours'] * 1e6:.1f}", f"{2 * size / taken['ours'] / 1e12:.2f}", *shown]
            )
            print(" | ".join(rows[-1]), flush=True)
    worst = min(ratios["triton"])
    result = {
        "name": "softmax_gpu",
        "title": "Softmax on a GPU",
        "about": "Row softmax beside torch.softmax, a tuned Triton kernel and a copy of the same bytes, all in "
        "one run.  A ratio is the other's time over ours: above 1 we are faster; for the copy it is the fraction "
        "of copy bandwidth.  The limit is the copy: the kernel must read and write each element once.",
        "date": today(),
        "machine": {**machine(), "gpu": torch.cuda.get_device_name()},
        "versions": {p: importlib.metadata.version(p) for p in ("torch", "triton", "llvmlite", "numpy")},
        "absent": [],
        "tables": [
            {
                "caption": "Microseconds and TB/s of ours, and ratios",
                "columns": [
                    "rows x columns",
                    "ours us",
                    "ours TB/s",
                    "torch / ours",
                    "triton / ours",
                    "copy / ours",
                ],
                "rows": rows,
            }
        ],
        "targets": [
            {
                "what": "at least Triton's speed at every shape",
                "measured": f"{worst:.2f} at worst, {geometric_mean(ratios['triton']):.2f} in the mean",
                "met": worst >= 0.98,
            },
            {
                "what": "0.95 of copy bandwidth from 64 MiB up",
                "measured": f"{min(big_copy):.2f} at worst, {geometric_mean(big_copy):.2f} in the mean",
                "met": min(big_copy) >= 0.95,
            },
        ],
        "samples": samples,
    }
    save(RESULT, result)


if __name__ == "__main__":
    main()
