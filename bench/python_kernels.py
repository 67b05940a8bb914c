"""Kernels of examples/python as callers call them, beside Triton or NumPy:  python bench/python_kernels.py [--device cuda]

On a GPU the peers are those of bench/python_peers, on torch's tensors; on the CPU, NumPy.  Two figures each.  Called:
the time of a call in a row of calls that are enqueued without waiting, with one synchronization at the end, so it is
the greater of the host's time and the device's.  Device: by events around ten calls that wait in the GPU's queue.
All run once before, so that everything is compiled, and results are compared.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from gpu_timing import in_turn, relative_error, target
from measure import machine, save, today

BENCH = Path(__file__).parent
EXAMPLES = BENCH.parent / "examples" / "python"
RESULTS = BENCH / "results"
MOST_ELEMENTS, QUICK_ELEMENTS = 1 << 26, 1 << 18
ROUNDS, SECONDS = 7, 0.03
"""How often each figure is taken, and for how long calls go on in a row."""

CHECKED_ELEMENTS = 1 << 22
"""Up to so many, NumPy checks results too; above, ours and the peer's are compared."""

Shape = tuple[int, ...]
Run = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """A kernel.  `arguments`: from a shape, arrays of NumPy; `numpy` does the same to them; the last is written."""

    example: str
    shapes: tuple[Shape, ...]
    draw: Callable[[random.Random, int], Shape]
    arguments: Callable[[np.random.Generator, Shape], list[Any]]
    numpy: Callable[..., None]


def _floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def _vector(rng: random.Random, most: int) -> Shape:
    return (int(most ** rng.uniform(0.5, 1)),)


