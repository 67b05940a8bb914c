"""Softmax over rows on a GPU, beside torch and Triton in the same run:  python bench/softmax_gpu.py [--quick]

f32 and bf16; 4096 rows of 256 to 12,544 columns, two large squares, short and wide rows, and 20 shapes drawn at
random.  Ours is `vyre_opt.kernels.softmax`, as callers call it.  All write to tensors that are there, rotated so that
no run finds its input in the L2 cache; times are the GPU's, medians of events around ten calls, the kernels in turn.

torch.compile takes seconds for a shape and type, so it is measured at some of the shapes, each
compiled for itself; they are large enough that its time to launch does not show.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import geometric_mean, median, quantiles
from typing import Any

from gpu_timing import each_round, seconds, target
from measure import machine, save, today

RESULT = Path(__file__).parent / "results" / "softmax_gpu.json"
SHORT = [(1 << 21, 1), (1 << 20, 7), (1 << 20, 32), (1 << 18, 100), (1 << 16, 256), (1000, 64), (64, 64)]
WIDE = [(1024, 50257), (1024, 65536), (512, 128256), (512, 151936), (256, 262144), (1, 262144)]
SHAPES = (
    [(4096, columns) for columns in range(256, 12545, 512)] + [(32768, 4096), (16384, 16384)] + SHORT + WIDE
)
DRAWN, SEED = 20, 20
MOST_ELEMENTS, MOST_COLUMNS = 1 << 27, 1 << 18
MAX_TRITON_COLUMNS = 1 << 15
"""Of longer rows it takes minutes to compile, or does not fit; where it does, it is 2 to 11 times slower than ours."""
COMPILED = [(4096, 6400), (4096, 12544), (32768, 4096), (16384, 16384)]
QUICK = [(4096, 1280), (4096, 6400)]
PEERS = ("torch", "compiled", "triton", "copy")
ROUNDS = 7
ROTATED_BYTES = 512 << 20  # ten times the L2 cache of an H100
BIG_BYTES = 64 << 20

Bind = Callable[[Any, Any], Callable[[], None]]
"""Input and output to a launch of the kernel on them."""


def triton_softmax() -> Bind:
    """Triton's kernel, tuned at every shape: the fastest of 18 configurations, of those that fit."""
    import torch
    from triton.runtime.errors import OutOfResources
    from triton_softmax import launch

    processors = torch.cuda.get_device_properties(0).multi_processor_count
    options = [(w, p, s) for w in (4, 8, 16) for p in (2, 8, 1 << 20) for s in (1, 3)]
    best: dict[Any, tuple[int, int, int]] = {}

    def seconds_of(x: Any, y: Any, option: tuple[int, int, int]) -> float:
        try:
            return seconds(lambda: launch(x, y, processors, *option), 2)
        except OutOfResources:
            return math.inf

    def bind(x: Any, y: Any) -> Callable[[], None]:
        key = (x.shape, x.dtype)
        if key not in best:
            best[key] = min(options, key=lambda option: seconds_of(x, y, option))
        return lambda: launch(x, y, processors, *best[key])

    return bind


def compiled_softmax() -> Bind:
    """torch.compile's kernel, made for each shape and type, which writes to the output that is given."""
    import torch
    import torch._dynamo

    cache: dict[Any, Callable[[Any, Any], Any]] = {}

    def into(x: Any, y: Any) -> None:
        y.copy_(torch.softmax(x, dim=1))

    def bind(x: Any, y: Any) -> Callable[[], None]:
        key = (x.shape, x.dtype)
        if key not in cache:
            torch._dynamo.reset()  # it stops to compile a function after a few shapes
            cache.clear()
            cache[key] = torch.compile(into, dynamic=False)
            cache[key](x, y)
        return lambda: cache[key](x, y)

    return bind


def rotating(
    bind: Callable[[Any, Any], Callable[[], None]], pairs: list[tuple[Any, Any]]
) -> Callable[[], None]:
    bound = [bind(x, y) for x, y in pairs]
    state = [0]

    def run() -> None:
        state[0] = (state[0] + 1) % len(bound)
        bound[state[0]]()

    return run


def our_softmax() -> Bind:
    """The public function, called often enough that a length has code of its own."""
    from vyre_opt.kernels import softmax

    def bind(x: Any, y: Any) -> Callable[[], None]:
        for _ in range(10):
            softmax(x, out=y)
        return lambda: softmax(x, out=y)

    return bind


