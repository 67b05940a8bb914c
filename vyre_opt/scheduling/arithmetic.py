"""Estimate of an invocation's float instructions on a GPU; math functions count with their approximations' instructions.

Integers are left out: most compute indices, and neighbours share much of that.
"""

from __future__ import annotations

from functools import cache

from ..ir.loops import trip_count
from ..ir.program import Block, Op, Program
from ..ir.types import DataType
from ..math_functions.approximations import APPROXIMATIONS
from ..math_functions.expression import F32, F64
from ..math_functions.functions import approximation, graph

__all__ = ["instructions"]

_ARITHMETIC = ("unary", "binary", "ternary", "compare", "select", "convert")
_DIVISION = 12
_NODES = {
    "param": 0,
    "const": 0,
    "iconst": 0,
    "bits": 0,
    "real": 0,
    "scale": 6,
    "rarely": 3,
    "div": _DIVISION,
    "sqrt": 12,
}
"""Instructions of a node of a function; any other node is one instruction."""


def instructions(program: Program) -> int:
    """Estimated instructions of one invocation: the longer side of each branch, and a loop's known trip count, or one."""
    return _block(program.body)


def _block(block: Block) -> int:
    return sum(map(_op, block.ops))


def _op(op: Op) -> int:
    if op.regions:
        inner = [_block(region) for region in op.regions]
        if op.name == "if":
            return 1 + max(inner)
        return sum(inner) * max(1, (trip_count(op) if op.name == "for" else None) or 1)
    if op.definition.format not in _ARITHMETIC or not op.results:
        return 0
    dtype = op.results[0].type
    if not any(value.type.element.is_float for value in (*op.operands, *op.results)):
        return 0
    lanes = dtype.lanes if dtype.is_vec else 1
    if op.definition.ulp:
        return lanes * _function(op.name, dtype.element, "afn" in op.attrs.get("fastmath", ()))
    return lanes * (_DIVISION if op.name in ("div", "rem") else 1)


@cache
def _function(name: str, element: DataType, is_short: bool) -> int:
    if element is not DataType.F64 and is_short and name in APPROXIMATIONS:
        code = approximation(name, True)
    else:
        code = graph(name, F64 if element is DataType.F64 else F32)
    return sum(_NODES.get(node.opcode, 1) for node in code.nodes)
