"""Sets of elements as bit masks do what sets of ints do."""

from __future__ import annotations

from random import Random

import pytest
from support.each import each
from support.quick import quick

from vyre_opt.analysis.elements import EMPTY, MAX_SPAN, Elements


def drawn(random: Random) -> tuple[int, list[tuple[int, int]]]:
    """A start, and the strides and counts of up to three ranges."""
    ranges = [(random.randint(-40, 40), random.randint(0, 12)) for _ in range(random.randint(0, 3))]
    return random.randint(-40, 40), ranges


def build(start: int, ranges: list[tuple[int, int]]) -> tuple[Elements, set[int]]:
    """The sum of strided ranges, as both."""
    elements: Elements | None = Elements.single(start)
    plain = {start}
    for stride, count in ranges:
        assert elements is not None
        elements = elements.spread(stride, count)
        plain = {x + stride * i for x in plain for i in range(count)}
    assert elements is not None
    return elements, plain


def members(elements: Elements) -> set[int]:
    return {elements.low + i for i in range(elements.bits.bit_length()) if elements.bits >> i & 1}


def check_spread(start: int, ranges: list[tuple[int, int]]) -> None:
    elements, plain = build(start, ranges)
    assert members(elements) == plain
    assert len(elements) == len(plain)
    if plain:
        assert (elements.low, elements.high) == (min(plain), max(plain))


def check_union(a: int, ra: list[tuple[int, int]], b: int, rb: list[tuple[int, int]]) -> None:
    (left, plain_left), (right, plain_right) = build(a, ra), build(b, rb)
    union = left.union(right)
    assert union is not None
    assert members(union) == plain_left | plain_right
    assert members(left.minus(right)) == plain_left - plain_right
    assert members(left.shifted(7)) == {x + 7 for x in plain_left}


@pytest.mark.parametrize("seeds", quick([range(300), range(300, 10_000)]))
def test_spread_is_a_sum_of_sets(seeds: range) -> None:
    each(seeds, lambda seed: check_spread(*drawn(Random(seed))))


@pytest.mark.parametrize("seeds", quick([range(300), range(300, 10_000)]))
def test_union_and_difference(seeds: range) -> None:
    def check(seed: int) -> None:
        random = Random(seed)
        check_union(*drawn(random), *drawn(random))

    each(seeds, check)


def test_too_wide_a_set_is_given_up() -> None:
    """The span is bounded, so a mask never takes more than half a megabyte."""
    assert Elements.single(0).spread(1 << 20, 5) is None
    assert Elements.single(0).union(Elements.single(MAX_SPAN)) is None
    assert Elements.single(0).spread(1, 0) == EMPTY
