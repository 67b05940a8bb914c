"""Kernels in Python give what CPython gives for the same function, on every target."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.python_oracle import run_as_python
from support.python_programs import CASES
from support.quick import quick

import vyre_opt as vyre
from vyre_opt.lang import Kernel, Read, Write, f32, u32

TARGETS = ("ref", "cpu")


@pytest.mark.parametrize(
    ("target", "passes"),
    quick([("ref", None), ("cpu", "default"), ("ref", "default"), ("cpu", None)], keep=2),
)
@pytest.mark.parametrize(("kernel", "grid", "arguments"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_a_kernel_gives_what_python_gives(
    kernel: Kernel, grid: tuple[int, ...], arguments: Callable[[], list[Any]], target: str, passes: str | None
) -> None:
    """By CPython and NumPy, which know nothing of the translation; bit by bit."""
    expected, actual = arguments(), arguments()
    run_as_python(kernel, grid, expected)
    kernel.options(target=target, passes=passes)[grid](*actual)
    for want, got in zip(expected, actual, strict=True):
        if isinstance(want, np.ndarray):
            both_nan = (
                np.isnan(want) & np.isnan(got) if want.dtype.kind == "f" else np.zeros(want.shape, bool)
            )
            same = (want.view(f"u{want.itemsize}") == got.view(f"u{got.itemsize}")) | both_nan
            assert same.all(), (np.flatnonzero(~same)[:5], want[~same][:5], got[~same][:5])


@vyre.program(workgroup=32)
def two_tiles(x: Read[f32], y: Write[f32]) -> None:
    values, (places, _) = vyre.shared(f32, 32), (vyre.shared(u32, 32), 0)
    i = vyre.local_id(0)
    values[i], places[i] = x[i], 31 - i
    vyre.barrier()
    y[i] = values[places[i]]


@pytest.mark.parametrize("target", TARGETS)
def test_shared_memory_has_the_name_at_its_place_in_a_tuple(target: str) -> None:
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    two_tiles.options(target=target)[1](x, y)
    assert np.array_equal(y, x[::-1])
    assert {"values", "places"} < set(two_tiles.program().buffers)


@vyre.pipeline
def there_and_back(x: Read[f32], y: Write[f32]) -> None:
    there, back = vyre.buffer(f32, len(x)), vyre.buffer(f32, len(x))
    two_tiles[1](x, there)
    two_tiles[1](there, back)
    two_tiles[1](back, y)


@pytest.mark.parametrize("target", TARGETS)
def test_a_buffer_has_the_name_at_its_place_in_a_tuple(target: str) -> None:
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    there_and_back.options(target=target)(x, y)
    assert np.array_equal(y, x[::-1])
    assert list(there_and_back.module.pipelines["there_and_back"].buffers) == ["x", "y", "there", "back"]


@vyre.program(workgroup=32, prefer_shared=25)
def thrifty(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    y[i] = x[i]


@pytest.mark.parametrize("target", TARGETS)
def test_a_preference_is_in_the_text_and_changes_no_result(target: str) -> None:
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    thrifty.options(target=target)[1](x, y)
    assert np.array_equal(y, x)
    for kernel in (thrifty, thrifty.options(target="ref"), pickle.loads(pickle.dumps(thrifty))):
        assert "program @thrifty workgroup(32) prefer(shared = 25) {" in kernel.text()


@pytest.mark.parametrize("percent", [-1, 101, 50.0, True])
def test_a_preference_is_a_percentage(percent: object) -> None:
    with pytest.raises(ValueError, match="whole number from 0 to 100"):
        vyre.program(workgroup=32, prefer_shared=percent)  # type: ignore[call-overload]
