"""Interrupts of tools that a test starts."""

from __future__ import annotations

import signal

__all__ = ["hear_interrupts"]


def hear_interrupts() -> None:
    """As `preexec_fn` of a process: it hears SIGINT, though who started the tests, a shell's background say, may ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
