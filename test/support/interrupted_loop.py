"""Processes that go on after exceptions of signals, at random times in imports, compiles, calls, waits and writes of the cache.

    python -m support.interrupted_loop --processes 8 --interrupts 20000

A process prints `{"interrupts": ..., "megabytes": ..., "threads": ...}` and ends with 0.  It ends with 1 after a wrong result,
and after DEAD_SECONDS without progress, with the stacks of its threads.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import vyre_opt

__all__ = ["main", "run_processes"]

DEAD_SECONDS = 60
AGAIN_SECONDS = 0.2
"""How long after an exception the next one follows: Python drops one that comes in a destructor."""


class Alarm(BaseException):
    """What an alarm's handler raises, as those of services do to end what takes too long."""


def _text(number: int) -> str:
    """A program that no process has compiled before: y = number * x + the sum of 0 to 15."""
    return f"""vyre 1
program @p workgroup(32) {{
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %i = global_id x
  %n = len @y
  %inside = lt %i, %n : u32
  if %inside {{
    %x = load @x[%i] : u32
    %c = const {number} : u32
    %scaled = mul %x, %c : u32
    %sum = for %k = 0 to 16 step 1 iter(%acc = %scaled : u32) {{
      %next = add %acc, %k : u32
      yield %next
    }}
    store %sum, @y[%i] : u32
  }}
}}
"""


ENDLESS = """vyre 1
program @spin workgroup(1) {
  buffer @y : u32[1] read_write binding(0) live_in live_out
  %zero = const 0 : u32
  while {
    %y = load @y[%zero] : u32
    %go = eq %y, %zero : u32
    condition %go
  } do {
    yield
  }
}
"""
"""It ends by an exception alone."""


class _Interrupts:
    """Exceptions of a signal's handler.  `count`: those that ended something."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.is_armed = False
        """A signal that another thread gets may be handled after the alarm was ended."""
        signal.signal(signal.SIGALRM, self.handle)
        sys.unraisablehook = self.drop

    def drop(self, dropped: sys.UnraisableHookArgs) -> None:
        if not isinstance(dropped.exc_value, (KeyboardInterrupt, Alarm)):
            sys.__unraisablehook__(dropped)

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_armed:
            raise (KeyboardInterrupt if self.random.random() < 0.5 else Alarm)

    def end(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def within(self, seconds: float, action: Callable[[], object]) -> bool:
        """Whether an exception within so many seconds ended an action."""
        try:
            self.is_armed = True
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, self.random.uniform(0, seconds)), AGAIN_SECONDS)
            action()
            self.is_armed = False
        except (KeyboardInterrupt, Alarm):
            self.is_armed = False
            self.count += 1
            return True
        return False


class _Loop:
    """`used`: compiled programs of this process, of which some are dropped; each with its number."""

    def __init__(self, interrupts: _Interrupts) -> None:
        self.interrupts, self.random = interrupts, interrupts.random
        self.used: list[tuple[Any, int]] = []
        self.next = os.getpid() << 12
        self.actions: Sequence[tuple[float, Callable[[], object]]] = (
            (0.06, self.compile),
            (0.04, self.emit_ptx),
            (0.003, self.call),
            (0.01, self.interpret),
            (0.02, self.spin),
            (0.004, self.drop),
        )

    def number(self) -> int:
        self.next += 1
        return self.next % (1 << 31)

    def run(self, interrupts: int) -> None:
        while self.interrupts.count < interrupts:
            faulthandler.dump_traceback_later(DEAD_SECONDS, exit=True)
            seconds, action = self.random.choice(self.actions)
            self.interrupts.within(seconds, action)
            if self.random.random() < 0.05:
                self.compile()
                self.call()
        faulthandler.cancel_dump_traceback_later()

    def compile(self) -> None:
        number = self.number()
        self.used.append((vyre_opt.compile(_text(number)), number))
        self.check(*self.used[-1])
        del self.used[:-20]

    def check(self, executable: Any, number: int, length: int = 100) -> None:
        x = np.arange(length, dtype=np.uint32)
        found = executable({"x": x}, -(-length // 32), lengths={"y": length})["y"]
        expected = x * np.uint32(number) + np.uint32(120)
        if not np.array_equal(found, expected):
            raise AssertionError(f"of {number}: {found[:8]}, not {expected[:8]}")

    def call(self) -> None:
        for executable, number in self.used[-3:]:
            self.check(executable, number, self.random.choice((100, 300_000)))

    def emit_ptx(self) -> None:
        number = self.number()
        executable: Any = vyre_opt.compile(_text(number), target="cuda")
        ptx = executable.ptx("sm_90")
        if str(number) not in ptx:
            raise AssertionError(f"{number} is not in {ptx}")

    def interpret(self) -> None:
        number = self.number()
        self.check(vyre_opt.compile(_text(number), target="ref"), number)

    def spin(self) -> None:
        vyre_opt.run(ENDLESS, {"y": np.zeros(1, np.uint32)}, 1)

    def drop(self) -> None:
        del self.used[self.random.randrange(1 + len(self.used)) :]
        gc.collect()


def _import_and_compile(interrupts: _Interrupts) -> None:
    """The first imports of a process, ended again and again."""
    loop = _Loop(interrupts)
    faulthandler.dump_traceback_later(DEAD_SECONDS, exit=True)
    while interrupts.within(0.5, loop.compile):
        pass
    loop.compile()


def _megabytes() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _run_one(options: argparse.Namespace) -> None:
    interrupts = _Interrupts(options.seed)
    if options.imports:
        _import_and_compile(interrupts)
        interrupts.end()
        print(json.dumps({"interrupts": interrupts.count}))
        return
    loop = _Loop(interrupts)
    loop.run(options.interrupts // 2)
    loop.drop()
    half = _megabytes()
    loop.run(options.interrupts)
    loop.compile()
    loop.drop()
    interrupts.end()
    threads = len(os.listdir("/proc/self/task"))
    print(
        json.dumps(
            {"interrupts": interrupts.count, "megabytes": round(_megabytes() - half, 1), "threads": threads}
        )
    )


@contextmanager
def _started(commands: Sequence[Sequence[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"VYRE_CACHE_DIR": cache}
        yield [
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            for command in commands
        ]


def run_processes(
    interrupts: int, processes: int, seed: int, imports: bool = False
) -> list[dict[str, float]]:
    """What each process says of so many interrupts, together.  Raises AssertionError where one fails."""
    command = [sys.executable, __file__, "--one", f"--interrupts={-(-interrupts // processes)}"]
    commands = [[*command, f"--seed={seed + k}", *["--imports"] * imports] for k in range(processes)]
    with _started(commands) as running:
        outputs = [process.communicate()[0] for process in running]
    codes = [process.returncode for process in running]
    assert not any(codes), f"processes end with {codes}"
    return [json.loads(output) for output in outputs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--interrupts", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--imports", action="store_true", help="of first imports")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _run_one(options)
        return
    if not options.imports:
        for line in run_processes(options.interrupts, options.processes, options.seed):
            print(line)
        return
    total, seed = 0, options.seed
    while total < options.interrupts:
        lines = run_processes(options.processes, options.processes, seed, imports=True)
        total, seed = total + int(sum(line["interrupts"] for line in lines)), seed + options.processes
    print(f"{total} interrupts of first imports, in {seed - options.seed} processes")


if __name__ == "__main__":
    main()
