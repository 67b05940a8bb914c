"""Times calls on arrays in main memory and on a GPU; its GPU needs torch.  The options of scripts that do so."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from gpu_timing import in_turn, relative_error
from measure import machine

RESULTS = Path(__file__).parent / "results"
ROUNDS = 7
"""How often each figure is taken."""
QUIET = 0.01
"""Seconds before a row: threads of OpenMP, which Numba has, look for work for 5 ms, and would take a CPU from the next library."""

Run = Callable[[], Any]


class Host:
    """Arrays of NumPy."""

    def arrays(self, arguments: list[Any]) -> list[Any]:
        return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]

    def error(self, actual: Any, expected: Any) -> float:
        """Of two arrays, relative in the 2-norm."""
        wanted = np.asarray(expected, np.float64)
        difference = np.linalg.norm(np.subtract(actual, wanted))
        return float(difference / np.linalg.norm(wanted)) if difference else 0.0

    def synchronize(self) -> None:
        """Nothing: calls in main memory end before they return."""

    def device(self, runs: dict[str, Run]) -> dict[str, float]:
        return {}

    def facts(self) -> dict[str, Any]:
        return machine()


class Gpu:
    """Tensors of torch on the first GPU."""

    def arrays(self, arguments: list[Any]) -> list[Any]:
        import torch

        return [torch.from_numpy(a).cuda() if isinstance(a, np.ndarray) else a for a in arguments]

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
    """Seconds of a call among calls in a row of so many `seconds`, medians over rounds that do all in turn."""
    counts: dict[str, int] = {}
    for name, run in runs.items():
        run()
        counts[name] = max(1, int(seconds / _row(run, 3, side)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            time.sleep(QUIET)
            times[name].append(_row(run, counts[name], side))
    return {name: median(each) for name, each in times.items()}


def _row(run: Run, count: int, side: Side) -> float:
    side.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        run()
    side.synchronize()
    return (time.perf_counter() - start) / count


def options(doc: str | None, drawn: int) -> argparse.ArgumentParser:
    """The options of a script that measures calls at listed sizes and at some that are drawn; `doc`: the script's."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where arrays are (cpu)")
    parser.add_argument("--quick", action="store_true", help="small sizes for a short time")
    parser.add_argument(
        "--drawn", type=int, default=drawn, help=f"sizes drawn at random for each kernel ({drawn})"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the sizes that are drawn (1)")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="the folder to write to (bench/results)"
    )
    return parser


def command_line(args: argparse.Namespace) -> str:
    """The options that a result names."""
    quick = " --quick" if args.quick else ""
    return f"--device {args.device} --drawn {args.drawn} --seed {args.seed}{quick}"


def side_of(device: str) -> Side:
    return Gpu() if device == "cuda" else Host()
