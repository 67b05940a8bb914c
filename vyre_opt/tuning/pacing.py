"""How many launches a round of measuring has, so that short ones are timed together."""

from __future__ import annotations

__all__ = ["MAX_LAUNCHES", "ROUND_SECONDS", "launches_of_round"]

ROUND_SECONDS = 2e-3
"""Of a configuration in a round, if it takes less than that."""
MAX_LAUNCHES = 10


def launches_of_round(seconds: float) -> int:
    """`seconds`: of one launch."""
    return max(1, min(MAX_LAUNCHES, int(ROUND_SECONDS / max(seconds, 1e-9))))
