"""Threads that share a dispatch: right results, the same faults, and none left behind."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.quick import quick

from vyre_opt.execution import BadInputs, ProgramError, processors
from vyre_opt.ir import Program, parse
from vyre_opt.kernels import prefix_scan
from vyre_opt.targets.cpu import loop_analysis, threads
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
from vyre_opt.targets.cpu.thread_pool import _ExecutorPool

GROUPS = 10_000

CHAIN_BUFFERS = """vyre 1
program @chain workgroup(32) {
  buffer @x    : u32[?] read       binding(0)
  buffer @flag : u32[?] read_write binding(1) live_in
  buffer @y    : u32[?] write      binding(2) live_out
"""
CHAIN_WORK = """  %w = workgroup_id x
  %g = global_id x
  %l = local_id x
  %zero = const 0 : u32
  %one = const 1 : u32
  %seven = const 7 : u32
  %x = load @x[%g] : u32
  %m = const 2654435761 : u32
  %v = for %k = 0 to 200 step 1 iter(%p = %x : u32) {
    %q = mul %p, %m : u32
    %h = shr %q, %one : u32
    %z = xor %q, %h : u32
    yield %z
  }
"""

# a workgroup works a little, waits for the one before it, and traps where @x holds 7
CHAIN = (
    CHAIN_BUFFERS
    + CHAIN_WORK
    + """  %later = gt %w, %zero : u32
  %before = sub %w, %one : u32
  if %later {
    %first = atomic_or @flag[%before], %zero : u32
    %seen = while iter(%f = %first : u32) {
      %missing = eq %f, %zero : u32
      condition %missing
    } do {
      %again = atomic_or @flag[%before], %zero : u32
      yield %again
    }
  }
  %bad = eq %x, %seven : u32
  if %bad { trap "seven" }
  store %v, @y[%g] : u32
  %leads = eq %l, %zero : u32
  if %leads { %old = atomic_exchange @flag[%w], %one : u32 }
}
"""
)

# the same, with a barrier in the loop, so that it lies between segments
SEEN = "  buffer @seen : u32[1] workgroup\n"
CHAIN_WITH_BARRIER = (
    CHAIN_BUFFERS
    + SEEN
    + CHAIN_WORK
    + """  %leads = eq %l, %zero : u32
  %later = gt %w, %zero : u32
  %back = select %later, %one, %zero : u32
  %before = sub %w, %back : u32
  %start = select %later, %zero, %one : u32
  %last = while iter(%f = %start : u32) {
    %missing = eq %f, %zero : u32
    condition %missing
  } do {
    if %leads {
      %now = atomic_or @flag[%before], %zero : u32
      store %now, @seen[%zero] : u32
    }
    barrier workgroup
    %again = load @seen[%zero] : u32
    barrier workgroup
    yield %again
  }
  %bad = eq %x, %seven : u32
  if %bad { trap "seven" }
  store %v, @y[%g] : u32
  if %leads { %old = atomic_exchange @flag[%w], %one : u32 }
}
"""
)

SLOW = """vyre 1
program @slow workgroup(32) {
  buffer @rounds : u32[1] read  binding(0)
  buffer @y      : u32[?] write binding(1) live_out
  %zero = const 0 : u32
  %mix = const 2654435761 : u32
  %five = const 5 : u32
  %g = global_id x
  %n = load @rounds[%zero] : u32
  %r = for %k = 0 to %n step 1 iter(%v = %g : u32) {
    %a = mul %v, %mix : u32
    %b = shr %a, %five : u32
    %c = xor %a, %b : u32
    yield %c
  }
  store %r, @y[%g] : u32
}
"""


@pytest.fixture(params=["semaphores", "executor"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Both kinds of threads, whatever this system would take."""
    if request.param == "semaphores":
        yield "semaphores"
        return
    pool = _ExecutorPool()
    monkeypatch.setattr(threads, "thread_pool", lambda: pool)
    yield "executor"
    pool.executor.shutdown()


def chain(text: str = CHAIN) -> Program:
    (program,) = parse(text).programs.values()
    return program


def mixed(x: np.ndarray) -> np.ndarray:
    """What the chain makes of @x."""
    for _ in range(200):
        x = x * np.uint32(2654435761)
        x ^= x >> np.uint32(1)
    return x


