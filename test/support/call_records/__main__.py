"""`PYTHONPATH=test python -m support.call_records record FILE`, and `replay FILE`: see the package."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from vyre_opt.execution.processors import available
from vyre_opt.targets.cpu import dispatcher as cpu
from vyre_opt.targets.cpu import host

from .calls import TARGETS, drawn_calls, kind_of
from .record import Entry, differences, make_entries, read, unmeant, write

SHOWN = 3
"""Calls that are shown of each kind that differs."""

jobs_option = click.option("--jobs", type=click.IntRange(1), help="Processes at once; as many as CPUs.")
LEVEL = 1
"""Of LLVM: what is compared is values, so a third of its time does."""

CPUS = {
    "v1": ("x86-64", ""),
    "v2": ("x86-64-v2", "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16"),
    "v3": ("x86-64-v3", "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt"),
}
"""Levels of x86-64, for code as for a machine that has no more."""

gpu_option = click.option("--gpu", is_flag=True, help="This machine's GPU, not one in main memory.")


@click.group()
def main() -> None:
    """Keep what public calls give, and compare it with what they give later."""
    sys.path.append(str(Path(__file__).parents[2] / "stand_ins"))
    os.environ.setdefault("VYRE_THREADS", "2")
    os.environ["VYRE_DEBUG"] = "1"  # errors keep their frames, by which messages of this package are known
    cpu.DEFAULT_LEVEL = LEVEL


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--calls", default=3000, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=1, show_default=True)
@click.option("--target", multiple=True, type=click.Choice(TARGETS), help="Of these only; all by default.")
@click.option("--torch", is_flag=True, help="Tensors of torch, too.")
@gpu_option
@jobs_option
def record(
    file: Path, calls: int, seed: int, target: tuple[str, ...], torch: bool, gpu: bool, jobs: int | None
) -> None:
    """Draw calls, make them, and write them with their results to FILE."""
    if torch and find_spec("torch") is None:
        raise click.UsageError("torch is not installed")
    drawn = list(drawn_calls(seed, calls, target or TARGETS, torch, gpu))
    with _own_cache():
        entries = make_entries(drawn, jobs or available(), gpu)
    write(file, entries)
    _show_summary(entries)


@main.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option("--only", type=click.IntRange(1), help="So many of the calls, drawn by --seed.")
@click.option("--seed", default=1, show_default=True)
@click.option("--shuffle", is_flag=True, help="In another order.")
@click.option("--level", default=LEVEL, show_default=True, type=click.IntRange(0, 3), help="Of LLVM.")
@click.option("--x86-64", "machine", type=click.Choice(CPUS), help="As on a CPU that has no more.")
@click.option("--leave-out", is_flag=True, help="Write to FILE not to compare what differs here.")
@gpu_option
@jobs_option
def replay(
    file: Path,
    only: int | None,
    seed: int,
    shuffle: bool,
    level: int,
    machine: str | None,
    leave_out: bool,
    gpu: bool,
    jobs: int | None,
) -> None:
    """Make the calls of FILE again, and show what differs, by kinds of calls."""
    cpu.DEFAULT_LEVEL = level
    if machine is not None:
        host._known[:] = [replace(host._names(), cpu=CPUS[machine][0], features=CPUS[machine][1])]
    old = read(file)
    rng = random.Random(seed)
    chosen = rng.sample(old, min(only or len(old), len(old))) if only or shuffle else old
    with _own_cache():
        new = make_entries([entry["call"] for entry in chosen], jobs or available(), gpu)
    differ = [(was, found) for was, now in zip(chosen, new, strict=True) if (found := differences(was, now))]
    _show_differences(differ)
    click.echo(f"{len(chosen)} calls, {len(differ)} differ")
    if leave_out:
        for entry, parts in differ:
            entry["varies"] = sorted({*entry.get("varies", ()), *parts})
        write(file, old)
    elif differ:
        sys.exit(1)


@main.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path))
def summary(file: Path) -> None:
    """Show how the calls of FILE ended, and which errors nobody meant."""
    _show_summary(read(file))


def _own_cache() -> Any:
    """Compiled code of this run, unless the environment says where it is."""
    folder = tempfile.TemporaryDirectory(prefix="vyre-opt-call-records-")
    os.environ.setdefault("VYRE_CACHE_DIR", folder.name)
    return folder


def _show_differences(differ: list[tuple[Entry, dict[str, list[tuple[Any, Any]]]]]) -> None:
    kinds: dict[str, list[tuple[Entry, dict[str, Any]]]] = {}
    for entry, parts in differ:
        kinds.setdefault(f"{kind_of(entry['call'])}: {', '.join(parts)}", []).append((entry, parts))
    for kind, members in sorted(kinds.items()):
        click.echo(f"{kind}: {len(members)} calls")
        for entry, parts in members[:SHOWN]:
            click.echo(f"  {json.dumps(entry['call'])}")
            for part, pairs in parts.items():
                click.echo(
                    f"    {part} was {json.dumps(pairs[0][0])}\n{' ' * 4}{' ' * len(part)} is  {json.dumps(pairs[0][1])}"
                )


def _show_summary(entries: list[Entry]) -> None:
    ends: Counter[str] = Counter()
    for entry in entries:
        ends[entry["turns"][0].get("error", "a result:").partition(":")[0]] += 1
    click.echo(f"{len(entries)} calls: " + ", ".join(f"{n} {end}" for end, n in ends.most_common()))
    for text, count in sorted(unmeant(entries).items()):
        click.echo(f"nobody meant, {count} times: {text}")


if __name__ == "__main__":
    main(prog_name="python -m support.call_records")
