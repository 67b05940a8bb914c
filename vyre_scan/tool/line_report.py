"""Lines that match, printed as grep prints them: numbers, offsets, context, or the matches alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from vyre_opt.records import dataclass

from .line_search import Span
from .options import ScanOptions
from .output import CYAN, GREEN, MAGENTA, RED, colored, shown_name

__all__ = ["LineReport"]

NUL = b"\0"
NEWLINE = ord("\n")
LOOK = 1 << 16
"""Bytes at the start of a document that tell whether it is text."""


@dataclass
class LineReport:
    """Report of documents: `begin` one, `add` its parts, which end with lines.  `write` gets what is to be printed."""

    options: ScanOptions
    shows_name: bool
    is_colored: bool
    write: Callable[[bytes], None]
    name: str = ""
    count: int = 0
    """Lines of the document that were selected."""
    is_done: bool = False
    """Whether no more of the document is to be looked at."""
    _number: int = 1
    _counted: int = 0  # up to where in the part lines are counted
    _offset: int = 0  # of the part's data in the document
    _printed: int = -1  # behind the last line that was printed, in the document
    _left: int = 0  # lines of context that are still to be printed
    _has_group: bool = False  # whether lines with context were printed, of any document
    _tail: bytes = b""  # the last lines of the part before
    _out: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        options = self.options
        self.most = 1 if options.is_brief else options.max_count
        """Lines of a document; None for all."""
        self.before, self.after = (
            0 if options.is_silent else options.context if lines is None else lines
            for lines in (options.before_context, options.after_context)
        )

    def begin(self, name: str) -> None:
        self.name, self.count, self.is_done = name, 0, self.most == 0
        self._number, self._counted, self._offset, self._printed, self._left = 1, 0, 0, -1, 0
        self._tail = b""

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
        self._counted = begin
        is_binary = not (options.text or options.is_silent) and NUL in data[begin : min(end, begin + LOOK)]
        lines = _matching(data, begin, end, spans)
        at = begin
        for start, stop, inside in _others(data, begin, end, lines) if options.invert_match else lines:
            self.count += 1
            if is_binary:
                self._out.append(self._name() + b": binary file matches\n")
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
            first, printed = start, self._printed - self._offset
            for _ in range(self.before):
                if first > max(front, printed):
                    first = data.rfind(b"\n", front, first - 1) + 1 or front
            if self._has_group and (self._printed < 0 or first > printed):
                self._out.append(colored(b"--", CYAN, self.is_colored) + b"\n")
            self._has_group = True
            self._lines(data, first, start)
        if not options.only_matching:
            self._out += [
                self._head(data, start, start, b":"),
                self._highlighted(data, start, stop, inside),
                b"\n",
            ]
        elif not options.invert_match:
            for a, b, _ in inside:
                if a < b:
                    self._out += [
                        self._head(data, start, a, b":"),
                        colored(data[a:b], RED, self.is_colored),
                        b"\n",
                    ]
        self._printed = self._offset + stop + 1
        self._left = self.after

    def _context(self, data: bytes, at: int, end: int) -> None:
        """Print what is left of the lines behind the last one that was selected, up to `end`."""
        while self._left and at < end:
            stop = _line_end(data, at, end)
            self._lines(data, at, stop + 1)
            at = stop + 1
            self._printed = self._offset + at
            self._left -= 1

    def _lines(self, data: bytes, first: int, end: int) -> None:
        """Print lines of context."""
        while first < end and not self.options.only_matching:
            stop = _line_end(data, first, end)
            self._out += [self._head(data, first, first, b"-"), data[first:stop], b"\n"]
            first = stop + 1

    def _number_at(self, data: bytes, place: int) -> int:
        """The number of the line that has a place of the data."""
        if place < self._counted:
            return self._number - data.count(b"\n", place, self._counted)
        self._number += data.count(b"\n", self._counted, place)
        self._counted = place
        return self._number

    def _name(self) -> bytes:
        return colored(shown_name(self.name).encode(errors="surrogateescape"), MAGENTA, self.is_colored)

    def _head(self, data: bytes, start: int, place: int, separator: bytes) -> bytes:
        options, fields = self.options, []
        if self.shows_name:
            fields.append(self._name())
        if options.line_number:
            fields.append(colored(b"%d" % self._number_at(data, start), GREEN, self.is_colored))
        if options.byte_offset:
            fields.append(colored(b"%d" % (self._offset + place), GREEN, self.is_colored))
        behind = colored(separator, CYAN, self.is_colored)
        return behind.join([*fields, b""]) if fields else b""

    def _highlighted(self, data: bytes, start: int, stop: int, inside: list[Span]) -> bytes:
        if not self.is_colored or self.options.invert_match:
            return data[start:stop]
        shown, at = [], start
        for a, b, _ in inside:
            if a >= at and a < b:
                shown += [data[at:a], colored(data[a:b], RED, True)]
                at = b
        return b"".join([*shown, data[at:stop]])


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
    """The lines that are none of `lines`."""
    at = begin
    for start, stop, _ in [*lines, (end, end, [])]:
        while at < start:
            line_end = _line_end(data, at, end)
            yield at, line_end, []
            at = line_end + 1
        at = stop + 1
