"""All polynomials of coefficients.py, derived again."""

from __future__ import annotations

from pathlib import Path

import mpmath as mp
from support.math_coefficients import DIGITS, lines


def test_the_file_is_what_its_generator_writes() -> None:
    """All of them, some 20 s."""
    root = Path(__file__).resolve().parents[3]
    with mp.workdps(DIGITS):
        text = "\n".join(lines()).rstrip() + "\n"
    assert text == (root / "vyre_opt/math_functions/coefficients.py").read_text(encoding="utf-8")
