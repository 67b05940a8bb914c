"""What the kernel tests share: the interpreter, which finds races and reads of nothing, and seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from vyre_opt import dispatcher
from vyre_opt.ir.program import Program


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture
def once() -> Callable[..., np.ndarray]:
    """The only output of a dispatch to the interpreter."""

    def run(program: Program, inputs: Sequence[Any], grid: int) -> np.ndarray:
        (out,) = dispatcher("ref").dispatch(program, inputs, grid)
        return out

    return run
