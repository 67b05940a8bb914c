"""Every function on arrays, as callers call it, beside peers:  python bench/calls.py [--device cuda] [--quick]

For each shape two figures.  Host time: of a call in a row of calls that are enqueued without waiting, results
allocated and dropped, with one synchronization at the end.  Device time: on a GPU by events around calls that
wait in its queue until the last of them is enqueued; on the CPU the median of single calls.  See call_cases for
functions, shapes and peers.  Writes bench/results/calls_DEVICE.json.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle, repeat
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from bursts import PAUSE
from call_cases import (
    GPU_LIBRARIES,
    HOST_LIBRARIES,
    MAX_LOOKUPS,
    MAX_SEARCHED_BYTES,
    STAGES,
    TEXT_LIBRARIES,
    CallCase,
    cases,
    has,
    search_on_host,
)
from measure import machine, save, today
from recorded_launch import LaunchRecorder

from vyre_opt import dispatcher
from vyre_opt.kernels.chain import chain_groups

RESULTS = Path(__file__).parent / "results"
MOST_BYTES, QUICK_BYTES = 1 << 30, 1 << 20
ROUNDS = 5
CALLS = 10_000
SECONDS = 0.3
"""For each figure of each function at a shape, all rounds together, unless a single call takes longer."""

QUEUED_CALLS, MAX_DELAY = 20, 5e-3
"""Calls between two events, and for how many seconds at most the GPU waits before them."""

OURS, PREPARED, UNCHECKED = "ours", "prepared", "unchecked"
Run = Callable[[], Any]


class Host:
    """Arrays in main memory."""

    target = "cpu"
    libraries = HOST_LIBRARIES
    packages = ("llvmlite", "numpy", "torch", "pybase64", "pyahocorasick")
    unchecked: Any = None

    def __init__(self) -> None:
        self.checked = dispatcher("cpu")

    def convert(self, value: Any, library: str) -> Any:
        """An argument as a library takes it; `ours` takes NumPy's arrays."""
        if isinstance(value, list):
            return [self.convert(item, library) for item in value]
        if not isinstance(value, np.ndarray):
            return value
        if library == "torch":
            import torch

            return torch.from_numpy(value)
        return value.tobytes() if library in TEXT_LIBRARIES else value

    def synchronize(self) -> None:
        """Nothing: calls in main memory end before they return."""

    def before_a_burst(self, names: Sequence[str]) -> None:
        """Let threads of torch fall asleep, which look for work after a call (see bursts)."""
        if "torch" in names:
            time.sleep(PAUSE)

    def device_seconds(self, run: Run, calls: int, call_seconds: float) -> float:
        seconds = []
        for _ in range(calls):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        return median(seconds)

    def facts(self) -> dict[str, Any]:
        return machine()

    def comparable(self, result: Any) -> np.ndarray:
        if isinstance(result, bytes):
            return np.frombuffer(result, np.uint8)
        return np.asarray(result).reshape(-1)


class Gpu:
    """Torch's tensors on the first GPU."""

    target = "cuda"
    libraries = GPU_LIBRARIES
    packages = ("llvmlite", "numpy", "torch", "triton", "cupy", "pycuda")

    def __init__(self) -> None:
        self.checked = dispatcher("cuda")
        self.unchecked: Any = dispatcher("cuda", bounds="none")

    def convert(self, value: Any, library: str) -> Any:
        """An argument as a library takes it: a tensor, or for CuPy the same memory as its array."""
        import torch

        if isinstance(value, list):
            return [self.convert(item, library) for item in value]
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value).cuda()
        if library == "cupy" and isinstance(value, torch.Tensor):
            import cupy

            return cupy.asarray(value)
        return value

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize()

    def before_a_burst(self, names: Sequence[str]) -> None:
        """Nothing: one library's calls are over before the next one's."""

    def device_seconds(self, run: Run, calls: int, call_seconds: float) -> float:
        """The GPU waits before the first call, so that it never waits for the host between two."""
        import torch

        number = min(calls, QUEUED_CALLS)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        delay: Any = torch.cuda._sleep  # type: ignore[attr-defined,unused-ignore]
        delay(int(2e9 * min(MAX_DELAY, 1.5 * number * call_seconds)))
        start.record()
        for _ in range(number):
            run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / number

    def facts(self) -> dict[str, Any]:
        import torch

        return {**machine(), "gpu": torch.cuda.get_device_name()}

    def comparable(self, result: Any) -> Any:
        import torch

        return torch.as_tensor(result, device="cuda").reshape(-1)


