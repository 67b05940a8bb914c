"""math.matmul on matrix units: its program on ref and cpu at random shapes, and the array function on a GPU, against f64."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from support.kernel_cases.matmul import ACTIVATIONS, bf16_bits, exact_product, product_bound, widened
from support.quick import quick

from vyre_opt import dispatcher, kernels, parse, print_program, run
from vyre_opt.analysis.bounds import BoundsProofs
from vyre_opt.ir import DataType, Module
from vyre_opt.ir.lowered_ops import WARPGROUP_MUL_ADD
from vyre_opt.kernels.matmul_program import (
    MatmulProblem,
    UnitSchedule,
    batch_of,
    matmul,
    matmul_grid,
    unit_schedule,
    units_take,
)
from vyre_opt.kernels.matmul_units import WARPGROUP_CHOICES
from vyre_opt.kernels.pitched_rows import pitch_of, pitched_rows, pitched_rows_grid
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.legalization import legal_unit
from vyre_opt.lowering.nvptx.targets import GPUS, gpu
from vyre_opt.passes import PassManager

F32, F16, BF16 = DataType.F32, DataType.F16, DataType.BF16
SCHEDULES = [
    UnitSchedule(64, 64, 32, 3, 2, 2, 2),
    UnitSchedule(32, 64, 32, 2, 1, 1, 1),
    UnitSchedule(64, 64, 48, 4, 1, 2, 3),
    UnitSchedule(128, 64, 64, 3, 4, 1, 8),
    UnitSchedule(64, 256, 32, 3, 4, 1, 8),
]
EXTENTS = (1, 7, 8, 16, 31, 32, 40, 64, 65, 100, 130, 200)


def dispatched(
    program: Any, arrays: list[Any], grid: int, target: str, result: str, params: Any = None
) -> Any:
    module = Module()
    module.add(program)
    return run(module, arrays, grid=grid, target=target, params=params)[result]


def stored(x: Any, dtype: DataType) -> Any:
    return bf16_bits(x) if dtype is BF16 else x.astype(np.float16 if dtype is F16 else np.float32)


def value_of(x: Any) -> Any:
    return widened(x) if x.dtype == np.uint16 else x


@pytest.mark.parametrize(
    ("target", "seed"),
    quick(((t, seed) for t in ("ref", "cpu") for seed in range(60)), lambda case: case[0], 3),
)
def test_random_products_are_within_the_bound(target: str, seed: int) -> None:
    """Of matrices as they are, whatever their alignment, or by way of rows that begin aligned; and of stacks."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    rows, depth, columns = (draw.choice(EXTENTS) for _ in range(3))
    element, activation = draw.choice((F16, BF16)), draw.randrange(4)
    out, has_bias, is_pitched = draw.choice((F32, element)), draw.random() < 0.5, draw.random() < 0.5
    stacks = draw.choice((((), ()), ((), ()), ((), (2,)), ((2, 1), (3,))))
    shapes = (*stacks[0], rows, depth), (*stacks[1], depth, columns)
    a, b = (stored(rng.standard_normal(s).astype(np.float32), element) for s in shapes)
    batch = batch_of(*stacks, rows)
    bias = rng.standard_normal(columns).astype(np.float32) if has_bias else None
    exact = exact_product(value_of(a), value_of(b), bias, ACTIVATIONS[activation])
    bound = product_bound(value_of(a), value_of(b), bias, ACTIVATIONS[activation], exact, out)
    pitches = None
    factors = [a.ravel(), b.ravel()]
    if is_pitched:
        pitches = pitch_of(depth, element), pitch_of(columns, element)
        for place, (factor, length) in enumerate(((a, depth), (b, columns))):
            count = factor.size // length
            room = np.full(count * pitches[place], 1, factors[place].dtype)
            program, grid = pitched_rows(length, element), pitched_rows_grid(length, count, element)
            factors[place] = dispatched(program, [factors[place], room], grid, target, "y")
            assert not factors[place].reshape(count, -1)[:, length:].any()
    schedule = draw.choice(SCHEDULES)
    problem = MatmulProblem(
        depth, columns, element, out, F32 if has_bias else None, activation, pitches, len(batch.axes)
    )
    arrays = [*factors, stored(np.full(exact.size, np.nan, np.float32), out)]
    grid = matmul_grid(schedule, batch.rows, columns, batch.count)
    if bias is not None:
        arrays.append(bias)
    got = dispatched(matmul(problem, schedule), arrays, grid, target, "c", batch.params)
    error = np.abs(value_of(got).astype(np.float64).reshape(exact.shape) - exact)
    assert (error <= bound).all()


EDGES = ((1000, 328), (64, 64), (256, 256))


