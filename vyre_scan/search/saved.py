"""Patterns and the options of a scanner in a file of JSON, from which its tables are built again."""

from __future__ import annotations

import json
import os
import re
import stat
from os import PathLike
from pathlib import Path
from typing import Any

from ..patterns.pattern_list import BOUNDS, ExpressionSyntax, Patterns, read_patterns
from .encodings import ENCODINGS

__all__ = ["read_patterns_file", "write_patterns"]

FORMAT = "vyre-scan patterns 1"
MOST_BYTES = 1 << 30
FLAGS = int(re.ASCII | re.IGNORECASE | re.LOCALE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE)
"""Flags of `re` that an expression may have; others make it warn, or print."""


def write_patterns(
    path: str | PathLike[str], patterns: Patterns, caseless: bool, encoding: str | None, strict: bool
) -> None:
    """Write a file; what was there is replaced when all is written.  Raises OSError."""
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        missing = "is a folder" if target.is_dir() else f"there is no folder {target.parent}"
        raise OSError(f"{target}: {missing}")
    record = {
        "format": FORMAT,
        "caseless": caseless,
        "encoding": encoding,
        "strict": strict,
        "patterns": [content.decode("latin-1") for content in patterns.contents],
        "expressions": [
            [number, one.flags, one.is_text, one.is_of_re, one.bounds]
            for number, one in patterns.expressions.items()
        ],
    }
    partial = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with partial.open("x", encoding="ascii") as file:
            json.dump(record, file)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def read_patterns_file(path: str | PathLike[str]) -> tuple[Patterns, bool, str | None, bool]:
    """The patterns, and whether letters match in either case, the encoding, and `strict`.  Raises OSError, ValueError."""
    path = Path(path)
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
        raise ValueError(f"{path}: no file of a scanner: it is no regular file of up to {MOST_BYTES} bytes")
    try:
        return _patterns_of(json.loads(path.read_bytes()))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: no file of a scanner: {error or type(error).__name__}") from None


def _patterns_of(record: Any) -> tuple[Patterns, bool, str | None, bool]:
    if record["format"] != FORMAT:
        raise ValueError(f"its format is {record['format']!r}, not {FORMAT!r}")
    encoding, caseless, strict = record["encoding"], record["caseless"], record["strict"]
    if (encoding is not None and encoding not in ENCODINGS) or not isinstance(caseless and strict, bool):
        raise ValueError("its options are none")
    patterns = record["patterns"]
    if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
        raise ValueError("its patterns are not a list of texts")
    contents = [text.encode("latin-1") for text in patterns]
    expressions = {}
    for number, flags, is_text, is_of_re, bounds in record["expressions"]:
        if not isinstance(flags, int) or flags & ~FLAGS or not 0 <= number < len(contents):
            raise ValueError("an expression has a number and flags")
        if bounds not in BOUNDS:
            raise ValueError(f"there are no bounds {bounds!r}")
        expressions[number] = ExpressionSyntax(flags, bool(is_text), bool(is_of_re), bounds)
    literals = [content for number, content in enumerate(contents) if number not in expressions]
    if literals or not contents:
        read_patterns(literals, regex=False, caseless=False)  # whose checks hold for these, too
    return Patterns(contents, expressions), caseless, encoding, strict
