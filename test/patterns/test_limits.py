"""Sets of patterns whose automata would be too large are refused, with the names of those that are to blame."""

import random
import re

import pytest

from vyre_opt.patterns import automaton, literals, positions
from vyre_opt.patterns.compile import compile_patterns
from vyre_opt.patterns.errors import LimitExceeded


def test_a_pattern_with_too_many_states() -> None:
    """The state knows where each `a` of the last 20 bytes was: 2 to the 20th."""
    with pytest.raises(LimitExceeded, match=r"of patterns\[1\] b'a\.\{20\}b' needs more than 5000 states"):
        compile_patterns([rb"ok", rb"a.{20}b", rb"c+"], regex=True, max_states=5000)


def test_patterns_with_too_many_states_together() -> None:
    """Each is small; together they count independently of each other."""
    patterns = [rb"a[^\n]*b", rb"c[^\n]*d", rb"e[^\n]*f", rb"g[^\n]*h", rb"k"]
    compile_patterns(patterns, regex=True)
    with pytest.raises(LimitExceeded, match=r"more than 20 states: .*patterns\[\d\] b'.\[") as caught:
        compile_patterns(patterns, regex=True, max_states=20)
    assert "max_states" in str(caught.value)


def test_the_budget_is_exact() -> None:
    """As many states as the automata have are enough, and one less is not."""
    patterns = [re.compile(rb"[ab]+c"), re.compile(rb"b\d{2,3}"), b"bcb"]
    states = compile_patterns(patterns).search.num_states
    assert compile_patterns(patterns, max_states=states).search.num_states == states
    with pytest.raises(LimitExceeded, match=f"more than {states - 1} states"):
        compile_patterns(patterns, max_states=states - 1)


def test_a_reverse_automaton_counts_too() -> None:
    """Forwards the `x` says where nine letters are counted from; backwards each `c` may be the one before them."""
    backwards = rb"x[bc]{9}c[bc]*a"
    compiled = compile_patterns([backwards], regex=True)
    assert compiled.reverse is not None
    assert compiled.search.num_states < 20 < compiled.reverse.num_states
    with pytest.raises(LimitExceeded, match=r"patterns\[0\]"):
        compile_patterns([backwards], regex=True, max_states=20)


def test_cells_of_literals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "MAX_CELLS", 1000)
    draw = random.Random(1)
    with pytest.raises(
        LimitExceeded, match=r"states of 257|states of \d+ classes of bytes, more than 1000 cells"
    ):
        compile_patterns([draw.randbytes(20) for _ in range(10)])
    assert automaton.MAX_CELLS == 1 << 29


def test_patterns_that_end_in_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "MAX_SHOWN_MATCHES", 1000)
    with pytest.raises(LimitExceeded, match="more than 1000 pairs of a pattern and one that it ends in"):
        compile_patterns([b"a" * (length + 1) for length in range(100)])


def test_moves_of_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "MAX_MOVES", 1000)
    with pytest.raises(LimitExceeded, match=r"patterns\[0\].* needs more than 1000 pairs of bytes"):
        compile_patterns([rb"(?:a?){100}b"], regex=True)
