"""Kernels as one writes them first, beside those of other libraries:  python bench/natural.py [--device cuda]

Ours are those of natural_kernels, called as a user calls them.  The peers are those of natural_peers that are installed: torch,
which tensors on a GPU need, Triton and CuPy there, NumPy and Numba on the CPU.  A figure is the time of a call in a row of
calls with one synchronization at the end.  What fails is a line of the result, and the others go on.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from statistics import geometric_mean
from typing import Any

import numpy as np
from call_timing import Gpu, Run, Side, called, command_line, options, side_of
from gpu_timing import target
from measure import save, today
from natural_kernels import KERNELS, Natural
from natural_peers import Peer, installed
from natural_peers import numpy as by_numpy

PEERS = {"cpu": ("numpy", "numba"), "cuda": ("torch", "triton", "cupy")}
LISTED = (1_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
MOST, QUICK = {"cpu": 10_000_000, "cuda": 100_000_000}, 100_000
SECONDS = {"cpu": 0.02, "cuda": 0.006}
"""For how long calls go on in a row."""
LARGE = 1_000_000
"""Elements from which on a sample counts in the first table; a tenth of the most, where that is less."""
CHECKED = 1_000_000
"""Up to so many elements, results are compared with NumPy's; above, with those of the first peer."""
OURS = "ours"


@dataclass(frozen=True, slots=True)
class Size:
    """`is_drawn`: at random; `is_large`: it counts in the first table."""

    elements: int
    is_drawn: bool
    is_large: bool


