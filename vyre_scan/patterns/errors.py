"""Patterns that cannot be compiled."""

from __future__ import annotations

from vyre_opt.ir.diagnostics import DiagnosticError

__all__ = ["PatternError"]


class PatternError(DiagnosticError, ValueError):
    """Wrong patterns, all of a set; `str()` shows each with its place.  `diagnostics`: the same, one by one."""
