"""Small graphs of ops for a rewrite rule to match, and the terms of what they compute.

A pattern is a graph of `Node`s, which says what to build.  A node that occurs twice is one value, so `x op x`
has one operand twice, as the rules demand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import z3

from vyre_opt.certify import op_terms
from vyre_opt.ir import OPS, Block, DataType, Op, Value

__all__ = ["Lanes", "Node", "build", "const", "shape", "terms", "var"]

Lanes = tuple[z3.ExprRef, ...]
"""The terms of a value's lanes; one for a scalar."""


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """An op of a pattern: `name` of the op table, or "var" for any value.  `attrs` as pairs."""

    name: str
    type: DataType
    operands: tuple[Node, ...] = ()
    attrs: tuple[tuple[str, Any], ...] = ()


def var(name: str, dtype: DataType) -> Node:
    """Any value of a type."""
    return Node("var", dtype, (), (("name", name),))


def const(value: int, dtype: DataType) -> Node:
    """An encoded constant, in all lanes of a vector."""
    return Node("const", dtype, (), (("value", value),))


def build(node: Node, values: dict[Node, Value]) -> Value:
    """The value that a pattern computes.  `values` keeps one value a node."""
    if node not in values:
        operands = tuple(build(operand, values) for operand in node.operands)
        attrs = dict(node.attrs)
        if node.name == "var":
            values[node] = Block((Value(attrs["name"], node.type),)).args[0]
        else:
            values[node] = Value("r", node.type)
            Op(OPS[node.name], operands, (values[node],), attrs)
    return values[node]


def terms(value: Value, symbols: Mapping[Value, Lanes]) -> Lanes:
    """The lanes of a value.  `symbols` has those of values that are not to be looked into; others without an
    op are free variables."""
    if value in symbols:
        return symbols[value]
    op, count = value.owner, value.type.lanes
    if not isinstance(op, Op):
        return tuple(op_terms.variable(f"{value.name}.{lane}", value.type.element) for lane in range(count))
    if op.name == "const":
        known = op.attrs["value"]
        lanes = known if isinstance(known, tuple) else (known,) * count
        return tuple(op_terms.literal(lane, value.type.element) for lane in lanes)
    operands = [terms(operand, symbols) for operand in op.operands]
    if op.name in _ON_VECTORS:
        return _ON_VECTORS[op.name](op, *operands)
    return (op_terms.op_term(op, [lanes[0] for lanes in operands]),)


def _with_lane(op: Op, scalar: Lanes, whole: Lanes) -> Lanes:
    at = op.attrs["index"]
    return (*whole[:at], *scalar, *whole[at + 1 :])


_ON_VECTORS: dict[str, Callable[..., Lanes]] = {
    "splat": lambda op, scalar: scalar * op.result.type.lanes,
    "vector": lambda op, *scalars: tuple(lane for (lane,) in scalars),
    "extract": lambda op, whole: whole[op.attrs["index"] : op.attrs["index"] + 1],
    "insert": _with_lane,
}


def shape(value: Value, names: Mapping[Value, str]) -> str:
    """A graph as text, with `names` for some of its values and without the values of other constants."""
    if value in names:
        return names[value]
    op = value.owner
    if not isinstance(op, Op):
        return f"{value.name}:{value.type}"
    if op.name == "const":
        return f"new:{value.type}"
    attrs = "".join(f" {key}={op.attrs[key]}" for key in sorted(op.attrs))
    return f"{op.name}{attrs}:{value.type}({', '.join(shape(v, names) for v in op.operands)})"
