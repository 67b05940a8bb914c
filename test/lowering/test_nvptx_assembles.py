"""What the GPU lowering writes is PTX that NVIDIA's assembler takes: every op, kernel, and random programs."""

from __future__ import annotations

import pytest
from support.generator import random_program
from support.kernel_cases import kernel_cases
from support.op_programs import op_programs
from support.quick import quick

from vyre_opt.ir import OPS, fingerprint
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.ptx import emit_ptx
from vyre_opt.lowering.nvptx.targets import gpu

OP_PARTS = 18
KERNEL_PARTS = 4
OPTIONS = [("sm_80", "trap", 2), ("sm_90", "clamp", 1), ("sm_100", "none", 3)]


@pytest.fixture(scope="module")
def ops():
    """Programs of all ops."""
    return list(op_programs())


def test_every_op_of_the_table_has_a_program(ops):
    seen = {op.name for case in ops for op in case.program.walk()}
    seen |= {op.name for case in ops for func in case.module.funcs.values() for op in func.walk()}
    kernels = {name for name, row in OPS.items() if row.kernel is not None}
    left = set(OPS) - kernels - seen
    assert left == {"trap", "breakpoint"}, (
        "trap ends a program, as tests of faults have it; a breakpoint is no code"
    )


def test_one_program_of_each_op(assemble, ops):
    first = {case.name.split()[0]: case for case in reversed(ops)}
    lowered = lower([Unit(case.program, case.module) for case in first.values()], gpu("sm_90"), "clamp")
    assemble(emit_ptx(lowered, gpu("sm_90")), "sm_90")


@pytest.mark.campaign
@pytest.mark.parametrize(("target", "bounds", "level"), OPTIONS)
@pytest.mark.parametrize("part", range(OP_PARTS))
def test_op_programs(assemble, ops, target, bounds, level, part):
    units = [Unit(case.program, case.module) for case in ops[part::OP_PARTS]]
    lowered = lower(units, gpu(target), bounds)
    assert len({kernel.symbol for kernel in lowered.kernels}) == len(units)
    assemble(emit_ptx(lowered, gpu(target), level=level), target)


@pytest.mark.parametrize(
    ("target", "bounds", "level", "start"), quick((*OPTIONS[k % 3], 5 * k) for k in range(60))
)
def test_random_programs(assemble, target, bounds, level, start):
    samples = [random_program(seed) for seed in range(start, start + 5)]
    lowered = lower([Unit(s.program, s.module) for s in samples], gpu(target), bounds)
    assemble(emit_ptx(lowered, gpu(target), level=level), target)


@pytest.fixture(scope="module")
def kernel_programs():
    """Those of all kernel cases, each once; in turn, so that a large kernel's are spread over batches."""
    programs = (case.make().program for case in kernel_cases())
    return list({fingerprint(program): program for program in programs}.values())


def test_one_program_of_each_kernel(assemble):
    first = {case.kernel: case for case in reversed(kernel_cases())}
    lowered = lower([Unit(case.make().program) for case in first.values()], gpu("sm_90"), "trap")
    assemble(emit_ptx(lowered, gpu("sm_90"), level=1), "sm_90")


@pytest.mark.campaign
@pytest.mark.parametrize(("target", "bounds", "level"), OPTIONS)
@pytest.mark.parametrize("part", range(KERNEL_PARTS))
def test_kernels(assemble, kernel_programs, target, bounds, level, part):
    lowered = lower([Unit(program) for program in kernel_programs[part::KERNEL_PARTS]], gpu(target), bounds)
    assemble(emit_ptx(lowered, gpu(target), level=level), target)


@pytest.mark.campaign
def test_no_optimisation_at_all(assemble, ops):
    units = [Unit(case.program, case.module) for case in ops[::7]]
    assemble(emit_ptx(lower(units, gpu("sm_90"), "trap"), gpu("sm_90"), level=0), "sm_90")
