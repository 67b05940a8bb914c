"""Rewriting by patterns: what they are, how they are written, and the driver that applies them.

pattern     Pattern, and `pattern_on`, which makes one of a function
terms       `pattern`, which makes one of a term to match and a term to build
rewriter    the builder of what takes a match's place
uses        how often values are used, for patterns that ask
driver      `apply_patterns`
"""

from __future__ import annotations

from .driver import GreedyDriver, apply_patterns
from .pattern import Pattern, PatternSet, Replacement, pattern_on
from .rewriter import Rewriter
from .terms import const, one_use, op, pattern

__all__ = [
    "GreedyDriver",
    "Pattern",
    "PatternSet",
    "Replacement",
    "Rewriter",
    "apply_patterns",
    "const",
    "one_use",
    "op",
    "pattern",
    "pattern_on",
]
