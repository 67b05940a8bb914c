"""Asking z3 whether a claim holds for all values of its variables, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import z3

__all__ = ["PROVED", "REFUTED", "UNKNOWN", "Outcome", "prove"]

PROVED, REFUTED, UNKNOWN = "proved", "refuted", "unknown"

_STEPS = "simplify propagate-values fpa2bv simplify propagate-values simplify bit-blast sat"
_TACTIC = z3.Then(*_STEPS.split())


@dataclass(frozen=True, slots=True)
class Outcome:
    """`verdict`: one of the three words above.  `counterexample`: variables and values, where refuted.

    `seconds`: of one core.
    """

    verdict: str
    seconds: float
    counterexample: str = ""


def prove(
    claims: Sequence[z3.BoolRef], seconds: float, cases: Sequence[Sequence[z3.BoolRef]] = ((),)
) -> Outcome:
    """Whether all claims hold for all values of their variables, if z3 finds out in that time.

    `cases`: assumptions, one of which always holds; each case is a question of its own.  Under an assumption
    terms that are only equal there become the same, which for dividers is the difference of seconds and hours.
    """
    start = time.process_time()
    # as they are written, and not simplified: that hides from z3 where two floats are computed alike
    open_claims = [c for c in claims if not z3.is_true(z3.simplify(c))]
    if not open_claims:
        return Outcome(PROVED, time.process_time() - start)
    wrong = z3.Not(z3.And(open_claims))
    questions = [[*case, wrong] for case in cases]
    questions.append([z3.Not(z3.And(list(case))) for case in cases])  # no case is left out
    verdict = PROVED
    for question in questions:
        answer, model = _ask(question, seconds)
        if answer == z3.sat:
            return Outcome(REFUTED, time.process_time() - start, model)
        if answer != z3.unsat:
            verdict = UNKNOWN
    return Outcome(verdict, time.process_time() - start)


def _ask(question: Sequence[z3.BoolRef], seconds: float) -> tuple[z3.CheckSatResult, str]:
    """Whether the question has an answer, and which."""
    solver = _TACTIC.solver()
    for turn in (solver, z3.SolverFor("QF_BVFP")):
        turn.set("timeout", int(seconds * 1000))
        turn.add(*question)
        answer = turn.check()
        # the steps cannot turn every answer back to floats, and then call it unknown at once
        if answer != z3.unknown or turn.reason_unknown() == "timeout":
            break
    return answer, str(turn.model()) if answer == z3.sat else ""
