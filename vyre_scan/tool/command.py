"""vyre-scan: searches files for many patterns, and what base64 and hexadecimal text in them encode, with grep's options."""

from __future__ import annotations

import gc
import os
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import click

from vyre_opt import __version__
from vyre_opt.cli import errors
from vyre_opt.cli.command import GroupedCommand
from vyre_opt.cli.completers import complete_files

from .documents import Unreadable, documents_of, open_parts, output_file, read_small
from .line_report import LineReport
from .line_search import LineSearch, PlainSearch, ScannerSearch, Span, line_parts
from .options import ScanOptions, scan_options
from .output import Finding, Sarif, TextWindow, finding_line, json_line, output_line, shown_name, shown_path
from .walk import STDIN, files_of

if TYPE_CHECKING:
    from vyre_opt.driver.progress import ProgressBar

    from ..search.grep_stream import GrepMatch
    from ..search.scanner import Scanner
    from .patterns import PatternList

__all__ = ["command", "main"]

EPILOG = """\
Examples:
  vyre-scan -r --blobs --rules gitleaks.toml .      secrets, also within base64 and hex
  vyre-scan --blobs -E 'AKIA[0-9A-Z]{16}' -z dist/  in wheels and images, too
  vyre-scan --decode base64 needle mail.b64         in what the whole file encodes
  vyre-scan -rnwE 'TODO|FIXME' src                  as grep does

Text is searched and printed by lines, as by grep. What is found in blobs, in what -U, --rules
and --decode search as a whole, is printed as FILE:OFFSET:MATCH, with the offset, from 0, of
the first character that holds the match in the file as it is. There, bytes that are not
printable are \\n, \\r, \\t or \\xNN, and a backslash is \\\\.
A folder is searched as by ripgrep (.gitignore, no hidden files), with -r as by grep.
Exit code: 0 something matched, 1 nothing did, 2 an error, whatever matched (but for -q).
Completion: eval "$(vyre-scan --completion bash)"
"""

MIB = 1 << 20
BATCH_BYTES, BATCH_DOCUMENTS = 1 << 22, 1 << 12
"""Small documents that are searched together."""
MOST_OUTPUT = 1 << 16
"""Bytes that wait to be written together."""
BETWEEN = b"\n\0\n"
"""Bytes between documents: no line and no blob goes on behind them."""


@click.command("vyre-scan", cls=GroupedCommand, epilog=EPILOG)
@click.argument("arguments", nargs=-1, metavar="[PATTERN] [FILE|FOLDER]...", shell_complete=complete_files)
@scan_options
@click.pass_context
def command(ctx: click.Context, /, arguments: tuple[str, ...], **values: Any) -> int:
    """Search files (- or none for stdin) for patterns and rules, also within what base64 and hex in them encode.

    Made for many patterns at once, and for secrets that encoded blobs hide. For one plain pattern in a tree ripgrep is faster.
    """
    options = ScanOptions(**values)
    options.check(ctx)
    patterns, paths = _patterns(options, list(arguments), ctx)
    if not paths and not options.recursive:
        paths = [STDIN]
    gc.enable()  # a tool runs for a moment, says `run_tool`; this one may for hours
    return _Scan(options, patterns, paths).run()


def _patterns(
    options: ScanOptions, arguments: list[str], ctx: click.Context
) -> tuple[PatternList, list[str]]:
    """The patterns, and the arguments that are files."""
    from .patterns import PatternList

    patterns = PatternList()
    if options.rules is not None:
        patterns.add_rules(options.rules)
        return patterns, arguments
    for text in options.regexp:
        patterns.add_argument(text)
    for path in options.file:
        patterns.add_file(path)
    if not options.regexp and not options.file:
        if not arguments:
            raise click.UsageError("give a PATTERN, -f FILE or --rules FILE", ctx)
        patterns.add_argument(arguments.pop(0))
    return patterns, arguments


class _Done(Exception):
    """Nothing more is to be searched."""


