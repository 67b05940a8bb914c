"""The GPU against the interpreter: every op at every type, and random programs, at no and full optimisation.

Programs are loaded many to a module: compiling one by one would take most of the time.
"""

from __future__ import annotations

import os

import pytest

from vyre_opt.ir.ops import OPS
from vyre_opt.ir.printer import print_program
from vyre_opt.lowering.nvptx import Unit
from vyre_opt.runtime.dispatcher import DispatchError, dispatcher
from vyre_opt.testing.generator import random_program
from vyre_opt.testing.op_programs import OpProgram, op_programs
from vyre_opt.testing.sample import random_inputs

pytestmark = pytest.mark.gpu

BATCH = 64
PROGRAMS = int(os.environ.get("VYRE_RANDOM_PROGRAMS", "256"))
OPTIONS = [("trap", 0), ("clamp", 2), ("none", 3)]


def differing(gpu, cases: list[OpProgram], expected: dict[str, list]) -> list[str]:
    """What differs from the interpreter, one line for each program; `expected` is filled on the way."""
    found = []
    for start in range(0, len(cases), BATCH):
        batch = cases[start : start + BATCH]
        gpu.preload([Unit(case.program, case.module) for case in batch])
        for case in batch:
            inputs = case.inputs(1)
            try:
                if case.name not in expected:
                    expected[case.name] = dispatcher("ref").dispatch(
                        case.program, inputs, case.grid, module=case.module
                    )
                given = gpu.dispatch(case.program, inputs, case.grid, module=case.module)
                what = case.mismatch(expected[case.name], given)
            except DispatchError as failed:
                what = str(failed)
            if what:
                found.append(f"{case.name}: {what}")
    return found


@pytest.fixture(scope="module")
def interpreted() -> dict[str, list]:
    return {}


@pytest.mark.parametrize(("bounds", "level"), OPTIONS)
def test_every_op(cuda, interpreted, bounds, level):
    found = differing(cuda(bounds=bounds, opt_level=level), list(op_programs()), interpreted)
    assert not found, "\n".join([f"{len(found)} programs differ", *found[:40]])


@pytest.mark.parametrize(("bounds", "level"), OPTIONS)
def test_random_programs(cuda, interpreted, bounds, level):
    cases = []
    for seed in range(PROGRAMS):
        sample = random_program(seed)
        for body in (sample.program, *sample.module.funcs.values()):
            without_approximations(body)
        cases.append(_Random(f"seed {seed}", sample.program, sample.module, sample.grid))
    found = differing(cuda(bounds=bounds, opt_level=level), cases, interpreted)
    texts = {case.name: print_program(case.module) for case in cases}
    shown = [f"{line}\n{texts[line.partition(':')[0]]}" for line in found[:2]]
    assert not found, "\n".join([f"{len(found)} programs differ", *found[:40], *shown])


def without_approximations(program) -> None:
    """Put exact ops in place of those that may be an ulp off: what follows from an ulp may be anything."""
    for op in program.walk():
        if op.definition.ulp:
            op.definition = OPS["neg"]


class _Random(OpProgram):
    def inputs(self, seed=0):
        return random_inputs(self.program, self.grid, seed)
