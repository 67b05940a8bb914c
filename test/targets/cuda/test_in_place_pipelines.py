"""Pipelines of Python that change the arrays of their caller, of each library, with and without memory of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.smoothing import reference, smooth, smoothed_twice

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, f32

pytestmark = pytest.mark.gpu


@vyre.program(workgroup=256)
def scale(k: f32, x: ReadWrite[f32]):
    i = vyre.global_id(0)
    if i < len(x):
        x[i] = k * x[i]


@vyre.pipeline
def scaled_twice(k: f32, x: ReadWrite[f32]):
    scale[vyre.ceil_div(len(x), 256)](k, x)
    scale[vyre.ceil_div(len(x), 256)](k, x)


@vyre.pipeline
def smoothed(x: Read[f32], y: Write[f32]):
    t = vyre.buffer(f32, len(x))
    u = vyre.buffer(f32, len(x))
    smooth[vyre.ceil_div(len(x), 256)](x, t)
    smooth[vyre.ceil_div(len(x), 256)](t, u)
    smooth[vyre.ceil_div(len(x), 256)](u, y)


def of_torch(array: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(array).cuda()


def of_cupy(array: np.ndarray) -> Any:
    return pytest.importorskip("cupy").asarray(array)


def to_numpy(array: Any) -> np.ndarray:
    vyre.synchronize()
    return np.asarray(
        array.cpu() if hasattr(array, "cpu") else array.get() if hasattr(array, "get") else array
    )


@pytest.mark.parametrize("passes", [None, "default"])
@pytest.mark.parametrize("make", [of_torch, of_cupy, np.copy], ids=["torch", "cupy", "numpy"])
def test_arrays_are_changed_where_they_are(make: Callable[[np.ndarray], Any], passes: str | None) -> None:
    """The first call plans, the others run the plan."""
    start = np.random.default_rng(0).random(1000, dtype=np.float32)
    x, y, z = make(start), make(start), make(np.zeros_like(start))
    twice, by, plain = (
        each.options(target="cuda", passes=passes) for each in (smoothed_twice, scaled_twice, smoothed)
    )
    wanted_x, wanted_y = start, start
    for _ in range(3):
        twice(x)
        by(1.5, y)
        plain(x, z)
        wanted_x = reference(reference(wanted_x))
        wanted_y = np.float32(1.5) * (np.float32(1.5) * wanted_y)
        assert np.array_equal(to_numpy(x), wanted_x)
        assert np.array_equal(to_numpy(y), wanted_y)
        assert np.array_equal(to_numpy(z), reference(reference(reference(wanted_x))))