Side = Host | Gpu


# --- what is timed


def peers_of(case: CallCase, side: Side) -> dict[str, Callable[..., Any]]:
    """Of the libraries that are installed here and take arrays on this side."""
    return {name: peer for name, peer in case.peers.items() if name in side.libraries and has(name)}


def functions_of(case: CallCase, side: Side) -> dict[str, Run]:
    """Ours and the peers', results checked, then our launch alone.  Leaves the process if one is wrong."""
    arguments = side.convert(case.arguments, OURS)
    ours = case.makes(None)
    runs: dict[str, Run] = {OURS: bound(case, ours, arguments)}
    peers = peers_of(case, side)
    for name, peer in peers.items():
        passed = [side.convert(argument, name) for argument in arguments]
        runs[name] = bound(case, peer, passed)
        check(case, side, name, runs[OURS](), bound(case, peer, passed)())
    if not peers:
        check_on_host(case, runs[OURS]())
    return runs | prepared_runs(case, side, arguments)


def bound(case: CallCase, function: Callable[..., Any], arguments: Sequence[Any]) -> Run:
    """Calls of a function on its arguments, or on new ones in turn."""
    if not case.takes_new:
        return partial(function, *arguments)
    turns = cycle(arguments)
    return lambda: function(next(turns))


def prepared_runs(case: CallCase, side: Side, arguments: Sequence[Any]) -> dict[str, Run]:
    """The launch of a call, bound to its arrays: with checks of bounds and, on a GPU, without.

    None of a pipeline, and of a chain that is several launches.
    """
    recorder = LaunchRecorder(side.checked)
    if case.name == "pipeline" or (case.name == "tt_chain" and launches_of_chain(side, *arguments) > 1):
        return {}
    result = case.makes(recorder)(*arguments)
    runs: dict[str, Run] = {}
    for name, on in ((PREPARED, side.checked), (UNCHECKED, side.unchecked)):
        launch = recorder.prepare(on) if on is not None else None
        if launch is not None:
            launch.run()
            launch.run()  # on storage that the first run has written
            side.synchronize()
            runs[name] = launch.run
            check(case, side, name, result, launch.output())
    recorder.forget()
    return runs


def launches_of_chain(side: Side, acc: Any, cores: Sequence[Any]) -> int:
    ranks = [len(acc), *(core.shape[1] for core in cores)]
    return len(chain_groups(ranks, side.target, getattr(side.checked, "workers", 1)))


# --- checking


def check(case: CallCase, side: Side, name: str, ours: Any, theirs: Any) -> None:
    """Leave the process if two results differ."""
    if not agree(ours, theirs, case.tolerance, side.comparable):
        sys.exit(f"{case.name} of {case.shape}: ours and {name} differ")


def check_on_host(case: CallCase, ours: Any) -> None:
    """For matches in text, which no library finds on a GPU: beside a search in main memory."""
    if case.name != "decode_scan" or ours != search_on_host(*case.arguments):
        sys.exit(f"{case.name} of {case.shape}: no peer agrees with it")


def agree(ours: Any, theirs: Any, tolerance: float, comparable: Callable[[Any], Any]) -> bool:
    """Whether results are equal, up to `tolerance` of the largest element; by parts, since they may be large."""
    if isinstance(ours, list):
        return bool(ours == theirs)
    if isinstance(ours, tuple):
        return all(agree(a, b, tolerance, comparable) for a, b in zip(ours, theirs, strict=True))
    a, b = comparable(ours), comparable(theirs)
    if len(a) != len(b):
        return False
    part, error, largest = 1 << 24, 0.0, 0.0
    for start in range(0, len(a), part):
        x, y = as_double(a[start : start + part]), as_double(b[start : start + part])
        worst = float(abs(x - y).max())
        if not worst < float("inf"):  # NaN too
            return False
        error, largest = max(error, worst), max(largest, float(abs(y).max()))
    return error <= tolerance * largest


def as_double(x: Any) -> Any:
    return x.astype(np.float64) if isinstance(x, np.ndarray) else x.double()


# --- timing


