"""A configuration that is compiled and ready to be timed: calls by the host's clock (see measure_cuda for events of a GPU)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

__all__ = ["CallRunner", "TrialRunner", "launches_per_round", "on_host"]

ROUND_SECONDS = 2e-3
"""A round of short launches has several of them, to take about as long as this."""
MAX_LAUNCHES = 100
WARM_UP = 4
"""Rounds that say how many calls fit, if they are short: the more there are, the less counts the wait at the end."""


class TrialRunner(Protocol):
    def outputs(self) -> list[np.ndarray]:
        """Run once; the outputs in binding order."""

    def warm_up(self) -> None:
        """Run untimed, and choose the number of launches in a round."""

    def renew(self) -> None:
        """See `Bench`."""

    def seconds(self) -> float:
        """Run one round; the mean seconds of a launch."""


class CallRunner:
    """Times calls by `clock`, which measures seconds, until `wait` returns."""

    def __init__(
        self,
        call: Callable[[], Sequence[Any]],
        clock: Callable[[], float],
        wait: Callable[[], None] = lambda: None,
    ) -> None:
        self.call, self.clock, self.wait = call, clock, wait
        self.launches = 1

    def outputs(self) -> list[np.ndarray]:
        results = self.call()
        self.wait()
        return [on_host(result) for result in results]

    def warm_up(self) -> None:
        self.seconds()  # the first call compiled; this one makes the plan that later calls reuse
        for _ in range(WARM_UP):
            seconds = self.seconds()
            if seconds * self.launches > ROUND_SECONDS:
                break
            self.launches = max(self.launches, launches_per_round(seconds))

    def renew(self) -> None:
        """Nothing: a call of some microseconds takes as long by one plan as by another."""

    def seconds(self) -> float:
        started = self.clock()
        for _ in range(self.launches):
            self.call()
        self.wait()
        return (self.clock() - started) / self.launches


def on_host(array: Any) -> np.ndarray:
    """A copy in main memory, contiguous, of an array of any library; of bf16 the bits."""
    if hasattr(array, "detach"):
        tensor = array.detach().cpu()
        array = (
            tensor.view(sys.modules["torch"].uint16)
            if tensor.dtype.itemsize == 2 and "bfloat16" in str(tensor.dtype)
            else tensor
        )
    elif hasattr(array, "get"):
        array = array.get()
    return np.ascontiguousarray(array).copy()


def launches_per_round(seconds: float) -> int:
    """Number of launches, of `seconds` each, that are timed together in a round."""
    return max(1, min(MAX_LAUNCHES, int(ROUND_SECONDS / max(seconds, 1e-9))))
