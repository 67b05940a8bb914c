"""Launches of a planned call: which of them are one call of machine code, and when that is looked at again."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np
import pytest

import vyre_opt
from vyre_opt.execution import output_memory
from vyre_opt.ir import parse
from vyre_opt.targets.cpu import launch_sequence, threads
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
from vyre_opt.targets.cpu.launch_sequence import LaunchSequence

GROUPS = 4
COUNT = 32 * GROUPS
PROGRAMS = """vyre 1
program @add workgroup(32) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] read_write binding(1) live_in live_out
  %g = global_id x
  %v = load @x[%g] : u32
  %w = load @y[%g] : u32
  %bad = eq %w, %v : u32
  if %bad {
    trap "equal"
  }
  %s = add %v, %w : u32
  store %s, @y[%g] : u32
}
program @double workgroup(32) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %g = global_id x
  %v = load @x[%g] : f32
  %twice = add %v, %v : f32
  store %twice, @y[%g] : f32
}
"""


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads of each job that is given to several, or to others."""
    counts: list[int] = []
    share, apart = threads.share, threads.share_among_workers
    monkeypatch.setattr(threads, "share", lambda job: (counts.append(job.threads), share(job)))
    monkeypatch.setattr(
        threads, "share_among_workers", lambda job, workers: (counts.append(workers), apart(job, workers))[1]
    )
    return counts


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The jobs of each call of machine code for a batch."""
    counts: list[int] = []
    run = launch_sequence.run_function()

    def counted(jobs: int, count: int) -> int:
        counts.append(count)
        return run(jobs, count)

    monkeypatch.setattr(launch_sequence, "run_function", lambda: counted)
    return counts


class Adder:
    """`runner` adds `x` to `y`, as long as the Adder lives; it expects to take `seconds`, if any are given."""

    def __init__(self, x: int, y: np.ndarray, seconds: float | None = None) -> None:
        cpu = CpuDispatcher(workers=2)
        launch = cpu.prepared(parse(PROGRAMS).programs["add"])
        launch.prepare(GROUPS)
        self.x, self.y = np.full(COUNT, x, np.uint32), y
        self.runner = launch.new_runner([COUNT, COUNT], (GROUPS, 1, 1), self.x.nbytes)
        for at, item in enumerate(launch.code_arguments):
            self.runner.args[at] = output_memory.address((self.x, y)[item])  # type: ignore[index]
        self.runner.expected = seconds


def clocks(monkeypatch: pytest.MonkeyPatch, tick: Callable[[], float]) -> None:
    """A clock that goes on by a tick at each look, for batches and for launches."""
    now = [0.0]

    def look() -> float:
        now[0] += tick()
        return now[0]

    monkeypatch.setattr(launch_sequence, "perf_counter", look)
    monkeypatch.setattr(threads, "perf_counter", look)


def test_neighbours_that_are_short_are_one_call(
    monkeypatch: pytest.MonkeyPatch, shared: list[int], batches: list[int]
) -> None:
    """The launches, and the array that is zeroed among them; in their order."""
    clocks(monkeypatch, lambda: 1e-7)
    y = np.zeros(COUNT, np.uint32)
    first, second = Adder(1, y), Adder(5, y)
    sequence = LaunchSequence([first.runner, y, second.runner, first.runner], 2)
    for number in range(4):
        y[:] = 7
        assert sequence.run() is None
        assert (y == 6).all()
        assert batches == [4] * number
    assert shared == []


def test_a_long_launch_stays_by_itself(monkeypatch: pytest.MonkeyPatch, batches: list[int]) -> None:
    clocks(monkeypatch, lambda: 1e-7)
    y = np.zeros(COUNT, np.uint32)
    adders = [Adder(value, y) for value in (1, 2, 4, 8)]
    monkeypatch.setattr(adders[2].runner, "begins_alone", False)
    sequence = LaunchSequence([adder.runner for adder in adders], 2)
    for number in range(3):
        y[:] = 100
        assert sequence.run() is None
        assert (y == 115).all()
        assert batches == [2, 1] * number
    adders[3].x[7] = 107
    y[:] = 100
    fault = sequence.run()
    assert fault is not None
    assert fault[0] == 3


def test_long_launches_are_no_batch(
    monkeypatch: pytest.MonkeyPatch, shared: list[int], batches: list[int]
) -> None:
    """They are worth other threads."""
    clocks(monkeypatch, lambda: 1e-3)
    y = np.full(COUNT, 100, np.uint32)
    adders = [Adder(1, y), Adder(2, y)]
    sequence = LaunchSequence([adder.runner for adder in adders], 2)
    for _ in range(4):
        assert sequence.run() is None
    assert (y == 112).all()
    assert batches == []
    assert shared == [2] * 8


def test_a_batch_that_takes_longer_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, batches: list[int]
) -> None:
    """Launch by launch in the next run, after which they are a batch again, for they are short."""
    tick = [1e-7]
    clocks(monkeypatch, lambda: tick[0])
    y = np.zeros(COUNT, np.uint32)
    adders = [Adder(1, y), Adder(2, y)]
    sequence = LaunchSequence([adder.runner for adder in adders], 2)
    calls: list[int] = []
    for slow in (False, False, True, False, False):
        y[:] = 100
        tick[0] = 1e-2 if slow else 1e-7
        assert sequence.run() is None
        assert (y == 103).all()
        calls.append(len(batches))
    assert calls == [0, 1, 2, 2, 3]


def test_batches_are_no_longer_than_signals_may_wait(
    monkeypatch: pytest.MonkeyPatch, batches: list[int]
) -> None:
    clocks(monkeypatch, lambda: 1e-7)
    y = np.full(COUNT, 100, np.uint32)
    most = launch_sequence.MAX_BATCH
    assert most * threads.ALONE_SECONDS_AWAKE < threads.SIGNAL_SECONDS
    adder = Adder(1, y)
    sequence = LaunchSequence([adder.runner] * (2 * most + 3), 2)
    assert sequence.run() is sequence.run() is None
    assert batches == [most, most, 3]
    assert (y == 100 + 2 * (2 * most + 3)).all()


@pytest.mark.parametrize("place", [0, 1, 3])
def test_nothing_runs_after_a_fault(monkeypatch: pytest.MonkeyPatch, batches: list[int], place: int) -> None:
    clocks(monkeypatch, lambda: 1e-7)
    y = np.zeros(COUNT, np.uint32)
    adders = [Adder(1, y) for _ in range(4)]
    sequence = LaunchSequence([adder.runner for adder in adders], 2)
    for _ in range(2):
        y[:] = 100
        assert sequence.run() is None
    y[:] = 100
    adders[place].x[40] = 100 + place
    fault = sequence.run()
    assert fault is not None
    assert fault[0] == place
    assert fault[1][0] != 0
    assert batches == [4, 4]
    assert y[COUNT - 1] in (100 + place, 101 + place)
    assert y[40] == 100 + place


def test_large_arrays_are_not_zeroed_in_a_batch(monkeypatch: pytest.MonkeyPatch, batches: list[int]) -> None:
    clocks(monkeypatch, lambda: 1e-7)
    large = np.ones(launch_sequence.MAX_CLEARED_BYTES + 1, np.uint8)
    y = np.full(COUNT, 100, np.uint32)
    adder = Adder(1, y)
    sequence = LaunchSequence([large, adder.runner], 2)
    for _ in range(3):
        large[:] = 1
        assert sequence.run() is None
        assert not large.any()
    assert batches == [1, 1]


def test_a_small_program_wakes_nobody(
    monkeypatch: pytest.MonkeyPatch, shared: list[int], batches: list[int]
) -> None:
    """And is one call of machine code, from the second call with like arrays on: the first measures."""
    clocks(monkeypatch, lambda: 1e-7)
    double = vyre_opt.compile(PROGRAMS, entry="double", target=CpuDispatcher(workers=2))
    for value in range(9):
        outputs = double([np.full(COUNT, value, np.float32)], GROUPS, lengths={"y": COUNT})
        assert (outputs["y"] == 2 * value).all()
    assert batches == [1] * 8
    assert shared == []


def test_arguments_may_change_between_runs() -> None:
    """The addresses in a runner's arguments are read at each run."""
    y, other = np.full(COUNT, 100, np.uint32), np.full(COUNT, 200, np.uint32)
    adder = Adder(1, y, 1e-6)
    sequence = LaunchSequence([adder.runner], 2)
    for _ in range(3):
        assert sequence.run() is None
    args: array[int] = adder.runner.args
    at = args.index(output_memory.address(y))
    args[at] = output_memory.address(other)
    assert sequence.run() is None
    assert (y == 103).all()
    assert (other == 201).all()
