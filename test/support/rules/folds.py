"""Constant folding against the table of terms: on all bytes and pairs of bytes, elsewhere on samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import z3

from vyre_opt.certify import op_terms
from vyre_opt.ir.folding import fold
from vyre_opt.ir.ops import OPS
from vyre_opt.ir.program import Block as Body
from vyre_opt.ir.program import Func, Op, Value
from vyre_opt.ir.types import DataType

from .evaluate import evaluate
from .graphs import build, const
from .lowerings import LoweredOp, lowered_ops
from .values import samples

__all__ = ["FoldCheck", "check_bytes", "check_samples", "foldable"]

_NOWHERE = Func("f", (), Body())


@dataclass(frozen=True, slots=True)
class FoldCheck:
    """`checked`: operands tried; `wrong`: those with another result than the table's, or without one where all
    have one; `open`: those left alone, whose result is a NaN."""

    op: LoweredOp
    checked: int
    wrong: list[tuple[int, ...]]
    open: int = 0


def foldable(bits: int | None = None) -> Iterator[LoweredOp]:
    """The ops that fold and have a term, on types of that width, or on all."""
    for op in lowered_ops():
        if bits is None or (
            op.type.bits == bits and not op.type.is_bool and op.source is None and op.name != "select"
        ):
            yield op


def _row(op: LoweredOp) -> tuple[Op, list[DataType]]:
    """The op, to be given constants, and the types of its operands."""
    row = OPS[op.name]
    if op.source is not None:
        types = [op.source]
    elif op.name == "select":
        types = [DataType.BOOL, op.type, op.type]
    else:
        types = [op.type] * {"unary": 1, "binary": 2, "compare": 2, "ternary": 3}[row.format]
    result = DataType.BOOL if row.format == "compare" else op.type
    return Op(row, (), (Value("r", result),)), types


def _constants(values: Sequence[int], dtype: DataType) -> dict[int, Value]:
    return {value: build(const(value, dtype), {}) for value in values}


def check_bytes(op: LoweredOp, step: int = 1) -> FoldCheck:
    """All operands of an op on bytes, or every `step`-th, by the term as a NumPy expression."""
    folded_op, types = _row(op)
    values = range(-128, 128, step) if op.type.is_signed else range(0, 256, step)
    known = _constants(values, op.type)
    grids = np.meshgrid(*[np.array(values)] * len(types), indexing="ij")
    columns = [grid.ravel() for grid in grids]
    variables = [op_terms.variable(name, op.type) for name in "ab"[: len(types)]]
    term = op_terms.term(op.name, op.type, variables)
    bits = evaluate(term, {str(v): c & 0xFF for v, c in zip(variables, columns, strict=True)})
    expected = np.broadcast_to(bits, columns[0].shape).tolist()
    wrong = []
    for row, result in zip(zip(*(c.tolist() for c in columns), strict=True), expected, strict=True):
        folded_op.operands = tuple([known[value] for value in row])
        answer = fold(folded_op, _NOWHERE)
        if answer is None or answer & 0xFF != result:
            wrong.append(row)
    return FoldCheck(op, len(expected), wrong)


def check_samples(op: LoweredOp, count: int, every: bool = False) -> FoldCheck:
    """`count` operands, edges and random ones in random combinations; all patterns of the one operand if `every`."""
    folded_op, types = _row(op)
    if every and len(types) == 1:
        columns = [list(range(1 << (types[0].bits or 0)))]
    else:
        rng = np.random.default_rng(5)
        columns = [[int(v) for v in rng.choice(np.array(samples(t), dtype=object), count)] for t in types]
    wrong, left = [], 0
    for row in zip(*columns, strict=True):
        operands = [build(const(value, t), {}) for value, t in zip(row, types, strict=True)]
        folded_op.operands = tuple(operands)
        literals = [op_terms.literal(value, t) for value, t in zip(row, types, strict=True)]
        expected = z3.simplify(op_terms.op_term(folded_op, literals))
        answer = fold(folded_op, _NOWHERE)
        result = folded_op.result.type
        if answer is None:
            left += 1
            is_nan = result.is_float and z3.is_true(z3.simplify(op_terms.is_nan(expected, result)))
            is_right = is_nan
        else:
            is_right = z3.is_true(z3.simplify(op_terms.literal(answer, result) == expected))
            if not is_right and result.is_float:
                is_right = z3.is_true(
                    z3.simplify(op_terms.same(op_terms.literal(answer, result), expected, result))
                )
        if not is_right:
            wrong.append(row)
    return FoldCheck(op, len(columns[0]), wrong, left)
