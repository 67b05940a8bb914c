"""Levels of x86-64 or aarch64 that this machine has, by the features that Linux lists.

The levels of x86-64 are those of its ABI, each with all of the one before; v2 is what every server and desktop since 2009 has.
"""

from __future__ import annotations

import os
from functools import cache

__all__ = ["levels_of_this_machine"]

_V3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"})
_V4 = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
_MOST = 1 << 14
"""Bytes of /proc/cpuinfo that describe one processor."""


@cache
def levels_of_this_machine() -> tuple[str, ...]:
    """The levels, the best first."""
    machine = os.uname().machine
    if machine != "x86_64":
        return (machine,)
    flags = _flags()
    has_v3 = flags >= _V3
    better = ["x86-64-v4"] if has_v3 and flags >= _V4 else []
    return (*better, *(["x86-64-v3"] if has_v3 else []), "x86-64-v2")


def _flags() -> frozenset[str]:
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(_MOST).decode(errors="replace")
    except OSError:
        return frozenset()
    line = next((line for line in text.split("\n") if line.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())
