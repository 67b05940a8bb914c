"""A program that is ready to run: checked, compiled, its buffers in the order that its code takes them.

What a call adds is arrays and a grid.  So whatever a program alone decides is decided once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import floordiv
from typing import Any

import numpy as np

from ...ir.program import Buffer, Dim3, Module, Program
from ...ir.snapshot import Snapshot
from ..arrays import storage_type
from ..dispatcher import BackendError, OutputAlloc, Scratch
from ..inputs import check_grid, check_inputs, parameters_of
from . import output_memory, pace, threads
from .compiler import ObjectCode, flat_program
from .faults import error_of

__all__ = ["Launch"]

MAX_GRIDS = 64
MAX_KEPT_RUNS = 8
"""Grids and lengths whose runs are kept, of a program."""

MAX_KEPT_BYTES = 1 << 18
"""Of scratch memory that runs may have and be kept."""


class Launch:
    """Runs a program, which nobody changes (see `holds`), with up to `workers` threads.

    `compile`: called for its code when that is first needed.
    """

    def __init__(
        self, program: Program, module: Module | None, compile: Callable[[], ObjectCode], workers: int
    ) -> None:
        self.program, self.module, self.workers = program, module, workers
        self.parameters = parameters_of(program)
        self._snapshot = Snapshot(program, module)
        self._compile = compile
        self._code: _Code | None = None
        self._grids: dict[int, Dim3] = {}
        self._runs: dict[tuple[int, ...], list[threads.Runs]] = {}
        """By the grid and the lengths of the arrays, those that nobody uses at the moment."""

    def holds(self) -> bool:
        """Whether the program and its module's functions are still what they were."""
        return self._snapshot.holds()

    def __call__(
        self, inputs: Sequence[Any], grid: int | Sequence[int] | None = None, scratch: Scratch | None = None
    ) -> list[np.ndarray]:
        """See `Dispatcher.dispatch`."""
        if type(inputs) is not list or len(inputs) != len(self.parameters):
            check_inputs(self.program, inputs)
        workgroups = self._grid(grid)
        bound = [p.take(given, output_memory.empty) for p, given in zip(self.parameters, inputs, strict=True)]
        code = self._ready()
        try:
            for place in code.copied:
                if not isinstance(inputs[place], OutputAlloc):
                    bound[place] = threads.copy(bound[place], self.workers)
            for place in code.shared:
                if not bound[place].flags.aligned:
                    bound[place] = bound[place].copy()
            self._run(code, code.in_order(bound, scratch), workgroups)
        except MemoryError as short:
            raise BackendError(
                f"program @{self.program.name}: not enough memory to run it: {short}"
            ) from short
        return [bound[k] if lanes == 1 else bound[k].reshape(-1, lanes) for k, lanes in code.outputs]

    def ready(self, grid: int | Sequence[int] | None) -> Dim3:
        """The grid, checked; the program is compiled after that."""
        checked = self._grid(grid)
        self._ready()
        return checked

    def in_place(self, bound: Sequence[np.ndarray], grid: Dim3, scratch: Scratch) -> None:
        """Run on the arrays themselves, aligned and flat, in binding order.  Raises ProgramError."""
        code = self._ready()
        self._run(code, code.in_order(bound, scratch), grid)

    def _grid(self, given: int | Sequence[int] | None) -> Dim3:
        if type(given) is not int:
            return check_grid(self.program, given)
        found = self._grids.get(given)
        if found is None:
            found = check_grid(self.program, given)
            if len(self._grids) < MAX_GRIDS:
                self._grids[given] = found
        return found

    def _ready(self) -> _Code:
        if self._code is None:
            self._code = _Code.of(self.program, self._compile())
        return self._code

    def _run(self, code: _Code, arrays: list[np.ndarray], grid: Dim3) -> None:
        """Run all workgroups.  Raises ProgramError for the first that is at fault."""
        key = (*grid, *map(len, arrays))
        waiting = self._runs.get(key)
        runs = waiting.pop() if waiting else self._new_runs(code, arrays, grid)
        record = runs(map(output_memory.address, arrays))
        if record is None:
            if runs.kept_bytes <= MAX_KEPT_BYTES:
                self._keep(key, runs)
            return
        extents = dict(zip(code.made.code.buffers, code.counts(arrays), strict=True))
        extents |= {b.name: b.count for b in self.program.buffers.values() if b.count is not None}
        raise error_of(self.program, flat_program(self.program, self.module), record, grid, extents)

    def _new_runs(self, code: _Code, arrays: list[np.ndarray], grid: Dim3) -> threads.Runs:
        args = array("Q", [*bytes(len(arrays)), *code.counts(arrays), *grid, 0])
        touched = max((a.nbytes for a in arrays), default=0)
        return threads.Runs(code.work, args, grid[0] * grid[1] * grid[2], touched, self.workers)

    def _keep(self, key: tuple[int, ...], runs: threads.Runs) -> None:
        """For the next call like this one."""
        waiting = self._runs.get(key)
        if waiting is None:
            if len(self._runs) >= MAX_KEPT_RUNS:
                self._runs.clear()
            waiting = self._runs.setdefault(key, [])
        waiting.append(runs)


