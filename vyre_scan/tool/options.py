"""Options of vyre-scan: what is on the command line, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import click
from click.core import ParameterSource

from vyre_opt.cli import errors
from vyre_opt.cli.command import FC, common_options, flag, max_input_option, option
from vyre_opt.cli.completers import complete_files

from .walk import TYPES

__all__ = ["ScanOptions", "scan_options"]

PATTERNS, WHERE, FILES, OUTPUT = "Patterns", "Where to search", "Which files", "Output"
MOST_THREADS = 1024
_COUNT = click.IntRange(min=0)
_TYPE = click.Choice(sorted(TYPES))


class ScanOptions(SimpleNamespace):
    """The values of the command line, by the names of the options, and what they mean together."""

    @property
    def is_brief(self) -> bool:
        """Whether one match of a document says all."""
        return bool(self.quiet or self.files_with_matches or self.files_without_match)

    @property
    def is_silent(self) -> bool:
        """Whether matches are not printed."""
        return bool(self.count or self.is_brief)

    @property
    def is_whole(self) -> bool:
        """Whether documents are searched as a whole, and not by lines."""
        return self.multiline or self.rules is not None

    @property
    def has_blobs(self) -> bool:
        return bool(self.blobs or self.only_blobs)

    @property
    def searches_text(self) -> bool:
        return not self.only_blobs and self.decode is None

    @property
    def prints_findings(self) -> bool:
        """Whether matches in text are printed as findings, and not by lines."""
        return bool(self.is_whole or self.json or self.sarif)

    @property
    def shows_overlapping(self) -> bool:
        """Whether matches hide no others; those of one rule never overlap."""
        return self.overlapping or self.rules is not None

    @property
    def bounds(self) -> str:
        """Bounds of matches of expressions; see patterns.pattern_list."""
        if self.line_regexp or self.word_regexp:
            return "whole" if self.line_regexp else "word"
        return "" if self.is_whole or self.decode else "line"

    def check(self, ctx: click.Context) -> None:
        """Raise UsageError for options that contradict each other."""
        is_record = self.json or self.sarif
        has_context = self.context or self.before_context or self.after_context
        has_min_blob = ctx.get_parameter_source("min_blob") is not ParameterSource.DEFAULT
        wrong = (
            (self.strict and self.decode is None, "--strict is of --decode: write --decode, too"),
            (self.decode and self.has_blobs, "--decode searches what whole files encode, --blobs pieces of them"),
            (has_min_blob and not self.has_blobs, "--min-blob is of --blobs and --only-blobs: write --blobs, too"),
            (self.json and self.sarif, "--json and --sarif are two forms of output"),
            (is_record and (self.count or self.is_brief or self.only_matching),
             "--json and --sarif print whole matches; leave out -c, -l, -L, -o and -q"),
            ((self.invert_match or has_context) and (self.is_whole or self.decode or is_record),
             "-v, -A, -B and -C are of lines, which -U, --rules, --decode, --json and --sarif do not print"),
            (self.rules and (self.extended_regexp or self.word_regexp or self.line_regexp),
             "--rules says what its expressions are; leave out -E, -w and -x"),
            (self.rules and (self.regexp or self.file), "--rules has all patterns; leave out -e and -f"),
        )  # fmt: skip
        for is_wrong, message in wrong:
            if is_wrong:
                raise click.UsageError(message, ctx)


def _types(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        errors.write_stdout("".join(f"{name}: {', '.join(globs)}\n" for name, globs in sorted(TYPES.items())))
        ctx.exit()


def _several(names: str, help: str, metavar: str, group: str, **attrs: Any) -> Callable[[FC], FC]:
    return option(names, f"{help}; may be given again.", group, metavar=metavar, multiple=True, **attrs)


def _lines(names: str, help: str, default: int | None = None) -> Callable[[FC], FC]:
    return option(names, help, OUTPUT, metavar="N", type=_COUNT, default=default)


# fmt: off
_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    _several("-e --regexp", "Search for a pattern", "PATTERN", PATTERNS),
    option("-f --file", "Search for the lines of a file; empty lines are left out.", PATTERNS, metavar="FILE",
           multiple=True, shell_complete=complete_files),
    option("--rules", "Search for the rules of a file, as gitleaks has them in TOML.", PATTERNS, metavar="FILE",
           shell_complete=complete_files),
    option("-E/-F --extended-regexp/--fixed-strings",
           "Patterns are regular expressions, in Python's syntax, or strings (the default).", PATTERNS),
    flag("-i --ignore-case", "Letters of ASCII match in either case.", PATTERNS),
    flag("-w --word-regexp", "No letter, digit or _ is around a match.", PATTERNS),
    flag("-x --line-regexp", "A match is a whole line.", PATTERNS),
    flag("-U --multiline", "Matches may have line breaks; ^ and $ are those of the file.", PATTERNS),
    flag("--blobs", "Search text, and what runs of base64 and hex in it encode.", WHERE),
    flag("--only-blobs", "Search what these runs encode, and no text.", WHERE),
    option("--min-blob", "Characters of the shortest run of base64; of hex, of as many bytes.", WHERE, metavar="N",
           type=click.IntRange(min=1), default=16, show_default=True),
    option("--decode", "Search in what the files encode, not in their bytes.", WHERE,
           type=click.Choice(("base64", "base64url", "hex"))),
    flag("--strict", "With --decode: blanks and line breaks are errors. Without it they are skipped.", WHERE),
    flag("-z --search-zip", "Search in what gzip, bzip2 and xz compress, and in the members of zip archives.", WHERE),
    flag("-a --text", "Print lines of binary files, too.", WHERE),
    flag("-r -R --recursive", "Search all files in folders; by default in the current one.", FILES),
    _several("--include", "Search files with such names alone", "GLOB", FILES),
    _several("--exclude", "Leave out files with such names", "GLOB", FILES),
    _several("--exclude-dir", "Leave out folders with such names", "GLOB", FILES),
    _several("-g --glob", "Search files that fit alone, or with ! none that do, as .gitignore has it", "GLOB", FILES),
    _several("-t --type", "Search files of a type alone", "TYPE", FILES, type=_TYPE),
    _several("-T --type-not", "Leave out files of a type", "TYPE", FILES, type=_TYPE),
    option("--type-list", "Print the types and the names of their files, and exit.", FILES, is_flag=True,
           is_eager=True, expose_value=False, callback=_types),
    flag("--hidden", "Without -r: search hidden files and folders, too.", FILES),
    flag("--no-ignore", "Without -r: search what .gitignore and .ignore name, too.", FILES),
    flag("-n --line-number", "Print numbers of lines, from 1.", OUTPUT),
    flag("-b --byte-offset", "Print the offset of each line, from 0, or of the match with -o.", OUTPUT),
    flag("-v --invert-match", "Print the lines that do not match.", OUTPUT),
    _lines("-A --after-context", "Print so many lines behind each one that matches."),
    _lines("-B --before-context", "Print so many lines before each one that matches."),
    _lines("-C --context", "Print so many lines before and behind.", 0),
    flag("-c --count", "Print how many lines match in each file, and how much is found in blobs.", OUTPUT),
    flag("-l --files-with-matches", "Print the names of files that have a match.", OUTPUT),
    flag("-L --files-without-match", "Print the names of files that have none.", OUTPUT),
    _lines("-m --max-count", "Look at no more of a file after so many lines."),
    flag("-o --only-matching", "Print matches alone; of findings, without their offsets.", OUTPUT),
    flag("--overlapping", "Show all matches, those too that overlap others.", OUTPUT),
    flag("-q --quiet", "Print nothing, and end at the first match.", OUTPUT),
    flag("-s --no-messages", "Print no errors of files that cannot be read.", OUTPUT),
    option("-H/-h --with-filename/--no-filename",
           "Print names of files, or none. By default, names if there may be several files.", OUTPUT, default=None),
    flag("--json", "Print an object of JSON for each match.", OUTPUT),
    flag("--sarif", "Print a log of SARIF 2.1.0.", OUTPUT),
    option("--color", "Colour matches; auto does on a terminal, and minds NO_COLOR.", OUTPUT,
           type=click.Choice(("auto", "always", "never")), default="auto"),
    option("--threads", "Threads that search; by default as many as CPUs.", metavar="N",
           type=click.IntRange(1, MOST_THREADS)),
    option("--target", "Search large files on a GPU, or on the CPU.", type=click.Choice(("cpu", "cuda"))),
    max_input_option("64M"),
    common_options("vyre-scan"),
)
# fmt: on


def scan_options(function: Any) -> Any:
    """Give a function all options; the help lists them in their order."""
    for decorate in reversed(_OPTIONS):
        function = decorate(function)
    return function
