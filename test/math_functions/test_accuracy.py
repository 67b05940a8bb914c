"""Errors of the mathematical functions against mpmath, as the interpreter computes them; all targets give its bits.

`make maths` tries all of f16 and bf16 and ten million arguments of f32: docs/reference/math_functions.md has the figures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.each import each
from support.math_oracle import (
    FUNCTIONS,
    UNARY,
    arguments,
    errors,
    in_domain,
    near_quadrants,
    numbers,
)
from support.quick import quick

from vyre_opt.ir import OPS, DataType
from vyre_opt.math_functions.functions import FUNCTIONS as RECORDED
from vyre_opt.targets.ref.elementwise import compute

TYPES = [DataType.F16, DataType.BF16, DataType.F32, DataType.F64]
COUNTS = {"f16": 60, "bf16": 60, "f32": 250, "f64": 120}


def evaluate(name: str, dtype: DataType, operands: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The interpreter's results for stored operands, stored."""
    if dtype is not DataType.BF16:
        with np.errstate(all="ignore"):
            return compute(name, operands, dtype)
    registers = [numbers(operand, dtype).astype(np.float32) for operand in operands]
    with np.errstate(all="ignore"):
        return (compute(name, registers, dtype).view(np.uint32) >> 16).astype(np.uint16)


def test_every_function_of_the_table_is_tested() -> None:
    assert set(FUNCTIONS) == {row.name for row in OPS.values() if row.ulp}
    assert set(FUNCTIONS) == {name for name in RECORDED if "." not in name}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("share", quick([4, 1]))
def test_bound(dtype: DataType, share: int) -> None:
    """At all magnitudes, near thresholds, and for sin, cos and tan next to the multiples of pi/2 that floats come closest to."""

    def check(name: str) -> None:
        operands = arguments(name, dtype, COUNTS[dtype.name] // share)
        off = errors(name, dtype, operands, evaluate(name, dtype, operands))
        worst = int(off.argmax())
        assert off[worst] <= OPS[name].ulp, [operand[worst] for operand in operands]

    each(FUNCTIONS, check)


@pytest.mark.campaign
@pytest.mark.parametrize("dtype", TYPES[:2], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_all_numbers_of_16_bits(name: str, dtype: DataType) -> None:
    words = np.arange(1 << 16, dtype=np.uint16)
    column = words if dtype is DataType.BF16 else words.view(np.float16)
    operands = [column[in_domain(name, numbers(column, dtype))]]
    off = errors(name, dtype, operands, evaluate(name, dtype, operands))
    assert off.max() <= OPS[name].ulp


def test_hard_arguments_are_hard() -> None:
    """Guards against arguments that are all far from multiples of pi/2: some are within 2^-58, of large ones too."""
    hard = near_quadrants(DataType.F64)
    sines = evaluate("sin", DataType.F64, [hard])
    cosines = evaluate("cos", DataType.F64, [hard])
    nearest = np.minimum(abs(sines), abs(cosines))
    assert nearest.min() < 2.0**-58
    assert nearest[hard > 1e300].min() < 2.0**-50
