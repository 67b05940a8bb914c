"""math.matmul: the array function against f64, at shapes drawn at random, and what is said about wrong uses.

Its forms, one by one, are in test/support/kernel_cases.
"""

from __future__ import annotations

import re
from math import fsum
from typing import Any

import numpy as np
import pytest
from support.kernel_cases.matmul import ACTIVATIONS, bf16_bits, exact_product, product_bound, widened
from support.quick import quick

from vyre_opt import dispatcher, kernels, parse, print_program
from vyre_opt.execution import BadInputs
from vyre_opt.ir import DataType, DiagnosticError, ExpansionRequest, verify
from vyre_opt.ir.verifier import check
from vyre_opt.kernels.matmul_batch import Batch, BatchAxis, batch_of
from vyre_opt.kernels.matmul_program import (
    MatmulProblem,
    MatmulSchedule,
    gpu_tiles,
    matmul,
    matmul_grid,
    matmul_schedule,
)
from vyre_opt.kernels.named import expand
from vyre_opt.tuning import kernel_workload

F32, F16, BF16 = DataType.F32, DataType.F16, DataType.BF16
EXTENTS = (1, 2, 5, 16, 17, 31, 33, 67, 97, 131)
DRAWN = 40


def drawn(seed: int) -> dict[str, Any]:
    """Arguments of a call, and the values of its matrices and its bias."""
    rng = np.random.default_rng(seed)
    rows, columns, depth = (int(n) for n in rng.choice(EXTENTS, 3))
    dtype = (F32, F16, BF16)[seed % 3]
    arguments: dict[str, Any] = {"activation": ACTIVATIONS[seed // 3 % 4]}
    if dtype is BF16:
        arguments["dtype"] = "bf16"
    if seed % 2:
        arguments["result"] = "f32"
    shapes = {"a": (rows, depth), "b": (depth, columns), "bias": (columns,)}
    values: dict[str, Any] = {"bias": None}
    for name, shape in shapes.items():
        if name == "bias" and seed % 5 == 0:
            continue
        x = rng.standard_normal(shape).astype(np.float32)
        is_f32 = dtype is F32 or (name == "bias" and seed % 7 < 4)
        stored = x if is_f32 else x.astype(np.float16) if dtype is F16 else bf16_bits(x)
        arguments[name] = stored
        values[name] = widened(stored) if stored.dtype == np.uint16 else stored
    return {"arguments": arguments, "values": values, "out": F32 if seed % 2 else dtype}


@pytest.mark.parametrize("seed", quick(range(DRAWN), keep=3))
def test_random_calls_are_within_the_bound(seed: int) -> None:
    call = drawn(seed)
    activation, values = call["arguments"]["activation"], call["values"]
    exact = exact_product(values["a"], values["b"], values["bias"], activation)
    bound = product_bound(values["a"], values["b"], values["bias"], activation, exact, call["out"])
    for workers in (1, 2):
        target = dispatcher("cpu", workers=workers)
        # the second call is by the plan of the first
        for got in [kernels.matmul(**call["arguments"], dispatcher=target) for _ in range(2)]:
            assert got.shape == exact.shape
            actual = widened(got) if got.dtype == np.uint16 else got
            assert np.all(np.abs(actual.astype(np.float64) - exact) <= bound)


def test_whole_numbers_are_exact(target: str) -> None:
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(3, 4)
    bias = np.array([1, 2, 3, -500], np.float32)
    assert np.array_equal(kernels.matmul(a, b, dispatcher=target), a @ b)
    got = kernels.matmul(a, b, bias, "relu", dispatcher=target)
    assert np.array_equal(got, np.maximum(a @ b + bias, 0))


@pytest.mark.parametrize("shape", [(3, 5, 2), (33, 65, 130), (40, 300, 1), (1, 17, 97)])
def test_f64_is_summed_in_f64(shape: tuple[int, int, int], target: str) -> None:
    """Against sums that are rounded once, by `fsum`."""
    rows, depth, columns = shape
    rng = np.random.default_rng(rows)
    a, b = rng.standard_normal((rows, depth)), rng.standard_normal((depth, columns))
    bias = rng.standard_normal(columns)
    got = kernels.matmul(a, b, bias, "relu", dispatcher=target)
    assert got.dtype == np.float64
    for (i, j), value in np.ndenumerate(got[:, :4]):
        products = [*(a[i] * b[:, j]), bias[j]]
        bound = (depth + 2) * 2.0**-53 * fsum(map(abs, products))
        assert abs(value - max(0.0, fsum(products))) <= bound


STACKS = (
    ((2, 3, 5, 7), (7, 4)),
    ((3, 5, 7), (7, 4)),
    ((5, 7), (3, 7, 4)),
    ((2, 3, 5, 7), (3, 7, 4)),
    ((2, 1, 5, 7), (3, 7, 4)),
    ((2, 3, 1, 5, 7), (1, 2, 7, 4)),
    ((2, 3, 5, 5, 7), (2, 1, 1, 7, 4)),
    ((2, 1, 2, 1, 5, 7), (1, 3, 1, 2, 7, 4)),
    ((2, 40, 33), (2, 33, 70)),
    ((3, 20, 33), (1, 33, 1)),
    ((3, 0, 7), (3, 7, 4)),
    ((0, 1, 5, 7), (3, 7, 4)),
    ((7,), (7,)),
    ((7,), (7, 4)),
    ((5, 7), (7,)),
    ((7,), (2, 3, 7, 4)),
    ((2, 3, 5, 7), (7,)),
)
"""Shapes of a and b."""


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_shapes_are_those_of_numpy(dtype: type, target: str) -> None:
    """Of whole numbers, so that all products are exact."""
    rng = np.random.default_rng(3)
    for shapes in STACKS:
        a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in shapes)
        expected = np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(dtype)
        bias = np.arange(1 if len(shapes[1]) == 1 else shapes[1][-1]).astype(dtype)
        for out in (None, np.empty(expected.shape, dtype)):
            got = kernels.matmul(a, b, bias, dispatcher=target, out=out)
            assert got.dtype == dtype
            assert got.shape == expected.shape, shapes
            assert np.array_equal(got, expected + (0 if len(shapes[1]) == 1 else bias)), shapes
            assert out is None or got is out


def test_stacks_are_one_launch() -> None:
    launches = []

    class Counting:
        def dispatch(self, program: Any, inputs: Any, grid: Any, **options: Any) -> Any:
            launches.append(grid)
            return dispatcher("cpu").dispatch(program, inputs, grid, **options)

    own = Counting()
    for k, shapes in enumerate(STACKS[:10]):
        a, b = (np.ones(shape, np.float32) for shape in shapes)
        assert np.array_equal(kernels.matmul(a, b, dispatcher=own), a @ b)
        assert len(launches) == k + 1


@pytest.mark.parametrize(
    ("a", "b", "rows", "axes"),
    [
        ((), (), 5, []),
        ((2, 3), (), 30, []),
        ((2, 3), (1, 1), 30, []),
        ((2, 3), (2, 3), 5, [(6, 1, 1)]),
        ((), (2, 3), 5, [(6, 0, 1)]),
        ((2, 3), (2, 1), 15, [(2, 1, 1)]),
        ((2, 3), (3,), 5, [(2, 3, 0), (3, 1, 1)]),
        ((4, 1, 3), (1, 2, 3), 5, [(4, 3, 0), (2, 0, 3), (3, 1, 1)]),
        ((4, 1, 3), (2, 1), 15, [(4, 1, 0), (2, 0, 1)]),
    ],
)
def test_stacks_have_the_fewest_axes(a: Any, b: Any, rows: int, axes: list[Any]) -> None:
    assert batch_of(a, b, 5) == Batch(rows, tuple(BatchAxis(*axis) for axis in axes))


def test_results_go_where_the_caller_wants_them() -> None:
    """`out`; arrays that are not contiguous, too; and a result without elements has the type that was asked for."""
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    out = np.empty((3, 3), np.float32)
    assert kernels.matmul(a, a.T, out=out) is out
    assert np.array_equal(out, a @ a.T)
    half = a.astype(np.float16)
    for rows, columns in ((0, 3), (3, 0)):
        empty = kernels.matmul(half[:rows], half.T[:, :columns], result="f32")
        assert empty.shape == (rows, columns)
        assert empty.dtype == np.float32


@pytest.mark.parametrize("activation", quick(ACTIVATIONS, keep=2))
def test_nan_and_infinity_reach_only_their_rows_and_columns(activation: str) -> None:
    """Edges are filled with zeros, which must meet nothing that makes a NaN of them in another element."""
    a, b = np.ones((35, 5), np.float32), np.ones((5, 67), np.float32)
    a[34, 4], b[4, 66] = np.nan, np.inf
    got = kernels.matmul(a, b, activation=activation)
    assert np.isnan(got[34]).all()
    assert np.isposinf(got[:34, 66]).all()
    assert np.isfinite(got[:34, :66]).all()


ONE, TWO = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (ONE, ONE),
            r"a and b are matrices \(rows, depth\) and \(depth, columns\), not \(2, 3\) and \(2, 3\)",
        ),
        ((ONE[0], ONE), r"not \(3,\) and \(2, 3\)"),
        ((ONE[0, 0], TWO), r"not \(\) and \(3, 4\)"),
        ((ONE, TWO[None, :2]), r"not \(2, 3\) and \(1, 2, 4\)"),
        (
            (np.ones((2, 2, 3), np.float32), np.ones((5, 3, 3, 4), np.float32)),
            r"stacks of matrices, \(..., rows, depth\) and \(..., depth, columns\), whose leading extents "
            r"broadcast; \(2,\) and \(5, 3\) do not",
        ),
        ((ONE.astype(np.int32), TWO), "a holds f32, f16, bf16, f64, not int32"),
        ((ONE, TWO.astype(np.float16)), "b holds f32, not float16"),
        ((ONE, TWO, np.ones(3, np.float32)), r"the bias has shape \(3,\), not \(4,\)"),
        ((ONE, TWO, np.ones((1, 4), np.float32)), r"the bias has shape \(1, 4\), not \(4,\)"),
        ((ONE, TWO, np.ones(4)), "bias holds f32, not float64"),
        ((ONE, TWO, None, "tanh"), "activation is one of none, relu, gelu, silu, not 'tanh'"),
        ((ONE[:, :0], TWO[:0]), "a has no columns and b no rows; their depth is at least 1"),
    ],
)
def test_wrong_calls(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(BadInputs, match=message):
        kernels.matmul(*arguments)


def test_wrong_types_of_results() -> None:
    with pytest.raises(BadInputs, match="the result is of f32 or, like a, of f32, not of 'f16'"):
        kernels.matmul(ONE, TWO, result="f16")
    with pytest.raises(
        BadInputs,
        match=r"out has shape \(2, 4\) of float64.*: pass np\.empty\(\(\d, \d\), dtype=np\.float32\)",
    ):
        kernels.matmul(ONE, TWO, out=np.empty((2, 4)))


# --- in texts


def text(buffers: str = "@a, @b, @c, @bias", params: str = "depth = 3, columns = 4", **sizes: str) -> str:
    types = {"a": "f16[6]", "b": "f16[12]", "c": "f32[8]", "bias": "f16[4]"} | sizes
    lines = [
        f"buffer @{name} : {size} {'write' if name == 'c' else 'read'} binding({number})"
        for number, (name, size) in enumerate(types.items())
        if f"@{name}" in buffers.replace("@bias", "" if buffers == "@a, @b, @c" else "@bias")
    ]
    return "\n".join(
        ["vyre 2", "program @p workgroup(32) {", *lines, f"math.matmul({buffers}) {{{params}}}", "}"]
    )


@pytest.mark.parametrize("buffers", ["@a, @b, @c", "@a, @b, @c, @bias"])
@pytest.mark.parametrize("generic", [False, True])
def test_texts_with_and_without_a_bias(buffers: str, generic: bool) -> None:
    module = parse(text(buffers, "depth = 3, columns = 4, activation = 2"))
    assert not verify(module)
    shown = print_program(module, generic)
    assert shown.startswith("vyre 2")
    assert print_program(parse(shown), generic) == shown
    inputs = [
        np.ones(6, np.float16),
        np.ones(12, np.float16),
        np.zeros(8, np.float32),
        np.full(4, 0.5, np.float16),
    ]
    (got,) = dispatcher("ref").dispatch(module.programs["p"], inputs[: buffers.count("@")], 1)
    exact = exact_product(np.ones((2, 3)), np.ones((3, 4)), inputs[3] if "bias" in buffers else None, "gelu")
    assert np.array_equal(got, exact.reshape(-1).astype(np.float32))


def test_a_stage_of_a_pipeline_needs_the_second_format() -> None:
    buffers = "".join(f"buffer @{n} : f32[4] {'write live_out' if n == 'c' else 'read'}\n" for n in "abc")
    shown = print_program(
        parse(f"vyre 2\npipeline @main {{\n{buffers}math.matmul(@a, @b, @c) {{depth = 2, columns = 2}}\n}}")
    )
    assert shown.startswith("vyre 2")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (text("@a, @b"), "math.matmul takes 3 to 4 buffers, 2 given"),
        (text(params="depth = 3"), "math.matmul needs its parameter columns"),
        (text(params="depth = 0, columns = 4"), "math.matmul: depth is 1 to 4294901760, not 0"),
        (
            text(params="depth = 3, columns = 4, activation = 4"),
            "math.matmul: activation is 0 to 3, not 4",
        ),
        (text(params="depth = 3, columns = 4, depht = 1"), "math.matmul has no parameter depht"),
        (text(b="bf16[12]"), "math.matmul: b holds f16 where a holds f16, @b holds bf16"),
        (text(c="bf16[8]"), "math.matmul: c holds f16 or f32 where a holds f16, @c holds bf16"),
        (text(a="u32[6]"), "math.matmul: a holds f32 or f16 or bf16 or f64, @a holds u32"),
        (text(a="f16[7]"), "math.matmul: a has rows x depth elements, rows x 3; @a has 7"),
        (text(b="f16[13]"), "math.matmul: b has depth x columns elements, 3 x 4; @b has 13"),
        (text(c="f32[9]"), "math.matmul: c has rows x columns elements, 2 x 4; @c has 9"),
        (text(bias="f32[5]"), "math.matmul: bias has columns elements, 4; @bias has 5"),
        (text("@a, @b, @a, @bias"), "math.matmul writes its c, @a is read-only"),
    ],
)
def test_wrong_texts(source: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=re.escape(message)) as raised:
        check(parse(source))
    assert all(diagnostic.loc is not None for diagnostic in raised.value.diagnostics)


