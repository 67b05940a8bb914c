"""Base64 and hexadecimal text to bytes, with a check of each character, in vectors: the programs `checked_base64` and
`checked_hex`.

    @text       u8[?]
    @bytes      u8[?]   what whole blocks of BLOCK characters encode
    @first_bad  u32[1]  the position of the first character of these blocks that is none of the alphabet, if that is below
                        what is there

The rest of a text, of less than a block, and padding are the caller's.

A character's high and low four bits are looked up: the high ones give a bit for the kind that they belong to, the low
ones the bits of all kinds of which they are no character.  The method is that of W. Mula and D. Lemire, "Faster Base64
Encoding and Decoding Using AVX2 Instructions", 2018.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache

from ..ir.builder import Builder
from ..ir.program import Program, Value
from ..ir.types import DataType

__all__ = ["BLOCK", "INVOCATIONS", "Base64Block", "BlockDecoder", "HexBlock", "checked_base64", "checked_hex"]

BLOCK = 32
"""Characters of an invocation."""
INVOCATIONS = 256
"""Lanes of a workgroup."""

U8, U32 = DataType.U8, DataType.U32
TABLE = DataType.vec(U8, 16)
NO_CHARACTER = 0x80
"""The kind of high halves that begin no character."""


@cache
def checked_base64(last: bytes = b"+/") -> Program:
    """The program for an alphabet that ends in the two characters `last`, of values 62 and 63."""
    return _program("checked_base64", Base64Block(last))


@cache
def checked_hex() -> Program:
    """The program for digits and letters of either case."""
    return _program("checked_hex", HexBlock())


def _program(name: str, block: BlockDecoder) -> Program:
    b = Builder(name, workgroup=INVOCATIONS)
    text = b.buffer("text", U8, None, "read", 0)
    out = b.buffer("bytes", U8, None, "write", 1, live_out=True)
    first_bad = b.buffer("first_bad", U32, 1, "read_write", 2, live_in=True, live_out=True)
    invocation = b.global_id("x")
    with b.if_(b.lt(invocation, b.div(b.len(text), BLOCK))):
        start = b.mul(invocation, BLOCK)
        characters = b.load(text, start, BLOCK)
        bad = b.movemask(block.is_bad(b, characters))
        decoded = block.joined(b, block.values(b, characters))
        b.store(decoded, out, b.mul(invocation, decoded.type.lanes))
        with b.if_(b.ne(bad, 0)):
            b.atomic_min(first_bad, 0, b.add(start, b.ctz(bad)))
    return b.finish()


class BlockDecoder(ABC):
    """Emits the decoding of a vector of characters of the `alphabet`, a multiple of 8 of them."""

    def __init__(self, alphabet: bytes) -> None:
        self.kinds, self.wrong = _kinds(alphabet)

    def is_bad(self, b: Builder, characters: Value) -> Value:
        """Whether each is no character of the alphabet."""
        kind = b.permute(b.const(self.kinds, TABLE), b.shr(characters, 4))
        return b.ne(b.and_(kind, b.permute(b.const(self.wrong, TABLE), b.and_(characters, 15))), 0)

    @abstractmethod
    def values(self, b: Builder, characters: Value) -> Value:
        """The bits that each character holds."""

    @abstractmethod
    def joined(self, b: Builder, values: Value) -> Value:
        """The bytes that these bits make."""


class Base64Block(BlockDecoder):
    """`last`: the characters of values 62 and 63."""

    def __init__(self, last: bytes = b"+/") -> None:
        letters = bytes([*range(65, 91), *range(97, 123), *range(48, 58)]) + last
        super().__init__(letters)
        # Characters of one high half have one offset, but for the last one: that takes an entry which no other does
        self.special = last[1]
        self.offsets = [0] * 16
        for value, character in enumerate(letters):
            self.offsets[1 if character == self.special else character >> 4] = (value - character) % 256

    def values(self, b: Builder, characters: Value) -> Value:
        special = b.const(1, characters.type)
        entry = b.select(b.eq(characters, self.special), special, b.shr(characters, 4))
        return b.add(characters, b.permute(b.const(self.offsets, TABLE), entry))

    def joined(self, b: Builder, values: Value) -> Value:
        # Four values a, b, c, d lie in a word from the lowest byte on: ab and cd of 12 bits, then abcd of 24
        count = values.type.lanes // 4
        words = b.bitcast(values, DataType.vec(U32, count))
        pairs = b.or_(b.shl(b.and_(words, 0x3F003F), 6), b.and_(b.shr(words, 8), 0x3F003F))
        quads = b.or_(b.shl(pairs, 12), b.shr(pairs, 16))
        order = [4 * word + byte for word in range(count) for byte in (2, 1, 0)]
        return b.permute(b.bitcast(quads, values.type), b.const(order, DataType.vec(U8, len(order))))


class HexBlock(BlockDecoder):
    def __init__(self) -> None:
        super().__init__(b"0123456789abcdefABCDEF")

    def values(self, b: Builder, characters: Value) -> Value:
        first = b.const([9 if half in (4, 6) else 0 for half in range(16)], TABLE)  # `a` has the low half 1
        return b.add(b.and_(characters, 15), b.permute(first, b.shr(characters, 4)))

    def joined(self, b: Builder, values: Value) -> Value:
        count = values.type.lanes // 2
        pairs = b.bitcast(values, DataType.vec(DataType.U16, count))
        octets = b.bitcast(b.or_(b.shl(b.and_(pairs, 15), 4), b.shr(pairs, 8)), values.type)
        return b.permute(octets, b.const([*range(0, 2 * count, 2)], DataType.vec(U8, count)))


def _kinds(alphabet: bytes) -> tuple[list[int], list[int]]:
    """The bit of each high half, and for each low half the bits of the high halves with which it is no character."""
    lows = [frozenset(c & 15 for c in alphabet if c >> 4 == high) for high in range(16)]
    groups = sorted({low for low in lows if low}, key=sorted)
    kinds = [1 << groups.index(low) if low else NO_CHARACTER for low in lows]
    wrong = [
        NO_CHARACTER | sum(1 << k for k, group in enumerate(groups) if low not in group) for low in range(16)
    ]
    return kinds, wrong
