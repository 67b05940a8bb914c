"""decode.base64 and decode.hex: text to bytes, a run of characters (16 by default) by each lane.

    base64  4 characters -> 3 bytes.  Up to two '=' at the very end are padding; a last group of
            2 or 3 characters gives 1 or 2 bytes.  Characters outside of the alphabet are 0 bits.
    hex     2 digits -> 1 byte, of either case.  Other characters are 0; an odd last digit is
            left out.

Four characters are decoded at once as the bytes of a u32, without tables or branches.  `from_base64` and
`from_hex` emit that for any register of characters; the fused decode and search uses them too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Buffer, Program, Value
from ..ir.types import DataType
from .checked_decode import Base64Block, BlockDecoder, HexBlock
from .collective import elements, guarded, offset

__all__ = [
    "DecodeSchedule",
    "base64",
    "base64_bytes",
    "Values",
    "base64_characters",
    "decode_schedule",
    "digits",
    "from_base64",
    "from_hex",
    "hex_text",
    "sextets",
]

EACH = 0x01010101  # times a byte: that byte four times
OCTETS = DataType.vec(DataType.U8, 4)

# The base64 alphabet in the order of its codes: first and last character of a range, value of the first.
_BASE64_RANGES = (("+", "+", 62), ("/", "/", 63), ("0", "9", 52), ("A", "Z", 0), ("a", "z", 26))


@dataclass(frozen=True)
class DecodeSchedule:
    """`lanes`: of a workgroup.  `characters`: of a lane's run, 4, 8, 16 or 32; one of 32 is decoded as a vector of bytes, by
    `permute`.

    `strided`: right for every grid.  Without it, for a workgroup a tile: each lane has one run, and what a
    workgroup writes follows what the workgroup before it writes.
    """

    lanes: int = 256
    characters: int = 16
    strided: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.lanes <= 1024 or self.characters not in (4, 8, 16, 32):
            raise ValueError(f"1 to 1024 lanes, runs of 4, 8, 16 or 32 characters: {self}")

    @property
    def tile(self) -> int:
        """Characters of a workgroup."""
        return self.lanes * self.characters

    @property
    def shuffles(self) -> bool:
        return self.characters == 32


def decode_schedule(target: str = "") -> DecodeSchedule:
    """16-byte loads on a GPU; on the CPU target whole registers, by byte shuffles."""
    return DecodeSchedule(characters=32 if target == "cpu" else 16)


# --- characters to bytes ---------------------------------------------------------------------


class _Characters:
    """Four characters in each u32 of `words`; a test of each character gives its result in the same byte."""

    def __init__(self, b: Builder, words: Value) -> None:
        self.b, self.words = b, words
        self.low = b.and_(words, 0x7F * EACH)
        self._reached: dict[int, Value] = {}

    def reached(self, code: int) -> Value:
        """The top bit of each byte is set if its low seven bits are at least `code`; the other bits are noise.

        No sum of two numbers below 128 leaves its byte.
        """
        if code not in self._reached:
            self._reached[code] = self.b.add(self.low, (0x80 - code) * EACH)
        return self._reached[code]

    def within(self, *ranges: tuple[str, str]) -> Value:
        """1 in the byte of each character that is in one of `ranges`, which rise and do not overlap."""
        edges = [code for first, last in ranges for code in (ord(first), ord(last) + 1)]
        edges = [code for code in edges if edges.count(code) == 1]  # one range ends where the next begins
        odd = self.reached(edges[0])
        for code in edges[1:]:
            odd = self.b.xor(odd, self.reached(code))
        return _flags(self.b, self.b.and_(odd, self.b.not_(self.words)))


def _flags(b: Builder, tops: Value) -> Value:
    """1 in each byte with a top bit."""
    return b.and_(b.shr(tops, 7), EACH)


def sextets(b: Builder, words: Value) -> Value:
    """The value of each of four characters in a u32; 0 for one that is not of the base64 alphabet.

    A character's value is its code plus the offset of its range, the last whose start it reaches.  The sum
    lies in a byte for every code below 128, so no byte spills into another.
    """
    characters = _Characters(b, words)
    added = [value - ord(first) for first, _, value in _BASE64_RANGES]
    values = b.add(characters.low, added[0] * EACH)
    for (first, _, _), shift, previous in zip(_BASE64_RANGES[1:], added[1:], added, strict=False):
        reached = _flags(b, characters.reached(ord(first)))
        values = b.sub(values, b.mul(reached, previous - shift))
    in_alphabet = characters.within(*((first, last) for first, last, _ in _BASE64_RANGES))
    return b.and_(values, b.mul(in_alphabet, 0xFF))


def digits(b: Builder, words: Value) -> Value:
    """The value of each of four hex digits in a u32; 0 for another character."""
    lower = b.or_(words, 0x20 * EACH)  # which leaves digits as they are
    letters = _Characters(b, lower).within(("a", "f"))
    is_digit = b.or_(letters, _Characters(b, words).within(("0", "9")))
    return b.add(b.and_(b.and_(words, 0x0F * EACH), b.mul(is_digit, 0xFF)), b.mul(letters, 9))


Values = Callable[[Builder, Value], Value]
"""The values of the characters of each u32: `sextets`, `digits`, or a look-up in a table of those."""


def from_base64(b: Builder, words: Value, values: Values = sextets) -> list[Value]:
    """3 bytes for each u32 of 4 characters, in u32 words; the last may be filled in part.

    aaaaaa bbbbbb dddddd eeeeee  ->  aaaaaabb bbbbdddd ddeeeeee
    """
    bits = values(b, words)
    pairs = b.or_(b.shl(b.and_(bits, 0x3F003F), 6), b.and_(b.shr(bits, 8), 0x3F003F))
    groups = elements(b, b.or_(b.and_(b.shl(pairs, 12), 0xFFF000), b.shr(pairs, 16)))
    result = []
    for k in range(0, len(groups), 4):  # 24 bits each, the first byte highest
        fours = groups[k : k + 4]
        for index, group in enumerate(fours[:3]):
            word = b.shl(group, 8 * (index + 1))
            if index + 1 < len(fours):
                word = b.or_(word, b.shr(fours[index + 1], 16 - 8 * index))
            result.append(_swapped(b, word))
    return result


def _swapped(b: Builder, word: Value) -> Value:
    """The bytes of a word in the opposite order."""
    inner = b.or_(b.and_(b.shl(word, 8), 0xFF0000), b.and_(b.shr(word, 8), 0xFF00))
    return b.or_(b.or_(b.shl(word, 24), b.shr(word, 24)), inner)


def from_hex(b: Builder, words: Value, values: Values = digits) -> list[Value]:
    """2 bytes for each u32 of 4 digits, in u32 words; a single one is filled in part."""
    bits = values(b, words)
    pairs = b.or_(b.shl(bits, 4), b.shr(bits, 8))
    halves = elements(b, b.or_(b.and_(pairs, 0xFF), b.and_(b.shr(pairs, 8), 0xFF00)))
    if len(halves) == 1:
        return halves
    return [b.or_(low, b.shl(high, 16)) for low, high in zip(halves[0::2], halves[1::2], strict=True)]


def base64_characters(b: Builder, text: Buffer) -> Value:
    """Characters of a base64 text without the padding at its end."""
    count = b.len(text, name="count")
    equals = b.const(ord("="), DataType.U8)

    def is_padding(back: int) -> Value:
        return guarded(b, b.ge(count, back), lambda: b.eq(b.load(text, b.sub(count, back)), equals), False)

    last = is_padding(1)
    both = b.and_(last, is_padding(2))
    padding = b.add(b.cast(last, DataType.U32), b.cast(both, DataType.U32))
    return b.sub(count, padding, name="characters")


def base64_bytes(b: Builder, characters: Value) -> Value:
    """The number of bytes that so many characters encode, without padding (`base64_length` at run time)."""
    rest = b.div(b.mul(b.rem(characters, 4), 3), 4)
    return b.add(b.mul(b.div(characters, 4), 3), rest, name="total")


# --- the programs ----------------------------------------------------------------------------


@lru_cache(maxsize=16)
def base64(schedule: DecodeSchedule = DecodeSchedule()) -> Program:
    """The program `decode_base64`: @text, @bytes of u8; @bytes has room for all that comes."""
    b, text, out = _declare("decode_base64", schedule)
    characters = base64_characters(b, text)
    size = schedule.characters // 4 * 3
    _runs(b, text, out, characters, base64_bytes(b, characters), schedule, size, from_base64, Base64Block())
    return b.finish(verify=False)


@lru_cache(maxsize=16)
def hex_text(schedule: DecodeSchedule = DecodeSchedule()) -> Program:
    """The program `decode_hex`: @text, @bytes of u8; @bytes has room for all that comes."""
    b, text, out = _declare("decode_hex", schedule)
    total = b.div(b.len(text), 2, name="total")
    characters = b.mul(total, 2, name="characters")
    _runs(b, text, out, characters, total, schedule, schedule.characters // 2, from_hex, HexBlock())
    return b.finish(verify=False)


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
    run_bytes: int,
    decode: Callable[[Builder, Value], list[Value]],
    block: BlockDecoder,
) -> None:
    """Decode runs of characters, neighbouring ones by neighbouring lanes, each to `run_bytes` bytes: whole runs
    by vector loads and stores, the last one element by element."""
    size = schedule.characters
    words = DataType.U32 if size == 4 else DataType.vec(DataType.U32, size // 4)

    def octets(run: Value) -> list[Value]:
        decoded = [b.bitcast(word, OCTETS) for word in decode(b, b.bitcast(run, words))]
        return [b.extract(decoded[k // 4], k % 4) for k in range(run_bytes)]

    def run(index: Value) -> None:
        if schedule.shuffles:
            text_run = b.load(text, b.mul(index, size), lanes=size)
            values = b.select(block.is_bad(b, text_run), b.const(0, text_run.type), block.values(b, text_run))
            b.store(block.joined(b, values), out, b.mul(index, run_bytes))
            return
        decoded = octets(b.load(text, b.mul(index, size), lanes=size))
        start = b.mul(index, run_bytes)
        width = run_bytes & -run_bytes  # the largest power of two that divides it: stores must be aligned
        for k in range(0, run_bytes, width):
            value = b.vector(*decoded[k : k + width]) if width > 1 else decoded[k]
            b.store(value, out, offset(b, start, k))

    def rest(index: Value) -> None:
        """The last run, of less than `size` characters."""
        first = b.mul(index, size)
        left = b.sub(characters, first)

        def character(k: int) -> Value:
            return guarded(b, b.lt(b.const(k), left), lambda: b.load(text, b.add(first, k)))

        decoded = octets(b.vector(*(character(k) for k in range(size))))
        start = b.mul(index, run_bytes)
        remain = b.sub(total, start)
        for k, value in enumerate(decoded):
            with b.if_(b.lt(b.const(k), remain)):
                b.store(value, out, b.add(start, k))

    whole = b.div(characters, size, name="whole")
    invocation = b.global_id("x")
    if schedule.strided:
        with b.for_(invocation, whole, b.global_size("x")) as runs:
            run(runs.index)
        with b.if_(b.eq(invocation, 0)):
            rest(whole)
    else:
        with b.if_(b.lt(invocation, whole)):
            run(invocation)
        with b.if_(b.eq(invocation, whole)):  # there is such a lane wherever a run is not whole
            rest(invocation)
