r"""Findings as vyre-scan prints them: a line for people, an object of JSON, or SARIF for other tools.

In a line, printable characters of UTF-8 are themselves, a backslash is `\\`, and every other byte is `\n`, `\r`, `\t` or `\xNN`.
So a finding is one line, no terminal obeys it, and its bytes can be read from it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from vyre_opt.records import dataclass

__all__ = [
    "CYAN", "RED", "Finding", "Sarif", "TextWindow", "colored", "finding_line", "json_line", "output_line", "shown_name",
    "shown_path",
]  # fmt: skip

NAMES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
STDIN_NAME = "(standard input)"
"""Name of grep for it."""

MAGENTA, GREEN, CYAN, RED = "35", "32", "36", "01;31"
"""grep's colours of a file's name, a number, what separates them, and a match."""
MOST_BEFORE = 1 << 20
"""Bytes of earlier parts in which a finding may begin, so that its line is known."""
MOST_LINE = 1 << 12
"""Bytes of a line that are shown with a finding."""


def colored(text: bytes, color: str, is_colored: bool) -> bytes:
    code = color.encode()
    return b"\x1b[%sm\x1b[K%s\x1b[m\x1b[K" % (code, text) if is_colored else text


def escaped(content: bytes) -> str:
    """Bytes as one line of text."""
    text = content.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return NAMES.get(character) or "".join(f"\\x{octet:02x}" for octet in character.encode())


@dataclass(frozen=True, slots=True)
class Finding:
    """A match with its place: `line` and `column` from 1, `start` and `end` in the document as it is; `text`: of that line.

    `number`: of the pattern.  `encoding`: of the blob that has it, or "".  `rule`: the name of a rule, or "".
    `secret`: its part of the match.
    """

    path: str
    line: int
    column: int
    start: int
    end: int
    number: int
    pattern: bytes
    match: bytes
    text: bytes
    encoding: str = ""
    rule: str = ""
    secret: bytes = b""


class TextWindow:
    """The last bytes of a document that comes in parts, by which the lines of findings are known."""

    def __init__(self) -> None:
        self.data, self.base = b"", 0
        self._place, self._line = 0, 1
        """A place of `data` and the number of its line: that of the last finding, since findings mostly come in order."""

    def add(self, part: bytes) -> int:
        """The next part, and where in the document it begins; of those before MOST_BEFORE bytes stay."""
        cut = max(0, len(self.data) - MOST_BEFORE)
        self._move(cut)
        self._place = 0
        begin = self.base + len(self.data)
        self.data, self.base = (self.data[cut:] + part if self.data else part), self.base + cut
        return begin

    def line_of(self, place: int) -> tuple[int, int, bytes]:
        """The number of the line that has a place of the document, the column, and the line."""
        at = min(max(0, place - self.base), len(self.data))
        begin = self.data.rfind(b"\n", 0, at) + 1
        end = self.data.find(b"\n", at)
        line = self.data[begin : len(self.data) if end < 0 else end]
        self._move(begin)
        return self._line, at - begin + 1, line[:MOST_LINE]

    def _move(self, place: int) -> None:
        """Know the line of another place, by the breaks between."""
        breaks = self.data.count(b"\n", *sorted((self._place, place)))
        self._line += breaks if place > self._place else -breaks
        self._place = place


def output_line(
    path: str | None, numbers: Sequence[int], texts: Sequence[bytes], separator: bytes, is_colored: bool
) -> bytes:
    """A line of output: the name of a file, if it is shown, numbers and texts."""
    fields = [] if path is None else [shown_path(path, is_colored)]
    fields += [colored(b"%d" % number, GREEN, is_colored) for number in numbers]
    return colored(separator, CYAN, is_colored).join([*fields, *texts]) + b"\n"


def finding_line(
    finding: Finding, shows_name: bool, shows_line: bool, shows_offset: bool, is_colored: bool
) -> bytes:
    numbers = [finding.line] * shows_line + [finding.start] * shows_offset
    labels = [label.encode() for label in (finding.encoding, finding.rule) if label]
    match = colored(escaped(finding.match).encode(errors="surrogateescape"), RED, is_colored)
    return output_line(finding.path if shows_name else None, numbers, [*labels, match], b":", is_colored)


def json_line(finding: Finding) -> bytes:
    """A finding as an object.  What is no UTF-8 is {"base64": ...} in the place of a string."""
    import json

    record = {name: _json_text(getattr(finding, name)) for name in Finding.__slots__}
    record["path"] = _json_text(os.fsencode(shown_name(finding.path)))
    if not finding.encoding:
        del record["encoding"]
    if not finding.rule:
        del record["rule"], record["secret"]
    return json.dumps(record, ensure_ascii=False).encode(errors="surrogateescape") + b"\n"


def _json_text(content: Any) -> Any:
    try:
        return content.decode() if isinstance(content, bytes) else content
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"base64": b64encode(content).decode()}


@dataclass(slots=True)
class Sarif:
    """Findings as a log of SARIF 2.1.0, whose results are written one by one.  `version`: of the tool."""

    write: Callable[[bytes], None]
    version: str
    rules: list[tuple[str, str]]
    _has_results: bool = field(default=False, init=False)

    def begin(self) -> None:
        from json import dumps

        rules = [{"id": name, "shortDescription": {"text": text or name}} for name, text in self.rules]
        driver = {"name": "vyre-scan", "version": self.version, "rules": rules}
        head = f'{{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [{{"tool": {{"driver": {dumps(driver)}}}, '
        self.write(head.encode() + b'"columnKind": "utf16CodeUnits", "results": [\n')

    def add(self, finding: Finding) -> None:
        from json import dumps
        from urllib.parse import quote_from_bytes

        name, description = self.rules[finding.number]
        secret = escaped(finding.secret or finding.match)
        within = f" in {finding.encoding}" if finding.encoding else ""
        region = {
            "startLine": finding.line,
            "startColumn": len(finding.text[: finding.column - 1].decode(errors="replace")) + 1,
            "byteOffset": finding.start,
            "byteLength": finding.end - finding.start,
            "snippet": {"text": finding.text.decode(errors="replace")},
        }
        uri = quote_from_bytes(os.fsencode(shown_name(finding.path)))
        result = {
            "ruleId": name,
            "ruleIndex": finding.number,
            "level": "error",
            "message": {"text": f"{description or name}{within}: {secret}"},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}],
        }
        separator = b",\n" if self._has_results else b""
        self.write(separator + dumps(result).encode())
        self._has_results = True

    def end(self) -> None:
        self.write(b"\n]}]}\n")


def shown_name(path: str) -> str:
    """The name of a file in output and messages."""
    return STDIN_NAME if path == "-" else path


def shown_path(path: str, is_colored: bool) -> bytes:
    return colored(shown_name(path).encode(errors="surrogateescape"), MAGENTA, is_colored)
