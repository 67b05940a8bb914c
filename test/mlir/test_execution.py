"""What is written, run on the CPU by mlir-opt and LLVM, computes what the interpreter does, in every bit."""

from __future__ import annotations

import pytest
from support.differential import INPUTS, random_cases
from support.each import each
from support.mlir_host import WHY_NOT, NotHere, run_on_host
from support.mlir_texts import op_cases
from support.op_programs import OpProgram
from support.quick import quick

from vyre_opt import dispatcher
from vyre_opt.ir import DiagnosticError

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


def compare(case: OpProgram) -> str:
    """Why the case cannot be run here; "" if it was."""
    inputs = case.inputs(INPUTS)
    try:
        actual = run_on_host(case.program, case.module, inputs, case.grid)
    except (NotHere, DiagnosticError) as reason:
        return str(reason).partition("\n")[0]
    expected = dispatcher("ref").dispatch(case.program, inputs, case.grid, module=case.module)
    shaped = [flat.reshape(want.shape) for flat, want in zip(actual, expected, strict=True)]
    assert not case.mismatch(expected, shaped)
    return ""


@pytest.mark.parametrize("is_first", quick([True, False]))
def test_every_op(is_first: bool) -> None:
    """Each op at the first of its types, and at the others."""
    compared = []

    def check(case: OpProgram) -> None:
        if not compare(case):
            compared.append(case)

    cases = op_cases(is_first=is_first)
    each(cases, check, lambda case: case.name)
    assert compared


@pytest.mark.parametrize("seed", quick(range(100), keep=3))
def test_random_programs(seed: int) -> None:
    (case,) = random_cases([seed])
    if reason := compare(case):
        pytest.skip(reason)
