"""A program that is ready to run: checked, compiled, its buffers in the order that its code takes them.

A call adds nothing but arrays and a grid: whatever depends on the program alone is worked out once.
This is the path of every call, and tuned: an attribute or a call more is measurable on small arrays.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import floordiv
from typing import Any, Protocol

import numpy as np

from ...execution import output_memory
from ...execution.arrays import transient_storage
from ...execution.dispatcher import BackendError, OutputAlloc, ProgramError, Scratch
from ...execution.inputs import check_grid, check_inputs, parameters_of
from ...execution.params import Words
from ...execution.plans.steps import LaunchStep
from ...execution.plans.zeroed import Forms, forms_of_text
from ...ir.open_extents import shapes_of_words
from ...ir.program import Buffer, Dim3, Op, Program
from ...ir.shapes import has_rows
from ...ir.written_elements import wholly_written
from ...records import dataclass
from ...worker import import_module
from . import threads
from .object_code import ObjectCode

__all__ = ["CompiledLaunch", "LaunchForm"]

MAX_GRIDS = 64
MAX_KEPT_RUNNERS = 8
"""The number of pairs of a grid and lengths whose runners a program keeps."""

MAX_KEPT_BYTES = 1 << 18
"""A runner with more scratch memory than this is not kept."""


class LaunchForm(Protocol):
    """A program in the form that is compiled, `program`, of `source` in core ops.

    `records`: the buffer of what it prints, None if it prints nothing.
    """

    @property
    def source(self) -> Program: ...

    @property
    def program(self) -> Program: ...

    @property
    def records(self) -> str | None: ...

    def op_at(self, number: int) -> Op:
        """The op of a number in the order of `program.walk()`, one that may be at fault."""


class CompiledLaunch:
    """Runs a program with up to `workers` threads, as long as nobody changes it (see `is_current`).

    `is_current()`: whether the program that the caller has, whose form is `form`, and the functions of its module are unchanged.
    `compile`: called for its code when that is first needed.
    `is_bounded`: the caller knows that no workgroup runs for long, whatever the text shows.
    """

    def __init__(
        self,
        form: LaunchForm,
        is_current: Callable[[], bool],
        compile: Callable[[], ObjectCode],
        workers: int,
        is_bounded: bool = False,
    ) -> None:
        self.form, self.source, self.program, self.workers = form, form.source, form.program, workers
        self.is_current = is_current
        self._is_bounded = is_bounded
        self.parameters = parameters_of(self.program)
        self.records = form.records
        """The buffer of what the program prints, at which each run is followed by a look."""
        self._has_rows = has_rows(self.source)
        self._compile = compile
        self._code: _Code | None = None
        self._grids: dict[int, Dim3] = {}
        self._runners: dict[tuple[int, ...], list[threads.GridRunner]] = {}
        """(grid, lengths of the arrays) -> the runners for it that no call is using now."""

    def __call__(
        self,
        inputs: Sequence[Any],
        grid: int | Sequence[int] | None = None,
        scratch: Scratch | None = None,
        params: Words = (),
    ) -> list[np.ndarray]:
        """See `Dispatcher.dispatch`; `params`: the words of the runtime scalars."""
        if type(inputs) is not list or len(inputs) != len(self.parameters):
            check_inputs(self.program, inputs)
        workgroups = self._grid(grid)
        bound = [p.take(arg, output_memory.empty) for p, arg in zip(self.parameters, inputs, strict=True)]
        code = self._loaded()
        try:
            for index in code.copied:
                if not isinstance(inputs[index], OutputAlloc):
                    bound[index] = threads.copy(bound[index], self.workers)
            for index in code.shared:
                # the code loads whole elements, which must be aligned
                if not bound[index].flags.aligned:
                    bound[index] = bound[index].copy()
            arrays = code.in_order(bound, scratch)
            self._clear(inputs, bound, workgroups, code.counts(arrays), params)
            self._run(code, arrays, workgroups, params)
        except MemoryError as error:
            raise BackendError(
                f"program @{self.program.name}: not enough memory to run it: {error}"
            ) from error
        return [bound[k] if lanes == 1 else bound[k].reshape(-1, lanes) for k, lanes in code.outputs]

    def prepare(self, grid: int | Sequence[int] | None) -> Dim3:
        """Compile the program unless it is; gives the grid, checked."""
        checked = self._grid(grid)
        self._loaded()
        return checked

    def in_place(
        self, bound: Sequence[np.ndarray], grid: Dim3, scratch: Scratch | None, params: Words = ()
    ) -> None:
        """Run on the arrays themselves, aligned and flat, in binding order.  Raises ProgramError."""
        code = self._loaded()
        self._run(code, code.in_order(bound, scratch), grid, params)

    def _grid(self, grid: int | Sequence[int] | None) -> Dim3:
        if type(grid) is not int:
            return check_grid(self.program, grid)
        checked = self._grids.get(grid)
        if checked is None:
            checked = check_grid(self.program, grid)
            if len(self._grids) < MAX_GRIDS:
                self._grids[grid] = checked
        return checked

    def _loaded(self) -> _Code:
        if self._code is None:
            self._code = _Code.of(self.program, self._compile(), self._is_bounded)
        return self._code

    def _run(self, code: _Code, arrays: list[np.ndarray], grid: Dim3, params: Words) -> None:
        """Run all workgroups.  Raises ProgramError for the first that is at fault."""
        key = (*grid, *map(len, arrays))
        idle = self._runners.get(key)
        # taken off the list: another thread must not write its addresses into the same arguments meanwhile
        if idle:
            runner = idle.pop()
        else:
            runner = self.new_runner(code.counts(arrays), grid, max((a.nbytes for a in arrays), default=0))
        if params:
            self.set_params(runner, params)
        record = runner(map(output_memory.address, arrays))
        if self.records is not None:
            names = code.object_code.host_code.buffers
            from ...execution.debug_prints import read_records

            read_records(self.source, arrays[names.index(self.records)]).deliver()
        if record is None:
            if runner.kept_bytes <= MAX_KEPT_BYTES:
                self._keep(key, runner)
            return
        # the runner is dropped, since nothing clears its fault records
        raise self.error(record, grid, code.counts(arrays), params)

    def _clear(
        self,
        inputs: Sequence[Any],
        bound: Sequence[np.ndarray],
        grid: Dim3,
        counts: Sequence[int],
        params: Words,
    ) -> None:
        """Zero the outputs that are new, but for those that the run writes whole."""
        indices = [index for index, argument in enumerate(inputs) if isinstance(argument, OutputAlloc)]
        whole = self.wholly_written(grid, counts, params) if indices else ()
        for index in indices:
            if self.parameters[index].buffer.name not in whole:
                threads.clear_new(bound[index], self.workers)

    def wholly_written(self, grid: Dim3, counts: Sequence[int], params: Words) -> set[str]:
        """The buffers that a run writes whole.  `counts`: as for `error`; `params`: the words of the run, of which the
        extents of several dimensions are the last."""
        names = self._loaded().object_code.host_code.buffers
        shapes: dict[str, tuple[int, ...]] = {
            name: (count,) for name, count in zip(names, counts, strict=True)
        }
        if self._has_rows:
            shapes |= shapes_of_words(self.source, params)
        return wholly_written(self._whole_writes, grid, shapes)

    @cached_property
    def _whole_writes(self) -> Forms:
        return forms_of_text(self.source)

    @property
    def code_arguments(self) -> tuple[int | Buffer, ...]:
        """Index among the bound buffers for each argument of the code, or the buffer if it is not bound."""
        return self._loaded().order

    def error(
        self,
        record: list[int],
        grid: Dim3,
        counts: Sequence[int],
        params: Sequence[int | str] = (),
        step: LaunchStep | None = None,
    ) -> ProgramError:
        """The error of a fault record.  `counts`: the number of elements of each argument of the code; `params`: the
        words of the run, as far as they are known; `step`: the launch, if it is one of a plan."""
        extents = dict(zip(self._loaded().object_code.host_code.buffers, counts, strict=True))
        extents |= {b.name: b.count for b in self.program.buffers.values() if b.count is not None}
        named = zip(sorted(self.program.params), params, strict=False)
        words = {name: word for name, word in named if isinstance(word, int)}
        import_module(f"{__package__}.faults")
        from .faults import error_of

        return error_of(self.program, self.form.op_at(record[1]), record, grid, extents, words, step)

    def new_runner(self, counts: Sequence[int], grid: Dim3, touched: int) -> threads.GridRunner:
        """A runner.  `counts`: as for `error`; `touched`: bytes of the largest buffer."""
        # as lowering.host says: the addresses, the counts, the grid, a 0, and the words of the params
        args = array("Q", [*bytes(len(counts)), *counts, *grid, 0, *bytes(len(self.program.params))])
        workgroups = grid[0] * grid[1] * grid[2]
        return threads.GridRunner(self._loaded().workgroup_code, args, workgroups, touched, self.workers)

    def set_params(self, runner: threads.GridRunner, params: Words) -> None:
        """Set the words of the runtime scalars of a runner's next run."""
        start = len(runner.args) - len(params)
        for index, word in enumerate(params, start):
            runner.args[index] = word

    def _keep(self, key: tuple[int, ...], runner: threads.GridRunner) -> None:
        """Keep a runner for the next call with the same grid and lengths."""
        idle = self._runners.get(key)
        if idle is None:
            if len(self._runners) >= MAX_KEPT_RUNNERS:
                self._runners.clear()
            idle = self._runners.setdefault(key, [])
        idle.append(runner)


