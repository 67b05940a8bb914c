"""Asking z3 whether a claim holds for all values of its variables, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import z3

__all__ = ["PROVED", "REFUTED", "UNKNOWN", "Outcome", "prove"]

PROVED, REFUTED, UNKNOWN = "proved", "refuted", "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`verdict`: one of the three words above.  `counterexample`: variables and values, where refuted."""

    verdict: str
    seconds: float
    counterexample: str = ""


def prove(claims: Sequence[z3.BoolRef], seconds: float) -> Outcome:
    """Whether all claims hold for all values of their variables, if z3 finds out in that time."""
    start = time.perf_counter()
    open_claims = [c for c in map(z3.simplify, claims) if not z3.is_true(c)]
    if not open_claims:
        return Outcome(PROVED, time.perf_counter() - start)
    solver = z3.SolverFor("QF_BVFP")
    solver.set("timeout", int(seconds * 1000))
    solver.add(z3.Not(z3.And(open_claims)))
    answer = solver.check()
    spent = time.perf_counter() - start
    if answer == z3.sat:
        return Outcome(REFUTED, spent, str(solver.model()))
    return Outcome(PROVED if answer == z3.unsat else UNKNOWN, spent)
