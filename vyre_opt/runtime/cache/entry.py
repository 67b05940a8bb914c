"""The file format of a cache entry.

    bytes   8        16     32    8               n         32
            magic    kind   key   n, u64 LE       payload   BLAKE3 of all before

A file with a wrong length, magic, key or checksum is no entry at all.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HEAD_BYTES", "KINDS", "Damaged", "Head", "pack", "read_head", "unpack"]

MAGIC = b"vyrecch1"
KIND_BYTES = 16
KEY_BYTES = 32
HEAD_BYTES = len(MAGIC) + KIND_BYTES + KEY_BYTES + 8
SUM_BYTES = 32

KINDS = ("cpu", "ptx", "tuning")
"""Object code for this machine, PTX, and results of the tuner."""


class Damaged(ValueError):
    """The bytes of a file are no entry; the message says why."""


@dataclass(frozen=True, slots=True)
class Head:
    """The start of a file; `payload_bytes` as the file states it, which may be wrong."""

    kind: str
    key: bytes
    payload_bytes: int


def pack(key: bytes, kind: str, payload: bytes) -> bytes:
    """The file of an entry.  `key`: 32 bytes; `kind`: one of KINDS."""
    from blake3 import blake3

    if len(key) != KEY_BYTES or kind not in KINDS:
        raise ValueError(f"a key is {KEY_BYTES} bytes and a kind one of {', '.join(KINDS)}")
    size = len(payload).to_bytes(8, "little")
    body = b"".join((MAGIC, kind.encode().ljust(KIND_BYTES, b"\0"), key, size, payload))
    return body + blake3(body).digest()


def unpack(content: bytes, key: bytes) -> tuple[str, bytes]:
    """Kind and payload of a file that should hold `key`.  Raises Damaged."""
    from blake3 import blake3

    head = read_head(content)
    if len(content) != HEAD_BYTES + head.payload_bytes + SUM_BYTES:
        raise Damaged("it is truncated, or too long")
    if blake3(content[:-SUM_BYTES]).digest() != content[-SUM_BYTES:]:
        raise Damaged("its checksum does not match")
    if head.key != key:
        raise Damaged("it belongs under another name")
    return head.kind, content[HEAD_BYTES:-SUM_BYTES]


def read_head(content: bytes) -> Head:
    """Decode the start of a file.  Raises Damaged."""
    if len(content) < HEAD_BYTES:
        raise Damaged("it is truncated")
    if not content.startswith(MAGIC):
        raise Damaged("it is not a cache entry")
    kind = content[len(MAGIC) : len(MAGIC) + KIND_BYTES].rstrip(b"\0")
    start = len(MAGIC) + KIND_BYTES
    key, size = content[start : start + KEY_BYTES], content[start + KEY_BYTES : HEAD_BYTES]
    return Head(kind.decode("ascii", "replace"), key, int.from_bytes(size, "little"))
