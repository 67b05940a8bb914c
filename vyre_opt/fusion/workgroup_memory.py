"""The workgroup memory that a program may use, by target."""

from __future__ import annotations

__all__ = ["DEFAULT_BUDGET", "workgroup_budget"]

DEFAULT_BUDGET = 16_384
"""Bytes that every target has."""

# Workgroup memory a block may have, by target: CUDA C++ Programming Guide, table of
# technical specifications per compute capability ("maximum amount of shared memory per thread block").
TARGET_BUDGET = {
    "sm_70": 98_304, "sm_75": 65_536, "sm_80": 166_912, "sm_86": 101_376, "sm_87": 166_912,
    "sm_89": 101_376, "sm_90": 232_448, "sm_100": 232_448, "sm_103": 232_448, "sm_110": 232_448,
    "sm_120": 101_376, "sm_121": 101_376,
}  # fmt: skip


def workgroup_budget(target: str) -> int:
    """Bytes for all workgroup buffers of a program on `target`, such as `sm_90a`; DEFAULT_BUDGET for other targets."""
    return TARGET_BUDGET.get(target.rstrip("af"), DEFAULT_BUDGET)
