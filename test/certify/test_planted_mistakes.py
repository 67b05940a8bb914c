"""Mistakes in analyses and passes: what they make of programs is refuted with values, whichever pass it was."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from support.certifier_mistakes import MISTAKES, Mistake
from support.certifier_mistakes.judge import is_wrong, judged
from support.certifier_mistakes.recorder import Recorder
from support.each import each
from support.quick import quick

from vyre_opt import parse
from vyre_opt.certify.certifier import CERTIFIED, Certifier
from vyre_opt.passes import PassManager

FIRST = (
    "no launch needs a barrier before it",
    "the lengths of launches are those of their tiles",
    "the last workgroup in turn is left out",
    "ifs of all conditions are one",
    "what a program gives back, nobody reads",
    "an index may be the length",
    "where neighbours part, the first one does nothing",
    "a workgroup adds before all have counted",
)
CASES = sorted(MISTAKES, key=lambda mistake: mistake.title not in FIRST)


@pytest.mark.parametrize("mistake", quick(CASES, keep=len(FIRST), ids=[case.title for case in CASES]))
def test_a_wrong_program_is_refuted(mistake: Mistake) -> None:
    """By z3, or by a call; and z3 alone proves no certified pass that made it."""
    assert is_wrong(mistake), "the interpreter finds no difference"
    verdict = judged(mistake)
    assert (verdict.status, verdict.is_proved) == ("refuted", False), verdict
    assert verdict.witness


def _perturbed(facts: Any, rng: random.Random) -> Any:
    """A certificate, or a part of one, with some of its values changed."""
    if isinstance(facts, dict):
        return {key: value if key == "claim" else _perturbed(value, rng) for key, value in facts.items()}
    if isinstance(facts, (list, tuple)):
        parts = [_perturbed(each, rng) for each in facts]
        return parts[: len(parts) - 1] if parts and rng.random() < 0.1 else parts
    if isinstance(facts, bool):
        return facts if rng.random() < 0.8 else not facts
    return facts + rng.choice((0, 0, 0, 1, -1, 2)) if isinstance(facts, int) else facts


CERTIFIED_MISTAKES = [
    mistake
    for mistake in CASES
    if {each.partition("{")[0] for each in mistake.passes.split(",")} <= set(CERTIFIED)
]


@pytest.mark.parametrize(
    "mistake", quick(CERTIFIED_MISTAKES, keep=3, ids=[case.title for case in CERTIFIED_MISTAKES])
)
def test_no_certificate_makes_a_wrong_program_right(mistake: Mistake) -> None:
    """What a pass says is a hint: with others, or with none, z3 still does not prove what it made."""
    recorder = Recorder()
    with mistake.is_made():
        PassManager(mistake.passes, verify_each=False, observers=[recorder]).run(parse(mistake.text))
    for seed in range(8):
        rng = random.Random(seed)
        certifier = Certifier()
        for step in recorder.steps:
            kept = [r for r in step.remarks if seed != 0 and (seed != 1 or rng.random() < 0.5)]
            told = [replace(r, certificate=_perturbed(r.certificate, rng)) for r in kept]
            certifier.before(step.running, step.before)
            certifier.after(step.running, step.after, True, told)
        for decision in certifier.decisions:
            decision.certify(1)
        assert {decision.status for decision in certifier.decisions} - {"proved"}, f"seed {seed}"


def test_each_mistake_has_its_place() -> None:
    """Also those that only campaigns plant."""

    def check(mistake: Mistake) -> None:
        with mistake.is_made():
            pass

    each(MISTAKES, check, lambda mistake: mistake.title)
    assert len({mistake.title for mistake in MISTAKES}) == len(MISTAKES) >= 60
