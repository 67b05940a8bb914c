"""The driver is started early, and what fails then is left for the dispatcher to report."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from vyre_opt.cli.run import main
from vyre_opt.driver import gpu_warm_up

TEXT = """vyre 1
program @p workgroup(32) grid(1) {
  buffer @y : u32[32] write binding(0) live_out
  %l = local_id x
  store %l, @y[%l]
}
"""


class RecordingDriver:
    """Notes what is asked of it; `broken` is the first call that fails."""

    def __init__(self, broken: str = "") -> None:
        self.broken = broken
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> object:
        def call(*arguments: object) -> int:
            self.calls.append(name)
            return int(name == self.broken)

        return call


CALLS = ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_call_that_fails_is_the_last(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """Guards against going on with a device that the driver did not give."""
    driver = RecordingDriver(CALLS[place])
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    gpu_warm_up.begin().join()
    assert driver.calls == CALLS[: place + 1]


def test_no_driver_is_no_error_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a traceback of the thread on a machine without a driver."""

    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    thread = gpu_warm_up.begin()
    thread.join()
    assert not thread.is_alive()


def test_only_a_run_on_a_gpu_starts_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a run on the CPU that opens the GPU, and against one on a GPU that waits for it twice."""
    driver = RecordingDriver()
    monkeypatch.setattr(gpu_warm_up, "begin", lambda: driver.calls.append("begin"))
    file = tmp_path / "p.vyre"
    file.write_text(TEXT)
    assert main([str(file)]) == 0
    assert driver.calls == []
    main([str(file), "--target=cuda"])  # with or without a GPU
    assert driver.calls == ["begin"]
    file.write_text(TEXT.replace("store", "stroe"))
    assert main([str(file), "--target=cuda"]) == 1
    assert driver.calls == ["begin"]
    capsys.readouterr()
