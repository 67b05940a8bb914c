"""One file, several texts: `--split-input-file` cuts at lines that read `// -----`."""

from __future__ import annotations

import re

from ..ir.diagnostics import Source

__all__ = ["MARKER", "split"]

MARKER = "// -----"
_MARKER_LINE = re.compile(rf"^{MARKER}[ \t]*(?:\n|\Z)", re.MULTILINE)


def split(text: str, name: str, at_markers: bool) -> list[Source]:
    """The whole text, or the texts between markers; each keeps its line numbers in the file.

    A text of comments alone (the RUN lines that head a test) is left out, unless it
    is all there is.
    """
    if not at_markers:
        return [Source(text, name)]
    parts: list[Source] = []
    start, line = 0, 1
    for marker in _MARKER_LINE.finditer(text):
        parts.append(Source(text[start : marker.start()], name, line))
        line += text.count("\n", start, marker.end())
        start = marker.end()
    parts.append(Source(text[start:], name, line))
    return [part for part in parts if not _is_comment(part.text)] or parts[:1]


def _is_comment(text: str) -> bool:
    return "expected-" not in text and all(
        not line.strip() or line.lstrip().startswith("//") for line in text.splitlines()
    )