def drawn_shapes() -> list[tuple[int, int]]:
    """Shapes whose columns and elements are evenly distributed by their logarithms."""
    rng = random.Random(SEED)
    shapes = []
    for _ in range(DRAWN):
        columns = int(MOST_COLUMNS ** rng.random())
        least = max(1 << 16, columns)
        shapes.append((int(least * (MOST_ELEMENTS / least) ** rng.random()) // columns, columns))
    return shapes


def tensors(rows: int, columns: int, dtype: Any) -> list[tuple[Any, Any]]:
    """Inputs and poisoned outputs, enough sets that none is found in the L2 cache."""
    import torch

    sets = max(1, min(16, ROTATED_BYTES // (2 * rows * columns * dtype.itemsize)))
    inputs = [torch.randn(rows, columns, device="cuda").to(dtype) for _ in range(sets)]
    return [(x, torch.full_like(x, math.nan)) for x in inputs]


def check(name: str, kernel: Bind, pairs: list[tuple[Any, Any]], tolerance: float) -> None:
    """Stop if a kernel differs from softmax in double precision."""
    import torch

    for x, y in pairs:
        y.fill_(math.nan)
        kernel(x, y)()
        expected = torch.softmax(x.double(), dim=1)
        error = ((y.double() - expected).norm() / expected.norm()).item()
        if not error < tolerance:
            sys.exit(f"{name}: wrong softmax at {tuple(x.shape)} {x.dtype}: relative error {error}")


def is_slower(times: dict[str, list[float]], peer: str) -> bool:
    """Whether ours takes longer than a peer by more than rounds differ: in three of four of them."""
    ratios = [theirs / ours for theirs, ours in zip(times[peer], times["ours"], strict=True)]
    return quantiles(ratios, n=4)[2] < 1


def samples(shapes: list[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Every shape and type: the seconds of every kernel, torch.compile's at its shapes."""
    import torch

    kernels: dict[str, Bind] = {
        "ours": our_softmax(),
        "torch": lambda x, y: lambda: torch.softmax(x, dim=1, out=y),
        "triton": triton_softmax(),
        "copy": lambda x, y: lambda: y.copy_(x),
    }
    compiled = compiled_softmax()
    for dtype, name, tolerance in ((torch.float32, "f32", 1e-5), (torch.bfloat16, "bf16", 4e-3)):
        for rows, columns in shapes:
            pairs = tensors(rows, columns, dtype)
            bindings = {**kernels, "compiled": compiled} if (rows, columns) in COMPILED else dict(kernels)
            if columns > MAX_TRITON_COLUMNS:
                del bindings["triton"]
            for checked in ("ours", "compiled"):
                if checked in bindings:
                    check(checked, bindings[checked], pairs, tolerance)
            size = rows * columns * dtype.itemsize
            times = each_round({kernel: rotating(bind, pairs) for kernel, bind in bindings.items()}, ROUNDS)
            yield {
                "shape": [rows, columns],
                "dtype": name,
                "bytes": size,
                "seconds": {kernel: median(seconds) for kernel, seconds in times.items()},
                "slower than Triton": "triton" in times and is_slower(times, "triton"),
            }


def row(sample: dict[str, Any]) -> list[str]:
    seconds = sample["seconds"]
    rows, columns = sample["shape"]
    ratios = [f"{seconds[peer] / seconds['ours']:.2f}" if peer in seconds else "" for peer in PEERS]
    speed = f"{2 * sample['bytes'] / seconds['ours'] / 1e12:.2f}"
    return [f"{rows} x {columns} {sample['dtype']}", f"{seconds['ours'] * 1e6:.1f}", speed, *ratios]


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two shapes; nothing is saved")
    quick = parser.parse_args().quick
    results = []
    for sample in samples(QUICK if quick else SHAPES + drawn_shapes()):
        results.append(sample)
        print(" | ".join(row(sample)), flush=True)
    ratio = {
        peer: [s["seconds"][peer] / s["seconds"]["ours"] for s in results if peer in s["seconds"]]
        for peer in ("torch", "triton", "copy")
    }
    lost = [s for s in results if s["slower than Triton"]]
    big = [r for r, s in zip(ratio["copy"], results, strict=True) if s["bytes"] >= BIG_BYTES]
    if quick:
        return
    columns = ["rows x columns", "ours us", "ours TB/s"]
    columns += [f"{'torch.compile' if peer == 'compiled' else peer} / ours" for peer in PEERS]
    result = {
        "name": "softmax_gpu",
        "title": "Softmax on a GPU",
        "about": "`kernels.softmax` as callers call it beside torch.softmax, torch.compile of it (at four shapes, "
        "each compiled for itself), a tuned Triton kernel and a copy of the same bytes, all in one run; the last "
        f"{DRAWN} shapes are drawn at random, seed {SEED}.  A ratio is the other's "
        "time over ours: above 1 we are faster; for the copy it is the fraction of copy bandwidth.  The limit "
        "is the copy: the kernel must read and write each element once.",
        "date": today(),
        "machine": {**machine(), "gpu": torch.cuda.get_device_name()},
        "versions": {p: importlib.metadata.version(p) for p in ("torch", "triton", "llvmlite", "numpy")},
        "absent": [],
        "tables": [
            {
                "caption": "Microseconds and TB/s of ours, and ratios",
                "columns": columns,
                "rows": [row(sample) for sample in results],
            }
        ],
        "targets": [
            {
                "what": "at least Triton's speed at every shape; a shape is lost in three of four rounds or more",
                "measured": f"{len(lost)} of {len(results)} shapes lost; the medians {min(ratio['triton']):.3f} at "
                f"worst, {geometric_mean(ratio['triton']):.2f} in the mean",
                "met": not lost,
            },
            target("above torch's speed at every shape", ratio["torch"], 1.0),
            target("0.97 of tuned Triton's speed at every shape", ratio["triton"], 0.97),
            target("0.88 of copy bandwidth from 64 MiB up", big, 0.88),
        ],
        "samples": results,
    }
    save(RESULT, result)


if __name__ == "__main__":
    main()
