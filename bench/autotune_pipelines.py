"""Pipelines tuned, beside every configuration of their spaces:  python bench/autotune_pipelines.py [--target cpu]

Pipelines of examples/pipelines with arrays and grids times 4096, and times a factor drawn at random.  Each is tuned, from
nothing, as `autotune(call_workload(...))` does.  Then all of its configurations run once more in turn, on other
arrays: half of the rounds say which is the best of all, so that it is not the luckiest, the others what the choice takes
beside it and beside the default.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import random
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from exhaustive import Exhaustive
from measure import machine, save, today

from vyre_opt import autotune, call_workload, dispatcher, parse
from vyre_opt.execution.arrays import storage_type
from vyre_opt.ir.program import AccessMode
from vyre_opt.tuning.call_workload import CallWorkload
from vyre_opt.tuning.space import show_config

RESULTS = Path(__file__).parent / "results"
EXAMPLES = Path(__file__).parent.parent / "examples" / "pipelines"
PIPELINES = (
    "attention_row", "decode_scan", "diamond", "elementwise_chain", "halo_beyond_the_tile", "halo_of_1", "halo_of_16",
    "softmax_of_scale", "unequal_workgroups",
)  # fmt: skip
"""Those whose stages do not know how long the arrays are."""

FACTOR, FACTORS = {"cpu": 64, "cuda": 4096}, {"cpu": (4, 256), "cuda": (64, 16384)}
"""By target: how much longer than in the example, and between what others are drawn, by their logarithm."""

ROUNDS = 40
MOST_SECONDS, MOST_OFF, MOST_SLOWER = 30.0, 1.03, 1.02


def scaled(name: str, factor: int) -> str:
    """The example's text with arrays and grids of the pipeline so many times as large, but for rows of a table."""
    head, _, body = (EXAMPLES / f"{name}.vyre").read_text().partition("pipeline @main {")
    lines = [
        line
        if "@values  :" in line
        else re.sub(r"(?<=[\[(])\d+(?=[\])])", lambda n: str(int(n[0]) * factor), line)
        for line in body.splitlines()
    ]
    return "\n".join([head + "pipeline @main {", *lines]) + "\n"


def inputs(text: str, target: str, seed: int) -> list[Any]:
    """Random arrays for what a pipeline reads: of GPU memory, for a GPU."""
    pipeline = parse(text).pipelines["main"]
    rng = np.random.default_rng(seed)
    arrays: list[Any] = []
    for buffer in pipeline.buffers.values():
        dtype = storage_type(buffer.dtype)
        if buffer.count is not None and dtype is not None and buffer.access is AccessMode.READ:
            is_float = dtype.kind == "f"
            values = rng.random(buffer.count) if is_float else rng.integers(0, 100, buffer.count)
            arrays.append(values.astype(dtype))
    if target == "cuda":
        import torch

        return [torch.from_numpy(array).cuda() for array in arrays]
    return arrays


def call_of(text: str, backend: Any, seed: int) -> CallWorkload:
    return call_workload(text, inputs(text, backend.name, seed), target=backend)


def sample(name: str, factor: int, backend: Any) -> dict[str, Any]:
    text = scaled(name, factor)
    started = time.perf_counter()
    tuning = autotune(call_of(text, backend, 0), store=None)
    seconds = time.perf_counter() - started
    call = call_of(text, backend, 1)
    judge = Exhaustive(call, call.space(backend.name), backend, ROUNDS)
    choice, default = tuning.config, tuning.default or tuning.config
    result = {
        "pipeline": name,
        "factor": factor,
        "tuning_seconds": seconds,
        "of": tuning.of,
        "measured": len(tuning.measured),
        "config": choice,
        "best": judge.best,
        "default": default,
        "over_best": judge.ratio(choice, judge.best),
        "over_default": judge.ratio(choice, default),
        "seconds": judge.seconds(choice),
        "failures": judge.failures,
    }
    print(" | ".join(row(result)), flush=True)
    return result


def row(sample: dict[str, Any]) -> list[str]:
    config = "the default" if sample["config"] == sample["default"] else show_config(sample["config"])
    best = "the choice" if sample["config"] == sample["best"] else show_config(sample["best"])
    return [
        f"{sample['pipeline']} x {sample['factor']}",
        f"{sample['seconds'] * 1e6:.1f}",
        f"{1 / sample['over_default']:.2f}",
        f"{sample['over_best']:.3f}",
        f"{sample['measured']} of {sample['of']}",
        f"{sample['tuning_seconds']:.1f}",
        config,
        best,
    ]


def targets(samples: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    off = [each["over_best"] for each in samples]
    slower = [each["over_default"] for each in samples]
    seconds = [each["tuning_seconds"] for each in samples]
    count = len(samples)
    yield {
        "what": f"within {MOST_OFF - 1:.0%} of the best of all configurations",
        "measured": f"{sum(each <= MOST_OFF for each in off)} of {count}, {max(off):.3f} times it at most",
        "met": max(off) <= MOST_OFF,
    }
    yield {
        "what": f"none slower than the default by more than {MOST_SLOWER - 1:.0%}",
        "measured": f"{max(slower):.3f} times its time at most, {geometric_mean(slower):.3f} in the mean",
        "met": max(slower) <= MOST_SLOWER,
    }
    yield {
        "what": f"tuned in {MOST_SECONDS:.0f} seconds",
        "measured": f"{max(seconds):.1f} at most",
        "met": max(seconds) <= MOST_SECONDS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--pipelines", nargs="*", default=PIPELINES, choices=PIPELINES)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop to begin calls after")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="the folder to write to (bench/results)"
    )
    args = parser.parse_args()
    backend: Any = dispatcher(args.target)
    draw = random.Random(0)
    low, high = FACTORS[args.target]
    started = time.perf_counter()
    samples = []
    for name in args.pipelines:
        drawn = round(low * (high / low) ** draw.random())
        samples += [
            sample(name, factor, backend)
            for factor in (FACTOR[args.target], drawn)
            if time.perf_counter() - started < args.seconds
        ]
    gpu = {"gpu": backend.facts.name} if args.target == "cuda" else {}
    packages = [p for p in ("pycuda", "llvmlite", "numpy", "torch") if p in sys.modules]
    save(
        args.results / f"autotune_pipelines_{args.target}.json",
        {
            "name": "autotune_pipelines",
            "arguments": f"--target {args.target}",
            "title": f"Pipelines tuned, on {'a GPU' if gpu else 'the CPU'}",
            "about": " ".join((__doc__ or "").split("\n\n", 1)[1].split()),
            "date": today(),
            "machine": {**machine(), **gpu},
            "versions": {package: importlib.metadata.version(package) for package in packages},
            "absent": [],
            "tables": [
                {
                    "caption": "Microseconds of a call as chosen, the default's time over it, and its time over that of the best",
                    "columns": ["pipeline", "us", "gain", "over the best", "measured", "seconds to tune", "choice", "best"],
                    "rows": [row(each) for each in samples],
                }
            ],
            "targets": list(targets(samples)),
            "samples": samples,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
