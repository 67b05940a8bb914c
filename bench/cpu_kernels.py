"""Softmax and prefix sums on the CPU, beside NumPy and torch in the same run:  python bench/cpu_kernels.py

Every function takes an array and gives a new one, which is dropped at once, as a caller would use
it; each is timed in bursts of its own (see bursts).  Torch is left out where it is not installed.
The limit beside each figure is the time in which this machine copies the same bytes from one array
to another that is in memory already, with as many threads as that is worth, in bursts too.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from bursts import bursts
from measure import machine, save, today

from vyre_opt.execution.processors import available

RESULT = Path(__file__).parent / "results" / "cpu_kernels.json"
SOFTMAX_SHAPES = [(4096, 256), (4096, 1024), (1024, 4096), (256, 32768), (16384, 2048)]
SCAN_COUNTS = [1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26]
LARGE_BYTES = 8 << 20
"""What a call costs in any case is no part of the targets."""

OURS = "vyre-opt"
Function = Callable[[], Any]


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


# --- what is measured: functions of one array


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    """In as few passes and arrays as NumPy allows."""
    y: np.ndarray = x - x.max(-1, keepdims=True)
    np.exp(y, out=y)
    y /= y.sum(-1, keepdims=True)
    return y


def softmax_functions(x: np.ndarray) -> dict[str, Function]:
    from vyre_opt.kernels import softmax

    functions: dict[str, Function] = {OURS: lambda: softmax(x), "numpy": lambda: numpy_softmax(x)}
    if has_torch():
        import torch

        tensor = torch.from_numpy(x)
        functions["torch"] = lambda: torch.softmax(tensor, -1).numpy()
    return functions


def scan_functions(x: np.ndarray) -> dict[str, Function]:
    """Torch has no u32 sums; its i32 sum wraps alike, and is looked at as u32."""
    from vyre_opt.kernels import prefix_scan

    functions: dict[str, Function] = {
        OURS: lambda: prefix_scan(x),
        "numpy": lambda: np.cumsum(x, dtype=x.dtype),
    }
    if has_torch():
        import torch

        tensor = torch.from_numpy(x.view(np.int32) if x.dtype == np.uint32 else x)
        functions["torch"] = lambda: torch.cumsum(tensor, 0, dtype=tensor.dtype).numpy().view(x.dtype)
    return functions


# --- measuring


def copy_function(x: np.ndarray) -> Function:
    """A copy by the threads that kernels run on, as many as it is worth."""
    from vyre_opt.targets.cpu import threads

    source, target = x.reshape(-1), np.zeros_like(x).reshape(-1)
    cores = available()
    return lambda: threads.copy_to(target, source, cores)


def samples() -> Iterator[dict[str, Any]]:
    """Every kernel, type and shape: the seconds of every function, results checked."""
    rng = np.random.default_rng(1)
    for shape in SOFTMAX_SHAPES:
        x: np.ndarray = rng.standard_normal(shape, dtype=np.float32)
        functions = softmax_functions(x)
        expected = numpy_softmax(x.astype(np.float64))
        check("softmax", x, functions, expected, 1e-5)
        yield sample("softmax", x, functions)
    for dtype in (np.uint32, np.float32):
        for count in SCAN_COUNTS:
            x = rng.integers(0, 1 << 32, count, dtype=np.uint32)
            if dtype is np.float32:
                x = rng.random(count, dtype=np.float32)
            functions = scan_functions(x)
            expected = np.cumsum(x, dtype=np.uint32 if dtype is np.uint32 else np.float64)
            check("prefix sum", x, functions, expected, 0 if dtype is np.uint32 else 1e-3)
            yield sample("prefix sum", x, functions)


def check(
    kernel: str, x: np.ndarray, functions: dict[str, Function], expected: np.ndarray, tolerance: float
) -> None:
    """Stop if ours is wrong by more than `tolerance` of the largest value, or a peer where none is allowed:
    sums of floats one after the other err by more, and NumPy's do."""
    for name, function in functions.items():
        if tolerance and name != OURS:
            continue
        got = np.asarray(function())
        if tolerance == 0:
            right = np.array_equal(got, expected)
        else:
            right = bool(np.abs(got - expected).max() <= tolerance * np.abs(expected).max())
        if not right:
            sys.exit(f"wrong {kernel} of {x.shape} {x.dtype} by {name}")


