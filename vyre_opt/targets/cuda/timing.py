"""Measures GPU work by events on its stream."""

from __future__ import annotations

from typing import Any

from .device import Device
from .waiting import wait_until

__all__ = ["Timer"]


class Timer:
    """`with Timer(device, stream) as timer: ...`, then `timer.seconds()`, which waits for the work."""

    def __init__(self, device: Device, stream: Any = None) -> None:
        self.device = device
        self.stream = stream
        with device:
            self.start, self.end = device.cuda.Event(), device.cuda.Event()

    def __enter__(self) -> Timer:
        with self.device:
            self.start.record(self.stream)
        return self

    def __exit__(self, *error: object) -> None:
        with self.device:
            self.end.record(self.stream)

    def seconds(self) -> float:
        with self.device:
            wait_until(self.end.query)
            return float(self.start.time_till(self.end)) / 1e3
