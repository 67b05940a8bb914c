"""Chains of small stages on a GPU, launched, as a CUDA graph, and fused:  python bench/launch_fusion_gpu.py

A stage is y = a x + b over f32.  Launch-bound: 64 KiB and 2 to 64 stages, where a launch costs more
than the work.  Memory-bound: 256 MiB and 2 to 16 stages, where bytes are all that counts.  Fused is
what the default pipeline makes of the same text.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from gpu_timing import Run, copy_bandwidth, in_turn, target
from measure import machine, save, today

from vyre_opt import PassManager, parse
from vyre_opt.ir.pipeline import Launch
from vyre_opt.ir.program import Module
from vyre_opt.targets.cuda import CudaDispatcher
from vyre_opt.targets.cuda.graph import LaunchGraph

RESULT = Path(__file__).parent / "results" / "launch_fusion_gpu.json"
SMALL, LARGE = 64 << 10, 256 << 20
CASES = [(SMALL, stages) for stages in (2, 4, 8, 16, 32, 64)] + [(LARGE, stages) for stages in (2, 4, 8, 16)]


def chain_text(stages: int, count: int) -> str:
    """A pipeline of `stages` launches over `count` elements: @x0 -> @x1 -> ... -> @x<stages>."""
    lines = ["vyre 1"]
    for k in range(stages):
        lines += [
            f"program @stage{k} workgroup(256) {{",
            f"  buffer @x : f32[{count}] read binding(0)",
            f"  buffer @y : f32[{count}] write binding(1) live_out",
            "  %g = global_id x",
            "  %v = load @x[%g] : f32",
            f"  %a = const {factor(k)} : f32",
            f"  %b = const {float(k)} : f32",
            "  %w = fma %v, %a, %b : f32",
            "  store %w, @y[%g] : f32",
            "}",
        ]
    lines.append("pipeline @main {")
    for k in range(stages + 1):
        access = " read" if k == 0 else " write live_out" if k == stages else ""
        lines.append(f"  buffer @x{k} : f32[{count}]{access}")
    lines += [f"  launch @stage{k} grid({count // 256}) (@x{k}, @x{k + 1})" for k in range(stages)]
    return "\n".join([*lines, "}", ""])


def factor(k: int) -> float:
    return (0.5, 1.25, -0.75, 0.875)[k % 4]


def expected(x: Any, stages: int) -> Any:
    for k in range(stages):
        x = x * factor(k) + k
    return x


def launches(gpu: CudaDispatcher, module: Module, arrays: dict[str, Any]) -> list[Any]:
    """The pipeline's launches, bound to arrays."""
    pipeline = module.pipelines["main"]
    bound = []
    for stage in pipeline.walk():
        assert isinstance(stage, Launch)
        passed = [arrays[name] for name in stage.buffers]
        grid = stage.workgroups(pipeline.static_lengths)
        bound.append(gpu.bind(module.programs[stage.program], passed, grid, module=module))
    return bound


def graph_of(gpu: CudaDispatcher, bound: list[Any]) -> LaunchGraph:
    graph = LaunchGraph(gpu)
    with graph.record() as stream:
        for launch in bound:
            launch.run(stream)
    return graph


def run_all(bound: list[Any], stream: Any) -> None:
    for launch in bound:
        launch.run(stream)


