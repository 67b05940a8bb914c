"""Faults of a cache folder: what may happen to its files, and to the calls that read and write them."""

from __future__ import annotations

import errno
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = [
    "FILE_FAULTS",
    "SYSTEM_CALLS",
    "SYSTEM_ERRORS",
    "FailingSystem",
    "fail_with",
    "files_of",
    "folders_of",
]

SYSTEM_CALLS = frozenset(
    "open read write replace link unlink mkdir chmod fchmod rmdir lstat fstat scandir utime".split()
)


class FailingSystem:
    """Stands for the module os: its calls of the file system fail from the `first`-th on, counted from 0.

    `fail` is called instead, and then the call goes on unless it raised.  `last`: the number of the last such call,
    `first` if None; `names`: of the calls that count.
    """

    def __init__(
        self,
        first: int,
        fail: Callable[[], None],
        last: float | None = None,
        names: frozenset[str] = SYSTEM_CALLS,
    ) -> None:
        self.first, self.last = first, first if last is None else last
        self.fail, self.names = fail, names
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        value = getattr(os, name)
        if name not in self.names:
            return value

        def call(*args: Any, **more: Any) -> Any:
            number = self.count
            self.count += 1
            if self.first <= number <= self.last:
                self.fail()
            return value(*args, **more)

        return call


def fail_with(number: int) -> Callable[[], None]:
    """A function that raises the system's error of a number."""

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


def files_of(root: Path) -> list[Path]:
    """Every file of a cache folder: entries, tables and the key, in order."""
    return sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def folders_of(root: Path) -> list[Path]:
    """The cache folder and those in it, in order."""
    return sorted((root, *(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())))


# --- faults: each changes one place below `root`; `outside` is a folder of files that nobody may touch

Fault = Callable[[Path, Path, random.Random], None]


def _flip(root: Path, outside: Path, rng: random.Random) -> None:
    path = rng.choice(files_of(root))
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def _overwrite(root: Path, outside: Path, rng: random.Random) -> None:
    path = rng.choice(files_of(root))
    content = bytearray(path.read_bytes())
    start = rng.randrange(len(content))
    run = rng.randbytes(rng.randrange(1, 64))
    path.write_bytes((content[:start] + run + content[start + len(run) :])[: len(content)])


def _cut(root: Path, outside: Path, rng: random.Random) -> None:
    path = rng.choice(files_of(root))
    os.truncate(path, rng.randrange(path.stat().st_size))


def _empty(root: Path, outside: Path, rng: random.Random) -> None:
    os.truncate(rng.choice(files_of(root)), 0)


def _lengthen(root: Path, outside: Path, rng: random.Random) -> None:
    path = rng.choice(files_of(root))
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randrange(1, 100)))


def _grow_sparse(root: Path, outside: Path, rng: random.Random) -> None:
    os.truncate(rng.choice(files_of(root)), 1 << 40)


def _swap(root: Path, outside: Path, rng: random.Random) -> None:
    one, other = rng.sample(files_of(root), 2)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def _copy_over(root: Path, outside: Path, rng: random.Random) -> None:
    one, other = rng.sample(files_of(root), 2)
    shutil.copyfile(one, other)


def _remove(root: Path, outside: Path, rng: random.Random) -> None:
    rng.choice(files_of(root)).unlink()


def _remove_folder(root: Path, outside: Path, rng: random.Random) -> None:
    shutil.rmtree(rng.choice(folders_of(root)))


def _open_file(root: Path, outside: Path, rng: random.Random) -> None:
    rng.choice(files_of(root)).chmod(rng.choice((0o666, 0o620, 0o602, 0o777)))


def _open_folder(root: Path, outside: Path, rng: random.Random) -> None:
    rng.choice(folders_of(root)).chmod(rng.choice((0o777, 0o770, 0o703, 0o1777)))


def _close_file(root: Path, outside: Path, rng: random.Random) -> None:
    rng.choice(files_of(root)).chmod(rng.choice((0o000, 0o400, 0o200)))


def _close_folder(root: Path, outside: Path, rng: random.Random) -> None:
    rng.choice(folders_of(root)).chmod(0o500)


def _give_away(root: Path, outside: Path, rng: random.Random) -> None:
    if os.geteuid() == 0:  # nobody else can
        os.chown(rng.choice((*files_of(root), *folders_of(root))), 65534, 65534)


def _link_file(root: Path, outside: Path, rng: random.Random) -> None:
    path = rng.choice(files_of(root))
    shutil.copyfile(path, outside / path.name)
    path.unlink()
    path.symlink_to(outside / path.name)


def _link_to_zero(root: Path, outside: Path, rng: random.Random) -> None:
    path = rng.choice(files_of(root))
    path.unlink()
    path.symlink_to(rng.choice(("/dev/zero", "/dev/null", "/dev/tty", path.name, "nowhere")))


def _link_folder(root: Path, outside: Path, rng: random.Random) -> None:
    path = rng.choice([folder for folder in folders_of(root) if folder != root])
    shutil.move(path, outside / "linked")
    path.symlink_to(outside / "linked")


def _fifo(root: Path, outside: Path, rng: random.Random) -> None:
    path = rng.choice(files_of(root))
    path.unlink()
    os.mkfifo(path)


def _socket(root: Path, outside: Path, rng: random.Random) -> None:
    path = rng.choice(files_of(root))
    path.unlink()
    os.chdir(path.parent)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s")
    os.rename("s", path)


def _folder_for_file(root: Path, outside: Path, rng: random.Random) -> None:
    path = rng.choice(files_of(root))
    path.unlink()
    path.mkdir()
    (path / "inside").write_bytes(b"")


def _file_for_folder(root: Path, outside: Path, rng: random.Random) -> None:
    path = rng.choice(folders_of(root))
    shutil.rmtree(path)
    path.write_bytes(rng.randbytes(rng.randrange(100)))


FILE_FAULTS: dict[str, Fault] = {
    "a byte is flipped": _flip,
    "bytes are overwritten": _overwrite,
    "cut": _cut,
    "emptied": _empty,
    "lengthened": _lengthen,
    "sparse, 1 TiB": _grow_sparse,
    "two are swapped": _swap,
    "one in place of another": _copy_over,
    "removed": _remove,
    "a folder is removed": _remove_folder,
    "others may write to a file": _open_file,
    "others may write to a folder": _open_folder,
    "nobody may read a file": _close_file,
    "nobody may write to a folder": _close_folder,
    "another user's": _give_away,
    "a link to a file outside": _link_file,
    "a link to a device, to itself or to nothing": _link_to_zero,
    "a link to a folder outside": _link_folder,
    "a FIFO": _fifo,
    "a socket": _socket,
    "a folder in place of a file": _folder_for_file,
    "a file in place of a folder": _file_for_folder,
}

SYSTEM_ERRORS = (
    errno.ENOSPC,
    errno.EIO,
    errno.EACCES,
    errno.EROFS,
    errno.EMFILE,
    errno.EDQUOT,
    errno.ENOENT,
    errno.ESTALE,
)