def sample(kernel: str, x: np.ndarray, functions: dict[str, Function]) -> dict[str, Any]:
    costs = bursts({**functions, "copy": copy_function(x)})
    limit = costs.pop("copy")
    return {
        "kernel": kernel,
        "shape": list(x.shape),
        "dtype": {"uint32": "u32", "float32": "f32"}[x.dtype.name],
        "bytes": 2 * x.nbytes,
        "seconds": {name: cost.seconds for name, cost in costs.items()},
        "faults": {name: cost.faults for name, cost in costs.items()},
        "limit": limit.seconds,
    }


# --- the report


def title(result: dict[str, Any]) -> str:
    return f"{result['kernel']}, {' x '.join(map(str, result['shape']))} {result['dtype']}"


def row(result: dict[str, Any]) -> list[str]:
    seconds, limit = result["seconds"], result["limit"]
    ratios = [
        f"{seconds[peer] / seconds[OURS]:.2f}" if peer in seconds else "" for peer in ("numpy", "torch")
    ]
    times = [f"{seconds[OURS] * 1e3:.3f}", f"{limit * 1e3:.3f}", f"{limit / seconds[OURS]:.2f}"]
    return [title(result), *times, *ratios]


def fault_row(result: dict[str, Any]) -> list[str]:
    faults = result["faults"]
    return [
        title(result),
        *(f"{faults[name]:.0f}" if name in faults else "" for name in (OURS, "numpy", "torch")),
    ]


def target(results: list[dict[str, Any]], kernel: str, peer: str) -> dict[str, Any]:
    large = [s for s in results if s["kernel"] == kernel and s["bytes"] >= LARGE_BYTES]
    ratios = [s["seconds"][peer] / s["seconds"][OURS] for s in large]
    measured = f"{min(ratios):.2f} at worst, {geometric_mean(ratios):.2f} in the mean"
    return {
        "what": f"{kernel}: at least the speed of {peer} from {LARGE_BYTES >> 20} MiB read and written on",
        "measured": measured,
        "met": min(ratios) >= 1,
    }


def main() -> None:
    results = []
    for each in samples():
        results.append(each)
        print(" | ".join(row(each)), flush=True)
    peers = ["numpy", *(["torch"] if has_torch() else [])]
    packages = ("llvmlite", *peers)
    result = {
        "name": "cpu_kernels",
        "title": "Softmax and prefix sums on the CPU",
        "about": "The cpu target's kernels as functions on arrays, beside NumPy and torch on the same threads, all in "
        "one process; each call makes its result anew, and the result is dropped.  Each is timed in bursts with the "
        "machine to itself: a pause of 250 ms in which the others' threads fall asleep, calls that wake its own, then "
        "timed calls; the figure is the median over rounds in changing order of the bursts' medians.  A ratio is the "
        "other's time over ours: above 1 we are faster.  The limit is the time of a copy of the same bytes by as many "
        "threads as it is worth, into memory that is there already; the part of it that ours reaches includes the "
        "system's work to give memory for the result.  Memory of results comes from the same heap for all but ours of "
        "1 MiB on, whose memory is kept for the next result: the page faults show where that differs.",
        "date": today(),
        "machine": machine(),
        "versions": {p: importlib.metadata.version(p) for p in packages},
        "absent": [] if has_torch() else ["torch"],
        "tables": [
            {
                "caption": "Milliseconds of ours and of the limit, the part of the limit reached, and ratios",
                "columns": ["kernel", "ours ms", "limit ms", "limit / ours", "numpy / ours", "torch / ours"],
                "rows": [row(s) for s in results],
            },
            {
                "caption": "Page faults a call",
                "columns": ["kernel", "ours", "numpy", "torch"],
                "rows": [fault_row(s) for s in results],
            },
        ],
        "targets": [target(results, k, p) for k in ("softmax", "prefix sum") for p in peers],
        "samples": results,
    }
    save(RESULT, result)


if __name__ == "__main__":
    main()
