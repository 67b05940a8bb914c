"""The line of Python that calls into this package, as a location."""

from __future__ import annotations

import linecache
import sys
from itertools import islice
from types import FrameType

from .diagnostics import Location, Source

__all__ = ["caller_location", "is_own_caller"]

_PACKAGE = __name__.partition(".")[0]
_SOURCES: dict[str, tuple[list[str], Source, list[int]]] = {}
"""Entry for the name of a file: its lines as Python has them, which change with the file; its text; the offsets of its lines."""


def caller_location(depth: int = 1) -> Location | None:
    """The line that the innermost frame outside of this package is at; None if nobody has its text."""
    frame = sys._getframe(depth)
    while _is_own(frame):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    name, line = frame.f_code.co_filename, frame.f_lineno
    lines, known = linecache.getlines(name, frame.f_globals), _SOURCES.get(name)
    if known is None or known[0] is not lines:
        starts = [0]
        for text in lines:
            starts.append(starts[-1] + len(text))
        known = _SOURCES[name] = lines, Source("".join(lines), name), starts
    _, source, starts = known
    if line >= len(starts):
        return None
    text = source.text[starts[line - 1] : starts[line]]
    positions = next(islice(frame.f_code.co_positions(), max(0, frame.f_lasti // 2), None), (None,) * 4)
    first, last, begin, end = positions
    if ";" in text and text.isascii() and first == last == line and begin is not None and end is not None:
        return Location(source, starts[line - 1] + begin, starts[line - 1] + end)
    indent = len(text) - len(text.lstrip())
    return Location(source, starts[line - 1] + indent, starts[line - 1] + max(indent + 1, len(text.rstrip())))


def is_own_caller() -> bool:
    """Whether the function that asks was called from within this package."""
    return _is_own(sys._getframe(2))


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE
