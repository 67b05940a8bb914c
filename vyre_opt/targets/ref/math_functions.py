"""The mathematical functions of vyre_opt/math_functions on NumPy arrays: a rule for each kind of node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.types import DataType
from ...math_functions.expression import F32, F64, Format, Graph, Node
from ...math_functions.functions import graph
from .fma import fma
from .integers import mul_hi

__all__ = ["evaluate"]

Array = np.ndarray

_UNSIGNED = {F32: DataType.U32, F64: DataType.U64}


def evaluate(name: str, format: Format, operands: Sequence[Array]) -> Array:
    """A function of the table on float32 or float64 arrays of one shape."""
    with np.errstate(all="ignore"):
        return _run(graph(name, format), [np.atleast_1d(a) for a in operands]).reshape(operands[0].shape)


def _run(code: Graph, operands: Sequence[Array]) -> Array:
    uses = Counter(operand for node in code.nodes for operand in node.operands)
    values: dict[Node, Array] = {}
    for node in code.nodes:
        if node.opcode == "param":
            values[node] = operands[int(node.payload)]
            continue
        values[node] = _RULES[node.opcode](node, *(values[operand] for operand in node.operands))
        for operand in node.operands:  # a long function holds no more arrays at once than it must
            uses[operand] -= 1
            if not uses[operand]:
                values.pop(operand, None)
    return np.broadcast_to(values[code.result], operands[0].shape)


def _floats(node: Node) -> Any:
    return np.float32 if node.graph.format is F32 else np.float64


def _words(node: Node) -> Any:
    return np.uint32 if node.graph.format is F32 else np.uint64


def _const(node: Node) -> Array:
    return np.array([node.payload], _words(node)).view(_floats(node))


def _rarely(node: Node, condition: Array, usual: Array, *arguments: Array) -> Array:
    shape = arguments[0].shape
    indices = np.nonzero(np.broadcast_to(condition, shape))
    if not len(indices[0]):
        return usual
    result = np.array(np.broadcast_to(usual, shape))
    rare = [argument[indices] for argument in arguments]
    result[indices] = _run(graph(str(node.payload), node.graph.format), rare)
    return result


def _ashr(node: Node, a: Array, amount: Array) -> Array:
    signed = np.dtype(f"i{a.itemsize}")
    shifted: Array = a.view(signed) >> amount.view(signed)
    return shifted.view(a.dtype)


def _integer(value: Array) -> Array:
    whole: Array = np.nan_to_num(value).astype(np.int32)
    return whole


def _plain(compute: Callable[..., Array]) -> Callable[..., Array]:
    """A rule that needs nothing of the node but its operands."""
    return lambda node, *operands: compute(*operands)


_RULES: dict[str, Callable[..., Array]] = {
    "const": _const,
    "iconst": lambda node: np.array([node.payload], _words(node)),
    "add": _plain(np.add),
    "sub": _plain(np.subtract),
    "mul": _plain(np.multiply),
    "div": _plain(np.divide),
    "neg": _plain(np.negative),
    "abs": _plain(np.abs),
    "sqrt": _plain(np.sqrt),
    "trunc": _plain(np.trunc),
    "copysign": _plain(np.copysign),
    "fma": lambda node, a, b, c: fma(a, b, c, DataType.of(node.graph.format.name)),
    "scale": lambda node, a, total: np.ldexp(a, _integer(total - _floats(node)(node.graph.format.integral))),
    "bits": lambda node, a: np.ascontiguousarray(a).view(_words(node)),
    "real": lambda node, a: np.ascontiguousarray(a).view(_floats(node)),
    "iadd": _plain(np.add),
    "isub": _plain(np.subtract),
    "imul": _plain(np.multiply),
    "mul_hi": lambda node, a, b: mul_hi(a, b, _UNSIGNED[node.graph.format]),
    "and": _plain(np.bitwise_and),
    "or": _plain(np.bitwise_or),
    "xor": _plain(np.bitwise_xor),
    "shl": _plain(np.left_shift),
    "lshr": _plain(np.right_shift),
    "ashr": _ashr,
    "lt": _plain(np.less),
    "le": _plain(np.less_equal),
    "eq": _plain(np.equal),
    "unordered": _plain(lambda a, b: np.isnan(a) | np.isnan(b)),
    "ult": _plain(np.less),
    "fand": _plain(np.logical_and),
    "for": _plain(np.logical_or),
    "fnot": _plain(np.logical_not),
    "select": _plain(np.where),
    "iselect": _plain(np.where),
    "rarely": _rarely,
}
