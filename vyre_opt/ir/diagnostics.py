"""Located messages: what is wrong, where, why, and what to do.

file.vyre:7:12: error: type mismatch: %a is u32, %b is f32
    %c = add %a, %b : u32
                 ^~
file.vyre:6:3: note: %b is defined here
help: cast %b to u32 first
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field

from ..records import dataclass
from .author_words import VYRE, Spelling
from .tracebacks import CallerError

__all__ = [
    "Diagnostic",
    "DiagnosticError",
    "Edit",
    "Fix",
    "Location",
    "Replacement",
    "Source",
    "decode",
    "render",
    "render_all",
    "shown",
    "source_text",
    "spelling_at",
    "written_name",
]

MAX_SHOWN_LINE = 160
MAX_PLACES = 3
MOST_SHOWN = 100


class Source:
    """A text with a name.  Line starts are computed on first use.

    `first_line` and `first_column` are where it begins, for a text that is a part of a file; an empty text stands for
    one that is not at hand.  `spelling`: that of messages.
    """

    __slots__ = ("name", "text", "first_line", "first_column", "spelling", "_starts")

    def __init__(
        self,
        text: str,
        name: str = "<string>",
        first_line: int = 1,
        spelling: Spelling = VYRE,
        first_column: int = 1,
    ) -> None:
        self.name = name
        self.text = text
        self.first_line = first_line
        self.first_column = first_column
        self.spelling = spelling
        self._starts: list[int] | None = None

    def line_column(self, offset: int) -> tuple[int, int]:
        """The line and the 1-based column of a character offset."""
        from bisect import bisect_right  # a library that loads in a millisecond

        starts = self._line_starts()
        line = bisect_right(starts, offset)
        column = offset - starts[line - 1] + (self.first_column if line == 1 else 1)
        return line + self.first_line - 1, column

    def offset(self, line: int, column: int) -> int | None:
        """The offset of a character by its line and column in a whole file; None where there is none."""
        starts = self._line_starts()
        if not 1 <= line <= len(starts):
            return None
        offset = starts[line - 1] + column - 1
        end = starts[line] if line < len(starts) else len(self.text)
        return offset if starts[line - 1] <= offset < end else None

    def _line_starts(self) -> list[int]:
        if self._starts is None:
            starts = [0]
            find, at = self.text.find, -1
            while (at := find("\n", at + 1)) >= 0:
                starts.append(at + 1)
            self._starts = starts
        return self._starts

    def line_text(self, line: int) -> str:
        start = self._line_starts()[line - self.first_line]
        end = self.text.find("\n", start)
        return (self.text[start:] if end < 0 else self.text[start:end]).removesuffix("\r")


class Location:
    """A range of characters of a source; `end` is exclusive."""

    __slots__ = ("source", "start", "end")

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source = source
        self.start = start
        self.end = end

    @property
    def text(self) -> str:
        """The text of the place."""
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        return self.source.line_column(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.line_column(self.start)[1]

    def __contains__(self, other: Location) -> bool:
        """Whether another location is a part of this one, and not all of it."""
        is_whole = (self.start, self.end) == (other.start, other.end)
        return (
            self.source is other.source
            and self.start <= other.start <= other.end <= self.end
            and not is_whole
        )

    def find(self, needle: str, limit: int = 4096) -> Location:
        """The location of the whole word `needle` within this one, or else this one."""
        text, at = self.source.text, self.start
        stop = min(len(text), self.end, at + limit)  # an op may span a large file
        while 0 <= (at := text.find(needle, at, stop)):
            after = at + len(needle)
            if after >= len(text) or not (text[after].isalnum() or text[after] in "_.$"):
                return Location(self.source, at, after)
            at = after
        return self

    def __str__(self) -> str:
        line, column = self.source.line_column(self.start)
        return f"{self.source.name}:{line}:{column}"


def source_text(loc: Location | None) -> str:
    """The text of a place; "" for none."""
    return "" if loc is None else loc.text


def spelling_at(loc: Location | None) -> Spelling:
    """Spelling of the words that messages about a place tell its author to write."""
    return VYRE if loc is None else loc.source.spelling


def written_name(name: str, loc: Location | None) -> str:
    """The name of a buffer where it is declared; in the program or the pipeline it may have another one, since passes rename
    buffers, and two of a pipeline in Python may have one name."""
    if loc is None:
        return name
    text, start = loc.source.text, loc.start
    declared = re.compile(r"\s*(?:buffer\s+)?@?(\w+)\s*:").match(text, start, loc.end)
    if declared is None and loc.source.spelling is not VYRE:  # t = vyre.buffer(f32, n)
        declared = re.compile(r"(\w+)\s*=\s*$").search(text, text.rfind("\n", 0, start) + 1, start)
    return name if declared is None else declared[1]


_ANOTHER_PLACE = "and here"


@dataclass(frozen=True, slots=True)
class Edit:
    """Write `text` in the place of what is there; a location may be empty."""

    loc: Location
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A way to correct a mistake: in words, and as edits of the text that are done together."""

    title: str
    edits: tuple[Edit, ...]


class Replacement(str):
    """Help that says what to write (`text`) in the place of a `word` that the message is about."""

    __slots__ = ("word", "text")

    word: str
    text: str

    @staticmethod
    def of(help: str, word: str, text: str) -> Replacement:
        replacement = Replacement(help)
        replacement.word, replacement.text = word, text
        return replacement

    def fix(self, loc: Location) -> Fix | None:
        """The edit, where the word is in the place of the message."""
        at = loc.find(self.word)
        if at.source.text[at.start : at.end] != self.word:
            return None
        return Fix(self, (Edit(at, self.text),))


