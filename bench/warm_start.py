"""The second run of a program, caches warm, beside Triton and CuPy:  python bench/warm_start.py

Whole processes that compute one row softmax on a GPU and write the result: vyre-run on a text,
and a script each for Triton and for CuPy's RawModule (NVRTC).  Each tool has a cache folder of its
own, filled by a run that is not counted; "cold" is a run with an empty one.
"""

from __future__ import annotations

import importlib.metadata
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
from ptx_tools import CUDA_TEXT, ROWS, THREADS, vyre_text

RESULT = Path(__file__).parent / "results" / "warm_start.json"
COLUMNS, ROUNDS = 1024, 7

TRITON = f"""
import numpy, torch, triton_softmax
x = torch.from_numpy(numpy.load("x.npy")).cuda()
y = torch.empty_like(x)
triton_softmax.softmax_columns[({ROWS},)](x, y, columns={COLUMNS}, block={COLUMNS}, num_warps=4)
numpy.save("y.npy", y.cpu().numpy())
"""

CUPY = f"""
import cupy, numpy
x = cupy.asarray(numpy.load("x.npy"))
y = cupy.empty_like(x)
module = cupy.RawModule(code=open("softmax.cu").read(), options=("-DCOLUMNS={COLUMNS}", "-DTHREADS={THREADS}"))
module.get_function("softmax")(({ROWS},), ({THREADS},), (x, y))
numpy.save("y.npy", y.get())
"""

OURS = "import sys; from vyre_opt.cli.run import main; sys.exit(main())"
COMMANDS = {
    "vyre-run": [
        *(sys.executable, "-c", OURS, "softmax.vyre", "--target=cuda", "--entry=softmax", f"--grid={ROWS}"),
        *("--in", "x=x.npy", "--out", "y=y.npy"),
    ],
    "Triton": [sys.executable, "-c", TRITON],
    "CuPy": [sys.executable, "-c", CUPY],
}


def prepare(folder: Path) -> Any:
    """The texts and the input; the result that is wanted."""
    import numpy as np

    x = np.random.default_rng(1).standard_normal((ROWS, COLUMNS), np.float32)
    np.save(folder / "x.npy", x)
    (folder / "softmax.vyre").write_text(vyre_text(COLUMNS))
    (folder / "softmax.cu").write_text(CUDA_TEXT)
    powers = np.exp(x.astype(np.float64))
    return powers / powers.sum(axis=1, keepdims=True)


def run_once(tool: str, folder: Path, caches: Path, expected: Any) -> float:
    """Seconds of the process.  Stops the benchmark if it fails or its result is wrong."""
    import numpy as np

    known = {
        **os.environ,
        "VYRE_CACHE_DIR": str(caches / "vyre"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "CUPY_CACHE_DIR": str(caches / "cupy"),
        "CUDA_CACHE_PATH": str(caches / "driver"),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
    }
    result = folder / "y.npy"
    result.unlink(missing_ok=True)
    started = time.perf_counter()
    ran = subprocess.run(COMMANDS[tool], cwd=folder, env=known, capture_output=True, text=True)
    elapsed = time.perf_counter() - started
    if ran.returncode:
        sys.exit(f"{tool} failed: {ran.stderr[-2000:]}")
    error = np.abs(np.load(result).reshape(expected.shape) / expected - 1).max()
    if not error < 1e-4:
        sys.exit(f"{tool}: wrong softmax, relative error {error}")
    return elapsed


def main() -> None:
    seconds: dict[str, dict[str, list[float]]] = {tool: {"cold": [], "warm": []} for tool in COMMANDS}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        expected = prepare(folder)
        for tool in COMMANDS:  # imports its packages' byte code
            run_once(tool, folder, folder / "first", expected)
        for number in range(ROUNDS):
            for tool in COMMANDS:
                caches = folder / f"caches{number}"
                seconds[tool]["cold"].append(run_once(tool, folder, caches, expected))
                seconds[tool]["warm"].append(run_once(tool, folder, caches, expected))
            shutil.rmtree(folder / f"caches{number}")
    figures = {
        tool: {kind: median(times) for kind, times in by_kind.items()} for tool, by_kind in seconds.items()
    }
    ours = figures["vyre-run"]["warm"]
    ratios = {tool: figures[tool]["warm"] / ours for tool in COMMANDS if tool != "vyre-run"}
    result = {
        "name": "warm_start",
        "title": "The second run of a program",
        "about": f"Whole processes that read {ROWS} rows of {COLUMNS} f32, compute their softmax on the GPU and "
        "write it: vyre-run on a text, and a script each for Triton (with torch) and CuPy's RawModule (NVRTC).  "
        "Cold: all caches empty, the driver's too.  Warm: the same command again.  Medians, imports included.",
        "date": today(),
        "machine": machine(),
        "versions": {p: importlib.metadata.version(p) for p in ("triton", "torch", "llvmlite")},
        "absent": [],
        "tables": [
            {
                "caption": "Seconds of a process, and the peer's warm time over ours",
                "columns": ["", "cold", "warm", "warm / ours"],
                "rows": [
                    [
                        tool,
                        f"{by_kind['cold']:.2f}",
                        f"{by_kind['warm']:.2f}",
                        f"{by_kind['warm'] / ours:.2f}",
                    ]
                    for tool, by_kind in figures.items()
                ],
            }
        ],
        "targets": [
            {
                "what": f"a warm start faster than {tool}'s",
                "measured": f"{ratio:.2f} times",
                "met": ratio > 1,
            }
            for tool, ratio in ratios.items()
        ],
        "samples": seconds,
    }
    print(figures)
    save(RESULT, result)


if __name__ == "__main__":
    main()