def runs(size: int, stages: int) -> tuple[dict[str, Run], int]:
    """What is timed, and the launches that are left after fusion."""
    import torch

    count = size // 4
    arrays = {f"x{k}": torch.empty(count, device="cuda") for k in (0, stages)}
    between = [torch.empty(count, device="cuda") for _ in range(min(stages - 1, 2))]
    arrays |= {f"x{k}": between[k % len(between)] for k in range(1, stages)}
    arrays["x0"].normal_()
    gpu = CudaDispatcher(bounds="none")
    plain = parse(chain_text(stages, count))
    fused = parse(chain_text(stages, count))
    PassManager("default", target="sm_90").run(fused)
    ways = {"unfused": launches(gpu, plain, arrays), "fused": launches(gpu, fused, arrays)}
    stream = torch.cuda.current_stream()
    reference = expected(arrays["x0"].double(), stages)
    runs: dict[str, Run] = {}
    for name, bound in ways.items():
        runs[name] = partial(run_all, bound, stream)
        runs[f"{name} graph"] = partial(graph_of(gpu, bound).replay, stream)
        for run in (runs[name], runs[f"{name} graph"]):
            arrays[f"x{stages}"].fill_(float("nan"))
            run()
            if not torch.allclose(arrays[f"x{stages}"].double(), reference, rtol=1e-4, atol=1e-3):
                sys.exit(f"wrong results: {stages} stages, {name}")
    return runs, len(ways["fused"])


def samples(bandwidth: float) -> Iterator[dict[str, Any]]:
    for size, stages in CASES:
        timed, left = runs(size, stages)
        bytes_moved = {"unfused": 2 * size * stages, "fused": 2 * size * left}
        yield {
            "bytes": size,
            "stages": stages,
            "launches": left,
            "seconds": in_turn(timed),
            "moved": bytes_moved,
            "limit": 2 * size / bandwidth,
        }


def row(sample: dict[str, Any]) -> list[str]:
    seconds = sample["seconds"]
    names = ("unfused", "unfused graph", "fused", "fused graph")
    best = min(seconds["fused"], seconds["fused graph"])
    return [
        f"{sample['stages']} x {sample['bytes'] >> 10:,} KiB",
        str(sample["launches"]),
        *(f"{seconds[name] * 1e6:.1f}" for name in names),
        f"{sample['limit'] * 1e6:.1f}",
        f"{seconds['unfused graph'] / best:.2f}",
        f"{sample['moved']['unfused'] / sample['moved']['fused']:.1f}",
    ]


def speedup(sample: dict[str, Any]) -> float:
    seconds = sample["seconds"]
    return float(seconds["unfused graph"] / min(seconds["fused"], seconds["fused graph"]))


def main() -> None:
    import torch

    bandwidth = copy_bandwidth()
    results = []
    for sample in samples(bandwidth):
        results.append(sample)
        print(" | ".join(row(sample)), flush=True)
    longest = [speedup(s) for s in results if s["bytes"] == SMALL and s["stages"] == 64]
    byte_share = [
        speedup(s) * s["moved"]["fused"] / s["moved"]["unfused"] for s in results if s["bytes"] == LARGE
    ]
    result: dict[str, Any] = {
        "name": "launch_fusion_gpu",
        "title": "Launch fusion on a GPU",
        "about": "Chains of y = a x + b over f32: each stage launched, all stages as one CUDA graph, and what the "
        "default pipeline makes of the text, launched and as a graph.  Bytes are those that the launches must "
        f"move; the limit is one read and one write at the bandwidth of a copy ({bandwidth / 1e12:.2f} TB/s).",
        "date": today(),
        "machine": {**machine(), "gpu": torch.cuda.get_device_name()},
        "versions": {p: importlib.metadata.version(p) for p in ("torch", "llvmlite", "numpy")},
        "absent": [],
        "tables": [
            {
                "caption": "Microseconds; launches left by fusion; the graph's time over the fused one; bytes likewise",
                "columns": "stages|launches left|launches us|graph us|fused us|fused graph us|limit us|graph / fused|"
                "bytes / fused bytes".split("|"),
                "rows": [row(sample) for sample in results],
            }
        ],
        "targets": [
            target("64 stages of 64 KiB: 5 times over the graph", longest, 5),
            target("256 MiB: the byte ratio in time, as a share", byte_share, 0.9),
        ],
        "samples": results,
    }
    save(RESULT, result)


if __name__ == "__main__":
    main()
