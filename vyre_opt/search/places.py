"""Where a text has its characters, not counting blanks and line breaks."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

__all__ = ["Places"]

Array = np.ndarray[Any, Any]


class Places:
    """The places of a text's characters that hold bits, by their numbers.

    Where no blank was added, a character's place is its number.
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
        if not self._blanks or not len(characters):
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
            blanks = self._blanks[0]
            # as in `of`: the blanks before which there are at most so many characters
            low = bisect_right(
                range(len(blanks)), characters, key=lambda at: int(blanks[at]) - self._before - at
            )
            self._before += low
            self._blanks[0] = blanks[low:]
            if low < len(blanks):
                return
            self._blanks.pop(0)
