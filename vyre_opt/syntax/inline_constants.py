"""Constants in the place of operands: `add %i, 1 : u32`, where the op or the position says of which type they are.

The parser reads what the printer writes: both ask `constant_roles`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache

from ..ir.ops import OpDef
from ..ir.program import Block, Op, Value
from ..ir.rewrite import constant_value
from ..ir.types import DataType
from .op_syntax import SYNTAX

__all__ = ["constant_roles", "constants_in_place", "fixed_type", "used_constants"]

_FIXED = {"u32": DataType.U32, "bool": DataType.BOOL}


def _is_unnamed(value: Value) -> bool:
    return value.is_unnamed_constant


def constant_roles(row: OpDef, count: int, is_filled: bool = False) -> tuple[str, ...]:
    """Types of constants in the places of `count` operands of an op; see `OpSyntax.constants`.

    There may be fewer, of an op with too many operands.  `is_filled`: whether the last operand is what a slice has beyond an edge.
    """
    roles = _roles(row.format, count - is_filled, row.atomic_values if row.format == "atomic" else 0)
    return (*roles, "element") if is_filled else roles


@lru_cache(maxsize=1024)
def _roles(format: str, count: int, atomic_values: int) -> tuple[str, ...]:
    row = SYNTAX.get(format)  # an op that a target has for itself has none
    pattern = (row.constants.split() if row else []) + ["T"] * (atomic_values - 1)
    roles: list[str] = []
    for role in pattern:
        repeated = count - len(pattern) + 1 if role.endswith("...") else 1
        roles += [role.removesuffix("...")] * repeated
    return tuple(roles)


def fixed_type(role: str) -> DataType | None:
    """The type of a constant whose position says it."""
    return _FIXED.get(role)


def constants_in_place(body: Block, is_candidate: Callable[[Value], bool] = _is_unnamed) -> list[Value]:
    """The constants, of the candidates, that are used, and can stand in place wherever they are; by first uses.

    Those without a name are the candidates if no others are given.  A list of lanes stands in one place only.
    """
    uses: Counter[Value] = Counter()
    refused: set[Value] = set()
    for op, index, value in _uses(body):
        if is_candidate(value):
            uses[value] += 1
            is_list = isinstance(constant_value(value), tuple)
            if (is_list and uses[value] > 1) or not _may_stand(op, index, value):
                refused.add(value)
    return [value for value in uses if value not in refused]


def used_constants(body: Block) -> set[Value]:
    """The constants that are operands."""
    return {value for _, _, value in _uses(body)}


def _uses(body: Block) -> Iterator[tuple[Op, int, Value]]:
    """Each constant operand with its op and its place among the op's operands."""
    for op in body.walk():
        for index, operand in enumerate(op.operands):
            owner = operand.owner
            if isinstance(owner, Op) and owner.definition.format == "const":
                yield op, index, operand


def role_in(op: Op, index: int) -> str:
    """The role of an operand; see `constant_roles`."""
    is_filled = op.definition.format == "slice_load" and op.attrs["edge"] == "filled"
    roles = constant_roles(op.definition, len(op.operands), is_filled)
    if op.name == "for":  # numbers among the bounds are attributes, and no constants
        roles = ("-",) * (len(op.operands) - len(op.results)) + roles
    return roles[index] if index < len(roles) else "-"


def _may_stand(op: Op, index: int, value: Value) -> bool:
    """Whether the text of `op`, as it is printed, says that a literal in this place has the type of `value`."""
    role = role_in(op, index)
    return role != "-" and fixed_type(role) in (None, value.type)
