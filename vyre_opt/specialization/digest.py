"""Collision-resistant digests of bound constants, for the keys of caches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..ir import arith
from ..ir.types import DataType

if TYPE_CHECKING:
    from .values import SpecValue

__all__ = ["Entry", "constant_entry", "digest_of", "entry"]

Entry = tuple[str, str, bytes]
"""(name, type, payload) of a bound constant."""


def entry(name: str, value: SpecValue) -> Entry:
    """The entry of a SpecValue; its type is in full, `vec<2 x u32>` and not just vec."""
    payload = value.bits.to_bytes(4, "little") if value.type is None else value.type.name.encode()
    return name, value.kind, payload


def constant_entry(name: str, value: Any, dtype: DataType) -> Entry:
    """The entry of a program's constant, whose value is encoded (see ir.arith) or, for a parameter, a type."""
    if isinstance(value, DataType):
        return name, "dtype", value.name.encode()
    assert dtype.bits is not None
    return name, dtype.name, arith.to_bits(int(value), dtype).to_bytes(dtype.bits // 8, "little")


def digest_of(entries: Iterable[Entry]) -> bytes:
    """32 bytes of BLAKE3 over the entries sorted by name: their number, then each part after its length.

    The lengths make the hashed bytes unambiguous: no two different lists give the same.
    """
    from blake3 import blake3

    parts = sorted((name.encode(), kind.encode(), payload) for name, kind, payload in entries)
    content = [len(parts).to_bytes(8, "little")]
    for part in parts:
        for piece in part:
            content += (len(piece).to_bytes(8, "little"), piece)
    return blake3(b"".join(content)).digest()
