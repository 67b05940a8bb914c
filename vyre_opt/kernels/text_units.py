"""Units of a text: 16 characters, which a lane loads and decodes at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.builder import Builder
from ..ir.program import Buffer, Value
from ..ir.types import DataType
from .collective import elements, guarded
from .decode import Values, base64_bytes, base64_characters, digits, from_base64, from_hex, sextets

__all__ = ["CHARACTERS", "ENCODINGS", "Encoding", "fill_slab", "load_unit", "values_by_table"]

CHARACTERS = 16


@dataclass(frozen=True)
class Encoding:
    """An encoding: `decode` turns a unit of 16 characters into `bytes` bytes, in u32 words.

    `values`: the value of each of four characters in a u32; None for raw text, which is bytes already.
    `count`: the number of bytes that a text encodes.  `zero`: a character whose bits are zeros.
    """

    name: str
    bytes: int
    decode: Callable[[Builder, Value, Values], list[Value]]
    values: Values | None
    count: Callable[[Builder, Buffer], Value]
    zero: int


def _raw_words(b: Builder, words: Value, values: Values) -> list[Value]:
    return elements(b, words)


def _base64_count(b: Builder, text: Buffer) -> Value:
    return base64_bytes(b, base64_characters(b, text))


ENCODINGS = {
    "raw": Encoding("raw", 16, _raw_words, None, lambda b, text: b.len(text), 0),
    "hex": Encoding("hex", 8, from_hex, digits, lambda b, text: b.div(b.len(text), 2), ord("0")),
    "base64": Encoding("base64", 12, from_base64, sextets, _base64_count, ord("A")),
}


def values_by_table(table: Buffer) -> Values:
    """Decoding by a u8[256] with the value of each character: a load for each, but little arithmetic."""

    def looked_up(b: Builder, words: Value) -> Value:
        octets = elements(b, b.bitcast(words, DataType.vec(DataType.U8, 4 * words.type.lanes)))
        values = [b.load(table, b.cast(octet, DataType.U32)) for octet in octets]
        return b.bitcast(b.vector(*values), words.type)

    return looked_up


def fill_slab(
    b: Builder,
    encoding: Encoding,
    text: Buffer,
    slab: Buffer,
    lane: Value,
    lanes: int,
    tile: Value,
    units: int,
    start: Value | None,
    words: int,
    decode: Callable[[Value, Value], list[Value]],
    filler: int = 0,
) -> None:
    """Decode units into `words` words of a slab, neighbouring ones by neighbouring lanes; the last round may be short.

    `units`: of a tile, whose number is `tile`.  `start`: the first word, None for 0.  `decode`: gets the number of a unit and its
    characters.  `filler`: a character that stands beyond the end of the text.
    """
    size = encoding.bytes // 4
    characters = b.len(text, name="characters")
    whole = b.div(characters, CHARACTERS, name="whole")
    mine, spot = b.add(b.mul(tile, units), lane), b.mul(lane, size)
    if start is not None:
        spot = b.add(start, spot)
    rounds, rest = divmod(words // size, lanes)

    def fill_round(number: Value | int) -> None:
        ahead = b.mul(number, lanes) if isinstance(number, Value) else b.const(number * lanes)
        unit = b.add(mine, ahead)
        for k, word in enumerate(decode(unit, load_unit(b, text, unit, whole, characters, filler))):
            b.store(word, slab, b.add(b.add(spot, b.mul(ahead, size)), k))

    if rounds:
        with b.for_(0, rounds) as loop:
            fill_round(loop.index)
    if rest:
        with b.if_(b.lt(lane, rest)):
            fill_round(rounds)


def load_unit(
    b: Builder, text: Buffer, unit: Value, whole: Value, characters: Value, filler: int = 0
) -> Value:
    """The characters of a unit, four in a u32, with `filler` beyond the end of the text.

    `characters`: of @text; `whole`: its whole units.
    """
    words = DataType.vec(DataType.U32, CHARACTERS // 4)
    fill = int.from_bytes(bytes([filler]) * 8, "little")

    def read() -> Value:
        return b.bitcast(b.load(text, b.mul(unit, CHARACTERS), lanes=CHARACTERS), words)

    def edge() -> Value:
        return guarded(b, b.eq(unit, whole), part, (lambda: _all(b, fill)) if filler else 0)

    def part() -> Value:
        """Read character by character, each shifted into the top byte of a 128-bit number."""
        start = b.mul(unit, CHARACTERS)
        none = b.const(fill, DataType.U64)
        with b.for_(0, CHARACTERS, carry=[none, none]) as loop:
            place = b.add(start, loop.index)
            inside = b.lt(place, characters)
            character = guarded(b, inside, lambda: b.cast(b.load(text, place), DataType.U64), filler)
            low, high = loop.args
            low = b.or_(b.shr(low, 8), b.shl(high, 56))
            loop.yield_(low, b.or_(b.shr(high, 8), b.shl(character, 56)))
        return b.bitcast(b.vector(*loop.results), words)

    return guarded(b, b.lt(unit, whole), read, edge)


def _all(b: Builder, fill: int) -> Value:
    half = b.const(fill, DataType.U64)
    return b.bitcast(b.vector(half, half), DataType.vec(DataType.U32, CHARACTERS // 4))
