"""`vyre_opt.kernels.decode_scan`: a search in encoded text as a function, by the tables and programs of `Scanner`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from vyre_opt.execution.dispatcher import BadInputs, DispatcherLike, shared_dispatcher
from vyre_opt.execution.target import as_target

from .search.errors import EncodingError
from .search.scanner import Scanner

__all__ = ["decode_scan"]

ENCODINGS = ("base64", "hex", "raw")


def decode_scan(
    text: Any,
    patterns: Sequence[bytes | str],
    encoding: str = "base64",
    *,
    dispatcher: DispatcherLike | None = None,
) -> list[tuple[int, int]]:
    """Find byte strings in encoded text.  `Scanner` does the same for many texts, and for expressions.

    Args:
        text: a str, bytes, or an array of u8; blanks and line breaks are skipped, and padding may be left out.
        patterns: byte strings of at least one byte; a str is taken in UTF-8.
        encoding: "base64", "hex", or "raw" for bytes as they are.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.

    Returns:
        A list of (index of the last decoded byte, number of the pattern), sorted; matches may overlap.

    Raises:
        BadInputs: for an empty pattern, what is no text, and the first character that encodes nothing, with its place.

    Example:
        >>> kernels.decode_scan("76797265", [b"yr", b"e"], "hex")
        [(2, 0), (3, 1)]
    """
    if not isinstance(encoding, str) or encoding not in ENCODINGS:
        raise BadInputs(f"unknown encoding {encoding!r}; there are {', '.join(ENCODINGS)}")
    if isinstance(patterns, (str, bytes)):
        raise BadInputs("patterns is a list of patterns, not one")
    try:
        contents = tuple(
            pattern if isinstance(pattern, (str, bytes)) else _octets(pattern) for pattern in patterns
        )
    except TypeError:
        raise BadInputs(f"patterns is a list of patterns, not {type(patterns).__name__}") from None
    if not contents:
        return []
    try:
        scanner = _scanner(contents, None if encoding == "raw" else encoding)
        if dispatcher is not None:
            scanner = scanner.on(as_target(shared_dispatcher(dispatcher)))
        matches = scanner.scan(text)
    except BadInputs:
        raise
    except ValueError as error:
        raise BadInputs(error.message if isinstance(error, EncodingError) else str(error)) from None
    return list(zip((matches.ends - 1).tolist(), matches.patterns.tolist(), strict=True))


def _octets(pattern: Any) -> bytes:
    if isinstance(pattern, (bytearray, memoryview)) or str(getattr(pattern, "dtype", "")).endswith("uint8"):
        return bytes(pattern)
    raise BadInputs(f"a pattern is text, bytes or an array of uint8, not {type(pattern).__name__}")


@lru_cache(maxsize=8)
def _scanner(patterns: tuple[bytes | str, ...], encoding: str | None) -> Scanner:
    return Scanner(patterns, encoding, strict=False)
