"""Drops ops, with zeros or operands in place of their results, and optional attributes of ops."""

from __future__ import annotations

from ..ir.program import Module, Op, Value
from ..ir.rewrite import bodies
from .removal import is_shared_zero, remove_ops, replace_values
from .variants import Selection

__all__ = ["drop_attributes", "drop_dead_ops", "drop_ops", "forward_operands"]

_WEAKEST = {"order": "relaxed"}
"""Words that ask for less than the others of their attribute."""


def drop_ops(module: Module, selection: Selection) -> None:
    """Ops with all that is in them; zeros stand for results that others use."""
    for body in bodies(module):
        used = {operand for op in body.walk() for operand in op.operands}
        removed = []
        for op in body.walk():
            if op.definition.is_terminator or not all(map(_has_zero, op.results)):
                continue
            if is_shared_zero(op, body) and op.result in used:
                continue
            if selection.drops():
                removed.append(op)
        remove_ops(body, removed)


def _has_zero(result: Value) -> bool:
    return result.type.has_arithmetic


def drop_dead_ops(module: Module, selection: Selection) -> None:
    """Ops that only compute, for nobody; loads are among them."""
    for body in bodies(module):
        used: set[Value] = set()
        dead: list[Op] = []
        for op in reversed([*body.walk()]):  # users before what they use
            is_pure = op.definition.is_pure or op.definition.effects == {"read"}
            if is_pure and not op.regions and used.isdisjoint(op.results):
                dead.append(op)
            else:
                used.update(op.operands)
        remove_ops(body, [op for op in reversed(dead) if selection.drops()])


def forward_operands(module: Module, selection: Selection) -> None:
    """Ops with an operand of the type of their result, which stands for the result."""
    for body in bodies(module):
        replaced: dict[Value, Value] = {}
        removed = []
        for op in body.walk():
            if len(op.results) != 1 or op.regions:
                continue
            for operand in dict.fromkeys(op.operands):
                if operand.type is op.result.type and selection.drops() and op.result not in replaced:
                    replaced[op.result] = operand
                    removed.append(op)
        replace_values(body, replaced)
        remove_ops(body, removed)


def drop_attributes(module: Module, selection: Selection) -> None:
    """Fast maths, memory orders but the weakest, and the words of messages."""
    for body in bodies(module):
        for op in body.walk():
            for name, value in op.attrs.items():
                if name == "fastmath" and value and selection.drops():
                    op.attrs = {key: other for key, other in op.attrs.items() if key != name}
                elif name in _WEAKEST and value != _WEAKEST[name] and selection.drops():
                    op.attrs = op.attrs | {name: _WEAKEST[name]}
                elif name == "message" and value and selection.drops():
                    op.attrs = op.attrs | {name: ""}
