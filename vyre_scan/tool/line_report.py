"""Lines that match, printed as grep prints them: numbers, offsets, context, or the matches alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .line_search import Span
from .options import ScanOptions
from .output import CYAN, RED, colored, output_line, shown_path

__all__ = ["LineReport"]

NUL = b"\0"
NEWLINE = ord("\n")
LOOK = 1 << 16
"""Bytes at the start of a document that tell whether it is text."""


class LineReport:
    """Report of documents: `begin` one, `add` its parts, which end with lines.  `write` gets what is to be printed."""

    def __init__(
        self, options: ScanOptions, shows_name: bool, is_colored: bool, write: Callable[[bytes], None]
    ) -> None:
        self.options, self.shows_name, self.is_colored, self.write = options, shows_name, is_colored, write
        self.most = 1 if options.is_brief else options.max_count
        """Lines of a document; None for all."""
        self.before, self.after = (
            0 if options.is_silent else options.context if lines is None else lines
            for lines in (options.before_context, options.after_context)
        )
        self._has_group = False  # whether lines with context were printed, of any document
        self._out: list[bytes] = []
        self.begin("")

    def begin(self, name: str) -> None:
        self.name = name
        self.count = 0  # of lines that were selected
        self.is_done = self.most == 0  # whether no more of the document is to be looked at
        self._number, self._number_place = 1, 0  # of a line, and a place in it or behind it in the part
        self._offset = 0  # of the part's data in the document
        self._end = -1  # of the last line that was printed, in the document
        self._num_after = 0  # lines of context that are still to be printed
        self._tail = b""  # the last lines of the part before

    def add(self, data: bytes, begin: int, end: int, spans: Sequence[Span], is_part: bool = False) -> None:
        """The next part, a slice of `data`, and its matches.  `is_part`: others may follow."""
        options, front = self.options, begin
        if self.is_done:
            return
        if self._tail:  # lines of the part before stand in front of its own
            shift, front = len(self._tail) - begin, 0
            data = self._tail + data[begin:end]
            spans = [(start + shift, stop + shift, number) for start, stop, number in spans]
            begin, end = begin + shift, end + shift
        self._offset -= begin
        self._number_place = begin
        is_binary = not (options.text or options.is_silent) and NUL in data[begin : min(end, begin + LOOK)]
        lines = _matching(data, begin, end, spans)
        at = begin
        for start, stop, inside in _others(data, begin, end, lines) if options.invert_match else lines:
            self.count += 1
            if is_binary:
                self._out.append(shown_path(self.name, self.is_colored) + b": binary file matches\n")
                self.is_done = True
                break
            if not options.is_silent:
                self._select(data, front, at, start, stop, inside)
            at = stop + 1
            if self.count == self.most:
                self.is_done = True
                break
        self._context(data, at, end)
        if is_part:
            self._pass(data, begin, end)
        if self._out:
            self.write(b"".join(self._out))
            self._out.clear()

    def _pass(self, data: bytes, begin: int, end: int) -> None:
        """Keep what the next part may print of this one."""
        if self.options.line_number:
            self._number_at(data, end)
        self._offset += end
        first = end
        for _ in range(self.before):
            first = data.rfind(b"\n", begin, max(begin, first - 1)) + 1 or begin
        self._tail = data[first:end]

    # --- printing

    def _select(self, data: bytes, front: int, at: int, start: int, stop: int, inside: list[Span]) -> None:
        options = self.options
        if self.before or self.after:
            self._context(data, at, start)
            first, end = start, self._end - self._offset
            for _ in range(self.before):
                if first > max(front, end):
                    first = data.rfind(b"\n", front, first - 1) + 1 or front
            if self._has_group and (self._end < 0 or first > end):
                self._out.append(colored(b"--", CYAN, self.is_colored) + b"\n")
            self._has_group = True
            self._lines(data, first, start)
        if not options.only_matching:
            self._print(data, start, start, b":", self._highlighted(data, start, stop, inside))
        elif not options.invert_match:
            for a, b, _ in inside:
                if a < b:
                    self._print(data, start, a, b":", colored(data[a:b], RED, self.is_colored))
        self._end = self._offset + stop + 1
        self._num_after = self.after

    def _context(self, data: bytes, at: int, end: int) -> None:
        """Print the context behind the last selected line, up to `end`."""
        while self._num_after and at < end:
            stop = _line_end(data, at, end)
            self._lines(data, at, stop + 1)
            at = stop + 1
            self._end = self._offset + at
            self._num_after -= 1

    def _lines(self, data: bytes, first: int, end: int) -> None:
        """Print lines of context."""
        while first < end and not self.options.only_matching:
            stop = _line_end(data, first, end)
            self._print(data, first, first, b"-", data[first:stop])
            first = stop + 1

    def _number_at(self, data: bytes, place: int) -> int:
        """The number of the line that has a place of the data."""
        if place < self._number_place:
            return self._number - data.count(b"\n", place, self._number_place)
        self._number += data.count(b"\n", self._number_place, place)
        self._number_place = place
        return self._number

    def _print(self, data: bytes, start: int, place: int, separator: bytes, text: bytes) -> None:
        """Print text of the line at `start` behind the fields of its head, with the offset of `place`."""
        options, numbers = self.options, list[int]()
        if options.line_number:
            numbers.append(self._number_at(data, start))
        if options.byte_offset:
            numbers.append(self._offset + place)
        path = self.name if self.shows_name else None
        self._out.append(output_line(path, numbers, [text], separator, self.is_colored))

    def _highlighted(self, data: bytes, start: int, stop: int, inside: list[Span]) -> bytes:
        if not self.is_colored or self.options.invert_match:
            return data[start:stop]
        pieces, at = [], start
        for a, b, _ in inside:
            if a >= at and a < b:
                pieces += [data[at:a], colored(data[a:b], RED, True)]
                at = b
        return b"".join([*pieces, data[at:stop]])


def _line_end(data: bytes, place: int, end: int) -> int:
    """The place of the next line break, or `end`."""
    stop = data.find(b"\n", place, end)
    return end if stop < 0 else stop


Line = tuple[int, int, list[Span]]
"""Start and end of a line, without its line break, and its matches."""


def _matching(data: bytes, begin: int, end: int, spans: Sequence[Span]) -> Iterator[Line]:
    """The lines that have a match."""
    start, stop, inside = begin, -1, list[Span]()
    for span in spans:
        if span[0] <= stop:
            inside.append(span)
            continue
        if inside:
            yield start, stop, inside
        inside = []
        if span[0] == end and (end == begin or data[end - 1] == NEWLINE):  # no line is there
            continue
        start = data.rfind(b"\n", max(begin, stop), span[0]) + 1 or begin
        stop = _line_end(data, span[0], end)
        inside = [span]
    if inside:
        yield start, stop, inside


def _others(data: bytes, begin: int, end: int, lines: Iterator[Line]) -> Iterator[Line]:
    """All other lines."""
    at = begin
    for start, stop, _ in [*lines, (end, end, [])]:
        while at < start:
            line_end = _line_end(data, at, end)
            yield at, line_end, []
            at = line_end + 1
        at = stop + 1
