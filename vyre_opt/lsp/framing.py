"""Messages as they come on stdin: a header, whose Content-Length counts the bytes that follow it.

Content-Length: 52\\r\\n
\\r\\n
{"jsonrpc": "2.0", ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

__all__ = ["NoHeader", "messages"]

PIECE = 1 << 16
MAX_HEADER_BYTES = 1 << 12
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,18})[ \t]*$", re.IGNORECASE | re.MULTILINE)


class NoHeader(Exception):
    """The input is no header, so the start of the message is unknown."""


def messages(read: Callable[[int], bytes], most: int) -> Iterator[bytes | None]:
    """Each message, up to the end of the stream; None for one of more than `most` bytes, which are skipped.

    `read`: as of a file; gives what is there, and waits for the first byte only.  Raises NoHeader, and what `read` does.
    """
    waiting = bytearray()
    while True:
        while (end := waiting.find(_END)) < 0:
            if len(waiting) > MAX_HEADER_BYTES:
                raise NoHeader(f"no header within {MAX_HEADER_BYTES} bytes")
            if not (piece := read(PIECE)):
                return
            waiting += piece
        length = _LENGTH.search(waiting[:end].replace(b"\r", b""))
        if length is None:
            raise NoHeader("a header without Content-Length")
        del waiting[: end + len(_END)]
        left = int(length[1])
        is_kept = left <= most
        while left > len(waiting):
            if not is_kept:
                left -= len(waiting)
                waiting.clear()
            if not (piece := read(PIECE)):
                return
            waiting += piece
        yield bytes(waiting[:left]) if is_kept else None
        del waiting[:left]