# --- schedules


def test_forms_follow_the_shape_and_the_target() -> None:
    forms = {shape: matmul_schedule(*shape, "cpu").form for shape in ((1, 9), (99, 1), (99, 32), (99, 99))}
    assert list(forms.values()) == [
        "dots" if shape[1] <= 4 else f
        for shape, f in zip(forms, ("direct", "", "direct", "panels"), strict=True)
    ]
    assert matmul_schedule(None, 99, "sm_90").form == "tiles"
    assert matmul_schedule(4096, 4096, "sm_90").block_m > matmul_schedule(64, 64, "sm_90").block_m
    assert matmul_schedule(200, 40, "cpu", workers=4).block_m < matmul_schedule(200, 40, "cpu").block_m


@pytest.mark.parametrize(
    "fields",
    [
        {"lanes": 48},
        {"lanes_n": 3},
        {"rows_per_thread": 0},
        {"rows_per_thread": 33},
        {"block_m": 2048},
        {"lanes": 64, "lanes_n": 8, "block_k": 0},
        {"lanes": 64, "lanes_n": 8, "rows_per_thread": 2, "block_m": 17},
        {"lanes": 64, "lanes_n": 8, "rows_per_thread": 2, "block_m": 16, "block_k": 6},
        {"lanes": 64, "lanes_n": 8, "rows_per_thread": 2, "block_m": 16, "block_k": 8, "unroll": 3},
        {"unroll": 0},
        {"prefetch": True},
        {"lanes": 64, "lanes_n": 8, "rows_per_thread": 2, "block_m": 16, "block_k": 8, "prefetch": True},
    ],
)
def test_schedules_that_no_form_takes(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"MatmulSchedule\("):
        MatmulSchedule(**fields)


