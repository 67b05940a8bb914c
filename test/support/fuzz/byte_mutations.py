"""Files one fault or a few away from others: flipped bits, cuts, swaps, splices, sizes at their extremes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

__all__ = ["BYTES", "mutate"]

MAX_BYTES = 256_000
EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)

Mutation = Callable[[bytes, bytes, random.Random], bytes]


def mutate(content: bytes, other: bytes, rng: random.Random, mutations: Sequence[Mutation]) -> bytes:
    """`content` after one to eight of the mutations.  `other`: what may be spliced in."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 8))):
        content = rng.choice(mutations)(content or b"\0", other or b"\0", rng)
    return content[:MAX_BYTES]


def _at(content: bytes, rng: random.Random) -> int:
    """Any place, every other time one of the first 128, where a format has its head."""
    return rng.randrange(min(len(content), 128) if rng.random() < 0.5 else len(content))


def flip(content: bytes, other: bytes, rng: random.Random) -> bytes:
    at = _at(content, rng)
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def overwrite(content: bytes, other: bytes, rng: random.Random) -> bytes:
    at, run = _at(content, rng), rng.randbytes(rng.choice((1, 1, 2, 4, 8, 64)))
    return content[:at] + run + content[at + len(run) :]


def extreme_size(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """An integer of 1 to 8 bytes, little-endian, at its extremes."""
    at, width = _at(content, rng), rng.choice((1, 2, 4, 8))
    number = rng.choice(EXTREMES) & (1 << 8 * width) - 1
    return content[:at] + number.to_bytes(width, "little") + content[at + width :]


def truncate(content: bytes, other: bytes, rng: random.Random) -> bytes:
    return content[: _at(content, rng)]


def lengthen(content: bytes, other: bytes, rng: random.Random) -> bytes:
    return content + rng.choice((rng.randbytes(rng.randrange(1, 100)), b"\0" * 5000, content))


def insert(content: bytes, other: bytes, rng: random.Random) -> bytes:
    at = _at(content, rng)
    return content[:at] + rng.randbytes(rng.choice((1, 2, 8, 100))) + content[at:]


def drop(content: bytes, other: bytes, rng: random.Random) -> bytes:
    at = _at(content, rng)
    return content[:at] + content[at + rng.choice((1, 2, 8, 100)) :]


def swap(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Two runs of bytes in each other's places."""
    width = rng.choice((1, 4, 32))
    first, second = sorted((_at(content, rng), _at(content, rng)))
    if second - first < width:
        return content
    return b"".join(
        (
            content[:first],
            content[second : second + width],
            content[first + width : second],
            content[first : first + width],
            content[second + width :],
        )
    )


def splice(content: bytes, other: bytes, rng: random.Random) -> bytes:
    return content[: _at(content, rng)] + other[_at(other, rng) :]


BYTES: tuple[Mutation, ...] = (
    flip,
    flip,
    overwrite,
    extreme_size,
    truncate,
    lengthen,
    insert,
    drop,
    swap,
    splice,
)
