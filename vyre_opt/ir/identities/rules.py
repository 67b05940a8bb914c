"""The table of rewrite rules, and the queries on values that they share."""

from __future__ import annotations

from collections.abc import Callable

from .. import arith
from ..program import Op, Program, Value
from ..rewrite import become, constant, constant_value
from ..types import DataType

__all__ = ["RULES", "Rule", "Site", "defined_by", "int_min", "int_max", "rule", "scalar", "set_constant"]


class Site:
    """The place of the op to rewrite.  `out` takes new ops, which go before it; `program` is None in a function."""

    def __init__(self) -> None:
        self.out: list[Op] = []
        self.program: Program | None = None

    def const(self, value: int, dtype: DataType, like: Op) -> Value:
        """A new constant, in all lanes of a vector type."""
        op = constant(value, dtype, f"c{value}" if dtype.is_int and value >= 0 else "c", like)
        self.out.append(op)
        return op.result


Rule = Callable[[Op, Site], Value | bool | None]
RULES: dict[str, list[Rule]] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Decorator: apply the rule to these ops, after those declared before it."""

    def add(function: Rule) -> Rule:
        for name in names:
            RULES.setdefault(name, []).append(function)
        return function

    return add


def scalar(value: Value) -> int | None:
    """The encoded constant if all lanes of `value` are the same one, else None."""
    known = constant_value(value)
    return known if isinstance(known, int) else None


def defined_by(value: Value, *names: str) -> Op | None:
    owner = value.owner
    return owner if isinstance(owner, Op) and owner.name in names else None


def set_constant(op: Op, value: int) -> bool:
    """Make `op` a constant."""
    return become(op, "const", (), {"value": value})


def int_min(t: DataType) -> int:
    return arith.int_range(t)[0]


def int_max(t: DataType) -> int:
    return arith.int_range(t)[1]
