"""The contract of the autotuner's functions: values, dispatches, shapes, errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vyre_opt import (
    BackendError,
    BadInputs,
    Scratch,
    config_gradient,
    config_gradient_magnitude_pre_exp_fixed,
    dispatcher,
    natural_config_gradient_pre_exp_fixed,
    pick_best_config,
    pick_config,
    pick_config_pre_exp_fixed,
)
from vyre_opt.ir import Program

CASES = json.loads((Path(__file__).parent / "autotune.json").read_text())
TARGETS = ("cpu", "ref")


class Recorder:
    """A dispatcher with the contract's three arguments and nothing more; passes on to the interpreter."""

    def __init__(self, change: Any = None) -> None:
        self.calls: list[tuple[Program, list[np.ndarray], Any]] = []
        self.change = change

    def dispatch(self, program: Program, inputs: Sequence[Any], grid: Any) -> list[np.ndarray]:
        self.calls.append((program, [np.array(each) for each in inputs], grid))
        outputs = dispatcher("ref").dispatch(program, inputs, grid)
        return self.change(outputs) if self.change else outputs


@pytest.mark.parametrize(
    "target",
    [*TARGETS, dispatcher("cpu"), Recorder()],
    ids=lambda t: t if isinstance(t, str) else type(t).__name__,
)
@pytest.mark.parametrize("as_array", [False, True], ids=["ints", "u32"])
@pytest.mark.parametrize("case", CASES["pick_config_pre_exp_fixed"], ids=lambda c: str(c["pre_exp"]))
def test_probabilities(case: dict[str, Any], as_array: bool, target: Any) -> None:
    weights = np.array(case["pre_exp"], np.uint32) if as_array else case["pre_exp"]
    for compute in (pick_config_pre_exp_fixed, config_gradient_magnitude_pre_exp_fixed):
        if "error" in case:
            with pytest.raises(BadInputs, match=case["error"]):
                compute(weights, dispatcher=target)
            continue
        result = compute(weights, dispatcher=target)
        assert list(result) == case["out"]
        # in kind: ints for ints, a u32 array for an array
        assert type(result) is (np.ndarray if as_array else list)
        assert not as_array or result.dtype == np.uint32


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES["natural_config_gradient_pre_exp_fixed"], ids=lambda c: str(c["out"]))
def test_natural_gradient(case: dict[str, Any], target: str) -> None:
    pre_exp, matrix = case["pre_exp"], case["m_inv_sqrt"]
    assert natural_config_gradient_pre_exp_fixed(pre_exp, matrix, dispatcher=target) == case["out"]
    arrays = np.array(pre_exp, np.uint32), np.array(matrix, np.uint32)
    assert natural_config_gradient_pre_exp_fixed(*arrays, dispatcher=target).tolist() == case["out"]


