"""Plain arrays in a file: NumPy's npz, without pickles."""

from __future__ import annotations

import os
import zipfile
from os import PathLike
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

__all__ = ["read_arrays", "write_arrays"]

MOST_BYTES = 1 << 32
"""Of all arrays of a file together, as its directory says; what unpacks to more is refused."""


def write_arrays(path: str | PathLike[str], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """Write a file; what was there is replaced when all is written.  Raises OSError."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.{token_hex(4)}")
    save: Any = np.savez  # whose stub takes the arrays' names for its own arguments
    try:
        with partial.open("xb") as file:
            save(file, **arrays)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def read_arrays(path: str | PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a file.  Raises OSError, and ValueError for a file that holds none."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MOST_BYTES:
                raise ValueError(f"{path}: its arrays are larger than {MOST_BYTES} bytes")
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (zipfile.BadZipFile, EOFError, KeyError, NotImplementedError, RuntimeError, SyntaxError) as error:
        raise ValueError(f"{path}: no file of a scanner: {error}") from None
