"""Zeros, infinities, NaN and the ends of domains, as in annex F of the C standard: the same at every type."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest
from support.special_values import INF, NAN, PI, POW, UNARY, X

from vyre_opt.ir import OPS, DataType
from vyre_opt.targets.ref.elementwise import compute

FLOATS = [DataType.F16, DataType.BF16, DataType.F32, DataType.F64]
ATAN2 = [
    # y, x, the angle of (x, y)
    (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, PI), (-0.0, -0.0, -PI),
    (0.0, 2.0, 0.0), (-0.0, 2.0, -0.0), (0.0, -2.0, PI), (-0.0, -2.0, -PI),
    (2.0, 0.0, PI / 2), (2.0, -0.0, PI / 2), (-2.0, 0.0, -PI / 2), (-2.0, -0.0, -PI / 2),
    (1.0, 1.0, PI / 4), (1.0, -1.0, 3 * PI / 4), (-1.0, 1.0, -PI / 4), (-1.0, -1.0, -3 * PI / 4),
    (2.0, INF, 0.0), (-2.0, INF, -0.0), (2.0, -INF, PI), (-2.0, -INF, -PI),
    (INF, 2.0, PI / 2), (-INF, 2.0, -PI / 2), (INF, -2.0, PI / 2), (INF, 0.0, PI / 2),
    (INF, INF, PI / 4), (-INF, INF, -PI / 4), (INF, -INF, 3 * PI / 4), (-INF, -INF, -3 * PI / 4),
    (NAN, 1.0, NAN), (1.0, NAN, NAN), (NAN, INF, NAN), (0.0, NAN, NAN),
]  # fmt: skip

REGISTER = {"f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64}


def check_rows(name: str, dtype: DataType, rows: Iterable[tuple[float, ...]]) -> None:
    """The op on the operands of all rows, the last of each of which is the result."""
    *operands, results = zip(*rows, strict=True)
    with np.errstate(all="ignore"):
        got = compute(name, [np.array(column, REGISTER[dtype.name]) for column in operands], dtype)
    for one, arguments, expected in zip(
        got.astype(np.float64), zip(*operands, strict=True), results, strict=True
    ):
        check_value(name, dtype, f"{name}{arguments} of {dtype} is {one}, not {expected}", one, expected)


def check_value(name: str, dtype: DataType, what: str, got: float, expected: float) -> None:
    """Exact values to the bit, the sign of zero included; others to the op's bound."""
    if math.isnan(expected):
        assert math.isnan(got), what
    elif expected == 0 or math.isinf(expected) or float(expected) in (1.0, -1.0, 0.5, 2.0, 10.0):
        assert (got, math.copysign(1, got)) == (expected, math.copysign(1, expected)), what
    else:
        unit = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}[dtype.name]
        assert abs(got - expected) <= (OPS[name].ulp + 0.5) * unit * abs(expected), what


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_unary(dtype: DataType) -> None:
    assert set(UNARY) == {row.name for row in OPS.values() if row.ulp and row.format == "unary"}
    for name, row in UNARY.items():
        check_rows(name, dtype, zip((*X, NAN), (*row, NAN), strict=True))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_out_of_domain(dtype: DataType) -> None:
    for name in ("asin", "acos"):
        check_rows(name, dtype, [(1.5, NAN), (-1.5, NAN)])
    for name in ("log", "log2", "rsqrt", "log1p"):
        check_rows(name, dtype, [(-1.5, NAN), (-300.0, NAN)])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pow(dtype: DataType) -> None:
    check_rows("pow", dtype, POW)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pow_of_large_exponents(dtype: DataType) -> None:
    """Where floats are even integers only, and just below, where some are odd."""
    odd = {"f16": 2047.0, "bf16": 255.0, "f32": 16777215.0, "f64": 9007199254740991.0}[dtype.name]
    assert float(np.array(odd, REGISTER[dtype.name])) == odd
    rows = [
        (-1.0, odd, -1.0),
        (-1.0, odd + 1, 1.0),
        (-1.0, (odd + 1) * 4, 1.0),
        (-1.0, odd / 2, NAN),
        (-INF, -odd, -0.0),
    ]
    check_rows("pow", dtype, rows)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_atan2(dtype: DataType) -> None:
    check_rows("atan2", dtype, ATAN2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_atan2_at_the_ends_of_the_range(dtype: DataType) -> None:
    """Quotients that underflow, and sums that would overflow."""
    least = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "f64": 2.0**-1074}[dtype.name]
    most = {"f16": 2.0**15, "bf16": 2.0**127, "f32": 2.0**127, "f64": 2.0**1023}[dtype.name]
    rows = [
        (least, most, 0.0),
        (-least, most, -0.0),
        (least, -most, PI),
        (most, least, PI / 2),
        (most, most, PI / 4),
        (least, -least, 3 * PI / 4),
        (most, most / 2, 1.1071487177940904),
        (2 * least, 4 * least, 0.4636476090008061),
    ]
    check_rows("atan2", dtype, rows)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_smallest_numbers_stay(dtype: DataType) -> None:
    """f(x) = x for subnormals, of which a product or a sum with anything would lose bits."""
    least = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "f64": 2.0**-1074}[dtype.name]
    numbers = np.array([least, -least, 3 * least, -3 * least])
    for name in ("sin", "tan", "asin", "atan", "sinh", "tanh", "expm1", "log1p"):
        got = compute(name, [numbers.astype(REGISTER[dtype.name])], dtype).astype(np.float64)
        assert got.tolist() == numbers.tolist(), name
