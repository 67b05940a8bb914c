"""Files and streams read whole, up to a ceiling: a device or a pipe may never end."""

from __future__ import annotations

import errno
import io
import os
from typing import Protocol

__all__ = ["MOST_BYTES", "TooLarge", "read_file", "read_size", "read_stream"]

MOST_BYTES = 1 << 30
"""The ceiling where the caller has none of its own."""

PIECE = 1 << 20
"""Bytes that are read at once: between two pieces a signal's handler runs, and so --timeout ends a read."""


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class TooLarge(OSError):
    """An input has more bytes than its ceiling."""


class Stream(Protocol):
    """A binary stream: a file, or stdin."""

    def read(self, size: int, /) -> bytes | None: ...


def read_size(text: str) -> int:
    """Bytes: `1000000`, `64K`, `512M`, `2G`.  Raises ValueError."""
    digits, unit = text.strip().upper().removesuffix("B"), ""
    if digits[-1:] in ("K", "M", "G"):
        digits, unit = digits[:-1], digits[-1]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 16):
        raise ValueError(f"{text!r} is not a size, such as 512M")
    return int(digits) * _UNITS[unit]


def read_file(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Return the contents of a file of at most `most` bytes.  Raises OSError, of which TooLarge is one, and ValueError."""
    with open(path, "rb", buffering=0) as file:
        return read_stream(file, os.fspath(path), most)


def read_stream(stream: Stream, name: str, most: int = MOST_BYTES) -> bytes:
    """Return all that is left of a stream, at most `most` bytes; `name` is for messages.  Raises as `read_file`."""
    content = io.BytesIO()
    # one byte more than the ceiling tells a longer stream from one that ends there
    while left := most + 1 - content.tell():
        piece = stream.read(min(left, PIECE))
        if piece is None:
            raise BlockingIOError(errno.EAGAIN, "it is set not to block, and has nothing yet", name)
        if not piece:
            return content.getvalue()
        content.write(piece)
    raise TooLarge(errno.EFBIG, f"it has more than {most} bytes", name)
