"""What a mistake leads to, and what the certifier says of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mutants.in_process import planted
from vyre_opt import parse
from vyre_opt.certify.certifier import Certifier, Decision
from vyre_opt.cli.certify import add_lowering
from vyre_opt.driver.counterexample import counterexample
from vyre_opt.passes.manager import PassManager

from .mistake import Mistake

__all__ = ["Verdict", "judged"]

SECONDS = 3.0


@dataclass(frozen=True)
class Verdict:
    """`status`: of the pass's decisions that is worst.  `by`: z3, or a call that was found.  `witness`: in words."""

    status: str
    by: str
    witness: str
    decisions: Sequence[Decision]


def judged(mistake: Mistake) -> Verdict:
    """Plant it, run the passes, and certify them."""
    certifier = Certifier(partial(counterexample, seconds=SECONDS))
    module = parse(mistake.text)
    with planted(mistake.mutant):
        if mistake.passes == "lowering":
            add_lowering(certifier, module)
        else:
            PassManager(mistake.passes, verify_each=False, observers=[certifier]).run(module)
    certifier.decisions += certifier.tried()
    for decision in certifier.decisions:
        decision.certify(SECONDS)
    for status in ("refuted", "unknown"):
        for decision in certifier.decisions:
            if decision.status == status:
                answer = next(a for a in decision.answers if a.status == status)
                shown = ", ".join(f"{name} = {value}" for name, value in answer.witness.items())
                words = f"{answer.obligation.what}: {'; '.join(filter(None, (answer.reason, shown)))}"
                by = "a call" if answer.reason and status == "refuted" else "z3"
                return Verdict(status, by, words, certifier.decisions)
    return Verdict("proved", "", "", certifier.decisions)
