"""The comparison of a product with a power: intervals that round outwards, and what is too close for them."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.quick import quick

from vyre_opt.fusion import power_compare
from vyre_opt.fusion.power_compare import is_within_power, product

U32 = (1 << 32) - 1
TINY = Fraction(1, 1 << 4000)


@pytest.mark.parametrize("factors", [[U32] * 40, [65521 * 9, 65521] + [65521 * 3] * 38])
def test_equal_and_nearly_equal(factors: list[int]) -> None:
    """1,280 bits, so intervals cannot tell: equal is within, less by any amount is not."""
    base = Fraction(max(set(factors), key=factors.count))
    assert is_within_power(factors, base, 40)
    assert is_within_power(factors, base + TINY, 40)
    assert not is_within_power(factors, base - TINY, 40)


@pytest.mark.parametrize("examples", quick([80, 400]))
def test_intervals_round_outwards(monkeypatch: pytest.MonkeyPatch, examples: int) -> None:
    """At 6 bits rounding shows in almost every product; an interval too narrow would decide wrong."""
    monkeypatch.setattr(power_compare, "PRECISION", 6)
    factors = st.lists(st.integers(1, 99), min_size=1, max_size=12)
    bases = st.fractions(Fraction(1, 9), 99, max_denominator=60)
    check = given(factors, bases, st.booleans())(check_decision)
    settings(max_examples=examples, deadline=None)(check)()


def check_decision(factors: list[int], base: Fraction, is_close: bool) -> None:
    if is_close:  # a base about the geometric mean
        base = Fraction(round(100 * prod(factors) ** (1 / len(factors))), 100)
    exact = prod(factors) <= base ** len(factors)
    assert is_within_power(factors, base, len(factors)) is exact


@given(st.lists(st.integers(1, U32), max_size=33))
def test_product(factors: list[int]) -> None:
    """Of none, of an odd count and of a power of two."""
    assert product(factors) == prod(factors)
