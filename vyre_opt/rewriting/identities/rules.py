"""The table of rewrite rules, and the queries on values that they share."""

from __future__ import annotations

from collections.abc import Callable

from ...ir import arith
from ...ir.program import Op, Value
from ...ir.rewrite import become, constant_value
from ...ir.types import DataType
from ..pattern import Pattern, Rewrite, pattern_on

__all__ = ["RULES", "add", "defined_by", "int_max", "int_min", "rule", "scalar", "set_constant"]

RULES: list[Pattern] = []
"""All rules, in the order in which they are tried."""


def add(pattern: Pattern) -> Pattern:
    """Append a pattern to the table."""
    RULES.append(pattern)
    return pattern


def rule(*names: str) -> Callable[[Rewrite], Pattern]:
    """Decorator: try the rule on these ops, after those declared before it."""

    def of(function: Rewrite) -> Pattern:
        return add(pattern_on(*names)(function))

    return of


def scalar(value: Value) -> int | None:
    """The encoded constant if all lanes of `value` are the same one, else None."""
    known = constant_value(value)
    return known if isinstance(known, int) else None


def defined_by(value: Value, *names: str) -> Op | None:
    owner = value.owner
    return owner if isinstance(owner, Op) and owner.name in names else None


def set_constant(op: Op, value: int) -> bool:
    """Make `op` a constant; a slice stays, since there are no constant slices."""
    return not op.result.type.is_slice and become(op, "const", (), {"value": value})


def int_min(t: DataType) -> int:
    return arith.int_range(t)[0]


def int_max(t: DataType) -> int:
    return arith.int_range(t)[1]
