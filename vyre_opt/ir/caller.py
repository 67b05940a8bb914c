"""The line of Python that calls into this package, as a location."""

from __future__ import annotations

import ast
import linecache
import sys
from itertools import islice
from types import FrameType

from .diagnostics import Location, Source

__all__ = ["caller_call", "caller_frame", "caller_location", "is_own_caller"]

_PACKAGE = __name__.partition(".")[0]
_SOURCES: dict[str, tuple[list[str], Source, list[int]]] = {}
"""Entry for the name of a file: its lines as Python has them, which change with the file; its text; the offsets of its lines."""


def caller_location(depth: int = 1) -> Location | None:
    """The line that the innermost frame outside of this package is at; None if nobody has its text."""
    frame = caller_frame(depth + 1)
    if frame is None:
        return None
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


def caller_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame outside of this package."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and _is_own(frame):
        frame = frame.f_back
    return frame


def caller_call() -> ast.Call | None:
    """The call that the innermost frame outside of this package is at, by its text; None if nobody has that."""
    frame = caller_frame(2)
    if frame is None:
        return None
    positions = next(islice(frame.f_code.co_positions(), max(0, frame.f_lasti // 2), None), (None,) * 4)
    first, last, begin, end = positions
    if first is None or last is None or begin is None or end is None:
        return None
    lines = [
        line.encode()
        for line in linecache.getlines(frame.f_code.co_filename, frame.f_globals)[first - 1 : last]
    ]
    if not lines:
        return None
    lines[-1] = lines[-1][:end]  # columns count bytes
    lines[0] = lines[0][begin:]
    try:
        tree = ast.parse(b"".join(lines), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return tree if isinstance(tree, ast.Call) else None


def is_own_caller() -> bool:
    """Whether the function that asks was called from within this package."""
    return _is_own(sys._getframe(2))


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE
