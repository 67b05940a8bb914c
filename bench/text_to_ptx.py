"""From a kernel's text to PTX, and to its first result, beside NVRTC and Triton:  python bench/text_to_ptx.py

    [--quick] [--no-gpu] [--rounds N]

The row softmax of f32, of a number of columns that is part of the text, so that no compiler can
keep anything from one to the next.  Each tool runs in processes of its own, in turn; the caches of
all are off or empty.  --no-gpu leaves out Triton, which asks the GPU for its target, and launches.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from measure import machine, save, today

BENCH = Path(__file__).parent
RESULT = BENCH / "results" / "text_to_ptx.json"
PACKAGES = {
    "vyre-opt": ("llvmlite",),
    "NVRTC": ("cuda-bindings",),
    "CuPy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"),
    "Triton": ("triton", "torch"),
}
SHARE = 0.25  # of NVRTC's time, at most


def environment(folder: Path, tables: Path) -> dict[str, str]:
    """Fresh caches: nothing of Triton's or the driver's, and of vyre-opt only the grammar's tables."""
    ours = folder / "vyre"
    shutil.copytree(tables, ours)
    return {
        **os.environ,
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "CUDA_CACHE_DISABLE": "1",
        "CUPY_CACHE_DIR": str(folder / "cupy"),
        "VYRE_CACHE_DIR": str(ours),
    }


def grammar_tables(folder: Path) -> None:
    """As any earlier use of vyre-opt on this machine leaves them."""
    command = [sys.executable, "-c", "import vyre_opt; vyre_opt.parse('vyre 1\\n')"]
    subprocess.run(command, env={**os.environ, "VYRE_CACHE_DIR": str(folder)}, check=True)
    folder.mkdir(exist_ok=True)


def one_process(tool: str, launch: bool, tables: Path) -> dict[str, Any]:
    """What ptx_tools says, with `ready` counted from the start of the process.  Raises RuntimeError."""
    command = [sys.executable, str(BENCH / "ptx_tools.py"), tool, *(["--launch"] if launch else [])]
    with tempfile.TemporaryDirectory() as folder:
        known = environment(Path(folder), tables)
        started = time.monotonic()
        ran = subprocess.run(command, env=known, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError((ran.stderr.strip() or ran.stdout).splitlines()[-1])
    report: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    report["ready"] -= started
    report["imported"] -= started
    return report


def measure(
    tools: list[str], rounds: int, launch: bool
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """The processes of each tool, after one round that is not counted; and why a tool is absent."""
    runs: dict[str, list[dict[str, Any]]] = {tool: [] for tool in tools}
    absent: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        tables = Path(folder) / "tables"
        grammar_tables(tables)
        for number in range(rounds + 1):
            for tool in tools:
                if tool in absent:
                    continue
                try:
                    run = one_process(tool, launch, tables)
                except RuntimeError as wrong:
                    absent[tool] = str(wrong)
                    print(f"{tool} is left out: {wrong}", file=sys.stderr)
                    continue
                if run.get("error", 0.0) > 1e-4:
                    sys.exit(f"{tool}: wrong softmax, relative error {run['error']}")
                if number:
                    runs[tool].append(run)
            print(f"round {number} of {rounds}", file=sys.stderr)
    return {tool: tool_runs for tool, tool_runs in runs.items() if tool_runs}, absent


def figures(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Medians in ms: of processes for what is first, of all later kernels of all processes for what is warm."""

    def middle(values: list[float]) -> float:
        return median(values) * 1e3

    times = {
        "process to PTX": middle([run["ready"] for run in runs]),
        "first text to PTX": middle([run["ptx"][0] for run in runs]),
        "next text to PTX": middle([seconds for run in runs for seconds in run["ptx"][1:]]),
    }
    if "launch" in runs[0]:
        times["first text to result"] = middle([run["launch"][0] for run in runs])
        times["next text to result"] = middle([seconds for run in runs for seconds in run["launch"][1:]])
    return times


def splits(runs: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Where our time goes, in ms: of the first text, and of later ones."""
    names = list(runs[0]["splits"][0])
    return {
        name: (
            median(run["splits"][0][name] for run in runs) * 1e3,
            median(split[name] for run in runs for split in run["splits"][1:]) * 1e3,
        )
        for name in names
    }


def tables(milliseconds: dict[str, dict[str, float]], ours: list[dict[str, Any]]) -> list[dict[str, Any]]:
    stages = list(milliseconds["vyre-opt"])
    rows = [[tool, *(f"{times[stage]:.1f}" for stage in stages)] for tool, times in milliseconds.items()]
    parts = splits(ours)
    return [
        {"caption": "Milliseconds", "columns": ["", *stages], "rows": rows},
        {
            "caption": "vyre-opt's own, in milliseconds",
            "columns": ["text", *parts],
            "rows": [
                ["first", *(f"{first:.1f}" for first, _ in parts.values())],
                ["next", *(f"{later:.1f}" for _, later in parts.values())],
            ],
        },
    ]


def targets(milliseconds: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    rows = []
    for peer, shown in (("CuPy", "NVRTC's through CuPy"), ("NVRTC", "bare NVRTC's")):
        for stage in milliseconds.get(peer, ()):
            ratio = milliseconds["vyre-opt"][stage] / milliseconds[peer][stage]
            what = f"{stage} in a quarter of {shown} time"
            rows.append({"what": what, "measured": f"{ratio:.2f} of it", "met": ratio <= SHARE})
    return rows


def versions(tools: list[str]) -> dict[str, str]:
    """Of the packages that are there under one of their names."""
    releases = {}
    for package in (package for tool in tools for package in PACKAGES[tool]):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            releases[package] = importlib.metadata.version(package)
    return releases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two rounds; nothing is saved")
    parser.add_argument("--no-gpu", action="store_true", help="PTX alone, without Triton; nothing is saved")
    parser.add_argument("--rounds", type=int, default=5, help="counted processes of each tool (5)")
    args = parser.parse_args()
    tools = ["vyre-opt", "NVRTC"] if args.no_gpu else list(PACKAGES)
    runs, absent = measure(tools, 2 if args.quick else args.rounds, not args.no_gpu)
    if "vyre-opt" not in runs:
        sys.exit("vyre-opt itself did not run")
    milliseconds = {tool: figures(tool_runs) for tool, tool_runs in runs.items()}
    result: dict[str, Any] = {
        "name": "text_to_ptx",
        "title": "From text to PTX, and to a result",
        "about": "The row softmax of f32, its number of columns another one each time.  Process to PTX: from the "
        "start of a Python process, imports included.  First text: in a process that has imported everything and "
        "loaded its libraries.  Next text: in the same process.  To a result: compiled, loaded, launched over "
        "256 rows and waited for, the context and the input being on the GPU.  NVRTC compiles a softmax that "
        "includes nothing, to a cubin where it is launched, bare and as CuPy's users have it; Triton's PTX is "
        "taken before it calls ptxas.  To a result the driver's compiler works on our PTX, and that alone takes "
        "longer than a quarter of NVRTC's whole time.  Caches on disk are empty, but for the tables of "
        "vyre-opt's grammar.  The figures are medians.",
        "date": today(),
        "machine": machine(),
        "versions": versions(list(milliseconds)),
        "absent": list(absent),
        "tables": tables(milliseconds, runs["vyre-opt"]),
        "targets": targets(milliseconds),
        "samples": runs,
    }
    for tool, times in milliseconds.items():
        print(f"{tool:9}", " | ".join(f"{stage} {ms:.1f} ms" for stage, ms in times.items()))
    for met in result["targets"]:
        print(f"{'met   ' if met['met'] else 'NOT MET'} {met['what']}: {met['measured']}")
    if not (args.quick or args.no_gpu):
        result["machine"]["gpu"] = gpu_name()
        save(RESULT, result)


def gpu_name() -> str:
    from vyre_opt.targets.cuda import CudaDispatcher

    return CudaDispatcher().facts.name


if __name__ == "__main__":
    main()
