"""Mistakes in analyses and passes: what they make of programs is refuted with values, whichever pass it was."""

from __future__ import annotations

import pytest
from support.certifier_mistakes import MISTAKES, Mistake
from support.certifier_mistakes.judge import is_wrong, judged
from support.quick import quick

FIRST = (
    "no launch needs a barrier before it",
    "the lengths of launches are those of their tiles",
    "the last workgroup in turn is left out",
    "ifs of all conditions are one",
    "what a program gives back, nobody reads",
    "an index may be the length",
)
CASES = sorted(MISTAKES, key=lambda mistake: mistake.title not in FIRST)


@pytest.mark.parametrize("mistake", quick(CASES, keep=len(FIRST), ids=[case.title for case in CASES]))
def test_a_wrong_program_is_refuted(mistake: Mistake) -> None:
    """By z3, or by a call; and z3 alone proves no certified pass that made it."""
    assert is_wrong(mistake), "the interpreter finds no difference"
    verdict = judged(mistake)
    assert (verdict.status, verdict.is_proved) == ("refuted", False), verdict
    assert verdict.witness
