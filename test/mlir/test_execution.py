"""What is written, run on the CPU by mlir-opt and LLVM, computes what the interpreter does, in every bit."""

from __future__ import annotations

import pytest
from support.differential import INPUTS, random_cases
from support.mlir_host import WHY_NOT, NotHere, run_on_host
from support.op_programs import OpProgram, op_programs
from support.quick import quick

from vyre_opt.ir.diagnostics import DiagnosticError
from vyre_opt.runtime.dispatcher import dispatcher

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

# of each op at each type many; the first has a vector in few
OPS = quick(op_programs(), group=lambda case: case.name.split()[0], keep=1)


def compare(case: OpProgram) -> None:
    inputs = case.inputs(INPUTS)
    try:
        actual = run_on_host(case.program, case.module, inputs, case.grid)
    except (NotHere, DiagnosticError) as reason:
        pytest.skip(str(reason).partition("\n")[0])
    expected = dispatcher("ref").dispatch(case.program, inputs, case.grid, module=case.module)
    shaped = [flat.reshape(want.shape) for flat, want in zip(actual, expected, strict=True)]
    assert not case.mismatch(expected, shaped)


@pytest.mark.parametrize("case", OPS, ids=lambda case: case.name)
def test_every_op(case: OpProgram) -> None:
    compare(case)


@pytest.mark.parametrize("seed", quick(range(100), keep=12))
def test_random_programs(seed: int) -> None:
    (case,) = random_cases([seed])
    compare(case)
