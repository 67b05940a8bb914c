"""Documents of a file, read part by part: its bytes, and with -z its uncompressed bytes, and the members of an archive."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from io import FileIO
from typing import Any

from .walk import STDIN

__all__ = ["SMALL", "Unreadable", "documents_of", "open_parts", "output_file", "read_small"]

PART = 1 << 23
"""Bytes that are read at once; a pipe gives less."""
PIPE = 1 << 20
"""Bytes that a pipe may hold, and so give at once: as many as Linux lets any user have.  At first there are 64 KiB, and what a
part costs in itself is more than the search in so few."""
SMALL = 1 << 20
"""Bytes of a file that is read at once, and searched together with others."""

COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\0": "lzma"}
"""The modules that read files which begin so."""
ARCHIVE = b"PK\x03\x04"


class Unreadable(Exception):
    """A file or folder that cannot be read; the message names it."""


def read_small(path: str, output: tuple[int, int] | None) -> bytes | None:
    """All bytes of a small regular file; None for a larger one, for other files, and for the output, which are read in parts.

    `output`: as of output_file.  Raises Unreadable.
    """
    if path == STDIN:
        return None
    with _translated(path):
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(number)
            is_small = stat.S_ISREG(status.st_mode) and status.st_size < SMALL
            if not is_small or (status.st_dev, status.st_ino) == output:
                return None
            content = os.read(number, SMALL)
            return content if len(content) < SMALL else None
        finally:
            os.close(number)


def documents_of(path: str, content: bytes | None) -> Iterator[tuple[str, Iterator[Any]]] | None:
    """The names and the parts of what a compressed file or an archive holds, by its first bytes; None for another file.

    `content`: of the file, where that is known.  Raises Unreadable.
    """
    if content is None:
        with _translated(path), open(path, "rb", buffering=0) as file:
            content = file.read(8)
    if content.startswith(ARCHIVE):
        return _members(path)
    for magic, module in COMPRESSED.items():
        if content.startswith(magic):
            return iter([(path, _parts_of(path, partial(import_module(module).open, path)))])
    return None


def _members(path: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    from zipfile import ZipFile

    with _translated(path), ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                name = f"{path}/{member.filename}"
                yield name, _parts_of(name, partial(archive.open, member))


def _parts_of(name: str, open_file: Callable[[], Any]) -> Iterator[bytes]:
    with _translated(name), open_file() as file:
        while part := file.read(PART):
            yield part


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Have errors of reading and of decompression raised as Unreadable."""
    try:
        yield
    except OSError as error:
        raise Unreadable(f"cannot read {name or repr(name)}: {error.strerror or error}") from None
    except ValueError as error:
        reason = "a file name holds no NUL" if "\0" in name else error
        raise Unreadable(f"cannot read {name!r}: {reason}") from None
    except (Unreadable, RecursionError):
        raise
    except Exception as error:
        import zlib
        from lzma import LZMAError
        from zipfile import BadZipFile

        if not isinstance(error, (EOFError, LZMAError, BadZipFile, zlib.error, RuntimeError)):
            raise
        raise Unreadable(f"cannot read {name}: {str(error) or type(error).__name__}") from None


def open_parts(path: str, output: tuple[int, int] | None) -> Iterator[memoryview]:
    """The parts of a file, each valid until the next one is asked for.  Raises Unreadable.

    It is read, not mapped: a file that is truncated meanwhile just ends.
    """
    with _translated(path), _opened(path) as file:
        status = os.fstat(file.fileno())
        if (status.st_dev, status.st_ino) == output:
            raise Unreadable(f"cannot read {path}: the output goes there")
        if stat.S_ISFIFO(status.st_mode):
            _enlarge(file)
        size = status.st_size + 1 if stat.S_ISREG(status.st_mode) and status.st_size else PART
        buffer = memoryview(bytearray(min(size, PART)))
        while count := file.readinto(buffer):
            yield buffer[:count]


def _opened(path: str) -> FileIO:
    if path != STDIN:
        return FileIO(path)
    if sys.stdin is None:
        raise OSError(errno.EBADF, "stdin is closed")
    return FileIO(sys.stdin.fileno(), closefd=False)


def _enlarge(pipe: FileIO) -> None:
    """Let a pipe hold PIPE bytes, where the system can do that."""
    try:
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE)
    except (ImportError, AttributeError, OSError):  # no Linux, or less is allowed
        pass


def output_file() -> tuple[int, int] | None:
    """The device and number of the regular file that stdout writes to: its matches would be found again, without end."""
    if sys.stdout is None:
        return None
    try:
        status = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
