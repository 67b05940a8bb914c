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
_FLAG_GROUP = re.compile(rb"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_CODE_POINT = re.compile(rb"\\x\{([0-9a-fA-F]{1,6})\}")
_VERBOSE_OR_LOCALE = re.compile(rb"\(\?[a-zA-Z]*[xL]")
_ESCAPE = re.compile(rb"\\(?:x[0-9a-fA-F]{2}|[0-7]{1,3}|.)", re.DOTALL)
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
    """A group that is open.  `opened`: flags within it, each a group that it ends with."""

    is_utf8: bool
    is_dotall: bool
    opened: list[bytes] = field(default_factory=list)


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

    def take(self, count: int) -> None:
        """Copy so many bytes."""
        for _ in range(min(count, len(self.text) - self.at)):
            self.emit(self.text[self.at : self.at + 1])
            self.at += 1

    def run(self, is_dotall: bool) -> None:
        scopes = [_Scope(False, is_dotall)]
        while self.at < len(self.text):
            scope = scopes[-1]
            match self.text[self.at : self.at + 1]:
                case b"(":
                    self.group(scopes)
                case b")":
                    self.emit(b")" * len(scope.opened))
                    self.take(1)
                    if len(scopes) > 1:
                        scopes.pop()
                case b"|":
                    self.emit(b")" * len(scope.opened))
                    self.take(1)
                    self.emit(b"".join(scope.opened))
                case b"[":
                    self.byte_class(scope.is_utf8)
                case b"\\":
                    self.escape()
                case b"." if scope.is_utf8:
                    first = r"\x00-\x7f" if scope.is_dotall else r"\x00-\x09\x0b-\x7f"
                    self.emit(f"(?:[{first}]|{ANY_WIDE})".encode())
                    self.at += 1
                case _:
                    self.character(scope.is_utf8)
        if len(scopes) == 1:
            self.emit(b")" * len(scopes[0].opened))

    def character(self, is_utf8: bool) -> None:
        character = _CHARACTER.match(self.text, self.at) if is_utf8 or self.is_text else None
        if character is None:
            self.take(1)
            return
        self.emit(b"(?:" + _escaped(character[0]).encode() + b")")
        self.at = character.end()

    def group(self, scopes: list[_Scope]) -> None:
        scope = scopes[-1]
        if self.text.startswith(b"(?#", self.at):
            end = self.text.find(b")", self.at)
            self.take((len(self.text) if end < 0 else end + 1) - self.at)
            return
        setting = _FLAG_GROUP.match(self.text, self.at)
        if setting is None:
            if self.text.startswith(b"(?<", self.at) and self.text[self.at + 3 : self.at + 4] not in b"=!":
                self.emit(b"(?P<")
                self.at += 3
            elif self.text.startswith(b"(?(", self.at):
                self.take(self.text.find(b")", self.at) + 1 - self.at or 3)
            else:
                self.take(1)
            scopes.append(_Scope(scope.is_utf8, scope.is_dotall))
            return
        on, off = setting[1], setting[2] or b""
        if b"U" in on + off:
            self.fail(
                "the flag U, which makes repetition lazy, has no meaning here", "write *? for *, +? for +"
            )
        if setting[3] == b":":
            scope = _Scope(scope.is_utf8, scope.is_dotall)
            scopes.append(scope)
        scope.is_utf8 = (scope.is_utf8 or b"u" in on) and b"u" not in off
        scope.is_dotall = (scope.is_dotall or b"s" in on) and b"s" not in off
        additions, removals = on.replace(b"u", b""), off.replace(b"u", b"")
        opening = b"(?" + additions + (b"-" + removals if removals else b"") + b":"
        if setting[3] == b":" or additions or removals:
            self.emit(opening)
        if setting[3] == b")" and (additions or removals):
            scope.opened.append(opening)
        self.at = setting.end()

    def escape(self) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following == b"Q":
            end = self.text.find(b"\\E", self.at)
            end = len(self.text) if end < 0 else end
            literal = self.text[self.at + 2 : end]
            self.emit(re.escape(literal))
            self.at = min(end + 2, len(self.text))
        elif following == b"z":
            self.emit(b"\\Z")
            self.at += 2
        elif following in (b"p", b"P"):
            self.fail("classes of Unicode are not among those of bytes", r"write [A-Za-z], or \w")
        elif point := _CODE_POINT.match(self.text, self.at):
            self.emit(f"(?:{_escaped(self.encoded(int(point[1], 16)))})".encode())
            self.at = point.end()
        else:
            self.take(2)

    def encoded(self, point: int) -> bytes:
        if point > MAX_CODE_POINT or 0xD800 <= point < 0xE000:
            self.fail(f"there is no character with the number {point:x}")
        return chr(point).encode()

    # --- classes

    def byte_class(self, is_utf8: bool) -> None:
        start = self.at
        whole = _CLASS.match(self.text, start)
        if whole is None:
            self.fail("unterminated character set")
        is_wide = is_utf8 or (self.is_text and not whole[0].isascii()) or b"\\x{" in whole[0]
        if not is_wide and not _POSIX.search(whole[0]):
            self.take(len(whole[0]))  # as `re` has it
            return
        self.at += 1
        is_negated = self.text.startswith(b"^", self.at)
        self.at += is_negated
        members, wide, is_first = 0, list[str](), True
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
        self.emit(_written(members, wide, is_negated, is_utf8).encode())
        self.at = end

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


def _written(members: int, wide: list[str], is_negated: bool, is_utf8: bool) -> str:
    """A class of bytes, as bits, and of characters above 127, or of all others, in the syntax of `re`."""
    octets = _escaped(bytes(byte for byte in range(256) if members >> byte & 1))
    if is_negated and not wide:
        return f"(?:[^{octets}\\x80-\\xff]|{ANY_WIDE})" if is_utf8 else f"[^{octets}]"
    one = "|".join([f"[{octets}]"] * bool(octets) + wide)
    return f"(?:(?!{one})(?:[\\x00-\\x7f]|{ANY_WIDE}))" if is_negated else f"(?:{one})"


def _escaped(octets: bytes) -> str:
    return "".join(f"\\x{octet:02x}" for octet in octets)


def _utf8(low: int, high: int) -> str:
    """The bytes of the characters from one number above 127 to another, as alternatives."""
    return "|".join(
        "".join(
            f"\\x{first:02x}" if first == last else f"[\\x{first:02x}-\\x{last:02x}]"
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
