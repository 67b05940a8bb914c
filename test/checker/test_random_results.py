"""What passes made of random texts is edited at random: what the checker still proves, no call tells from what was there before."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from support.certifier_mistakes.edits import edit
from support.certifier_mistakes.recorder import Recorder, Step
from support.certifying import KINDS
from support.quick import quick

from vyre_opt import parse
from vyre_opt.certificates.writer import claims_of, findings, generic_text
from vyre_opt.driver.counterexample import counterexample
from vyre_opt.ir import Module, errors_of
from vyre_opt.passes import PassManager
from vyre_opt.rewriting.cloning import copy_module

EDITS = 4
"""Of what each execution of a pass made."""
SECONDS = 0.15
"""For a call on which an edited text that is proven does something else."""
CASES = [(kind, seed) for seed in range(300, 400) for kind in KINDS]
FIRST = ("hand-offs", "adversarial pipelines")


@pytest.mark.parametrize(("kind", "seed"), quick(CASES, group=lambda case: case[0] in FIRST, keep=1))
def test_what_is_proven_no_call_refutes(kind: str, seed: int) -> None:
    source, recorder = KINDS[kind](seed), Recorder()
    module = parse(source) if isinstance(source, str) else source
    PassManager("default", verify_each=False, observers=[recorder]).run(module)
    for number, step in enumerate(recorder.steps):
        for what, after in results(step, 1000 * seed + EDITS * number):
            if is_proven(step, after):
                found = counterexample(step.before, after, SECONDS)
                assert found is None, (
                    f"{step.running.name}: {what}: {found and found.what}\n{generic_text(after)}"
                )


def results(step: Step, seed: int) -> Iterator[tuple[str, Module]]:
    """What a pass made, and edits of it that are valid programs."""
    if not step.changed:
        return
    yield "nothing is edited", step.after
    for place in range(EDITS):
        edited, rng = copy_module(step.after), random.Random(seed + place)
        if all(program.body.ops for program in edited.programs.values()):
            what = edit(edited, rng)
            if what and not errors_of(edited):
                yield what, edited


def is_proven(step: Step, after: Module) -> bool:
    """Whether the checker proves all that the pass would claim of a result that is another one than it was before."""
    texts = generic_text(step.before), generic_text(after)
    if texts[0] == texts[1]:
        return False
    applied: list[Mapping[str, Any]] = [
        r.certificate for r in step.remarks if r.kind == "applied" and "claim" in r.certificate
    ]
    claims = claims_of(*texts, applied)
    return all(finding.status == "proven" for finding in findings(*texts, step.running.name, claims))
