"""Constants in the place of operands: `add %i, 1 : u32`, where the op or the position says of which type they are.

The parser reads what the printer writes: both ask `constant_roles`.
"""

from __future__ import annotations

from collections.abc import Iterator

from .formats import FORMATS
from .ops import OpDef
from .program import Block, Op, Value
from .rewrite import every_op
from .types import DataType

__all__ = ["constant_roles", "constants_in_place", "used_constants"]

_FIXED = {"u32": DataType.U32, "bool": DataType.BOOL}


def constant_roles(row: OpDef, count: int) -> list[str]:
    """For each of `count` operands of an op, the type of a constant in its place; see `OpFormat.constants`."""
    pattern = FORMATS[row.format].constants.split()
    if row.format == "atomic":
        pattern += ["T"] * (row.atomic_values - 1)
    roles: list[str] = []
    for role in pattern:
        repeated = count - len(pattern) + 1 if role.endswith("...") else 1
        roles += [role.removesuffix("...")] * repeated
    return roles


def fixed_type(role: str) -> DataType | None:
    """The type of a constant whose position says it."""
    return _FIXED.get(role)


def constants_in_place(body: Block) -> set[Value]:
    """The constants without a name that can stand in place wherever they are used, and are used."""
    used: set[Value] = set()
    refused: set[Value] = set()
    for op, place, value in _uses(body):
        if not value.is_unnamed_constant:
            continue
        used.add(value)
        if value not in refused and not _may_stand(op, place, value):
            refused.add(value)
    return used - refused


def used_constants(body: Block) -> set[Value]:
    """The constants that are operands."""
    return {value for _, _, value in _uses(body)}


def _uses(body: Block) -> Iterator[tuple[Op, int, Value]]:
    """Each constant operand with its op and its place among the op's operands."""
    for op in every_op(body):
        for place, operand in enumerate(op.operands):
            owner = operand.owner
            if isinstance(owner, Op) and owner.definition.format == "const":
                yield op, place, operand


def _may_stand(op: Op, place: int, value: Value) -> bool:
    """Whether the text of `op` says that a literal in this place has the type of `value`."""
    roles = constant_roles(op.definition, len(op.operands))
    if op.name == "for":  # numbers among the bounds are attributes, and no constants
        roles = ["-"] * (len(op.operands) - len(op.results)) + roles
    role = roles[place] if place < len(roles) else "-"
    return role != "-" and fixed_type(role) in (None, value.type)
