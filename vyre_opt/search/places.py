"""Where a text has its characters, not counting blanks and line breaks."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Places"]

Array = np.ndarray[Any, Any]


class Places:
    """The places of a text's characters that hold bits, by their numbers.

    Where no blank was added, a character's place is its number.  Windows that are forgotten are those of the lowest numbers.
    """

    def __init__(self) -> None:
        self._blanks: list[Array] = []
        self._before = 0
        """Blanks that are forgotten."""

    def add(self, blanks: Array) -> None:
        """Add the places of blanks, behind all that were added before."""
        if len(blanks):
            self._blanks.append(blanks)

    def of(self, characters: Array) -> Array:
        """The place of each character."""
        if not self._blanks:
            return characters + np.uint64(self._before)
        if len(self._blanks) > 1:
            self._blanks = [np.concatenate(self._blanks)]
        (blanks,) = self._blanks
        count = np.arange(self._before, self._before + len(blanks))
        # before a blank there are as many characters as its place without the blanks before it
        passed = np.searchsorted(blanks.astype(np.int64) - count, characters.astype(np.int64), side="right")
        return characters + (passed + self._before).astype(np.uint64)

    def forget(self, characters: int) -> None:
        """Forget the places of characters with lower numbers."""
        while self._blanks:
            last = int(self._blanks[0][-1]) - self._before - len(self._blanks[0]) + 1
            if last > characters:
                return
            self._before += len(self._blanks.pop(0))
