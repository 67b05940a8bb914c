"""Conditions that elements of arrays decide, and for which invocations each of them may hold.

    gt %v, 0.0          %v = load @x[%i]: may hold for any invocations at once
    gt %v, %w           %w = load @x[%j]: for one of two neighbours alone, where they compare the same elements
    eq %c, 3            %c = load @colour[%i]: elements of @colour may have been chosen so that no two neighbours are alike
    eq %i, %k           %i = global_id x, %k = load @n[0]: for one invocation
    eq %old, 0          %old = atomic_exchange ...: for one, which has taken something

The first may be assumed of two invocations whatever they access; the second and the third only where they access the array that
they ask, which the other one changes then.  The last two are not assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...records import dataclass
from ..program import Block, Op, Value
from ..uniformity import Level, Uniformity

__all__ = ["IDS", "Assumption", "assumption", "leaves", "varies"]

_MOST_TERMS = 50
"""Ops of a condition that are looked at."""
_ORDERED = ("lt", "le", "gt", "ge")
IDS = ("global_id", "local_id", "lane_id", "subgroup_id", "workgroup_id")


@dataclass(frozen=True, slots=True)
class Assumption:
    """A condition that may hold.  `asked`: buffers whose elements may be such that it holds for no two invocations at once.
    `level`: the group that has it together, which goes one way."""

    asked: frozenset[str]
    level: Level


def assumption(
    condition: Value, holds: bool, uniformity: Uniformity, is_known: Callable[[Value], bool]
) -> Assumption | None:
    """Facts that are assumed where a condition holds, or does not; None for one that may keep all invocations but one out.  `is_known`: parts of
    the condition that ids decide."""
    asked: set[str] = set()
    pending = [(condition, holds)]
    for _ in range(_MOST_TERMS):
        if not pending:
            return Assumption(frozenset(asked), uniformity.level(condition))
        value, is_true = pending.pop()
        op = value.owner
        if is_known(value):
            continue
        if not isinstance(op, Op):
            return None
        if op.name == "not":
            pending.append((op.operands[0], not is_true))
        elif op.name in ("and", "or") and value.type.is_bool:
            pending += [(operand, is_true) for operand in op.operands]
        elif op.name == "if":
            ends = [region.terminator for region in op.regions]
            pending.append((op.operands[0], True))
            pending += [(end.operands[op.results.index(value)], is_true) for end in ends if end is not None]
        else:
            own = _asked(op, is_true, is_known)
            if own is None:
                return None
            asked |= own
    return None


def _asked(op: Op, holds: bool, is_known: Callable[[Value], bool]) -> set[str] | None:
    """Buffers whose elements a comparison, or another bool, may be made of for one invocation alone; None where it is not known."""
    is_comparison = op.definition.format == "compare"
    sides = [leaves(operand, is_known) for operand in (op.operands if is_comparison else [op.result])]
    if any(side is None for side in sides):
        return None
    loads = [[leaf for leaf in side or () if isinstance(leaf, Op) and leaf.name == "load"] for side in sides]
    has_ids = any(isinstance(leaf, Block) or leaf.name in IDS for side in sides for leaf in side or ())
    if has_ids and not any(loads):
        return None
    varying = [[load for load in side if varies(load)] for side in loads]
    buffers = {load.attrs["buffer"] for side in varying for load in side}
    if op.name in _ORDERED:
        return buffers if all(varying) else set()
    may_be_one = (op.name == "eq") is holds or not is_comparison
    return None if has_ids and may_be_one and not buffers else buffers


def varies(load: Op) -> bool:
    """Whether invocations load elements of their own."""
    found = [leaves(index) for index in load.indices]
    return any(
        each is None or any(isinstance(leaf, Block) or leaf.name in (*IDS, "load") for leaf in each)
        for each in found
    )


def leaves(
    value: Value, is_known: Callable[[Value], bool] = lambda value: False
) -> Sequence[Op | Block] | None:
    """The loads, ids and other ops without operands that a value is computed from, and the blocks of arguments that are known; None where
    others, such as atomics, decide it."""
    found: list[Op | Block] = []
    pending = [value]
    for _ in range(_MOST_TERMS):
        if not pending:
            return found
        each = pending.pop()
        op = each.owner
        if isinstance(op, Block) and is_known(each):
            found.append(op)
        elif not isinstance(op, Op) or op.regions:
            return None
        elif op.name == "load" or (op.definition.is_pure and not op.operands):
            found.append(op)
        elif op.definition.is_pure:
            pending += op.operands
        else:
            return None
    return None