def sizes(most: int, drawn: int, seed: int) -> Iterator[Size]:
    """Listed sizes, the most among them, and drawn ones."""
    rng, large = random.Random(seed), min(LARGE, most // 10)
    for count in sorted({*(count for count in LISTED if count < most), most}):
        yield Size(count, False, count >= large)
    for _ in range(drawn):
        count = int(most ** rng.uniform(0.7, 1))
        yield Size(count, True, count >= large)


def sample(each: Natural, size: Size, side: Side, peers: Sequence[Peer], seconds: float) -> dict[str, Any]:
    """The seconds of ours and of each peer, after results were compared, and a message for each that failed."""
    arguments = each.arguments(np.random.default_rng(size.elements), size.elements)
    runs: dict[str, Run] = {}
    results: dict[str, Any] = {}
    failed: dict[str, str] = {}
    times: dict[str, float] = {}
    for name, bind, arrays_of in _callers(each, side, peers):
        try:
            arrays = arrays_of(arguments)
            run = bind(arrays)
            returned = run()
            side.synchronize()
        except Exception as error:  # whatever a library raises, the others are measured
            failed[name] = _message(error)
        else:
            runs[name], results[name] = run, arrays[-1] if returned is None else returned
    try:
        failed |= _mistakes(each, arguments, side, results)
        times = called({name: run for name, run in runs.items() if name not in failed}, side, seconds)
    except Exception as error:
        failed |= dict.fromkeys(runs, _message(error))
    return {
        "kernel": each.name,
        "elements": size.elements,
        "drawn": size.is_drawn,
        "large": size.is_large,
        "seconds": times,
        "failed": failed,
    }


def _callers(
    each: Natural, side: Side, peers: Sequence[Peer]
) -> Iterator[tuple[str, Callable[[list[Any]], Run], Callable[[list[Any]], list[Any]]]]:
    """Who computes the kernel: the name, what makes a call of arrays, and what makes arrays of the arguments."""
    yield OURS, each.bound, side.arrays
    for peer in peers:
        function = peer.function(each.peers_name)
        if function is not None:
            yield peer.name, _binder(function), _arrays_of(peer, side)


def _binder(function: Callable[..., Any]) -> Callable[[list[Any]], Run]:
    return lambda arrays: lambda: function(*arrays)


def _arrays_of(peer: Peer, side: Side) -> Callable[[list[Any]], list[Any]]:
    return lambda arguments: peer.arrays(arguments, side)


def _mistakes(each: Natural, arguments: list[Any], side: Side, results: dict[str, Any]) -> dict[str, str]:
    """Who has another result than NumPy, or than the first peer where NumPy lacks the kernel or takes too long."""
    function = getattr(by_numpy, each.peers_name, None)
    if function is None or max(a.size for a in arguments if isinstance(a, np.ndarray)) > CHECKED:
        expected = next((array for name, array in results.items() if name != OURS), None)
    else:
        returned = function(*arguments)
        expected = arguments[-1] if returned is None else returned
    if expected is None:
        return dict.fromkeys(results, "there is no result to compare with")
    wanted = _flat(expected, side)
    errors = {name: side.error(_flat(array, side), wanted) for name, array in results.items()}
    return {
        name: f"it is wrong, relative error {error:.1e}"
        for name, error in errors.items()
        if not error <= each.tolerance
    }


def _flat(array: Any, side: Side) -> Any:
    """An array of one dimension that the side can compare."""
    if isinstance(side, Gpu):
        import torch

        array = array.get() if hasattr(array, "get") else array  # of CuPy
        tensor = torch.as_tensor(array, device="cuda").reshape(-1)
        return tensor.view(torch.int32) if tensor.dtype is torch.uint32 else tensor
    return np.asarray(array).reshape(-1)


def _message(error: Exception) -> str:
    """The first line of an error, as a cell of a table takes it."""
    line = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {line}"[:200].replace("|", "/")


def best(each: dict[str, Any]) -> tuple[float, str] | None:
    """The time of the best peer over ours, and its name; None where one of them is missing."""
    theirs = {name: time for name, time in each["seconds"].items() if name != OURS}
    if not theirs or OURS not in each["seconds"]:
        return None
    peer = min(theirs, key=lambda name: theirs[name])
    return theirs[peer] / each["seconds"][OURS], peer


def cells(each: dict[str, Any], names: Sequence[str]) -> list[str]:
    """A row of the second table: microseconds of ours and of each peer of these names, the best one, and the ratio."""
    compared, failure = best(each), each["failed"].get(OURS)
    ratio, peer = (f"{compared[0]:.2f}", compared[1]) if compared else ("", "")
    times = [_time(each, name) for name in (OURS, *names)]
    title = f"{each['kernel']} {each['elements']:,}"
    return [title, *times, peer, f"failed: {failure}" if failure else ratio]


def _time(each: dict[str, Any], name: str) -> str:
    if name in each["failed"]:
        return "failed"
    return f"{each['seconds'][name] * 1e6:.1f}" if name in each["seconds"] else ""


def _summary(name: str, samples: Sequence[dict[str, Any]]) -> list[str]:
    """A row of the first table, of a kernel's samples."""
    large = [each for each in samples if each["large"]]
    compared = [pair for pair in map(best, large) if pair]
    peers = ", ".join(sorted({peer for _, peer in compared}))
    ratios = [ratio for ratio, _ in compared]
    worst = f"{min(ratios):.2f}" if ratios else ""
    mean = f"{geometric_mean(ratios):.2f}" if ratios else ""
    failure = next((each["failed"][OURS] for each in samples if OURS in each["failed"]), None)
    return [name, str(len(large)), f"failed: {failure}" if failure else worst, mean, peers]


def result(
    args: argparse.Namespace,
    side: Side,
    samples: list[dict[str, Any]],
    peers: Sequence[Peer],
    absent: Sequence[str],
) -> dict[str, Any]:
    names = [peer.name for peer in peers]
    some = "".join(f" --{option} {value}" for option in ("only", "peers") if (value := getattr(args, option)))
    of_kernel: dict[str, list[dict[str, Any]]] = {}
    for each in samples:
        of_kernel.setdefault(each["kernel"], []).append(each)
    ratios = [pair[0] for each in samples if each["large"] and (pair := best(each))]
    failures = sum(OURS in each["failed"] for each in samples)
    missing = {
        f"{name} for {each['kernel']}: {message}"
        for each in samples
        for name, message in each["failed"].items()
        if name != OURS
    }
    return {
        "name": "natural",
        "arguments": command_line(args) + some,
        "title": f"Kernels as first written, {'on a GPU' if isinstance(side, Gpu) else 'on the CPU'}",
        "about": "Kernels as the tutorials of other libraries have them, without tile, vector or schedule, beside those "
        "libraries on the same numbers in the same run, after results were compared.  The time is that of a call in a row of "
        "calls with one synchronization at the end.  Arrays are the same at each call, so small ones stay in caches.  Sizes are "
        f"listed ones, and some drawn at random, seed {args.seed}.  A ratio is the time of the best peer over ours: above 1 we "
        "are faster.  A library computes some kernels by several of its operators.",
        "date": today(),
        "machine": side.facts(),
        "versions": {**{peer.name: peer.version for peer in peers}, "llvmlite": version("llvmlite")},
        "absent": [*absent, *sorted(missing)],
        "tables": [
            {
                "caption": f"Time of the best peer over ours, from {LARGE:,} elements on, or a tenth of the most",
                "columns": ["kernel", "sizes", "worst", "mean", "best peer"],
                "rows": [_summary(name, each) for name, each in of_kernel.items()],
            },
            {
                "caption": "Microseconds of a call",
                "columns": ["kernel and elements", OURS, *names, "best peer", "ratio"],
                "rows": [cells(each, names) for each in samples],
            },
        ],
        "targets": _targets(ratios, failures),
        "samples": samples,
    }


def _targets(ratios: list[float], failures: int) -> list[dict[str, Any]]:
    if not ratios:
        return []
    every = target("0.95 of the best peer, every kernel", ratios, 0.95)
    if failures:
        every = {**every, "measured": f"{every['measured']}, {failures} failed", "met": False}
    return [every]


def natural_options() -> argparse.ArgumentParser:
    parser = options(__doc__, drawn=2)
    parser.add_argument("--only", metavar="A,B", help="these kernels (all)")
    parser.add_argument("--peers", metavar="A,B", help="these libraries (all that are installed)")
    return parser


def chosen(
    parser: argparse.ArgumentParser, option: str, names: str | None, all_of: Sequence[str]
) -> Sequence[str]:
    """The names of an option, which are some of these; all of them without the option."""
    if names is None:
        return all_of
    unknown = sorted(set(names.split(",")) - set(all_of))
    if unknown:
        parser.error(f"{option}: {', '.join(unknown)}: there are {', '.join(all_of)}")
    return [name for name in all_of if name in names.split(",")]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = natural_options()
    args = parser.parse_args(arguments)
    names = chosen(parser, "--only", args.only, [each.name for each in KERNELS])
    peers, absent = installed(chosen(parser, "--peers", args.peers, PEERS[args.device]))
    side, samples = side_of(args.device), []
    most, seconds = MOST[args.device], SECONDS[args.device]
    if args.quick:
        most, seconds = QUICK, seconds / 10
    for each in KERNELS:
        if each.name not in names:
            continue
        if not any(peer.function(each.peers_name) for peer in peers):
            absent.append(f"a peer for {each.name}")
            continue
        for size in sizes(int(most * each.share), args.drawn, args.seed):
            samples.append(sample(each, size, side, peers, seconds))
            print(" | ".join(cells(samples[-1], [peer.name for peer in peers])), flush=True)
    save(args.results / f"natural_{args.device}.json", result(args, side, samples, peers, absent))


if __name__ == "__main__":
    if "OPENBLAS_THREAD_TIMEOUT" not in os.environ:
        # NumPy's threads would look for work for 0.1 s after a product, on a CPU that the next library needs
        quiet = {**os.environ, "OPENBLAS_THREAD_TIMEOUT": "22"}
        os.execve(sys.executable, [sys.executable, *sys.argv], quiet)
    main()
