"""A child process that has limits, as its parent sees it: started, sent requests, read from, and killed.

    parent                                 child (see `confine`)
    ChildProcess(module, limits)  ------>  module.main(start): loads, limits itself
                                  <------  frame r
    send(request)                 ------>
    receive(kind)                 <------  frames

The child is not trusted.  Nothing that comes from it is unpickled, a length that it names is allocated lazily, and
each wait ends at the deadline, or when the child ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import asdict
from itertools import chain
from typing import Any

import numpy as np

from .confine import FRAME, REQUEST
from .dispatcher import BackendError
from .limits import LimitError, Limits

__all__ = ["ChildProcess"]

START_SECONDS = 60.0
"""Seconds for the child to load."""

END_SECONDS = 10.0
"""Seconds for a child to end after it has closed its pipe."""

POLL_SECONDS = 3600.0
"""The longest wait at once, since the system counts its milliseconds in 32 bits."""

TAIL_BYTES = 4096
"""Bytes of the child's stderr that are kept, to tell why it ended."""

READ_BYTES = 1 << 16

_SHORT_OF_MEMORY = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)
"""Signals that end a process which gets no memory, and does not say so."""

_OUT_OF_MEMORY = (b"out of memory", b"bad_alloc", b"Cannot allocate memory", b"MemoryError")
"""Messages of LLVM, C++, C libraries and Python about missing memory."""

# -P: the current folder is not searched for modules, unless this process searches it
_START = (
    "import sys, json; start = json.loads(sys.argv[1]); sys.path[:] = start['path']; "
    "from importlib import import_module; import_module(start['module']).main(start)"
)