def run_chain(program: Program, x: np.ndarray, workers: int) -> np.ndarray:
    groups = len(x) // 32
    arrays = [x, np.zeros(groups, np.uint32), np.zeros_like(x)]
    (y,) = CpuDispatcher(workers=workers).dispatch(program, arrays, groups)
    return y


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """What `call` returns or raises in a thread of its own, which may not take longer."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as failure:
            outcome.append(failure)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert outcome, f"still running after {seconds} s"
    return outcome[0]


@pytest.mark.parametrize("workers", quick([2, 1, 7]))
def test_workgroups_may_wait_for_earlier_ones(kind: str, workers: int) -> None:
    """Stretches are taken in order, so that the one waited for is under way."""
    x = np.arange(8, 8 + 32 * GROUPS, dtype=np.uint32)
    expected = mixed(x)
    for _ in range(5):
        assert np.array_equal(within(60, lambda: run_chain(chain(), x, workers)), expected)


@pytest.mark.parametrize("text", quick([CHAIN, CHAIN_WITH_BARRIER], ids=["chunk", "barrier"]))
@pytest.mark.parametrize(
    "runs",
    quick([(1, 2), (7, 7, 7, 7, 7)], ids=["few", "more threads than CPUs"], one_parameter=True),
)
def test_nobody_waits_for_a_workgroup_at_fault(kind: str, text: str, runs: tuple[int, ...]) -> None:
    """It never says that it is done; those who wait for that give up, and its fault is told."""
    x = np.zeros(32 * GROUPS, np.uint32)
    x[32 * 7_000 + 3] = 7
    messages = set()
    for workers in runs:
        outcome = within(60, lambda workers=workers: run_chain(chain(text), x, workers))
        assert isinstance(outcome, ProgramError)
        messages.add(str(outcome))
    (only,) = messages
    assert "reached by workgroup (7000,0,0) local id (3,0,0)" in only


def test_the_first_workgroup_at_fault_is_told(kind: str) -> None:
    """Of several, in whatever order threads meet them."""
    (program,) = parse("""vyre 1
    program @p workgroup(64) {
      buffer @at : u32[?] read binding(0)
      buffer @y  : u32[1000] write binding(1) live_out
      %g = global_id x
      %i = load @at[%g] : u32
      store %g, @y[%i] : u32
    }""").programs.values()
    at = np.zeros(64 * GROUPS, np.uint32)
    for group in (4017, 4018, 7_000, 9_999):
        at[64 * group + 5] = 1000 + group
    messages = set()
    for workers in (1, 2, 7, 7, 7, 7):
        with pytest.raises(ProgramError) as caught:
            CpuDispatcher(workers=workers).dispatch(program, [at, np.zeros(1000, np.uint32)], GROUPS)
        messages.add(str(caught.value))
    (only,) = messages
    assert "index 5017, length 1000, by workgroup (4017,0,0)" in only


@pytest.mark.parametrize("bad", [(9_999,), (5_000, 9_999), (4_999, 5_000), (2, 5_001), (0, 9_998)])
def test_each_part_is_run_up_to_the_first_fault(kind: str, bad: tuple[int, ...]) -> None:
    """Threads have parts of their own where no workgroup waits: all before the first fault have run, whoever meets which."""
    (program,) = parse("""vyre 1
    program @p workgroup(32) {
      buffer @x    : u32[?] read  binding(0)
      buffer @y    : u32[?] write binding(1) live_out
      buffer @hits : u32[1] read_write binding(2) live_in live_out
      %g = global_id x
      %zero = const 0 : u32
      %one = const 1 : u32
      %v = load @x[%g] : u32
      %old = atomic_add<relaxed> @hits[%zero], %one : u32
      %is_bad = eq %v, %one : u32
      if %is_bad { trap "one" }
      store %g, @y[%g] : u32
    }""").programs.values()
    assert not loop_analysis.may_wait(program)
    x = np.zeros(32 * GROUPS, np.uint32)
    arrays = [x, np.zeros_like(x), np.zeros(1, np.uint32)]
    for workers in (1, 2, 3, 7):
        y, hits = CpuDispatcher(workers=workers).dispatch(program, arrays, GROUPS)
        assert np.array_equal(y, np.arange(len(x)))
        assert hits[0] == len(x)
    for group in bad:
        x[32 * group] = 1
    for workers in (1, 2, 3, 7):
        with pytest.raises(ProgramError, match=rf"workgroup \({min(bad)},0,0\)"):
            CpuDispatcher(workers=workers).dispatch(program, arrays, GROUPS)


def test_who_may_wait_takes_workgroups_in_order() -> None:
    assert loop_analysis.may_wait(chain())
    assert not loop_analysis.may_wait(parse(SLOW).programs["slow"])


@pytest.mark.campaign
def test_many_threads_dispatch_at_once(kind: str) -> None:
    """They share the others without a mix-up of arguments, scratch memory or faults."""
    program = chain()

    def call(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for turn in range(25):
            x = rng.integers(8, 1 << 32, 32 * (600 + 40 * turn), dtype=np.uint32)
            if turn % 5 == seed % 5:
                x[32 * (seed + 3)] = 7
                with pytest.raises(ProgramError, match=rf"workgroup \({seed + 3},0,0\)"):
                    run_chain(program, x, 4)
            else:
                assert np.array_equal(run_chain(program, x, 4), mixed(x))
            assert np.array_equal(
                prefix_scan(x, dispatcher=CpuDispatcher(workers=3)), np.cumsum(x, dtype="u4")
            )

    def all_calls() -> list[Any]:
        callers = [
            threading.Thread(target=lambda n=n: outcomes.append(within(100, lambda: call(n))))
            for n in range(8)
        ]
        outcomes: list[Any] = []
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        return outcomes

    assert all_calls() == [None] * 8


@pytest.fixture
def thread_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads were called for each job: the caller among them, or besides."""
    counts: list[int] = []
    share, apart = threads.share, threads.share_among_workers

    def share_among_workers(job: threads.Job, workers: int) -> bool:
        counts.append(workers)
        return apart(job, workers)

    monkeypatch.setattr(threads, "share", lambda job: (counts.append(job.threads), share(job)))
    monkeypatch.setattr(threads, "share_among_workers", share_among_workers)
    return counts


