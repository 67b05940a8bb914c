r"""Regular expressions as trees: a subset of the syntax of Python's `re` for bytes.

    bytes        a  \n  \x41  \101  \.         and each byte that has no other meaning
    classes      .  [a-f]  [^\s,]  \d \D \w \W \s \S      `.` is any byte but \n, and any at all with the flag s
    repetition   *  +  ?  {3}  {3,}  {,5}  {3,5}          also lazy ones, *? and so on, which match at the same places
    structure    xy  x|y  (x)  (?:x)  (?P<name>x)  (?#a comment)
    flags        (?i) (?s) (?m) at the start, (?i:x) (?-i:x) anywhere; case is that of ASCII
    anchors      ^ $ \A \Z \b \B                          ^ and $ of each line with the flag m

Each means what it means to `re`.  What a regular language does not have (references to groups, lookahead and
lookbehind, conditionals), and what only steers a search that tries alternatives (possessive repetition, atomic groups),
is an error with its place; so are the flags x and L.  `re` itself finds errors of syntax.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from ..ir.diagnostics import Diagnostic, Location, Source
from .errors import PatternError

__all__ = [
    "FLAGS",
    "Alternation",
    "Anchor",
    "ByteSet",
    "Concatenation",
    "Node",
    "Repetition",
    "location_in",
    "parse_regex",
]

FLAGS = re.IGNORECASE | re.DOTALL | re.MULTILINE | re.ASCII
"""Those that a pattern may have; ASCII is how bytes are always compared."""

MAX_POSITIONS = 1 << 16
"""Bytes that a pattern may name, repetitions written out: a{1000} has a thousand."""

ALL_BYTES = (1 << 256) - 1


def _set_of(characters: bytes) -> int:
    return sum(1 << byte for byte in set(characters))


_DIGITS = _set_of(b"0123456789")
_UPPER, _LOWER = (_set_of(bytes(range(first, first + 26))) for first in b"Aa")
_WORD = _DIGITS | _UPPER | _LOWER | _set_of(b"_")
_SPACES = _set_of(b" \t\n\r\f\v")
_CATEGORIES = {"d": _DIGITS, "w": _WORD, "s": _SPACES}
_CATEGORIES |= {letter.upper(): ALL_BYTES & ~members for letter, members in _CATEGORIES.items()}
_CONTROLS = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_ANCHORS = {"A": "begin", "Z": "end", "z": "end", "b": "word", "B": "not word"}
_COUNTS = re.compile(r"\{(?!\})(\d*)(?:(,)(\d*))?\}")
_FLAG_GROUP = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_OUTSIDE = {
    "?=": ("lookahead", "search for the part before it, and check what follows in Python"),
    "?!": ("negative lookahead", "search for the part before it, and check what follows in Python"),
    "?<=": ("lookbehind", "search for the part after it, and check what comes before in Python"),
    "?<!": ("negative lookbehind", "search for the part after it, and check what comes before in Python"),
    "?>": ("an atomic group", "write (?:...), if what it matches may be given up"),
    "?P=": ("a reference to a group", "list what the group can match, or check for equality in Python"),
    "?(": ("a conditional group", "write both cases as alternatives: x|y"),
}


@dataclass(frozen=True, slots=True)
class ByteSet:
    """One byte of `members`, a set as bits of an int."""

    members: int
    num_positions = 1
    shortest = 1
    longest = 1


@dataclass(frozen=True, slots=True)
class Anchor:
    """No bytes, between two of which something holds.  `kind`: begin, end, line begin, line end, last line end, word,
    not word.  `place`: where it stands in the pattern."""

    kind: str
    place: int
    num_positions = 0
    shortest = 0
    longest = 0


@dataclass(frozen=True, slots=True)
class Concatenation:
    items: tuple[Node, ...]
    num_positions: int
    shortest: int
    longest: int | None

    @staticmethod
    def of(items: Sequence[Node]) -> Node:
        if len(items) == 1:
            return items[0]
        longest = [item.longest for item in items]
        return Concatenation(
            tuple(items),
            sum(item.num_positions for item in items),
            sum(item.shortest for item in items),
            None if None in longest else sum(length or 0 for length in longest),
        )


@dataclass(frozen=True, slots=True)
class Alternation:
    options: tuple[Node, ...]
    num_positions: int
    shortest: int
    longest: int | None

    @staticmethod
    def of(options: Sequence[Node]) -> Node:
        if len(options) == 1:
            return options[0]
        longest = [option.longest for option in options]
        return Alternation(
            tuple(options),
            sum(option.num_positions for option in options),
            min(option.shortest for option in options),
            None if None in longest else max(length or 0 for length in longest),
        )


@dataclass(frozen=True, slots=True)
class Repetition:
    """`item` `low` to `high` times (None: any number of times more)."""

    item: Node
    low: int
    high: int | None

    @property
    def num_positions(self) -> int:
        return self.item.num_positions * (max(self.low, 1) if self.high is None else self.high)

    @property
    def shortest(self) -> int:
        return self.item.shortest * self.low

    @property
    def longest(self) -> int | None:
        if self.item.longest == 0:
            return 0
        return None if self.high is None or self.item.longest is None else self.item.longest * self.high


Node = ByteSet | Anchor | Concatenation | Alternation | Repetition


def parse_regex(pattern: bytes, flags: int, name: str) -> Node:
    """The tree of a pattern.  `name`: of the pattern in messages.  Raises PatternError."""
    _check_syntax(pattern, flags, name)
    try:
        node = _Parser(pattern, flags, name).parse()
    except RecursionError:
        raise _error(pattern, name, 0, len(pattern), "groups are nested too deeply") from None
    if node.num_positions > MAX_POSITIONS:
        message = (
            f"the pattern names {node.num_positions} bytes, repetitions written out; at most {MAX_POSITIONS}"
        )
        raise _error(pattern, name, 0, len(pattern), message)
    return node


def _check_syntax(pattern: bytes, flags: int, name: str) -> None:
    """Raise PatternError where `re` does not take the pattern."""
    if flags & ~FLAGS:
        outside = re.RegexFlag(flags & ~FLAGS)
        raise _error(
            pattern, name, 0, len(pattern), f"the flags {outside!r} are not supported; I, S and M are"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a later version may read differently
            re.compile(pattern, flags)
    except re.error as error:
        place = min(error.pos or 0, len(pattern))
        raise _error(pattern, name, place, place + 1, error.msg) from None
    except OverflowError as error:
        raise _error(pattern, name, 0, len(pattern), str(error)) from None
    except RecursionError:
        raise _error(pattern, name, 0, len(pattern), "groups are nested too deeply") from None


def location_in(pattern: bytes, name: str, start: int, end: int) -> Location:
    """The place of some bytes of a pattern in the text that messages show."""

    def column(at: int) -> int:
        return len(pattern[:at].decode(errors="replace"))

    return Location(Source(pattern.decode(errors="replace"), name), column(start), column(end))


def _error(
    pattern: bytes, name: str, start: int, end: int, message: str, advice: str | None = None
) -> PatternError:
    loc = location_in(pattern, name, start, end)
    return PatternError([Diagnostic("error", message, loc, help=advice)])


class _Parser:
    """Recursive descent over a pattern that `re` takes, so that what is not outside of the subset is well formed."""

    def __init__(self, pattern: bytes, flags: int, name: str) -> None:
        self.pattern, self.name, self.flags = pattern, name, flags
        self.text = pattern.decode("latin-1")  # one character a byte
        self.at = 0

    def fail(self, start: int, what: str, advice: str | None = None) -> NoReturn:
        message = f"{what} is outside of what an automaton matches"
        raise _error(self.pattern, self.name, start, max(self.at, start + 1), message, advice)

    def parse(self) -> Node:
        return self.alternation(self.flags)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, token: str) -> bool:
        taken = self.text.startswith(token, self.at)
        self.at += len(token) * taken
        return taken

    def alternation(self, flags: int) -> Node:
        options = []
        while True:
            items, flags = self.sequence(flags)
            options.append(Concatenation.of(items))
            if not self.take("|"):
                return Alternation.of(options)

    def sequence(self, flags: int) -> tuple[list[Node], int]:
        """Items up to `|`, `)` or the end, and the flags from there on, which `(?i)` at the start sets."""
        items: list[Node] = []
        while self.peek() not in ("", "|", ")"):
            if self.peek() == "(" and (setting := _FLAG_GROUP.match(self.text, self.at + 1)):
                start, self.at = self.at, setting.end()
                inner = self.with_flags(flags, setting, start)
                if setting[3] == ")":
                    flags = inner
                    continue
                item = self.group(inner)
            elif self.text.startswith("(?#", self.at):
                self.at = self.text.index(")", self.at) + 1
                continue
            else:
                item = self.atom(flags)
            items.append(self.repeated(item))
        return items, flags

    def with_flags(self, flags: int, setting: re.Match[str], start: int) -> int:
        for letter in setting[1]:
            flag = re.RegexFlag[letter.upper()]
            if flag & ~FLAGS:
                self.fail(start, f"the flag {letter}")
            flags |= flag
        for letter in setting[2] or "":
            flags &= ~re.RegexFlag[letter.upper()]
        return flags

    def group(self, flags: int) -> Node:
        node = self.alternation(flags)
        self.take(")")
        return node

    def repeated(self, item: Node) -> Node:
        """`item` with the repetition that follows it, if one does."""
        start = self.at
        if counts := _COUNTS.match(self.text, self.at):
            self.at = counts.end()
            low = int(counts[1] or 0)
            high = low if counts[2] is None else int(counts[3]) if counts[3] else None
        elif self.peek() and self.peek() in "*+?":
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self.peek()]
            self.at += 1
        else:
            return item
        if not self.take("?") and self.take("+"):
            self.fail(
                start, "possessive repetition", "leave out the + after it, if what it matches may be given up"
            )
        if (high is not None and high > MAX_POSITIONS) or low > MAX_POSITIONS:
            message = f"a repetition of more than {MAX_POSITIONS} times"
            raise _error(self.pattern, self.name, start, self.at, message)
        return self.checked_size(Repetition(item, low, high), start)

    def checked_size(self, node: Repetition, start: int) -> Node:
        if node.num_positions > MAX_POSITIONS:
            message = (
                f"with this repetition the pattern names {node.num_positions} bytes; at most {MAX_POSITIONS}"
            )
            raise _error(self.pattern, self.name, start, self.at, message)
        return node

    def atom(self, flags: int) -> Node:
        start, character = self.at, self.peek()
        self.at += 1
        match character:
            case "(":
                return self.opened_group(start, flags)
            case "[":
                return self.byte_class(flags)
            case "\\":
                return self.escape(start, flags)
            case ".":
                return ByteSet(ALL_BYTES if flags & re.DOTALL else ALL_BYTES & ~_set_of(b"\n"))
            case "^":
                return Anchor("line begin" if flags & re.MULTILINE else "begin", start)
            case "$":
                return Anchor("line end" if flags & re.MULTILINE else "last line end", start)
            case _:
                return ByteSet(_folded(1 << ord(character), flags))

    def opened_group(self, start: int, flags: int) -> Node:
        for token, (what, advice) in _OUTSIDE.items():
            if self.take(token):
                self.fail(start, what, advice)
        if self.take("?P<"):
            self.at = self.text.index(">", self.at) + 1
        return self.group(flags)

    def escape(self, start: int, flags: int) -> Node:
        character = self.peek()
        if character in _CATEGORIES:
            self.at += 1
            return ByteSet(_CATEGORIES[character])
        if character in _ANCHORS:
            self.at += 1
            return Anchor(_ANCHORS[character], start)
        reference = re.compile(r"(?![0-3][0-7]{2})[1-9]\d?").match(self.text, self.at)
        if reference:
            self.at = reference.end()
            self.fail(
                start,
                "a reference to a group",
                "list what the group can match, or check for equality in Python",
            )
        return ByteSet(_folded(1 << self.escaped_byte(), flags))

    def escaped_byte(self) -> int:
        r"""The byte of \x41, \101, \0, \n or \. , whose backslash is read."""
        if hexadecimal := re.compile(r"x([0-9a-fA-F]{2})").match(self.text, self.at):
            self.at = hexadecimal.end()
            return int(hexadecimal[1], 16)
        if octal := re.compile(r"0[0-7]{0,2}|[0-7]{1,3}").match(self.text, self.at):
            self.at = octal.end()
            return int(octal[0], 8)
        character = self.peek()
        self.at += 1
        return _CONTROLS.get(character, ord(character))

    def byte_class(self, flags: int) -> Node:
        is_negated = self.take("^")
        members, is_first = 0, True
        while is_first or self.peek() != "]":
            is_first = False
            low = self.class_member()
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] != "]":
                self.at += 1
                high = self.class_member()
                low = (high << 1) - low  # of single bits: all from one to the other
            members |= low
        self.at += 1
        members = _folded(members, flags)
        return ByteSet(ALL_BYTES & ~members if is_negated else members)

    def class_member(self) -> int:
        """A byte or a category, as a set."""
        if not self.take("\\"):
            self.at += 1
            return 1 << ord(self.text[self.at - 1])
        character = self.peek()
        if character in _CATEGORIES:
            self.at += 1
            return _CATEGORIES[character]
        return 1 << self.escaped_byte()


def _folded(members: int, flags: int) -> int:
    """The set with both cases of its letters, if the flags say so."""
    if not flags & re.IGNORECASE:
        return members
    return members | (members & _UPPER) << 32 | (members & _LOWER) >> 32
