"""Text to IR: `parse` and `parse_file`."""

from __future__ import annotations

from pathlib import Path

from ..diagnostics import Diagnostic, DiagnosticError, Location, Source, decode
from ..program import Module
from . import tables
from .actions import ModuleActions
from .driver import MAX_ERRORS, run
from .messages import explain
from .scopes import TooDeep

__all__ = ["parse", "parse_file", "parse_source"]

# What a statement or an item can start with: where parsing goes on after an error.
_STARTERS = (
    "RESULTS NAME KERNEL STRING BUFFER SPEC LAUNCH HOST_READ PROGRAM FUNC PIPELINE "
    "FOR WHILE IF REGION CALL TRAP"
).split()


class _Parser(ModuleActions):
    def syntax_error(self, state: int, terminal: int, start: int, end: int) -> None:
        message, help = explain(self.source.text, tables.load(), state, terminal, start, end)
        self.error(message, start, max(end, start + 1), help=help)


def parse_source(source: Source) -> Module:
    """The module that `source` holds, not yet verified.

    Raises DiagnosticError with every error found (at most 20).
    """
    loaded = tables.load()
    starters = frozenset(loaded.number(name) for name in _STARTERS)
    actions = _Parser(source)
    if "\0" in source.text:
        at = source.text.index("\0")
        message = "a NUL byte; this is not a text"
        raise DiagnosticError([Diagnostic("error", message, Location(source, at, at + 1))])
    try:
        run(source.text, loaded, actions, starters)
    except TooDeep:
        pass
    if actions.diagnostics:
        found = sorted(actions.diagnostics, key=lambda d: d.loc.start if d.loc else 0)
        if len(found) > MAX_ERRORS:
            found[MAX_ERRORS - 1].note(f"{len(found) - MAX_ERRORS} more errors follow")
        raise DiagnosticError(found[:MAX_ERRORS])
    return actions.module


def parse(text: str, name: str = "<string>") -> Module:
    """The module that `text` holds.  `name` stands for a file's in messages.

    Raises DiagnosticError with every error found, those of the verifier included.
    """
    from ..verifier import check

    module = parse_source(Source(text, name))
    check(module)
    return module


def parse_file(path: str | Path) -> Module:
    """The module in a UTF-8 file.  Raises OSError, or DiagnosticError as `parse` does."""
    return parse(decode(Path(path).read_bytes(), str(path)), str(path))
