"""The cpu target: programs compiled for this machine, lanes across its vector unit.

A workgroup runs in one thread, 32 invocations at a time; workgroups are spread over the
threads.  Bounds are checked, as is what else would stop a program (a trap, a loop
without a step); races and reads of memory that nothing has written are for `ref` to find.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.program import Buffer, Dim3, Module, Program
from ..arrays import storage_type
from ..cache.compilations import Compilation, new_log
from ..cache.store import default_store
from ..dispatcher import BackendError, BadInputs, Scratch
from ..inputs import Checked, check_call, check_program
from . import blocks, threads
from .compiler import Compiled, compiled, flat_program
from .crew import Job
from .faults import error_of
from .jit import Host

if TYPE_CHECKING:
    from ..pipelines.host import HostRunner, Memory
    from ..pipelines.plan import Plan

__all__ = ["CpuDispatcher"]


class CpuDispatcher:
    """Compiles and runs.

    `workers`: threads that run workgroups, all CPUs by default.  `opt`: LLVM's
    optimisation level, 0 to 3.  `cache`: whether compiled programs are kept on disk, and
    found there.  `compilations`: what was compiled or found, in order.
    """

    name = "cpu"

    def __init__(self, workers: int | None = None, opt: int = 3, cache: bool = True) -> None:
        if workers is not None and workers < 1:
            raise BadInputs(f"{workers} workers cannot run anything")
        if not 0 <= opt <= 3:
            raise BadInputs(f"the optimisation level is 0 to 3, not {opt}")
        self.workers = workers or threads.available()
        self.host = Host.this(opt)
        self.store = default_store() if cache else None
        self.compilations: deque[Compilation] = new_log()

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
        call = check_call(program, inputs, grid, module, specs, blocks.empty)
        made = compiled(program, module, call.specs, self.host, self.store, self.compilations)
        try:
            arrays = {
                name: self._array(program.buffers[name], call, made, scratch or Scratch())
                for name in made.code.buffers
            }
            self._run(program, module, made, call, arrays)
        except MemoryError as short:
            raise BackendError(f"program @{program.name}: not enough memory to run it: {short}") from short
        return [
            arrays[b.name].reshape(-1, b.dtype.lanes) if b.dtype.is_vec else arrays[b.name]
            for b in program.bound_buffers
            if b.is_output
        ]

    def in_place(
        self,
        program: Program,
        memory: Mapping[str, Memory],
        grid: Dim3,
        module: Module,
        scratch: Scratch,
    ) -> Callable[[], None]:
        """See `HostRunner`."""
        checked, specs = check_program(program, grid, module, None)
        made = compiled(program, module, specs, self.host, self.store, self.compilations)
        call = Checked(checked, {}, specs)
        bound = {b.name: memory[b.name].array for b in program.bound_buffers}

        def run() -> None:
            arrays = {
                name: bound[name] if name in bound else _transient(program.buffers[name], scratch)
                for name in made.code.buffers
            }
            self._run(program, module, made, call, arrays)

        return run

    def pipeline(self, plan: Plan) -> HostRunner:
        """What runs a pipeline; see `Runner`."""
        from ..pipelines.host import HostRunner

        return HostRunner(plan, self.in_place)

    def _array(self, buffer: Buffer, call: Checked, made: Compiled, scratch: Scratch) -> np.ndarray:
        """A buffer's storage: the caller's own where it is only read."""
        given = call.arrays.get(buffer.name)
        if given is None:
            return _transient(buffer, scratch)
        if buffer.name in call.fresh:
            return given
        if buffer.name in made.code.written or buffer.is_output or not given.flags.aligned:
            return threads.copy(given, self.workers)
        return given

    def _run(
        self,
        program: Program,
        module: Module | None,
        made: Compiled,
        call: Checked,
        arrays: dict[str, np.ndarray],
    ) -> None:
        """Run all workgroups on the arrays themselves.  Raises ProgramError."""
        record = self._workgroups(program, made, call, arrays)
        if record is not None:
            counts = {b.name: _count(b, arrays) for b in program.buffers.values()}
            raise error_of(program, flat_program(program, module), record, call.grid, counts)

    def _workgroups(
        self, program: Program, made: Compiled, call: Checked, arrays: dict[str, np.ndarray]
    ) -> list[int] | None:
        """The fault of the first workgroup that has any."""
        code = made.code
        counts = [_count(program.buffers[name], arrays) for name in code.buffers]
        args = array("Q", [*(a.ctypes.data for a in arrays.values()), *counts, *call.grid, 0])
        if code.whole_grid:
            job = Job(
                made.loaded.address, args, 0, call.workgroups, 1, 1, code.scratch_bytes * call.workgroups
            )
            job.run(made.loaded, 0, call.workgroups)
            return job.fault()
        touched = max((a.nbytes for a in arrays.values()), default=0)
        return threads.run(
            made.loaded, args, call.workgroups, program.lanes, touched, self.workers, code.scratch_bytes
        )


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
