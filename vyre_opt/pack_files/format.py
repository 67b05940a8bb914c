"""The bytes of a pack.

    0     8   "vyrepack"
    8     4   version of the format, 1; little-endian as all numbers here
    12    4   zeros
    16    8   n, bytes of the index
    24   32   BLAKE3 of the index
    56    n   the index: JSON with sorted names and no blanks
    ...       the parts in the order of the index, each from a multiple of 64 on, zeros between
    end   0 or 104   "vyresign", 32 bytes of an Ed25519 key, 64 of its signature of the digest

The digest of a pack is BLAKE3 of all up to the end of the index, which has the digest of every part.  So equal digests are of equal
packs, and a signature is no part of what it signs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import pairwise
from typing import Any

from blake3 import blake3

from ..records import dataclass

__all__ = ["MAX_BYTES", "Pack", "PackError", "Part", "Signature", "canonical", "pack_bytes", "read_pack"]

MAGIC, SIGNED = b"vyrepack", b"vyresign"
VERSION = 1
HEAD_BYTES, KEY_BYTES, SIGNATURE_BYTES = 56, 32, 64
ALIGNMENT = 64

MAX_BYTES = 1 << 31
"""Most bytes of a pack."""


class PackError(ValueError):
    """A file that is no pack, is damaged, or is not trusted; or a pack without what is asked of it."""


@dataclass(frozen=True, slots=True)
class Part:
    """`kind`: what it is, such as "object"; `about`: plain values by name, which the index has."""

    name: str
    kind: str
    content: bytes
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Signature:
    """An Ed25519 key, and its signature of a pack's digest."""

    key: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class _Entry:
    """A part as the index has it.  `start`: where it begins in the file."""

    name: str
    kind: str
    about: Mapping[str, Any]
    start: int
    size: int
    digest: str