@dataclass(frozen=True, slots=True)
class _Code:
    """A program's code, and how the bound buffers and the code's arguments belong together.

    For each argument, `order` has its index among the bound buffers, or the buffer if it is not bound, and
    `lanes` the lanes of its elements.  The rest are indices of bound buffers: `copied` of those that a run
    changes or returns, so that it works on a copy; `shared` of the others, where it reads the caller's own
    arrays; `outputs` of those that it returns, each with the lanes of its elements.
    """

    object_code: ObjectCode
    order: tuple[int | Buffer, ...]
    lanes: tuple[int, ...]
    copied: tuple[int, ...]
    shared: tuple[int, ...]
    outputs: tuple[tuple[int, int], ...]
    workgroup_code: threads.WorkgroupCode

    @staticmethod
    def of(program: Program, object_code: ObjectCode, is_bounded: bool) -> _Code:
        host_code, facts = object_code.host_code, object_code.facts
        bound = program.bound_buffers
        indices = {b.name: index for index, b in enumerate(bound)}
        arguments = [program.buffers[name] for name in host_code.buffers]
        written = {b.name for b in bound if b.name in host_code.written or b.is_output}
        return _Code(
            object_code,
            tuple(indices.get(b.name, b) for b in arguments),
            tuple(b.dtype.lanes for b in arguments),
            tuple(index for name, index in indices.items() if name in written),
            tuple(index for name, index in indices.items() if name not in written),
            tuple((indices[b.name], b.dtype.lanes) for b in bound if b.is_output),
            threads.WorkgroupCode(
                object_code.loaded,
                program.lanes,
                host_code.scratch_bytes,
                host_code.whole_grid,
                facts.has_ticket_loop,
                facts.has_fixed_trip_counts,
                is_bounded or facts.is_bounded,
                facts.may_wait,
            ),
        )

    def in_order(self, bound: Sequence[np.ndarray], scratch: Scratch | None) -> list[np.ndarray]:
        """The array of each argument; those of buffers that are not bound come out of `scratch`."""
        return [
            bound[item] if isinstance(item, int) else transient_storage(item, scratch) for item in self.order
        ]

    def counts(self, arrays: Sequence[np.ndarray]) -> list[int]:
        """The number of elements of each argument."""
        return list(map(floordiv, map(len, arrays), self.lanes))
