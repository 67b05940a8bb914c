"""Compiling in several threads, and forks beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from support.quick import quick

import vyre_opt
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

TEXT = """vyre 1
program @p workgroup(32) {{
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %i = global_id x
  %v = load @x[%i] : u32
  %c = const {number} : u32
  %s = add %v, %c : u32
  store %s, @y[%i] : u32
}}
"""


def test_threads_that_want_the_same_code_compile_it_once() -> None:
    number = int.from_bytes(os.urandom(4), "little")
    target = CpuDispatcher(cache=False)
    barrier = Barrier(8)

    def call(_: int) -> int:
        (program,) = vyre_opt.parse(TEXT.format(number=number)).programs.values()
        barrier.wait()
        x = [np.zeros(32, np.uint32), np.zeros(32, np.uint32)]
        return int(target.dispatch(program, x, 1)[0][0])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(8))) == [number] * 8
    assert [compilation.name for compilation in target.compilations] == ["@p"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("forks", quick([4, 12]))
def test_a_fork_beside_a_compile(forks: int) -> None:
    """The child compiles, too, whatever its parent's other thread was just doing in LLVM."""
    script = f"""
import os, sys, threading, time
import numpy as np
import vyre_opt
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
TEXT = {TEXT!r}
target = CpuDispatcher(cache=False)
def call(number):
    (program,) = vyre_opt.parse(TEXT.format(number=number)).programs.values()
    return int(target.dispatch(program, [np.zeros(32, np.uint32)] * 2, 1)[0][0]) == number
call(0)
def compile_on():
    number = 1000
    while not done:
        number += 1
        call(number)
done = []
thread = threading.Thread(target=compile_on)
thread.start()
codes = []
for number in range({forks}):
    time.sleep(0.013)
    child = os.fork()
    if child == 0:
        os._exit(0 if call(number + 1) else 3)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.append(1)
thread.join()
print(codes)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.returncode) == (str([0] * forks), 0), done.stderr
