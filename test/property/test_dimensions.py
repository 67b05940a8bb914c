"""Random programs and pipelines over buffers of two and three dimensions: passes and targets give what ref gives.

A pipeline with a fault has it on the cpu too, if that looks for it; passes are compared on those without one.
`PYTHONPATH=test python -m support --dimensions 1` has more programs, `--pipelines 2000 --shaped` more pipelines.
"""

from __future__ import annotations

import numpy as np
import pytest
from support import Settings, random_program
from support.campaign import campaign
from support.certifying import certify_seeds
from support.differential import compare_random
from support.dimension_programs import RandomPipeline, random_pipeline
from support.pipeline_runs import compare_pipelines
from support.quick import quick
from support.shaped_kernels import shaped_pipeline

import vyre_opt
from vyre_opt import parse, print_program
from vyre_opt.execution import ProgramError
from vyre_opt.ir import AccessMode, Buffer

PASSES = (
    "launch_fusion,canonicalize,cse,store_forward,simplify_cf,dce",
    "default",
    "vectorize_access,barrier_elim,decode_scan_fuse,licm",
)


def outputs(case: RandomPipeline, target: str, passes: str = "") -> np.ndarray | ProgramError:
    compiled = vyre_opt.compile(case.text, target=target, passes=passes)
    try:
        y: np.ndarray = compiled(case.arrays(len(case.text)), lengths={"y": case.shape})["y"]
    except ProgramError as error:
        return error
    assert y.shape == case.shape
    return y


@pytest.mark.parametrize("seed", quick(range(400), keep=6))
def test_random_pipelines(seed: int) -> None:
    case = random_pipeline(seed)
    module = parse(case.text)
    assert print_program(parse(print_program(module))) == print_program(module)
    expected = outputs(case, "ref")
    on_cpu = outputs(case, "cpu")
    if isinstance(expected, ProgramError):
        if expected.kind == "bounds":
            assert isinstance(on_cpu, ProgramError)
            assert on_cpu.kind == "bounds"
        return
    assert not isinstance(on_cpu, ProgramError), str(on_cpu)
    assert np.array_equal(on_cpu, expected)
    for passes in PASSES:
        for target in ("ref", "cpu"):
            after = outputs(case, target, passes)
            assert not isinstance(after, ProgramError), f"{passes}: {after}"
            assert np.array_equal(after, expected), passes


@pytest.mark.parametrize("seed", quick(range(400), keep=5))
def test_kernels_on_rows(seed: int) -> None:
    case = shaped_pipeline(seed)
    module = parse(case.text)
    assert print_program(parse(print_program(module))) == print_program(module)
    for target in ("ref", "cpu"):
        for passes in ("", "default"):
            outputs = vyre_opt.compile(case.text, target=target, passes=passes)(case.inputs)
            for name, expected in case.expected.items():
                assert outputs[name].shape == expected.shape
                if expected.dtype == np.uint32:
                    assert np.array_equal(outputs[name], expected), (target, passes, name)
                else:
                    assert np.allclose(outputs[name], expected, rtol=2e-4, atol=2e-4), (target, passes, name)


SHAPED = Settings(statements=5, dimensions=1.0)
PART = 2


@pytest.mark.parametrize("start", quick(range(20000, 20200, PART)))
def test_programs_survive_passes_and_pipelines(start: int) -> None:
    """Their text parses to them, and a pass and a random pipeline leave their outputs as they are."""
    report = campaign(range(start, start + PART), settings=SHAPED)
    assert not report.failures, report.summary()
    assert report.programs["clean"] == PART


@pytest.mark.parametrize("start", quick(range(20200, 20400, PART)))
def test_programs_on_cpu(start: int) -> None:
    done = compare_random("cpu", range(start, start + PART), SHAPED, in_turn=True, jobs=1)
    assert not done.differences, done.summary("cpu")


@pytest.mark.parametrize("passes", ["default", "random"])
@pytest.mark.parametrize(
    ("target", "count"), quick([("ref", 24), ("cpu", 2), ("ref", 200), ("cpu", 100)], keep=2)
)
def test_sound_pipelines(target: str, count: int, passes: str) -> None:
    done = compare_pipelines(target, range(count), jobs=1, kind="shaped", passes=passes)
    assert not done.failures, "\n\n".join(
        f"seed {seed}: {what}\n{text}" for seed, what, text in done.failures
    )
    assert done.joined or passes == "random" or count < 20


@pytest.mark.parametrize("seed", quick(range(60), keep=2))
def test_decisions_are_certified(seed: int) -> None:
    certified = certify_seeds([seed], ["shaped programs", "shaped pipelines"])
    assert not certified.refuted


def test_the_share_is_what_it_says() -> None:
    """Buffers of one dimension everywhere, or of two and three, open and fixed, in storage and workgroup memory."""

    def buffers(share: float) -> list[Buffer]:
        settings = Settings(statements=1, dimensions=share)
        return [b for seed in range(20) for b in random_program(seed, settings).program.buffers.values()]

    assert {b.dimensions for b in buffers(0.0)} == {1}
    shaped = [b for b in buffers(1.0) if b.dimensions > 1]
    assert {b.dimensions for b in shaped} == {2, 3}
    assert {None in b.shape for b in shaped} == {True, False}
    assert {b.access for b in shaped} == {*AccessMode} - {AccessMode.CLUSTER}  # see cluster_programs
