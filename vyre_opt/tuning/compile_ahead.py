"""Compiles programs in other processes, into the compile cache, where this process finds them.

    this process                         worker (python -c ... main())
    submit(module) -> future   ------->  pickled (compiler, text)
                                         compiler(parse(text)): into the cache
    future.result()            <-------  a line

LLVM compiles one module at a time in a process, so only processes are parallel.  A worker is started when a machine
has processors for it, and ends when its pipe is closed.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from ..ir.program import Module
from ..syntax.printer import print_program

__all__ = ["CompileAhead", "free_processors", "main"]

MAX_WORKERS = 16
START = f"import sys; sys.path[:] = {{!r}}; from {__name__} import main; main()"

Compiler = Callable[[Module], None]


def free_processors() -> int:
    """Number of workers that a machine has room for beside this process and what it measures."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MAX_WORKERS, usable - 2)


class CompileAhead:
    """`compiler`: that of a dispatcher, which can be pickled.  `workers`: processes."""

    def __init__(self, compiler: Compiler, workers: int) -> None:
        self.compiler = compiler
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="compile ahead")
        self._own = threading.local()
        processes: list[subprocess.Popen[bytes]] = []
        self._processes = processes
        self.close = weakref.finalize(self, _end, self._pool, processes)
        """Kills the workers; called when this object is gone, too."""
        self._futures: dict[int, Future[None]] = {}
        for _ in range(workers):  # a thread each, which is busy until its process is there
            self._pool.submit(self._start)

    def submit(self, number: int, module: Module) -> None:
        """Let a worker compile the programs of a module."""
        request = pickle.dumps((self.compiler, print_program(module)))
        self._futures[number] = self._pool.submit(self._compile, request)

    def wait(self, number: int) -> None:
        """Wait until that is compiled; if no worker has begun, it is left to the caller."""
        future = self._futures.pop(number, None)
        if future is not None and not future.cancel():
            future.result()

    def _start(self) -> subprocess.Popen[bytes] | None:
        """The process of this thread; None if there is none."""
        if not hasattr(self._own, "process"):
            self._own.process = None
            with suppress(OSError):
                self._own.process = subprocess.Popen(
                    [sys.executable, "-P", "-c", START.format(sys.path)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for the parent
                )
                self._processes.append(self._own.process)
                self._own.process.stdout.readline()
        process: subprocess.Popen[bytes] | None = self._own.process
        return process

    def _compile(self, request: bytes) -> None:
        """Compile in a worker; a failure there is left to this process, which then compiles the program itself."""
        process = self._start()
        if process is None or process.stdin is None or process.stdout is None:
            return
        with suppress(OSError, ValueError):
            process.stdin.write(len(request).to_bytes(8, "little") + request)
            process.stdin.flush()
            process.stdout.readline()


def _end(pool: ThreadPoolExecutor, processes: list[subprocess.Popen[bytes]]) -> None:
    """Kill all workers, whose threads then end."""
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def main() -> None:
    """A worker: compiles what it is sent until its stdin ends.  It trusts its parent, which started it."""
    from ..syntax.parser import parse

    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else writes to the parent

    def answer() -> None:
        answers.write(b"\n")
        answers.flush()

    answer()
    while head := requests.read(8):
        request = requests.read(int.from_bytes(head, "little"))
        with suppress(Exception):  # the parent compiles it itself, and says what is wrong
            compiler, text = pickle.loads(request)
            compiler(parse(text))
        answer()
