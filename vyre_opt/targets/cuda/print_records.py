"""Prints of a kernel: records in GPU memory, which are read back at the end of a run.

So a run of a program that prints is waited for, is in no graph, and is no part of a planned call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from ...execution.debug_prints import PrintedLines, read_records
from ...execution.dispatcher import BackendError
from ...ir.program import Program
from ...lowering.common.print_records import capacity, prints_of, record_words, records_of
from .driver import translated_errors
from .libcuda import is_capturing

if TYPE_CHECKING:
    from .device import Device
    from .queues import Queue

__all__ = ["PrintBuffer"]

WORD = 8


class PrintBuffer:
    """Memory for the buffer `name` with the records of a program that prints, at `pointer`.  The context must be current."""

    def __init__(self, device: Device, program: Program) -> None:
        self.device, self.program = device, program
        prints = prints_of(program)
        self.name = records_of(program) or ""
        self.length, self.capacity = record_words(prints), capacity(prints)
        self.memory: Any = device.allocate(WORD * (1 + self.capacity * self.length))
        self.pointer = int(self.memory)
        self.lock = RLock()
        """Runs of one kernel follow each other, since they share the memory."""

    @contextmanager
    def of_run(self, queue: Queue) -> Iterator[None]:
        """The body enqueues a run, which is waited for; then its lines are delivered."""
        if is_capturing(queue.handle):
            raise BackendError(
                f"program @{self.program.name} has a debug_print, and what it prints is read back after each run, "
                "which no CUDA graph records; remove the debug_print"
            )
        with self.lock:
            queue.zero(self.pointer, WORD)
            yield
            queue.wait()
            lines = self._read()
        lines.deliver()

    def _read(self) -> PrintedLines:
        words = np.zeros(1 + self.capacity * self.length, np.uint64)
        with translated_errors("reading what a program printed"):
            self.device.cuda.memcpy_dtoh(words[:1], self.pointer)
            kept = min(int(words[0]), self.capacity) * self.length
            if kept:
                self.device.cuda.memcpy_dtoh(words[1 : 1 + kept], self.pointer + WORD)
        return read_records(self.program, words)
