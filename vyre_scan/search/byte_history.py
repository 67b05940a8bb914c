"""The last bytes of data that goes by."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["ByteHistory"]

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class ByteHistory:
    """Bytes by their places, from those that are still needed up to the `total` that went by."""

    total: int = 0
    _window: Array = field(default_factory=lambda: np.zeros(0, np.uint8), init=False)
    _known: int = field(
        default=0, init=False
    )  # bytes of the window that are in the parts, if there are parts
    _parts: deque[Array] = field(default_factory=deque, init=False)
    _joined: Array | None = field(default=None, init=False)

    def show(self, window: Array, known: int) -> None:
        """The next bytes, until `forget`; the first `known` of the window are the last of those before."""
        self._window, self._known, self._joined = window, known, None
        self.total += len(window) - known

    def skip(self, count: int, latest: Array) -> None:
        """Skip `count` bytes, of which the last ones are given, or more than those."""
        self.total += count
        self._parts = deque([latest])
        self._window, self._known, self._joined = latest, len(latest), None

    def bytes_of(self, first: int, end: int) -> tuple[Array, int]:
        """A buffer with the bytes from `first` up to `end`, and the place of its first one."""
        base = self.total - len(self._window)
        if first >= base or not self._parts:
            return self._window, base
        if self._joined is None:
            self._joined = np.concatenate([*self._parts, self._window[self._known :]])
        return self._joined, self.total - len(self._joined)

    def forget(self, first: int, tail: Array) -> None:
        """Keep the bytes from `first` on.  `tail`: a copy of the last ones, which are in the next window, too."""
        if first >= self.total - len(tail):
            self._parts.clear()
        elif self._parts:
            self._parts.append(self._window[self._known :].copy())
        else:
            base = self.total - len(self._window)
            self._parts.append(self._window[max(0, first - base) :].copy())
        begin = self.total - sum(map(len, self._parts))
        while self._parts and begin + len(self._parts[0]) <= first:
            begin += len(self._parts.popleft())
        self._window, self._known, self._joined = tail, len(tail), None
