"""What fusion_pressure refuses, what it keeps, and that should_fuse_chain is exact at any size."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.each import each

from vyre_opt import BackendError, BadInputs, Scratch, fusion_pressure, pressure_of, should_fuse_chain

U32 = (1 << 32) - 1


class Answers:
    """A backend that gives `outputs` of a step with `count` outputs, whatever it is asked."""

    def __init__(self, outputs: Any = None) -> None:
        self.outputs = outputs
        self.calls = 0

    def dispatch(self, program: Any, inputs: Sequence[Any], grid: Any) -> Any:
        self.calls += 1
        return self.outputs(len(inputs[2])) if self.outputs else [np.zeros(len(inputs[2]), np.uint32)]


NO_RANKS = [
    [-1],
    [1, True],
    [2.0],
    [U32 + 1],
    ["4"],
    [None],
    np.array([2.0]),
    np.array([-3]),
    np.array([True]),
    np.array([[2, 3]]),
    np.array([1 << 32]),
    "44",
    b"44",
    {3: 4},
    7,
    None,
]


def test_what_is_no_rank() -> None:
    """Refused before a dispatch, by all three functions alike, in one line."""

    def check(ranks: Any) -> None:
        backend = Answers()
        for ask in (
            lambda: fusion_pressure(ranks, dispatcher=backend),
            lambda: should_fuse_chain(ranks, 2.0),
            lambda: pressure_of(ranks),
        ):
            with pytest.raises(BadInputs, match=r"ranks? ") as caught:
                ask()
            assert "\n" not in str(caught.value)
        assert backend.calls == 0

    each(NO_RANKS, check, repr)


@pytest.mark.parametrize(
    ("ranks", "why"),
    [
        ([1 << 16, 1 << 16], "product of the ranks is beyond"),
        ([U32, 2], "product of the ranks is beyond"),
        ([1025, 1024], "core of 1025 x 1024 has 1049600 cells"),
        ([(1 << 20) + 1], "core of 1 x 1048577"),
        ([1025, 0, 1024], "core of 1025 x 1024"),
    ],
)
def test_too_large_for_the_contraction(ranks: list[int], why: str) -> None:
    backend = Answers()
    with pytest.raises(BadInputs, match=why) as caught:
        fusion_pressure(ranks, dispatcher=backend)
    assert "shard the chain or lower the ranks" in str(caught.value)
    assert backend.calls == 0
    assert pressure_of(ranks) == math.prod(rank for rank in ranks if rank)


@pytest.mark.parametrize("ranks", [[1 << 20], [1 << 10, 1 << 10, 1 << 10], [3, 5, 17, 257, 257, 255]])
def test_at_the_limits(ranks: list[int]) -> None:
    """2^20 cells, and products beyond 2^31, where 16.16 numbers are negative."""
    assert fusion_pressure(ranks) == math.prod(ranks)


WRONG_OUTPUTS = [
    (lambda n: [np.zeros(n - 1, np.uint32)], "0 elements instead of 1"),
    (lambda n: [np.zeros(n + 1, np.uint32)], "2 elements instead of 1"),
    (lambda n: [b"\0" * (4 * n + 1)], "5 bytes instead of 4"),
    (lambda n: [b""], "0 bytes instead of 4"),
    (lambda n: [], "0 outputs"),
    (lambda n: [np.zeros(n, np.uint32)] * 2, "2 outputs"),
    (lambda n: None, "NoneType"),
    (lambda n: [None] * n, "object elements"),
    (lambda n: [np.zeros(n, np.float32)], "float32 elements"),
    (lambda n: [np.full(n, -1)], "not u32 numbers"),
]


def test_outputs_that_are_not_the_steps() -> None:
    """Short, missing, long or of another type: the backend is at fault, not the caller."""

    def check(case: tuple[Any, str]) -> None:
        outputs, what = case
        with pytest.raises(BackendError, match=what):
            fusion_pressure([1], dispatcher=Answers(outputs))

    each(WRONG_OUTPUTS, check)


@pytest.mark.parametrize("value", ["gpu", None, 3])
def test_what_is_no_dispatcher(value: Any) -> None:
    with pytest.raises(BadInputs, match="ref, cpu"):
        fusion_pressure([2], value)


def test_outputs_as_bytes() -> None:
    """A backend may give the bytes of its output."""
    backend = Answers(lambda n: [np.full(n, 0x01020304, "<u4").tobytes()])
    assert fusion_pressure([2], dispatcher=backend) == 0x01020304


def test_scratch_is_kept() -> None:
    """The cores of a second call are those of the first, unless they are too small."""
    scratch = Scratch()
    assert fusion_pressure([64, 32], scratch=scratch) == 2048
    before = {id(each) for each in scratch.storage.values() if isinstance(each, np.ndarray)}
    assert fusion_pressure([32, 32], scratch=scratch) == 1024
    assert {id(each) for each in scratch.storage.values() if isinstance(each, np.ndarray)} == before
    assert fusion_pressure([256, 256], scratch=scratch) == 65536


NO_THRESHOLDS = [0, 0.0, -0.0, -1.5, math.nan, -math.inf, Fraction(-1, 3), True, "4", None, 1j]


def test_what_is_no_threshold() -> None:
    def check(threshold: Any) -> None:
        for ranks in ([], [4]):
            with pytest.raises(BadInputs, match="threshold_per_link is"):
                should_fuse_chain(ranks, threshold)

    each(NO_THRESHOLDS, check, repr)


EDGES = [
    ([4, 4], 4, True),
    ([4, 4], np.nextafter(4.0, 0), False),
    ([2, 8], 4.0, True),
    ([0, 16], 4.0, True),  # a zero rank is no factor, but a link
    ([0, 17], 4.0, False),
    ([0, 0], 1.0, True),
    ([0, 0], 0.5, False),
    ([U32] * 9, math.inf, True),
    ([1], 5e-324, False),
    ([U32], 10**400, True),
    ([U32] * 3, np.float32(4294967295), True),  # rounds to 2^32
    ([10, 10, 10], Fraction(10), True),
    ([10, 10, 10], Fraction(10**30 - 1, 10**29), False),
]


def test_decisions_at_the_edge() -> None:
    def check(case: tuple[list[int], Any, bool]) -> None:
        ranks, threshold, fuse = case
        assert should_fuse_chain(ranks, threshold) is fuse

    each(EDGES, check)


RANKS = st.lists(st.one_of(st.integers(0, 40), st.integers(0, U32)), min_size=1, max_size=40)


@given(RANKS, st.integers(-3, 3), st.data())
@settings(max_examples=300, deadline=None)
def test_decision_is_that_of_the_rationals(ranks: list[int], ulps: int, data: st.DataObject) -> None:
    """Thresholds a few ulps around the geometric mean, where logarithms of floats decide by chance."""
    pressure = math.prod(rank for rank in ranks if rank)
    threshold = math.exp2(math.log2(pressure) / len(ranks))
    if data.draw(st.booleans()):
        threshold = float(round(threshold))
    for _ in range(abs(ulps)):
        threshold = math.nextafter(threshold, math.copysign(math.inf, ulps))
    exact = pressure <= Fraction(threshold) ** len(ranks)
    assert should_fuse_chain(ranks, threshold) is exact
    assert pressure_of(ranks) == pressure


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.floats(0.5, 20))
@settings(max_examples=60, deadline=None)
def test_dispatched_and_closed_form_agree(ranks: list[int], threshold: float) -> None:
    assert fusion_pressure(ranks, dispatcher="cpu") == pressure_of(ranks)
    assert should_fuse_chain(ranks, threshold) is should_fuse_chain(ranks, threshold, dispatcher="cpu")


def seconds(ranks: list[int], threshold: Any) -> float:
    """The least of three, so that a busy machine does not count."""
    times = []
    for _ in range(3):
        start = time.process_time()
        should_fuse_chain(ranks, threshold)
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("threshold", ["mean", "far", "equal"])
def test_long_chains_of_large_ranks(threshold: str) -> None:
    """65,536 links with a pressure of two million bits: no power is multiplied out to decide."""
    ranks = [U32 - 2 * i for i in range(65536)]
    mean = math.exp2(math.fsum(math.log2(rank) for rank in ranks) / len(ranks))
    if threshold == "equal":
        ranks, mean = [U32] * 65535 + [0], float(U32)
    assert seconds(ranks, {"mean": mean, "far": 2.0, "equal": mean}[threshold]) < 1