def test_blocks_for_a_gpu_are_as_many_as_its_multiprocessors_and_as_large_as_they_may_be() -> None:
    for rows, columns in ((512, 512), (100, 4096), (1000, 1000), (4096, 16)):
        schedule = matmul_schedule(rows, columns, "sm_90", 132)
        assert matmul_grid(schedule, rows, columns) >= 120
    area = {
        workers: schedule.block_m * schedule.block_n
        for workers in (132, 8)
        for schedule in [matmul_schedule(512, 512, "sm_90", workers)]
    }
    assert area[8] > area[132], "a small GPU has large blocks for all its multiprocessors"
    assert matmul_schedule(100_000, 16, "sm_90").block_n == 16
    assert matmul_schedule(2000, 2000, "sm_90", sums=DataType.F64).rows_per_thread <= 4


@pytest.mark.parametrize("multiples", [(1, 1), (4, 4)])
def test_gpus_add_in_order_of_the_depth(multiples: tuple[int, int], target: str) -> None:
    """In each block whose lanes have others than those of the rest, and whatever is known of the sizes.

    Factors have so few bits that products are exact, so that an fma is rounded as the sum that NumPy makes of them is.
    """
    rows, depth, columns = 36, 44, 40
    rng = np.random.default_rng(5)
    a, b = (
        rng.integers(-(1 << 11), 1 << 11, shape).astype(np.float32)
        for shape in ((rows, depth), (depth, columns))
    )
    expected = np.zeros((rows, columns), np.float32)
    for k in range(depth):
        expected += a[:, k : k + 1] * b[k]
    assert not np.array_equal(expected, (a.astype(np.float64) @ b).astype(np.float32)), (
        "another order differs"
    )
    problem = MatmulProblem(multiples=multiples)
    params = {"depth": depth, "columns": columns}
    for schedule in (
        gpu_tiles(32, 16, 16, 2, 2),
        gpu_tiles(32, 64, 8, 4, 8, prefetch=True),
        gpu_tiles(64, 32, 8, 8, 4, 2),
    ):
        grid = matmul_grid(schedule, rows, columns)
        inputs = [a.reshape(-1), b.reshape(-1), np.full(rows * columns, np.nan, np.float32)]
        (got,) = dispatcher(target).dispatch(matmul(problem, schedule), inputs, grid, params=params)
        assert np.array_equal(got.reshape(rows, columns), expected), schedule


@pytest.mark.parametrize("target", ["cpu", "sm_90"])
def test_tuned_schedules_are_legal(target: str) -> None:
    """And some of each form; a text may fix one."""
    workload = kernel_workload("math.matmul", [6, 12, 8], [F32] * 3, {"depth": 3, "columns": 4})
    space = workload.space(target)
    forms = {MatmulSchedule(**config).form for config in space.configs}
    assert forms == ({"panels", "direct", "dots"} if target == "cpu" else {"tiles"})
    fixed = {"rows_per_thread": 2, "columns_per_thread": 2}
    request = ExpansionRequest(
        "math.matmul", workload.buffers, workload.params, "cpu", schedule={**fixed, "lanes_n": 32}
    )
    assert fixed.items() <= vars(expand(request).schedule).items()
