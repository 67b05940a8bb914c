"""Plain arrays in a file: NumPy's npz, without pickles, with a digest that tells whether the file is as it was written."""

from __future__ import annotations

import os
import stat
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["read_arrays", "write_arrays"]

MOST_BYTES = 1 << 32
"""Of all arrays of a file together, as its directory says; what unpacks to more is refused."""


def write_arrays(path: str | PathLike[str], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """Write a file; what was there is replaced when all is written.  Raises OSError."""
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        missing = "is a folder" if target.is_dir() else f"there is no folder {target.parent}"
        raise OSError(f"{target}: {missing}")
    partial = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
    save: Any = np.savez  # whose stub takes the arrays' names for its own arguments
    try:
        with partial.open("xb") as file:
            save(file, **arrays, digest=_digest(arrays))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def read_arrays(path: str | PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a file.  Raises OSError, and ValueError for a file that holds none."""
    path = Path(path)
    if not stat.S_ISREG(path.stat().st_mode):  # an archive is read from its end, which a device has not
        raise ValueError(f"{path}: no file of a scanner: it is no regular file")
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MOST_BYTES:
                raise ValueError(f"{path}: its arrays are larger than {MOST_BYTES} bytes")
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (zipfile.BadZipFile, EOFError, KeyError, NotImplementedError, RuntimeError, SyntaxError) as error:
        raise ValueError(f"{path}: no file of a scanner: {error}") from None
    digest = arrays.pop("digest", None)
    if digest is None or not np.array_equal(digest, _digest(arrays)):
        raise ValueError(f"{path}: no file of a scanner, or one that was changed")
    return arrays


def _digest(arrays: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """u8[32], of all names, types, shapes and contents."""
    from blake3 import blake3

    digest = blake3()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape};".encode())
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), np.uint8)
