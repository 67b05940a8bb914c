"""Random kernels give and print what CPython gives and prints, on ref and cpu, before passes and after them."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.modules import written_module
from support.python_kernels import python_kernel, shapes_of
from support.python_oracle import run_as_python
from support.quick import quick

import vyre_opt
from vyre_opt.lang import Kernel
from vyre_opt.lowering.common.print_records import MAX_RECORDS

# what is random does what no author means
pytestmark = pytest.mark.filterwarnings("ignore::vyre_opt.ProgramWarning")

SEEDS = range(20)
QUICK = (0, 1, 2, 8)
MORE = range(20, 2000)
CHUNK = 20  # seeds a test


def kernel_of(seed: int, folder: Path) -> Kernel:
    kernel: Kernel = written_module(folder, python_kernel(seed), f"kernel_{seed}").kernel
    return kernel


def arguments(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    ints = [rng.integers(-50, 50, 24).astype(np.int32) for _ in range(2)]
    floats = [(rng.integers(-80, 80, 24) / 8).astype(np.float32) for _ in range(2)]
    arrays = [ints[0], floats[0], ints[1], floats[1]]
    shaped = [array.reshape(s) for array, s in zip(arrays, shapes_of(seed).values(), strict=True)]
    return [int(rng.integers(-9, 9)), float(rng.integers(-9, 9)) / 2, *shaped]


def check(seed: int, folder: Path) -> None:
    kernel = kernel_of(seed, folder)
    expected = arguments(seed)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        run_as_python(kernel, (3,), expected)
    for target in ("ref", "cpu"):
        for passes in (None, "default"):
            actual = arguments(seed)
            lines: list[str] = []
            with vyre_opt.on_debug_print(lines.append):
                kernel.options(target=target, passes=passes)[3](*actual)
            if len(lines) <= MAX_RECORDS:
                assert lines == printed.getvalue().splitlines(), (seed, target, passes)
            for want, got in zip(expected[2:], actual[2:], strict=True):
                same = (want == got) | ((want != want) & (got != got))
                assert same.all(), (seed, target, passes, np.flatnonzero(~same), want[~same], got[~same])


def test_a_share_has_several_dimensions() -> None:
    several = [seed for seed in SEEDS if any(len(shape) > 1 for shape in shapes_of(seed).values())]
    assert len(several) > len(SEEDS) // 4
    assert not set(several).isdisjoint(QUICK)
    assert any(len(shape) == 3 for seed in several for shape in shapes_of(seed).values())


@pytest.mark.parametrize("seed", [*QUICK, *quick([seed for seed in SEEDS if seed not in QUICK], keep=0)])
def test_random_kernels(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(MORE.start, MORE.stop, CHUNK))
def test_more_random_kernels(first: int, tmp_path: Path) -> None:
    for seed in range(first, min(first + CHUNK, MORE.stop)):
        check(seed, tmp_path)