@dataclass(frozen=True, slots=True)
class _Code:
    """What its code takes of a program's buffers, and what its runs have in common.

    `order`: for each argument the place among the bound buffers, or the buffer where it is not
    bound; `lanes`: of its elements.  Places among the bound buffers: `copied` of those that a run
    changes or gives back; `shared` of the others, which are the caller's own; `outputs`, with lanes.
    """

    made: ObjectCode
    order: tuple[int | Buffer, ...]
    lanes: tuple[int, ...]
    copied: tuple[int, ...]
    shared: tuple[int, ...]
    outputs: tuple[tuple[int, int], ...]
    work: threads.Work

    @staticmethod
    def of(program: Program, made: ObjectCode) -> _Code:
        bound = program.bound_buffers
        places = {b.name: place for place, b in enumerate(bound)}
        taken = [program.buffers[name] for name in made.code.buffers]
        own = {b.name for b in bound if b.name in made.code.written or b.is_output}
        return _Code(
            made,
            tuple(places.get(b.name, b) for b in taken),
            tuple(b.dtype.lanes for b in taken),
            tuple(place for name, place in places.items() if name in own),
            tuple(place for name, place in places.items() if name not in own),
            tuple((places[b.name], b.dtype.lanes) for b in bound if b.is_output),
            threads.Work(
                made.loaded,
                program.lanes,
                made.code.scratch_bytes,
                made.code.whole_grid,
                pace.draws(program),
                pace.is_steady(program),
            ),
        )

    def in_order(self, bound: Sequence[np.ndarray], scratch: Scratch | None) -> list[np.ndarray]:
        """The storage of each argument, of those that are not bound in `scratch`."""
        return [
            bound[place] if isinstance(place, int) else _transient(place, scratch) for place in self.order
        ]

    def counts(self, arrays: Sequence[np.ndarray]) -> list[int]:
        """Elements of the storage of each argument."""
        return list(map(floordiv, map(len, arrays), self.lanes))


def _transient(buffer: Buffer, scratch: Scratch | None) -> np.ndarray:
    """Zeroed storage for an unbound buffer, kept in `scratch` for the next dispatch."""
    scalars, kind = (buffer.count or 0) * buffer.dtype.lanes, storage_type(buffer.dtype)
    kept = None if scratch is None else scratch.storage.get(buffer.name)
    if isinstance(kept, np.ndarray) and len(kept) == scalars and kept.dtype == kind:
        kept.fill(0)
        return kept
    try:
        made: np.ndarray = np.zeros(scalars, kind)
    except ValueError as too_large:  # beyond the address space, where NumPy does not even try
        raise MemoryError(str(too_large)) from None
    if scratch is not None:
        scratch.storage[buffer.name] = made
    return made
