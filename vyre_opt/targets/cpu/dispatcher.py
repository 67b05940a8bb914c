"""The dispatcher of the cpu target, which compiles programs with LLVM and runs them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...execution.array_backend import HostArrays
from ...execution.cache.compilations import new_log
from ...execution.cache.store import default_store
from ...execution.dispatcher import BadInputs, Scratch
from ...execution.inputs import check_declarations, check_params
from ...execution.planned_dispatch import planned_dispatch
from ...execution.processors import available
from ...execution.row_major import argument_shapes, shaped_outputs
from ...execution.target import Target, unusual, wants_debug_info
from ...ir.open_extents import extent_words
from ...ir.program import Module, Program
from ...ir.shapes import has_rows
from ...ir.snapshot import Snapshot
from ...observers import OBSERVERS, tells_perf
from .compiler import LegalForm, compile_program
from .host import Host
from .launch import CompiledLaunch

if TYPE_CHECKING:
    from ...execution.plans.call_plan import CallPlan
    from .loaded_plan import CpuPlan

__all__ = ["CpuDispatcher"]

MAX_LAUNCHES = 256
DEFAULT_LEVEL = 3


class CpuDispatcher(Target):
    """Compiles programs with LLVM and runs them.

    `workers`: threads that run workgroups, by default as many as CPUs.  `opt`: LLVM's
    optimisation level, 0 to 3, by default the highest.  `cache`: whether object code is kept on disk and looked up
    there.  `debug_info`: whether code has line tables, and debuggers are told of it; by default as `wants_debug_info` says, and for perf.
    `compilations`: what was compiled or found in the cache, in order.
    """

    name = "cpu"

    def __init__(
        self,
        workers: int | None = None,
        opt: int | None = None,
        cache: bool = True,
        debug_info: bool | None = None,
    ) -> None:
        if workers is not None and workers < 1:
            raise BadInputs(f"{workers} workers cannot run anything")
        opt = DEFAULT_LEVEL if opt is None else opt
        if not 0 <= opt <= 3:
            raise BadInputs(f"the optimisation level is 0 to 3, not {opt}")
        self.workers = workers or available()
        self.level = opt
        self.store = default_store() if cache else None
        wants_lines = wants_debug_info(tells_perf()) if debug_info is None else debug_info
        self.host = Host.this(opt, wants_lines, self.store)
        self.has_debug_info = self.host.debug_info
        self.compilations = new_log()
        self._launches: OrderedDict[tuple[object, ...], CompiledLaunch] = OrderedDict()
        """(program, module, constants, whether it is bounded) -> its launch, the latest used last."""
        self._lock = threading.Lock()
        self._variants: dict[tuple[int, bool], CpuDispatcher] = {(opt, self.host.debug_info): self}

    @property
    def key(self) -> str:
        return f"cpu {self.host.name} {self.workers} threads{unusual(self.host)}"

    def at_level(self, level: int) -> CpuDispatcher:
        """The same at another level of LLVM's optimiser, 0 to 3; one for each, which keeps what it compiled."""
        return self._variant(level, self.host.debug_info)

    def with_debug_info(self) -> CpuDispatcher:
        return self._variant(self.level, True)

    def _variant(self, level: int, debug_info: bool) -> CpuDispatcher:
        variant = self._variants.get((level, debug_info))
        if variant is None:
            variant = CpuDispatcher(self.workers, level, self.store is not None, debug_info)
            variant._variants = self._variants
            self._variants[level, debug_info] = variant
        return variant

    def compiler(self) -> Callable[[Module], None] | None:
        """Compiler of a module's programs into the cache, for any process; None without a cache."""
        return None if self.store is None else partial(compile_into_cache, self.level, self.host.debug_info)

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
        """See `Dispatcher.dispatch`."""
        if OBSERVERS:  # who hear of the runs of plans
            return planned_dispatch(HostArrays(self), program, inputs, grid, module, specs, params)
        words = tuple(check_params(program, params).values())
        launch = self.prepared(program, module, specs)
        if not has_rows(program):
            return launch(inputs, grid, scratch, words)
        shapes = argument_shapes(program, inputs)
        outputs = launch(list(inputs), grid, scratch, (*words, *extent_words(program, shapes).values()))
        return shaped_outputs(program, shapes, outputs)

    def prepared(
        self,
        program: Program,
        module: Module | None = None,
        specs: Mapping[str, Any] | None = None,
        *,
        is_unchanged: bool = False,
        is_bounded: bool = False,
    ) -> CompiledLaunch:
        """Launch of a program, from an earlier call if possible.

        `is_unchanged`: the caller knows that nobody has changed the program since; otherwise it is
        compared op by op.  `is_bounded`: and that none of its workgroups runs for long.  Raises what `dispatch` does,
        but for its inputs and grid.
        """
        values = check_declarations(program, module, specs) if specs else None
        key = (program, module, None if values is None else tuple(sorted(values.items())), is_bounded)
        cached = self._launches.get(key)
        if cached is not None and (is_unchanged or cached.is_current()):
            return cached
        constants = check_declarations(program, module, None) if values is None else values
        form = LegalForm(program, module, self.store)

        launch = CompiledLaunch(
            form,
            Snapshot(program, module).holds,
            lambda: compile_program(form, constants, self.host, self.store, self.compilations),
            self.workers,
            is_bounded,
        )
        with self._lock:
            self._launches[key] = launch
            self._launches.move_to_end(key)
            if len(self._launches) > MAX_LAUNCHES:
                self._launches.popitem(last=False)
        return launch

    def load(self, call: CallPlan) -> CpuPlan:
        """The plan of a call, compiled."""
        from .loaded_plan import CpuPlan

        return CpuPlan(self, call)


def compile_into_cache(level: int, debug_info: bool, module: Module) -> None:
    """Compile the programs of a module at a level of LLVM's optimiser, so that other processes find them."""
    backend = CpuDispatcher(opt=level, debug_info=debug_info)
    for program in module.programs.values():
        constants = check_declarations(program, module, None)
        form = LegalForm(program, module, backend.store)
        compile_program(form, constants, backend.host, backend.store, backend.compilations)
