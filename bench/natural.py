"""Kernels as one writes them first, beside torch or NumPy:  python bench/natural.py [--device cuda]

An element an invocation, no tile, no vector, no schedule.  On a GPU the peer is torch's operator on the same tensors, on
the CPU NumPy's on the same arrays; each writes to an array that is there.  A figure is the time of a call in a row of calls
with one synchronization at the end.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import geometric_mean
from typing import Annotated, Any

import numpy as np
from gpu_timing import target
from measure import save, today
from python_kernels import RESULTS, Gpu, Host, Shape, Side, called

import vyre_opt as vyre
from vyre_opt import Read, ReadWrite, Write, f16, f32, global_id, u8, u32

MOST, MOST_ON_CPU, QUICK = 100_000_000, 10_000_000, 100_000
SECONDS = 0.02
Matrix = Annotated[f32, :, :]


@vyre.program
def affine(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = x[i] * 2.0 + 1.0


@vyre.program
def add(a: Read[f32], b: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(y):
        y[i] = a[i] + b[i]


@vyre.program
def scale_f16(x: Read[f16], y: Write[f16]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = x[i] * f16(2.0)


@vyre.program
def widen(x: Read[u8], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = f32(x[i])


@vyre.program
def exp(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = vyre.exp(x[i])


@vyre.program
def rsqrt(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = vyre.rsqrt(x[i])


@vyre.program
def sin(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = vyre.sin(x[i])


@vyre.program
def tanh(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = vyre.tanh(x[i])


@vyre.program
def erf(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = vyre.erf(x[i])


@vyre.program
def smooth(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i > 0 and i + 1 < len(x):
        y[i] = (x[i - 1] + x[i] + x[i + 1]) * 0.25


@vyre.program(workgroup=(32, 8))
def add_rows(a: Read[Matrix], b: Read[Matrix], y: Write[Matrix]) -> None:
    j, i = global_id(0), global_id(1)
    if i < a.shape[0] and j < a.shape[1]:
        y[i, j] = a[i, j] + b[i, j]


@vyre.program(workgroup=(32, 8))
def transpose(x: Read[Matrix], y: Write[Matrix]) -> None:
    j, i = global_id(0), global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        y[j, i] = x[i, j]


@vyre.program
def histogram(x: Read[u8], bins: ReadWrite[u32]) -> None:
    i = global_id(0)
    if i < len(x):
        vyre.atomic_add(bins, x[i], 1)


@vyre.program
def count_zeros(x: Read[u8], total: ReadWrite[u32]) -> None:
    i = global_id(0)
    if i < len(x) and x[i] == 0:
        vyre.atomic_add(total, 0, 1)


@dataclass(frozen=True, slots=True)
class Natural:
    """A kernel.  `arguments`: arrays of NumPy for so many elements; `peer`: the same by NumPy or torch, which it gets first."""

    kernel: Any
    arguments: Callable[[np.random.Generator, int], list[np.ndarray]]
    peer: Callable[..., Any]
    only_torch: bool = False

    @property
    def name(self) -> str:
        return str(self.kernel.function.__name__)


def _floats(inputs: int, dtype: Any = np.float32) -> Callable[[np.random.Generator, int], list[np.ndarray]]:
    def arguments(rng: np.random.Generator, count: int) -> list[np.ndarray]:
        return [*(rng.random(count, np.float32).astype(dtype) for _ in range(inputs)), np.zeros(count, dtype)]

    return arguments


def _rows(
    inputs: int, *, is_transposed: bool = False
) -> Callable[[np.random.Generator, int], list[np.ndarray]]:
    def arguments(rng: np.random.Generator, count: int) -> list[np.ndarray]:
        columns = max(4, int(count**0.5) // 4 * 4)
        shape = (max(1, count // columns), columns)
        out = np.zeros(shape[::-1] if is_transposed else shape, np.float32)
        return [*(rng.random(shape, np.float32) for _ in range(inputs)), out]

    return arguments


def _octets(out: int | None, dtype: Any) -> Callable[[np.random.Generator, int], list[np.ndarray]]:
    def arguments(rng: np.random.Generator, count: int) -> list[np.ndarray]:
        return [rng.integers(0, 256, count, np.uint8), np.zeros(count if out is None else out, dtype)]

    return arguments


def _smooth(xp: Any, x: Any, y: Any) -> None:
    inner = y[1:-1]
    xp.add(x[:-2], x[1:-1], out=inner)
    inner += x[2:]
    inner *= 0.25


def _affine(xp: Any, x: Any, y: Any) -> None:
    xp.multiply(x, 2.0, out=y)
    y += 1.0


def _assign(xp: Any, x: Any, y: Any) -> None:
    y[...] = x


KERNELS = (
    Natural(affine, _floats(1), _affine),
    Natural(add, _floats(2), lambda xp, a, b, y: xp.add(a, b, out=y)),
    Natural(scale_f16, _floats(1, np.float16), lambda xp, x, y: xp.multiply(x, 2.0, out=y)),
    Natural(widen, _octets(None, np.float32), _assign),
    Natural(exp, _floats(1), lambda xp, x, y: xp.exp(x, out=y)),
    Natural(rsqrt, _floats(1), lambda xp, x, y: xp.rsqrt(x, out=y), only_torch=True),
    Natural(sin, _floats(1), lambda xp, x, y: xp.sin(x, out=y)),
    Natural(tanh, _floats(1), lambda xp, x, y: xp.tanh(x, out=y)),
    Natural(erf, _floats(1), lambda xp, x, y: xp.erf(x, out=y), only_torch=True),
    Natural(smooth, _floats(1), _smooth),
    Natural(add_rows, _rows(2), lambda xp, a, b, y: xp.add(a, b, out=y)),
    Natural(transpose, _rows(1, is_transposed=True), lambda xp, x, y: _assign(xp, x.T, y)),
    Natural(histogram, _octets(256, np.uint32), lambda xp, x, bins: xp.bincount(x, minlength=256)),
    Natural(count_zeros, _octets(1, np.uint32), lambda xp, x, total: (x == 0).sum()),
)


def sizes(most: int, drawn: int, seed: int) -> Iterator[tuple[int, bool]]:
    """Numbers of elements, listed ones first; whether one is drawn."""
    rng = random.Random(seed)
    yield from ((count, False) for count in (1_000, 100_000, 1_000_000, 10_000_000, MOST) if count <= most)
    yield from ((int(most ** rng.uniform(0.7, 1)), True) for _ in range(drawn))


def _grid(kernel: Any, shape: Shape) -> int | tuple[int, int]:
    lanes: tuple[int, int, int] = kernel.workgroup
    if len(shape) == 1:
        return -(-shape[0] // lanes[0])
    return -(-shape[1] // lanes[0]), -(-shape[0] // lanes[1])


def sample(each: Natural, count: int, is_drawn: bool, side: Side, seconds: float) -> dict[str, Any]:
    """The seconds of ours and of the peer, after ours was compared with the interpreter's result or the peer's."""
    arguments = each.arguments(np.random.default_rng(count), count)
    arrays, theirs = side.arrays(arguments), side.arrays(arguments)
    library = sys.modules["torch"] if isinstance(side, Gpu) else np
    launch = each.kernel.options(target="cuda" if isinstance(side, Gpu) else "cpu")[
        _grid(each.kernel, arguments[0].shape)
    ]
    launch(*arrays)
    counted = each.peer(library, *theirs)
    expected, found = (
        (theirs[-1] if counted is None or each.kernel not in (histogram, count_zeros) else counted),
        arrays[-1],
    )
    actual, wanted = (_numpy(each).astype(np.float64).reshape(-1) for each in (found, expected))
    with np.errstate(invalid="ignore"):  # infinities are equal
        difference = np.where(actual == wanted, 0, abs(actual - wanted))
    if difference.max(initial=0) > 1e-3:
        sys.exit(f"{each.name} is wrong at {count} elements")
    runs = {"ours": lambda: launch(*arrays), side.peer: lambda: each.peer(library, *theirs)}
    return {
        "kernel": each.name,
        "elements": count,
        "drawn": is_drawn,
        "seconds": called(runs, side, seconds),
    }


def _numpy(array: Any) -> np.ndarray:
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)


def result(side: Side, samples: list[dict[str, Any]], arguments: str, seed: int) -> dict[str, Any]:
    ratios: dict[str, list[float]] = {}
    for each in samples:
        if each["elements"] >= 1_000_000:
            ratios.setdefault(each["kernel"], []).append(each["seconds"][side.peer] / each["seconds"]["ours"])
    every = [ratio for several in ratios.values() for ratio in several]
    return {
        "name": "natural",
        "arguments": arguments,
        "title": f"Kernels as first written, {'on a GPU' if isinstance(side, Gpu) else 'on the CPU'}",
        "about": f"An element an invocation, without tile, vector or schedule, beside {side.peer}'s operators on the same "
        "arrays in the same run, after results were compared.  The time is that of a call in a row of calls with one "
        f"synchronization at the end.  Sizes are listed ones, and some drawn at random, seed {seed}.  A ratio is the peer's "
        "time over ours: above 1 we are faster.  smooth and affine are two or three operators of the peer.",
        "date": today(),
        "machine": side.facts(),
        "versions": {package: version(package) for package in side.packages if package != "triton"},
        "absent": [],
        "tables": [
            {
                "caption": f"{side.peer}'s time over ours, from 1,000,000 elements on",
                "columns": ["kernel", "sizes", "worst", "mean"],
                "rows": [
                    [name, str(len(each)), f"{min(each):.2f}", f"{geometric_mean(each):.2f}"]
                    for name, each in ratios.items()
                ],
            },
            {
                "caption": "Microseconds of a call",
                "columns": ["kernel and elements", "ours", side.peer, "ratio"],
                "rows": [
                    [
                        f"{each['kernel']} {each['elements']:,}",
                        *(f"{each['seconds'][who] * 1e6:.1f}" for who in ("ours", side.peer)),
                        f"{each['seconds'][side.peer] / each['seconds']['ours']:.2f}",
                    ]
                    for each in samples
                ],
            },
        ],
        "targets": [target(f"0.95 of {side.peer}, every kernel", every, 0.95)] if every else [],
        "samples": samples,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where arrays are (cpu)")
    parser.add_argument("--quick", action="store_true", help="small sizes for a short time")
    parser.add_argument("--drawn", type=int, default=3, help="sizes drawn at random (3)")
    parser.add_argument("--seed", type=int, default=1, help="of the sizes that are drawn (1)")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="the folder to write to (bench/results)"
    )
    args = parser.parse_args()
    side: Side = Host()
    if args.device == "cuda":
        import torch  # noqa: F401  which the GPU's side and its peers need

        side = Torch()
    whole = MOST if args.device == "cuda" else MOST_ON_CPU
    most, seconds = (QUICK, SECONDS / 10) if args.quick else (whole, SECONDS)
    samples = []
    for each in KERNELS:
        if each.only_torch and not isinstance(side, Gpu):
            continue
        for count, is_drawn in sizes(most, args.drawn, args.seed):
            samples.append(sample(each, count, is_drawn, side, seconds))
            print(
                each.name,
                f"{count:,}",
                {k: f"{v * 1e6:.1f}" for k, v in samples[-1]["seconds"].items()},
                flush=True,
            )
    line = f"--device {args.device} --drawn {args.drawn} --seed {args.seed}{' --quick' * args.quick}"
    save(args.results / f"natural_{args.device}.json", result(side, samples, line, args.seed))


class Torch(Gpu):
    """Tensors, and torch's operators as the peer."""

    peer = "torch"


if __name__ == "__main__":
    main()
