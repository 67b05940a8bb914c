"""The file of recorded calls, what is compared, and what differs.

    {"calls": [{"call": {...}, "turns": [...], "varies": ["out"]}, ...]}

A file whose name ends in .gz is compressed.  `turns` has one turn where all three are equal.  `varies`: parts of the
turns that another machine or version of a library has otherwise, and which are not compared.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .calls import Call, kind_of
from .turns import SEEDS, Turn, results_of

__all__ = ["Entry", "differences", "make_entries", "read", "unmeant", "write"]

Entry = dict[str, Any]


def make_entries(calls: Sequence[Call], jobs: int, is_real: bool = False) -> list[Entry]:
    """Calls and what they give now, in their order."""
    turns = dict(results_of(calls, jobs, is_real))
    return [{"call": call, "turns": _joined(turns[number])} for number, call in enumerate(calls)]


def _joined(turns: list[Turn]) -> list[Turn]:
    """One turn for all, if they are equal."""
    return turns[:1] if len(turns) > 1 and all(turn == turns[0] for turn in turns) else turns


def _all(turns: list[Turn]) -> list[Turn]:
    return turns * len(SEEDS) if len(turns) == 1 else turns


def differences(old: Entry, new: Entry) -> dict[str, list[tuple[Any, Any]]]:
    """By the part of a turn: what it was and what it is, of each turn where it is compared and differs."""
    parts: dict[str, list[tuple[Any, Any]]] = {}
    before, now = _all(old["turns"]), _all(new["turns"])
    for one, other in zip(before, now, strict=False):
        for part in sorted({*one, *other} - {*old.get("varies", ())}):
            if one.get(part) != other.get(part):
                parts.setdefault(part, []).append((one.get(part), other.get(part)))
    return parts


def unmeant(entries: Iterable[Entry]) -> Counter[str]:
    """Errors that no `raise` of the package meant, by what is called, the place and the text: how often."""
    found: Counter[str] = Counter()
    for entry in entries:
        for turn in entry["turns"][:1]:
            if "inside" in turn:
                found[f"{kind_of(entry['call'])}: {turn['inside']}: {turn['error']}"] += 1
    return found


def write(path: Path, entries: Sequence[Entry]) -> None:
    lines = ",\n".join(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) for entry in entries)
    text = f'{{"calls": [\n{lines}\n]}}\n'.encode()
    path.write_bytes(gzip.compress(text, 9, mtime=0) if path.suffix == ".gz" else text)


def read(path: Path) -> list[Entry]:
    data = path.read_bytes()
    entries: list[Entry] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["calls"]
    return entries
