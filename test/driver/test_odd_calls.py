"""Calls with what nobody expects: errors in words, and no error of ours behind the caller's."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import kernels
from vyre_opt.execution import BadInputs, BadLaunch, ProgramError
from vyre_opt.ir import DiagnosticError

COPY = """vyre 2
program @p workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  %i = global_id x
  %v = load @x[%i]
  store %v, @y[%i]
}
"""
X = np.arange(128, dtype=np.uint32)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_a_fault_has_no_context(target: str) -> None:
    """Else a traceback begins with what the runtime looked up in vain."""
    executable = vyre.compile(COPY, target=target)
    with pytest.raises(ProgramError) as caught:
        executable([X], 2, lengths={"y": 100})
    assert caught.value.__context__ is None


def test_arrays_of_ctypes_are_arrays() -> None:
    """Their types say of no module that it is theirs."""
    octets = (ctypes.c_float * 3)(1, 2, 3)
    np.testing.assert_array_equal(kernels.softmax(octets), kernels.softmax(np.array([1, 2, 3], np.float32)))


def test_an_integer_that_no_float_holds() -> None:
    text = "vyre 2\nprogram @p workgroup(1) {\n  buffer @y : f32[1] write binding(0)\n  param @k : f32\n  %k = param @k\n  store %k, @y[0]\n}\n"
    with pytest.raises(BadInputs, match="f32 holds no integer of 1329 bits"):
        vyre.compile(text)({}, 1, params={"k": 10**400})


SCHEDULES = [
    ("math.softmax(@x, @y) {columns = 64, schedule_rows = 0}", "at least 1 of all"),
    ("math.softmax(@x, @y) {columns = 64, schedule_vector = 0}", "at least 1 of all"),
    ("math.softmax(@x, @y) {columns = 64, schedule_unroll = 2147483648}", "at most 1024 rows, rounds"),
]


@pytest.mark.parametrize(("kernel", "message"), SCHEDULES)
def test_schedules_that_nothing_has(kernel: str, message: str) -> None:
    text = f"vyre 2\nprogram @p workgroup(64) {{\n  buffer @x : f32[1024] read binding(0)\n  buffer @y : f32[1024] write binding(1)\n  {kernel}\n}}\n"
    with pytest.raises(DiagnosticError, match=message):
        vyre.compile(text)


@pytest.mark.parametrize("field", ["rows_per_thread", "unroll"])
def test_an_endless_schedule_is_refused(field: str) -> None:
    text = f"""vyre 2
pipeline @main {{
  buffer @cores : f32[?] read
  buffer @indices : u32[?] read
  buffer @out : f32[?] write
  tt.embedding(@cores, @indices, @out) {{p0 = 3, q0 = 4, r1 = 8, p1 = 5, q1 = 4, schedule_{field} = 2147483648}}
}}
"""
    inputs = {"cores": np.zeros(256, np.float32), "indices": np.zeros(20, np.uint32)}
    with pytest.raises(BadLaunch, match="1 to 256 rows of a lane"):
        vyre.compile(text)(inputs, lengths={"out": 320})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forks_beside_calls_of_the_interpreter() -> None:
    executable, ended = vyre.compile(COPY, target="ref"), threading.Event()

    def call() -> None:
        executable([X], 2, lengths={"y": 128})

    def calls() -> None:
        while not ended.is_set():
            call()

    call()
    threads = [threading.Thread(target=calls) for _ in range(3)]
    for thread in threads:
        thread.start()
    statuses = []
    for _ in range(6):
        child = os.fork()
        if not child:
            signal.alarm(20)
            call()
            os._exit(0)
        statuses.append(os.waitpid(child, 0)[1])
    ended.set()
    for thread in threads:
        thread.join()
    assert statuses == [0] * 6, sys.version
