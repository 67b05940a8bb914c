"""Patterns that cannot be compiled."""

from __future__ import annotations

from collections.abc import Sequence

from vyre_opt.ir.diagnostics import Diagnostic, DiagnosticError

__all__ = ["PatternError"]


class PatternError(DiagnosticError, ValueError):
    """Wrong patterns, all of a set; `str()` shows each with its place.  `diagnostics`: the same, one by one."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__(diagnostics)
