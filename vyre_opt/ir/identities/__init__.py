"""Algebraic identities for canonicalize: rewrite rules of a single op, by the op's name.

A rule returns a value that is equal to its op's result, True if it turned the op into a
simpler one in place, or None if it does not apply.  No rule makes an op more expensive, and all are
exact: rules on floats preserve infinities, NaN and the sign of zero.
"""

from __future__ import annotations

# Each module appends its rules to RULES, so the order of the imports is that of the rules.
from . import arithmetic, comparisons, conversions  # noqa: F401  # isort: skip
from .rules import RULES, Site

__all__ = ["RULES", "Site"]