def _rows(rng: random.Random, most: int) -> Shape:
    """Rows of 256 to 32768 columns, evenly distributed by their logarithms, as all elements are."""
    columns = int(2 ** rng.uniform(8, 15))
    return max(1, int(most ** rng.uniform(0.7, 1)) // columns), columns


def _grid(rng: random.Random, most: int) -> Shape:
    columns = int(2 ** rng.uniform(6, 13))
    return max(1, int(most ** rng.uniform(0.7, 1)) // columns), columns


def _saxpy_arguments(rng: np.random.Generator, shape: Shape) -> list[Any]:
    return [0.5, _floats(rng, *shape), _floats(rng, *shape)]


def _saxpy(a: float, x: np.ndarray, y: np.ndarray) -> None:
    y += np.float32(a) * x


def _stencil_arguments(rng: np.random.Generator, shape: Shape) -> list[Any]:
    return [_floats(rng, *shape), np.zeros(shape, np.float32)]


def _stencil(x: np.ndarray, y: np.ndarray) -> None:
    y[...] = x
    y[1:-1, 1:-1] = np.float32(0.2) * (
        x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]
    )


def _layernorm_arguments(rng: np.random.Generator, shape: Shape) -> list[Any]:
    x, columns = _floats(rng, *shape), shape[1]
    return [1e-5, x, _floats(rng, columns), _floats(rng, columns), np.zeros_like(x)]


def _layernorm(eps: float, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, y: np.ndarray) -> None:
    centred = x - x.mean(1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(1, keepdims=True) + np.float32(eps))
    y[...] = centred * scale * weight + bias


def _softmax_arguments(rng: np.random.Generator, shape: Shape) -> list[Any]:
    x = _floats(rng, *shape)
    return [x, np.zeros_like(x)]


def _softmax(x: np.ndarray, y: np.ndarray) -> None:
    grown = np.exp(x - x.max(1, keepdims=True))
    y[...] = grown / grown.sum(1, keepdims=True)


ROW_SHAPES = ((1000, 64), (64, 1024), (4096, 1024), (4096, 4096), (8192, 8192), (512, 65536), (1023, 5001))
GRID_SHAPES = ((64, 64), (1024, 1024), (4096, 4096), (8192, 8192), (1000, 3001))
VECTOR_SHAPES = ((1 << 10,), (1 << 16,), (1 << 20,), (1 << 24,), (1 << 26,), (1_000_003,))
WORKLOADS = (
    Workload("layernorm", ROW_SHAPES, _rows, _layernorm_arguments, _layernorm),
    Workload("stencil_2d", GRID_SHAPES, _grid, _stencil_arguments, _stencil),
    Workload("saxpy", VECTOR_SHAPES, _vector, _saxpy_arguments, _saxpy),
    Workload("row_softmax", ROW_SHAPES, _rows, _softmax_arguments, _softmax),
)


def _elements(shape: Shape) -> int:
    return int(np.prod(shape))


def cases(most: int, drawn: int, seed: int) -> Iterator[tuple[Workload, Shape, bool]]:
    """The shapes of each workload, listed ones first; whether a shape is drawn."""
    for workload in WORKLOADS:
        rng = random.Random(f"{workload.example} {seed}")
        yield from ((workload, shape, False) for shape in workload.shapes if _elements(shape) <= most)
        yield from ((workload, workload.draw(rng, most), True) for _ in range(drawn))


def ours(example: str) -> Callable[..., Any]:
    """The example's `run`."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    run: Callable[..., Any] = importlib.import_module(example).run
    return run


class Host:
    """Arrays of NumPy."""

    peer = "NumPy"
    packages = ("numpy", "llvmlite")

    def arrays(self, arguments: list[Any]) -> list[Any]:
        return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]

    def run_of_peer(self, workload: Workload) -> Callable[..., Any]:
        return workload.numpy

    def error(self, actual: Any, expected: Any) -> float:
        return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))

    def synchronize(self) -> None:
        """Nothing: calls in main memory end before they return."""

    def device(self, runs: dict[str, Run]) -> dict[str, float]:
        return {}

    def facts(self) -> dict[str, Any]:
        return machine()


class Gpu:
    """Tensors of torch on the first GPU."""

    peer = "Triton"
    packages = ("torch", "triton", "llvmlite", "numpy")

    def arrays(self, arguments: list[Any]) -> list[Any]:
        import torch

        return [torch.from_numpy(a).cuda() if isinstance(a, np.ndarray) else a for a in arguments]

    def run_of_peer(self, workload: Workload) -> Callable[..., Any]:
        run: Callable[..., Any] = importlib.import_module(f"python_peers.{workload.example}").run
        return run

    def error(self, actual: Any, expected: Any) -> float:
        import torch

        return relative_error(actual, torch.as_tensor(expected, device=actual.device))

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize()

    def device(self, runs: dict[str, Run]) -> dict[str, float]:
        return in_turn(runs, ROUNDS)

    def facts(self) -> dict[str, Any]:
        import torch

        return {**machine(), "gpu": torch.cuda.get_device_name()}


Side = Host | Gpu


def called(runs: dict[str, Run], side: Side, seconds: float) -> dict[str, float]:
    """Seconds of a call among calls in a row, medians over rounds that do all in turn."""
    counts: dict[str, int] = {}
    for name, run in runs.items():
        run()
        counts[name] = max(1, int(seconds / _row(run, 3, side)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            times[name].append(_row(run, counts[name], side))
    return {name: median(each) for name, each in times.items()}


def _row(run: Run, count: int, side: Side) -> float:
    side.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        run()
    side.synchronize()
    return (time.perf_counter() - start) / count


def sample(workload: Workload, shape: Shape, is_drawn: bool, side: Side, seconds: float) -> dict[str, Any]:
    """The seconds of ours and of the peer, after their results were compared."""
    arguments = workload.arguments(np.random.default_rng(shape), shape)
    functions = {"ours": ours(workload.example), side.peer: side.run_of_peer(workload)}
    arrays = {name: side.arrays(arguments) for name in functions}
    for name, function in functions.items():
        function(*arrays[name])
    side.synchronize()
    expected = arrays[side.peer][-1]
    if _elements(shape) <= CHECKED_ELEMENTS:
        workload.numpy(*arguments)
        expected = arguments[-1]
    for name in functions:
        error = side.error(arrays[name][-1], expected)
        if not error < 1e-5:
            sys.exit(f"{workload.example} by {name} is wrong at {shape}: relative error {error}")
    runs: dict[str, Run] = {name: _bound(function, arrays[name]) for name, function in functions.items()}
    return {
        "example": workload.example,
        "shape": list(shape),
        "drawn": is_drawn,
        "seconds": {"called": called(runs, side, seconds), "device": side.device(runs)},
    }


def _bound(function: Callable[..., Any], arguments: list[Any]) -> Run:
    return lambda: function(*arguments)


def _ratio(each: dict[str, Any], figure: str, peer: str) -> float | None:
    seconds = each["seconds"][figure]
    return seconds[peer] / seconds["ours"] if seconds else None


def row(each: dict[str, Any], peer: str) -> list[str]:
    cells = [f"{each['example']} {' x '.join(map(str, each['shape']))}"]
    for figure in ("called", "device"):
        ratio = _ratio(each, figure, peer)
        if ratio is not None:
            seconds = each["seconds"][figure]
            cells += [f"{seconds['ours'] * 1e6:.1f}", f"{seconds[peer] * 1e6:.1f}", f"{ratio:.2f}"]
    return cells


def result(
    side: Side, device: str, samples: list[dict[str, Any]], arguments: str, seed: int
) -> dict[str, Any]:
    head = ["kernel and shape", "called, ours", f"called, {side.peer}", "ratio"]
    if device == "cuda":
        head += ["device, ours", f"device, {side.peer}", "ratio"]
    ratios: dict[str, list[float]] = {}
    for each in samples:
        ratio = _ratio(each, "called", side.peer)
        assert ratio is not None
        ratios.setdefault(each["example"], []).append(ratio)
    return {
        "name": "python_kernels",
        "arguments": arguments,
        "title": f"Kernels in Python {'on a GPU' if device == 'cuda' else 'on the CPU'}",
        "about": f"Kernels of examples/python as callers call them, beside {side.peer} in the same run, after their "
        f"results were compared; shapes are listed ones, and some drawn at random, seed {seed}.  Called is the time of a "
        "call in a row of calls with one synchronization at the end, host's time included"
        + ("; device is by events around ten calls that wait in the GPU's queue" if device == "cuda" else "")
        + ".  Arrays are the same at each call, so small ones stay in caches.  A ratio is the peer's time over ours: "
        "above 1 we are faster.",
        "date": today(),
        "machine": side.facts(),
        "versions": {package: importlib.metadata.version(package) for package in side.packages},
        "absent": [],
        "tables": [
            {
                "caption": f"{side.peer}'s time of a call over ours",
                "columns": ["kernel", "shapes", "worst", "mean"],
                "rows": [
                    [name, str(len(each)), f"{min(each):.2f}", f"{geometric_mean(each):.2f}"]
                    for name, each in ratios.items()
                ],
            },
            {
                "caption": "Microseconds of a call, and ratios",
                "columns": head,
                "rows": [row(each, side.peer) for each in samples],
            },
        ],
        "targets": [
            target(f"as fast as {side.peer}, {name}, as called", ratios[name], 1.0)
            for name in ("layernorm", "stencil_2d")
            if name in ratios
        ],
        "samples": samples,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where arrays are (cpu)")
    parser.add_argument("--quick", action="store_true", help="small shapes for a short time")
    parser.add_argument("--drawn", type=int, default=6, help="shapes drawn at random for each kernel (6)")
    parser.add_argument("--seed", type=int, default=1, help="of the shapes that are drawn (1)")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="the folder to write to (bench/results)"
    )
    args = parser.parse_args()
    side: Side = Gpu() if args.device == "cuda" else Host()
    most, seconds = (QUICK_ELEMENTS, SECONDS / 10) if args.quick else (MOST_ELEMENTS, SECONDS)
    samples = []
    for workload, shape, is_drawn in cases(most, args.drawn, args.seed):
        samples.append(sample(workload, shape, is_drawn, side, seconds))
        print(" | ".join(row(samples[-1], side.peer)), flush=True)
    arguments = f"--device {args.device} --drawn {args.drawn} --seed {args.seed}"
    arguments += " --quick" if args.quick else ""
    made = result(side, args.device, samples, arguments, args.seed)
    save(args.results / f"python_kernels_{args.device}.json", made)


if __name__ == "__main__":
    main()
