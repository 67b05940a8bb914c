"""decode.hex: hexadecimal text to bytes."""

from __future__ import annotations

from .. import decode as k
from .base64 import Base64
from .kernel import Array


class Hex(Base64):
    name = "decode.hex"
    operator = ""
    builder = staticmethod(k.hex_text)
    alphabet = b"0123456789abcdefABCDEF"

    def reference(self, text: Array) -> Array:
        """Two digits a byte, in either case; other characters count as 0, and an odd last one is ignored."""
        digits = self.values(text[: len(text) // 2 * 2], self.alphabet).astype("uint8")
        digits[digits > 15] -= 6  # those in upper case
        return (digits[0::2] << 4) | digits[1::2]

    def size(self, characters: int) -> int:
        return characters // 2
