r"""Expressions as people write them, in the syntax of Python's `re` for bytes.

What scanners' rules have beside that syntax is written out first:

    [[:alpha:]_] [[:^digit:]]     the bytes of a POSIX class
    a(?i)b|c                      flags from there to the end of the group: a(?i:b)|(?i:c)
    (?u)  (?u:x)                  `.`, and a class that is negated, are a character of UTF-8
    é  [à-ÿ]                      in text, the bytes of a character: (?:\xc3\xa9)
    (?<name>x)  \z  \Q.\E  \x{e9} as Go and RE2 have them

A mistake is an error with its place in what was written.
"""

from __future__ import annotations

import re
import re._parser as _parser
import warnings
from dataclasses import field
from typing import Any, NoReturn

from vyre_opt.ir.diagnostics import Diagnostic, Location, Source
from vyre_opt.records import dataclass

from .errors import PatternError
from .rule_facts import ALL_BYTES, members_of

__all__ = ["location_in", "parsed", "tree_of"]

POSIX = {
    "alnum": r"0-9A-Za-z",
    "alpha": r"A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": r"0-9",
    "graph": r"!-~",
    "lower": r"a-z",
    "print": r" -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": r"A-Z",
    "word": r"0-9A-Za-z_",
    "xdigit": r"0-9A-Fa-f",
}

_POSIX = re.compile(rb"\[:(\^?)([a-zA-Z]*):\]")
_CLASS = re.compile(rb"\[\^?\]?(?:\[:\^?[a-zA-Z]*:\]|\\.|[^\]\\])*\]", re.DOTALL)
_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_CODE_POINT = re.compile(rb"\\x\{([0-9a-fA-F]{1,6})\}")
_VERBOSE_OR_LOCALE = re.compile(rb"\(\?[a-zA-Z]*[xL]")
_ESCAPE = re.compile(rb"\\(?:x[0-9a-fA-F]{2}|[0-7]{1,3}|.)", re.DOTALL)
_TOKEN = re.compile(
    rb"""
    (?P<comment> \(\?\# [^)]* \)? )
    | (?P<flags> \(\? (?P<on>[a-zA-Z]*) (?:-(?P<off>[a-zA-Z]+))? (?P<end>[:)]) )
    | (?P<name> \(\?< (?=[^=!]) )
    | (?P<open> \(\?\( [^)]* \)? | \( )
    | (?P<close> \) )
    | (?P<option> \| )
    | (?P<byte_class> \[ )
    | (?P<quote> \\Q (?P<literal>.*?) (?:\\E|\Z) )
    | (?P<end_of_text> \\z )
    | (?P<category> \\[pP] )
    | (?P<point> \\x\{ (?P<number>[0-9a-fA-F]{1,6}) \} )
    | (?P<dot> \. )
    | (?P<character> """
    + _CHARACTER.pattern
    + rb""" )
    | \\. | .
    """,
    re.VERBOSE | re.DOTALL,
)
MAX_CODE_POINT = 0x10FFFF
ASCII = (1 << 128) - 1


def location_in(pattern: bytes, name: str, start: int, end: int) -> Location:
    """The place of some bytes of a pattern in the text that messages show."""

    def column(at: int) -> int:
        return len(pattern[:at].decode(errors="replace"))

    return Location(Source(pattern.decode(errors="replace"), name), column(start), column(end))


def parsed(
    expression: bytes, flags: int, name: str, *, is_text: bool = False, is_of_re: bool = False
) -> tuple[bytes, Any]:
    """The expression in the syntax of `re`, and the tree that `re` makes of it.

    `is_text`: bytes above 127 are characters of UTF-8.  `is_of_re`: nothing is translated.  Raises PatternError.
    """
    source, places = expression, [*range(len(expression))]
    # where blanks and comments are, `re` knows
    if not (is_of_re or _VERBOSE_OR_LOCALE.match(expression) or flags & (re.VERBOSE | re.LOCALE)):
        translation = _Translation(expression, name, is_text)
        translation.run(bool(flags & re.DOTALL))
        source, places = bytes(translation.out), translation.places
    try:
        return source, tree_of(source, flags)
    except re.error as error:
        at = len(expression) if error.pos is None else [*places, len(expression)][error.pos]
        raise _error(expression, name, min(at, max(0, len(expression) - 1)), error.msg) from None
    except RecursionError:
        raise _error(expression, name, 0, "groups are nested too deeply") from None
    except (OverflowError, ValueError) as error:
        raise _error(expression, name, 0, str(error)) from None


