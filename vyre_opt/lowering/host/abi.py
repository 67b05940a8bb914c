"""ABI"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ENTRY", "FAULT_WORDS", "PATIENCE", "ROUNDS_WORD", "STOP_WORD", "YIELD_WORD", "HostCode"]

ENTRY = "vyre_run"

FAULT_WORDS = ("found", "op", "workgroup", "lane", "index")
"""The i64 words of a fault record."""

STOP_WORD, ROUNDS_WORD, YIELD_WORD = range(len(FAULT_WORDS), len(FAULT_WORDS) + 3)
"""Behind them: the address of a word that is not 0 once the run is given up, a count of rounds of
waiting, and the address of a function that lets other threads run."""

PATIENCE = 128
"""Rounds in which a thread keeps its CPU: the other workgroup is nearly always under way."""


@dataclass(frozen=True, slots=True)
class HostCode:
    """`buffers` in the order of the arguments; `written` those that a run changes."""

    text: str
    buffers: tuple[str, ...]
    written: frozenset[str]
    scratch_bytes: int
    whole_grid: bool
