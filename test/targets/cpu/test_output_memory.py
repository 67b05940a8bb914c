"""Memory of results is taken again once nobody has it, and never before."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.quick import quick

from vyre_opt.execution import output_memory
from vyre_opt.kernels import prefix_scan

F32 = np.dtype(np.float32)
COUNT = 1 << 19


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    output_memory._free.clear()
    yield
    output_memory._free.clear()


def test_an_array_that_is_gone_makes_room() -> None:
    first = output_memory.empty(COUNT, F32)
    address = first.ctypes.data
    assert first.shape == (COUNT,)
    assert first.flags.writeable
    assert first.flags.aligned
    del first
    second = output_memory.empty(COUNT - 7, F32)  # about as large
    assert second.ctypes.data == address
    assert output_memory.empty(COUNT, F32).ctypes.data != address


VIEWS: dict[str, Callable[[np.ndarray], Any]] = {
    "view": lambda array: array.reshape(-1, 64)[3:][::2].view(np.uint32),
    "memoryview": memoryview,
    "dlpack": np.from_dlpack,
}


@pytest.mark.parametrize("view", VIEWS)
def test_whatever_still_looks_at_an_array_keeps_its_memory(view: str) -> None:
    """Views of views, buffers and arrays of other libraries."""
    array = output_memory.empty(COUNT, F32)
    array[:] = 7
    seen, address = VIEWS[view](array), array.ctypes.data
    del array
    other = output_memory.empty(COUNT, F32)
    other[:] = 8
    assert other.ctypes.data != address
    assert (np.asarray(seen).view(np.float32) == 7).all()
    del seen
    assert output_memory.empty(COUNT, F32).ctypes.data == address


def test_what_is_kept_is_bounded() -> None:
    """By its number, and by its bytes; what is larger than that is not kept at all."""
    arrays = [output_memory.empty(COUNT + 40_000 * n, F32) for n in range(2 * output_memory.MAX_KEPT)]
    del arrays
    assert 0 < len(output_memory._free) <= output_memory.MAX_KEPT
    arrays = [output_memory.empty((output_memory.MAX_KEPT_BYTES >> 4) + 40_000 * n, F32) for n in range(8)]
    del arrays
    assert 0 < sum(map(len, output_memory._free.values())) <= output_memory.MAX_KEPT_BYTES
    output_memory._free.clear()
    output_memory.empty(output_memory.MAX_KEPT_BYTES, F32)
    assert not output_memory._free


@pytest.mark.parametrize("turns", quick([9, 90]))
def test_results_of_several_threads_do_not_overlap(turns: int) -> None:
    """Each keeps some results while others come and go."""
    failures: list[int] = []

    def call(seed: int) -> None:
        x = np.full(COUNT, seed, np.uint32)
        expected = np.cumsum(x, dtype=np.uint32)
        held: list[np.ndarray] = []
        for turn in range(turns):
            held.append(prefix_scan(x))
            if turn % 3 == seed % 3:
                held = held[2:]
            if not all(np.array_equal(sums, expected) for sums in held[-3:]):
                failures.append(seed)

    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(1, 7)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures


@pytest.mark.parametrize("reached", [[], ["memory"], ["memory", "address"]], ids=str)
def test_an_interrupt_in_the_init_of_a_lease(reached: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come between any two lines of it; its __del__ raises nothing."""
    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    whole = {"memory": np.empty(output_memory.MIN_BYTES, np.uint8), "address": 1 << 20}
    lease = output_memory._Lease.__new__(output_memory._Lease)
    for name in reached:
        setattr(lease, name, whole[name])
    del lease
    assert raised == []
    assert list(output_memory._free) == ([1 << 20] if "address" in reached else [])
