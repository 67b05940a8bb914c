"""math.matmul on one thread of the CPU, beside NumPy's product in the same run:  python bench/matmul.py

Both are called with the arrays of the caller and make a new result.  NumPy's OpenBLAS gets one thread by the
environment, which it reads when it is loaded: this script sets it for itself.  Of f16 and bf16 the figure beside ours is
NumPy's of f32, since what NumPy has for them is a hundred times slower, or nothing.
"""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path
from statistics import geometric_mean
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import numpy as np
from bursts import bursts
from measure import machine, save, today

from vyre_opt import dispatcher
from vyre_opt.kernels import matmul

RESULT = Path(__file__).parent / "results" / "matmul.json"
SQUARES = (64, 128, 256, 512, 1024, 2048)
ODD = ((257, 263, 269), (1009, 1013, 1019), (1000, 33, 1000), (50, 70, 3000), (100, 2000, 64))
THIN = ((1, 2048, 2048), (4, 2048, 2048), (13, 1000, 1000), (2048, 7, 2048), (1500, 1, 700))
HALVES = ((256, 256, 256), (1024, 1024, 1024), (1009, 1013, 1019))
LEAST_RATIO, LEAST_SIZE = 0.3, 256

OURS, NUMPY = "vyre-opt", "numpy"


def sample(kind: str, dtype: str, shape: tuple[int, int, int], cpu: Any) -> dict[str, Any]:
    """Seconds of a product of rows x depth by depth x columns by both; ours is checked."""
    rows, columns, depth = shape
    rng = np.random.default_rng(rows)
    drawn = [rng.standard_normal(size, dtype=np.float32) for size in ((rows, depth), (depth, columns))]
    (x, a), (y, b) = (stored(dtype, numbers) for numbers in drawn)
    options: dict[str, Any] = {"dtype": dtype if dtype == "bf16" else None, "result": "f32"}
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = (depth + 2) * 2.0**-22 * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    if (np.abs(matmul(x, y, dispatcher=cpu, **options) - exact) > bound).any():
        raise SystemExit(f"wrong product of {shape} of {dtype}")
    costs = bursts({OURS: lambda: matmul(x, y, dispatcher=cpu, **options), NUMPY: lambda: a @ b})
    seconds = {name: cost.seconds for name, cost in costs.items()}
    return {"kind": kind, "dtype": dtype, "shape": list(shape), "seconds": seconds}


def stored(dtype: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers in a type, bf16 as its bits and cut off, and as f32."""
    if dtype == "bf16":
        bits = (x.view(np.uint32) >> 16).astype(np.uint16)
        return bits, (bits.astype(np.uint32) << 16).view(np.float32)
    half = x.astype(np.float16) if dtype == "f16" else x
    return half, half.astype(np.float32)


def ratio(result: dict[str, Any]) -> float:
    """NumPy's time over ours."""
    return float(result["seconds"][NUMPY] / result["seconds"][OURS])


def row(result: dict[str, Any]) -> list[str]:
    rows, columns, depth = result["shape"]
    seconds = result["seconds"]
    rates = [2 * rows * columns * depth / seconds[name] * 1e-9 for name in (OURS, NUMPY)]
    times = [f"{seconds[name] * 1e3:.3f}" for name in (OURS, NUMPY)]
    title = f"{rows} x {depth} by {depth} x {columns} {result['dtype']}"
    return [title, *times, *(f"{rate:.1f}" for rate in rates), f"{ratio(result):.2f}"]


def table(caption: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    columns = ["product", "ours ms", "numpy ms", "ours GFLOP/s", "numpy GFLOP/s", "numpy / ours"]
    return {"caption": caption, "columns": columns, "rows": [row(each) for each in results]}


def main() -> None:
    cpu = dispatcher("cpu", workers=1)
    cases = [("square", "f32", (n, n, n)) for n in SQUARES]
    cases += [("odd", "f32", shape) for shape in ODD] + [("thin", "f32", shape) for shape in THIN]
    cases += [("half", dtype, shape) for dtype in ("f16", "bf16") for shape in HALVES]
    results = []
    for case in cases:
        results.append(sample(*case, cpu))
        print(" | ".join(row(results[-1])), flush=True)
    by_kind = {kind: [r for r in results if r["kind"] == kind] for kind, _, _ in cases}
    large = [r for r in by_kind["square"] if r["shape"][0] >= LEAST_SIZE] + by_kind["odd"]
    ratios = [ratio(r) for r in large]
    save(
        RESULT,
        {
            "name": "matmul",
            "title": "Matrix products on one thread of the CPU",
            "about": "`kernels.matmul` on the cpu target with one worker, beside NumPy's product (OpenBLAS) on one thread, in "
            "one process; both make their result anew.  Each is timed in bursts with the machine to itself, medians over "
            "rounds in changing order.  Above 1 in the last column ours is faster.  Of f16 and bf16 the sums and the "
            "result are f32, and NumPy's figure is that of the same numbers as f32.",
            "date": today(),
            "machine": machine(),
            "versions": {package: importlib.metadata.version(package) for package in ("llvmlite", "numpy")},
            "tables": [
                table("Squares", by_kind["square"]),
                table("Other shapes", by_kind["odd"]),
                table("A few rows or columns", by_kind["thin"]),
                table("Halves, beside NumPy's f32", by_kind["half"]),
            ],
            "targets": [
                {
                    "what": f"at least {LEAST_RATIO} of NumPy's speed at squares from {LEAST_SIZE} on and at other shapes",
                    "measured": f"{min(ratios):.2f} at worst, {geometric_mean(ratios):.2f} in the mean",
                    "met": min(ratios) >= LEAST_RATIO,
                }
            ],
            "samples": results,
        },
    )


if __name__ == "__main__":
    main()
