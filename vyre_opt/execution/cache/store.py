"""The cache on disk: entries in a folder that many processes share.

    FOLDER/vyre-cache.key                               the secret that entries are sealed with
    FOLDER/compiled-1/0 .. f/<64 hex digits of the key>
    FOLDER/compiled-1/0 .. f/<key>.<random>.partial     being written, or left by a process that died

There are no locks.  An entry is written to a partial file and renamed, so that a reader sees the old
file, the whole new one, or none; a seal covers all that it reads.  Every error of the file system
counts as a miss: a store that cannot be read or written costs time, but never a result.  What others could have
written is not read, and nothing is written where they could replace it (see cache_files.folder).

Keys are hashes, so the sixteen folders fill evenly, and each is limited to a sixteenth of the size:
after a write only one folder must be listed.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ...cache_files.entry import MAX_ENTRY_BYTES, OVERHEAD, Damaged, pack, unpack
from ...cache_files.folder import PARTIAL, Folder, Unsafe, open_folder
from ...cache_files.location import cache_folder
from ...cache_files.secret import open_cache, read_key
from ...ir.bounded_read import read_size
from ...ir.tracebacks import level_of_caller
from ...records import dataclass
from ...worker import import_module

__all__ = [
    "DEFAULT_LIMIT",
    "LAYOUT",
    "LIMIT_VARIABLE",
    "SHARDS",
    "Entry",
    "Store",
    "default_store",
    "entries_of",
    "limit_of",
]

LAYOUT = "compiled-1"
SHARDS = tuple("0123456789abcdef")
"""The names of the folders, the first digits of their keys."""
DEFAULT_LIMIT = 512 << 20
LIMIT_VARIABLE = "VYRE_CACHE_SIZE"
ABANDONED_SECONDS = 600.0
"""No write takes this long: a partial file older than it has lost its writer."""


@dataclass(frozen=True, slots=True)
class Entry:
    """File with the name of an entry.  `used`: the time of its last write or read, in seconds since the epoch."""

    path: str
    size: int
    used: float

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def is_partial(self) -> bool:
        return self.path.endswith(PARTIAL)

    @property
    def key(self) -> bytes:
        return bytes.fromhex(self.name)


class Store:
    """Maps keys to bytes.  `limit`: the bytes that all entries may take together; with 0 nothing is stored.

    `root`: the cache folder; `folder`: the one in it that holds the entries.
    """

    def __init__(self, root: str | os.PathLike[str], limit: int = DEFAULT_LIMIT) -> None:
        name = os.fspath(root)
        self.root = name if os.path.isabs(name) else os.path.join(os.getcwd(), name)
        self.folder = os.path.join(self.root, LAYOUT)
        self.limit = limit

    @property
    def share(self) -> int:
        """Bytes that one folder, and so one entry, may take."""
        return self.limit // len(SHARDS)

    def path(self, key: bytes) -> str:
        """The file of a key's entry."""
        name = key.hex()
        return os.path.join(self.folder, name[0], name)

    def get(self, key: bytes, kind: str) -> bytes | None:
        """The payload under a key, of the folder or of packs; None for a miss, of whatever cause.  Removes an entry that is damaged."""
        payload = self._own(key, kind)
        if payload is None and os.environ.get("VYRE_PACKS"):
            import_module(f"{__package__}.packed")
            from .packed import packed_entry

            payload = packed_entry(key, kind)
        return payload

    def _own(self, key: bytes, kind: str) -> bytes | None:
        """The payload under a key in the folder."""
        name = key.hex()
        try:
            with self._open_shard(name[0]) as (shard, secret):
                content = shard.read(name, min(self.share, MAX_ENTRY_BYTES))
                try:
                    stored_kind, payload = unpack(secret, content, key)
                except Damaged:
                    stored_kind, payload = "", b""
                if stored_kind != kind:
                    shard.remove(name)
                    return None
                try:
                    shard.touch(name)  # counts as a use, for `_trim`
                except OSError:  # a folder that may only be read
                    pass
        except (OSError, MemoryError):
            return None
        return payload

    def put(self, key: bytes, kind: str, payload: bytes) -> bool:
        """Store a payload; False if that was not possible."""
        if len(payload) + OVERHEAD > min(self.share, MAX_ENTRY_BYTES):
            return False
        name = key.hex()
        try:
            with self._open_shard(name[0], create=True) as (shard, secret):
                shard.replace(name, pack(secret, key, kind, payload))
                self._trim(shard)
        except OSError:
            return False
        return True

    def discard(self, key: bytes) -> None:
        """Remove an entry that its reader could not use."""
        name = key.hex()
        try:
            with self._open_shard(name[0]) as (shard, _):
                shard.remove(name)
        except OSError:
            pass

    def refusal(self) -> str:
        """Why the folder is not used: others may write to it, or own it; "" if it is used, or not there."""
        try:
            with open_folder(self.root) as root, root.child(LAYOUT):
                read_key(root)
        except Unsafe as unsafe:
            return str(unsafe)
        except OSError:
            pass
        return ""

    def entries(self) -> Iterator[Entry]:
        """All files of the store, also partial ones, in no order."""
        for shard in self.shards():
            yield from entries_of(shard)

    def shards(self) -> Iterator[Folder]:
        """Folders of the sixteen that exist and are safe, each open while the iterator stands at it."""
        try:
            with open_folder(self.root) as root, root.child(LAYOUT) as layout:
                for digit in SHARDS:
                    try:
                        shard = layout.child(digit)
                    except OSError:
                        continue
                    with shard:
                        yield shard
        except OSError:
            pass

    def clear(self) -> tuple[int, int]:
        """Remove all entries; gives how many there were, and their bytes."""
        removed = []
        for shard in self.shards():
            removed += [entry.size for entry in entries_of(shard) if shard.remove(entry.name)]
        try:
            with open_folder(self.root) as root:
                with root.child(LAYOUT) as layout:
                    for digit in SHARDS:
                        layout.remove_folder(digit)
                root.remove_folder(LAYOUT)
        except OSError:
            pass
        return len(removed), sum(removed)

    @contextmanager
    def _open_shard(self, digit: str, create: bool = False) -> Iterator[tuple[Folder, bytes]]:
        """One of the sixteen folders, and the secret.  Raises OSError."""
        with (
            open_cache(self.root, create) as (root, secret),
            root.child(LAYOUT, create) as layout,
            layout.child(digit, create) as shard,
        ):
            yield shard, secret

    def _trim(self, shard: Folder) -> None:
        """Remove the least recently used entries until the folder is within its share."""
        entries = entries_of(shard)
        total = sum(entry.size for entry in entries)
        now = time.time()
        for entry in sorted(entries, key=lambda entry: entry.used):
            if entry.is_partial:
                if now - entry.used > ABANDONED_SECONDS and shard.remove(entry.name):
                    total -= entry.size
            elif total > self.share and shard.remove(entry.name):
                total -= entry.size


def entries_of(shard: Folder) -> list[Entry]:
    """Files named like an entry, or a partial one, in one of the sixteen folders; none if it cannot be listed."""
    try:
        items = shard.scan()
    except OSError:
        return []
    entries = []
    for name, status in items:
        stem = name.partition(".")[0]
        is_named = len(stem) == 64 and not set(stem) - set("0123456789abcdef")
        if is_named and (name == stem or name.endswith(PARTIAL)):
            entries.append(Entry(os.path.join(shard.path, name), status.st_size, status.st_mtime))
    return entries


def default_store() -> Store:
    """The user's store, with the folder and limit that the environment sets."""
    return Store(cache_folder(), limit_of(os.environ.get(LIMIT_VARIABLE)))


def limit_of(text: str | None) -> int:
    """A limit from the environment; the default, with a warning, for text that is no size."""
    if not text:
        return DEFAULT_LIMIT
    try:
        return read_size(text)
    except ValueError as error:
        warnings.warn(
            f"{LIMIT_VARIABLE}: {error}; the limit is {DEFAULT_LIMIT >> 20}M", stacklevel=level_of_caller()
        )
        return DEFAULT_LIMIT