class ChildProcess:
    """`module`: has `main(start)`, which the child runs.  `on_stderr`: called with what the child writes there.

    `has_stdin`: whether the child reads this process's stdin.  Raises BackendError if it cannot be started.
    """

    def __init__(
        self,
        module: str,
        limits: Limits,
        on_stderr: Callable[[bytes], None] | None = None,
        has_stdin: bool = False,
    ) -> None:
        self.limits = limits
        self.owner = os.getpid()
        self._on_stderr: Callable[[bytes], None] | None = None
        self._tail = b""
        self._deadline: float | None = None
        self._start(module, has_stdin)
        self._deadline = time.monotonic() + START_SECONDS
        try:
            self.receive(b"r", 0)
        except LimitError:
            raise BackendError(f"a process of its own was not ready after {START_SECONDS:g} s") from None
        except BaseException:
            self.kill()
            raise
        self._on_stderr = on_stderr  # what keeps it from loading is in the error, whose last line tells all
        self._deadline = None

    def _start(self, module: str, has_stdin: bool) -> None:
        fds: list[int] = []
        try:
            sockets = socket.socketpair()
            fds += _high(sockets[0].detach(), sockets[1].detach())
            fds += _high(*os.pipe())
            fds += _high(*os.pipe())
            requests, sending, self._answers, answers, self._stderr, stderr = fds
            start = {
                "module": module,
                "path": sys.path,
                "requests": requests,
                "answers": answers,
                "limits": asdict(self.limits),
            }
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, json.dumps(start)],
                stdin=None if has_stdin else subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                pass_fds=(requests, answers),
                # else each thread may reserve 64 MiB of address space for its own allocations, and there are threads of
                # NumPy's that nothing here uses
                env={"OPENBLAS_NUM_THREADS": "1", **os.environ, "MALLOC_ARENA_MAX": "1"},
                start_new_session=True,  # Ctrl-C is for the parent, which kills the child
            )
        except OSError as error:
            for fd in fds:
                os.close(fd)
            raise BackendError(f"cannot start a process of its own: {error.strerror}") from None
        for fd in (requests, answers, stderr):
            os.close(fd)
        for fd in (sending, self._answers, self._stderr):
            os.set_blocking(fd, False)
        # no pipe: to write to one that nobody reads any more ends a tool, which leaves SIGPIPE to the system
        self._requests = socket.socket(fileno=sending)
        reading = (self._answers, self._stderr)
        self.kill = weakref.finalize(self, _kill, self._process, self._requests, reading, self.owner)
        """Ends the child at once; does nothing the second time."""

    def begin(self) -> None:
        """Set the deadline: `time` from now."""
        self._deadline = None if self.limits.time is None else time.monotonic() + self.limits.time

    def send(self, request: Any) -> None:
        """Send a request.  Raises LimitError, also for one of more bytes than `input`, and what pickling raises."""
        arrays: list[pickle.PickleBuffer] = []
        first = pickle.dumps(request, protocol=5, buffer_callback=arrays.append)
        parts = [memoryview(first), *[array.raw() for array in arrays]]
        total = sum(part.nbytes for part in parts)
        if self.limits.input is not None and total > self.limits.input:
            raise self.limits.error("input", f"the inputs take {total} bytes")
        sizes = [REQUEST.pack(part.nbytes) for part in parts]
        head = memoryview(REQUEST.pack(len(parts)) + b"".join(sizes))
        for part in chain([head], parts):
            rest = part
            while rest:
                try:
                    rest = rest[self._requests.send(rest, socket.MSG_NOSIGNAL) :]
                except BlockingIOError:
                    self._wait(self._requests.fileno(), select.POLLOUT)
                except (BrokenPipeError, ConnectionResetError):  # it has ended, and may have said why
                    return

    def receive(self, kind: bytes, allow: int | Callable[[int], None]) -> memoryview:
        """The contents of the next frame, which must be of this kind.

        `allow`: the most bytes that it may have; or a function of their number, which raises an error for too many.
        Raises LimitError at the deadline, BackendError for a child that has ended or sends anything else.
        """
        head = bytearray(FRAME.size)
        self._fill(memoryview(head))
        sent, length = FRAME.unpack(head)
        if sent != kind:
            raise self.nonsense("a frame of another kind")
        if callable(allow):
            allow(length)
        elif length > allow:
            raise self.nonsense(f"a frame of {length} bytes")
        try:
            content = np.empty(length, np.uint8).data  # pages that nothing fills take no memory
        except (MemoryError, ValueError, OverflowError):
            raise self.nonsense(f"a frame of {length} bytes") from None
        self._fill(content)
        return content

    def receive_or_end(self, kind: bytes, most: int) -> memoryview | int:
        """The contents of the next frame, or the exit code of a child that has ended by itself.  See `receive`."""
        try:
            return self.receive(kind, most)
        except _Ended as ended:
            if ended.code < 0:
                raise
            return ended.code

    def nonsense(self, what: str) -> BackendError:
        """The error for an answer that is none; the child is killed."""
        self.kill()
        return BackendError(f"the process of its own sent {what}, which is no answer; it was ended")

    def _fill(self, rest: memoryview) -> None:
        while rest:
            self._seconds_left()  # also of a child that sends all the time
            try:
                count = os.readv(self._answers, [rest])
            except BlockingIOError:
                self._wait(self._answers, select.POLLIN)
                continue
            if not count:
                raise self._reason_of_end()
            rest = rest[count:]

    def _wait(self, fd: int, event: int) -> None:
        """Wait until the descriptor is ready, and take what comes on stderr.  Raises LimitError at the deadline."""
        poll = select.poll()
        poll.register(fd, event)
        poll.register(self._stderr, select.POLLIN)
        while True:
            ready = [number for number, _ in poll.poll(min(self._seconds_left(), POLL_SECONDS) * 1000 + 1)]
            if self._stderr in ready and not self._read_stderr():
                poll.unregister(self._stderr)
            if fd in ready:
                return

    def _seconds_left(self) -> float:
        """Seconds until the deadline.  Raises LimitError after it."""
        if self._deadline is None:
            return POLL_SECONDS
        left = self._deadline - time.monotonic()
        if left <= 0:
            self.kill()
            raise self.limits.error("time", f"not done after {self.limits.time or START_SECONDS:g} s")
        return left

    def _read_stderr(self) -> bool:
        """Take some of what is there; False if nothing is, or at its end."""
        try:
            text = os.read(self._stderr, READ_BYTES)
        except BlockingIOError:
            return False
        self._tail = (self._tail + text)[-TAIL_BYTES:]
        if text and self._on_stderr is not None:
            self._on_stderr(text)
        return bool(text)

    def _reason_of_end(self) -> BackendError:
        """The error for a child that has closed its pipe: `_Ended`, or the limit that it seems to have broken."""
        try:
            code = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return self.nonsense("the end of its answers, and does not end itself")
        while self._read_stderr():
            pass
        self.kill()
        if code == -signal.SIGALRM and self.limits.compile is not None:
            return self.limits.error("compile", f"not compiled after {self.limits.compile:g} s")
        if code == -signal.SIGXCPU and self.limits.time is not None:
            return self.limits.error("time", "its processor time is used up")
        how = f"ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        last = self._tail.decode(errors="replace").strip().rpartition("\n")[2]
        said = "".join(c for c in last if c.isprintable())
        if code < 0 and self.limits.memory is not None and any(sign in self._tail for sign in _OUT_OF_MEMORY):
            return self.limits.error("memory", said)
        why = f": {said}" if said and code else ""
        if code == -signal.SIGKILL:
            why += "; the system may be short of memory"
        elif -code in _SHORT_OF_MEMORY and self.limits.memory is not None:
            why += "; the limit of memory may be too low for it"
        return _Ended(f"the process that did the work {how}{why}", code)


class _Ended(BackendError):
    """The child has ended, by no limit; `code` as Popen has it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _high(*low: int) -> list[int]:
    """The descriptors under numbers that are none of the standard streams'."""
    try:
        return [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in low]
    finally:
        for fd in low:
            os.close(fd)


def _kill(
    process: subprocess.Popen[bytes], requests: socket.socket, fds: tuple[int, ...], owner: int
) -> None:
    # a forked child of the owner has these objects, too
    if os.getpid() == owner and process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    requests.close()
    for fd in fds:
        os.close(fd)
