"""Units of a text: 16 characters, which a lane loads at once."""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.program import Buffer, Value
from ..ir.types import DataType
from .collective import guarded

__all__ = ["CHARACTERS", "load_unit"]

CHARACTERS = 16


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
