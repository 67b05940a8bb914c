"""decode.base64 and decode.hex: text to bytes, a run of 16 characters a lane.

    base64  4 characters -> 3 bytes; up to two '=' at the very end are padding, and of a last
            group of 2 or 3 characters come 1 or 2 bytes; other characters count as 0 bits
    hex     2 digits -> 1 byte, either case; other characters count as 0; a last odd digit is
            left out

What a single group of characters decodes to is a function of values (`from_base64`,
`from_hex`), which the fused decode and scan uses too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Buffer, Program, Value
from ..ir.types import DataType
from .collective import guarded

__all__ = [
    "DecodeSchedule",
    "base64",
    "base64_lengths",
    "decode_grid",
    "from_base64",
    "from_hex",
    "hex_text",
]

# first character, how many, what is added modulo 256 to get the value
_BASE64_RANGES = (
    (ord("a"), 26, 26),
    (ord("A"), 26, 0),
    (ord("0"), 10, 52),
    (ord("+"), 1, 62),
    (ord("/"), 1, 63),
)
_HEX_RANGES = ((ord("0"), 10, 0), (ord("A"), 6, 10), (ord("a"), 6, 10))


@dataclass(frozen=True)
class DecodeSchedule:
    """`lanes` of a workgroup; `characters` of a lane's run: 4, 8, 16 or 32."""

    lanes: int = 256
    characters: int = 16

    def __post_init__(self) -> None:
        if not 1 <= self.lanes <= 1024 or self.characters not in (4, 8, 16, 32):
            raise ValueError(f"1 to 1024 lanes, runs of 4, 8, 16 or 32 characters: {self}")


def decode_grid(schedule: DecodeSchedule, characters: int) -> int:
    """Workgroups for a text of so many characters.  Any grid does all the work."""
    return max(1, -(-characters // (schedule.lanes * schedule.characters)))


def base64_lengths(characters: int) -> int:
    """Bytes that come of so many base64 characters, padding not counted."""
    return characters // 4 * 3 + characters % 4 * 3 // 4


# --- characters to bytes ---------------------------------------------------------------------


def _values(b: Builder, text: Value, ranges: Sequence[tuple[int, int, int]]) -> Value:
    """What each character of a vector stands for; 0 for one in no range."""
    found = b.const(0, text.type)
    for first, count, value in ranges:
        place = b.sub(text, b.const(first, text.type))
        inside = b.lt(place, b.const(count, text.type))
        found = b.select(inside, b.add(place, b.const(value, text.type)), found)
    return found


def from_base64(b: Builder, text: Value) -> list[Value]:
    """3 bytes for each 4 characters of a vector of u8.

    aaaaaa bbbbbb dddddd eeeeee  ->  aaaaaabb bbbbdddd ddeeeeee
    """
    sextets = _values(b, text, _BASE64_RANGES)
    found: list[Value] = []
    for group in range(0, text.type.lanes, 4):
        s, t, u, v = (b.extract(sextets, group + k) for k in range(4))
        found.append(b.or_(b.shl(s, 2), b.shr(t, 4)))
        found.append(b.or_(b.shl(t, 4), b.shr(u, 2)))
        found.append(b.or_(b.shl(u, 6), v))
    return found


def from_hex(b: Builder, text: Value) -> list[Value]:
    """A byte for each 2 digits of a vector of u8."""
    digits = _values(b, text, _HEX_RANGES)
    return [
        b.or_(b.shl(b.extract(digits, k), 4), b.extract(digits, k + 1)) for k in range(0, text.type.lanes, 2)
    ]


def base64_characters(b: Builder, text: Buffer) -> Value:
    """Characters of a base64 text without the padding at its end."""
    count = b.len(text, name="count")
    equals = b.const(ord("="), DataType.U8)

    def is_padding(back: int) -> Value:
        return guarded(
            b,
            b.ge(count, back),
            lambda: b.eq(b.load(text, b.sub(count, back)), equals),
            lambda: b.const(False, DataType.BOOL),
        )

    last = is_padding(1)
    both = b.and_(last, is_padding(2))
    padding = b.add(b.cast(last, DataType.U32), b.cast(both, DataType.U32))
    return b.sub(count, padding, name="characters")


# --- the programs ----------------------------------------------------------------------------


@lru_cache(maxsize=16)
def base64(schedule: DecodeSchedule = DecodeSchedule()) -> Program:
    """The program `decode_base64`: @text, @bytes of u8; @bytes has room for all that comes."""
    b, text, out = _declare("decode_base64", schedule)
    characters = base64_characters(b, text)
    rest = b.div(b.mul(b.rem(characters, 4), 3), 4)
    total = b.add(b.mul(b.div(characters, 4), 3), rest, name="total")
    _runs(b, text, out, characters, total, schedule, from_base64)
    return b.finish()


@lru_cache(maxsize=16)
def hex_text(schedule: DecodeSchedule = DecodeSchedule()) -> Program:
    """The program `decode_hex`: @text, @bytes of u8; @bytes has room for all that comes."""
    b, text, out = _declare("decode_hex", schedule)
    total = b.div(b.len(text), 2, name="total")
    _runs(b, text, out, b.mul(total, 2, name="characters"), total, schedule, from_hex)
    return b.finish()


def _declare(name: str, schedule: DecodeSchedule) -> tuple[Builder, Buffer, Buffer]:
    b = Builder(name, workgroup=schedule.lanes)
    text = b.buffer("text", DataType.U8, None, "read", 0)
    return b, text, b.buffer("bytes", DataType.U8, None, "write", 1, live_out=True)


def _runs(
    b: Builder,
    text: Buffer,
    out: Buffer,
    characters: Value,
    total: Value,
    schedule: DecodeSchedule,
    decode: Callable[[Builder, Value], list[Value]],
) -> None:
    """Runs side by side over the lanes of the grid: whole ones by vectors, the last element by element."""
    size = schedule.characters
    whole = b.div(characters, size, name="whole")
    with b.for_(b.global_id("x"), whole, b.global_size("x")) as runs:
        run = b.load(text, b.mul(runs.index, size), lanes=size)
        found = decode(b, run)
        start = b.mul(runs.index, len(found))
        width = len(found) & -len(found)
        for k in range(0, len(found), width):
            value = b.vector(*found[k : k + width]) if width > 1 else found[k]
            b.store(value, out, b.add(start, k) if k else start)

    with b.if_(b.eq(b.global_id("x"), 0)):
        first = b.mul(whole, size)
        left = b.sub(characters, first)

        def character(k: int) -> Value:
            inside = b.lt(b.const(k), left)
            return guarded(b, inside, lambda: b.load(text, b.add(first, k)), lambda: b.const(0, DataType.U8))

        found = decode(b, b.vector(*(character(k) for k in range(size))))
        start = b.mul(whole, len(found))
        remain = b.sub(total, start)
        for k, value in enumerate(found):
            with b.if_(b.lt(b.const(k), remain)):
                b.store(value, out, b.add(start, k))
