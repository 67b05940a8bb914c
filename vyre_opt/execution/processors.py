"""The processors that this process may use."""

from __future__ import annotations

import os
from math import ceil, inf

from .variables import value_of

__all__ = ["MAX_THREADS", "available"]

MAX_THREADS = 1024


def available() -> int:
    """The number of threads that are worth it: VYRE_THREADS, or the CPUs that this process may use.

    Those that its affinity has, and not more than its control group has time for.  Raises BadInputs.
    """
    named = value_of("VYRE_THREADS")
    if named:
        return min(int(named), MAX_THREADS)
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    quota = _quota("/sys/fs/cgroup", "/proc/self/cgroup")
    return cpus if quota == inf else max(1, min(cpus, ceil(quota)))


def _quota(root: str, cgroup: str) -> float:
    """CPUs that the process's control group, or one above it, has time for; infinity if none is limited."""
    least = inf
    try:
        # of version 2: one line, 0::/PATH
        path = next(line[3:] for line in _text(cgroup).splitlines() if line.startswith("0::"))
        group = os.path.normpath(f"{root}/{path}")
        while group == root or group.startswith(f"{root}/"):
            limits = f"{group}/cpu.max"
            if os.path.exists(limits):
                quota, period = _text(limits).split()
                if quota != "max":
                    least = min(least, int(quota) / int(period))
            group = os.path.dirname(group)
    except (OSError, StopIteration, ValueError):
        pass
    return least


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
