"""The algebra that canonicalize knows: rules of one op each, by the op's name.

A rule answers with a value that its op always equals, with True once it has made
the op a simpler one in place, or with None.  No rule makes an op dearer, none holds
only nearly: float rules keep infinities, NaN and the sign of zero.
"""

from __future__ import annotations

# Each adds its rules to RULES, behind those of the modules before it.
from . import arithmetic, comparisons, conversions  # noqa: F401  # isort: skip
from .rules import RULES, Site

__all__ = ["RULES", "Site"]
