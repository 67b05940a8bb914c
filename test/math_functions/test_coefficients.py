"""coefficients.py is what its generator writes, so that its polynomials can be derived again, and changed."""

from __future__ import annotations

import mpmath as mp
import pytest
from support.math_coefficients import DIGITS, ROWS, Row, fitted

from vyre_opt.math_functions import coefficients
from vyre_opt.math_functions.expression import F32


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in ("SIN", "LOG")], ids=lambda row: row.name)
def test_a_polynomial_is_derived_again(row: Row) -> None:
    with mp.workdps(DIGITS):
        found, size = fitted(row, F32)
    assert found == getattr(coefficients, row.name)["f32"]
    assert size < -F32.precision - 4


def test_every_polynomial_has_a_row() -> None:
    assert [row.name for row in ROWS] == coefficients.__all__
