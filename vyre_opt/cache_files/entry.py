"""The file format of a cache entry.

    bytes   8        16     32    8               n         32
            magic    kind   key   n, u64 LE       payload   seal: BLAKE3 of all before, keyed by the folder's secret

A file with a wrong length, magic, key or seal is no entry at all.
"""

from __future__ import annotations

__all__ = [
    "HEAD_BYTES",
    "KINDS",
    "MAX_ENTRY_BYTES",
    "OVERHEAD",
    "Damaged",
    "pack",
    "read_head",
    "unpack",
]

MAGIC = b"vyrecch2"
KIND_BYTES = 16
KEY_BYTES = 32
HEAD_BYTES = len(MAGIC) + KIND_BYTES + KEY_BYTES + 8
SEAL_BYTES = 32

OVERHEAD = HEAD_BYTES + SEAL_BYTES
"""Bytes of an entry beside its payload."""

MAX_ENTRY_BYTES = 256 << 20
"""No entry is larger, so no reader takes more memory, whatever lies in the folder."""

KINDS = ("cpu", "ptx", "tuning", "patterns", "parser", "host", "ir", "version")
"""Object code for this machine, PTX, results of the tuner, automata of patterns, the parser's tables, what LLVM calls this
machine, what passes make of programs, and the hash of the sources of this package."""


class Damaged(ValueError):
    """The bytes of a file are no entry; the message says why."""


def pack(secret: bytes, key: bytes, kind: str, payload: bytes) -> bytes:
    """The file of an entry.  `secret`: of the folder; `key`: 32 bytes; `kind`: one of KINDS."""
    from blake3 import blake3

    if len(key) != KEY_BYTES or kind not in KINDS:
        raise ValueError(f"a key is {KEY_BYTES} bytes and a kind one of {', '.join(KINDS)}")
    size = len(payload).to_bytes(8, "little")
    body = b"".join((MAGIC, kind.encode().ljust(KIND_BYTES, b"\0"), key, size, payload))
    return body + blake3(body, key=secret).digest()


def unpack(secret: bytes, content: bytes, key: bytes) -> tuple[str, bytes]:
    """Kind and payload of a file that should hold `key`.  Raises Damaged."""
    from blake3 import blake3

    kind, stored_key, payload_bytes = read_head(content)
    if len(content) != payload_bytes + OVERHEAD:
        raise Damaged("it is truncated, or too long")
    if blake3(content[:-SEAL_BYTES], key=secret).digest() != content[-SEAL_BYTES:]:
        raise Damaged("its seal does not match")
    if stored_key != key:
        raise Damaged("it belongs under another name")
    return kind, content[HEAD_BYTES:-SEAL_BYTES]


def read_head(content: bytes) -> tuple[str, bytes, int]:
    """Kind, key, and the number of bytes of the payload, as the start of a file states them.  Raises Damaged."""
    if len(content) < HEAD_BYTES:
        raise Damaged("it is truncated")
    if not content.startswith(MAGIC):
        raise Damaged("it is not a cache entry")
    kind = content[len(MAGIC) : len(MAGIC) + KIND_BYTES].rstrip(b"\0")
    start = len(MAGIC) + KIND_BYTES
    key, size = content[start : start + KEY_BYTES], content[start + KEY_BYTES : HEAD_BYTES]
    return kind.decode("ascii", "replace"), key, int.from_bytes(size, "little")
