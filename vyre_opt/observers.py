"""Observers of what the process does: its passes, compilations, calls and launches.

Calls ask only whether `OBSERVERS` is empty, as long as it is.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol

__all__ = ["OBSERVERS", "Observer", "annotated", "is_profiler_attached", "span", "tells_perf"]

PROFILERS = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")
"""Environment variables that NVIDIA's tools set in the processes that they start."""


class Observer(Protocol):
    """`times_launches`: whether `launch` is called, for which launches run one by one and are waited for."""

    times_launches: bool

    def span(self, kind: str, name: str) -> AbstractContextManager[object]:
        """Around what takes time: `kind` is pass, compile, read (from the cache), load (into the driver) or call."""

    def launch(self, launch: Any) -> None:
        """A launch has run; see `execution.observed_run.TimedLaunch`."""


OBSERVERS: list[Observer] = []


@contextmanager
def span(kind: str, name: str) -> Iterator[None]:
    """Around what observers hear of; see `Observer.span`."""
    with ExitStack() as spans:
        for observer in tuple(OBSERVERS):
            spans.enter_context(observer.span(kind, name))
        yield


def is_profiler_attached() -> bool:
    """Whether one of NVIDIA's tools watches this process."""
    return any(map(os.environ.get, PROFILERS))


def tells_perf() -> bool:
    """Whether perf is told of code of the CPU, as the environment variable VYRE_PERF says."""
    return os.environ.get("VYRE_PERF") == "1"


class _Nvtx:
    """Ranges of NVTX, which Nsight shows above the kernels."""

    times_launches = False

    def __init__(self, annotate: Callable[..., AbstractContextManager[object]]) -> None:
        self.annotate = annotate

    def span(self, kind: str, name: str) -> AbstractContextManager[object]:
        return self.annotate(f"{kind} {name}", domain="vyre", category=kind)

    def launch(self, launch: Any) -> None:
        raise AssertionError("NVTX has no launches")


def annotated() -> _Nvtx | None:
    """The observer that makes ranges of NVTX: under a profiler, or as the environment variable VYRE_NVTX says.

    None where there is to be none, or the package nvtx is not there.
    """
    value = os.environ.get("VYRE_NVTX")
    if value in ("", "0") or (value is None and not is_profiler_attached()):
        return None
    try:
        import nvtx
    except ImportError:
        if value is not None:
            warnings.warn(
                "VYRE_NVTX asks for ranges of NVTX, which the package nvtx makes: pip install nvtx",
                stacklevel=2,
            )
        return None
    return _Nvtx(nvtx.annotate)


if (_nvtx := annotated()) is not None:
    OBSERVERS.append(_nvtx)