def measured(runs: Mapping[str, Run], side: Side, seconds: float) -> dict[str, dict[str, float]]:
    """Host and device seconds of a call of each, medians of rounds that do all of them."""
    estimates = {name: estimate(run, side) for name, run in runs.items()}
    rounds = max(1, min(ROUNDS, int(seconds / max(estimates.values()))))
    host: dict[str, list[float]] = {name: [] for name in runs}
    device: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            calls = max(1, min(CALLS, int(seconds / estimates[name])) // rounds)
            side.before_a_burst(list(runs))
            run()
            side.synchronize()
            host[name].append(host_seconds(run, side, calls))
            device[name].append(side.device_seconds(run, calls, estimates[name]))
    return {
        "host": {name: median(times) for name, times in host.items()},
        "device": {name: median(times) for name, times in device.items()},
    }


def estimate(run: Run, side: Side) -> float:
    """Seconds of a call, after those that may compile: a length gets code of its own when it has come some times."""
    run()
    side.synchronize()
    one = host_seconds(run, side, 1)
    if one > 1e-2:
        return one
    host_seconds(run, side, 20)
    return host_seconds(run, side, 20)


def host_seconds(run: Run, side: Side, calls: int) -> float:
    """Seconds a call of `calls` that are enqueued one after the other, until the last is done."""
    start = time.perf_counter()
    for _ in repeat(None, calls):
        run()
    side.synchronize()
    return (time.perf_counter() - start) / calls


def sample(case: CallCase, side: Side, seconds: float) -> dict[str, Any]:
    figures = measured(functions_of(case, side), side, seconds)
    return {
        "function": case.name,
        "shape": case.shape,
        "drawn": case.drawn,
        "bytes": case.bytes,
        "seconds": figures,
    }


# --- the report


def peer_of(sample: dict[str, Any], figure: str) -> str | None:
    """The fastest peer."""
    seconds = sample["seconds"][figure]
    peers = [name for name in seconds if name not in (OURS, PREPARED, UNCHECKED)]
    return min(peers, key=lambda name: float(seconds[name]), default=None)


def ratio(sample: dict[str, Any], figure: str) -> float | None:
    """The fastest peer's time over ours."""
    peer, seconds = peer_of(sample, figure), sample["seconds"][figure]
    return None if peer is None else seconds[peer] / seconds[OURS]


def quotient(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def microseconds(seconds: float) -> str:
    us = seconds * 1e6
    return f"{us:,.0f}" if us >= 1000 else f"{us:.1f}" if us >= 10 else f"{us:.2f}"


def row(sample: dict[str, Any]) -> list[str]:
    cells = [sample["function"], sample["shape"]]
    for figure in ("host", "device"):
        seconds, peer = sample["seconds"][figure], peer_of(sample, figure)
        cells += [microseconds(seconds[OURS])]
        cells += (
            ["", ""]
            if peer is None
            else [f"{microseconds(seconds[peer])} {peer}", quotient(ratio(sample, figure))]
        )
    return cells


def prepared_row(sample: dict[str, Any]) -> list[str]:
    host, device = sample["seconds"]["host"], sample["seconds"]["device"]
    cells = [sample["function"], sample["shape"], microseconds(host[OURS]), microseconds(host[PREPARED])]
    cells.append(quotient(host[OURS] / host[PREPARED]))
    if UNCHECKED in device:
        checked, unchecked = device[PREPARED], device[UNCHECKED]
        cells += [microseconds(checked), microseconds(unchecked), quotient(checked / unchecked)]
    return cells


def summary_row(name: str, samples: Sequence[dict[str, Any]]) -> list[str]:
    cells = [name, str(len(samples))]
    for figure in ("host", "device"):
        ratios = [times for each in samples if (times := ratio(each, figure)) is not None]
        cells += [quotient(min(ratios)), quotient(geometric_mean(ratios))] if ratios else ["", ""]
    return cells


def tables(samples: Sequence[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    names = list(dict.fromkeys(each["function"] for each in samples))
    head = ["function", "shape"]
    columns = [*head, *"ours host|peer host|ratio|ours device|peer device|ratio".split("|")]
    prepared = [each for each in samples if PREPARED in each["seconds"]["host"]]
    prepared_columns = [*head, "call host", "prepared host", "ratio"]
    if any(UNCHECKED in each["seconds"]["device"] for each in prepared):
        prepared_columns += ["checked device", "unchecked device", "ratio"]
    return [
        {
            "caption": "The fastest peer's time over ours, in all rows",
            "columns": ["function", "rows", "host, worst", "host, mean", "device, worst", "device, mean"],
            "rows": [summary_row(n, [each for each in samples if each["function"] == n]) for n in names],
        },
        {
            "caption": "Microseconds at listed shapes, the fastest peer, and its time over ours",
            "columns": columns,
            "rows": [row(each) for each in samples if not each["drawn"]],
        },
        {
            "caption": f"The same at shapes drawn at random, seed {seed}",
            "columns": columns,
            "rows": [row(each) for each in samples if each["drawn"]],
        },
        {
            "caption": "Microseconds of a call and of its launch alone, and ratios",
            "columns": prepared_columns,
            "rows": [prepared_row(each) for each in prepared],
        },
    ]


def about(side: Side, most_bytes: int, seconds: float) -> str:
    device = {
        "cpu": "Device time is the median of single calls.  pyahocorasick's automaton is built before, ours in the call.",
        "cuda": f"Device time is by events around {QUEUED_CALLS} calls, which wait in the GPU's queue until the last "
        "of them is enqueued; a function that waits for the GPU (base64_decode, decode_scan) has the host's time in "
        "it.  Arrays are the same at each call, so small ones are "
        "in the L2 cache.  Triton's softmax is not tuned; sums of torch over fixed-point numbers are of i64.",
    }[side.target]
    prepared = {
        "cpu": "The launch alone works in place, on arrays that are there already.",
        "cuda": 'The launch alone is `dispatcher("cuda").bind(...).run(stream)`, in place; unchecked is the same '
        'with `bounds="none"`, which does not check accesses.',
    }[side.target]
    return (
        f"Functions on arrays as callers call them, of {size(most_bytes)} at most; tt_embedding of up to "
        f"{MAX_LOOKUPS:,} lookups and decode_scan of up to {size(MAX_SEARCHED_BYTES)}.  Shapes are listed ones, and as "
        "many drawn at random, sizes and columns log-uniform.  A size counts elements, lookups of tt_embedding, decoded "
        f"bytes of text.  program is a compiled y = x + x of f32, pipeline {STAGES} launches of it, on arrays that are "
        "the same at each call or not.\n\nHost time is that of a call in a row of up to "
        f"{CALLS:,} ({seconds} s at most), the allocation of its result included, without waiting but once at the end.  "
        f"{device}  All are medians over rounds that do all functions of a row in turn, after their results were "
        f"compared.\n\nA ratio is the peer's time over ours: above 1 we are faster; the peer is the fastest of those "
        f"that are installed.  {prepared}"
    )


def size(count: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:g} {name}"
    return f"{count} bytes"


def result(
    side: Side, samples: list[dict[str, Any]], most_bytes: int, seed: int, seconds: float
) -> dict[str, Any]:
    packages = [name for name in side.packages if has(name)]
    return {
        "name": "calls",
        "arguments": f"--device {side.target} --most-bytes {most_bytes} --seed {seed} --seconds {seconds}",
        "title": f"Every function, called {'on a GPU' if side.target == 'cuda' else 'on the CPU'}",
        "about": about(side, most_bytes, seconds),
        "date": today(),
        "machine": side.facts(),
        "versions": {name: version(name) for name in packages},
        "absent": [name for name in side.libraries if not has(name)],
        "tables": tables(samples, seed),
        "targets": [],
        "samples": samples,
    }


def version(package: str) -> str:
    """Of a distribution: CuPy's are named after CUDA's version."""
    names = importlib.metadata.packages_distributions().get(package, [package])
    return importlib.metadata.version(names[0])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where arrays are (cpu)")
    parser.add_argument(
        "--most-bytes", type=int, default=MOST_BYTES, help="of the largest array of a row (1 GiB)"
    )
    parser.add_argument("--quick", action="store_true", help=f"rows of up to {size(QUICK_BYTES)}")
    parser.add_argument("--seed", type=int, default=1, help="of the shapes that are drawn (1)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"for a figure of a row ({SECONDS})")
    parser.add_argument("--only", default="", help="functions, with commas between them; nothing is saved")
    parser.add_argument("--out", type=Path, help="the JSON file to write (results/calls_DEVICE.json)")
    args = parser.parse_args(arguments)
    side: Side = Gpu() if args.device == "cuda" else Host()
    most_bytes = min(args.most_bytes, QUICK_BYTES) if args.quick else args.most_bytes
    only = args.only.split(",") if args.only else []
    samples = []
    for case in cases(side.target, most_bytes, args.seed, only):
        samples.append(sample(case, side, args.seconds))
        print(" | ".join(row(samples[-1])), flush=True)
    if args.out or not only:
        out = args.out or RESULTS / f"calls_{side.target}.json"
        save(out, result(side, samples, most_bytes, args.seed, args.seconds))


if __name__ == "__main__":
    main()
