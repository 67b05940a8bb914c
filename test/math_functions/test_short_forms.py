"""The short forms that fastmath<afn> allows: errors against NumPy in f64, special values, and what a GPU's instructions may add."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.math_campaign import FAST, fast_errors
from support.math_oracle import arguments, numbers, stored
from support.special_values import POW, UNARY, X

from vyre_opt import dispatcher
from vyre_opt.ir import OPS, Builder, DataType
from vyre_opt.math_functions.approximations import APPROXIMATIONS
from vyre_opt.math_functions.functions import approximation
from vyre_opt.targets.ref import math_functions as interpreter

Array = np.ndarray[Any, Any]
TARGETS = ("cpu", pytest.param("cuda", marks=pytest.mark.gpu))
LEAST_NORMAL = 2.0**-126
COUNT = 20_000

ORACLES = {**FAST, "sqrt": np.sqrt, "div": np.divide}

INSTRUCTIONS = {"exp2": 2.0, "rcp": 1.0, "rsqrt": 2.15, "sqrt": 2.0, "div": 2.0}
"""The errors of a GPU's instructions in ulp, as NVIDIA documents them; 2^-22.9 and 2^-23 of the result for the two roots."""


def run(
    name: str, dtype: DataType, operands: list[Array], target: str, flags: tuple[str, ...] = ("afn",)
) -> Array:
    b = Builder(name, 256)
    sources = [b.buffer(f"x{k}", dtype, None, "read", k) for k in range(len(operands))]
    result = b.buffer("y", dtype, None, "write", len(sources), live_out=True)
    i = b.global_id("x")
    with b.if_(b.lt(i, b.len(sources[0]))):
        b.store(getattr(b, name)(*(b.load(source, i) for source in sources), fastmath=flags), result, i)
    grid = -(-len(operands[0]) // 256)
    found: Array = dispatcher(target).dispatch(b.finish(), [*operands, np.zeros_like(operands[0])], grid)[0]
    return found


def tried(name: str, dtype: DataType = DataType.F32, count: int = COUNT) -> list[Array]:
    """Arguments on which the function is finite; of powers also negative bases."""
    if name not in ("sqrt", "div"):
        x, *y = arguments(name, dtype, count)
        sign = np.where(np.arange(len(x)) % 8, 1, -1).astype(np.float32) if name == "pow" else 1
        whole = [np.where(sign < 0, np.rint(np.clip(each, -9e3, 9e3)), each).astype(each.dtype) for each in y]
        return [
            x * sign if name == "pow" and dtype is DataType.F32 else x,
            *(whole if dtype is DataType.F32 else y),
        ]
    x = abs(arguments("rsqrt", dtype, count)[0])
    return [x] if name == "sqrt" else [x, np.random.default_rng(0).permutation(x)]


def checked(name: str, operands: list[Array], results: Array) -> None:
    """Raises AssertionError for an error above the op's bound; results and operands that are subnormal may be zero."""
    with np.errstate(all="ignore"):
        exact = ORACLES[name](*(operand.astype(np.float64) for operand in operands))
        off = np.where(
            np.isnan(exact), np.where(np.isnan(results), 0, math.inf), fast_errors_of(name, operands, results)
        )
    is_tiny = (abs(exact) < LEAST_NORMAL) & (abs(results) <= LEAST_NORMAL)
    if name == "rcp":
        is_tiny |= abs(operands[0]) < LEAST_NORMAL
    off = np.where(is_tiny, 0.0, off)
    worst = int(off.argmax())
    found = off[worst], [float(operand[worst]) for operand in operands], float(results[worst])
    assert off[worst] <= OPS[name].approximate_ulp, (name, found)


def fast_errors_of(name: str, operands: list[Array], results: Array) -> Array:
    return fast_errors(name, operands, results, ORACLES[name])


def test_the_op_table_has_their_bounds() -> None:
    assert set(APPROXIMATIONS) == {row.name for row in OPS.values() if row.approximate_ulp}
    assert {payload for name in APPROXIMATIONS for payload in instructions_of(name)} == set(INSTRUCTIONS)


def instructions_of(name: str) -> set[str]:
    return {str(n.payload) for n in approximation(name, True).nodes if n.opcode == "instruction"}


@pytest.mark.parametrize("target", TARGETS)
def test_bound(target: str) -> None:
    """At all magnitudes and near thresholds, as for the exact functions."""

    def check(name: str) -> None:
        operands = tried(name)
        checked(name, operands, run(name, DataType.F32, operands, target))

    each(APPROXIMATIONS, check)


def test_bound_with_instructions_that_err_as_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each instruction errs to either side by all that is documented; exact results and zeros stay."""
    rng = np.random.default_rng(0)

    def instruction(node: Any, *operands: Array) -> Array:
        exact = ORACLES[node.payload](*(operand.astype(np.float64) for operand in operands))
        unit = np.ldexp(1.0, np.frexp(np.where(np.isfinite(exact), exact, 1.0))[1] - 24)
        nearest, most = exact.astype(np.float32), INSTRUCTIONS[node.payload] * unit
        result: Array = (exact + most * rng.choice([-1, 1], exact.shape)).astype(np.float32)
        result = np.where(abs(result - exact) > most, np.nextafter(result, nearest), result)
        result = np.where(nearest == exact, nearest, result)
        return np.where(abs(result) < LEAST_NORMAL, np.copysign(np.float32(0), result), result)

    monkeypatch.setitem(interpreter._RULES, "instruction", instruction)

    def check(name: str) -> None:
        operands = tried(name)
        with np.errstate(all="ignore"):
            results = interpreter._run(approximation(name, True), operands)
        checked(name, operands, results)

    each(APPROXIMATIONS, check)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [DataType.F16, DataType.BF16], ids=str)
def test_halves_are_rounded_once_more(dtype: DataType, target: str) -> None:
    """An error of some ulp of f32 is no more than that rounding's, and a little."""

    def check(name: str) -> None:
        operands = tried(name, dtype, 500)
        results = numbers(run(name, dtype, operands, target), dtype)
        with np.errstate(all="ignore"):
            exact = ORACLES[name](*(numbers(operand, dtype) for operand in operands))
            unit, least = (2.0**-10, 2.0**-24) if dtype is DataType.F16 else (2.0**-7, LEAST_NORMAL)
            rounded = numbers(stored(exact, dtype), dtype)
            off = abs(results - exact) / np.maximum(abs(exact) * unit, least)
            is_same = (results == rounded) | (abs(exact) < LEAST_NORMAL)
            if name == "rcp":
                is_same |= abs(numbers(operands[0], dtype)) < LEAST_NORMAL
        assert np.where(is_same, 0, off).max() < 1.001, name

    each(APPROXIMATIONS, check)


@pytest.mark.parametrize("target", TARGETS)
def test_special_values(target: str) -> None:
    """Zeros, infinities and NaN give what the exact functions give."""

    def check(name: str) -> None:
        x = np.array([*X, math.nan], np.float32)
        compare(name, run(name, DataType.F32, [x], target), [*UNARY[name], math.nan])

    each([name for name in APPROXIMATIONS if name in UNARY], check)
    x, y, powers = (np.array(column, np.float32) for column in zip(*POW, strict=True))
    compare("pow", run("pow", DataType.F32, [x, y], target), powers.tolist())


def compare(name: str, found: Array, expected: list[float]) -> None:
    for got, want in zip(found.astype(np.float64), expected, strict=True):
        is_near = (
            abs(got - want) <= OPS[name].approximate_ulp * 2.0**-23 * abs(want)
            if np.isfinite(want)
            else got == want
        )
        is_same = (
            np.isnan(got) if math.isnan(want) else is_near and math.copysign(1, got) == math.copysign(1, want)
        )
        assert is_same, (name, got, want)


@pytest.mark.parametrize("target", TARGETS)
def test_f64_stays_exact(target: str) -> None:
    def check(name: str) -> None:
        operands = tried(name, DataType.F64, 100)
        exact, flagged = (run(name, DataType.F64, operands, target, flags) for flags in ((), ("afn",)))
        np.testing.assert_array_equal(exact, flagged)

    each(APPROXIMATIONS, check)
