"""The reference interpreter: what every other backend is compared with.

It runs many workgroups in lock step over NumPy arrays, and computes each op in the simplest
correct way.  It detects races, accesses out of bounds, reads of uninitialised memory, and barriers
that only part of a workgroup reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...execution.dispatcher import BackendError, Scratch
from ...execution.inputs import CheckedCall, check_call, check_declarations, check_grid, check_program
from ...execution.params import Words
from ...execution.shapes import array_of
from ...execution.target import Target
from ...ir.program import Dim3, Module, Program
from ...rewriting.core_form import core_form
from .machine import Machine, Observer
from .nans import watched
from .table import TABLE

if TYPE_CHECKING:
    from ...execution.plans.call_plan import CallPlan
    from ...execution.plans.host_plan import HostMemory, HostPlan

__all__ = ["RefDispatcher"]


class RefDispatcher(Target):
    """Dispatches to the interpreter.

    `checks=False` turns off the detection of races, of reads of uninitialised memory (it reads
    as zeros), and of divergence; bounds are always checked.  `max_steps` limits the number of ops
    run, counting an op once for a whole batch of workgroups: a program that needs more is at
    fault (`limit`), so that none can run forever.  `nan`: an op that makes a NaN of operands without one is at fault.  `on_run` is called with the machine of each dispatch that has run.
    `observer`: looks on (see `Observer`).
    """

    name = "ref"

    def __init__(
        self,
        checks: bool = True,
        max_steps: int | None = None,
        on_run: Callable[[Machine], object] = lambda machine: None,
        observer: Observer | None = None,
        nan: bool = False,
    ) -> None:
        self._table = watched(TABLE) if nan else TABLE
        self.checks = checks
        self.max_steps = max_steps
        self.on_run = on_run
        self.observer = observer

    def dispatch(
        self,
        program: Program,
        inputs: Sequence[Any],
        grid: int | Sequence[int] | None = None,
        *,
        module: Module | None = None,
        specs: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        scratch: Scratch | None = None,
    ) -> list[np.ndarray]:
        """See `Dispatcher.dispatch`.  A program that is free of races gives the same bits on every run."""
        call = check_call(program, inputs, grid, module, specs, params)
        machine = self._run(program, call, module, scratch or Scratch(), {})
        outputs = []
        for buffer in program.bound_buffers:
            if buffer.is_output:
                storage = machine.storages[buffer.name]
                outputs.append(storage.data.reshape(array_of(buffer, storage.shape)))
        return outputs

    def in_place(
        self,
        program: Program,
        memory: Mapping[str, HostMemory],
        grid: Dim3,
        module: Module,
        scratch: Scratch,
        params: Words = (),
    ) -> Callable[[], None]:
        """See `HostPlan`.  What a launch writes is initialised for the launches after it.

        Not so in a transient buffer, whose contents are undefined before and after each launch.
        """
        checked_grid, specs = check_grid(program, grid), check_declarations(program, module, None)
        words = dict(zip(sorted(program.params), params, strict=True))
        call = CheckedCall(checked_grid, {}, specs, params=words)

        def run() -> None:
            machine = self._run(program, call, module, scratch, memory)
            for name, buffer in memory.items():
                if self.checks and program.buffers[name].is_transient:
                    buffer.written = np.zeros(len(buffer.array), np.bool_)
                    continue
                written = machine.storages[name].written
                if buffer.written is not None and written is not None and written is not buffer.written:
                    buffer.written |= written

        return run

    def sample(
        self,
        program: Program,
        memory: Mapping[str, HostMemory],
        grid: Dim3,
        module: Module,
        workgroups: Sequence[range],
        params: Mapping[str, Any] | None = None,
    ) -> dict[str, np.ndarray]:
        """Run some workgroups of a dispatch, by linear number, in place on `memory`.

        Returns, for each bound buffer that the program writes, a bool for each scalar: whether these
        workgroups wrote it.
        """
        call = check_program(program, grid, module, None, params)
        machine = self._run(program, call, module, Scratch(), memory, workgroups)
        shadows = ((name, machine.storages[name].shadow) for name in memory)
        return {name: shadow.written() for name, shadow in shadows if shadow is not None}

    def load(self, call: CallPlan) -> HostPlan:
        """The plan of a call."""
        from ...execution.plans.host_plan import HostPlan

        return HostPlan(call, self.in_place, self.checks)

    def _run(
        self,
        program: Program,
        call: CheckedCall,
        module: Module | None,
        scratch: Scratch,
        memory: Mapping[str, HostMemory],
        workgroups: Sequence[range] | None = None,
    ) -> Machine:
        program, module = core_form(program, module)
        try:
            machine = Machine(
                program,
                call,
                module,
                scratch,
                self._table,
                self.checks,
                self.max_steps,
                memory,
                self.observer,
            )
            order = [range(call.workgroups)] if self.observer is None else self.observer.order(machine)
            try:
                machine.run(workgroups or order)
            finally:  # what led to a fault was printed before it
                if workgroups is None and machine.prints.count:
                    machine.prints.lines().deliver()
        except MemoryError as error:
            raise BackendError(
                f"program @{program.name}: not enough memory to interpret it: {error}"
            ) from error
        self.on_run(machine)
        return machine
