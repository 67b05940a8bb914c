"""Tuned against default schedules on a GPU, 20 shapes each:  python bench/autotune_gpu.py [--shapes N]

Softmax, tensor-train embedding, and decode and search.  For each shape the tuner starts at the default
schedule, measures a quarter of the space at most, and its choice then runs beside the default once
more, in turn: what is reported comes from that last run, whose arrays and rounds the tuner never saw.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from autotune_workloads import BF16, F32, Make, embedding, softmax
from measure import machine, save, today

from vyre_opt.tuning.measure import DispatchBench, relative
from vyre_opt.tuning.search_workload import SearchWorkload
from vyre_opt.tuning.space import Space, show_config
from vyre_opt.tuning.tuner import autotune

RESULT = Path(__file__).parent / "results" / "autotune_gpu.json"
ROUNDS = 15
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


def sample(kind: str, name: str, make: Make, dispatcher: Any) -> dict[str, Any]:
    started = time.perf_counter()
    tuning = autotune(make(), dispatcher=dispatcher, store=None)
    fresh = make()  # arrays of its own
    pair = [tuning.config, tuning.default or tuning.config]
    space = Space([{n: (v,) for n, v in config.items()} for config in pair])
    places = [space.find(config) or 0 for config in pair]
    samples = DispatchBench(fresh, space, dispatcher).samples(sorted(set(places)), ROUNDS)
    ratio = relative(samples[places[1]], samples[places[0]]) if len(space) > 1 else 1.0
    sample = {
        "kernel": kind,
        "shape": name,
        "gain": ratio,
        "seconds": sorted(samples[places[0]])[ROUNDS // 2],
        "config": tuning.config,
        "default": tuning.default,
        "measured": len(tuning.measured),
        "of": tuning.of,
        "tuning_seconds": time.perf_counter() - started,
    }
    print(" | ".join(row(sample)), flush=True)
    return sample


def row(sample: dict[str, Any]) -> list[str]:
    config = "the default" if sample["config"] == sample["default"] else show_config(sample["config"])
    return [
        f"{sample['kernel']} {sample['shape']}",
        f"{sample['seconds'] * 1e6:.1f}",
        f"{sample['gain']:.2f}",
        f"{sample['measured']} of {sample['of']}",
        f"{sample['tuning_seconds']:.1f}",
        config,
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


def main() -> None:
    from vyre_opt.cuda import CudaDispatcher

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", type=int, default=20, help="of each kernel, the first so many")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop to begin shapes after")
    parser.add_argument("kernels", nargs="*", default=[], help="softmax, embedding, decode_scan")
    args = parser.parse_args()
    dispatcher = CudaDispatcher(bounds="none")
    started = time.perf_counter()
    samples = []
    for kind in args.kernels or ("softmax", "embedding", "decode_scan"):
        for name, make in shapes(kind)[: args.shapes]:
            if time.perf_counter() - started < args.seconds:
                samples.append(sample(kind, name, make, dispatcher))
    if not samples:
        return
    result = {
        "name": "autotune_gpu",
        "title": "Tuned against default schedules on a GPU",
        "about": "The tuner starts at the default schedule, with a quarter of the rounds that the whole space "
        "would take; it sees up to a third of it.  The gain is the default's time over the choice's, both run in "
        "turn once more after tuning, on fresh arrays.",
        "date": today(),
        "machine": {**machine(), "gpu": dispatcher.facts.name},
        "versions": {p: importlib.metadata.version(p) for p in ("pycuda", "llvmlite", "numpy")},
        "absent": [],
        "tables": [
            {
                "caption": "Microseconds at the choice, and the default's time over it",
                "columns": ["shape", "tuned us", "gain", "measured", "seconds to tune", "choice"],
                "rows": [row(each) for each in samples],
            }
        ],
        "targets": list(targets(samples)),
        "samples": samples,
    }
    save(RESULT, result)
    for each in targets(samples):
        print(f"{each['what']}: {each['measured']} ({'met' if each['met'] else 'not met'})")


if __name__ == "__main__":
    main()
