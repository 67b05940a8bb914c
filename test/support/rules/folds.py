"""Constant folding against the table of terms: on all bytes and pairs of bytes, elsewhere on samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import z3

from vyre_opt.certify import op_terms
from vyre_opt.ir import OPS, DataType, Op, Value
from vyre_opt.ir import Block as Body
from vyre_opt.ir.folding import fold
from vyre_opt.ir.program import Func

from .evaluate import evaluate
from .graphs import build, const
from .lowerings import LoweredOp, lowered_ops
from .values import encoded, interpreted, samples

__all__ = ["FoldCheck", "check_bytes", "check_patterns", "check_samples", "foldable", "unary_on_halves"]

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


def check_samples(op: LoweredOp, count: int) -> FoldCheck:
    """`count` operands, edges and random ones in random combinations, by the term."""
    folded_op, types = _row(op)
    rng = np.random.default_rng(5)
    columns = [[int(v) for v in rng.choice(np.array(samples(t), dtype=object), count)] for t in types]
    expected = []
    for row in zip(*columns, strict=True):
        literals = [op_terms.literal(value, t) for value, t in zip(row, types, strict=True)]
        value = z3.simplify(op_terms.op_term(_with_operands(folded_op, row, types), literals))
        bits = int(z3.is_true(value)) if z3.is_bool(value) else value.as_long()
        expected.append(encoded(bits, folded_op.result.type))
    return _compared(op, columns, expected)


def check_patterns(op: LoweredOp) -> FoldCheck:
    """All 65,536 operands of an op with one operand of 16 bits, by the interpreter: a term for each takes minutes."""
    folded_op, types = _row(op)
    columns = [[encoded(bits, types[0]) for bits in range(1 << 16)]]
    return _compared(op, columns, interpreted(op.name, columns, types, folded_op.result.type))


def unary_on_halves() -> Iterator[LoweredOp]:
    """The ops on one f16 that fold, and casts and bitcasts from it."""
    for op in foldable():
        if (op.source or op.type) is DataType.F16 and (op.source or OPS[op.name].format == "unary"):
            yield op


def _with_operands(op: Op, row: Sequence[int], types: Sequence[DataType]) -> Op:
    """The op, its operands now constants."""
    op.operands = tuple([build(const(value, t), {}) for value, t in zip(row, types, strict=True)])
    return op


def _compared(op: LoweredOp, columns: Sequence[Sequence[int]], expected: Sequence[int]) -> FoldCheck:
    """Folds beside encoded results.  A NaN need not fold; which NaN it is, is open."""
    folded_op, types = _row(op)
    result, wrong, left = folded_op.result.type, [], 0
    for row, value in zip(zip(*columns, strict=True), expected, strict=True):
        answer = fold(_with_operands(folded_op, row, types), _NOWHERE)
        left += answer is None
        if answer != value and not (_is_nan(value, result) and (answer is None or _is_nan(answer, result))):
            wrong.append(row)
    return FoldCheck(op, len(expected), wrong, left)


def _is_nan(value: int, dtype: DataType) -> bool:
    return dtype.is_float and z3.is_true(z3.simplify(op_terms.is_nan(op_terms.literal(value, dtype), dtype)))
