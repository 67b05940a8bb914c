"""Encodings of bytes as text: alphabets, the characters that are allowed beside them, and those that hold a byte.

    base64      A-Z a-z 0-9 + /     4 characters for 3 bytes      `=` at the end
    base64url   A-Z a-z 0-9 - _     4 characters for 3 bytes      `=` at the end, or none
    hex         0-9 a-f A-F         2 characters for 1 byte

Strict text has these characters alone.  Other text may have blanks and line breaks anywhere, as MIME's has (RFC 2045,
section 6.8), and no padding; a character of neither kind is an error in both.
"""

from __future__ import annotations

from binascii import a2b_base64, unhexlify
from collections.abc import Mapping
from string import ascii_lowercase, ascii_uppercase, digits, hexdigits

import numpy as np
from numpy.typing import NDArray

from vyre_opt.records import dataclass

__all__ = ["BLANK", "BLANKS", "ENCODINGS", "PADDING", "RAW", "Encoding"]

BAD, BLANK, PADDING = 0xFF, 0xFE, 0xFD
"""Entries of `Encoding.values` for characters that hold no bits."""

BLANKS = b" \t\r\n\v\f"
"""Characters that text which is not strict may have anywhere."""

Offsets = NDArray[np.uint64]
_TO_BASE64 = bytes.maketrans(b"-_", b"+/")


@dataclass(frozen=True, eq=False, slots=True)
class Encoding:
    """Encoding of `octets` bytes by `characters` characters.  `last_two`: of base64, those of values 62 and 63.

    `values`: u8[256], the value of each character, or one of the numbers above.
    """

    name: str
    characters: int
    octets: int
    values: NDArray[np.uint8]
    last_two: bytes = b""
    needs_padding: bool = False

    def bytes_of(self, characters: int) -> int:
        """The whole bytes that so many characters hold."""
        return characters * self.octets // self.characters

    def characters_of(self, octets: int) -> int:
        """The characters of the whole groups that hold so many bytes."""
        return -(-octets // self.octets) * self.characters

    @property
    def bits(self) -> int:
        """Bits of a character."""
        return 8 * self.octets // self.characters

    def decode(self, characters: NDArray[np.uint8], first_bit: int = 0) -> NDArray[np.uint8]:
        """The whole bytes that characters hold, all of which hold bits, from a bit of the first one on."""
        if self is RAW:
            return characters
        zero = bytes([self.values.argmin()])
        lead = first_bit // (8 - self.bits)  # characters, so that the first bit begins a byte
        text = zero * lead + characters.tobytes()
        text += zero * (-len(text) % self.characters)
        octets = a2b_base64(text.translate(_TO_BASE64)) if self.last_two else unhexlify(text)
        count = (len(characters) * self.bits - first_bit) // 8
        return np.frombuffer(octets, np.uint8, count, (lead * self.bits + first_bit) // 8)

    def spans(self, starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """The places of the characters that hold the bits of bytes from `starts` up to `ends`, exclusive.

        Characters are counted without blanks and line breaks.
        """
        return starts * 8 // self.bits, (ends * 8 + (self.bits - 1)) // self.bits


def _values(numbers: Mapping[str, int], padding: bytes = b"") -> NDArray[np.uint8]:
    """The table of an encoding.  `numbers`: the value of each character that holds bits."""
    values = np.full(256, BAD, np.uint8)
    values[list(BLANKS)] = BLANK
    values[list(padding)] = PADDING
    values[list("".join(numbers).encode())] = [*numbers.values()]
    values.flags.writeable = False
    return values


def _base64_values(last_two: str) -> NDArray[np.uint8]:
    alphabet = ascii_uppercase + ascii_lowercase + digits + last_two
    return _values({character: number for number, character in enumerate(alphabet)}, b"=")


RAW = Encoding("raw", 1, 1, np.zeros(256, np.uint8))
"""Bytes as they are."""

ENCODINGS = {
    "base64": Encoding("base64", 4, 3, _base64_values("+/"), b"+/", needs_padding=True),
    "base64url": Encoding("base64url", 4, 3, _base64_values("-_"), b"-_"),
    "hex": Encoding("hex", 2, 1, _values({digit: int(digit, 16) for digit in hexdigits})),
}
