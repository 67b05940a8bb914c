"""What the mathematical functions should give, by mpmath, and arguments at which that is hard to meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np

from vyre_opt.ir import OPS, DataType, arith

__all__ = [
    "FUNCTIONS",
    "UNARY",
    "arguments",
    "errors",
    "in_domain",
    "near_quadrants",
    "numbers",
    "stored",
]

Array = np.ndarray[Any, Any]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "rsqrt": lambda x: 1 / mp.sqrt(x), "rcp": lambda x: 1 / x,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)), "exp": mp.exp,
    "exp2": lambda x: mp.power(2, x), "exp10": lambda x: mp.power(10, x), "expm1": mp.expm1,
    "log": mp.log, "log2": lambda x: mp.log(x, 2), "log1p": mp.log1p, "pow": mp.power,
    "sin": mp.sin, "cos": mp.cos, "tan": mp.tan, "asin": mp.asin, "acos": mp.acos, "atan": mp.atan,
    "atan2": mp.atan2, "sinh": mp.sinh, "cosh": mp.cosh, "tanh": mp.tanh, "erf": mp.erf,
    "erfc": lambda x: mp.erfc(x) if x < 1e3 else mp.mpf(0),  # mpmath itself overflows at very large ones
}  # fmt: skip
UNARY = tuple(name for name in FUNCTIONS if OPS[name].format == "unary")

PRECISION = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
LEAST = {"f16": -24, "bf16": -133, "f32": -149, "f64": -1074}
"""The exponent of the smallest subnormal."""
LARGEST = {"f16": 16, "bf16": 128, "f32": 128, "f64": 1024}
"""The exponent of what overflows."""

_DOMAIN: dict[str, Callable[..., Any]] = {
    "rsqrt": lambda x: x > 0, "rcp": lambda x: x != 0, "log": lambda x: x > 0, "log2": lambda x: x > 0,
    "log1p": lambda x: x > -1, "asin": lambda x: abs(x) <= 1, "acos": lambda x: abs(x) <= 1,
    "pow": lambda x, y: x > 0, "atan2": lambda y, x: (x != 0) | (y != 0),
}  # fmt: skip
_PERIODIC = frozenset({"sin", "cos", "tan"})

_REACH = {
    "exp": 1.0, "expm1": 1.0, "sinh": 1.0, "cosh": 1.0, "exp2": 1 / math.log(2), "exp10": 1 / math.log(10),
}  # fmt: skip
"""Of these, results overflow at this times the logarithm of the largest number."""


def stored(values: Array, dtype: DataType) -> Array:
    """Numbers rounded to the type, as it is stored: bf16 as u16."""
    if dtype is not DataType.BF16:
        with np.errstate(over="ignore"):
            rounded: Array = values.astype(dtype.name.replace("f", "float"))
        return rounded
    return np.array([arith.encode_float(float(v), dtype) for v in values], np.uint16)


def numbers(values: Array, dtype: DataType) -> Array:
    """Stored values as f64."""
    if dtype is DataType.BF16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        wide: Array = values.astype(np.float64)
    return wide


def arguments(name: str, dtype: DataType, count: int, seed: int = 0) -> list[Array]:
    """Stored arguments of a function, one array an operand, some times `count` of them, on which it is finite.

    Of them some are spread evenly over the exponents, some over where the result is neither 0 nor infinite; the
    others are close to 0, 1, multiples of pi / 2, and where the function overflows and underflows.
    """
    rng = np.random.default_rng([seed, *name.encode(), dtype.bits or 0])
    if OPS[name].format == "binary":
        columns = _power_arguments(dtype, count, rng) if name == "pow" else _pairs(dtype, count, rng)
    else:
        columns = [_unary_arguments(name, dtype, count, rng)]
    arrays = [stored(column, dtype) for column in columns]
    keep = in_domain(name, *(numbers(array, dtype) for array in arrays))
    return [array[keep] for array in arrays]


def in_domain(name: str, *operands: Array) -> Array:
    """Where a function of these numbers has a finite value, but for overflow."""
    finite = np.logical_and.reduce([np.isfinite(operand) for operand in operands])
    with np.errstate(invalid="ignore"):
        inside: Array = finite & _DOMAIN[name](*operands) if name in _DOMAIN else finite
    return inside


def _exponents(dtype: DataType, count: int, rng: np.random.Generator) -> Array:
    """Numbers of all magnitudes, subnormals included, of either sign."""
    exponent = rng.integers(LEAST[dtype.name], LARGEST[dtype.name], count)
    signed: Array = np.ldexp(rng.uniform(1, 2, count), exponent) * rng.choice([-1.0, 1.0], count)
    return signed


def _unary_arguments(name: str, dtype: DataType, count: int, rng: np.random.Generator) -> Array:
    largest = (LARGEST[dtype.name] - 1) * math.log(2)
    smallest = LEAST[dtype.name] * math.log(2)
    reach = _REACH.get(name, 1.0)
    erfc_end = math.sqrt(-smallest) + 1
    few = count // 4
    return np.concatenate([
        _exponents(dtype, count, rng),
        rng.uniform(-1, 1, count),
        rng.normal(size=count) * 4,
        rng.uniform(smallest * reach * 1.01, largest * reach * 1.01, count),
        rng.uniform(-erfc_end, erfc_end, few),
        1 + rng.normal(size=few) * 2.0 ** -rng.integers(1, PRECISION[dtype.name], few),
        rng.normal(size=few) * 2.0 ** -rng.integers(1, PRECISION[dtype.name], few),
        rng.integers(-1000, 1000, few) * (math.pi / 2),
        (rng.choice([smallest, largest], few) + rng.normal(size=few) * 1e-2) * reach,
        near_quadrants(dtype) if name in _PERIODIC else [],
    ])  # fmt: skip


def _pairs(dtype: DataType, count: int, rng: np.random.Generator) -> list[Array]:
    limit = 2.0 ** (LARGEST[dtype.name] - 8)
    near = np.clip(_exponents(dtype, count, rng), -limit, limit)
    ratio = rng.normal(size=count) * 2.0 ** rng.integers(-3, 3, count)
    first = np.concatenate([_exponents(dtype, count, rng), near, rng.normal(size=count)])
    return [first, np.concatenate([_exponents(dtype, count, rng), near * ratio, rng.normal(size=count)])]


def _power_arguments(dtype: DataType, count: int, rng: np.random.Generator) -> list[Array]:
    """Exponents for which the result is a number, up to the ends of the range, and any; bases with logarithms as far from an
    integer as can be among them."""
    base = np.abs(np.concatenate([
        _exponents(dtype, count, rng), 1 + rng.normal(size=count) * 2.0 ** -rng.integers(1, 20, count),
        rng.uniform(0, 20, count), rng.uniform(1.36, 1.4143, count) * 2.0 ** -rng.integers(0, 2, count),
    ]))  # fmt: skip
    base = numbers(stored(base, dtype), dtype)  # the exponent depends on what is left of it
    with np.errstate(all="ignore"):
        wanted = rng.uniform(LEAST[dtype.name] - 2, LARGEST[dtype.name] + 1, len(base))
        exponent = wanted / np.log2(base)
    exponent[::3] = rng.integers(-20, 20, len(exponent[::3]))
    return [base, exponent]


def near_quadrants(dtype: DataType) -> Array:
    """For each exponent the numbers nearest to a multiple of pi / 2, relative to their size.

    Of M 2^e these are at M that are denominators of convergents of 2^e / (pi / 2).
    """
    precision, largest = PRECISION[dtype.name], LARGEST[dtype.name]
    with mp.workprec(largest + 3 * precision + 64):
        half_pi = mp.pi / 2
        half_pi = Fraction(int(mp.ldexp(half_pi, mp.mp.prec)), 1 << mp.mp.prec)
    return np.array([
        math.ldexp(m, exponent)
        for exponent in range(-precision, largest - precision + 1)
        for m in _denominators(Fraction(2) ** exponent / half_pi, 1 << precision)
        if m >= 1 << (precision - 2)
    ])  # fmt: skip


def _denominators(value: Fraction, limit: int) -> Iterator[int]:
    """Denominators of the convergents of a continued fraction, below a limit."""
    before, current = 0, 1
    while current < limit:
        yield current
        whole = value.numerator // value.denominator
        value -= whole
        if not value:
            return
        value = 1 / value
        before, current = current, value.numerator // value.denominator * current + before


def errors(name: str, dtype: DataType, operands: list[Array], results: Array) -> Array:
    """By how many units in the last place of the exact result each stored result is off."""
    columns = [numbers(operand, dtype) for operand in operands]
    # the sine of M 2^e takes as many bits as e has
    with mp.workprec(120 + (LARGEST[dtype.name] if name in _PERIODIC else 0)):
        return np.array([
            _error(value, FUNCTIONS[name](*map(mp.mpf, row)), dtype)
            for value, *row in zip(numbers(results, dtype).tolist(), *(c.tolist() for c in columns), strict=True)
        ])  # fmt: skip


def _error(value: float, exact: Any, dtype: DataType) -> float:
    if math.isnan(value):
        return math.inf
    if not exact:
        return 0.0 if value == 0 else math.inf
    precision, largest = PRECISION[dtype.name], mp.ldexp(1, LARGEST[dtype.name])
    unit = mp.ldexp(1, max(mp.frexp(exact)[1] - precision, LEAST[dtype.name]))
    if (
        abs(exact) >= largest
    ):  # its unit is that of the largest number, which is as good as infinity one unit on
        unit = mp.ldexp(1, LARGEST[dtype.name] - precision)
        exact = mp.sign(exact) * largest
    got = mp.mpf(value) if math.isfinite(value) else math.copysign(1, value) * largest
    return float(abs(got - exact) / unit)
