"""Memory traffic in bytes, where some buffers may be of open size."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from ..records import dataclass

__all__ = ["Traffic", "show_bytes"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def show_bytes(count: int) -> str:
    """`1.5 KiB`, to three digits, or four from 1000 to 1023."""
    size, unit = float(count), 0
    while abs(size) >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.3g} {_UNITS[unit]}" if abs(size) < 1000 else f"{size:.0f} {_UNITS[unit]}"


@dataclass(slots=True)
class Traffic:
    """`known`: bytes of buffers of known size; `open`: how often each buffer of open size is moved whole."""

    known: int = 0
    open: Counter[str] = field(default_factory=Counter)

    def add(self, buffer: str, size: int | None, times: int) -> None:
        if size is None:
            self.open[buffer] += times
        else:
            self.known += size * times