@dataclass(slots=True)
class Diagnostic:
    """One message.  `severity` is error, warning, remark or note; `places`: how often the same mistake came again.

    `fixes`: what an editor may do about it, where `help` is more than words.  `suggestion`: gives the help where that takes work,
    which is done for messages that are shown; see `shown`.
    """

    severity: str
    message: str
    loc: Location | None = None
    notes: list[tuple[str, Location | None]] = field(default_factory=list)
    help: str | None = None
    places: int = 0
    fixes: list[Fix] = field(default_factory=list)
    suggestion: Callable[[], str | None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.help, Replacement) and self.loc is not None:
            self.add_fix(self.help.fix(self.loc))

    def suggest(self) -> None:
        """Put the suggestion in the place of the help and the fixes, if there is one."""
        suggestion, self.suggestion = self.suggestion, None
        help = suggestion() if suggestion is not None else None
        if help is not None:
            self.help, self.fixes = help, []
            self.__post_init__()

    def add_fix(self, fix: Fix | None) -> Diagnostic:
        if fix is not None:
            self.fixes.append(fix)
        return self

    def note(self, message: str, loc: Location | None = None) -> Diagnostic:
        self.notes.append((message, loc))
        return self

    def add_place(self, loc: Location | None) -> None:
        """Add a note for another place of the same mistake; those after the first MAX_PLACES are counted."""
        if loc is None:
            return
        self.places += 1
        if self.places <= MAX_PLACES:
            self.note(_ANOTHER_PLACE, loc)


class DiagnosticError(CallerError):
    """Carries the diagnostics of a failed step; `str()` renders them."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__(diagnostics)
        self.diagnostics = list(diagnostics)

    def __str__(self) -> str:
        return "\n".join(render_all(self.diagnostics))


def decode(raw: bytes, name: str) -> str:
    """The text of a file's bytes, without a byte order mark.  Raises DiagnosticError if they are not UTF-8."""
    try:
        return raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        place = len(raw[: error.start].decode())
        loc = Location(Source(raw.decode(errors="replace"), name), place, place + 1)
        message = f"byte 0x{raw[error.start]:02x} is not UTF-8; a .vyre file is UTF-8 text"
        raise DiagnosticError([Diagnostic("error", message, loc)]) from None


_COLORS = {"error": "31;1", "warning": "35;1", "remark": "34;1", "note": "36;1", "help": "32;1"}


def _paint(text: str, kind: str, color: bool) -> str:
    return f"\x1b[{_COLORS[kind]}m{text}\x1b[0m" if color else text


def shown(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """The diagnostics, of which the first MOST_SHOWN have their suggestions, and no others."""
    for number, diagnostic in enumerate(diagnostics):
        if number < MOST_SHOWN:
            diagnostic.suggest()
        diagnostic.suggestion = None
    return diagnostics


def render_all(diagnostics: Iterable[Diagnostic], color: bool = False) -> Iterator[str]:
    """Each as text: the first MOST_SHOWN, and how many more there are."""
    every = list(diagnostics)
    for diagnostic in every[:MOST_SHOWN]:
        yield render(diagnostic, color)
    if len(every) > MOST_SHOWN:
        yield f"... and {len(every) - MOST_SHOWN} more"


def render(diagnostic: Diagnostic, color: bool = False) -> str:
    """The message with its place, source line, caret range, notes and help, without a final newline."""
    lines = _headed(diagnostic.severity, diagnostic.message, diagnostic.loc, color)
    for message, loc in diagnostic.notes:
        lines += _headed("note", message, loc, color)
    if diagnostic.places > MAX_PLACES:
        more = diagnostic.places - MAX_PLACES
        lines += _headed("note", f"and in {more} more place{'s' * (more > 1)}", None, color)
    if diagnostic.help:
        lines.append(f"{_paint('help', 'help', color)}: {printable(diagnostic.help)}")
    return "\n".join(lines)


def _headed(severity: str, message: str, loc: Location | None, color: bool) -> list[str]:
    head = f"{_paint(severity, severity, color)}: {printable(message)}"
    if loc is None:
        return [head]
    line, column = loc.source.line_column(loc.start)
    head = f"{printable(loc.source.name)}:{line}:{column}: {head}"
    if not loc.source.text:
        return [head]
    text = loc.source.line_text(line)
    width = max(1, min(loc.end - loc.start, len(text) - column + 1))
    first = 0
    if len(text) > MAX_SHOWN_LINE:  # show a window of a very long line
        first = max(0, min(column - 1 - MAX_SHOWN_LINE // 2, len(text) - MAX_SHOWN_LINE))
        width = min(width, first + MAX_SHOWN_LINE - (column - 1))
    shown = printable(text[first : first + MAX_SHOWN_LINE])
    pad = "".join("\t" if c == "\t" else " " for c in shown[: column - 1 - first])
    carets = _paint("^" + "~" * (width - 1), severity, color)
    return [head, f"  {shown}", f"  {pad}{carets}"]


def printable(text: str) -> str:
    """Text that does nothing to a terminal: a program's may hold escape sequences, in a trap's message for one."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\t\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
