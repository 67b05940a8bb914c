"""Text to IR: `parse` and `parse_file`."""

from __future__ import annotations

from pathlib import Path

from ..diagnostics import Diagnostic, DiagnosticError, Location, Source, decode
from ..program import Module
from . import tables
from .driver import MAX_ERRORS, run
from .recovery import Recovery
from .scopes import TooDeep

__all__ = ["parse", "parse_file", "parse_source"]

# The terminals that a statement or an item can start with: parsing resumes at one after an error.
_STARTERS = (
    "RESULTS NAME KERNEL STRING BUFFER SPEC LAUNCH HOST_READ REPEAT PROGRAM FUNC PIPELINE "
    "FOR WHILE IF REGION CALL TRAP"
).split()


def parse_source(source: Source) -> Module:
    """The module of a text, not yet verified.

    Raises DiagnosticError with all errors, at most 20.  They include those that the verifier
    finds in the module that could be built despite syntax errors.
    """
    loaded = tables.load()
    starters = frozenset(loaded.number(name) for name in _STARTERS)
    actions = Recovery(source)
    if "\0" in source.text:
        at = source.text.index("\0")
        message = "a NUL byte; this is not a text"
        raise DiagnosticError([Diagnostic("error", message, Location(source, at, at + 1))])
    try:
        run(source.text, loaded, actions, starters)
    except TooDeep:
        actions.stopped([])
    assert actions.diagnostics or not actions.gave_up, "nothing is left out without an error"
    if actions.diagnostics:
        raise DiagnosticError(_all_errors(actions))
    return actions.module


def _all_errors(actions: Recovery) -> list[Diagnostic]:
    """The errors of the parser and the verifier in the order of the text, at most 20."""
    from ..verifier import verify

    errors = actions.diagnostics + [d for d in verify(actions.module, actions.holes) if d.severity == "error"]
    errors.sort(key=lambda d: d.loc.start if d.loc else 0)
    if len(errors) > MAX_ERRORS:
        errors[MAX_ERRORS - 1].note(f"{len(errors) - MAX_ERRORS} more errors follow")
    return errors[:MAX_ERRORS]


def parse(text: str, name: str = "<string>") -> Module:
    """The verified module of a text.  `name` is the file name in messages.

    Raises DiagnosticError with all errors, including those of the verifier.
    """
    from ..verifier import check

    module = parse_source(Source(text, name))
    check(module)
    return module


def parse_file(path: str | Path) -> Module:
    """The module in a UTF-8 file.  Raises OSError, or DiagnosticError as `parse` does."""
    return parse(decode(Path(path).read_bytes(), str(path)), str(path))
