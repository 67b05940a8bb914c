"""Files searched in pieces, here or by the workers of a Dask cluster.

A piece is read from some bytes before its first one on, as many as a match may have, and shows the matches that end in it; so
each match is found once, whichever worker has the piece, and a piece that is searched again gives the same.  Files are cut
where that can be done:

    bytes, and strict encoded text               into pieces, if all patterns are literals
    text with blanks, and regular expressions    not at all: a stream goes through the file
"""

from __future__ import annotations

import errno
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_opt.execution.dispatcher import BadInputs
from vyre_opt.execution.processors import available
from vyre_opt.records import dataclass

from .errors import EncodingError
from .matches import Matches

if TYPE_CHECKING:
    import pyarrow

__all__ = ["scan_files"]

PIECE = 1 << 26
READ = 1 << 24
"""Bytes of a piece, and of one read."""

GPU_RESOURCE = "GPU"
"""The resource that a worker with a GPU of its own is started with, as Dask's documents name it."""

BATCH = 256
"""Results that are fetched at once: one by one they take twice as long."""

Errors = MutableMapping[str, Exception]


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes from `start` up to `end` of a file; `end` is None for all that there are, `length` at least."""

    path: str
    length: int
    start: int = 0
    end: int | None = None


def scan_files(
    scanner: Any, paths: Iterable[str | os.PathLike[str]], client: Any, errors: Errors | None, piece: int
) -> dict[str, pyarrow.Table]:
    """See Scanner.scan_files; `scanner`: one, whose file imports this one."""
    if client is not None and not hasattr(client, "scatter"):
        raise BadInputs(f"client is a distributed.Client, or None, not {type(client).__name__}")
    if errors is not None and not isinstance(errors, MutableMapping):
        raise BadInputs(f"errors is a dict, or None, not {type(errors).__name__}")
    tables: dict[str, list[pyarrow.Table]] = {name: [] for name in _names(paths)}
    import pyarrow

    failures: Errors = {}
    pieces = [part for name in tables for part in _pieces(scanner, name, piece, failures)]
    here = ((piece, _scan_piece(scanner, piece, None)) for piece in pieces)
    for part, result in here if client is None else _on_workers(scanner, pieces, client):
        if isinstance(result, Exception):
            failures.setdefault(part.path, result)
        else:
            tables[part.path].append(result)
    if errors is None and failures:
        raise next(failures[name] for name in tables if name in failures)
    if errors is not None:
        errors.update(failures)
    return {name: pyarrow.concat_tables(parts) for name, parts in tables.items() if name not in failures}


def _names(paths: Any) -> Iterator[str]:
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise BadInputs("paths is a list of paths, not one; write [path]")
    if not isinstance(paths, Iterable):
        raise BadInputs(f"paths is a list of paths, not {type(paths).__name__}")
    for number, path in enumerate(paths):
        if not isinstance(path, (str, os.PathLike)):
            raise BadInputs(f"path {number} is a str or a Path, not {type(path).__name__}")
        yield os.fspath(path)


def _pieces(scanner: Any, path: str, size: int, failures: Errors) -> list[Piece]:
    """The pieces of a file in the order of their places.  An error of a missing file goes to `failures`."""
    try:
        length = os.stat(path).st_size
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
    except OSError as error:
        failures[path] = error
        return []
    is_plain = scanner.encoding is None or scanner.strict
    if scanner._tables.expressions or not is_plain:
        return [Piece(path, length)]
    # of encoded text, whole groups of characters
    size = max(1 << 10, size) // 24 * 24
    starts = range(0, max(length, 1), size)
    return [Piece(path, length, start, start + size if start + size < length else None) for start in starts]


Result = Any
"""A table, or the exception in its place."""


def _on_workers(scanner: Any, pieces: list[Piece], client: Any) -> Iterator[tuple[Piece, Result]]:
    """Results in the order of the pieces.  Dask runs those of a worker that died again."""
    scanner_there = client.scatter(scanner, broadcast=True, hash=False)
    busy = Counter[str]()
    for worker in client.scheduler_info()["workers"].values():
        busy[worker["host"]] += worker["nthreads"]
    futures = client.map(
        _scan_piece, [scanner_there] * len(pieces), pieces, [dict(busy)] * len(pieces), pure=False, retries=2
    )
    try:
        for first in range(0, len(pieces), BATCH):
            batch = futures[first : first + BATCH]
            yield from zip(pieces[first : first + BATCH], client.gather(batch), strict=True)
            for future in batch:
                future.release()
    finally:
        client.cancel(futures)


def _scan_piece(scanner: Any, piece: Piece, busy: dict[str, int] | None) -> Result:
    """A table, or the exception that a file's content or its reading raises.

    `busy`: by host, how many tasks its workers run at once; the cores are shared among them.
    """
    if busy is not None:
        scanner = _for_worker(scanner, busy)
    try:
        return _table(_scanned(scanner, piece), scanner.encoding is not None)
    except EncodingError as error:
        return EncodingError(f"{piece.path}: {error.message}", error.place, error.advice)
    except OSError as error:
        error.filename = error.filename or piece.path
        return error
    except ValueError as error:
        return error


def _for_worker(scanner: Any, busy: dict[str, int]) -> Any:
    """The scanner for a task of this worker: with its share of the cores, and with its GPU if it says that it has one."""
    from distributed import get_worker

    worker = get_worker()
    address = worker.address.rpartition("://")[2].rpartition(":")[0]
    scanner = scanner.with_threads(max(1, available() // max(1, busy.get(address, 1))))
    has_gpu = worker.state.total_resources.get(GPU_RESOURCE, 0) > 0
    return scanner.with_target("cuda") if has_gpu and scanner.target is None else scanner


def _scanned(scanner: Any, piece: Piece) -> Matches:
    # whole groups, so that the text before can be decoded
    begin = max(0, piece.start - scanner._encoding.characters_of(scanner._tables.reach))
    with Path(piece.path).open("rb", buffering=0) as file:
        file.seek(begin)
        before = file.read(piece.start - begin)
        if len(before) < piece.start - begin:
            raise _shorter(piece)
        stream = scanner.stream()
        stream.begin(piece.start, np.frombuffer(before, np.uint8))
        parts = [stream.feed(chunk) for chunk in _chunks(file, piece)]
        if file.tell() < (piece.length if piece.end is None else piece.end):
            raise _shorter(piece)
        if piece.end is None:
            parts.append(stream.finish())
        else:
            stream.end_of_part()
    return Matches.joined(parts or [Matches.none()])


def _shorter(piece: Piece) -> OSError:
    return OSError(errno.EIO, "it has become shorter while it was searched", piece.path)


def _chunks(file: Any, piece: Piece) -> Iterator[np.ndarray]:
    """All in the same memory: new memory costs more than to read a file that is cached."""
    rest = sys.maxsize if piece.end is None else piece.end - piece.start
    memory = np.empty(min(READ, rest), np.uint8)
    while count := file.readinto(memory[:rest]):
        rest -= count
        yield memory[:count]


def _table(matches: Matches, is_encoded: bool) -> pyarrow.Table:
    import pyarrow

    table = matches.to_arrow()
    if is_encoded:
        for name, column in zip(("encoded_start", "encoded_end"), matches.encoded_spans(), strict=True):
            table = table.append_column(name, pyarrow.array(column))
    return table
