"""Plans on a GPU: steps that take the pointers of each call.

What remains of a call is to allocate the results in the arrays' library, to ask for pointers and for the current stream,
and one call of a `Launcher`: PyCUDA's at the first run, then one that is compiled.  Nothing waits for the GPU, so a
call can be captured in a graph of the library.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ...execution.dispatcher import BackendError
from ...execution.plans.call_plan import CallPlan
from ...execution.plans.rounds import located
from ...execution.plans.steps import LaunchStep, PipelinePlan
from ...execution.plans.watch import Watch
from ...execution.row_major import row_major_plan
from ...ir.program import Dim3, Program
from ...lowering.nvptx.abi import KernelParam, storage_buffers
from . import libcuda
from .device import Device
from .faults import FaultRecord, program_error
from .launch_context import LaunchContext
from .loaded_kernel import LoadedKernel
from .queues import queue_of
from .steps import (
    DRIVER_ERROR,
    PENDING_FAULT,
    UNALIGNED,
    Argument,
    Clear,
    Copy,
    KernelLaunch,
    Launcher,
    PyCudaLauncher,
    Step,
)
from .submissions import LaunchBatch, parts_of
from .walk import GpuWalk

__all__ = ["GpuPlan", "Pieces", "launch_of", "load"]

MAX_PLANNED = 64
"""The most launches of a plan.  Where there are more, what a call costs beside them matters little."""


def load(dispatcher: LaunchContext, call: CallPlan) -> GpuPlan | GpuWalk:
    """The plan, compiled: as one call of a launcher if it is a list of launches."""
    plan = row_major_plan(call.plan)
    parts = parts_of(plan.steps)
    batch = parts[0] if len(parts) == 1 else None
    if not isinstance(batch, LaunchBatch) or len(batch.steps) > MAX_PLANNED:
        return GpuWalk(dispatcher, call)
    with dispatcher.device:
        programs = list(dict.fromkeys(step.program for step in batch.steps))
        kernels = dispatcher.kernels_of(programs, plan.module)
        is_special = any(k.kernel.is_cooperative or k.records is not None for k in kernels.values())
        if is_special or any(0 in step.grid for step in batch.steps):
            return GpuWalk(dispatcher, call)
        return GpuPlan(dispatcher, call, plan, batch.steps, kernels)


def launch_of(
    kernel: LoadedKernel,
    grid: Dim3,
    argument: Callable[[KernelParam], Argument],
    record: FaultRecord | None = None,
) -> KernelLaunch:
    """A launch of a kernel.  `argument`: gives what is passed for a buffer or a length.

    `record`: where a fault goes, by default the kernel's own record.
    """
    kernel.check_grid(grid)
    entry, record = kernel.kernel, record or kernel.status
    by_kind: dict[str, Argument] = {"call": "call", "status": record.pointer if record else 0}
    arguments = [by_kind[param.kind] if param.kind in by_kind else argument(param) for param in entry.params]
    return KernelLaunch(kernel, grid, arguments)


class Pieces:
    """Memory that a call needs beside its arrays and results: one array of all pieces, new at each call.

    So the library that allocates it keeps calls on several streams apart.  `before`: how many pointers of a call
    stand before those of the pieces.
    """

    ALIGNMENT = 256

    def __init__(self, before: int) -> None:
        self.before = before
        self._starts = [0]

    def add(self, size: int) -> int:
        """A further piece of so many bytes; gives the number of its pointer."""
        number = self.before + len(self._starts) - 1
        aligned = -(-max(1, size) // self.ALIGNMENT) * self.ALIGNMENT
        self._starts.append(self._starts[-1] + aligned)
        return number

    def distance(self, first: int, second: int) -> int:
        """Bytes from the start of one piece to that of another, given by the numbers of their pointers."""
        return self._starts[second - self.before] - self._starts[first - self.before]

    @property
    def size(self) -> int:
        """Size of the array, in bytes."""
        return self._starts[-1]

    @property
    def offsets(self) -> list[int]:
        """Offsets of the pieces behind the first one."""
        return self._starts[1:-1]


class GpuPlan:
    """See `vyre_opt.execution.plans.call_plan.Loaded`.

    `plan`: that of the call, over buffers of one dimension.
    """

    kept_bytes = 0

    def __init__(
        self,
        dispatcher: LaunchContext,
        call: CallPlan,
        plan: PipelinePlan,
        launches: Sequence[LaunchStep],
        kernels: Mapping[Program, LoadedKernel],
    ) -> None:
        self._dispatcher, self._call, self._plan, self._kernels = dispatcher, call, plan, kernels
        self._walk: GpuWalk | None = None
        self._pieces = Pieces(call.inputs + len(call.results))
        self._clears_all = dispatcher.zero_memory
        self._numbers = {
            **call.slots,
            **{name: self._pieces.add(plan.size(name)) for name in call.call_storage},
        }
        self._unbound = {program: self._pieces_of(program) for program in kernels}
        self._words = {name: f"v{number}" for number, name in enumerate(sorted(plan.pipeline.params))}
        self._records: dict[LaunchStep, FaultRecord] = {}
        steps = [*self._contents(call)]
        for step in launches:
            steps += self._steps_of(step)
        pointers = self._pieces.before + len(self._pieces.offsets) + bool(self._pieces.size)
        may_fault = any(kernel.may_fault for kernel in kernels.values())
        self._made_of = dispatcher.device, steps, pointers, may_fault, len(self._words)
        self._waits = dispatcher.check == "now" and may_fault
        self._launcher: Launcher = PyCudaLauncher(*self._made_of)
        self.run: Callable[..., int] = self._first_run
        self.piece_bytes = self._pieces.size
        self.pieces = self._pieces.offsets
        if self._records:
            # of the records and not of the plan, which it would keep alive
            free = partial(_free, dispatcher.device, [*self._records.values()])
            weakref.finalize(self, dispatcher.device.when_idle, free).atexit = False

    def _pieces_of(self, program: Program) -> dict[str, int]:
        """A piece for each unbound buffer of a program."""
        unbound = (b for b in storage_buffers(program) if b.binding is None)
        return {b.name: self._pieces.add(b.size_bytes or 0) for b in unbound}

    def _contents(self, call: CallPlan) -> list[Step]:
        """Steps that give buffers their initial contents."""
        steps: list[Step] = []
        for name, number in self._numbers.items():
            size = self._plan.size(name)
            if not size:
                continue
            if name in call.copies:
                steps.append(Copy(number, call.copies[name], size))
            elif name in call.zeroed or (self._clears_all and name in call.unwritten):
                self._clear(steps, number, size)
        return steps

    def _clear(self, steps: list[Step], number: int, size: int) -> None:
        """Zero memory; a piece together with the one before if that is zeroed too: each step costs a microsecond."""
        last = steps[-1] if steps else None
        if isinstance(last, Clear) and last.pointer >= self._pieces.before:
            distance = self._pieces.distance(last.pointer, number)
            if distance - last.size < Pieces.ALIGNMENT:
                steps[-1] = Clear(last.pointer, distance + size)
                return
        steps.append(Clear(number, size))

    def _steps_of(self, step: LaunchStep) -> list[Step]:
        program, kernel, plan = step.program, self._kernels[step.program], self._plan
        names = {b.name: name for b, name in zip(program.bound_buffers, step.buffers, strict=True)}
        numbers = {formal: self._numbers[name] for formal, name in names.items()} | self._unbound[program]
        scalars = zip(sorted(kernel.kernel.program.params), step.params, strict=True)
        arguments: dict[str, Mapping[str, Argument]] = {
            "buffer": {formal: f"p{number}" for formal, number in numbers.items()},
            "length": {formal: plan.buffers[name].count or 0 for formal, name in names.items()},
            "scalar": {
                name: self._words[value] if isinstance(value, str) else value for name, value in scalars
            },
        }
        has_record = step.launch is not None or step.is_rewritten
        if kernel.may_fault and has_record and step not in self._records:
            # one for each launch, to tell its fault from those of the kernel's other launches
            self._records[step] = self._dispatcher.device.faults.new(
                lambda fault: located(program_error(kernel.kernel, fault, step), plan, step)
            )
        steps: list[Step] = []
        if self._clears_all:
            sizes = program.buffers
            for name, number in self._unbound[program].items():
                self._clear(steps, number, sizes[name].size_bytes or 0)
        launch = launch_of(kernel, step.grid, lambda p: arguments[p.kind][p.name], self._records.get(step))
        return [*steps, launch]

    def _first_run(self, stream: int, /, *words: int) -> int:
        """Run the first time by PyCUDA.  The launch after it is compiled."""
        self.run = self._second_run
        return self._launch(stream, *words)

    def _second_run(self, stream: int, /, *words: int) -> int:
        """Nothing is compiled while a graph is recorded."""
        with self._dispatcher.device:
            if not libcuda.is_capturing(stream):
                from .launcher import CompiledLauncher

                self._launcher = CompiledLauncher(*self._made_of)
                self.run = self._launch if self._waits else self._launcher.launch
        return self._launch(stream, *words)

    def _launch(self, stream: int, /, *words: int) -> int:
        status = self._launcher.launch(stream, *words)
        if self._waits and not status:
            with self._dispatcher.device as device:
                queue_of(device, stream).wait()
                self._dispatcher.raise_fault()
        return status

    def watched(self, watch: Watch, stream: int, words: Sequence[int]) -> int:
        if watch.times is None:
            return self.run(stream, *words)
        if self._walk is None:  # which times each launch
            self._walk = GpuWalk(self._dispatcher, self._call)
        # which has memory of its own in the place of the pieces
        own = (*words[: self._pieces.before], *words[len(words) - len(self._words) :])
        return self._walk.watched(watch, stream, own)

    def explain(self, status: int) -> bool:
        if status == UNALIGNED:
            return True
        if status == PENDING_FAULT:
            with self._dispatcher.device:
                self._dispatcher.raise_fault()
            return False
        title = f"@{self._plan.pipeline.name}"
        raise BackendError(libcuda.error_text(status - DRIVER_ERROR, f"launching {title}"))


def _free(device: Device, records: Sequence[FaultRecord]) -> None:
    for record in records:
        device.faults.free(record)
