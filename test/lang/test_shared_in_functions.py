"""Shared memory of a function: each call that is written has its own, and one in a loop the same in each round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import ProgramError, ProgramWarning
from vyre_opt.lang import Kernel, ReadWrite, f32


@vyre.func
def rotated(v: f32, by):
    tile = vyre.shared(f32, 64)
    i = vyre.local_id(0)
    tile[i] = v
    vyre.barrier()
    return tile[(i + by) % 64]


@vyre.func
def rotated_in(tile, v, by):
    i = vyre.local_id(0)
    tile[i] = v
    vyre.barrier()
    return tile[(i + by) % 64]


@vyre.program(workgroup=64)
def two_calls(x: ReadWrite[f32]) -> None:
    i = vyre.local_id(0)
    x[i] = rotated(rotated(x[i], 1), 2)


@vyre.program(workgroup=64)
def unrolled(x: ReadWrite[f32]) -> None:
    i = vyre.local_id(0)
    for by in vyre.static((1, 2)):
        x[i] = rotated(x[i], by)


@vyre.program(workgroup=64)
def one_tile(x: ReadWrite[f32]) -> None:
    i = vyre.local_id(0)
    tile = vyre.shared(f32, 64)
    v = rotated_in(tile, x[i], 1)
    vyre.barrier()
    x[i] = rotated_in(tile, v, 2)


@vyre.program(workgroup=64)
def rounds(x: ReadWrite[f32]) -> None:
    i = vyre.local_id(0)
    v = x[i]
    for _ in range(3):
        v = rotated(v, 1)
        vyre.barrier()
    x[i] = v


@vyre.program(workgroup=64)
def rounds_that_race(x: ReadWrite[f32]) -> None:
    i = vyre.local_id(0)
    v = x[i]
    for _ in range(3):
        v = rotated(v, 1)
    x[i] = v


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize(("kernel", "tiles"), [(two_calls, 2), (unrolled, 2), (one_tile, 1), (rounds, 1)])
def test_calls_do_not_meet(kernel: Kernel, tiles: int, target: str) -> None:
    """The interpreter finds no race between calls without a barrier."""
    x: Any = np.arange(64, dtype=np.float32)
    kernel.options(target=target)[1](x)
    assert x.tolist() == np.roll(np.arange(64), -3).tolist()
    assert sum(buffer.is_workgroup for buffer in kernel.program().buffers.values()) == tiles


def test_the_rounds_of_a_loop_do() -> None:
    with (
        pytest.warns(ProgramWarning, match="this stores to elements of tile that other invocations read"),
        pytest.raises(ProgramError, match="data race on @tile"),
    ):
        rounds_that_race.options(target="ref")[1](np.zeros(64, np.float32))
