"""A child process that answers with what is no answer, or not at all, neither harms its parent nor holds it."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hostile_child import ANSWERS

import vyre_opt
from vyre_opt import BackendError, LimitedExecutable, LimitError, Limits
from vyre_opt.driver import limited
from vyre_opt.execution import child_process

TEXT = "vyre 1\n\nprogram @p workgroup(1) {\n}\n"


@pytest.fixture(autouse=True)
def _parent_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No child, no descriptor and no file is left; nor does a signal end the parent where a tool has no handler."""
    before_signal = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(limited, "_MODULE", "hostile_child")
    vyre_opt.parse(TEXT)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    yield
    signal.signal(signal.SIGPIPE, before_signal)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
    assert not list(tmp_path.iterdir())


def executable(what: str, monkeypatch: pytest.MonkeyPatch, limits: Limits) -> LimitedExecutable:
    monkeypatch.setenv("HOSTILE", what)
    return vyre_opt.compile(TEXT, limits=limits)


@pytest.mark.parametrize("what", ANSWERS)
def test_no_answer_is_a_backend_error(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with executable(what, monkeypatch, Limits(time=30)) as run, pytest.raises(BackendError) as caught:
        run()
    assert not isinstance(caught.value, LimitError)
    assert "the process" in str(caught.value)


def test_more_output_than_allowed_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        executable("sends for ever", monkeypatch, Limits(output=1000)) as run,
        pytest.raises(LimitError, match=f"^output=1000: .* {1 << 32} bytes"),
    ):
        run()


@pytest.mark.parametrize("what", ["sleeps", "sends for ever", "talks for ever"])
def test_the_wait_ends_in_time(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while bytes come all the time, which the parent could go on reading."""
    with (
        executable(what, monkeypatch, Limits(time=0.1)) as run,
        pytest.raises(LimitError, match=r"^time=0\.1: not done after 0\.1 s$"),
    ):
        run()


def test_the_wait_ends_in_time_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that is never empty: here its reader waits for more, and is not told that there is nothing."""
    with executable("sends for ever", monkeypatch, Limits(time=0.1)) as run:
        assert run._child is not None
        os.set_blocking(run._child._answers, True)
        with pytest.raises(LimitError, match=r"^time=0\.1: "):
            run()


def test_a_child_that_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that does not fit the pipe does not hold the parent beyond the time."""
    with (
        executable("sleeps", monkeypatch, Limits(time=0.1)) as run,
        pytest.raises(LimitError, match=r"^time=0\.1: "),
    ):
        run({"x": np.zeros(1 << 20, np.uint8)})


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGALRM"])
def test_a_child_that_dies(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        executable(name, monkeypatch, Limits()) as run,
        pytest.raises(BackendError, match=f"ended by {name}"),
    ):
        run()


def test_a_child_that_ends_before_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendError, match="ended with exit code 0"):
        executable("ends at once", monkeypatch, Limits())


def test_a_process_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/python")
    with pytest.raises(BackendError, match="cannot start a process of its own: No such file"):
        vyre_opt.compile(TEXT, limits=Limits())


def test_a_child_that_only_closes_its_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "END_SECONDS", 0.1)
    with (
        executable("closes its pipe", monkeypatch, Limits()) as run,
        pytest.raises(BackendError, match="does not end itself"),
    ):
        run()
