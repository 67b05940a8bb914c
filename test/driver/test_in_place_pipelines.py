"""Pipelines of Python on a GPU in main memory, called with arrays that they change."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from fake_gpu import Fake, cupy, numpy
from support.smoothing import reference, smooth, smoothed_twice

import vyre_opt as vyre
from vyre_opt.execution.array_backend import HostArrays
from vyre_opt.execution.bound_call import BoundCall
from vyre_opt.execution.plans.call_plan import CallPlan
from vyre_opt.lang import Read, ReadWrite, Write, f32


@vyre.pipeline
def smoothed(x: Read[f32], y: Write[f32], sums: ReadWrite[f32]):
    t = vyre.buffer(f32, len(x))
    smooth[vyre.ceil_div(len(x), 256)](x, t)
    smooth[vyre.ceil_div(len(x), 256)](t, y)
    smooth[vyre.ceil_div(len(x), 256)](y, sums)


START = np.random.default_rng(0).random(1000, dtype=np.float32)


def test_one_array_that_is_read_and_written(gpu: Fake) -> None:
    """Of NumPy, which is copied there and back, and on the GPU; again by the plan of the first call."""
    call = smoothed_twice.options(target=gpu)
    host, device = START.copy(), cupy(START.copy())
    expected = START
    for _ in range(3):
        call(host)
        call(device)
        expected = reference(reference(expected))
        assert np.array_equal(host, expected)
        assert np.array_equal(numpy(device), expected)


def test_arrays_that_are_read_or_written(gpu: Fake) -> None:
    call = smoothed.options(target=gpu)
    twice = reference(reference(START))
    host = [START.copy(), np.zeros_like(START), np.zeros_like(START)]
    device = [cupy(array.copy()) for array in host]
    for _ in range(2):
        call(*host)
        call(*device)
    for x, y, sums in (host, [numpy(array) for array in device]):
        assert np.array_equal(x, START)
        assert np.array_equal(y, twice)
        assert np.array_equal(sums, reference(twice))


@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_a_bound_call_passes_all_pointers(pieces: int) -> None:
    """Those of the arrays, the results and the memory beside them, and the words of scalars behind them."""
    passed: list[tuple[int, ...]] = []
    offsets = [512 * number for number in range(1, pieces)]
    loaded = SimpleNamespace(
        piece_bytes=512 * pieces,
        pieces=offsets,
        run=lambda stream, *words: passed.append(words) or 0,
    )
    backend = HostArrays(vyre.dispatcher("cpu"))
    plan = CallPlan(None, 1, (), {}, {}, {})  # type: ignore[arg-type]
    bound = BoundCall(plan, loaded, backend, [backend.take(START, "x")], [])
    assert bound.run([START]) == bound.run([START], (5, 7)) == []
    first, second = passed
    assert first[0] == second[0] == START.ctypes.data
    assert second[-2:] == (5, 7)
    for words in (first[1:], second[1:-2]):
        assert [address - words[0] for address in words[1:]] == offsets
        assert len(words) == pieces
