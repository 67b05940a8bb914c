"""Search for many patterns, literals and expressions, in bytes and in what text encodes; vyre-scan is the tool.

    from vyre_scan import Scanner

Each name is loaded when it is first asked for.  The package stands on the compiler, `vyre_opt`, which knows nothing of it:

    tool        vyre-scan (start: where the installed command begins)
    decode_scan the search as one function on a text
    search      `Scanner`, and searches in files of any size and in what they hold
    programs    what looks at bytes: programs of the compiler, for the CPU and for GPUs
    patterns    literals and expressions, and what every match of these has
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .patterns.errors import PatternError as PatternError
    from .patterns.rule import Rule as Rule
    from .search.blob_stream import BlobStream as BlobStream
    from .search.blob_stream import scan_blobs as scan_blobs
    from .search.blobs import blobs_of as blobs_of
    from .search.errors import EncodingError as EncodingError
    from .search.grep_stream import GrepMatch as GrepMatch
    from .search.grep_stream import GrepStream as GrepStream
    from .search.matches import Match as Match
    from .search.matches import Matches as Matches
    from .search.scanner import Scanner as Scanner

_EXPORTS = {
    "BlobStream": "search.blob_stream",
    "EncodingError": "search.errors",
    "GrepMatch": "search.grep_stream",
    "GrepStream": "search.grep_stream",
    "Match": "search.matches",
    "Matches": "search.matches",
    "PatternError": "patterns.errors",
    "Rule": "patterns.rule",
    "Scanner": "search.scanner",
    "blobs_of": "search.blobs",
    "scan_blobs": "search.blob_stream",
}

__all__ = [*_EXPORTS]


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vyre_opt.worker import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
