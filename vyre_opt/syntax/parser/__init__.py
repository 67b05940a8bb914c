"""Text to IR: `parse` and `parse_file`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.bounded_read import read_file
from ...ir.diagnostics import Diagnostic, DiagnosticError, Location, Source, decode, shown
from ...ir.program import Module
from ...ir.tracebacks import public
from . import tables
from .locations import ReadOriginal, place_locations
from .parse_loop import MAX_ERRORS, Shortcut, run
from .recovery import OtherLanguage, RecoveringActions
from .scopes import TooDeep

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PARSERS", "ReadOriginal", "parse", "parse_file", "parse_source"]

# The terminals that can start a statement or an item: there parsing goes on after an error.
_STARTERS = (
    "RESULTS NAME KERNEL STRING BUFFER SPEC LAUNCH HOST_READ REPEAT PROGRAM FUNC PIPELINE "
    "FOR WHILE IF REGION CALL TRAP ASSERT DEBUG_PRINT"
).split()

PARSERS = ("tables", "lark")
"""Reader of a text: the parse loop by Lark's tables, or Lark itself."""

LONG_TEXT = 8192
"""Characters from which on a text is read by the fast path: some 200 ops, which take longer than to make its pattern."""


def parse_source(
    source: Source, read_original: ReadOriginal = lambda name: None, parser: str = "tables"
) -> Module:
    """The module of a text, not yet verified.

    `parser`: one of PARSERS; Lark alone takes some twenty times as long, and reports the first syntax error only.

    `read_original`: reads the files that locations in the text name.  Without it none is read, since a text from
    anywhere may name any file.
    Raises DiagnosticError with the syntax errors and those that the verifier finds in what could be
    built in spite of them, at most 20 in all.  A text without syntax errors is not verified.
    """
    actions = RecoveringActions(source)
    if (error := nul_byte(source)) is not None:
        raise DiagnosticError([error])
    read(actions, parser)
    assert actions.diagnostics or not actions.is_incomplete, "text was discarded without an error"
    if actions.diagnostics:
        raise DiagnosticError(_all_errors(actions))
    if actions.placed:
        place_locations(actions.placed, read_original)
    return actions.module


def read(actions: RecoveringActions, parser: str = "tables") -> None:
    """Call the actions for what their source has."""
    try:
        if parser == "lark":
            from .lark_parser import read_by_lark

            read_by_lark(actions)
        else:
            loaded = tables.load()
            starters = frozenset(loaded.number(name) for name in _STARTERS)
            run(actions.source.text, loaded, actions, starters, _shortcut(loaded, actions))
    except (TooDeep, OtherLanguage):
        actions.aborted([])


def _shortcut(loaded: tables.Tables, actions: RecoveringActions) -> Shortcut | None:
    """The fast path, for a text that is worth its import and its pattern."""
    if len(actions.source.text) < LONG_TEXT:
        return None
    from .fast_path import FastPath

    return FastPath(loaded, actions)


def nul_byte(source: Source) -> Diagnostic | None:
    """The error about the first NUL byte of what is no text."""
    at = source.text.find("\0")
    message = "a NUL byte; this is not a text"
    return Diagnostic("error", message, Location(source, at, at + 1)) if at >= 0 else None


def _all_errors(actions: RecoveringActions) -> list[Diagnostic]:
    """Errors of the parser and of the verifier in the order of the text, at most MAX_ERRORS."""
    from ...ir.verifier import errors_of

    errors = actions.distinct_diagnostics()
    errors += errors_of(actions.module, actions.holes)
    errors.sort(key=lambda d: d.loc.start if d.loc else 0)
    if len(errors) > MAX_ERRORS:
        errors[MAX_ERRORS - 1].note(f"{len(errors) - MAX_ERRORS} more errors follow")
    return shown(errors[:MAX_ERRORS])


@public
def parse(text: str, name: str = "<string>", *, parser: str = "tables") -> Module:
    """The verified module that `text` holds.  `name` is the file name shown in messages.

    `parser`: `tables`, or `lark` for Lark alone, which gives the same and takes longer.
    Raises DiagnosticError with the errors of the parser and the verifier, ValueError for another parser.
    """
    from ...ir.verifier import check

    if parser not in PARSERS:
        raise ValueError(f"parser is {' or '.join(PARSERS)}, not {parser}")
    module = parse_source(Source(text, name), parser=parser)
    check(module)
    return module


@public
def parse_file(path: str | Path) -> Module:
    """The module in a UTF-8 file of at most 1 GiB.  Raises OSError, or DiagnosticError as `parse` does."""
    return parse(decode(read_file(path), str(path)), str(path))
