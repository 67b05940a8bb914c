"""The cpu target: programs compiled for this machine, lanes across its vector unit.

A workgroup runs in one thread, 32 invocations at a time; workgroups are spread over the
threads.  Bounds are checked, as is what else would stop a program (a trap, a loop
without a step); races and reads of memory that nothing has written are for `ref` to find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.program import Buffer, Module, Program
from ...lowering.host_helpers import FAULT_WORDS
from ..arrays import storage_type
from ..dispatcher import BackendError, BadInputs, Scratch
from ..inputs import Checked, check_call
from . import threads
from .compiler import Compiled, compiled, flat_program
from .faults import error_of
from .jit import Host

__all__ = ["CpuDispatcher"]

ALIGN = 64


class CpuDispatcher:
    """Compiles and runs.

    `workers`: threads that run workgroups, all CPUs by default.  `opt`: LLVM's
    optimisation level, 0 to 3.
    """

    name = "cpu"

    def __init__(self, workers: int | None = None, opt: int = 3) -> None:
        if workers is not None and workers < 1:
            raise BadInputs(f"{workers} workers cannot run anything")
        if not 0 <= opt <= 3:
            raise BadInputs(f"the optimisation level is 0 to 3, not {opt}")
        self.workers = workers or threads.available()
        self.host = Host.this(opt)

    def dispatch(
        self,
        program: Program,
        inputs: Sequence[Any],
        grid: int | Sequence[int] | None = None,
        *,
        module: Module | None = None,
        specs: Mapping[str, Any] | None = None,
        scratch: Scratch | None = None,
    ) -> list[np.ndarray]:
        """See `Dispatcher.dispatch`."""
        call = check_call(program, inputs, grid, module, specs)
        made = compiled(program, module, call.specs, self.host)
        try:
            arrays = {
                name: self._array(program.buffers[name], call, made, scratch or Scratch())
                for name in made.code.buffers
            }
            record = self._run(program, made, call, arrays)
        except MemoryError as short:
            raise BackendError(f"program @{program.name}: not enough memory to run it: {short}") from short
        if record is not None:
            counts = {b.name: _count(b, arrays) for b in program.buffers.values()}
            raise error_of(program, flat_program(program, module), record, call.grid, counts)
        return [
            arrays[b.name].reshape(-1, b.dtype.lanes) if b.dtype.is_vec else arrays[b.name]
            for b in program.bound_buffers
            if b.is_output
        ]

    def _array(self, buffer: Buffer, call: Checked, made: Compiled, scratch: Scratch) -> np.ndarray:
        """A buffer's storage: the caller's own where it is only read."""
        given = call.arrays.get(buffer.name)
        if given is None:
            return _transient(buffer, scratch)
        if buffer.name in made.code.written or buffer.is_output or not given.flags.aligned:
            return threads.copy(given, self.workers)
        return given

    def _run(
        self, program: Program, made: Compiled, call: Checked, arrays: dict[str, np.ndarray]
    ) -> list[int] | None:
        """Run all workgroups; the fault of the first one that has any."""
        code = made.code
        counts = [_count(program.buffers[name], arrays) for name in code.buffers]
        words = [*(a.ctypes.data for a in arrays.values()), *counts, *call.grid, 0]
        args = np.array(words, np.uint64)
        if code.whole_grid:
            room = _room(code.scratch_bytes * call.workgroups)
            record = np.zeros(len(FAULT_WORDS), np.uint64)
            made.loaded.call(args.ctypes.data, 0, call.workgroups, room.ctypes.data, record.ctypes.data)
            return [int(word) for word in record] if record[0] else None
        rooms = [_room(code.scratch_bytes) for _ in range(min(self.workers, call.workgroups))]
        faults: dict[int, list[int]] = {}

        def stretch(first: int, last: int, thread: int) -> bool:
            record = np.zeros(len(FAULT_WORDS), np.uint64)
            room = rooms[thread].ctypes.data
            made.loaded.call(args.ctypes.data, first, last, room, record.ctypes.data)
            if record[0]:
                faults[first] = [int(word) for word in record]
            return not faults

        threads.run(call.workgroups, call.workgroups * program.lanes, self.workers, stretch)
        return faults[min(faults)] if faults else None


def _transient(buffer: Buffer, scratch: Scratch) -> np.ndarray:
    """Zeroed storage for an unbound buffer, kept in `scratch` for the next dispatch."""
    scalars, kind = (buffer.count or 0) * buffer.dtype.lanes, storage_type(buffer.dtype)
    kept = scratch.storage.get(buffer.name)
    if isinstance(kept, np.ndarray) and len(kept) == scalars and kept.dtype == kind:
        kept.fill(0)
        return kept
    try:
        made: np.ndarray = np.zeros(scalars, kind)
    except ValueError as too_large:  # beyond the address space, where NumPy does not even try
        raise MemoryError(str(too_large)) from None
    scratch.storage[buffer.name] = made
    return made


def _count(buffer: Buffer, arrays: Mapping[str, np.ndarray]) -> int:
    if buffer.count is not None:
        return buffer.count
    return len(arrays[buffer.name]) // buffer.dtype.lanes


def _room(size: int) -> np.ndarray:
    """`size` bytes that start at a multiple of ALIGN."""
    room = np.zeros(size + ALIGN, np.uint8)
    start = -room.ctypes.data % ALIGN
    return room[start : start + size] if size else room
