"""Folders and files that nobody but this user and root could have written.

What the cache holds is run as code.  So a folder is used only if

    it belongs to this user or to root, and neither its group nor others may write to it;
    the same holds for each folder above it, but that others may write to one with the sticky bit (/tmp),
    where they cannot replace what is not theirs.

Each file must belong to one of the two and be writable by nobody else, too.  Folders stay open while they are
used and files are opened relative to them, never through a link, so what was checked is what is used.
Windows has no such modes: there its access control lists are relied on, and nothing is checked.
"""

from __future__ import annotations

import errno
import os
import stat
from types import TracebackType

__all__ = ["PARTIAL", "Folder", "Irregular", "Unsafe", "check_folder", "open_folder"]

PARTIAL = ".partial"
"""The suffix of a file that is being written, or whose writer died: NAME.<12 hex digits>.partial."""

_IS_POSIX = os.name == "posix"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MAX_LINKS = 40

# A flag is 0 where the system has none.  NONBLOCK: to open a FIFO would wait for its writer.
_CLOSE = getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | _CLOSE | _NO_LINK | getattr(os, "O_DIRECTORY", 0)
_READ = os.O_RDONLY | _CLOSE | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOSE | _NO_LINK | getattr(os, "O_BINARY", 0)


class Unsafe(OSError):
    """Somebody else may have written it, or may replace it; the message says who, and what to do."""


class Irregular(OSError):
    """Error for a name of a file that is no regular file, or of one that is too large."""


