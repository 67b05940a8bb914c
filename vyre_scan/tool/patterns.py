"""The patterns of vyre-scan: from the command line and from files, each with a name for messages."""

from __future__ import annotations

import os
import re
from dataclasses import field
from typing import TYPE_CHECKING

from vyre_opt.cli.errors import ToolError
from vyre_opt.cli.text_files import read_bytes, read_stdin
from vyre_opt.ir.diagnostics import DiagnosticError
from vyre_opt.records import dataclass

if TYPE_CHECKING:
    from ..search.scanner import Scanner
    from .options import ScanOptions
    from .rules import RuleSet

__all__ = ["PatternList", "scanner_of"]

_NUMBERED = re.compile(r"patterns\[(\d+)\]")


@dataclass(slots=True)
class PatternList:
    """Patterns as bytes.  `origins`: where each is from, and the line of a file or 0.  `rules`: whose patterns these are, or None."""

    contents: list[bytes] = field(default_factory=list)
    origins: list[tuple[str, int]] = field(default_factory=list)
    rules: RuleSet | None = None

    def add_argument(self, text: str) -> None:
        """Add the patterns of an argument, one a line, as grep takes it.  Raises ToolError for an empty one."""
        for line in text.split("\n"):
            if not line:
                raise ToolError("an empty pattern matches everywhere: give one that is not")
            self.contents.append(os.fsencode(line))
            self.origins.append(("PATTERN", 0))

    def add_file(self, path: str) -> None:
        """Add the lines of a file, or of stdin for `-`, without empty ones.  Raises ToolError."""
        content = read_stdin() if path == "-" else read_bytes(path)
        for number, line in enumerate(content.split(b"\n"), start=1):
            line = line.removesuffix(b"\r")
            if line:
                self.contents.append(line)
                self.origins.append((path, number))

    def add_rules(self, path: str) -> None:
        """Add the expressions of a file's rules.  Raises ToolError."""
        from .rules import read_rules

        self.rules = read_rules(path)
        for rule in self.rules.rules:
            self.contents.append(rule.regex.encode())
            self.origins.append((f"{path}: rule {rule.name}", 0))

    def described(self) -> list[tuple[str, str]]:
        """A name and a description of each pattern."""
        if self.rules is not None:
            return [(rule.name, rule.description) for rule in self.rules.rules]
        return [(content.decode(errors="replace"), "") for content in self.contents]

    def named(self, text: str) -> str:
        """A message, with the origins of patterns in the place of their numbers."""

        def origin(match: re.Match[str]) -> str:
            name, line = self.origins[int(match[1])]
            return f"{name}:{line}" if line else name

        return _NUMBERED.sub(origin, text)


def scanner_of(patterns: PatternList, options: ScanOptions) -> Scanner:
    """Build the scanner of patterns.  Raises DiagnosticError with the place of each mistake, and ToolError."""
    from ..search.scanner import Scanner

    contents, is_bound = patterns.contents, options.bounds in ("word", "whole")
    if is_bound and not options.extended_regexp:  # literals, though they go as expressions
        contents = [*map(re.escape, contents)]
    is_regex = options.extended_regexp or options.rules is not None or is_bound
    try:
        return Scanner(
            [*map(_as_text, contents)] if is_regex else contents,
            options.decode,
            options.ignore_case,
            is_regex,
            options.strict,
            threads=options.threads,
            target=options.target,
            bounds=options.bounds if is_regex else "",
        )
    except DiagnosticError as error:
        for diagnostic in error.diagnostics:
            diagnostic.message = patterns.named(diagnostic.message)
            diagnostic.help = diagnostic.help and diagnostic.help.removeprefix("pass bytes, and ")
            source = diagnostic.loc.source if diagnostic.loc is not None else None
            numbered = _NUMBERED.fullmatch(source.name) if source is not None else None
            if source is not None and numbered is not None:
                name, line = patterns.origins[int(numbered[1])]
                source.name, source.first_line = name, line or 1
        raise
    except ValueError as error:
        raise ToolError(patterns.named(str(error))) from None


def _as_text(content: bytes) -> str | bytes:
    """Text where it is UTF-8, so that a character of several bytes is not taken for several characters."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content
