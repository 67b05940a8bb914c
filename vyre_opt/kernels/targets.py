"""The targets of schedules: `cpu`, `ref`, `cuda`, or the architecture of a GPU."""

from __future__ import annotations

__all__ = ["is_gpu"]


def is_gpu(target: str) -> bool:
    """Whether a schedule is for a GPU: for cuda, or an architecture such as sm_90."""
    return target == "cuda" or target.startswith("sm_")