def test_floats() -> None:
    (best,) = CASES["pick_best_config"]
    assert pick_best_config(best["costs"]) == best["index"]
    cold, hot = CASES["pick_config"]
    p = pick_config(cold["costs"], cold["temperature"])
    assert p[1] > 0.99
    assert p[0] < 0.01
    assert p[2] < 0.01
    assert all(abs(each - 1 / 3) < 0.01 for each in pick_config(hot["costs"], hot["temperature"]))
    (slope,) = CASES["config_gradient"]
    for target in (None, "cpu", "ref"):
        gradient = config_gradient(slope["costs"], slope["temperature"], dispatcher=target)
        assert sum(gradient) == pytest.approx(-1, abs=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_wide_numerator_and_sum(target: str) -> None:
    """Weights whose sum, and whose 16-bit shift, pass 2^32: exact all the same, rounded down."""
    weights = [2**32 - 1, 2**32 - 1, 1, 0, 12345678]
    total = sum(weights)
    assert pick_config_pre_exp_fixed(weights, dispatcher=target) == [(w << 16) // total for w in weights]
    assert pick_config_pre_exp_fixed([0, 0], dispatcher=target) == [0, 0]  # a sum of 0 counts as 1
    assert pick_config_pre_exp_fixed([7], dispatcher=target) == [1 << 16]


@pytest.mark.parametrize("target", TARGETS)
def test_signed_matrix(target: str) -> None:
    """A product is shifted arithmetically, rounding down, and sums wrap; a matrix in any of its forms."""
    weights = [1, 2, 3]
    p = [(w << 16) // 6 for w in weights]
    rows = [[-1, 3 << 16, -(1 << 31)], [1 << 30, 1 << 30, 1 << 30], [65536, -65536, 5]]
    expected = [sum((m * q) >> 16 for m, q in zip(row, p, strict=True)) % 2**32 for row in rows]
    flat = [cell for row in rows for cell in row]
    forms = (rows, flat, [c % 2**32 for c in flat], np.array(rows, np.int32), np.array(rows, np.int64))
    for form in forms:
        assert natural_config_gradient_pre_exp_fixed(weights, form, dispatcher=target) == expected


def test_computes_by_dispatch_of_the_compilers_kernels() -> None:
    recorder = Recorder()
    pick_config_pre_exp_fixed([1] * 5000, dispatcher=recorder)
    natural_config_gradient_pre_exp_fixed([1, 2], [1, 2, 3, 4], dispatcher=recorder)
    assert [program.name for program, _, _ in recorder.calls] == [
        "softmax_step",
        "softmax_step",
        "matvec_fixed",
    ]
    assert [grid for _, _, grid in recorder.calls] == [(2, 1, 1), (1, 1, 1), (1, 1, 1)]
    _, inputs, _ = recorder.calls[2]
    assert [a.tolist() for a in inputs[:2]] == [[1, 2, 3, 4], [21845, 43690]]
    assert all(a.dtype == np.uint32 for _, arrays, _ in recorder.calls for a in arrays)


@pytest.mark.parametrize(
    ("pre_exp", "matrix"),
    [
        ([], []),
        ([1, 2], [1, 2, 3]),
        ([1, 2], [1] * 9),
        ([1, 2], np.ones((1, 4), np.uint32)),
        ([1, 2], [[1, 2], [3]]),
        ([1, -1], [1] * 4),
        ([1, 2**32], [1] * 4),
        ([1, True], [1] * 4),
        ([1, 2.0], [1] * 4),
        ([1, 2], [1, 2, 3, 2**32]),
        ([1, 2], [1, 2, 3, -(2**31) - 1]),
        (np.array([1.0, 2.0]), [1] * 4),
        ("12", [1] * 4),
        (3, [1] * 4),
        ([1, 2], None),
    ],
    ids=repr,
)
def test_nothing_is_dispatched_for_what_does_not_fit(pre_exp: Any, matrix: Any) -> None:
    recorder = Recorder()
    with pytest.raises(BadInputs):
        natural_config_gradient_pre_exp_fixed(pre_exp, matrix, dispatcher=recorder)
    assert recorder.calls == []


@pytest.mark.parametrize(
    "change",
    [lambda o: [], lambda o: [o[0][:-1]], lambda o: [*o, *o], lambda o: [o[0] - 0.5], lambda o: None],
    ids=["none", "short", "two", "floats", "no list"],
)
def test_an_output_that_is_wrong_is_the_backends_error(change: Any) -> None:
    with pytest.raises(BackendError, match=r"math\.softmax_step"):
        pick_config_pre_exp_fixed([1, 2, 3], dispatcher=Recorder(change))


def test_scratch_is_reused() -> None:
    """The caller's storage serves calls of any size, and changes no result."""
    scratch = Scratch()
    for count in (5, 3, 700, 1):
        weights = list(range(1, count + 1))
        reused = pick_config_pre_exp_fixed(weights, scratch=scratch)
        assert reused == pick_config_pre_exp_fixed(weights)
        matrix = [65536 * (r == c) for r in range(count) for c in range(count)]
        assert natural_config_gradient_pre_exp_fixed(weights, matrix, scratch=scratch) == reused
    held = [a for a in scratch.storage.values() if isinstance(a, np.ndarray)]
    assert max(len(a) for a in held) >= 700


@pytest.mark.parametrize("temperature", [0, -1, float("nan"), float("inf"), None, "1", True])
def test_temperature(temperature: Any) -> None:
    for compute in (pick_config, config_gradient):
        with pytest.raises(BadInputs, match="temperature"):
            compute([1.0, 2.0], temperature)


def test_costs_that_cannot_be_picked() -> None:
    nan, inf = float("nan"), float("inf")
    assert pick_best_config([nan, 3, nan, 3, 2, 2]) == 4
    assert pick_best_config([inf, nan]) == 0
    assert pick_best_config([-inf, 0, -inf]) == 0
    assert pick_config([nan, 1, inf, 1], 1.0) == [0, 0.5, 0, 0.5]
    assert pick_config([-inf, 1, -inf], 1.0) == [0.5, 0, 0.5]
    assert pick_config([1e308, -1e308], 1e-300) == [0, 1]
    for costs in ([], [nan, nan]):
        with pytest.raises(BadInputs):
            pick_best_config(costs)
    for costs in ([], [nan, inf], ["x"], 3):
        with pytest.raises(BadInputs):
            pick_config(costs, 1.0)
