"""Kernels of examples/python as callers call them, beside Triton or NumPy:  python bench/python_kernels.py [--device cuda]

On a GPU the peers are those of bench/python_peers, on torch's tensors; on the CPU, NumPy.  Two figures each.  Called:
the time of a call in a row of calls that are enqueued without waiting, with one synchronization at the end, so it is
the greater of the host's time and the device's.  Device: by events around ten calls that wait in the GPU's queue.
All run once before, so that everything is compiled, and results are compared.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from call_timing import Gpu, Host, Run, Side, called, command_line, options, side_of
from gpu_timing import target
from measure import save, today
from natural_peers import numpy as by_numpy

EXAMPLES = Path(__file__).parent.parent / "examples" / "python"
MOST_ELEMENTS, QUICK_ELEMENTS = 1 << 26, 1 << 18
SECONDS = 0.03
"""For how long calls go on in a row."""

CHECKED_ELEMENTS = 1 << 22
"""Up to so many, NumPy checks results too; above, ours and the peer's are compared."""

Shape = tuple[int, ...]


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


def _stencil_arguments(rng: np.random.Generator, shape: Shape) -> list[Any]:
    return [_floats(rng, *shape), np.zeros(shape, np.float32)]


def _layernorm_arguments(rng: np.random.Generator, shape: Shape) -> list[Any]:
    x, columns = _floats(rng, *shape), shape[1]
    return [1e-5, x, _floats(rng, columns), _floats(rng, columns), np.zeros_like(x)]


def _softmax_arguments(rng: np.random.Generator, shape: Shape) -> list[Any]:
    x = _floats(rng, *shape)
    return [x, np.zeros_like(x)]


ROW_SHAPES = ((1000, 64), (64, 1024), (4096, 1024), (4096, 4096), (8192, 8192), (512, 65536), (1023, 5001))
GRID_SHAPES = ((64, 64), (1024, 1024), (4096, 4096), (8192, 8192), (1000, 3001))
VECTOR_SHAPES = ((1 << 10,), (1 << 16,), (1 << 20,), (1 << 24,), (1 << 26,), (1_000_003,))
WORKLOADS = (
    Workload("layernorm", ROW_SHAPES, _rows, _layernorm_arguments, by_numpy.layernorm),
    Workload("stencil_2d", GRID_SHAPES, _grid, _stencil_arguments, by_numpy.stencil),
    Workload("saxpy", VECTOR_SHAPES, _vector, _saxpy_arguments, by_numpy.saxpy),
    Workload("row_softmax", ROW_SHAPES, _rows, _softmax_arguments, by_numpy.softmax),
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


def peer_of(side: Side) -> str:
    return "Triton" if isinstance(side, Gpu) else "NumPy"


def run_of_peer(workload: Workload, side: Side) -> Callable[..., Any]:
    if isinstance(side, Host):
        return workload.numpy
    run: Callable[..., Any] = importlib.import_module(f"python_peers.{workload.example}").run
    return run


def sample(workload: Workload, shape: Shape, is_drawn: bool, side: Side, seconds: float) -> dict[str, Any]:
    """The seconds of ours and of the peer, after their results were compared."""
    arguments = workload.arguments(np.random.default_rng(shape), shape)
    peer = peer_of(side)
    functions = {"ours": ours(workload.example), peer: run_of_peer(workload, side)}
    arrays = {name: side.arrays(arguments) for name in functions}
    for name, function in functions.items():
        function(*arrays[name])
    side.synchronize()
    expected = arrays[peer][-1]
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
    peer = peer_of(side)
    head = ["kernel and shape", "called, ours", f"called, {peer}", "ratio"]
    if device == "cuda":
        head += ["device, ours", f"device, {peer}", "ratio"]
    ratios: dict[str, list[float]] = {}
    for each in samples:
        ratio = _ratio(each, "called", peer)
        assert ratio is not None
        ratios.setdefault(each["example"], []).append(ratio)
    packages = ("torch", "triton", "llvmlite", "numpy") if device == "cuda" else ("numpy", "llvmlite")
    return {
        "name": "python_kernels",
        "arguments": arguments,
        "title": f"Kernels in Python {'on a GPU' if device == 'cuda' else 'on the CPU'}",
        "about": f"Kernels of examples/python as callers call them, beside {peer} in the same run, after their "
        f"results were compared; shapes are listed ones, and some drawn at random, seed {seed}.  Called is the time of a "
        "call in a row of calls with one synchronization at the end, host's time included"
        + ("; device is by events around ten calls that wait in the GPU's queue" if device == "cuda" else "")
        + ".  Arrays are the same at each call, so small ones stay in caches.  A ratio is the peer's time over ours: "
        "above 1 we are faster.",
        "date": today(),
        "machine": side.facts(),
        "versions": {package: importlib.metadata.version(package) for package in packages},
        "absent": [],
        "tables": [
            {
                "caption": f"{peer}'s time of a call over ours",
                "columns": ["kernel", "shapes", "worst", "mean"],
                "rows": [
                    [name, str(len(each)), f"{min(each):.2f}", f"{geometric_mean(each):.2f}"]
                    for name, each in ratios.items()
                ],
            },
            {
                "caption": "Microseconds of a call, and ratios",
                "columns": head,
                "rows": [row(each, peer) for each in samples],
            },
        ],
        "targets": [
            target(f"as fast as {peer}, {name}, as called", ratios[name], 1.0)
            for name in ("layernorm", "stencil_2d")
            if name in ratios
        ],
        "samples": samples,
    }


def main() -> None:
    args = options(__doc__, drawn=6).parse_args()
    side = side_of(args.device)
    most, seconds = (QUICK_ELEMENTS, SECONDS / 10) if args.quick else (MOST_ELEMENTS, SECONDS)
    samples = []
    for workload, shape, is_drawn in cases(most, args.drawn, args.seed):
        samples.append(sample(workload, shape, is_drawn, side, seconds))
        print(" | ".join(row(samples[-1], peer_of(side))), flush=True)
    made = result(side, args.device, samples, command_line(args), args.seed)
    save(args.results / f"python_kernels_{args.device}.json", made)


if __name__ == "__main__":
    main()
