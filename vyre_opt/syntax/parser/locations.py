"""Locations that a text gives for what stands in it, `loc("softmax.vyre":7:3)`: where it was written at first.

They are put in place when the whole text is read, so that the errors of a text are about the text at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from functools import cache
from typing import Any

from ...ir.diagnostics import Location, Source
from ...ir.pipeline import Pipeline
from ...ir.program import Func, Param, Program, Spec
from ...records import dataclass

__all__ = ["ReadOriginal", "WrittenLocation", "place_locations"]

ReadOriginal = Callable[[str], str | None]
"""Gives the text of a file that a location names, for messages to quote; None if it cannot be had."""

MAX_NUMBER = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class WrittenLocation:
    """A `loc(...)` of the text, at the offsets `start` to `end`; `file` is None for `loc(unknown)`."""

    start: int = field(compare=False)
    end: int = field(compare=False)
    file: str | None = None
    line: int = 1
    column: int = 1


def place_locations(placed: Iterable[tuple[Any, WrittenLocation]], read_original: ReadOriginal) -> None:
    """Set `loc` of each op, declaration, stage or item as it is written."""

    @cache
    def original(file: str) -> Source | None:
        text = read_original(file)
        return None if text is None else Source(text, file)

    @cache
    def locate(written: WrittenLocation) -> Location | None:
        if written.file is None:
            return None
        source = original(written.file)
        start = None if source is None else source.offset(written.line, written.column)
        if source is None or start is None:
            return Location(Source("", written.file, written.line, first_column=written.column), 0, 0)
        return Location(source, start, start + len(_statement(source.text, start)))

    for target, written in placed:
        loc = locate(written)
        if loc is not None and isinstance(target, Program | Func | Pipeline | Spec | Param):
            loc = loc.find(f"@{target.name}")  # these are located at their names
        target.loc = loc


def _statement(text: str, start: int) -> str:
    """Text from `start` to the end of its line, without a comment and the brace of a block."""
    end = text.find("\n", start)
    line = text[start : end if end >= 0 else len(text)]
    return line.partition("//")[0].rstrip().removesuffix("{").rstrip()
