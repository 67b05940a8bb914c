"""The most that compiling a program may cost in this process, by estimate (see compile_cost.py)."""

from __future__ import annotations

__all__ = ["DEFAULT_CEILING", "cost_ceiling", "set_ceiling"]

DEFAULT_CEILING = 10_000
"""Ceiling in milliseconds, for a program with the functions that it calls."""

_ceiling: int | None = DEFAULT_CEILING


def set_ceiling(milliseconds: int | None) -> None:
    """Hold the programs of this process to another ceiling; None for none."""
    global _ceiling
    _ceiling = milliseconds


def cost_ceiling() -> int | None:
    """The ceiling, in milliseconds; None for no ceiling."""
    return _ceiling
