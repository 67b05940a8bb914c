"""Warnings of a kernel or a pipeline that translates, and is probably not what was meant, at its lines."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..ir.diagnostics import Diagnostic, DiagnosticError, render

__all__ = ["ProgramWarning", "also_warned", "collected", "give_warnings"]


class ProgramWarning(UserWarning):
    """A warning of a kernel or a pipeline, which its author gets when it is translated, at the line that it is about."""


_collected: ContextVar[list[Diagnostic] | None] = ContextVar("collected", default=None)
_given: dict[str, dict[Any, Any]] = {}
"""Notes of Python on its warnings by file, so that it shows one of them once."""


def give_warnings(diagnostics: Sequence[Diagnostic]) -> None:
    """Raises DiagnosticError for those that are errors; the others are given as warnings of Python."""
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
    if errors:
        raise DiagnosticError(errors)
    if _collected.get() is not None:
        also_warned(diagnostics)
        return
    for diagnostic in diagnostics:
        loc = diagnostic.loc
        if loc is None:
            warnings.warn(diagnostic.message, ProgramWarning, stacklevel=2)
            continue
        text = render(diagnostic).removeprefix(f"{loc}: warning: ")
        given = _given.setdefault(loc.source.name, {})
        warnings.warn_explicit(text, ProgramWarning, loc.source.name, loc.line, registry=given)


@contextmanager
def collected() -> Iterator[list[Diagnostic]]:
    """A list of the warnings that the body would give, and does not."""
    diagnostics: list[Diagnostic] = []
    token = _collected.set(diagnostics)
    try:
        yield diagnostics
    finally:
        _collected.reset(token)


def also_warned(diagnostics: Sequence[Diagnostic]) -> None:
    """Add warnings that were given before to those of a translation that this is a part of."""
    outer = _collected.get()
    if outer is not None:
        outer += diagnostics
