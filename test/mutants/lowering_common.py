"""Mistakes in the arithmetic that all targets share."""

from __future__ import annotations

from .mutant import Mutant

__all__ = ["MUTANTS"]


MUTANTS = ()
