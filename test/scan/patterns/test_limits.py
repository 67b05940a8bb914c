"""Literals whose automaton would be too large are refused."""

import random

import pytest

from vyre_scan.patterns import automaton
from vyre_scan.patterns import literal_automaton as literals
from vyre_scan.patterns.literal_automaton import LimitExceeded, literal_automaton


def test_cells_of_literals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "MAX_CELLS", 1000)
    draw = random.Random(1)
    with pytest.raises(
        LimitExceeded, match=r"states of 257|states of \d+ classes of bytes, more than 1000 cells"
    ):
        literal_automaton([draw.randbytes(20) for _ in range(10)])
    assert automaton.MAX_CELLS == 1 << 29


def test_patterns_that_end_in_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "MAX_SHOWN_MATCHES", 1000)
    with pytest.raises(LimitExceeded, match="more than 1000 pairs of a pattern and one that it ends in"):
        literal_automaton([b"a" * (length + 1) for length in range(100)])