class Folder:
    """An open folder.  Names are those of its own files: no paths, and no links are followed.

    `fd` is None on Windows, and for a folder that nobody has checked: `path` is used instead.  Every method may raise
    OSError.
    """

    __slots__ = ("fd", "path")

    def __init__(self, path: str, fd: int | None) -> None:
        self.path = path
        self.fd = fd

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.fd is not None:
            os.close(self.fd)

    def child(self, name: str, create: bool = False) -> Folder:
        """A folder in this one, open.  Raises Unsafe."""
        path, at = self.path_of(name), self._at(name)
        try:
            return _open(path, at, self.fd)
        except FileNotFoundError:
            if not create:
                raise
            _make(at, self.fd)
            return _open(path, at, self.fd)

    def path_of(self, name: str) -> str:
        return os.path.join(self.path, name)

    def read(self, name: str, most: int) -> bytes:
        """The contents of a file of at most `most` bytes.  Raises Irregular for any other, and Unsafe."""
        fd, size = self._open_file(name)
        try:
            if size > most:
                raise Irregular(f"it has {size} bytes, more than {most}")
            return _read(fd, size)
        finally:
            os.close(fd)

    def read_start(self, name: str, count: int) -> bytes:
        """The first `count` bytes of a file, or all if it has fewer.  Raises Irregular and Unsafe."""
        fd, _ = self._open_file(name)
        try:
            return _read(fd, count)
        finally:
            os.close(fd)

    def replace(self, name: str, content: bytes) -> None:
        """Write a file, so that readers see the old one or the whole new one."""
        partial = self._write_partial(name, content)
        try:
            os.replace(self._at(partial), self._at(name), src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except OSError:
            self.remove(partial)
            raise

    def create(self, name: str, content: bytes) -> None:
        """Write a file that readers see whole or not at all; FileExistsError if another process was first."""
        partial = self._write_partial(name, content)
        try:
            os.link(self._at(partial), self._at(name), src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links; there the last process wins
            os.replace(self._at(partial), self._at(name), src_dir_fd=self.fd, dst_dir_fd=self.fd)
        finally:
            self.remove(partial)

    def remove(self, name: str) -> bool:
        """Remove a file, or a link itself; whether that was possible."""
        try:
            os.unlink(self._at(name), dir_fd=self.fd)
        except OSError:
            return False
        return True

    def remove_folder(self, name: str) -> bool:
        """Remove a folder that is empty; whether that was possible."""
        try:
            os.rmdir(self._at(name), dir_fd=self.fd)
        except OSError:
            return False
        return True

    def touch(self, name: str) -> None:
        """Set the time of a file to now."""
        if self.fd is None:
            os.utime(self._at(name))
        else:
            os.utime(name, dir_fd=self.fd, follow_symlinks=False)

    def scan(self) -> list[tuple[str, os.stat_result]]:
        """Names in the folder and what they are; a link is a link."""
        items = []
        with os.scandir(self.path if self.fd is None else self.fd) as entries:
            for entry in entries:
                try:
                    items.append((entry.name, entry.stat(follow_symlinks=False)))
                except FileNotFoundError:  # another process has removed it
                    continue
        return items

    def _at(self, name: str) -> str:
        return name if self.fd is not None else self.path_of(name)

    def _open_file(self, name: str) -> tuple[int, int]:
        """A descriptor of a regular file, and its size."""
        if not _NO_LINK and os.path.islink(self._at(name)):
            raise Irregular("it is a link, no file")
        try:
            fd = os.open(self._at(name), _READ, dir_fd=self.fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):  # as FreeBSD calls it
                raise Irregular("it is a link, no file") from None
            raise
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise Irregular("it is no file")
            _check_own(self.path_of(name), status)
        except OSError:
            os.close(fd)
            raise
        return fd, status.st_size

    def _write_partial(self, name: str, content: bytes) -> str:
        """Write a new file of mode 0600; its name.  A full disk raises OSError here, and leaves nothing."""
        partial = f"{name}.{os.urandom(6).hex()}{PARTIAL}"
        fd = os.open(self._at(partial), _WRITE, 0o600, dir_fd=self.fd)
        try:
            try:
                if _IS_POSIX:
                    os.fchmod(fd, 0o600)  # the umask may have taken the user's own bits
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(fd, rest) :]
            finally:
                os.close(fd)
        except BaseException:
            self.remove(partial)
            raise
        return partial


def open_folder(path: str | os.PathLike[str], create: bool = False) -> Folder:
    """A folder by its absolute path, which may go through links.  Raises OSError, Unsafe among them.

    `create`: make it, and the folders above it, if they are missing.
    """
    name = os.fspath(path)
    if not _IS_POSIX:
        if create:
            os.makedirs(name, exist_ok=True)
        return _open(name, name, None)
    return _open(name, _walk(name, create), None)


def check_folder(path: str) -> None:
    """Check that nobody else can replace what this user writes to a folder, such as /tmp, by its absolute path.

    Raises OSError, Unsafe among them.
    """
    if _IS_POSIX:
        _walk(path, create=False)


def _walk(path: str, create: bool) -> str:
    """The path without links.  Checks it, each folder above it, and each that a link on the way lies in."""
    at, links = "/", 0
    parts = _parts(path)
    status = os.lstat(at)
    # Whoever owns the root may replace anything.  In a sandbox that maps user ids it is not 0.
    trusted = {0, os.geteuid(), status.st_uid}
    while True:
        _check_parent(at, status, trusted)
        if not parts:
            return at
        part = parts.pop()
        if part == "..":
            at = os.path.dirname(at)
            status = os.lstat(at)
            continue
        inside = os.path.join(at, part)
        try:
            status = os.lstat(inside)
        except FileNotFoundError:
            if not create:
                raise
            _make(inside)
            status = os.lstat(inside)
        if not stat.S_ISLNK(status.st_mode):
            at = inside
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if status.st_uid not in trusted:
            raise _belongs(inside, status)
        target = os.readlink(inside)
        at = "/" if target.startswith("/") else at
        status = os.lstat(at)
        parts += _parts(target)


def _parts(path: str) -> list[str]:
    """The names in a path, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _make(path: str, parent: int | None = None) -> None:
    """Make a folder for this user alone, unless another process was first."""
    try:
        os.mkdir(path, 0o700, dir_fd=parent)
    except FileExistsError:
        return
    if _IS_POSIX:
        os.chmod(path, 0o700, dir_fd=parent)  # the umask may have taken the user's own bits


def _open(path: str, name: str, parent: int | None) -> Folder:
    """The folder `name` of an open one, or by its path; `path` is for messages, and for Windows."""
    if not _IS_POSIX:
        if not stat.S_ISDIR(os.lstat(name).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return Folder(path, None)
    fd = os.open(name, _FOLDER, dir_fd=parent)
    try:
        _check_own(path, os.fstat(fd))
    except OSError:
        os.close(fd)
        raise
    return Folder(path, fd)


def _read(fd: int, count: int) -> bytes:
    """`count` bytes, or fewer where the file ends."""
    parts = []
    while count and (part := os.read(fd, count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _check_own(path: str, status: os.stat_result) -> None:
    """Check the cache's own folders and files.  Raises Unsafe."""
    if not _IS_POSIX:
        return
    if status.st_uid not in (0, os.geteuid()):
        raise _belongs(path, status)
    if status.st_mode & _OTHERS_WRITE:
        raise _writable(path, status)


def _check_parent(path: str, status: os.stat_result, trusted: set[int]) -> None:
    """Check a folder on the way to the cache's, or for files that others may read.  Raises Unsafe."""
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if status.st_uid not in trusted:
        raise _belongs(path, status)
    if status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX:
        raise _writable(path, status)


def _belongs(path: str, status: os.stat_result) -> Unsafe:
    return Unsafe(
        f"{path} belongs to user {status.st_uid}, and this is user {os.geteuid()}; "
        "set VYRE_CACHE_DIR to a folder of your own"
    )


def _writable(path: str, status: os.stat_result) -> Unsafe:
    mode = stat.S_IMODE(status.st_mode)
    return Unsafe(
        f"others may write to {path} (mode {mode:04o}); take that from them (chmod go-w), "
        "or set VYRE_CACHE_DIR to a folder of your own"
    )
