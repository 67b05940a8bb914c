"""vyre-scan: searches files for many patterns, and what base64 and hexadecimal text in them encode, with grep's options."""

from __future__ import annotations

import gc
import os
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from vyre_opt import __version__
from vyre_opt.cli import errors
from vyre_opt.cli.command import GroupedCommand, common_options, flag, max_input_option, option
from vyre_opt.cli.completers import complete_files

from .documents import Unreadable, documents_of, open_parts, output_file, read_small
from .line_report import LineOptions, LineReport
from .line_search import LineSearch, PlainSearch, ScannerSearch, Span, line_parts
from .output import CYAN, MAGENTA, Finding, Sarif, TextWindow, colored, finding_line, json_line, shown_name
from .walk import STDIN, TYPES, Selection, files_of

if TYPE_CHECKING:
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

PATTERNS, WHERE, FILES, OUTPUT = "Patterns", "Where to search", "Which files", "Output"
MOST_THREADS = 1024
MIB = 1 << 20
BATCH_BYTES, BATCH_DOCUMENTS = 1 << 22, 1 << 12
"""Small documents that are searched together."""
MOST_OUTPUT = 1 << 16
"""Bytes that wait to be written together."""
BETWEEN = b"\n\0\n"
"""Bytes between documents: no line and no blob goes on behind them."""


@dataclass(slots=True)
class ScanOptions:
    """The options of vyre-scan, by their names on the command line."""

    regexp: tuple[str, ...]
    file: tuple[str, ...]
    rules: str | None
    extended_regexp: bool
    ignore_case: bool
    word_regexp: bool
    line_regexp: bool
    multiline: bool
    blobs: bool
    only_blobs: bool
    min_blob: int
    decode: str | None
    strict: bool
    search_zip: bool
    text: bool
    recursive: bool
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    exclude_dir: tuple[str, ...]
    glob: tuple[str, ...]
    type: tuple[str, ...]
    type_not: tuple[str, ...]
    hidden: bool
    no_ignore: bool
    line_number: bool
    byte_offset: bool
    invert_match: bool
    before_context: int | None
    after_context: int | None
    context: int
    count: bool
    files_with_matches: bool
    files_without_match: bool
    max_count: int | None
    only_matching: bool
    overlapping: bool
    quiet: bool
    no_messages: bool
    with_filename: bool | None
    json: bool
    sarif: bool
    color: str
    threads: int | None
    target: str | None

    @property
    def is_brief(self) -> bool:
        """Whether one match of a document says all."""
        return self.quiet or self.files_with_matches or self.files_without_match

    @property
    def is_whole(self) -> bool:
        """Whether documents are searched as a whole, and not by lines."""
        return self.multiline or self.rules is not None

    @property
    def bounds(self) -> str:
        """Bounds of matches of expressions; see patterns.pattern_list."""
        if self.line_regexp or self.word_regexp:
            return "whole" if self.line_regexp else "word"
        return "" if self.is_whole or self.decode else "line"


