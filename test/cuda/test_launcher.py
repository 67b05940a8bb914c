"""The compiled launcher, against a driver of Python functions: what it calls, and with which arguments."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from vyre_opt.cuda import launcher, libcuda
from vyre_opt.cuda.launcher import DRIVER_ERROR, PENDING_FAULT, UNALIGNED, Clear, Copy, Launch, Launcher

INT, WORD, POINTER = ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p
ARGUMENTS = 4


class RecordingDriver:
    """The driver's functions as callbacks.  `calls`: what was called; `current`: the current context."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.current = 77
        self.error = 0
        self.cuCtxGetCurrent = ctypes.CFUNCTYPE(INT, ctypes.POINTER(WORD))(self._get)
        self.cuCtxPushCurrent_v2 = ctypes.CFUNCTYPE(INT, POINTER)(self._note("push"))
        self.cuCtxPopCurrent_v2 = ctypes.CFUNCTYPE(INT, POINTER)(lambda context: self._note("pop")())
        self.cuMemsetD8Async = ctypes.CFUNCTYPE(INT, WORD, ctypes.c_ubyte, WORD, WORD)(self._note("clear"))
        self.cuMemcpyDtoDAsync_v2 = ctypes.CFUNCTYPE(INT, WORD, WORD, WORD, WORD)(self._note("copy"))
        words = ctypes.POINTER(ctypes.POINTER(WORD))
        kinds = [POINTER, *[ctypes.c_uint] * 7, WORD, words, POINTER]
        self.cuLaunchKernel = ctypes.CFUNCTYPE(INT, *kinds)(self._launch)

    def _note(self, name: str) -> Any:
        def call(*args: Any) -> int:
            self.calls.append((name, *args))
            return 0

        return call

    def _get(self, context: Any) -> int:
        context[0] = self.current
        return 0

    def _launch(self, function: int, *args: Any) -> int:
        *sizes, stream, params, _ = args
        self.calls.append(("launch", function, *sizes, stream, *(params[k][0] for k in range(ARGUMENTS))))
        return self.error


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingDriver]:
    driver = RecordingDriver()
    monkeypatch.setattr(libcuda, "library", lambda: driver)
    monkeypatch.setattr(libcuda, "current_context", lambda: 77)
    launcher._compiled.cache_clear()  # it has the addresses of the driver's functions in it
    yield driver
    launcher._compiled.cache_clear()


class Faults:
    """The words of a GPU's fault records that a launcher reads and counts in."""

    def __init__(self) -> None:
        self.flag, self.calls = ctypes.c_uint32(), WORD(5)
        self.flag_address = ctypes.addressof(self.flag)


@pytest.fixture
def faults() -> Faults:
    return Faults()


KERNEL = Launch(1234, (5, 6, 7), (32, 2, 1), 1000, ["p0", 1 << 40, "call", "p1"])


def launcher_of(faults: Faults, *steps: Any, may_fault: bool = True) -> Launcher:
    return Launcher(SimpleNamespace(faults=faults), steps, 2, may_fault)  # type: ignore[arg-type]


def test_a_launch_gets_pointers_constants_and_the_number_of_the_call(
    driver: RecordingDriver, faults: Faults
) -> None:
    enqueue = launcher_of(faults, KERNEL)
    for number, pointers in ((6, (4096, 1 << 47)), (7, (32, 48))):
        assert enqueue.launch(9, *pointers) == 0
        assert faults.calls.value == number
        (call,) = driver.calls
        assert call == ("launch", 1234, 5, 6, 7, 32, 2, 1, 1000, 9, pointers[0], 1 << 40, number, pointers[1])
        driver.calls.clear()


def test_calls_that_cannot_fault_are_not_counted(driver: RecordingDriver, faults: Faults) -> None:
    assert launcher_of(faults, KERNEL, may_fault=False).launch(0, 0, 16) == 0
    assert faults.calls.value == 5


def test_steps_are_in_order(driver: RecordingDriver, faults: Faults) -> None:
    enqueue = launcher_of(faults, Clear(1, 99), Copy(0, 1, 77), KERNEL, Clear(0, 1))
    assert enqueue.launch(9, 4096, 8192) == 0
    names = [name for name, *_ in driver.calls]
    assert names == ["clear", "copy", "launch", "clear"]
    assert driver.calls[0] == ("clear", 8192, 0, 99, 9)
    assert driver.calls[1] == ("copy", 4096, 8192, 77, 9)
    assert driver.calls[3] == ("clear", 4096, 0, 1, 9)


def test_the_context_is_current_during_a_call(driver: RecordingDriver, faults: Faults) -> None:
    enqueue = launcher_of(faults, KERNEL)
    driver.current = 1
    assert enqueue.launch(9, 16, 16) == 0
    assert [name for name, *_ in driver.calls] == ["push", "launch", "pop"]
    assert driver.calls[0] == ("push", 77)


def test_nothing_is_launched_on_pointers_that_are_not_aligned(
    driver: RecordingDriver, faults: Faults
) -> None:
    assert launcher_of(faults, KERNEL).launch(9, 4096, 4104) == UNALIGNED
    assert driver.calls == []
    assert faults.calls.value == 5


def test_nothing_is_launched_after_a_fault(driver: RecordingDriver, faults: Faults) -> None:
    enqueue = launcher_of(faults, KERNEL)
    faults.flag.value = 1
    assert enqueue.launch(9, 4096, 4096) == PENDING_FAULT
    assert driver.calls == []
    faults.flag.value = 0
    assert enqueue.launch(9, 4096, 4096) == 0


def test_an_error_of_the_driver_ends_the_steps(driver: RecordingDriver, faults: Faults) -> None:
    driver.error, driver.current = 701, 1
    assert launcher_of(faults, KERNEL, Clear(0, 1)).launch(9, 4096, 4096) == DRIVER_ERROR + 701
    assert [name for name, *_ in driver.calls] == ["push", "launch", "pop"]
