"""Algebraic identities for canonicalize: patterns of single ops.

No rule makes an op more expensive, and all are exact: rules on floats preserve infinities, NaN and
the sign of zero.
"""

from __future__ import annotations

# Each module appends its rules to RULES, so the order of the imports is that of the rules.
from . import arithmetic, comparisons, conversions  # noqa: F401  # isort: skip
from .rules import RULES

__all__ = ["RULES"]
