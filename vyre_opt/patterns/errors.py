"""Patterns that cannot be compiled."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.diagnostics import Diagnostic, DiagnosticError

__all__ = ["LimitExceeded", "PatternError"]


class PatternError(DiagnosticError, ValueError):
    """Wrong patterns, all of a set; `str()` shows each with its place.  `diagnostics`: the same, one by one."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__(diagnostics)


class LimitExceeded(ValueError):
    """Patterns whose automaton is larger than a limit; the message names the limit, and the patterns that exceed it."""
