"""Lines that programs print, of two runs that should print the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

__all__ = ["differing_lines"]


def differing_lines(expected: Sequence[str], actual: Sequence[str]) -> str:
    """Where the lines of two runs differ, in words; "" if nowhere.

    Which lines are left out of a launch that prints too many rests on the order of its invocations: there only the last
    line is compared, which says how many these are.
    """
    if expected and expected[-1].startswith("... and "):
        expected, actual = expected[-1:], actual[-1:]
    for number, (want, got) in enumerate(zip_longest(expected, actual)):
        if want != got:
            return f"line {number} that it prints is {got!r}, not {want!r}"
    return ""
