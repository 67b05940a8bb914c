"""Text without its blanks and line breaks.

Encoded text has lines of one length as a rule: of 76 characters in mail, of 64 in keys.  Such lines are rows of an array, of
which the first columns are copied; what has no such lines goes by `bytes.translate`, at a tenth of the speed.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .encodings import BLANKS

__all__ = ["copy_without_blanks", "copy_without_line_breaks"]

LOOK = 1 << 12
"""Characters among which the end of the first line is looked for."""
FEWEST_LINES = 16
UNRULY = 1 << 16
"""Characters of text without such lines, after which lines are looked for again."""

_IS_BLANK = np.isin(np.arange(256), list(BLANKS))


def copy_without_blanks(text: Array, out: Array) -> int:
    """Copy every character but blanks and line breaks to `out`, in order; gives how many there are."""
    characters = np.frombuffer(text.tobytes().translate(None, BLANKS), np.uint8)
    out[: len(characters)] = characters
    return len(characters)


def copy_without_line_breaks(text: Array, out: Array) -> int:
    """Copy as above, but perhaps with the blanks that are within lines of one length."""
    at = count = 0
    while at < len(text):
        before, lines, end = _equal_lines(text, at)
        if len(lines) < FEWEST_LINES:
            end = min(at + UNRULY, len(text))
            count += copy_without_blanks(text[at:end], out[count:])
        else:
            out[count : count + before - at] = text[at:before]
            count += before - at
            out[count : count + lines.size].reshape(lines.shape)[...] = lines
            count += lines.size
        at = end
    return count


def _equal_lines(text: Array, at: int) -> tuple[int, Array, int]:
    """The end of the line at `at`, the lines behind it that have one length and one kind of end, u8[lines, length], and the
    place behind these."""
    none = at, text[:0].reshape(0, 1), at
    breaks = _IS_BLANK[text[at : at + LOOK]]
    first_end = int(breaks.argmax())
    if not breaks[first_end]:
        return none
    first = first_end + int(breaks[first_end:].argmin())  # the next line begins here
    length = int(breaks[first:].argmax())
    if breaks[first] or not length:
        return none
    gap = first - first_end
    start, period = at + first, length + gap
    rows = text[start : start + (len(text) - start) // period * period].reshape(-1, period)
    is_equal = (rows[:, length:] == text[at + first_end : start]).all(axis=1)
    count = len(rows) if is_equal.all() else int(is_equal.argmin())
    return at + first_end, rows[:count, :length], start + count * period
