"""What the kernel tests share: targets, and seeds.

A test that takes `target`, or runs its programs by `once`, runs on each target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from vyre_opt import dispatcher
from vyre_opt.execution.dispatcher import Dispatcher
from vyre_opt.ir import Program

TARGETS = ["ref", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    """ref, which finds races and reads of nothing too; cpu; and cuda, where there is a GPU."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def on() -> Callable[[str], Dispatcher]:
    """`on("cuda")`: the target's dispatcher, made once, so that a program is compiled once."""
    dispatchers: dict[str, Dispatcher] = {}

    def find(name: str) -> Dispatcher:
        if name not in dispatchers:
            dispatchers[name] = dispatcher(name)
        return dispatchers[name]

    return find


@pytest.fixture
def once(on: Callable[[str], Dispatcher], target: str) -> Callable[..., np.ndarray]:
    """The only output of a dispatch to the target."""

    def run(program: Program, inputs: Sequence[Any], grid: int) -> np.ndarray:
        (out,) = on(target).dispatch(program, inputs, grid)
        return out

    return run