class _Scan:
    """A search through documents, one after the other."""

    def __init__(self, options: ScanOptions, patterns: PatternList, paths: list[str]) -> None:
        self.options, self.patterns, self.paths = options, patterns, paths
        is_folder = any(path != STDIN and os.path.isdir(path) for path in paths)
        shows_name = options.recursive or options.search_zip or len(paths) > 1 or is_folder
        self.shows_name = shows_name if options.with_filename is None else options.with_filename
        self.is_colored = errors.use_color(options.color, sys.stdout)
        self.is_each = options.invert_match or options.count or options.files_without_match
        self.lines = LineReport(options, self.shows_name, self.is_colored, self._write)
        self.scanner, self.search = self._search()
        self.sarif = Sarif(self._write, __version__, patterns.described()) if options.sarif else None
        self.batch: list[tuple[str, bytes]] = []
        self.batch_size = 0
        self.output = None if options.is_silent else output_file()
        self.out: list[bytes] = []
        self.out_size = 0
        self.has_failed = self.has_matched = False
        self.num_bytes = 0
        self.bar: ProgressBar | None = None

    def _search(self) -> tuple[Scanner | None, LineSearch | None]:
        """Scanner of blobs and of encoded files, and search of text."""
        options, contents = self.options, self.patterns.contents
        if not contents:  # of an empty file there are none, and nothing matches
            return None, None
        is_plain = not (options.extended_regexp or options.ignore_case or options.is_whole or options.target)
        if len(contents) == 1 and is_plain and options.searches_text and not options.has_blobs:
            return None, PlainSearch(contents[0], options.bounds)
        from .patterns import scanner_of

        scanner = scanner_of(self.patterns, options)
        return scanner, ScannerSearch(scanner, options.shows_overlapping)

    # --- documents

    def run(self) -> int:
        """The exit code."""
        if self.sarif is not None:
            self.sarif.begin()
        try:
            with self._progress_bar() as self.bar:
                for path in files_of(self.paths, self.options, self.report):
                    if self.patterns.rules is None or self.patterns.rules.searches(path):
                        self._file(path)
                self._flush()
        except _Done:
            return errors.DONE
        if self.sarif is not None:
            self.sarif.end()
        self._deliver()
        if self.has_failed:
            return errors.SEARCH_FAILED
        return errors.DONE if self.has_matched else errors.NOTHING_MATCHED

    def _progress_bar(self) -> AbstractContextManager[ProgressBar | None]:
        """A bar of MiB on a terminal, of all files if they are known."""
        if sys.stderr is None or not sys.stderr.isatty():
            return nullcontext()
        from vyre_opt.driver.progress import ProgressBar

        try:
            size = sum(os.stat(path).st_size for path in self.paths)
        except (OSError, ValueError):  # which will be reported
            size = 0
        return ProgressBar("scanning", size // MIB + 1 if size else None)

    def report(self, message: str) -> None:
        """Print an error, after which the search goes on."""
        self.has_failed = True
        self._deliver()
        if self.bar is not None:
            self.bar.end()
        if not self.options.no_messages:
            errors.print_error(message)

    def _file(self, path: str) -> None:
        options = self.options
        try:
            content = read_small(path, self.output)
            if options.search_zip and path != STDIN:
                documents = documents_of(path, content)
                if documents is not None:
                    for name, parts in documents:
                        self._stream(name, parts)
                    return
            if content is None:
                self._stream(path, open_parts(path, self.output))
            elif options.decode is not None:
                self._stream(path, iter([content]))
            elif isinstance(self.search, PlainSearch):
                if self.is_each or self.search.literal in content:
                    self._small([path], content, [0], [len(content)])
            else:
                self.batch.append((path, content))
                self.batch_size += len(content)
                if self.batch_size >= BATCH_BYTES or len(self.batch) == BATCH_DOCUMENTS:
                    self._flush()
        except Unreadable as error:
            self._flush()
            self.report(str(error))

    def _flush(self) -> None:
        """Search the documents that wait."""
        batch, self.batch, self.batch_size = self.batch, [], 0
        if batch:
            names, contents = [name for name, _ in batch], [content for _, content in batch]
            begins = [0, *accumulate(len(content) + len(BETWEEN) for content in contents[:-1])]
            ends = [begin + len(content) for begin, content in zip(begins, contents, strict=True)]
            self._small(names, BETWEEN.join(contents), begins, ends)

    def _small(self, names: list[str], data: bytes, begins: list[int], ends: list[int]) -> None:
        """Search documents, which are slices of `data`."""
        options = self.options
        spans: dict[int, list[Span]] = {}
        blobs: dict[int, list[GrepMatch]] = {}
        if self.search is not None and options.searches_text:
            spans = dict(self.search.spans(data, begins, ends))
        if self.scanner is not None and options.has_blobs:
            from ..search.blob_stream import scan_blobs

            min_length, overlapping = options.min_blob, options.shows_overlapping
            for match in scan_blobs(self.scanner, data, min_length=min_length, overlapping=overlapping):
                blobs.setdefault(bisect_right(begins, match.start) - 1, []).append(match)
        for number in range(len(names)) if self.is_each else sorted({*spans, *blobs}):
            begin, end, name = begins[number], ends[number], names[number]
            window = TextWindow()
            self.lines.begin(name)
            count = self._text(name, window, data, begin, end, spans.get(number, ()))
            matches = ((m.start - begin, m.end - begin, *m[2:]) for m in blobs.get(number, ()))
            self._end(name, count + self._findings(name, window, matches))
        self._progress(len(data))

    def _text(
        self,
        name: str,
        window: TextWindow,
        data: bytes,
        begin: int,
        end: int,
        spans: Sequence[Span],
        is_part: bool = False,
    ) -> int:
        """Report the matches in the next part of a document, a slice of `data`; gives how many count."""
        options, count = self.options, 0
        if options.searches_text and not options.prints_findings:
            count = -self.lines.count
            self.lines.add(data, begin, end, spans, is_part)
            count += self.lines.count
        if options.prints_findings or options.has_blobs:
            shift = window.add(data[begin:end]) - begin
        if options.prints_findings:
            matches = ((a + shift, b + shift, k, data[a:b], "") for a, b, k in spans if a < b)
            count += self._findings(name, window, matches)
        return count

    def _stream(self, name: str, parts: Iterator[Any]) -> None:
        """Search a document that comes in parts."""
        self._flush()
        options, count = self.options, 0
        by_lines = options.searches_text and not options.is_whole
        window = TextWindow()
        streams: list[Any] = []
        if self.scanner is not None and (options.decode or (options.is_whole and options.searches_text)):
            from ..search.grep_stream import GrepStream

            streams.append(GrepStream(self.scanner, overlapping=options.shows_overlapping))
        if self.scanner is not None and options.has_blobs:
            from ..search.blob_stream import BlobStream

            overlapping = options.shows_overlapping
            streams.append(BlobStream(self.scanner, min_length=options.min_blob, overlapping=overlapping))
        self.lines.begin(name)
        try:
            for part in line_parts(parts) if by_lines else parts:
                if by_lines:
                    documents = () if self.search is None else self.search.spans(part, [0], [len(part)])
                    spans = next((spans for _, spans in documents), [])
                    count += self._text(name, window, part, 0, len(part), spans, is_part=True)
                else:
                    window.add(bytes(part))
                for stream in streams:
                    count += self._findings(name, window, stream.contents(stream.feed(part)))
                self._progress(len(part))
                self._deliver()
                if (count and options.is_brief) or (self.lines.is_done and not streams):
                    break
            else:
                for stream in streams:
                    count += self._findings(name, window, stream.contents(stream.finish()))
        except Unreadable as error:
            self.report(str(error))
        except ValueError as error:
            from ..search.errors import EncodingError

            if not isinstance(error, EncodingError):
                raise
            advice = "; without --strict, blanks and line breaks are skipped" if error.advice else ""
            self.report(f"cannot decode {shown_name(name)}: {error.message}{advice}")
        self._end(name, count)

    # --- output

    def _findings(
        self, name: str, window: TextWindow, matches: Iterable[tuple[int, int, int, bytes, str]]
    ) -> int:
        """Print those matches of a document that count, and give how many these are."""
        options, rules, count = self.options, self.patterns.rules, 0
        for start, end, number, match, encoding in matches:
            needs_line = rules is not None or not options.is_silent
            line, column, text = window.line_of(start) if needs_line else (0, 0, b"")
            pattern = self.patterns.contents[number]
            finding = Finding(name, line, column, start, end, number, pattern, match, text, encoding)
            if rules is not None:
                rule = rules.rules[number]
                assert self.scanner is not None
                expression = self.scanner._tables.expressions[number].pattern
                secret = rules.secret(number, expression, match)
                content = match if encoding else window.data
                if not rules.accepts(number, name, secret, match, text, content):
                    continue
                finding = replace(finding, rule=rule.name, secret=secret)
            count += 1
            if not options.is_silent:
                self._print(finding)
            elif options.is_brief:
                break
        return count

    def _print(self, finding: Finding) -> None:
        options = self.options
        if self.sarif is not None:
            self.sarif.add(finding)
        elif options.json:
            self._write(json_line(finding))
        else:
            shows = self.shows_name, options.line_number, not options.only_matching
            self._write(finding_line(finding, *shows, self.is_colored))

    def _end(self, name: str, count: int) -> None:
        """The end of a document."""
        options = self.options
        self.has_matched |= count > 0
        if count and options.quiet:
            raise _Done
        if options.quiet:
            return
        path = shown_path(name, self.is_colored)
        if (options.files_with_matches and count) or (options.files_without_match and not count):
            self._write(path + b"\n")
        elif options.count and not options.is_brief:
            shown = name if self.shows_name else None
            self._write(output_line(shown, [], [b"%d" % count], b":", self.is_colored))

    def _write(self, content: bytes) -> None:
        self.out.append(content)
        self.out_size += len(content)
        if self.out_size > MOST_OUTPUT:
            self._deliver()

    def _deliver(self) -> None:
        """Write what waits."""
        if not self.out:
            return
        if self.bar is not None and sys.stdout is not None and sys.stdout.isatty():
            self.bar.end()  # whose line would stand between others
        content, self.out, self.out_size = b"".join(self.out), [], 0
        errors.write_stdout_bytes(content)

    def _progress(self, count: int) -> None:
        self.num_bytes += count
        if self.bar is not None:
            self.bar.update(self.num_bytes // MIB)


def main(args: Sequence[str] | None = None) -> int:
    """The entry point of the vyre-scan script."""
    return errors.run_tool(command, args, failure=errors.SEARCH_FAILED)
