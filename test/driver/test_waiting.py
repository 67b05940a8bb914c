"""Waits for a GPU end at a signal, whatever the GPU does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vyre_opt.targets.cuda.waiting import is_at_work, wait_in_thread, wait_until


def test_waits_that_come_to_their_end() -> None:
    answers = iter([False, False, True])
    wait_until(lambda: next(answers))
    assert list(answers) == []
    calls: list[int] = []
    wait_in_thread(lambda: calls.append(1))
    assert calls == [1]
    with pytest.raises(ZeroDivisionError):
        wait_in_thread(lambda: calls.append(1 // 0))
    assert not is_at_work()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of a process to itself")
@pytest.mark.parametrize("wait", ["wait_until(lambda: False)", "wait_in_thread(lambda: time.sleep(60))"])
def test_a_signal_ends_a_wait(wait: str) -> None:
    script = f"""
import os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
from vyre_opt.targets.cuda.waiting import exit_now, has_given_up, is_at_work, wait_in_thread, wait_until
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    {wait}
except KeyboardInterrupt:
    print(has_given_up(), is_at_work(), end="")
exit_now(7)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=30
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, "True True", "")


def test_a_wait_that_was_given_up_may_be_over_later() -> None:
    """Then the process ends as others do; so it does where the driver cannot be asked any more."""
    script = """
import threading, time
from vyre_opt.targets.cuda.waiting import has_given_up, is_at_work, wait_until
answers = [False]
def ask():
    if threading.current_thread() is threading.main_thread() and not answers[0]:
        answers[0] = None
        raise KeyboardInterrupt
    return answers[0] == "over"
try:
    wait_until(ask)
except KeyboardInterrupt:
    answers[0] = "at work"
print(has_given_up(), is_at_work())
answers[0] = "over"
print(is_at_work())
def broken():
    raise RuntimeError("the context is broken")
try:
    wait_until(broken)
except RuntimeError:
    print(is_at_work())
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    assert ran.stdout.split() == ["True", "True", "False", "False"]
