"""Random pipelines that hand over tiles by matrices and copies, before and after passes; and what the second prover says.

`PYTHONPATH=test python -m support --pipelines 2000 --matrices --target ref` runs more of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.certifying import certify_seeds
from support.matrix_pipelines import matrix_pipeline
from support.pipeline_runs import PASSES, RANDOM, any_inputs, compare_pipelines, difference, observe
from support.quick import quick

from vyre_opt import parse
from vyre_opt.analysis.dependence import DependenceTest
from vyre_opt.analysis.footprint import MemoryAccess
from vyre_opt.certify.certifier import Certifier
from vyre_opt.execution import DispatchError
from vyre_opt.fusion import pair_legality
from vyre_opt.ir import DiagnosticError
from vyre_opt.passes import PassManager, barrier_elim


def compared(target: str, seeds: Any, passes: str = PASSES) -> Any:
    done = compare_pipelines(target, seeds, jobs=1, kind="matrices", passes=passes)
    assert not done.failures, "\n\n".join(
        f"seed {seed}: {what}\n{text}" for seed, what, text in done.failures
    )
    return done


@pytest.mark.parametrize(
    ("first", "count"), quick([(0, 4), (4, 4), *((first, 20) for first in range(100, 500, 20))])
)
def test_default_passes(first: int, count: int) -> None:
    """Outputs stay, no fault is new, and a good part of the launches is joined."""
    done = compared("ref", range(first, first + count))
    assert done.joined > done.launches / 3


@pytest.mark.parametrize("first", quick(range(1000, 1100, 5)))
def test_random_passes(first: int) -> None:
    compared("ref", range(first, first + 5), passes=RANDOM)


@pytest.mark.parametrize("first", quick(range(2000, 2020, 2)))
def test_on_cpu(first: int) -> None:
    compared("cpu", range(first, first + 2))


@pytest.mark.campaign
def test_pipelines_vary() -> None:
    texts = "".join(matrix_pipeline(seed) for seed in range(30))
    for word in (
        "column_major",
        "copy_async",
        "copy_wait 1",
        "barrier subgroup",
        " : u8",
        "xor",
        "sub_sat",
        "if",
    ):
        assert word in texts, word


def along_first_row(access: MemoryAccess, along: Any = MemoryAccess.along) -> list[MemoryAccess]:
    """As if a matrix were of one row."""
    *outer, last = along(access)
    return [*(replace(each, width=1) for each in outer), last]


@pytest.mark.usefixtures("unchecked_results")
@pytest.mark.parametrize(
    ("owner", "name", "wrong", "seed"),
    [
        (DependenceTest, "disjoint_between_workgroups", lambda *_: True, 22),
        (MemoryAccess, "is_collective", property(lambda _: False), 5),
        (MemoryAccess, "along", along_first_row, 67),
    ],
)
def test_a_wrong_proof_is_found(
    owner: Any, name: str, wrong: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign that never finds anything would pass every other test here."""
    monkeypatch.setattr(owner, name, wrong)
    assert compare_pipelines("ref", [seed], jobs=1, kind="matrices").failures


# --- the second prover


@pytest.mark.parametrize("seed", quick(range(60)))
def test_decisions_are_certified(seed: int) -> None:
    certified = certify_seeds([seed], ["matrix pipelines"])
    assert not certified.refuted
    assert not certified.unknown


BROKEN = {
    "joins": (pair_legality, "hazard_of", None, "launch_fusion"),
    "barriers of joins": (pair_legality, "needs_barrier", False, "launch_fusion"),
    "barriers": (barrier_elim._Segment, "conflicts", False, "launch_fusion,barrier_elim"),
}
"""What a pass asks before it decides, with an answer that lets it do anything; and passes to run."""


@pytest.mark.usefixtures("unchecked_results")
@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize(("first", "count"), quick([(0, 1), *((first, 5) for first in range(0, 200, 5))]))
def test_what_is_proved_of_wrong_decisions_is_so(
    what: str, first: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass that proves nothing decides wrongly, and of what it decides wrongly not all is proved."""
    owner, name, answer, passes = BROKEN[what]
    for seed in range(first, first + count):
        text = matrix_pipeline(seed)
        module, certifier = parse(text), Certifier()
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, lambda *_: answer)
            PassManager(passes, verify_each=False, observers=[certifier]).run(module)
        for decision in certifier.decisions:
            decision.certify(2.0)
        if any(decision.status != "proved" for decision in certifier.decisions):
            continue
        inputs = any_inputs(text, seed)
        try:
            wrong = difference(observe(text, "ref", inputs), observe(module, "ref", inputs))
        except (DispatchError, DiagnosticError) as fault:
            wrong = str(fault)
        assert not wrong, f"seed {seed}: {wrong}\n{text}"
