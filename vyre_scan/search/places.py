"""Places of a text's characters, without blanks and line breaks."""

from __future__ import annotations

import numpy as np

from vyre_opt.records import dataclass

from ..arrays import Array
from .encodings import BLANK, BLANKS, Encoding

__all__ = ["Places"]

LAST_BLANK = max(BLANKS)
"""The highest blank; no character that holds bits is below it."""
FEW = 64
"""Characters of which the places are looked up at once."""


@dataclass(slots=True)
class _Window:
    """Window of a text from the place `start` on.  `before`: blanks in front of it.  `count`: its own blanks.
    `blanks`: their places, or None as long as nobody asked."""

    start: int
    before: int
    count: int
    text: Array | None
    blanks: Array | None = None


class Places:
    """The places of a text's characters that hold bits, by their numbers.

    Where a blank is in a window is looked up when it is asked for: most windows have no match.  What is not in a window that
    was added has no blanks.
    """

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self._windows: list[_Window] = []
        self._blanks = 0

    @property
    def is_regular(self) -> bool:
        """Whether there was no blank."""
        return not self._blanks

    def add(self, start: int, text: Array, count: int) -> None:
        """Add a window that has `count` blanks, behind all that were added before."""
        if count:
            self._windows.append(_Window(start, self._blanks, count, text))
            self._blanks += count

    def of(self, characters: Array) -> Array:
        """The place of each character."""
        if not self._windows:
            return characters + np.uint64(self._blanks)
        places = characters + np.uint64(self._windows[0].before)
        # before a window there are as many characters as its place without the blanks before it
        firsts = np.array([window.start - window.before for window in self._windows], np.uint64)
        number = np.searchsorted(firsts, characters, side="right") - 1
        for at in np.unique(number[number >= 0]).tolist():
            window, in_window = self._windows[at], number == at
            blanks = self._blanks_of(window)
            num_blanks = np.searchsorted(
                blanks - np.arange(len(blanks)),
                characters[in_window].astype(np.int64) - int(firsts[at]),
                "right",
            )
            places[in_window] = characters[in_window] + (num_blanks + window.before).astype(np.uint64)
        return places

    def forget(self, characters: int) -> None:
        """Forget the places of characters with lower numbers, and look up those of the others: texts may change now."""
        while len(self._windows) > 1 and self._windows[1].start - self._windows[1].before <= characters:
            self._windows.pop(0)
        if self._windows:
            self._cut(self._windows[0], characters)
        for window in self._windows:
            self._blanks_of(window)

    def _cut(self, window: _Window, characters: int) -> None:
        """Drop the front of a window, up to a character with that number or a lower one."""
        if window.text is None:
            blanks = self._blanks_of(window)
            first = window.start - window.before
            gone = int(np.count_nonzero(blanks - np.arange(len(blanks)) <= characters - first))
            if gone:
                cut = int(blanks[gone - 1]) + 1
                window.start, window.blanks = window.start + cut, blanks[gone:] - cut
                window.before, window.count = window.before + gone, window.count - gone
            return
        num_needed = window.start - window.before + len(window.text) - window.count - characters
        size = 2 * max(num_needed, FEW)
        while size < len(window.text):
            tail = window.text[-size:]
            count = int(np.count_nonzero(tail <= LAST_BLANK))  # all was right up to here
            if size - count > num_needed:
                cut = len(window.text) - size
                window.start, window.text = window.start + cut, tail
                window.before, window.count = window.before + window.count - count, count
                return
            size *= 2

    def _blanks_of(self, window: _Window) -> Array:
        """The places of a window's blanks, from its start on."""
        if window.blanks is None:
            assert window.text is not None
            low = np.flatnonzero(window.text <= LAST_BLANK)  # blanks, and perhaps a character that is wrong
            window.blanks = low[self.encoding.values[window.text[low]] == BLANK]
            window.text = None
        return window.blanks
