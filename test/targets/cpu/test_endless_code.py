"""Code that never ends: a signal ends the call, and the next call is as good as ever."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.quick import quick

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="code is broken off on Linux only")

WHILE = """  %r = while iter(%a = %v : u32) {
    %go = ne %a, %zero : u32
    condition %go
  } do {
    %b = or %a, %one : u32
    yield %b
  }
"""
FOR = """  %most = mul %v, %all : u32
  %r = for %k = %zero to %most step 1 iter(%a = %v : u32) {
    %s = for %m = %zero to %most step 1 iter(%c = %a : u32) {
      %d = mul %c, %c : u32
      %e = xor %d, %m : u32
      yield %e
    }
    yield %s
  }
"""
# the loop has a barrier in it, so that a workgroup's lanes go round together
BARRIERS = """  store %zero, @w[%l] : u32
  barrier workgroup
  %first = load @x[%zero] : u32
  %r = while iter(%a = %first : u32) {
    %go = ne %a, %zero : u32
    condition %go
  } do {
    barrier workgroup
    %b = or %a, %one : u32
    yield %b
  }
"""
CODES = {"while": WHILE, "for": FOR, "barriers": BARRIERS}

SCRIPT = """
import os, signal, sys, threading, time
import numpy as np
import vyre_opt

TEXT = '''vyre 1
program @p workgroup(64) {{
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  buffer @w : u32[64] workgroup
  %zero = const 0 : u32
  %one = const 1 : u32
  %all = const 4294967295 : u32
  %i = global_id x
  %l = local_id x
  %v = load @x[%i] : u32
{code}  store %r, @y[%i] : u32
}}
pipeline @main {{
  buffer @x : u32[640] read
  buffer @y : u32[640] write
  launch @p grid(10) (@x, @y)
}}
'''
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us may ignore it
target = vyre_opt.dispatcher("cpu", workers={workers})
module = vyre_opt.parse(TEXT)
if {is_pipeline}:
    run = vyre_opt.compile(module, entry="main", target=target)
    call = lambda x: run([x])["y"]
else:
    run = vyre_opt.compile(module, entry="p", target=target)
    call = lambda x: run([x], grid=10, lengths={{"y": 640}})["y"]
x = np.zeros(640, np.uint32)
good = not call(x).any() and not call(x).any()
ending = np.zeros(640, np.uint32)
x[{at}] = 1
waits = []
for _ in range({times}):
    def press():
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    pressed = []
    threading.Timer(0.1, press).start()
    try:
        call(x)
    except KeyboardInterrupt:
        waits.append(time.monotonic() - pressed[0])
    good &= not call(ending).any()
print(good, len(waits), max(waits))
"""


def interrupted(code: str, workers: int, is_pipeline: bool, times: int = 3) -> None:
    text = SCRIPT.format(
        code=CODES[code],
        workers=workers,
        is_pipeline=is_pipeline,
        times=times,
        at=0 if code == "barriers" else 77,
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    good, count, longest = done.stdout.split()
    assert (good, count) == ("True", str(times))
    assert float(longest) < 10, "without the interrupt it would never end"


@pytest.mark.parametrize(
    ("code", "workers"),
    quick([("for", 1), ("barriers", 3), ("while", 1), ("while", 3), ("for", 3), ("barriers", 1)], keep=2),
)
def test_an_interrupt_ends_a_program(code: str, workers: int) -> None:
    interrupted(code, workers, is_pipeline=False)


def test_an_interrupt_ends_a_pipeline() -> None:
    interrupted("while", 2, is_pipeline=True)


@pytest.mark.campaign
def test_many_interrupts() -> None:
    interrupted("while", 4, is_pipeline=False, times=60)