def tree_of(source: bytes, flags: int) -> Any:
    """The tree that `re` makes of an expression."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _parser.parse(source, flags)


def _error(expression: bytes, name: str, at: int, message: str, advice: str | None = None) -> PatternError:
    loc = location_in(expression, name, at, at + 1)
    return PatternError([Diagnostic("error", message, loc, help=advice)])


@dataclass(slots=True)
class _Scope:
    """A group that is open.  `openings`: of the groups in it that flags begin, and that end with it."""

    is_utf8: bool
    is_dotall: bool
    openings: list[bytes] = field(default_factory=list)

    def inner(self) -> _Scope:
        return _Scope(self.is_utf8, self.is_dotall)


class _Translation:
    def __init__(self, expression: bytes, name: str, is_text: bool) -> None:
        self.text, self.name, self.is_text = expression, name, is_text
        self.at = 0
        self.out, self.places = bytearray(), list[int]()

    def fail(self, message: str, advice: str | None = None, at: int | None = None) -> NoReturn:
        raise _error(self.text, self.name, self.at if at is None else at, message, advice)

    def emit(self, part: bytes) -> None:
        self.out += part
        self.places += [min(self.at, len(self.text) - 1)] * len(part)

    def copy(self, end: int) -> None:
        self.out += self.text[self.at : end]
        self.places += range(self.at, end)

    def run(self, is_dotall: bool) -> None:
        scopes = [_Scope(False, is_dotall)]
        while token := _TOKEN.match(self.text, self.at):
            scope, end = scopes[-1], token.end()
            match token.lastgroup:
                case "flags":
                    self.flags(token, scopes)
                case "name":
                    self.emit(b"(?P<")
                    scopes.append(scope.inner())
                case "open":
                    self.copy(end)
                    scopes.append(scope.inner())
                case "close":
                    self.emit(b")" * len(scope.openings) + b")")
                    scopes = scopes[:-1] or scopes
                case "option":
                    self.emit(b")" * len(scope.openings) + b"|")
                    self.at = end
                    self.emit(b"".join(scope.openings))
                case "byte_class":
                    end = self.byte_class(scope.is_utf8)
                case "quote":
                    self.emit(re.escape(token["literal"]))
                case "end_of_text":
                    self.emit(b"\\Z")
                case "category":
                    self.fail("classes of Unicode are not among those of bytes", r"write [A-Za-z], or \w")
                case "point":
                    self.emit(b"(?:" + _escaped(self.encoded(int(token["number"], 16))) + b")")
                case "dot" if scope.is_utf8:
                    first = rb"\x00-\x7f" if scope.is_dotall else rb"\x00-\x09\x0b-\x7f"
                    self.emit(b"(?:[" + first + b"]|" + ANY_WIDE + b")")
                case "character" if scope.is_utf8 or self.is_text:
                    self.emit(b"(?:" + _escaped(token[0]) + b")")
                case _:
                    self.copy(end)
            self.at = end
        if len(scopes) == 1:
            self.emit(b")" * len(scopes[0].openings))

    def flags(self, token: re.Match[bytes], scopes: list[_Scope]) -> None:
        """Flags of a group, or of what follows in the group that is open, which then begins a group of its own."""
        scope, on, off = scopes[-1], token["on"], token["off"] or b""
        if b"U" in on + off:
            advice = "write *? for *, +? for +"
            self.fail("the flag U, which makes repetition lazy, has no meaning here", advice)
        if token["end"] == b":":
            scope = scope.inner()
            scopes.append(scope)
        scope.is_utf8 = (scope.is_utf8 or b"u" in on) and b"u" not in off
        scope.is_dotall = (scope.is_dotall or b"s" in on) and b"s" not in off
        on, off = on.replace(b"u", b""), off.replace(b"u", b"")
        opening = b"(?" + on + (b"-" + off if off else b"") + b":"
        if token["end"] == b":" or on or off:
            self.emit(opening)
        if token["end"] == b")" and (on or off):
            scope.openings.append(opening)

    def encoded(self, point: int) -> bytes:
        if point > MAX_CODE_POINT or 0xD800 <= point < 0xE000:
            self.fail(f"there is no character with the number {point:x}")
        return chr(point).encode()

    # --- classes

    def byte_class(self, is_utf8: bool) -> int:
        """Write out a class, and return its end."""
        start = self.at
        whole = _CLASS.match(self.text, start)
        if whole is None:
            self.fail("unterminated character set")
        is_wide = is_utf8 or (self.is_text and not whole[0].isascii()) or b"\\x{" in whole[0]
        if not is_wide and not _POSIX.search(whole[0]):
            self.copy(whole.end())  # as `re` has it
            return whole.end()
        self.at += 1
        is_negated = self.text.startswith(b"^", self.at)
        self.at += is_negated
        members, wide, is_first = 0, list[bytes](), True
        while is_first or not self.text.startswith(b"]", self.at):
            is_first = False
            if self.at == len(self.text):
                self.fail("unterminated character set", at=start)
            if posix := _POSIX.match(self.text, self.at):
                members |= self.posix(posix)
                continue
            category, low = self.member(is_utf8)
            members, high = members | category, low
            if self.text.startswith(b"-", self.at) and self.text[self.at + 1 : self.at + 2] not in (
                b"]",
                b"",
            ):
                self.at += 1
                end = self.at
                _, high = self.member(is_utf8)
                if low is None or high is None or high < low:
                    self.fail("bad character range", at=end)
            if low is None or high is None:
                continue
            narrow = min(high, 127) if is_wide else high
            if low <= narrow:
                members |= (1 << narrow + 1) - (1 << low)
            if narrow < high:
                wide.append(_utf8(max(low, 128), high))
        if is_utf8 and members > ASCII:
            members, wide = members & ASCII, [ANY_WIDE]
        end, self.at = self.at + 1, start  # the place of what is emitted
        self.emit(_written(members, wide, is_negated, is_utf8))
        return end

    def posix(self, match: re.Match[bytes]) -> int:
        """The bytes of a POSIX class, as bits."""
        name = match[2].decode()
        if name not in POSIX:
            self.fail(f"there is no class [:{name}:]", f"there are {', '.join(POSIX)}")
        self.at = match.end()
        members = _members(f"[{POSIX[name]}]".encode())
        return ALL_BYTES & ~members if match[1] else members

    def member(self, is_utf8: bool) -> tuple[int, int | None]:
        """A member of a class: the bytes of a category, as bits, and None; or 0 and the number of a character."""
        character = _CHARACTER.match(self.text, self.at) if is_utf8 or self.is_text else None
        if character is not None:
            self.at = character.end()
            return 0, ord(character[0].decode(errors="replace"))
        if not self.text.startswith(b"\\", self.at):
            self.at += 1
            return 0, self.text[self.at - 1]
        if self.text[self.at + 1 : self.at + 2] in (b"p", b"P"):
            self.fail("classes of Unicode are not among those of bytes", r"write A-Za-z, or \w")
        if point := _CODE_POINT.match(self.text, self.at):
            number = int(point[1], 16)
            self.encoded(number)
            self.at = point.end()
            return 0, number
        escape = _ESCAPE.match(self.text, self.at)
        if escape is None:
            self.fail("bad escape (end of pattern)")
        try:
            members = _members(b"[" + escape[0] + b"]")
        except re.error as error:
            self.fail(error.msg)
        self.at = escape.end()
        return (members, None) if members.bit_count() > 1 else (0, members.bit_length() - 1)


def _members(byte_class: bytes) -> int:
    """The bytes of a class of `re`, as bits."""
    ((kind, value),) = tree_of(byte_class, 0)
    return members_of(kind, value, 0)


def _written(members: int, wide: list[bytes], is_negated: bool, is_utf8: bool) -> bytes:
    """A class of bytes, as bits, and of characters above 127, or of all others, in the syntax of `re`."""
    octets = _escaped(bytes(byte for byte in range(256) if members >> byte & 1))
    if is_negated and not wide:
        return rb"(?:[^" + octets + rb"\x80-\xff]|" + ANY_WIDE + b")" if is_utf8 else b"[^" + octets + b"]"
    one = b"|".join([b"[" + octets + b"]"] * bool(octets) + wide)
    return b"(?:(?!" + one + rb")(?:[\x00-\x7f]|" + ANY_WIDE + b"))" if is_negated else b"(?:" + one + b")"


def _escaped(octets: bytes) -> bytes:
    return b"".join(b"\\x%02x" % octet for octet in octets)


def _utf8(low: int, high: int) -> bytes:
    """The bytes of the characters from one number above 127 to another, as alternatives."""
    return b"|".join(
        b"".join(
            b"\\x%02x" % first if first == last else b"[\\x%02x-\\x%02x]" % (first, last)
            for first, last in zip(begin, end, strict=True)
        )
        for begin, end in _spans(low, high)
    )


def _spans(low: int, high: int) -> list[tuple[bytes, bytes]]:
    """Ranges of characters of which each byte has a range of its own."""
    for first, last in ((0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, MAX_CODE_POINT)):
        if low <= last and high > last:
            return [*_spans(low, last), *_spans(last + 1, high)] if low >= first else _spans(first, high)
    if 0xD800 <= low <= 0xDFFF:
        return _spans(0xE000, high) if high >= 0xE000 else []
    if 0xD800 <= high <= 0xDFFF:
        return _spans(low, 0xD7FF)
    begin, end = chr(low).encode(), chr(high).encode()
    for trailing in range(len(begin) - 1, 0, -1):
        mask = (1 << 6 * trailing) - 1
        if low & ~mask != high & ~mask:
            if low & mask:
                return [*_spans(low, low | mask), *_spans((low | mask) + 1, high)]
            if high & mask != mask:
                return [*_spans(low, (high & ~mask) - 1), *_spans(high & ~mask, high)]
    return [(begin, end)]


ANY_WIDE = _utf8(0x80, MAX_CODE_POINT)
"""Any character above 127."""