def test_little_work_that_takes_long_is_shared(thread_counts: list[int]) -> None:
    """A few invocations with long loops look like nothing; the first of them shows what they are."""
    (program,) = parse(SLOW).programs.values()
    y = {}
    for rounds in (2, 200_000):
        arrays = [np.array([rounds], np.uint32), np.zeros(32 * 16, np.uint32)]
        (y[rounds],) = CpuDispatcher(workers=4).dispatch(program, arrays, 16)
    assert thread_counts[-1:] == [4]
    (alone,) = CpuDispatcher(workers=1).dispatch(program, arrays, 16)
    assert np.array_equal(y[200_000], alone)


@pytest.mark.parametrize(
    ("tick", "ended", "groups", "expected"),
    [
        (1e-7, -1.0, 2000, []),
        (9e-6, 0.0, 2000, []),
        (1.1e-5, -1.0, 10, []),
        (1.11e-5, 0.0, 10, [7]),
        (1.1e-5, -1.0, 2000, [16]),
        (1e-3, -1.0, 10, [9]),
    ],
)
def test_as_many_threads_as_the_work_is_worth(
    monkeypatch: pytest.MonkeyPatch,
    thread_counts: list[int],
    tick: float,
    ended: float,
    groups: int,
    expected: list[int],
) -> None:
    """By the time of the first workgroups, 1 of 10 or 31 of 2000 here, that a clock shows which goes on by a tick a
    look: 10 us of work for one are 90 us for nine others, worth 7 threads if the last call ended just now.  A
    tick of less than 10 us may be that of the call, and tells nothing."""
    monkeypatch.setattr(threads, "_last_call", ended)
    (program,) = parse(SLOW).programs.values()
    ticks = itertools.count()
    monkeypatch.setattr(threads, "perf_counter", lambda: next(ticks) * tick)
    arrays = [np.array([3], np.uint32), np.zeros(32 * groups, np.uint32)]
    # bounded, so that the caller does its part
    (y,) = CpuDispatcher(workers=16).prepared(program, is_bounded=True)(arrays, groups)
    assert thread_counts == expected
    v = np.arange(32 * groups, dtype=np.uint32)
    for _ in range(3):
        v = v * np.uint32(2654435761)
        v ^= v >> np.uint32(5)
    assert np.array_equal(y, v)


