"""Statistics and integrity checks of a cache folder, for the command line."""

from __future__ import annotations

import re
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from ...cache_files.entry import HEAD_BYTES, KINDS, MAX_ENTRY_BYTES, Damaged, read_head, unpack
from ...cache_files.folder import PARTIAL, Folder, open_folder
from ...cache_files.secret import KEY_FILE, read_key
from ...pack_files.format import Part, pack_bytes
from .store import LAYOUT, SHARDS, Store, entries_of

__all__ = ["Finding", "Survey", "check", "exported", "remove_own_files", "survey"]

_OF_ONE_MACHINE = ("host", "version")
"""Kinds of entries that are no use elsewhere: the names of a machine until it starts again, and times of source files."""

_PARTIAL = rf"(\.[0-9a-f]{{12}}{re.escape(PARTIAL)})?"
_TABLES = re.compile(rf"grammar-([0-9a-f]{{64}})\.tables{_PARTIAL}")
_KEY = re.compile(re.escape(KEY_FILE) + _PARTIAL)


@dataclass(slots=True)
class Survey:
    """The number of entries and their bytes, in all and by kind.  `tables`: the number of files of parser tables."""

    count: int = 0
    size: int = 0
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    tables: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A file that is damaged, and why.  `removed`: whether it is gone now; None if that was not asked for."""

    path: str
    reason: str
    removed: bool | None = None


def survey(store: Store) -> Survey:
    """Count the entries of a store; files that are no entries count as kind `other`."""
    totals = Survey()
    with suppress(OSError), open_folder(store.root) as root:
        totals.tables = sum(1 for name, _ in root.scan() if _TABLES.fullmatch(name))
    for shard in store.shards():
        for entry in entries_of(shard):
            kind = "other"
            with suppress(OSError, Damaged):
                stated, _, _ = read_head(shard.read_start(entry.name, HEAD_BYTES))
                if stated in KINDS and not entry.is_partial:
                    kind = stated
            count, size = totals.kinds.get(kind, (0, 0))
            totals.kinds[kind] = (count + 1, size + entry.size)
            totals.count += 1
            totals.size += entry.size
    totals.kinds = dict(sorted(totals.kinds.items()))
    return totals


def check(store: Store, remove: bool = False) -> tuple[int, list[Finding]]:
    """The number of intact files, and those that are damaged; `remove`: remove these.

    Files are the entries and the parser's tables; partial ones count as neither.
    """
    intact = 0
    findings = []
    with suppress(OSError), open_folder(store.root) as root:
        secret = None
        with suppress(OSError):
            secret = read_key(root)
        for folder, name, key in _files(store, root):
            try:
                if secret is None:
                    raise Damaged("the key that it was sealed with is gone")
                unpack(secret, folder.read(name, MAX_ENTRY_BYTES), key)
            except FileNotFoundError:  # evicted meanwhile
                continue
            except (Damaged, OSError) as error:
                reason = (isinstance(error, OSError) and error.strerror) or str(error)
                findings.append(
                    Finding(folder.path_of(name), reason, folder.remove(name) if remove else None)
                )
            else:
                intact += 1
        for folder, name, reason in _unusable_folders(root):
            findings.append(Finding(folder.path_of(name), reason, folder.remove(name) if remove else None))
    return intact, sorted(findings)


def exported(store: Store) -> tuple[bytes, int]:
    """A pack of all entries of a store that are of use elsewhere, results of the tuner included, and how many these are."""
    parts = []
    with open_folder(store.root) as root:
        secret = read_key(root)
        for shard in store.shards():
            for entry in entries_of(shard):
                if entry.is_partial:
                    continue
                try:
                    kind, _, _ = read_head(shard.read_start(entry.name, HEAD_BYTES))
                    if kind not in KINDS or kind in _OF_ONE_MACHINE:
                        continue
                    kind, payload = unpack(secret, shard.read(entry.name, MAX_ENTRY_BYTES), entry.key)
                except (OSError, Damaged):
                    continue
                parts.append(Part(f"cache/{entry.name}", "cache", payload, {"kind": kind}))
    return pack_bytes(parts, {"cache": 1}), len(parts)


def remove_own_files(store: Store) -> None:
    """Remove the parser's tables and the secret, which lie beside the entries."""
    with suppress(OSError), open_folder(store.root) as root:
        for name, _ in root.scan():
            if _TABLES.fullmatch(name) or _KEY.fullmatch(name):
                root.remove(name)


def _files(store: Store, root: Folder) -> Iterator[tuple[Folder, str, bytes]]:
    """Each file that is sealed: the open folder that it is in, its name, and its key."""
    for name, _ in root.scan():
        tables = _TABLES.fullmatch(name)
        if tables and not tables[2]:
            yield root, name, bytes.fromhex(tables[1])
    for shard in store.shards():
        for entry in entries_of(shard):
            if not entry.is_partial:
                yield shard, entry.name, entry.key


def _unusable_folders(root: Folder) -> Iterator[tuple[Folder, str, str]]:
    """Folders of entries that cannot be used, and the reasons: a link, a file, others' permission to write."""
    yield from _unusable(root, (LAYOUT,))
    with suppress(OSError), root.child(LAYOUT) as layout:
        yield from _unusable(layout, SHARDS)


def _unusable(folder: Folder, names: Collection[str]) -> Iterator[tuple[Folder, str, str]]:
    for name, status in folder.scan():
        if name in names:
            try:
                with folder.child(name):
                    pass
            except FileNotFoundError:  # cleared meanwhile
                continue
            except OSError as error:
                is_folder = stat.S_ISDIR(status.st_mode)
                reason = (
                    (error.strerror or str(error))
                    if is_folder
                    else "it is no folder, so it can hold no entries"
                )
                yield folder, name, reason
