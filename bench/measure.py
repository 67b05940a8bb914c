"""Runs commands as whole processes, interleaved, and says what each one cost."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """One run.  `seconds` of wall time, `cpu` of user and system time, `rss` in bytes at its highest."""

    seconds: float
    cpu: float
    rss: int


class CommandFailed(Exception):
    """A measured command did not exit with 0."""


def run_once(command: Sequence[str]) -> Sample:
    """Run `command` with its output discarded.  Raises CommandFailed.

    A child's peak memory begins at the size of this process, so keep this one small.
    """
    started = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stderr.close()
    if child.returncode != 0:
        raise CommandFailed(
            f"{' '.join(command)}: exit {child.returncode}\n{said.decode(errors='replace')[-2000:]}"
        )
    own = _own_peak()
    if usage.ru_maxrss <= own:
        raise CommandFailed(f"{command[0]}: its peak memory hides behind the {own} KiB of this process")
    unit = 1 if platform.system() == "Darwin" else 1024
    return Sample(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit)


def _own_peak() -> int:
    """Peak memory of this process since its exec, in KiB; 0 where the system does not tell."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def interleaved(
    commands: Mapping[str, Sequence[str]], repetitions: int, report: Callable[[str], None]
) -> dict[str, list[Sample]]:
    """`repetitions` rounds; each runs every command once, after one round that is not counted.

    A slow spell of the machine therefore falls on all commands alike.  The first round
    fills caches: of the file system, of Python's byte code, of the grammar's tables.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in commands}
    for number in range(repetitions + 1):
        for name, command in commands.items():
            sample = run_once(command)
            if number:
                samples[name].append(sample)
        report(f"round {number} of {repetitions}")
    return samples


def medians(samples: Sequence[Sample]) -> Sample:
    """The median of each figure."""
    return Sample(
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