def test_threads_are_as_many_as_there_is_time_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least quota of the process's control group and those above; a number in the environment goes first."""
    own = tmp_path / "own"
    group = tmp_path / "root/a/b"
    group.mkdir(parents=True)
    own.write_text("0::/a/b\n")
    quota = partial(processors._quota, str(tmp_path / "root"), str(own))
    assert quota() == math.inf
    (tmp_path / "root/a/cpu.max").write_text("150000 100000\n")
    (group / "cpu.max").write_text("max 100000\n")
    assert quota() == 1.5
    (group / "cpu.max").write_text("25000 100000\n")
    assert quota() == 0.25
    own.write_text("12:cpu:/a\n")
    assert quota() == math.inf
    monkeypatch.setattr(processors, "_quota", lambda root, own: 0.25)
    assert processors.available() == 1
    for named, count in (("3", 3), ("", 1), ("9" * 30, processors.MAX_THREADS)):
        monkeypatch.setenv("VYRE_THREADS", named)
        assert processors.available() == count
    for wrong in ("0", "x", "-2"):
        monkeypatch.setenv("VYRE_THREADS", wrong)
        with pytest.raises(BadInputs, match="VYRE_THREADS is a number of threads from 1 up, not '"):
            processors.available()


# --- in a process of its own

HEAD = f"""
import os, signal, sys, threading, time
import numpy as np
from vyre_opt.syntax.parser import parse
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
(slow,) = parse({SLOW!r}).programs.values()
def run(workers, groups, rounds):
    arrays = [np.array([rounds], np.uint32), np.zeros(32 * groups, np.uint32)]
    return CpuDispatcher(workers=workers).dispatch(slow, arrays, groups)[0]
def right(workers):
    return np.array_equal(run(workers, 2000, 3), run(1, 2000, 3))
"""


def python(text: str, timeout: float = 60) -> str:
    """The output of a script, which ends well."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", HEAD + text],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("workers", "groups", "rounds"),
    quick([(2, 1000, 10_000_000), (4, 1 << 20, 20_000), (1, 1 << 20, 20_000)]),
)
def test_ctrl_c_stops_a_dispatch(workers: int, groups: int, rounds: int) -> None:
    """At once, though its work would take minutes; the next dispatch is as good as ever."""
    out = python(f"""
right({workers})
sent = []
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us may ignore it
def press():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.2, press).start()
try:
    run({workers}, {groups}, {rounds})
except KeyboardInterrupt:
    print(time.monotonic() - sent[0])
print(all(right({workers}) for _ in range(20)))
""")
    waited, again = out.split()
    assert float(waited) < 5
    assert again == "True"


@pytest.mark.skipif(sys.platform != "linux", reason="threads of an executor look for nothing")
def test_threads_sleep_soon_after_the_last_call() -> None:
    """They look for more work once, however many calls there were: who looks in vain takes a CPU from others."""
    out = python("""
from vyre_opt.targets.cpu import thread_pool
thread_pool.available, thread_pool.SPIN_NS = (lambda: 8), 20_000_000
good = all(right(4) for _ in range(60))
time.sleep(0.1)
before = time.process_time()
time.sleep(0.3)
print(good, time.process_time() - before)
""")
    good, busy = out.split()
    assert good == "True"
    assert float(busy) < 0.05


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_dispatches() -> None:
    """It has none of its parent's threads, and makes its own."""
    out = python("""
before = right(4)
child = os.fork()
if child == 0:
    sys.exit(0 if all(right(4) for _ in range(5)) else 3)
_, status = os.waitpid(child, 0)
print(before, os.waitstatus_to_exitcode(status), right(4))
""")
    assert out.split() == ["True", "0", "True"]


@pytest.mark.parametrize("busy", [False, True])
def test_a_process_ends_at_once(busy: bool) -> None:
    """Threads that wait, and even a dispatch in a daemon thread, do not hold it up or bring it down."""
    text = "print(right(6))\n"
    if busy:
        text += (
            "threading.Thread(target=run, args=(3, 1 << 20, 20_000), daemon=True).start()\ntime.sleep(0.1)\n"
        )
    out = python(text + "print(time.time())")
    ended = time.time()
    right, last = out.split()
    assert right == "True"
    assert ended - float(last) < 5


@pytest.mark.parametrize("count", [1 << 18, 1 << 20])
def test_a_workgroup_that_draws_all_work_is_not_tried_alone(
    monkeypatch: pytest.MonkeyPatch, thread_counts: list[int], count: int
) -> None:
    """The first workgroup of the look-back scan goes on until no tile is left: alone it would do them all."""
    monkeypatch.setattr(threads.GridRunner, "_begin_alone", None)
    x = np.arange(count, dtype=np.uint32)
    assert np.array_equal(prefix_scan(x, dispatcher=CpuDispatcher(workers=4)), np.cumsum(x, dtype="u4"))
    assert thread_counts[-1] == 4  # an earlier job may have zeroed the result
