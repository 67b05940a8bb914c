"""The cache on disk: entries in a folder that many processes share.

    FOLDER/compiled-1/0 .. f/<64 hex digits of the key>
    FOLDER/compiled-1/0 .. f/<key>.<random>.partial     being written, or left by a process that died

There are no locks.  An entry is written to a partial file and renamed, so that a reader sees the old
file, the whole new one, or none; a checksum covers all that it reads.  Every error of the file system
counts as a miss: a store that cannot be read or written costs time, but never a result.

Keys are hashes, so the sixteen folders fill evenly, and each is limited to a sixteenth of the size:
after a write only one folder must be listed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...ir.cache_folder import cache_folder
from .entry import Damaged, pack, unpack

__all__ = ["DEFAULT_LIMIT", "LIMIT_VARIABLE", "Entry", "Store", "default_store", "limit_of", "read_size"]

LAYOUT = "compiled-1"
SHARDS = 16
DEFAULT_LIMIT = 512 << 20
LIMIT_VARIABLE = "VYRE_CACHE_SIZE"
ABANDONED_SECONDS = 600.0
"""No write takes this long: a partial file older than it has lost its writer."""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the store.  `used`: when it was last written or read, in seconds since the epoch."""

    path: Path
    size: int
    used: float

    @property
    def is_partial(self) -> bool:
        return self.path.suffix == ".partial"

    @property
    def key(self) -> bytes:
        return bytes.fromhex(self.path.name)


class Store:
    """Maps keys to bytes.  `limit`: the bytes that all entries may take together; with 0 nothing is stored."""

    def __init__(self, folder: Path, limit: int = DEFAULT_LIMIT) -> None:
        self.folder = folder / LAYOUT
        self.limit = limit

    @property
    def share(self) -> int:
        """Bytes that one folder, and so one entry, may take."""
        return self.limit // SHARDS

    def path(self, key: bytes) -> Path:
        """The file of a key's entry."""
        name = key.hex()
        return self.folder / name[0] / name

    def get(self, key: bytes, kind: str) -> bytes | None:
        """The payload under a key; None for a miss, of whatever cause.  Removes an entry that is damaged."""
        path = self.path(key)
        try:
            with open(path, "rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size > self.share:
                    return None
                content = file.readall()
        except (OSError, MemoryError):
            return None
        try:
            stored_kind, payload = unpack(content, key)
        except Damaged:
            stored_kind, payload = "", b""
        if stored_kind != kind:
            _remove(path)
            return None
        with suppress(OSError):
            # counts as a use, for `_trim`
            os.utime(path)
        return payload

    def put(self, key: bytes, kind: str, payload: bytes) -> bool:
        """Store a payload; False if that was not possible."""
        content = pack(key, kind, payload)
        if len(content) > self.share:
            return False
        path = self.path(key)
        # in the same folder, since only within a file system a rename is atomic
        partial = path.with_name(f"{path.name}.{os.urandom(6).hex()}.partial")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_new(partial, content)
            os.replace(partial, path)
        except OSError:
            _remove(partial)
            return False
        self._trim(path.parent)
        return True

    def discard(self, key: bytes) -> None:
        """Remove an entry that its reader could not use."""
        _remove(self.path(key))

    def entries(self) -> Iterator[Entry]:
        """All files of the store, also partial ones, in no order."""
        for shard in range(SHARDS):
            yield from _entries(self.folder / f"{shard:x}")

    def clear(self) -> tuple[int, int]:
        """Remove all entries; gives how many there were, and their bytes."""
        removed = [entry.size for entry in self.entries() if _remove(entry.path)]
        for shard in range(SHARDS):
            with suppress(OSError):
                (self.folder / f"{shard:x}").rmdir()
        with suppress(OSError):
            self.folder.rmdir()
        return len(removed), sum(removed)

    def _trim(self, shard: Path) -> None:
        """Remove the least recently used entries until the folder is within its share."""
        entries = list(_entries(shard))
        total = sum(entry.size for entry in entries)
        now = time.time()
        for entry in sorted(entries, key=lambda entry: entry.used):
            if entry.is_partial:
                if now - entry.used > ABANDONED_SECONDS and _remove(entry.path):
                    total -= entry.size
            elif total > self.share and _remove(entry.path):
                total -= entry.size


def default_store() -> Store:
    """The user's store, with the folder and limit that the environment sets."""
    return Store(cache_folder(), limit_of(os.environ.get(LIMIT_VARIABLE)))


def limit_of(text: str | None) -> int:
    """A limit from the environment; the default for text that is no size."""
    try:
        return read_size(text or "")
    except ValueError:
        return DEFAULT_LIMIT


def read_size(text: str) -> int:
    """Bytes: `1000000`, `64K`, `512M`, `2G`.  Raises ValueError."""
    digits, unit = text.strip().upper().removesuffix("B"), ""
    if digits[-1:] in ("K", "M", "G"):
        digits, unit = digits[:-1], digits[-1]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 16):
        raise ValueError(f"{text!r} is not a size, such as 512M")
    return int(digits) * _UNITS[unit]


def _write_new(path: Path, content: bytes) -> None:
    """Write a new file, unbuffered, so that a full disk raises OSError here."""
    with open(path, "xb", buffering=0) as file:
        rest = memoryview(content)
        while rest:
            rest = rest[file.write(rest) or 0 :]


def _entries(folder: Path) -> Iterator[Entry]:
    try:
        items = list(os.scandir(folder))
    except OSError:
        return
    for item in items:
        stem = item.name.partition(".")[0]
        if len(stem) != 64 or set(stem) - set("0123456789abcdef"):
            continue
        if item.name != stem and not item.name.endswith(".partial"):
            continue
        with suppress(OSError):  # another process may have removed it
            status = item.stat(follow_symlinks=False)
            yield Entry(Path(item.path), status.st_size, status.st_mtime)


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
