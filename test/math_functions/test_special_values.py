"""Zeros, infinities, NaN and the ends of domains, as in annex F of the C standard: the same at every type."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from vyre_opt.ir.ops import OPS
from vyre_opt.ir.types import DataType
from vyre_opt.runtime.ref.elementwise import compute

FLOATS = [DataType.F16, DataType.BF16, DataType.F32, DataType.F64]
INF, NAN, PI = math.inf, math.nan, math.pi

X = (0.0, -0.0, INF, -INF, 1.0, -1.0)
"""The arguments of the columns; NaN gives NaN everywhere."""

UNARY = {
    "rsqrt": (INF, -INF, 0.0, NAN, 1.0, NAN),
    "rcp": (INF, -INF, 0.0, -0.0, 1.0, -1.0),
    "cbrt": (0.0, -0.0, INF, -INF, 1.0, -1.0),
    "exp": (1.0, 1.0, INF, 0.0, math.e, 1 / math.e),
    "exp2": (1.0, 1.0, INF, 0.0, 2.0, 0.5),
    "exp10": (1.0, 1.0, INF, 0.0, 10.0, 0.1),
    "expm1": (0.0, -0.0, INF, -1.0, 1.718281828459045, -0.6321205588285577),
    "log": (-INF, -INF, INF, NAN, 0.0, NAN),
    "log2": (-INF, -INF, INF, NAN, 0.0, NAN),
    "log1p": (0.0, -0.0, INF, NAN, 0.6931471805599453, -INF),
    "sin": (0.0, -0.0, NAN, NAN, 0.8414709848078965, -0.8414709848078965),
    "cos": (1.0, 1.0, NAN, NAN, 0.5403023058681398, 0.5403023058681398),
    "tan": (0.0, -0.0, NAN, NAN, 1.5574077246549023, -1.5574077246549023),
    "asin": (0.0, -0.0, NAN, NAN, PI / 2, -PI / 2),
    "acos": (PI / 2, PI / 2, NAN, NAN, 0.0, PI),
    "atan": (0.0, -0.0, PI / 2, -PI / 2, PI / 4, -PI / 4),
    "sinh": (0.0, -0.0, INF, -INF, 1.1752011936438014, -1.1752011936438014),
    "cosh": (1.0, 1.0, INF, INF, 1.5430806348152437, 1.5430806348152437),
    "tanh": (0.0, -0.0, 1.0, -1.0, 0.7615941559557649, -0.7615941559557649),
    "erf": (0.0, -0.0, 1.0, -1.0, 0.8427007929497149, -0.8427007929497149),
    "erfc": (1.0, 1.0, 0.0, 2.0, 0.15729920705028513, 1.8427007929497148),
}

POW = [
    # x, y, x^y
    *((x, y, 1.0) for x in (0.0, -0.0, 2.0, -3.0, INF, -INF, NAN) for y in (0.0, -0.0)),
    *((1.0, y, 1.0) for y in (2.0, -0.5, INF, -INF, NAN)),
    (-1.0, INF, 1.0), (-1.0, -INF, 1.0), (-1.0, 3.0, -1.0), (-1.0, 4.0, 1.0),
    (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, 0.5, 0.0), (0.0, INF, 0.0), (-0.0, INF, 0.0),
    (0.0, -3.0, INF), (-0.0, -3.0, -INF), (-0.0, -2.0, INF), (-0.0, -0.5, INF), (0.0, -INF, INF), (-0.0, -INF, INF),
    (0.5, INF, 0.0), (-0.5, INF, 0.0), (0.5, -INF, INF), (-0.5, -INF, INF),
    (2.0, INF, INF), (-2.0, INF, INF), (2.0, -INF, 0.0), (-2.0, -INF, 0.0),
    (INF, 2.0, INF), (INF, 0.5, INF), (INF, -1.0, 0.0), (INF, INF, INF), (INF, -INF, 0.0),
    (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, 0.5, INF), (-INF, -3.0, -0.0), (-INF, -2.0, 0.0), (-INF, -0.5, 0.0),
    (-8.0, 3.0, -512.0), (-8.0, -1.0, -0.125), (-8.0, 2.0, 64.0), (-8.0, 1 / 3, NAN), (-8.0, 0.5, NAN),
    (NAN, 1.0, NAN), (2.0, NAN, NAN), (-2.0, NAN, NAN), (0.0, NAN, NAN),
    (2.0, 10.0, 1024.0), (2.0, -3.0, 0.125), (4.0, 0.5, 2.0), (10.0, 2.0, 100.0),
]  # fmt: skip

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


def check(name: str, dtype: DataType, operands: tuple[float, ...], expected: float) -> None:
    """Exact values to the bit, the sign of zero included; others to the op's bound."""
    register = REGISTER[dtype.name]
    with np.errstate(all="ignore"):
        (got,) = compute(name, [np.array([x], register) for x in operands], dtype).astype(np.float64)
    what = f"{name}{operands} of {dtype} is {got}, not {expected}"
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
        for x, expected in zip((*X, NAN), (*row, NAN), strict=True):
            check(name, dtype, (x,), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_out_of_domain(dtype: DataType) -> None:
    for name, x in itertools.product(("asin", "acos"), (1.5, -1.5)):
        check(name, dtype, (x,), NAN)
    for name, x in itertools.product(("log", "log2", "rsqrt", "log1p"), (-1.5, -300.0)):
        check(name, dtype, (x,), NAN)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pow(dtype: DataType) -> None:
    for x, y, expected in POW:
        check("pow", dtype, (x, y), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pow_of_large_exponents(dtype: DataType) -> None:
    """Where floats are even integers only, and just below, where some are odd."""
    odd = {"f16": 2047.0, "bf16": 255.0, "f32": 16777215.0, "f64": 9007199254740991.0}[dtype.name]
    assert float(np.array(odd, REGISTER[dtype.name])) == odd
    check("pow", dtype, (-1.0, odd), -1.0)
    check("pow", dtype, (-1.0, odd + 1), 1.0)
    check("pow", dtype, (-1.0, (odd + 1) * 4), 1.0)
    check("pow", dtype, (-1.0, odd / 2), NAN)
    check("pow", dtype, (-INF, -odd), -0.0)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_atan2(dtype: DataType) -> None:
    for y, x, expected in ATAN2:
        check("atan2", dtype, (y, x), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_atan2_at_the_ends_of_the_range(dtype: DataType) -> None:
    """Quotients that underflow, and sums that would overflow."""
    least = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "f64": 2.0**-1074}[dtype.name]
    most = {"f16": 2.0**15, "bf16": 2.0**127, "f32": 2.0**127, "f64": 2.0**1023}[dtype.name]
    check("atan2", dtype, (least, most), 0.0)
    check("atan2", dtype, (-least, most), -0.0)
    check("atan2", dtype, (least, -most), PI)
    check("atan2", dtype, (most, least), PI / 2)
    check("atan2", dtype, (most, most), PI / 4)
    check("atan2", dtype, (least, -least), 3 * PI / 4)
    check("atan2", dtype, (most, most / 2), 1.1071487177940904)
    check("atan2", dtype, (2 * least, 4 * least), 0.4636476090008061)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_smallest_numbers_stay(dtype: DataType) -> None:
    """f(x) = x for subnormals, of which a product or a sum with anything would lose bits."""
    least = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "f64": 2.0**-1074}[dtype.name]
    for name, count in itertools.product(
        ("sin", "tan", "asin", "atan", "sinh", "tanh", "expm1", "log1p"), (1, 3)
    ):
        for sign in (1, -1):
            register = REGISTER[dtype.name]
            (got,) = compute(name, [np.array([sign * count * least], register)], dtype).astype(np.float64)
            assert got == sign * count * least, (name, count)
