"""What a store holds: for people who ask, not for those who compile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .entry import HEAD_BYTES, KINDS, Damaged, read_head, unpack
from .store import Store

__all__ = ["Survey", "check", "remove_tables", "survey"]

_TABLES = re.compile(r"grammar-[0-9a-f]{32}(\.json|\.[0-9]+\.partial)")


@dataclass(slots=True)
class Survey:
    """Entries and bytes in all and by kind; `tables`: files of parser tables beside them."""

    count: int = 0
    size: int = 0
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    tables: int = 0


def survey(store: Store) -> Survey:
    """Count what is there; what cannot be read as an entry is of the kind `other`."""
    found = Survey(tables=sum(1 for _ in _tables(store)))
    for entry in store.entries():
        kind = "other"
        with suppress(OSError, Damaged), open(entry.path, "rb") as file:
            said = read_head(file.read(HEAD_BYTES)).kind
            if said in KINDS and not entry.is_partial:
                kind = said
        count, size = found.kinds.get(kind, (0, 0))
        found.kinds[kind] = (count + 1, size + entry.size)
        found.count += 1
        found.size += entry.size
    found.kinds = dict(sorted(found.kinds.items()))
    return found


def check(store: Store) -> tuple[int, list[tuple[str, str]]]:
    """How many entries are whole; path and reason of the others.  Partial files are neither."""
    whole = 0
    damaged = []
    for entry in store.entries():
        if entry.is_partial:
            continue
        try:
            unpack(entry.path.read_bytes(), entry.key)
        except FileNotFoundError:  # evicted meanwhile
            continue
        except (Damaged, OSError) as wrong:
            damaged.append((str(entry.path), str(wrong)))
        else:
            whole += 1
    return whole, sorted(damaged)


def remove_tables(store: Store) -> None:
    """Remove the parser's tables."""
    for path in _tables(store):
        with suppress(OSError):
            path.unlink()


def _tables(store: Store) -> Iterator[Path]:
    with suppress(OSError):
        for path in store.folder.parent.iterdir():
            if _TABLES.fullmatch(path.name):
                yield path
