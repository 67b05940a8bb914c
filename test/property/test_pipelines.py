"""Pipelines before and after the default passes, run by the real runner: the named kinds, and random ones.

`PYTHONPATH=test python -m support --pipelines 2000 --target cpu` runs more of the random ones.
"""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from support.__main__ import main
from support.bound_programs import bound_pipeline
from support.launch_kinds import KINDS, Kind
from support.launch_pipelines import launch_pipeline
from support.pipeline_runs import PASSES, any_inputs, compare_pipelines, difference, observe
from support.quick import quick

from vyre_opt import parse
from vyre_opt.fusion import pair_legality
from vyre_opt.ir import errors_of


@pytest.mark.parametrize("kind", quick(KINDS, keep=6), ids=str)
def test_kind_on_cpu(kind: Kind) -> None:
    """The kinds of test/passes on compiled code: launch_fusion and all that follows it."""
    inputs = any_inputs(kind.text, 3)
    expected = observe(kind.text, "ref", inputs)
    for passes in ("", PASSES):
        assert difference(expected, observe(kind.text, "cpu", inputs, passes)) == ""


@pytest.mark.parametrize(
    ("target", "count", "joined"), quick([("ref", 6, 2), ("ref", 24, 10), ("cpu", 24, 10)])
)
def test_random_pipelines(target: str, count: int, joined: int) -> None:
    """Outputs and host reads stay, and launches of both sorts of pipelines are joined."""
    done = compare_pipelines(target, range(count), jobs=1)
    assert not done.failures, "\n\n".join(
        f"seed {seed}: {what}\n{text}" for seed, what, text in done.failures
    )
    assert done.pipelines == count
    assert done.joined > joined


def test_bound_programs_verify_and_share_buffers() -> None:
    """Programs that agree on a grid have buffers in common, or nothing could go wrong between them."""
    shared = 0
    for seed in range(1, 21, 2):
        module = parse(bound_pipeline(seed))
        assert not errors_of(module)
        pipeline = module.pipelines["main"]
        bindings = [name for stage in pipeline.walk() for name in getattr(stage, "buffers", ())]
        shared += len(bindings) - len(set(bindings))
    assert shared > 20


@pytest.mark.parametrize("make", [launch_pipeline, bound_pipeline])
def test_a_seed_gives_one_text(make) -> None:
    text = make(7)
    assert make(7) == text
    assert make(9) != text


@pytest.mark.usefixtures("unchecked_results")
def test_a_wrong_proof_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign that never finds anything would pass every other test here."""
    monkeypatch.setattr(pair_legality, "raw_hazard", lambda *_: None)
    done = compare_pipelines("ref", range(0, 40, 2), jobs=1)
    assert done.failures
    assert "after default on ref" in done.failures[0][1]
    assert parse(done.failures[0][2])


@pytest.mark.usefixtures("unchecked_results")
@pytest.mark.campaign
def test_command(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count and a summary; what differs is shown, saved, and exit code 1."""
    ran = CliRunner().invoke(main, ["--pipelines=3", "--target=cpu", "--jobs=1"])
    assert ran.exit_code == 0, ran.output
    assert ran.output.startswith("3 pipelines on cpu before and after default against ref: ")
    monkeypatch.setattr(pair_legality, "raw_hazard", lambda *_: None)
    ran = CliRunner().invoke(main, ["--pipelines=20", "--jobs=1", f"--save={tmp_path}"])
    assert ran.exit_code == 1
    assert "after default on ref" in ran.output
    assert all(path.read_text().startswith("// ") for path in tmp_path.glob("pipeline-ref-*.vyre"))
    assert list(tmp_path.iterdir())
