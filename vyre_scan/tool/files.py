"""The files that vyre-scan reads: names and folders on the command line, as grep takes them, read part by part."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from io import FileIO

__all__ = ["STDIN", "Unreadable", "files_of", "open_parts"]

PART = 1 << 23
"""Bytes that are read at once; a pipe gives less."""
PIPE = 1 << 20
"""Bytes that a pipe may hold, and so give at once: as many as Linux lets any user have.  At first there are 64 KiB, and what a
part costs in itself is more than the search in so few."""

STDIN = "-"


class Unreadable(Exception):
    """A file or folder that cannot be read; the message names it."""


def files_of(paths: Sequence[str], recursive: bool, report: Callable[[str], None]) -> Iterator[str]:
    """The paths of the files: what is named, and with `recursive` what is in named folders, in the order of names.

    No paths stand for the current folder, whose files are named without it.

    As for grep, links in folders are not followed, and devices and pipes in them are left out.  `report` gets a
    message for each folder that is not searched.
    """
    if not paths:
        yield from _walk("", report)
    for path in paths:
        if path == STDIN or not os.path.isdir(path):
            yield path
        elif not recursive:
            report(f"{path} is a folder: -r searches the files in it")
        else:
            yield from _walk(path, report)


def _walk(folder: str, report: Callable[[str], None]) -> Iterator[str]:
    folders = [folder]
    while folders:
        path = folders.pop()
        try:
            with os.scandir(path or None) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError as error:
            report(f"cannot read {path or os.curdir}: {error.strerror}")
            continue
        folders += [_path(path, entry) for entry in reversed(entries) if entry.is_dir(follow_symlinks=False)]
        yield from (_path(path, entry) for entry in entries if entry.is_file(follow_symlinks=False))


def _path(folder: str, entry: os.DirEntry[str]) -> str:
    return os.path.join(folder, entry.name)


def open_parts(path: str, *, is_listing: bool) -> Iterator[memoryview]:
    """The parts of a file, each valid until the next one is asked for.  Raises Unreadable.

    It is read, not mapped: a file that is truncated meanwhile just ends.  `is_listing`: stdout gets no matches, so it may
    be the file itself.
    """
    try:
        with _opened(path) as file:
            status = os.fstat(file.fileno())
            if not is_listing and _is_stdout(status):
                raise Unreadable(f"cannot read {path}: the output goes there")
            if stat.S_ISFIFO(status.st_mode):
                _enlarge(file)
            size = status.st_size + 1 if stat.S_ISREG(status.st_mode) and status.st_size else PART
            buffer = memoryview(bytearray(min(size, PART)))
            while count := file.readinto(buffer):
                yield buffer[:count]
    except OSError as error:
        name = path or "''"
        raise Unreadable(f"cannot read {name}: {error.strerror}") from None
    except ValueError:
        raise Unreadable(f"cannot read {path!r}: a file name holds no NUL") from None


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


def _is_stdout(status: os.stat_result) -> bool:
    """Whether a file is a regular one that stdout writes to: its matches would be found again, without end."""
    if not stat.S_ISREG(status.st_mode) or sys.stdout is None:
        return False
    try:
        mine = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):
        return False
    return (mine.st_dev, mine.st_ino) == (status.st_dev, status.st_ino)
