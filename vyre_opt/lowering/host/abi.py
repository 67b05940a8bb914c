"""The ABI of a compiled program: the one function to call, and the memory that it works on.

    void vyre_run(ptr args, i64 first, i64 last, ptr scratch, ptr status)

runs the workgroups `first` to `last` of the grid, last excluded and larger than first.

    args      64-bit words: the address of each buffer of `HostCode.buffers`, their element counts,
              the grid along x, y and z, a 0, and the bits of each param, in the order of their names
    scratch   the thread's own memory, aligned to 64 bytes, `HostCode.scratch_bytes` long (times the
              number of workgroups of the grid if `whole_grid`)
    status    64-bit words, zero before the call: FAULT_WORDS, which a fault fills in, then three
              that a loop reads which may be waiting for another workgroup, see below
"""

from __future__ import annotations

from ...records import dataclass

__all__ = ["ENTRY", "FAULT_WORDS", "PATIENCE", "ROUNDS_WORD", "STOP_WORD", "YIELD_WORD", "HostCode"]

ENTRY = "vyre_run"

FAULT_WORDS = ("found", "op", "workgroup", "lane", "index", "index_1", "index_2")
"""The i64 words of a fault record: whether there is one, the op's number in `Program.walk()`, linear
workgroup id, linear local id, and the index, along each dimension."""

STOP_WORD, ROUNDS_WORD, YIELD_WORD = range(len(FAULT_WORDS), len(FAULT_WORDS) + 3)
"""The words of `status` behind the fault record.

STOP: the address of a word that becomes nonzero when the run is to be given up, because of a fault in
another thread or by the caller.  ROUNDS: a counter for the code's own use.  YIELD: the address of a
function `i32 ()` that lets other threads run, called now and then.
"""

PATIENCE = 128
"""Rounds of a waiting loop between calls of the YIELD function.  The other workgroup nearly always
runs already, so giving up the CPU at once would cost more than it gains."""


@dataclass(frozen=True, slots=True)
class HostCode:
    """LLVM IR of a program.

    `buffers`: names, in the order of the arguments; `written`: those that a run changes.
    `whole_grid`: the program has a grid barrier, so that one call must run all workgroups.
    """

    text: str
    buffers: tuple[str, ...]
    written: frozenset[str]
    scratch_bytes: int
    whole_grid: bool
