"""Calls of ops in kernels: each argument is computed once, words may be named, masks choose lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import BadInputs
from vyre_opt.lang import Read, ReadWrite, Write, f32, i32, u32


@vyre.program(workgroup=32)
def draws(counter: ReadWrite[u32], low: Write[u32], high: Write[u32]) -> None:
    i = vyre.local_id(0)
    low[i] = min(vyre.atomic_add(counter, 0, 1), 5)
    high[i] = max(10, vyre.atomic_add(counter, 1, 1))


@vyre.program(workgroup=32)
def largest(x: ReadWrite[i32]) -> None:
    i = vyre.local_id(0)
    x[i] = vyre.subgroup_scan(x[i], combine="max")


@vyre.program(workgroup=4)
def positive(x: ReadWrite[f32], limit: f32, all_lanes: u32) -> None:
    i = vyre.local_id(0)
    lanes = x.vec(2)[i]
    is_inside = (lanes > 0) & (lanes < vyre.splat(limit, 2))
    is_inside = (is_inside & True) | (vyre.splat(all_lanes != 0, 2) ^ False)
    x.vec(2)[i] = vyre.select(is_inside, lanes, -1)


def test_min_and_max_compute_their_arguments_once() -> None:
    """Each invocation draws one number of each counter; two would count twice as far."""
    for target in ("ref", "cpu"):
        counter, low, high = (np.zeros(n, np.uint32) for n in (2, 32, 32))
        draws.options(target=target)[1](counter, low, high)
        assert counter.tolist() == [32, 32]
        assert sorted(low) == [0, 1, 2, 3, 4] + [5] * 27
        assert sorted(high) == [10] * 11 + list(range(11, 32))


def test_words_may_be_named_without_those_before_them() -> None:
    x = np.array([3, -1, 7, 7, 2, 9] * 5 + [0, 50], np.int32)
    expected = np.maximum.accumulate(x)
    largest.options(target="ref")[1](x)
    assert x.tolist() == expected.tolist()


def test_masks_choose_lanes_and_meet_literals() -> None:
    for target in ("ref", "cpu"):
        for all_lanes in (0, 1):
            x = np.array([1.0, -2.0, 3.0, 9.0, -0.5, 0.5, 4.0, 100.0], np.float32)
            expected = x if all_lanes else np.where((x > 0) & (x < 5), x, np.float32(-1))
            positive.options(target=target)[1](x, 5.0, all_lanes)
            assert x.tolist() == expected.tolist()


@vyre.program(workgroup=32)
def scaled(a: f32, x: Read[f32], y: Write[f32]) -> None:
    y[vyre.global_id(0)] = a * x[vyre.global_id(0)]


X = np.zeros(32, np.float32)


def test_text_takes_some_of_the_arguments_of_a_call() -> None:
    assert scaled.text() == scaled.text(2, X) == scaled.text(y=X, a=1.5)
    with pytest.raises(TypeError, match=r"scaled\(\): got an unexpected keyword argument 'z'"):
        scaled.text(z=X)


READ_ONLY = X.copy()
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x": X.astype(np.float64)}, "float32, the array is float64"),
        ({"y": X.reshape(4, 8)[:, :2]}, "is not contiguous"),
        ({"y": [1.0, 2.0]}, "the array is float64"),
        ({"y": READ_ONLY}, "read-only"),
        ({"a": "2"}, "a is f32"),
        ({"a": 1.0, "x": 3}, "x"),
    ],
)
def test_text_refuses_what_a_call_refuses(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInputs, match=said) as of_text:
        scaled.text(**arguments)
    with pytest.raises(BadInputs) as of_call:
        scaled[1](**({"a": 1.0, "x": X, "y": X.copy()} | arguments))
    assert str(of_text.value) == str(of_call.value)