def canonical(value: Any) -> bytes:
    """A plain value as JSON, the same bytes for equal values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def pack_bytes(parts: Iterable[Part], about: Mapping[str, Any], signature: Signature | None = None) -> bytes:
    """The file of parts, in the order of their names.  `about`: what the index says of the pack.

    Raises PackError for two parts of one name.
    """
    ordered = sorted(parts, key=lambda part: part.name)
    names = [part.name for part in ordered]
    for name, following in pairwise(names):
        if name == following:
            raise PackError(f"two parts of a pack are named {name}")
    rows = [
        {
            "about": dict(part.about),
            "digest": blake3(part.content).hexdigest(),
            "kind": part.kind,
            "name": part.name,
            "size": len(part.content),
        }
        for part in ordered
    ]
    index = canonical({"about": dict(about), "parts": rows})
    out = bytearray(MAGIC + VERSION.to_bytes(4, "little") + bytes(4) + len(index).to_bytes(8, "little"))
    out += blake3(index).digest() + index
    for part in ordered:
        out += bytes(-len(out) % ALIGNMENT) + part.content
    if signature is not None:
        out += SIGNED + signature.key + signature.signature
    return bytes(out)


class Pack:
    """A pack in memory.  `digest`: see the module; `about`: what the index says of it; `signature`: if it has one."""

    def __init__(self, content: bytes, name: str) -> None:
        """`name`: how messages call it.  Raises PackError for bytes that are none."""
        self.name = name
        self._content = memoryview(content)
        end, index = self._read_index(content)
        self.digest: str = blake3(self._content[:end]).hexdigest()
        self.about: Mapping[str, Any] = index["about"]
        self._entries = {entry.name: entry for entry in self._read_entries(index["parts"], end)}
        self.signature = self._read_signature(content)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self, kind: str | None = None) -> list[str]:
        """The names of the parts, or of those of a kind, in order."""
        return [entry.name for entry in self._entries.values() if kind in (None, entry.kind)]

    def kind(self, name: str) -> str:
        return self._entries[name].kind

    def size(self, name: str) -> int:
        """Bytes of a part."""
        return self._entries[name].size

    def digest_of(self, name: str) -> str:
        """BLAKE3 of a part, as the index has it."""
        return self._entries[name].digest

    def about_part(self, name: str) -> Mapping[str, Any]:
        return self._entries[name].about

    def read(self, name: str) -> bytes:
        """A part.  Raises PackError for one that is missing, or whose digest is another than the index says."""
        entry = self._entries.get(name)
        if entry is None:
            raise PackError(f"{self.name}: there is no part {name}")
        content = bytes(self._content[entry.start : entry.start + entry.size])
        if blake3(content).hexdigest() != entry.digest:
            raise PackError(f"{self.name}: the part {name} is damaged: its digest is not what the index says")
        return content

    def read_text(self, name: str) -> str:
        """A part that is text in UTF-8.  Raises PackError."""
        try:
            return self.read(name).decode()
        except UnicodeDecodeError:
            raise self.malformed(f"the part {name} is no text") from None

    def read_json(self, name: str) -> Any:
        """A part that is JSON.  Raises PackError."""
        try:
            return json.loads(self.read(name))
        except (ValueError, RecursionError) as error:
            if isinstance(error, PackError):
                raise
            raise self.malformed(f"the part {name} is no JSON") from None

    def parts(self) -> list[Part]:
        """All parts, checked.  Raises PackError."""
        return [Part(e.name, e.kind, self.read(e.name), e.about) for e in self._entries.values()]

    def check(self) -> None:
        """Check every byte.  Raises PackError."""
        if pack_bytes(self.parts(), self.about, self.signature) != self._content:
            raise self.malformed("bytes between its parts are not zeros")

    def malformed(self, what: str, remedy: str = "fetch it anew, or write it anew") -> PackError:
        return PackError(f"{self.name} is no pack: {what}; {remedy}")

    def _read_index(self, content: bytes) -> tuple[int, Any]:
        """End of the index, and the index."""
        if content[:8] != MAGIC:
            if content.lstrip().startswith((b"vyre ", b"//")):
                raise self.malformed(
                    "it is a text", f"write vyre-opt --emit=pack {self.name} -o FILE.vyrepack"
                )
            raise self.malformed("it does not begin with vyrepack")
        version = int.from_bytes(content[8:12], "little")
        if version != VERSION and len(content) >= HEAD_BYTES:
            raise PackError(
                f"{self.name} has version {version} of the format, and this package reads {VERSION}"
            )
        end = HEAD_BYTES + int.from_bytes(content[16:24], "little")
        if len(content) < HEAD_BYTES or end > len(content) or content[12:16] != bytes(4):
            raise self.malformed("it is cut off, or its head is damaged")
        written = content[HEAD_BYTES:end]
        if blake3(written).digest() != content[24:HEAD_BYTES]:
            raise self.malformed("its index is damaged")
        try:
            index = json.loads(written)
            is_canonical = canonical(index) == written
        except (ValueError, RecursionError):
            raise self.malformed("its index is no JSON") from None
        is_index = isinstance(index, dict) and index.keys() == {"about", "parts"}
        if not is_canonical or not is_index or not isinstance(index["about"], dict):
            raise self.malformed("its index is not written as one")
        return end, index

    def _read_entries(self, rows: Any, end: int) -> Iterable[_Entry]:
        at = end
        before = ""
        for row in rows if isinstance(rows, list) else [{}]:
            if not _is_row(row) or row["name"] <= before:
                raise self.malformed("a row of its index is not written as one")
            before = row["name"]
            at += -at % ALIGNMENT
            yield _Entry(row["name"], row["kind"], row["about"], at, row["size"], row["digest"])
            at += row["size"]
            if at > len(self._content):
                raise self.malformed(f"it is cut off before the end of the part {before}")
        self._end = at

    def _read_signature(self, content: bytes) -> Signature | None:
        left = content[self._end :]
        if not left:
            return None
        if len(left) != len(SIGNED) + KEY_BYTES + SIGNATURE_BYTES or not left.startswith(SIGNED):
            raise self.malformed("there is something behind its last part")
        key = left[len(SIGNED) : len(SIGNED) + KEY_BYTES]
        return Signature(key, left[len(SIGNED) + KEY_BYTES :])


def _is_row(row: Any) -> bool:
    """Whether a row of the index has all that it has to have."""
    if not isinstance(row, dict) or row.keys() != {"about", "digest", "kind", "name", "size"}:
        return False
    texts = row["name"], row["kind"], row["digest"]
    is_sized = type(row["size"]) is int and 0 <= row["size"] <= MAX_BYTES
    return (
        is_sized
        and isinstance(row["about"], dict)
        and all(type(text) is str and text.isprintable() for text in texts)
    )


def read_pack(path: Any) -> Pack:
    """The pack of a file.  Raises PackError, and OSError for a file that cannot be read."""
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise PackError(f"{path} is no pack: it has more than 2^31 bytes")
    return Pack(content, str(path))
