"""Limits that a child process puts on itself before it reads a request, and its talk with the parent.

A request is one pickled value whose arrays follow as raw bytes; the parent is trusted.  An answer is a sequence of
frames, which the parent does not trust (see `child_process`):

    kind, 1 byte    length, 8 bytes (little endian)    as many bytes
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import struct
import threading
from collections.abc import Callable, Mapping
from io import FileIO
from math import ceil
from typing import Any

from ..cache_files.entry import MAX_ENTRY_BYTES
from .limits import Limits, impose
from .processors import available

__all__ = ["FRAME", "REQUEST", "Parent", "confine"]

FRAME = struct.Struct("<cQ")
REQUEST = struct.Struct("<Q")
"""Format of the number of parts of a request, and of the length of each; the first part is the pickle."""

DEFAULT_STACK = 8 << 20


class Parent:
    """The connection to the parent process."""

    def __init__(self, requests: FileIO, answers: FileIO, limits: Limits) -> None:
        self.requests = requests
        self.answers = answers
        self.limits = limits

    def receive(self) -> Any:
        """The next request.  Raises EOFError if the parent has none, MemoryError, and what unpickling raises."""
        (count,) = REQUEST.unpack(self._read(REQUEST.size))
        sizes = [REQUEST.unpack(self._read(REQUEST.size))[0] for _ in range(count)]
        try:
            first, *arrays = [self._read(size) for size in sizes]
        except MemoryError:
            raise MemoryError(f"the inputs take {sum(sizes)} bytes") from None
        _renew_cpu_limit(self.limits)
        return pickle.loads(first, buffers=arrays)

    def send(self, kind: bytes, payload: bytes | memoryview) -> None:
        """Send a frame; `payload` is bytes in a row."""
        self._write(memoryview(FRAME.pack(kind, len(payload))))
        self._write(memoryview(payload))

    def _read(self, size: int) -> bytearray:
        part = bytearray(size)
        rest = memoryview(part)
        while rest:
            count = self.requests.readinto(rest)
            if not count:
                raise EOFError
            rest = rest[count:]
        return part

    def _write(self, rest: memoryview) -> None:
        while rest:
            rest = rest[self.answers.write(rest) :]


def confine(start: Mapping[str, Any], warm_up: Callable[[bool], None]) -> Parent:
    """Impose limits on this process, and tell its parent that it is ready.

    `start`: what `ChildProcess` passes: the numbers of the descriptors, and the limits.  `warm_up(whether memory is
    limited)`: loads what any request needs, so that neither `time` nor `memory` counts it.
    """
    limits = Limits(**start["limits"])
    requests, answers = start["requests"], start["answers"]
    threading.Thread(target=_end_with_parent, args=(requests,), daemon=True).start()
    _set_limit(resource.RLIMIT_CORE, 0)
    # Results go to the parent, so that the only files this process may have to write are entries of the cache.
    _set_limit(resource.RLIMIT_FSIZE, MAX_ENTRY_BYTES if limits.cache else 0)
    warm_up(limits.memory is not None)
    if limits.memory is not None:
        _set_limit(resource.RLIMIT_AS, _address_space() + _stacks() + limits.memory)
    impose(limits)
    parent = Parent(FileIO(requests, "rb"), FileIO(answers, "wb"), limits)
    parent.send(b"r", b"")
    return parent


def _end_with_parent(requests: int) -> None:
    """End this process when its parent has ended, or has closed the pipe: what runs here may never end by itself."""
    poll = select.poll()
    poll.register(requests, 0)  # which is left by a hang-up, and not by data
    poll.poll()
    os.kill(os.getpid(), signal.SIGKILL)


def _set_limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (most, most))


def _renew_cpu_limit(limits: Limits) -> None:
    """Allow the processor time that all threads can use in `time` from now on, for a parent that is stopped."""
    if limits.time is None:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime + (limits.time + 1) * (available() + 1)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard == resource.RLIM_INFINITY or seconds < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(seconds), hard))


def _address_space() -> int:
    """Bytes of address space that this process has.  Raises OSError."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError as error:
        raise OSError(f"a limit of memory needs /proc/self/statm: {error.strerror}") from None


def _stacks() -> int:
    """Address space for the stacks of the threads that run a program, which start when they are needed."""
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return (available() + 1) * (DEFAULT_STACK if stack == resource.RLIM_INFINITY else stack)
