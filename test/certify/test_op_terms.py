"""The table of terms, written from the language's text, against the interpreter, written from it by another hand.

Edge values in random combinations, and random bits, for every op and type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import z3
from support.each import each
from support.rules.values import SCALARS, interpreted, samples

from vyre_opt.certify import op_terms
from vyre_opt.ir import OPS, DataType, OpDef

ARITY = {"unary": 1, "binary": 2, "ternary": 3, "compare": 2, "select": 3}
ARITHMETIC = [
    (row, dtype)
    for row in OPS.values()
    if row.format in ("unary", "binary", "ternary", "compare") and not row.ulp
    for dtype in SCALARS
    if row.accepts(dtype)
]


def columns(types: Sequence[DataType], count: int) -> list[list[int]]:
    """`count` operands of each type, edge values and random ones in random combinations."""
    rng = np.random.default_rng(7)
    return [[int(v) for v in rng.choice(np.array(samples(t), dtype=object), count)] for t in types]


def literals(operands: Sequence[Sequence[int]], types: Sequence[DataType]) -> Iterator[list[z3.ExprRef]]:
    for row in zip(*operands, strict=True):
        yield [op_terms.literal(value, t) for value, t in zip(row, types, strict=True)]


def check(name: str, types: list[DataType], dtype: DataType, result: DataType, count: int) -> None:
    operands = columns(types, count)
    source = types[0] if name in ("cast", "bitcast") else None
    got = [op_terms.term(name, dtype, row, source=source) for row in literals(operands, types)]
    expected = interpreted(name, operands, types, result)
    for operand, term, value in zip(zip(*operands, strict=True), got, expected, strict=True):
        equal = z3.simplify(op_terms.same(term, op_terms.literal(value, result), result))
        assert z3.is_true(equal), (name, dtype.name, operand, value, z3.simplify(term))


def check_arithmetic(row: OpDef, dtype: DataType, count: int) -> None:
    result = DataType.BOOL if row.format == "compare" else dtype
    check(row.name, [dtype] * ARITY[row.format], dtype, result, count)


def test_arithmetic() -> None:
    def check_few(case: tuple[OpDef, DataType]) -> None:
        row, dtype = case
        # the term of fmod has a case for each exponent
        check_arithmetic(*case, 1 if row.name == "rem" and dtype in (DataType.F32, DataType.F64) else 3)

    each(ARITHMETIC, check_few, lambda case: f"{case[0].name} {case[1]}")


@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_select(dtype: DataType) -> None:
    check("select", [DataType.BOOL, dtype, dtype], dtype, dtype, 8)


@pytest.mark.parametrize("source", SCALARS, ids=str)
def test_casts(source: DataType) -> None:
    for target in SCALARS:
        check("cast", [source], target, target, 4)
        if source.bits == target.bits and not source.is_bool and not target.is_bool:
            check("bitcast", [source], target, target, 4)


@pytest.mark.campaign
@pytest.mark.parametrize(("row", "dtype"), ARITHMETIC, ids=[f"{row.name}-{t}" for row, t in ARITHMETIC])
def test_arithmetic_on_more(row: OpDef, dtype: DataType) -> None:
    check_arithmetic(row, dtype, {"f64": 10, "f32": 50}.get(dtype.name, 500) if row.name == "rem" else 500)


@pytest.mark.campaign
@pytest.mark.parametrize("source", SCALARS, ids=str)
def test_casts_of_more(source: DataType) -> None:
    for target in SCALARS:
        check("cast", [source], target, target, 300)


def test_every_pure_scalar_op_has_a_term_or_an_error_bound() -> None:
    """Guards against an op added to the language and not to the table."""
    missing = [
        (row.name, dtype.name)
        for row in OPS.values()
        if row.format in ("unary", "binary", "ternary", "compare", "select", "convert") and not row.ulp
        for dtype in SCALARS
        if row.accepts(dtype) and not op_terms.has_term(row.name, dtype)
    ]
    assert not missing


def test_an_approximate_op_and_a_vector_have_none() -> None:
    with pytest.raises(op_terms.NoTerm, match="exp : f32"):
        op_terms.term("exp", DataType.F32, [op_terms.variable("x", DataType.F32)])
    with pytest.raises(op_terms.NoTerm, match="vec"):
        op_terms.variable("x", DataType.vec(DataType.U8, 4))
