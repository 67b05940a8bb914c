"""The options of vyre-run."""

from __future__ import annotations

from ..records import dataclass

__all__ = ["Pairs", "RunOptions"]

Pairs = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class RunOptions:
    """Each option by its name on the command line; `passes` is the pipeline of -O."""

    target: str
    inputs: Pairs
    outputs: Pairs
    lengths: Pairs
    grid: tuple[int, ...] | None
    entry: str | None
    spec: Pairs
    param: Pairs
    passes: str
    opt_bisect_limit: int | None
    no_crash_reproducer: bool
    check: bool
    check_against: str | None
    tolerance: float
    no_cache: bool
    autotune: bool
    plot: str | None
    record: str | None
    replay: str | None
    debug: bool
    workgroup: tuple[int, ...] | None
    local: tuple[int, ...] | None
    breakpoints: tuple[str, ...]
    timing: bool
    profile: str | None
    debug_info: bool
    color: bool
