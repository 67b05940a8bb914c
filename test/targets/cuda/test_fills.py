"""Fills on a GPU: a pipeline's memory holds the value, whatever was there before, with and without passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.counted import add, count

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, u32

pytestmark = pytest.mark.gpu


@vyre.pipeline
def counted(x: Read[u32], y: Write[u32]) -> None:
    for _ in range(2):
        bins = vyre.zeros(16, u32)
        count[vyre.ceil_div(len(x), 64)](x, bins)
    vyre.fill(y, 100)
    add[1](bins, y)


def of_torch(array: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(array).cuda()


@pytest.mark.parametrize("passes", [None, "default"])
@pytest.mark.parametrize("make", [of_torch, np.copy], ids=["torch", "numpy"])
def test_counts_begin_with_zeros(make: Callable[[np.ndarray], Any], passes: str | None) -> None:
    x = np.arange(5000, dtype=np.uint32) * 7
    expected = np.bincount(x % 16, minlength=16) + 100
    given, y = make(x), make(np.full(16, 77, np.uint32))
    call = counted.options(target="cuda", passes=passes)
    for _ in range(3):  # the first plans, the others run the plan on memory that was used
        call(given, y)
        vyre.synchronize()
        assert np.array_equal(np.asarray(y.cpu() if hasattr(y, "cpu") else y), expected)


@pytest.mark.parametrize("shape", [(300,), (3, 70), (2, 3, 40), (8 * 65535 + 9, 2)])
@pytest.mark.parametrize(
    ("dtype", "literal", "value"),
    [("u8", "200", 200), ("f32", "-inf", -np.inf), ("vec<2 x f32>", "[1.0, 2.0]", [1, 2])],
)
def test_values_and_shapes(shape: tuple[int, ...], dtype: str, literal: str, value: Any) -> None:
    text = f"vyre 2 pipeline @m {{ buffer @x : {dtype}[{', '.join('?' * len(shape))}] live_out fill(@x, {literal}) }}"
    lengths = {"x": shape if len(shape) > 1 else shape[0]}
    for passes in (None, "default"):
        got = np.asarray(vyre.run(text, {}, lengths=lengths, target="cuda", passes=passes)["x"])
        assert np.array_equal(got, np.broadcast_to(np.array(value, got.dtype), got.shape))
