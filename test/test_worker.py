"""Workers: calls that an exception of a signal ends only from outside, and objects that end in the thread that made them."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import pytest
from support.interrupted_loop import run_processes

from vyre_opt.worker import Worker, interruptible


class Alarm(BaseException):
    pass


@contextmanager
def alarm_after(seconds: float) -> Iterator[None]:
    def end(number: int, frame: FrameType | None) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Resource:
    """Says in which thread it ends."""

    def __init__(self, ends: list[int]) -> None:
        self.ends = ends

    def __del__(self) -> None:
        self.ends.append(threading.get_ident())


class Owner:
    pass


def test_calls_are_made_one_after_the_other_by_one_thread() -> None:
    worker = Worker()
    idents = {worker.call(threading.get_ident) for _ in range(3)}
    assert len(idents) == 1
    assert threading.get_ident() not in idents
    assert worker.call(lambda: worker.call(threading.get_ident)) in idents


def test_an_error_is_the_callers_and_holds_nothing_of_the_call() -> None:
    worker, ends = Worker(), list[int]()

    def fail() -> None:
        resource = Resource(ends)
        raise ValueError(f"with {resource.ends}")

    with pytest.raises(ValueError, match=r"with \[\]") as raised:
        worker.call(fail)
    assert ends == [worker.call(threading.get_ident)], raised


@pytest.mark.parametrize("call", [lambda f: Worker().call(f), interruptible], ids=["worker", "thread"])
def test_an_exception_of_a_signal_ends_the_wait(call: Callable[[Callable[[], object]], object]) -> None:
    has_ended = threading.Event()

    def wait() -> None:
        time.sleep(0.3)
        has_ended.set()

    with alarm_after(0.05), pytest.raises(Alarm):
        call(wait)
    assert not has_ended.is_set()
    assert has_ended.wait(30)


def test_a_call_that_nobody_waits_for_any_more_does_not_begin() -> None:
    worker, go, made = Worker(), threading.Event(), list[str]()
    busy = threading.Thread(target=lambda: worker.call(go.wait))
    busy.start()
    for _ in range(3):
        with alarm_after(0.02), pytest.raises(Alarm):
            worker.call(lambda: made.append("abandoned"))
    go.set()
    worker.call(lambda: made.append("wanted"))
    busy.join()
    assert made == ["wanted"]


def test_what_an_object_owns_ends_in_the_workers_thread() -> None:
    worker, ends, owners = Worker(), list[int](), [Owner()]
    worker.call(lambda: worker.own(owners[0], Resource(ends)))
    gc.collect()
    assert ends == []
    owners.clear()
    assert [worker.call(threading.get_ident)] == ends


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system forks no process")
def test_a_forked_child_has_a_thread_of_its_own() -> None:
    worker = Worker()
    worker.call(threading.get_ident)
    child = os.fork()
    if child == 0:
        os._exit(worker.call(lambda: 3) + worker.call(lambda: 4))  # the second waits where the first one was
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize(
    ("interrupts", "processes"),
    [(10, 1), pytest.param(20_000, 8, marks=pytest.mark.campaign)],
)
def test_a_process_goes_on_after_exceptions_of_signals(interrupts: int, processes: int) -> None:
    """Ended anywhere: no abort, no hang, right results, memory that stays what it is, no threads that wait for ever."""
    for line in run_processes(interrupts, processes, seed=1):
        assert line["interrupts"] >= interrupts // processes
        assert line["threads"] <= 5 + (os.cpu_count() or 1)
        assert line["megabytes"] < 50


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(0, 400, 8))
def test_first_imports_go_on(first: int) -> None:
    run_processes(1, 8, seed=first, imports=True)
