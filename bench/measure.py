"""Runs commands as whole processes, interleaved, and says what each one cost."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

LAUNCH = Path(__file__).with_name("launch.py")


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """One run.  `seconds` of wall time, `cpu` of user and system time, `rss` in bytes at its highest."""

    seconds: float
    cpu: float
    rss: int


class CommandFailed(Exception):
    """A measured command did not exit with 0."""


def run_once(command: Sequence[str]) -> ProcessCost:
    """Run `command` with its output discarded.  Raises CommandFailed."""
    ran = subprocess.run([sys.executable, "-I", "-S", str(LAUNCH), *command], capture_output=True, text=True)
    figures = ran.stdout.split()
    if len(figures) != 4 or figures[3] != "0":
        raise CommandFailed(f"{' '.join(command)}: exit {figures[3:]}\n{ran.stderr[-2000:]}")
    unit = 1 if platform.system() == "Darwin" else 1024
    return ProcessCost(float(figures[0]), float(figures[1]), int(figures[2]) * unit)


def interleaved(
    commands: Mapping[str, Sequence[str]], repetitions: int, report: Callable[[str], None]
) -> dict[str, list[ProcessCost]]:
    """`repetitions` rounds; each runs every command once, after one round that is not counted.

    A slow spell of the machine therefore falls on all commands alike.  The first round
    fills caches: of the file system, of Python's byte code, of the grammar's tables.
    """
    samples: dict[str, list[ProcessCost]] = {name: [] for name in commands}
    for number in range(repetitions + 1):
        for name, command in commands.items():
            sample = run_once(command)
            if number:
                samples[name].append(sample)
        report(f"round {number} of {repetitions}")
    return samples


def medians(samples: Sequence[ProcessCost]) -> ProcessCost:
    """The median of each figure."""
    return ProcessCost(
        median(s.seconds for s in samples),
        median(s.cpu for s in samples),
        int(median(s.rss for s in samples)),
    )


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def save(path: Path, result: dict[str, Any]) -> None:
    """Write `result` as JSON beside `path`, then rename: a cut-off run leaves the old file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)
