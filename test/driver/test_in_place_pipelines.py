"""Pipelines of Python on a GPU in main memory, called with arrays that they change."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_gpu import Fake, cupy, numpy
from support.smoothing import reference, smooth, smoothed_twice

import vyre_opt as vyre
from vyre_opt.cuda import fast_call
from vyre_opt.cuda import launcher as compiled
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
def test_a_planned_call_passes_all_pointers(pieces: int, gpu: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the arrays, the results and the memory beside them, whoever passes words for scalars, or none."""
    passed: list[tuple[int, ...]] = []

    def launcher(device: Any, steps: Any, pointers: int, *rest: Any) -> Any:
        def launch(stream: int, *arguments: int) -> int:
            assert len(arguments) == pointers
            passed.append(arguments)
            return 0

        return SimpleNamespace(launch=launch)

    array = cupy(START.copy())
    access = SimpleNamespace(
        pointer=lambda each: each.__cuda_array_interface__["data"][0],
        stream=lambda number: lambda: 0,
        maker=lambda shape, kind, number: lambda: cupy(np.zeros(shape[0], np.uint8)),
    )
    monkeypatch.setattr(fast_call, "PyCudaLauncher", launcher)
    monkeypatch.setattr(compiled, "CompiledLauncher", launcher)
    monkeypatch.setattr(fast_call, "library_of", lambda each: SimpleNamespace(fast=access))
    memory = fast_call.Pieces(1)
    for _ in range(pieces):
        memory.add(500)
    planned = fast_call.GpuCall(gpu, [array], [], memory, [], False, "a pipeline")
    assert planned.run([array]) == planned.run([array], ()) == planned.run([array]) == []
    first, second, _ = passed
    assert first[0] == second[0] == access.pointer(array)
    assert [b - a for a, b in pairwise(first[1:])] == [512] * (pieces - 1)
