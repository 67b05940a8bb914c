"""What runs of a program on like arrays learn from each other, and what they must not keep."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vyre_opt.execution import ProgramError
from vyre_opt.ir import Program, parse
from vyre_opt.targets.cpu import loop_analysis, threads
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
from vyre_opt.targets.cpu.launch import MAX_KEPT_BYTES, MAX_KEPT_RUNNERS, CompiledLaunch

GROUPS = 2000
TRIED = 31
"""Workgroups of 32 lanes that one thread begins with, of 2000."""


def program(body: str, buffers: str = "") -> Program:
    head = f"""vyre 1
    program @p workgroup(32) {{
      buffer @x : u32[?] read binding(0)
      buffer @y : u32[?] write binding(1) live_out
      {buffers}
      %g = global_id x
      %zero = const 0 : u32
      %one = const 1 : u32
      %v = load @x[%g] : u32"""
    (result,) = parse(f"{head}\n{body}\n}}").programs.values()
    return result


ADD = "%r = add %v, %one : u32\n store %r, @y[%g] : u32"
LOOP = """%r = for %k = 0 to BOUND step 1 iter(%a = %v : u32) {
  %b = add %a, %one : u32
  yield %b
}
store %r, @y[%g] : u32"""
NESTED = """for %first = 0 to FIRST step 8 {
  %last = add %first, %zero : u32
  for %k = %first to %last step 1 {
    store %v, @y[%k] : u32
  }
}"""
WHILE = """%r = while iter(%a = %v : u32) {
  %low = lt %a, %one : u32
  condition %low
} do {
  %b = add %a, %one : u32
  yield %b
}
store %r, @y[%g] : u32"""
TRAP = 'store %v, @y[%g] : u32\n%bad = eq %v, %one : u32\nif %bad { trap "one" }'


@pytest.fixture
def thread_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads of each run that several share; a clock that goes on by 1 ms whenever it is looked at."""
    counts: list[int] = []
    share, ticks = threads.share, itertools.count(1)
    monkeypatch.setattr(threads, "perf_counter", lambda: next(ticks) * 1e-3)
    monkeypatch.setattr(threads, "share", lambda job: (counts.append(job.threads), share(job)))
    return counts


def run(cpu: CpuDispatcher, kernel: Program, x: np.ndarray, groups: int = GROUPS) -> np.ndarray:
    (y,) = cpu.dispatch(kernel, [x, np.zeros_like(x)], groups)
    return y


def runs_of(cpu: CpuDispatcher) -> CompiledLaunch:
    (launch,) = cpu._launches.values()
    return launch


@pytest.mark.parametrize(
    ("body", "steady"),
    [
        (ADD, True),
        (LOOP.replace("BOUND", "4"), True),
        ("%n = len @x : u32\n" + LOOP.replace("BOUND", "%n"), True),
        (LOOP.replace("BOUND", "%v"), False),
        ("%n = add %v, %one : u32\n" + LOOP.replace("BOUND", "%n"), False),
        (NESTED.replace("FIRST", "%zero"), True),
        (NESTED.replace("FIRST", "%v"), False),
        (WHILE, False),
    ],
)
def test_programs_whose_loops_memory_decides_on_are_not_steady(body: str, steady: bool) -> None:
    assert loop_analysis.has_fixed_trip_counts(program(body)) is steady


def test_a_steady_program_is_tried_once_and_now_and_then(
    thread_counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs after the first are shared from their first workgroup on, until it is time to look again: after one,
    two, and then always three."""
    monkeypatch.setattr(threads, "REMEMBERED_RUNS", 3)
    tried: list[int] = []
    begin = threads.GridRunner._begin_alone
    monkeypatch.setattr(
        threads.GridRunner,
        "_begin_alone",
        lambda runs, short: (tried.append(len(thread_counts)), begin(runs, short))[1],
    )
    cpu, x = CpuDispatcher(workers=4), np.arange(32 * GROUPS, dtype=np.uint32)
    kernel = program(ADD)
    for _ in range(14):
        assert np.array_equal(run(cpu, kernel, x), x + 1)
    assert thread_counts == [4] * 14
    assert tried == [0, 2, 5, 9, 13]


def test_what_memory_decides_on_is_tried_each_time(
    thread_counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work of one run says nothing of the next: a few rounds, then so many that it must be shared."""
    kernel = program(LOOP.replace("BOUND", "%v"))
    cpu = CpuDispatcher(workers=4)
    begin, tried = threads.GridRunner._begin_alone, []
    monkeypatch.setattr(
        threads.GridRunner, "_begin_alone", lambda runs, short: (tried.append(1), begin(runs, short))[1]
    )
    for value in (1, 50, 2):
        x = np.full(32 * GROUPS, value, np.uint32)
        assert np.array_equal(run(cpu, kernel, x), 2 * x)
    assert len(tried) == 3


def test_one_run_that_was_held_up_does_not_stand_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run alone that took 10 ms, for another process had the CPU, doubles what is expected at most."""
    now = [0.0]
    steps: list[float] = []

    def clock() -> float:
        now[0] += steps.pop(0) if steps else 1e-7
        return now[0]

    thread_counts: list[int] = []
    share = threads.share
    monkeypatch.setattr(threads, "perf_counter", clock)
    monkeypatch.setattr(threads, "share", lambda job: (thread_counts.append(job.threads), share(job)))
    cpu, x, kernel = CpuDispatcher(workers=4), np.arange(32 * GROUPS, dtype=np.uint32), program(ADD)
    for _ in range(3):
        run(cpu, kernel, x)
    steps += [1e-7, 1e-2]
    for _ in range(3):
        run(cpu, kernel, x)
    assert thread_counts == []


def test_what_runs_keep_is_bounded() -> None:
    """By the number of grids and lengths, and by their scratch memory; results are right throughout."""
    cpu, kernel = CpuDispatcher(workers=2), program(ADD)
    for groups in range(1, 3 * MAX_KEPT_RUNNERS):
        x = np.arange(32 * groups, dtype=np.uint32)
        assert np.array_equal(run(cpu, kernel, x, groups), x + 1)
    assert 0 < len(runs_of(cpu)._runners) <= MAX_KEPT_RUNNERS
    large = program("store %v, @t[%g] : u32\n" + ADD, f"buffer @t : u32[{MAX_KEPT_BYTES // 4 + 1}] workgroup")
    other = CpuDispatcher(workers=2)
    run(other, large, np.arange(32, dtype=np.uint32), 1)
    assert not runs_of(other)._runners


def test_a_run_after_a_fault_finds_none_of_it() -> None:
    kernel, cpu = program(TRAP), CpuDispatcher(workers=2)
    good = np.full(32 * 64, 7, np.uint32)
    bad = good.copy()
    bad[32 * 5] = 1
    for _ in range(3):
        assert np.array_equal(run(cpu, kernel, good, 64), good)
        with pytest.raises(ProgramError, match="one"):
            run(cpu, kernel, bad, 64)


def test_arrays_of_other_lengths_are_other_runs() -> None:
    """Lengths are among a function's arguments: with those of an earlier call it would look beyond the end."""
    kernel = program(
        "%n = len @x : u32\n%last = sub %n, %one : u32\n%w = load @x[%last] : u32\nstore %w, @y[%g] : u32"
    )
    cpu = CpuDispatcher(workers=2)
    for length in (64, 32, 96, 64):
        x = np.arange(length, dtype=np.uint32)
        (y,) = cpu.dispatch(kernel, [x, np.zeros(32, np.uint32)], 1)
        assert (y == length - 1).all()