def _types(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        errors.write_stdout("".join(f"{name}: {', '.join(globs)}\n" for name, globs in sorted(TYPES.items())))
        ctx.exit()


_COUNT = click.IntRange(min=0)


@click.command("vyre-scan", cls=GroupedCommand, epilog=EPILOG)
@click.argument("arguments", nargs=-1, metavar="[PATTERN] [FILE|FOLDER]...", shell_complete=complete_files)
@option(
    "-e --regexp", "Search for a pattern; may be given again.", PATTERNS, metavar="PATTERN", multiple=True
)
@option(
    "-f --file",
    "Search for the lines of a file; empty lines are left out.",
    PATTERNS,
    metavar="FILE",
    multiple=True,
    shell_complete=complete_files,
)
@option(
    "--rules",
    "Search for the rules of a file, as gitleaks has them in TOML.",
    PATTERNS,
    metavar="FILE",
    shell_complete=complete_files,
)
@option(
    "-E/-F --extended-regexp/--fixed-strings",
    "Patterns are regular expressions, in Python's syntax, or strings (the default).",
    PATTERNS,
)
@flag("-i --ignore-case", "Letters of ASCII match in either case.", PATTERNS)
@flag("-w --word-regexp", "No letter, digit or _ is around a match.", PATTERNS)
@flag("-x --line-regexp", "A match is a whole line.", PATTERNS)
@flag("-U --multiline", "Matches may have line breaks; ^ and $ are those of the file.", PATTERNS)
@flag("--blobs", "Search text, and what runs of base64 and hex in it encode.", WHERE)
@flag("--only-blobs", "Search what these runs encode, and no text.", WHERE)
@option(
    "--min-blob",
    "Characters of the shortest run of base64; of hex, of as many bytes.",
    WHERE,
    metavar="N",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
)
@option(
    "--decode",
    "Search in what the files encode, not in their bytes.",
    WHERE,
    type=click.Choice(("base64", "base64url", "hex")),
)
@flag("--strict", "With --decode: blanks and line breaks are errors. Without it they are skipped.", WHERE)
@flag(
    "-z --search-zip",
    "Search in what gzip, bzip2 and xz compress, and in the members of zip archives.",
    WHERE,
)
@flag("-a --text", "Print lines of binary files, too.", WHERE)
@flag("-r -R --recursive", "Search all files in folders; by default in the current one.", FILES)
@option(
    "--include",
    "Search files with such names alone; may be given again.",
    FILES,
    metavar="GLOB",
    multiple=True,
)
@option(
    "--exclude", "Leave out files with such names; may be given again.", FILES, metavar="GLOB", multiple=True
)
@option(
    "--exclude-dir",
    "Leave out folders with such names; may be given again.",
    FILES,
    metavar="GLOB",
    multiple=True,
)
@option(
    "-g --glob",
    "Search files that fit alone, or with ! none that do, as .gitignore has it; may be given again.",
    FILES,
    metavar="GLOB",
    multiple=True,
)
@option(
    "-t --type",
    "Search files of a type alone; may be given again.",
    FILES,
    type=click.Choice(sorted(TYPES)),
    metavar="TYPE",
    multiple=True,
)
@option(
    "-T --type-not",
    "Leave out files of a type; may be given again.",
    FILES,
    type=click.Choice(sorted(TYPES)),
    metavar="TYPE",
    multiple=True,
)
@option(
    "--type-list",
    "Print the types and the names of their files, and exit.",
    FILES,
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_types,
)
@flag("--hidden", "Without -r: search hidden files and folders, too.", FILES)
@flag("--no-ignore", "Without -r: search what .gitignore and .ignore name, too.", FILES)
@flag("-n --line-number", "Print numbers of lines, from 1.", OUTPUT)
@flag("-b --byte-offset", "Print the offset of each line, from 0, or of the match with -o.", OUTPUT)
@flag("-v --invert-match", "Print the lines that do not match.", OUTPUT)
@option(
    "-A --after-context",
    "Print so many lines behind each one that matches.",
    OUTPUT,
    metavar="N",
    type=_COUNT,
)
@option(
    "-B --before-context",
    "Print so many lines before each one that matches.",
    OUTPUT,
    metavar="N",
    type=_COUNT,
)
@option("-C --context", "Print so many lines before and behind.", OUTPUT, metavar="N", type=_COUNT, default=0)
@flag("-c --count", "Print how many lines match in each file, and how much is found in blobs.", OUTPUT)
@flag("-l --files-with-matches", "Print the names of files that have a match.", OUTPUT)
@flag("-L --files-without-match", "Print the names of files that have none.", OUTPUT)
@option("-m --max-count", "Look at no more of a file after so many lines.", OUTPUT, metavar="N", type=_COUNT)
@flag("-o --only-matching", "Print matches alone; of findings, without their offsets.", OUTPUT)
@flag("--overlapping", "Show all matches, those too that overlap others.", OUTPUT)
@flag("-q --quiet", "Print nothing, and end at the first match.", OUTPUT)
@flag("-s --no-messages", "Print no errors of files that cannot be read.", OUTPUT)
@option(
    "-H/-h --with-filename/--no-filename",
    "Print names of files, or none. By default, names if there may be several files.",
    OUTPUT,
    default=None,
)
@flag("--json", "Print an object of JSON for each match.", OUTPUT)
@flag("--sarif", "Print a log of SARIF 2.1.0.", OUTPUT)
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
@option("--target", "Search large files on a GPU, or on the CPU.", type=click.Choice(("cpu", "cuda")))
@max_input_option("64M")
@common_options("vyre-scan")
@click.pass_context
def command(ctx: click.Context, /, arguments: tuple[str, ...], **values: Any) -> int:
    """Search files (- or none for stdin) for patterns and rules, also within what base64 and hex in them encode.

    Made for many patterns at once, and for secrets that encoded blobs hide. For one plain pattern in a tree ripgrep is faster.
    """
    options = ScanOptions(**values)
    _check(options, ctx)
    patterns, paths = _patterns(options, list(arguments), ctx)
    if not paths and not options.recursive:
        paths = [STDIN]
    gc.enable()  # a tool runs for a moment, says `run_tool`; this one may for hours
    return _Scan(options, patterns, paths).run()


def _check(options: ScanOptions, ctx: click.Context) -> None:
    """Raise UsageError for options that contradict each other."""
    has_blobs = options.blobs or options.only_blobs
    is_record = options.json or options.sarif
    has_context = options.context or options.before_context or options.after_context
    wrong = (
        (options.strict and options.decode is None, "--strict is of --decode"),
        (options.decode and has_blobs, "--decode searches what whole files encode, --blobs pieces of them"),
        (
            not has_blobs and ctx.get_parameter_source("min_blob") is not ParameterSource.DEFAULT,
            "--min-blob is of --blobs and --only-blobs",
        ),
        (options.json and options.sarif, "--json and --sarif are two forms of output"),
        (
            is_record and (options.count or options.is_brief or options.only_matching),
            "--json and --sarif print whole matches; leave out -c, -l, -L, -o and -q",
        ),
        (
            (options.invert_match or has_context) and (options.is_whole or options.decode or is_record),
            "-v, -A, -B and -C are of lines, which -U, --rules, --decode, --json and --sarif do not print",
        ),
        (options.rules and (options.extended_regexp or options.word_regexp or options.line_regexp),
         "--rules says what its expressions are; leave out -E, -w and -x"),
    )  # fmt: skip
    for is_wrong, message in wrong:
        if is_wrong:
            raise click.UsageError(message, ctx)


def _patterns(
    options: ScanOptions, arguments: list[str], ctx: click.Context
) -> tuple[PatternList, list[str]]:
    """The patterns, and the arguments that are files."""
    from .patterns import PatternList

    patterns = PatternList()
    if options.rules is not None:
        if options.regexp or options.file:
            raise click.UsageError("--rules has all patterns; leave out -e and -f", ctx)
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


@dataclass(slots=True)
class _Batch:
    """Small documents that are searched together."""

    names: list[str] = field(default_factory=list)
    contents: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, name: str, content: bytes) -> bool:
        """Whether it is full now."""
        self.names.append(name)
        self.contents.append(content)
        self.size += len(content)
        return self.size >= BATCH_BYTES or len(self.names) == BATCH_DOCUMENTS


