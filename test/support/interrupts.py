"""Interrupts of tools that a test starts, and the end of their processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

__all__ = ["has_ended", "hear_interrupts"]


def hear_interrupts() -> None:
    """As `preexec_fn` of a process: it hears SIGINT, though who started the tests, a shell's background say, may ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def has_ended(pid: int) -> bool:
    """Whether a process ends within a while; one that nobody has waited for yet has."""
    for _ in range(400):
        try:
            os.kill(pid, 0)
            if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False
