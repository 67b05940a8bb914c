"""vyre-scan: searches files for patterns, and what base64 and hexadecimal text in them encode, with grep's conduct."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from vyre_opt.cli import errors
from vyre_opt.cli.command import GroupedCommand, common_options, flag, max_input_option, option
from vyre_opt.cli.completers import complete_files

from .files import STDIN, Unreadable, files_of, open_parts
from .output import MatchPrinter, json_line, shown_name

if TYPE_CHECKING:
    from ..search.blob_stream import BlobStream
    from ..search.grep_stream import GrepMatch, GrepStream
    from ..search.scanner import Scanner
    from .patterns import PatternList

    AnyStream = BlobStream | GrepStream

__all__ = ["command", "main"]

EPILOG = """\
Examples:
  vyre-scan needle haystack.txt
  vyre-scan -e base64 -E 'AKIA[0-9A-Z]{16}' mail.b64
  vyre-scan -r --blobs -f secrets.txt src/ config/
  git log -p | vyre-scan --blobs -i 'private key'

A line of output is FILE:OFFSET:MATCH: the offset, from 0, of the first character that
holds the match in the file as it is, and what it decodes to. Bytes that are not
printable are \\n, \\r, \\t or \\xNN, and a backslash is \\\\.
Of matches that overlap, the leftmost and longest is shown.
A pattern that begins with - stands behind -- or in --regexp=PATTERN.
Exit code: 0 something matched, 1 nothing did, 2 an error, whatever matched (but for -q).
Completion: eval "$(vyre-scan --completion bash)"
"""

PATTERNS, WHERE, OUTPUT = "Patterns", "Where to search", "Output"
LINES = 4096
"""Lines of output that are written together."""
MOST_THREADS = 1024
MIB = 1 << 20


@dataclass(slots=True)
class ScanOptions:
    """The options of vyre-scan, by their names on the command line."""

    encoding: str | None
    ignore_case: bool
    extended_regexp: bool
    regexp: tuple[str, ...]
    file: tuple[str, ...]
    blobs: bool
    min_blob: int
    strict: bool
    recursive: bool
    count: bool
    files_with_matches: bool
    only_matching: bool
    overlapping: bool
    quiet: bool
    with_filename: bool | None
    json: bool
    color: str
    threads: int | None


@click.command("vyre-scan", cls=GroupedCommand, epilog=EPILOG)
@click.argument("arguments", nargs=-1, metavar="[PATTERN] [FILE|FOLDER]...", shell_complete=complete_files)
@option(
    "-f --file",
    "Search for the lines of a file; empty lines are left out.",
    PATTERNS,
    metavar="FILE",
    multiple=True,
    shell_complete=complete_files,
)
@option("--regexp", "Search for a pattern; may be given again.", PATTERNS, metavar="PATTERN", multiple=True)
@option(
    "-E/-F --extended-regexp/--fixed-strings",
    "Patterns are regular expressions, in Python's syntax, or strings (the default).",
    PATTERNS,
)
@flag("-i --ignore-case", "Letters of ASCII match in either case.", PATTERNS)
@option(
    "-e --encoding",
    "Search in what the files encode, not in their bytes.",
    WHERE,
    type=click.Choice(("base64", "base64url", "hex")),
)
@flag("--strict", "With -e: blanks and line breaks are errors. Without it they are skipped.", WHERE)
@flag("--blobs", "Search in what runs of base64 in ordinary files encode.", WHERE)
@option(
    "--min-blob",
    "With --blobs: characters of the shortest run.",
    WHERE,
    metavar="N",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
)
@flag("-r -R --recursive", "Search the files in folders, too; by default in the current one.", WHERE)
@flag("-c --count", "Print how many matches each file has.", OUTPUT)
@flag("-l --files-with-matches", "Print the names of files that have a match.", OUTPUT)
@flag("-o --only-matching", "Print matches without their offsets.", OUTPUT)
@flag("--overlapping", "Show all matches, in the order of their ends, those too that overlap others.", OUTPUT)
@flag("-q --quiet", "Print nothing, and end at the first match.", OUTPUT)
@option(
    "-H/-h --with-filename/--no-filename",
    "Print names of files, or none. By default, names if there may be several files.",
    OUTPUT,
    default=None,
)
@flag("--json", "Print an object of JSON for each match.", OUTPUT)
@option(
    "--color",
    "Colour matches; auto does on a terminal, and minds NO_COLOR.",
    OUTPUT,
    type=click.Choice(("auto", "always", "never")),
    default="auto",
)
@option(
    "--threads",
    "Threads that search; by default as many as CPUs.",
    metavar="N",
    type=click.IntRange(1, MOST_THREADS),
)
@max_input_option("64M")
@common_options("vyre-scan")
@click.pass_context
def command(ctx: click.Context, /, arguments: tuple[str, ...], **values: Any) -> int:
    """Search files (- or none for stdin) for a pattern, and for what the text in them encodes."""
    options = ScanOptions(**values)
    _check(options, ctx)
    patterns, paths = _patterns(options, list(arguments), ctx)
    if not paths and not options.recursive:
        paths = [STDIN]
    from .patterns import scanner_of

    gc.enable()  # a tool runs for a moment, says `run_tool`; this one may for hours
    scanner = None
    if patterns.contents:  # of an empty file there are none, and nothing matches
        settings = {
            "encoding": None if options.blobs else options.encoding,
            "caseless": options.ignore_case,
            "strict": options.strict,
            "threads": options.threads,
        }
        scanner = scanner_of(patterns, regex=options.extended_regexp, options=settings)
    return _FileScan(options, scanner, patterns, paths).run()


def _check(options: ScanOptions, ctx: click.Context) -> None:
    """Raise UsageError for options that contradict each other."""
    if options.strict and options.encoding is None:
        raise click.UsageError("--strict is of -e", ctx)
    if options.blobs and (options.strict or options.encoding == "hex"):
        raise click.UsageError(
            "--blobs finds base64 of both alphabets; -e hex and --strict search whole files", ctx
        )
    if not options.blobs and ctx.get_parameter_source("min_blob") is not ParameterSource.DEFAULT:
        raise click.UsageError("--min-blob is of --blobs", ctx)
    if options.json and (options.count or options.files_with_matches or options.only_matching):
        raise click.UsageError("--json prints whole matches; leave out -c, -l and -o", ctx)


def _patterns(
    options: ScanOptions, arguments: list[str], ctx: click.Context
) -> tuple[PatternList, list[str]]:
    """The patterns, and the arguments that are files."""
    from .patterns import PatternList

    patterns = PatternList()
    for text in options.regexp:
        patterns.add_argument(text)
    for path in options.file:
        patterns.add_file(path)
    if not options.regexp and not options.file:
        if not arguments:
            raise click.UsageError("give a PATTERN, or -f FILE", ctx)
        patterns.add_argument(arguments.pop(0))
    return patterns, arguments


class _FileScan:
    """A search through files, one after the other."""

    def __init__(
        self, options: ScanOptions, scanner: Scanner | None, patterns: PatternList, paths: list[str]
    ) -> None:
        self.options, self.scanner, self.patterns, self.paths = options, scanner, patterns, paths
        shows_file = options.recursive or len(paths) > 1
        if options.with_filename is not None:
            shows_file = options.with_filename
        is_colored = errors.use_color(options.color, sys.stdout)
        self.printer = MatchPrinter(shows_file, not options.only_matching, is_colored)
        self.has_failed = self.has_matched = False
        self.read = 0  # bytes
        self.is_on_terminal = sys.stdout is not None and sys.stdout.isatty()

    def run(self) -> int:
        """The exit code."""
        from vyre_opt.driver.progress import ProgressBar

        options = self.options
        with ProgressBar("scanning", self._total()) as self.bar:
            for path in files_of(self.paths, options.recursive, self.report):
                count = self._scan_file(path)
                self.has_matched |= count > 0
                if count and options.quiet:
                    return 0
                if options.files_with_matches and count:
                    self._print([self.printer.name(path)])
                elif options.count and not options.files_with_matches:
                    self._print([self.printer.count(path, count)])
        return 2 if self.has_failed else int(not self.has_matched)

    def report(self, message: str) -> None:
        """Print an error, after which the search goes on."""
        self.has_failed = True
        self.bar.end()
        errors.print_error(message)

    def _total(self) -> int | None:
        """MiB of all files, if they are known."""
        if self.options.recursive or STDIN in self.paths:
            return None
        try:
            return sum(os.stat(path).st_size for path in self.paths) // MIB + 1
        except (OSError, ValueError):  # which will be reported
            return None

    def _scan_file(self, path: str) -> int:
        """Number of matches, which are printed; at most one if no more are asked for."""
        options = self.options
        is_brief = options.quiet or options.files_with_matches
        parts = open_parts(path, is_listing=is_brief or options.count)
        count = 0
        try:
            if self.scanner is None:
                next(parts, None)
                return 0
            stream = _stream(self.scanner, options)
            for part in parts:
                count += self._show(path, stream, stream.feed(part))
                self.read += len(part)
                self.bar.update(self.read // MIB)
                if count and is_brief:
                    return count
            count += self._show(path, stream, stream.finish())
        except Unreadable as error:
            self.report(str(error))
        except ValueError as error:
            from ..search.errors import EncodingError

            if not isinstance(error, EncodingError):
                raise
            advice = "; without --strict, blanks and line breaks are skipped" if error.advice else ""
            self.report(f"cannot decode {shown_name(path)}: {error.message}{advice}")
        return count

    def _show(self, path: str, stream: AnyStream, matches: Any) -> int:
        options = self.options
        if options.count or options.files_with_matches or options.quiet:
            return len(matches)
        rows = stream.contents(matches)
        while lines := [self._line(path, match) for match in islice(rows, LINES)]:
            self._print(lines)
        return len(matches)

    def _line(self, path: str, match: GrepMatch) -> str:
        if self.options.json:
            return json_line(path, match, self.patterns.contents)
        return self.printer.line(path, match)

    def _print(self, lines: list[str]) -> None:
        if self.is_on_terminal:
            self.bar.end()  # whose line would stand between others
        errors.write_stdout("".join(lines))


def _stream(scanner: Scanner, options: ScanOptions) -> AnyStream:
    from ..search.blob_stream import BlobStream
    from ..search.grep_stream import GrepStream

    if options.blobs:
        return BlobStream(scanner, min_length=options.min_blob, overlapping=options.overlapping)
    return GrepStream(scanner, overlapping=options.overlapping)


def main(args: Sequence[str] | None = None) -> int:
    """The entry point of the vyre-scan script."""
    return errors.run_tool(command, args, failure=2)
