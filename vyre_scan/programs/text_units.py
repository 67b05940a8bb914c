"""Units of a text: 16 characters, which a lane loads and decodes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vyre_opt.ir.builder import Builder
from vyre_opt.ir.program import Buffer, Value
from vyre_opt.ir.types import DataType
from vyre_opt.kernels.collective import elements, guarded, offset
from vyre_opt.kernels.decode import Values, digits, from_base64, from_hex, sextets
from vyre_opt.records import dataclass

__all__ = ["CHARACTERS", "ENCODINGS", "UnitEncoding", "fill_slab", "looked_up", "values_by_table"]

CHARACTERS = 16


@dataclass(frozen=True)
class UnitEncoding:
    """An encoding: `decode` turns a unit of 16 characters into `bytes` bytes, in u32 words.

    `values`: the value of each of four characters in a u32; None for raw text, which is bytes already.  `zero`: a character
    whose bits are zeros.
    """

    bytes: int
    decode: Callable[[Builder, Value, Values], list[Value]]
    values: Values | None
    zero: int


def _raw_words(b: Builder, words: Value, values: Values) -> list[Value]:
    return elements(b, words)


ENCODINGS = {
    "raw": UnitEncoding(16, _raw_words, None, 0),
    "hex": UnitEncoding(8, from_hex, digits, ord("0")),
    "base64": UnitEncoding(12, from_base64, sextets, ord("A")),
}


def values_by_table(table: Buffer) -> Values:
    """Decoding by a u8[256] with the value of each character: a load for each, but little arithmetic."""

    return lambda b, words: b.bitcast(b.vector(*looked_up(b, words, table)), words.type)


def looked_up(b: Builder, words: Value, table: Buffer) -> list[Value]:
    """Entry of the table for each character of `words`, four in a u32, of the table's type."""
    octets = elements(b, b.bitcast(words, DataType.vec(DataType.U8, 4 * words.type.lanes)))
    return [b.load(table, b.cast(octet, DataType.U32)) for octet in octets]


def fill_slab(
    b: Builder,
    encoding: UnitEncoding,
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
    ahead: int = 1,
) -> None:
    """Decode units into `words` words of a slab, neighbouring ones by neighbouring lanes; the last round may be short.

    `units`: of a tile, whose number is `tile`.  `start`: the first word, None for 0.  `decode`: gets the number of a unit and its
    characters.  `filler`: a character that stands beyond the end of the text.  `ahead`: units that a lane loads before it decodes
    them.
    """
    size = encoding.bytes // 4
    whole = b.div(b.len(text, name="characters"), CHARACTERS, name="whole")
    first = b.mul(tile, units)

    def put(number: Value, decoded: Sequence[Value]) -> None:
        """Store the words of the unit with a number in the tile."""
        index = b.mul(number, size)
        if start is not None:
            index = b.add(start, index)
        for k, word in enumerate(decoded):
            b.store(word, slab, offset(b, index, k))

    def fill(before: Value, count: int) -> None:
        numbers = [offset(b, before, k * lanes) for k in range(count)]
        numbered = [(number, b.add(first, number)) for number in numbers]
        texts = [load_unit(b, text, unit, whole, filler) for _, unit in numbered]
        for (number, unit), characters in zip(numbered, texts, strict=True):
            put(number, decode(unit, characters))

    _each_round(b, lane, lanes, words // size, ahead, fill)
    # the unit in which the text ends, by the lane that stored it as one of fillers
    with b.if_(b.lt(b.sub(whole, first), words // size)):
        last = decode(whole, last_unit(b, text, whole, filler))

        def mend(number: Value, _: int) -> None:
            with b.if_(b.eq(b.add(first, number), whole)):
                put(number, last)

        _each_round(b, lane, lanes, words // size, 1, mend)


def _each_round(
    b: Builder, lane: Value, lanes: int, units: int, together: int, emit: Callable[[Value, int], None]
) -> None:
    """Go through units by all lanes; `emit` gets the first of a lane, and how many rounds it is for, `together` at most."""
    rounds, rest = divmod(units, lanes)
    blocks, odd = divmod(rounds, together)
    if blocks:
        with b.for_(0, blocks) as loop:
            emit(b.add(lane, b.mul(loop.index, together * lanes)), together)
    if odd:
        emit(b.add(lane, blocks * together * lanes), odd)
    if rest:
        with b.if_(b.lt(lane, rest)):
            emit(b.add(lane, rounds * lanes), 1)


def load_unit(b: Builder, text: Buffer, unit: Value, whole: Value, filler: int = 0) -> Value:
    """The characters of a unit, four in a u32; all are `filler` for one that is not among the `whole` ones of @text."""
    words = DataType.vec(DataType.U32, CHARACTERS // 4)

    def read() -> Value:
        return b.bitcast(b.load(text, b.mul(unit, CHARACTERS), lanes=CHARACTERS), words)

    def fill() -> Value:
        return b.bitcast(b.vector(*[_fillers(b, filler)] * 2), words)

    return guarded(b, b.lt(unit, whole), read, fill if filler else 0)


def last_unit(b: Builder, text: Buffer, whole: Value, filler: int = 0) -> Value:
    """The characters behind the `whole` units of @text, and fillers: each is shifted into the top byte of a 128-bit number."""
    start, characters = b.mul(whole, CHARACTERS), b.len(text)
    none = _fillers(b, filler)
    with b.for_(0, CHARACTERS, carry=[none, none]) as loop:
        index = b.add(start, loop.index)
        inside = b.lt(index, characters)
        character = guarded(b, inside, lambda: b.cast(b.load(text, index), DataType.U64), filler)
        low, high = loop.args
        low = b.or_(b.shr(low, 8), b.shl(high, 56))
        loop.yield_(low, b.or_(b.shr(high, 8), b.shl(character, 56)))
    return b.bitcast(b.vector(*loop.results), DataType.vec(DataType.U32, CHARACTERS // 4))


def _fillers(b: Builder, filler: int) -> Value:
    """Eight times the character, in a u64."""
    return b.const(int.from_bytes(bytes([filler]) * 8, "little"), DataType.U64)
