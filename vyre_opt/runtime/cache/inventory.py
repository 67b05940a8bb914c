"""Statistics and integrity checks of a store, for the command line."""

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
    """The number of entries and their bytes, in all and by kind.  `tables`: the number of files of parser tables."""

    count: int = 0
    size: int = 0
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    tables: int = 0


def survey(store: Store) -> Survey:
    """Count the entries of a store; files that are no entries count as kind `other`."""
    totals = Survey(tables=sum(1 for _ in _tables(store)))
    for entry in store.entries():
        kind = "other"
        with suppress(OSError, Damaged), open(entry.path, "rb") as file:
            head = read_head(file.read(HEAD_BYTES))
            if head.kind in KINDS and not entry.is_partial:
                kind = head.kind
        count, size = totals.kinds.get(kind, (0, 0))
        totals.kinds[kind] = (count + 1, size + entry.size)
        totals.count += 1
        totals.size += entry.size
    totals.kinds = dict(sorted(totals.kinds.items()))
    return totals


def check(store: Store) -> tuple[int, list[tuple[str, str]]]:
    """The number of intact entries; path and reason for each damaged one.  Partial files count as neither."""
    intact = 0
    damaged = []
    for entry in store.entries():
        if entry.is_partial:
            continue
        try:
            unpack(entry.path.read_bytes(), entry.key)
        except FileNotFoundError:  # evicted meanwhile
            continue
        except (Damaged, OSError) as error:
            damaged.append((str(entry.path), str(error)))
        else:
            intact += 1
    return intact, sorted(damaged)


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
