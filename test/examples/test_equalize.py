"""The grey levels of examples/equalize.py are NumPy's, on ref and cpu, for pictures of any size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.modules import load_module

EXAMPLE = load_module(Path(__file__).parents[2] / "examples" / "equalize.py")


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("size", [0, 1, 257, 3000])
def test_levels(target: str, size: int) -> None:
    picture = np.random.default_rng(size).normal(100, 20, size).astype(np.uint8)
    even = np.full(size, 7, np.uint8)
    EXAMPLE.equalize.options(target=target)(picture, even)
    assert np.array_equal(even, EXAMPLE.reference(picture))


def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    EXAMPLE.main()
    assert capsys.readouterr().out == "equalize: 1000000 grey levels agree with NumPy\n"
