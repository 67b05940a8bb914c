"""Records what every configuration of the shipped spaces costs here:

    python bench/autotune_record.py [--target cuda|cpu] [--rounds 10] [NAME ...]

Writes bench/recordings/DEVICE-NAME.json for each workload of autotune_workloads.py, or for
those named.  All configurations of a space take turns in every round; each is checked before its
times count, and one that fails is recorded with its reason.

On a GPU a time is that between events.  On the CPU target it is the processor time of one thread, the
least of three rounds, so that a machine that does other work besides gives figures that mean something.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import sys
import time
from pathlib import Path
from typing import Any

import autotune_workloads
from measure import machine, today
from recorded_costs import RECORDINGS, Recording, record

from vyre_opt.execution.dispatcher import Dispatcher
from vyre_opt.tuning.measure import DispatchBench
from vyre_opt.tuning.workload import Workload


def make_dispatcher(target: str) -> Dispatcher:
    from vyre_opt.execution.dispatcher import dispatcher

    return dispatcher(target, bounds="none") if target == "cuda" else dispatcher(target, workers=1)


def device_of(dispatcher: Any) -> tuple[str, str]:
    """The name of the device, and the architecture that schedules are chosen for."""
    if dispatcher.name == "cuda":
        return dispatcher.facts.name, dispatcher.facts.target.name
    return f"{machine()['cpu']}, a thread", dispatcher.name


def exhaust(workload: Workload, dispatcher: Dispatcher, rounds: int, least: int) -> Recording:
    device, target = device_of(dispatcher)
    space = workload.space(target)
    clock = time.process_time if target == "cpu" else time.perf_counter
    bench = DispatchBench(workload, space, dispatcher, clock)
    samples = record(bench, space, rounds, least)
    default = space.find(workload.default(target))
    assert default is not None
    versions = {name: importlib.metadata.version(name) for name in ("llvmlite", "numpy")}
    return Recording(
        workload.name, device, target, today(), space, samples, bench.failures, default, versions
    )


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--least", type=int, help="rounds of which a sample is the least")
    parser.add_argument("--folder", type=Path, default=RECORDINGS)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    workloads = autotune_workloads.GPU if args.target == "cuda" else autotune_workloads.CPU
    dispatcher = make_dispatcher(args.target)
    device = slug(device_of(dispatcher)[0]) if args.target == "cuda" else "cpu"
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names or workloads:
        started = time.perf_counter()
        least = args.least or (3 if args.target == "cpu" else 1)
        recording = exhaust(workloads[name](), dispatcher, args.rounds, least)
        path = args.folder / f"{device}-{name.replace('_', '-')}.json"
        path.write_text(recording.to_json(), encoding="utf-8")
        best = recording.best
        near = sum(cost <= 1.05 * best for cost in recording.truth)
        print(
            f"{recording.workload}: {len(recording.space)} configurations, {len(recording.failures)} failed, best "
            f"{best * 1e6:.1f} us, default {recording.truth[recording.default] / best:.2f} of it, {near} within 5 %; "
            f"{time.perf_counter() - started:.0f} s",
            flush=True,
        )
        for why in sorted(set(recording.failures.values()))[:5]:
            print(f"  failed: {why}", file=sys.stderr)


if __name__ == "__main__":
    main()
