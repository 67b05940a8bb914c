"""The reference interpreter: what every other backend is compared with.

It runs many workgroups in lock step over NumPy arrays, does each op in the plainest way
that is right, and finds races, accesses out of bounds, reads of memory that nothing has
written, and barriers that part of a workgroup does not reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.program import Module, Program
from ..dispatcher import BackendError, Scratch
from ..inputs import check_call
from .machine import Machine
from .table import TABLE

__all__ = ["RefDispatcher"]


class RefDispatcher:
    """Dispatches to the interpreter.

    `checks=False` leaves out the detection of races, of reads of memory that nothing has
    written (it reads as zeros), and of divergence; bounds are always checked.
    `max_steps` bounds the ops run, an op of a batch counting once: a program that needs more
    is at fault (`limit`), so that none can run forever.
    """

    name = "ref"

    def __init__(self, checks: bool = True, max_steps: int | None = None) -> None:
        self.checks = checks
        self.max_steps = max_steps

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
        """See `Dispatcher.dispatch`.  An orderly program gives the same bits on every run."""
        call = check_call(program, inputs, grid, module, specs)
        try:
            machine = Machine(program, call, module, scratch or Scratch(), TABLE, self.checks, self.max_steps)
            machine.run()
        except MemoryError as short:
            raise BackendError(
                f"program @{program.name}: not enough memory to interpret it: {short}"
            ) from short
        outputs = []
        for buffer in program.bound_buffers:
            if buffer.is_output:
                data = machine.storages[buffer.name].data
                outputs.append(data.reshape(-1, buffer.dtype.lanes) if buffer.dtype.is_vec else data)
        return outputs
