"""Tuned against default schedules on a GPU, and against all there are:  python bench/autotune_gpu.py [--shape NAME]

Softmax, tensor-train embedding, and decode and search: 20 shapes each, and some that are drawn at random.  For each shape
the tuner starts at the default schedule and measures a quarter of the space at most.  Then every configuration of the
space runs once more in turn, on fresh arrays that the tuner never saw: half of the rounds say which is the best of all, so
that it is not the luckiest, and what is reported comes from the others.  Shapes that are not run keep the rows of
an earlier run.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import scan_inputs  # noqa: F401 - its path has `support`
from autotune_workloads import BF16, F32, Make, embedding, softmax
from exhaustive import Exhaustive
from measure import machine, save, today
from support.search_workload import SearchWorkload

from vyre_opt.tuning.space import show_config
from vyre_opt.tuning.tuner import autotune

RESULTS = Path(__file__).parent / "results"
KERNELS = ("softmax", "embedding", "decode_scan")
DRAWN = 4
ROUNDS = 8
MOST_ELEMENTS = 1 << 25
MIB = 1 << 20

SOFTMAX = [(4096, c) for c in (64, 128, 256, 384, 512, 768, 1000, 1024, 1536, 2048, 3072, 4096, 6144, 8192)]
SOFTMAX += [(256, 16384), (1024, 32768), (32768, 256), (65536, 128), (128, 65536), (16384, 1024)]
RANKS = (8, 16, 32, 64)
LOOKUPS = (1024, 4096, 16384, 65536, 131072)
TEXTS = [
    MIB * k // 4 for k in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256)
]


def shapes(kind: str) -> list[tuple[str, Make]]:
    """Twenty of a kernel, each with its name."""
    if kind == "softmax":
        return [
            (f"{r} x {c} {t}", lambda r=r, c=c, t=t: softmax(r, c, t))  # type: ignore[misc]
            for k, (r, c) in enumerate(SOFTMAX)
            for t in ((F32, BF16)[k % 2],)
        ]
    if kind == "embedding":
        return [
            (f"{n} lookups, rank {r}", lambda n=n, r=r: embedding(n, r))  # type: ignore[misc]
            for r in RANKS
            for n in LOOKUPS
        ]
    return [(f"{size / MIB:.2f} MiB", lambda size=size: SearchWorkload(size)) for size in TEXTS]  # type: ignore[misc]


def drawn(kind: str, count: int) -> list[tuple[str, Make]]:
    """Shapes drawn at random, sizes by their logarithm."""
    draw = random.Random(kind)

    def between(low: int, high: int) -> int:
        return round(low * float((high / low) ** draw.random()))

    cases: list[tuple[str, Make]] = []
    for _ in range(count):
        if kind == "softmax":
            columns, dtype = between(4, 4096) * draw.choice((7, 8)), draw.choice((F32, BF16))
            rows = between(64, max(64, MOST_ELEMENTS // columns))
            cases.append((f"{rows} x {columns} {dtype}", partial(softmax, rows, columns, dtype)))
        elif kind == "embedding":
            lookups, rank = between(512, 262144), 4 * between(1, 20)
            cases.append((f"{lookups} lookups, rank {rank}", partial(embedding, lookups, rank)))
        else:
            size = 256 * between(256, 1 << 18)
            cases.append((f"{size / MIB:.2f} MiB", partial(SearchWorkload, size)))
    return cases


def sample(kind: str, name: str, make: Make, dispatcher: Any) -> dict[str, Any]:
    started = time.perf_counter()
    tuning = autotune(make(), dispatcher=dispatcher, store=None)
    tuned = time.perf_counter() - started
    fresh = make()  # arrays of its own
    judge = Exhaustive(fresh, fresh.space("cuda"), dispatcher, ROUNDS)
    choice, default = tuning.config, tuning.default or tuning.config
    result: dict[str, Any] = {
        "kernel": kind,
        "shape": name,
        "gain": judge.ratio(default, choice),
        "default_over_best": judge.ratio(default, judge.best),
        "choice_over_best": judge.ratio(choice, judge.best),
        "seconds": judge.seconds(choice),
        "config": choice,
        "default": default,
        "best": judge.best,
        "measured": len(tuning.measured),
        "of": tuning.of,
        "tuning_seconds": tuned,
        "seconds_of_all": time.perf_counter() - started - tuned,
        "failures": judge.failures,
    }
    print(" | ".join([*row(result), f"{result['seconds_of_all']:.1f}", *result["failures"]]), flush=True)
    return result


def _key(sample: dict[str, Any]) -> tuple[str, str]:
    return sample["kernel"], sample["shape"]


def row(sample: dict[str, Any]) -> list[str]:
    config = "the default" if sample["config"] == sample["default"] else show_config(sample["config"])
    best = "the default" if sample["best"] == sample["default"] else show_config(sample["best"])
    return [
        f"{sample['kernel']} {sample['shape']}",
        f"{sample['seconds'] * 1e6:.1f}",
        f"{sample['gain']:.2f}",
        f"{sample['default_over_best']:.3f}",
        f"{sample['choice_over_best']:.3f}",
        f"{sample['measured']} of {sample['of']}",
        f"{sample['tuning_seconds']:.1f}",
        config,
        "the choice" if best == config else best,
    ]


def targets(samples: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for kind in dict.fromkeys(sample["kernel"] for sample in samples):
        gains = [sample["gain"] for sample in samples if sample["kernel"] == kind]
        yield {
            "what": f"{kind}: never slower than the default by more than 2 %",
            "measured": f"{min(gains):.2f} at worst, {geometric_mean(gains):.2f} in the mean, "
            f"{max(gains):.2f} at best, of {len(gains)} shapes",
            "met": min(gains) >= 0.98,
        }
        off = [sample["default_over_best"] for sample in samples if sample["kernel"] == kind]
        yield {
            "what": f"{kind}: the default within 5 % of the best of all",
            "measured": f"{sum(each <= 1.05 for each in off)} of {len(off)} shapes, {geometric_mean(off):.3f} times it in the mean, "
            f"{max(off):.3f} at most",
            "met": max(off) <= 1.05,
        }


def main() -> None:
    from vyre_opt.targets.cuda import CudaDispatcher

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shape", action="append", help="only the shape of this name; may be repeated")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop to begin shapes after")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="the folder to write to (bench/results)"
    )
    parser.add_argument("kernels", nargs="*", default=[], help="softmax, embedding, decode_scan")
    args = parser.parse_args()
    dispatcher = CudaDispatcher(bounds="none")
    path, started = args.results / "autotune_gpu.json", time.perf_counter()
    rows = {} if not path.exists() else {_key(each): each for each in json.loads(path.read_text())["samples"]}
    for kind in args.kernels or KERNELS:
        for name, make in [*shapes(kind), *drawn(kind, DRAWN)]:
            is_wanted = not args.shape or name in args.shape
            if is_wanted and time.perf_counter() - started < args.seconds:
                rows[kind, name] = sample(kind, name, make, dispatcher)
                save_all(path, rows, dispatcher.facts.name)
    for each in targets(list(rows.values())):
        print(f"{each['what']}: {each['measured']} ({'met' if each['met'] else 'not met'})")


def save_all(path: Path, rows: dict[tuple[str, str], dict[str, Any]], gpu: str) -> None:
    """After each shape, so that a run that is stopped keeps what it has."""
    order = [(kind, name) for kind in KERNELS for name, _ in [*shapes(kind), *drawn(kind, DRAWN)]]
    samples = [rows[key] for key in order if key in rows]
    result = {
        "name": "autotune_gpu",
        "title": "Tuned against default schedules on a GPU",
        "about": " ".join((__doc__ or "").split("\n\n", 1)[1].split()),
        "date": today(),
        "machine": {**machine(), "gpu": gpu},
        "versions": {p: importlib.metadata.version(p) for p in ("pycuda", "llvmlite", "numpy")},
        "absent": [],
        "tables": [
            {
                "caption": "Microseconds at the choice, the default's time over it, and that of both over the best of all",
                "columns": [
                    "shape",
                    "tuned us",
                    "gain",
                    "default / best",
                    "choice / best",
                    "measured",
                    "seconds to tune",
                    "choice",
                    "best",
                ],
                "rows": [row(each) for each in samples],
            }
        ],
        "targets": list(targets(samples)),
        "samples": samples,
    }
    save(path, result)


if __name__ == "__main__":
    main()
