"""Warnings of a kernel or a pipeline that translates, and is probably not what was meant, at its lines."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..ir.diagnostics import Diagnostic, DiagnosticError, render

__all__ = ["ProgramWarning", "give_warnings"]


class ProgramWarning(UserWarning):
    """A warning of a kernel or a pipeline, which its author gets when it is translated, at the line that it is about."""


_given: dict[str, dict[Any, Any]] = {}
"""Notes of Python on its warnings by file, so that it shows one of them once."""


def give_warnings(diagnostics: Sequence[Diagnostic]) -> None:
    """Raises DiagnosticError for those that are errors; the others are given as warnings of Python."""
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
    if errors:
        raise DiagnosticError(errors)
    for diagnostic in diagnostics:
        loc = diagnostic.loc
        if loc is None:
            warnings.warn(diagnostic.message, ProgramWarning, stacklevel=2)
            continue
        text = render(diagnostic).removeprefix(f"{loc}: warning: ")
        given = _given.setdefault(loc.source.name, {})
        warnings.warn_explicit(text, ProgramWarning, loc.source.name, loc.line, registry=given)