class _Done(Exception):
    """Nothing more is to be searched."""


class _Scan:
    """A search through documents, one after the other."""

    def __init__(self, options: ScanOptions, patterns: PatternList, paths: list[str]) -> None:
        self.options, self.patterns, self.paths = options, patterns, paths
        is_folder = any(path != STDIN and os.path.isdir(path) for path in paths)
        shows_name = options.recursive or options.search_zip or len(paths) > 1 or is_folder
        if options.with_filename is not None:
            shows_name = options.with_filename
        self.shows_name, self.is_colored = shows_name, errors.use_color(options.color, sys.stdout)
        self.searches_text = not options.only_blobs and options.decode is None
        self.has_blobs = options.blobs or options.only_blobs
        self.prints_findings = options.is_whole or options.json or options.sarif
        self.is_silent = options.count or options.is_brief
        self.is_each = options.invert_match or options.count or options.files_without_match
        context = (
            options.context if given is None else given
            for given in (options.before_context, options.after_context)
        )
        before, after = context if not self.is_silent else (0, 0)
        most = 1 if options.is_brief else options.max_count
        self.lines = LineReport(
            LineOptions(
                shows_name, options.line_number, options.byte_offset, options.only_matching, options.invert_match,
                before, after, options.text, self.is_silent, self.is_colored, most,
            ),
            self._write,
        )  # fmt: skip
        self.scanner, self.search = self._search()
        self.sarif = Sarif(self._write, __version__, patterns.described()) if options.sarif else None
        self.batch = _Batch()
        self.output = None if self.is_silent else output_file()
        self.out: list[bytes] = []
        self.out_size = 0
        self.has_failed = self.has_matched = False
        self.read = 0  # bytes
        self.bar: Any = None

    def _search(self) -> tuple[Scanner | None, LineSearch | None]:
        """Scanner of blobs and of encoded files, and search of text."""
        options, patterns = self.options, self.patterns
        contents = patterns.contents
        if not contents:  # of an empty file there are none, and nothing matches
            return None, None
        is_plain = len(contents) == 1 and not (
            options.extended_regexp or options.ignore_case or options.is_whole or options.target
        )
        if is_plain and self.searches_text and not self.has_blobs:
            return None, PlainSearch(contents[0], options.bounds)
        from .patterns import scanner_of

        is_bound = options.bounds in ("word", "whole")
        is_regex = options.extended_regexp or options.rules is not None or is_bound
        settings = {
            "encoding": options.decode,
            "caseless": options.ignore_case,
            "strict": options.strict,
            "threads": options.threads,
            "target": options.target,
            "bounds": options.bounds if is_regex else "",
        }
        is_escaped = is_bound and not options.extended_regexp
        scanner = scanner_of(patterns, regex=is_regex, is_escaped=is_escaped, options=settings)
        return scanner, ScannerSearch(scanner, self._overlapping)

    @property
    def _overlapping(self) -> bool:
        """Whether matches hide no others; those of one rule never overlap."""
        return self.options.overlapping or self.options.rules is not None

    # --- documents

    def run(self) -> int:
        """The exit code."""
        if sys.stderr is not None and sys.stderr.isatty():
            from vyre_opt.driver.progress import ProgressBar

            self.bar = ProgressBar("scanning", self._total())
            self.bar.__enter__()
        if self.sarif is not None:
            self.sarif.begin()
        try:
            for path in files_of(self.paths, self._selection(), self.report):
                if self.patterns.rules is None or self.patterns.rules.searches(path):
                    self._file(path)
            self._flush()
        except _Done:
            return 0
        finally:
            if self.bar is not None:
                self.bar.end()
        if self.sarif is not None:
            self.sarif.end()
        self._deliver()
        return 2 if self.has_failed else int(not self.has_matched)

    def _selection(self) -> Selection:
        options = self.options
        return Selection(
            options.recursive, options.hidden, options.no_ignore, options.include, options.exclude,
            options.exclude_dir, options.glob, options.type, options.type_not,
        )  # fmt: skip

    def _total(self) -> int | None:
        """MiB of all files, if they are known."""
        try:
            return sum(os.stat(path).st_size for path in self.paths) // MIB + 1 if self.paths else None
        except (OSError, ValueError):  # which will be reported
            return None

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
                inner = documents_of(path, content[:8] if content is not None else _head(path))
                if inner is not None:
                    for name, parts in inner:
                        self._stream(name, parts)
                    return
            if content is None:
                self._stream(path, open_parts(path, self.output))
            elif options.decode is not None:
                self._stream(path, iter([content]))
            elif isinstance(self.search, PlainSearch):
                if self.is_each or self.search.literal in content:
                    self._small([path], content, [0], [len(content)])
            elif self.batch.add(path, content):
                self._flush()
        except Unreadable as error:
            self._flush()
            self.report(str(error))

    def _flush(self) -> None:
        """Search the documents that wait."""
        batch, self.batch = self.batch, _Batch()
        if not batch.names:
            return
        begins, at = [], 0
        for content in batch.contents:
            begins.append(at)
            at += len(content) + len(BETWEEN)
        ends = [begin + len(content) for begin, content in zip(begins, batch.contents, strict=True)]
        self._small(batch.names, BETWEEN.join(batch.contents), begins, ends)

    def _small(self, names: list[str], data: bytes, begins: list[int], ends: list[int]) -> None:
        """Search documents, which are slices of `data`."""
        spans: dict[int, list[Span]] = {}
        blobs: dict[int, list[GrepMatch]] = {}
        if self.search is not None and self.searches_text:
            spans = dict(self.search.spans(data, begins, ends))
        if self.scanner is not None and self.has_blobs:
            from ..search.blob_stream import scan_blobs

            options = self.options
            found = scan_blobs(self.scanner, data, min_length=options.min_blob, overlapping=self._overlapping)
            for match in found:
                blobs.setdefault(bisect_right(begins, match.start) - 1, []).append(match)
        for number in range(len(names)) if self.is_each else sorted({*spans, *blobs}):
            begin, end, name = begins[number], ends[number], names[number]
            window = TextWindow()
            count = 0
            if self.prints_findings:
                window.data = data[begin:end]
                inside = spans.get(number, ())
                count += self._findings(
                    name, window, ((a - begin, b - begin, k, data[a:b], "") for a, b, k in inside if a < b)
                )
            elif self.searches_text:
                self.lines.begin(name)
                self.lines.add(data, begin, end, spans.get(number, ()))
                count += self.lines.count
            if number in blobs:
                window.data = window.data or data[begin:end]
                moved = ((m.start - begin, m.end - begin, *m[2:]) for m in blobs[number])
                count += self._findings(name, window, moved)
            self._end(name, count)
        self._progress(len(data))

    def _stream(self, name: str, parts: Iterator[Any]) -> None:
        """Search a document that comes in parts."""
        self._flush()
        options, count = self.options, 0
        by_lines = self.searches_text and not options.is_whole
        window = TextWindow()
        blobs: Any = None
        whole: Any = None
        if self.scanner is not None and self.has_blobs:
            from ..search.blob_stream import BlobStream

            blobs = BlobStream(self.scanner, min_length=options.min_blob, overlapping=self._overlapping)
        if self.scanner is not None and (options.decode or (options.is_whole and self.searches_text)):
            from ..search.grep_stream import GrepStream

            whole = GrepStream(self.scanner, overlapping=self._overlapping)
        self.lines.begin(name)
        try:
            for part in line_parts(parts) if by_lines else parts:
                if by_lines and self.search is not None:
                    spans = next((found for _, found in self.search.spans(part, [0], [len(part)])), [])
                    if options.json or options.sarif:
                        base = window.add(part)
                        found = ((a + base, b + base, k, part[a:b], "") for a, b, k in spans if a < b)
                        count += self._findings(name, window, found)
                    else:
                        before = self.lines.count
                        self.lines.add(part, 0, len(part), spans, is_part=True)
                        count += self.lines.count - before
                        if blobs is not None:
                            window.add(part)
                elif by_lines and options.invert_match:
                    self.lines.add(part, 0, len(part), [], is_part=True)
                    count = self.lines.count
                else:
                    window.add(bytes(part))
                for stream in (whole, blobs):
                    if stream is not None:
                        count += self._findings(name, window, stream.contents(stream.feed(part)))
                self._progress(len(part))
                self._deliver()
                if (count and options.is_brief) or (self.lines.is_done and blobs is None):
                    break
            else:
                for stream in (whole, blobs):
                    if stream is not None:
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
            needs_line = rules is not None or not self.is_silent
            line, column, text = window.line_of(start) if needs_line else (0, 0, b"")
            finding = Finding(
                name, start, end, line, column, text, match, number, self.patterns.contents[number], encoding
            )
            if rules is not None:
                rule = rules.rules[number]
                assert self.scanner is not None
                pattern = self.scanner._tables.expressions[number].pattern
                secret = rules.secret(number, pattern, match)
                content = match if encoding else window.data
                if not rules.accepts(number, name, secret, match, text, content):
                    continue
                finding = Finding(
                    name, start, end, line, column, text, match, number, self.patterns.contents[number], encoding,
                    rule.name, rule.description, secret,
                )  # fmt: skip
            count += 1
            if not self.is_silent:
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
        shown = colored(shown_name(name).encode(errors="surrogateescape"), MAGENTA, self.is_colored)
        if (options.files_with_matches and count) or (options.files_without_match and not count):
            self._write(shown + b"\n")
        elif options.count and not options.is_brief:
            head = shown + colored(b":", CYAN, self.is_colored) if self.shows_name else b""
            self._write(head + b"%d\n" % count)

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
        self.read += count
        if self.bar is not None:
            self.bar.update(self.read // MIB)


def _head(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(8)
    except (OSError, ValueError):  # which will be reported
        return b""


def main(args: Sequence[str] | None = None) -> int:
    """The entry point of the vyre-scan script."""
    return errors.run_tool(command, args, failure=2)
