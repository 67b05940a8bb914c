"""The last bytes of data that goes by."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["WAITING", "ByteHistory", "Rows"]

Array = np.ndarray[Any, Any]
Rows = Callable[[Array, int], Array]
"""Gives u8[n, width], the bytes from each of n places on, i64."""


WAITING = 2
"""Bytes behind the end of a match that it may take to know it."""


@dataclass(slots=True)
class ByteHistory:
    """Keeps `limit` bytes in front of the latest part, and some more.  `total`: how many went by."""

    limit: int
    total: int = 0
    _parts: deque[Array] = field(default_factory=deque, init=False)
    _kept: int = field(default=0, init=False)

    def add(self, part: Array) -> None:
        """Add bytes, which are not copied."""
        self._parts.append(part)
        self.total += len(part)
        self._kept += len(part)
        # of what ended where the part before did, it may be known only now
        while self._kept - len(self._parts[0]) - len(part) >= self.limit + WAITING:
            self._kept -= len(self._parts.popleft())

    def skip(self, count: int, kept: Array) -> None:
        """Forget all, for `count` bytes went by that were not added, of which `kept` are the last."""
        self._parts.clear()
        self._kept = 0
        self.total += count - len(kept)
        self.add(kept)

    def last(self, count: int) -> Array:
        """The last `count` bytes, or all that are kept if these are fewer; a copy only where they are of several parts."""
        parts: list[Array] = []
        for part in reversed(self._parts):
            if count <= 0:
                break
            parts.append(part[max(0, len(part) - count) :])
            count -= len(part)
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts[::-1]) if parts else np.zeros(0, np.uint8)
