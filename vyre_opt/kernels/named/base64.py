"""decode.base64: base64 text to bytes (RFC 4648)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...ir.ops import base64_length
from ...ir.program import Buffer, Program
from ...ir.types import DataType
from .. import decode as k
from ..call import Call, EmptyResult
from ..expansion import Expansion, ExpansionRequest
from .kernel import FINE, Array, NamedKernel, OperandLike, TargetDevice


class Base64(NamedKernel):
    """`builder`: of its program at a schedule.  `alphabet`: the characters that stand for bits."""

    name = "decode.base64"
    operator = "base64_decode(text)"
    any_length = any_lanes = True
    gpu = ({"lanes": FINE, "characters": (4, 8, 16, 32)},)
    builder: Callable[..., Program] = staticmethod(k.base64)
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    def reference(self, text: Array) -> Array:
        """Up to two '=' at the very end are padding, other characters count as 0 bits.

        A last group of 2 or 3 characters gives 1 or 2 bytes, a single character none.
        """
        import numpy as np

        last = text[-2:] == ord("=")
        padding = 0 if not last[-1:].any() else 2 if len(last) == 2 and last[0] else 1
        sextets = self.values(text[: len(text) - padding], self.alphabet)
        count = len(sextets) * 6 // 8
        groups = np.concatenate((sextets, np.zeros(-len(sextets) % 4, np.uint32))).reshape(-1, 4)
        word = (groups[:, 0] << 18) | (groups[:, 1] << 12) | (groups[:, 2] << 6) | groups[:, 3]
        decoded = np.stack((word >> 16, word >> 8, word), axis=1) & 0xFF
        return decoded.astype(np.uint8).reshape(-1)[:count]

    def shape(self, *arrays: Any) -> None:
        return None  # the padding, which is data, decides

    def expand(self, r: ExpansionRequest) -> Expansion:
        schedule = r.at(replace(k.decode_schedule(r.target), strided=not r.owns_grid))
        return Expansion(r.build(self.builder, schedule), schedule, r.tiles(schedule.tile))

    def size(self, characters: int) -> int:
        """Bytes that so many characters decode to."""
        return base64_length(characters)

    def call(self, device: TargetDevice, arrays: Sequence[OperandLike], padding: int = 0) -> Call:
        """`padding`: characters at the end that stand for no bits."""
        (text,) = arrays
        size = self.size(text.count - padding)
        return self.one_launch(device, [DataType.U8], [text.count], (size,)) if size else EmptyResult((0,))

    def values(self, text: Array, alphabet: bytes) -> Array:
        """The number of each character in an alphabet, 0 for others, in u32."""
        import numpy as np

        codes = np.zeros(256, np.uint32)
        codes[np.frombuffer(alphabet, np.uint8)] = np.arange(len(alphabet))
        return codes[text]

    def sample(self, rng: Any, reads: Sequence[Buffer], params: Mapping[str, int]) -> list[Array]:
        import numpy as np

        codes = np.frombuffer(self.alphabet, np.uint8)
        return [codes[rng.integers(0, len(codes), reads[0].count or 0)]]
