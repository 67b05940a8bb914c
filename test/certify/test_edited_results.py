"""What a certified pass made is edited at random: what z3 still proves, no call tells from what was there before."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from support.certifier_mistakes.edits import edit
from support.certifier_mistakes.recorder import Recorder
from support.certifying import KINDS
from support.quick import quick

from vyre_opt import parse
from vyre_opt.certify.certifier import CERTIFIED, Certifier, Decision
from vyre_opt.driver.counterexample import counterexample
from vyre_opt.ir import Module, errors_of, print_program
from vyre_opt.passes import PassManager
from vyre_opt.rewriting.cloning import copy_module

EDITS = 12
"""Of what each execution of a pass made."""

RELAUNCHED = "coarsen{by=2},privatize{workgroups=2}"
CASES = [
    ("shaped programs", 701, "default"),
    ("neighbour pipelines", 704, RELAUNCHED),
    *((kind, seed, "default") for kind in KINDS for seed in range(701, 741)),
    *(("neighbour pipelines", seed, RELAUNCHED) for seed in range(701, 741)),
]


@pytest.mark.parametrize(("kind", "seed", "passes"), quick(CASES, keep=2))
def test_no_edit_that_changes_a_program_is_proved(kind: str, seed: int, passes: str) -> None:
    source = KINDS[kind](seed)
    recorder = Recorder()
    PassManager(passes, verify_each=False, observers=[recorder]).run(
        parse(source) if isinstance(source, str) else source
    )
    steps = [step for step in recorder.steps if step.running.name in CERTIFIED and step.changed]
    counts = Counter[str]()
    for number, step in enumerate(steps):
        for place in range(EDITS):
            edited = copy_module(step.after)
            what = edit(edited, random.Random(1000 * seed + EDITS * number + place))
            if not what or not is_valid(edited) or print_program(edited) == print_program(step.after):
                continue
            certifier = Certifier()
            certifier.before(step.running, step.before)
            certifier.after(step.running, edited, True, step.remarks)
            is_proved = all(map(is_decision_proved, certifier.decisions))
            counts["proved" if is_proved else "not proved"] += 1
            found = counterexample(step.before, edited, 2.0) if is_proved else None
            assert found is None, (
                f"{step.running.name}: {what}: {found and found.what}\n{print_program(edited)}"
            )
    assert counts or (kind, seed, passes) not in CASES[:2], "nothing was edited"


def is_decision_proved(decision: Decision) -> bool:
    decision.certify(1)
    return decision.status == "proved"


def is_valid(module: Module) -> bool:
    try:
        return not errors_of(module)
    except (AssertionError, LookupError, ValueError):
        return False
