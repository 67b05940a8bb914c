"""Random pipelines over buffers of two and three dimensions: passes and targets give what the interpreter gives.

A pipeline with a fault has it on the cpu too, if that looks for it; passes are compared on those without one.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.dimension_programs import RandomPipeline, random_pipeline
from support.quick import quick

import vyre_opt
from vyre_opt import parse, print_program
from vyre_opt.runtime.dispatcher import ProgramError

PASSES = (
    "launch_fusion,canonicalize,cse,store_forward,simplify_cf,dce",
    "default",
    "vectorize_access,barrier_elim,decode_scan_fuse,licm",
)


def outputs(case: RandomPipeline, target: str, passes: str = "") -> np.ndarray | ProgramError:
    x = np.random.default_rng(len(case.text)).integers(0, 1 << 32, case.shape, np.uint32)
    compiled = vyre_opt.compile(case.text, target=target, passes=passes)
    try:
        y: np.ndarray = compiled({"x": x}, lengths={"y": case.shape})["y"]
    except ProgramError as error:
        return error
    assert y.shape == case.shape
    return y


@pytest.mark.parametrize("seed", quick(range(400), keep=40))
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