@pytest.mark.parametrize(
    ("schedule", "depth", "columns", "axes"),
    quick(
        (
            (choice.schedule, *EDGES[(k + shift) % 3], (k + shift) % 2 * 2)
            for shift in range(3)
            for k, choice in enumerate(WARPGROUP_CHOICES)
        ),
        lambda case: case[0].is_of_warpgroups,
        3,
    ),
)
def test_a_gpu_checks_no_access(schedule: UnitSchedule, depth: int, columns: int, axes: int) -> None:
    """All are proven, also at the edges: checks in the loop would take longer than the products.  And warpgroups multiply
    where the schedule is of warpgroups."""
    problem = MatmulProblem(depth, columns, BF16, BF16, F32, axes=axes)
    program = legal_unit(Unit(matmul(problem, schedule)), gpu("sm_90a"), "trap").program
    assert any(op.definition is WARPGROUP_MUL_ADD for op in program.walk()) == schedule.is_of_warpgroups
    proven = BoundsProofs(program, {}).proven
    unproven = {
        op.attrs["buffer"]
        for op in program.walk()
        if "buffer" in op.attrs and op.operands and op not in proven
    }
    assert unproven == set()


def test_every_gpu_from_sm_80_on_has_a_schedule() -> None:
    aligned, odd = MatmulProblem(64, 64, BF16), MatmulProblem(63, 64, BF16)
    takers = {name for name in GPUS if units_take(aligned, name)}
    assert {"sm_80", "sm_90", "sm_120"} <= takers
    assert not {"sm_70", "sm_75"} & takers
    assert not units_take(MatmulProblem(64, 64, F32), "sm_90")
    assert not units_take(odd, "sm_90")
    for name in takers:
        for rows, columns in ((1, 8), (1000, 1000), (None, 4096), (1 << 20, 64)):
            assert unit_schedule(rows, columns, name).shared_bytes <= GPUS[name].shared_bytes


STAGE = """vyre 2
pipeline @main {
  buffer @a : f16[1200] read
  buffer @b : f16[960] read
  buffer @c : f16[720] live_out
  math.matmul(@a, @b, @c) {depth = 40, columns = 24, activation = 1SCHEDULE}
}"""


@pytest.mark.parametrize(
    ("field", "target"),
    quick(
        [("", "cpu"), (", schedule_block_m = 32", "ref"), ("", "ref"), (", schedule_block_m = 32", "cpu")],
        keep=2,
    ),
)
def test_a_stage_of_a_pipeline_is_of_this_form(field: str, target: str) -> None:
    """Its launch computes what ref does; a field of the schedule that the text sets stays."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-3, 4, 1200).astype(np.float16), rng.integers(-3, 4, 960).astype(np.float16)
    expected = np.maximum(a.reshape(30, 40).astype(np.float32) @ b.reshape(40, 24).astype(np.float32), 0)
    module = parse(STAGE.replace("SCHEDULE", field))
    PassManager("expand_kernels", target="sm_90").run(module)
    assert "matrix_mul_add" in print_program(module)
    got = run(print_program(module), [a, b], target=target)["c"]
    np.testing.assert_array_equal(got.reshape(30, 24), expected.astype(np.float16))


def test_a_cpu_has_no_schedule_of_matrix_units() -> None:
    refused = PassManager("expand_kernels", target="cpu").run(
        parse(STAGE.replace("SCHEDULE", ", schedule_warps_m = 2"))
    )
    assert "matrix units: of f16 and bf16, from sm_80 on" in refused.remarks[0].message


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(24))
def test_calls_on_a_gpu_are_within_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, depth, columns = (int(n) for n in rng.choice((1, 33, 64, 127, 256, 520), 3))
    dtype = (F16, BF16)[seed % 2]
    stacks = (((), ()), ((3,), (3,)), ((2, 1), (3,)))[seed // 2 % 3]
    shapes = (*stacks[0], rows, depth), (*stacks[1], depth, columns)
    a, b = (stored(rng.standard_normal(s).astype(np.float32), dtype) for s in shapes)
    bias = rng.standard_normal(columns).astype(np.float32) if seed % 3 else None
    activation = ACTIVATIONS[seed % 4]
    options: dict[str, Any] = {"dtype": "bf16"} if dtype is BF16 else {}
    got = kernels.matmul(a, b, bias, activation, result="f32", dispatcher=dispatcher("cuda"), **options)
    exact = exact_product(value_of(a), value_of(b), bias, activation)
    bound = product_bound(value_of(a), value_of(b), bias, activation, exact, F32)
    assert (np.abs(got.astype(np.float64) - exact) <= bound).all()
