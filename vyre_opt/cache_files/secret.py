"""The key of a cache folder: 32 random bytes, without which no file in it can be made that is believed.

It lies in the folder, in a file for this user alone; the first process that writes there makes it.  A file that
got there in another way, from another folder or an older backup, is sealed with another key, and is a miss.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from .folder import Folder, Irregular, Unsafe, open_folder

__all__ = ["KEY_FILE", "open_cache", "read_key"]

KEY_FILE = "vyre-cache.key"
KEY_BYTES = 32

_has_warned = False


@contextmanager
def open_cache(path: str | os.PathLike[str], create: bool = False) -> Iterator[tuple[Folder, bytes]]:
    """The folder and its key; `create`: make what is missing.  Raises OSError where that is not possible.

    The first Unsafe in a process, here or inside of the `with`, is a warning as well.
    """
    what = "nothing is cached"
    try:
        with open_folder(path, create) as folder:
            key = read_key(folder, create)
            what = "an entry of the cache is not used, and made anew"
            yield folder, key
    except Unsafe as unsafe:
        _warn(what, unsafe)
        raise


def read_key(folder: Folder, create: bool = False) -> bytes:
    """The key of a folder.  Raises OSError if there is none, or none that is whole.

    `create`: make one then.  Of two processes that do so both get the same.
    """
    try:
        key = folder.read(KEY_FILE, KEY_BYTES)
        if len(key) == KEY_BYTES:
            return key
        raise Irregular(f"{folder.path_of(KEY_FILE)} is not {KEY_BYTES} bytes")
    except FileNotFoundError:
        if not create:
            raise
        try:
            folder.create(KEY_FILE, os.urandom(KEY_BYTES))
        except FileExistsError:
            pass
    except Irregular:
        if not create:
            raise
        folder.replace(KEY_FILE, os.urandom(KEY_BYTES))
    return read_key(folder)


def _warn(what: str, unsafe: Unsafe) -> None:
    global _has_warned
    if not _has_warned:
        import warnings

        _has_warned = True
        warnings.warn(f"{what}: {unsafe}", stacklevel=2)
