"""The cpu target: programs compiled for this machine, lanes across its vector unit.

A workgroup runs in one thread, 32 invocations at a time; workgroups are spread over the
threads.  Bounds are checked, as is what else would stop a program (a trap, a loop
without a step); races and reads of memory that nothing has written are for `ref` to find.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.program import Dim3, Module, Program
from ..cache.compilations import Compilation, new_log
from ..cache.store import default_store
from ..dispatcher import BadInputs, Scratch
from ..inputs import check_form
from . import output_memory, threads
from .compiler import compiled
from .jit import Host
from .launch import Launch

if TYPE_CHECKING:
    from ..pipelines.host_runner import HostRunner, Memory
    from ..pipelines.steps import Plan

__all__ = ["CpuDispatcher"]

MAX_LAUNCHES = 256


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
        self._launches: OrderedDict[Any, Launch] = OrderedDict()
        """By the identity of a program and its module, which they keep alive."""
        self._lock = threading.Lock()

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
        return self.prepared(program, module, specs)(inputs, grid, scratch)

    def prepared(
        self,
        program: Program,
        module: Module | None = None,
        specs: Mapping[str, Any] | None = None,
        *,
        settled: bool = False,
    ) -> Launch:
        """What runs a program: kept from the last calls, or made now.

        `settled`: nobody has changed it since, which else is looked at op by op.  Raises as
        `dispatch` does for all but the inputs and the grid.
        """
        values = check_form(program, module, specs) if specs else None
        key = (id(program), id(module), None if values is None else tuple(sorted(values.items())))
        found = self._launches.get(key)
        if found is not None and (settled or found.holds()):
            return found
        constants = check_form(program, module, None) if values is None else values

        made = Launch(
            program,
            module,
            lambda: compiled(program, module, constants, self.host, self.store, self.compilations),
            self.workers,
        )
        with self._lock:
            self._launches[key] = made
            self._launches.move_to_end(key)
            if len(self._launches) > MAX_LAUNCHES:
                self._launches.popitem(last=False)
        return made

    def in_place(
        self, program: Program, memory: Mapping[str, Memory], grid: Dim3, module: Module, scratch: Scratch
    ) -> Callable[[], None]:
        """See `HostRunner`."""
        launch = self.prepared(program, module, settled=True)
        bound = [memory[p.buffer.name].array for p in launch.parameters]
        launch.ready(grid)
        return lambda: launch.in_place(bound, grid, scratch)

    def pipeline(self, plan: Plan) -> HostRunner:
        """What runs a pipeline; see `Runner`."""
        from ..pipelines.host_runner import HostRunner

        return HostRunner(plan, self.in_place, empty=output_memory.empty)
