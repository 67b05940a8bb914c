"""Kernels in Python give what CPython gives for the same function, on every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.python_oracle import run_as_python
from support.python_programs import CASES

from vyre_opt.lang import Kernel

TARGETS = ("ref", "cpu")


@pytest.mark.parametrize("passes", [None, "default"])
@pytest.mark.parametrize("target", TARGETS)
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
