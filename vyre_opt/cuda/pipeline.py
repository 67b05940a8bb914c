"""Runs plans on a GPU: buffers stay there, and the launches between two host reads are one submission.

    arguments --take or upload--> memory of each buffer --> graph, host read, graph, ... --> outputs

The addresses of buffers are part of a graph.  The graphs of the latest calls are kept, and used again by a
call whose buffers have the same addresses.  That is the rule, since allocators reuse memory just freed.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.diagnostics import Diagnostic
from ..ir.program import AccessMode, Buffer, Program
from ..ir.types import DataType
from ..lowering.nvptx.abi import KernelParam, Unit, storage_buffers
from ..runtime.array_backend import Operand
from ..runtime.arrays import array_shape
from ..runtime.dispatcher import BackendError, BadLaunch, OutputAlloc, Scratch
from ..runtime.kernel_call import PlannedCall
from ..runtime.params import NO_PARAMS
from ..runtime.pipelines.host_runner import located
from ..runtime.pipelines.steps import (
    HostReadStep,
    LaunchStep,
    PipelinePlan,
    is_returned,
    steps_of,
)
from ..runtime.pipelines.watch import Watch, label_of
from ..runtime.pipelines.zeroed import zeroed_buffers
from .device import Device
from .device_arrays import is_aligned, new_array_like, new_output, producer_stream, take
from .fast_call import GpuCall, Pieces, allows_fast_calls, launch_of
from .faults import FaultRecord, program_error
from .graph import LaunchGraph
from .kernels import LoadedKernel, unit_of
from .libraries import library_of, must_outlive_work
from .queues import PyCudaQueue, Queue, queue_of
from .steps import Argument, Clear, Copy, Step
from .submissions import LaunchBatch, Part, RepeatedParts, batches_of, parts_of
from .timing import Timer
from .transfers import from_device, to_device

if TYPE_CHECKING:
    from .dispatcher import CudaDispatcher

__all__ = ["GpuRunner"]

MAX_RECORDINGS = 4
MAX_PLANNED = 64
"""The most launches of a planned call.  Where there are more, what a call costs beside them matters little."""


@dataclass(slots=True)
class _Slot:
    """The memory of a buffer in a run.  `result`: the array that is returned for it, if there is one already."""

    pointer: int
    owner: Any
    result: Any = None


@dataclass(slots=True)
class _Recording:
    """A plan for some addresses of its buffers: the arguments of its launches, and graphs of its batches.

    The launches of a batch without a graph are enqueued one by one.
    """

    arguments: dict[LaunchStep, list[int]]
    records: list[FaultRecord]
    graphs: dict[LaunchBatch, LaunchGraph] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Owned:
    """What a runner owns on the GPU.  `records`: of planned calls; `last`: the queue of its latest run."""

    device: Device
    memory: list[Any] = field(default_factory=list)
    recordings: OrderedDict[tuple[int, ...], _Recording] = field(default_factory=OrderedDict)
    records: list[FaultRecord] = field(default_factory=list)
    last: Queue | None = None

    def wait(self, queue: Queue) -> None:
        """Before a run on a queue: wait for the last run if it was on another, since all runs share memory."""
        if self.last is not None and self.last.handle != queue.handle:
            self.device.wait()  # for all work: the last stream may be gone
        self.last = queue

    def drop(self, key: tuple[int, ...]) -> None:
        old = self.recordings.pop(key)
        for graph in old.graphs.values():
            graph.drop()
        for record in old.records:
            self.device.faults.free(record)

    def close(self) -> None:
        """Free everything once the GPU is idle."""
        try:
            with self.device:
                self.device.cuda.Context.synchronize()
                for key in list(self.recordings):
                    self.drop(key)
                for record in self.records:
                    self.device.faults.free(record)
                self.memory.clear()
        except (self.device.cuda.Error, BackendError):  # a broken context frees nothing
            self.memory.clear()


class GpuRunner:
    """Runs a plan.  Compiles all its programs as one module.

    Raises BadLaunch for a grid that is too large for the GPU.  Runs of one runner follow one another, since
    they share the memory of the pipeline's own buffers.
    """

    def __init__(self, plan: PipelinePlan, dispatcher: CudaDispatcher) -> None:
        self.zeroed = zeroed_buffers(plan) if dispatcher.options.zero_memory else frozenset[str]()
        plan = dispatcher.rows.plan(plan)
        self.plan, self.dispatcher, self.device = plan, dispatcher, dispatcher.device
        self.parts = parts_of(plan.steps)
        self.launches = [step for step in steps_of(plan.steps) if isinstance(step, LaunchStep)]
        self.lock = Lock()
        self.owned = _Owned(self.device)
        with self.device:
            self.kernels = self._load()
            self._check_grids()
            self.own = {
                b.name: self._allocate(plan.size(b.name)) for b in plan.buffers.values() if _is_own(b)
            }
            self.unbound = {program: self._storage(program) for program in self.kernels}
        # bound to `owned` and not to the runner, which it would keep alive forever
        weakref.finalize(self, self.owned.close)

    @property
    def nbytes(self) -> int:
        """The memory that the runner keeps from call to call."""
        unbound = sum(
            b.size_bytes or 0 for p in self.unbound for b in storage_buffers(p) if b.binding is None
        )
        return unbound + sum(self.plan.size(name) for name in self.own)

    def _load(self) -> dict[Program, LoadedKernel]:
        programs = list(dict.fromkeys(step.program for step in self.launches))
        units: list[Unit] = [unit_of(program, self.plan.module, {}) for program in programs]
        return dict(zip(programs, self.dispatcher.kernels.get_all(units), strict=True))

    def _check_grids(self) -> None:
        errors = []
        for step in self.launches:
            try:
                self.kernels[step.program].check_grid(step.grid)
            except BackendError as error:
                help = "let each workgroup do more, by a loop of stride global_size"
                errors.append(Diagnostic("error", str(error), step.launch.loc, help=help))
        if errors:
            raise BadLaunch(errors)

    def _allocate(self, size: int) -> int:
        """The pointer of new memory that lives as long as the runner."""
        self.owned.memory.append(self.device.allocate(size))
        return int(self.owned.memory[-1])

    def _storage(self, program: Program) -> dict[str, int]:
        """Memory for a program's unbound buffers, by name."""
        unbound = [b for b in storage_buffers(program) if b.binding is None]
        return {b.name: self._allocate(b.size_bytes or 0) for b in unbound}

    def run(
        self, inputs: Mapping[str, Any], watch: Watch, scratch: Scratch, params: Mapping[str, int] = NO_PARAMS
    ) -> dict[str, Any]:
        """See `PipelineRunner`.  `inputs`: operands on the GPU, flat arrays in main memory, `OutputAlloc`."""
        with self.lock, self.device:
            on_gpu = any(isinstance(operand, Operand) for operand in inputs.values())
            return (_DeviceArraysRun if on_gpu else _HostArraysRun)(self, inputs, watch, params).run()

    def fast_call(
        self, inputs: Mapping[str, Operand], results: Mapping[str, Any], in_place: bool = False
    ) -> PlannedCall | None:
        """The call for arrays with the signatures of the operands' owners, after one with these `results`.

        `in_place`: without results; what would be one is written to the array that is passed for it.
        None where calls need more: host reads, many launches, grid barriers, prints, what `allows_fast_calls` refuses.
        """
        batch = self.parts[0] if len(self.parts) == 1 else None
        if not isinstance(batch, LaunchBatch) or len(batch.steps) > MAX_PLANNED:
            return None
        operands, outputs = list(inputs.values()), list(results.values())
        if not operands or not (outputs or in_place):
            return None
        if not allows_fast_calls(self.dispatcher, operands, outputs):
            return None
        if any(
            kernel.kernel.is_cooperative or kernel.records is not None for kernel in self.kernels.values()
        ):
            return None
        with self.lock, self.device:
            return _PipelineCall(self, batch.steps, inputs, results, in_place)

    def recording(self, slots: Mapping[str, _Slot], params: Mapping[str, int]) -> _Recording:
        """The recording for these addresses and words of runtime scalars, from an earlier run if possible."""
        key = (*(slot.pointer for slot in slots.values()), *params.values())
        cached = self.owned.recordings
        recording = cached.get(key)
        if recording is None:
            if len(cached) >= MAX_RECORDINGS:
                # the fault records of the one to drop may still be written
                self.device.wait()
                self.dispatcher.raise_fault()
                self.owned.drop(next(iter(cached)))
            recording = cached[key] = self._record(slots, params)
        cached.move_to_end(key)
        return recording

    def _record(self, slots: Mapping[str, _Slot], params: Mapping[str, int]) -> _Recording:
        recording = _Recording({}, [])
        for step in self.launches:
            kernel, formals = self.kernels[step.program], step.program.bound_buffers
            bound = list(zip(formals, step.buffers, strict=True))
            pointers = {formal.name: slots[name].pointer for formal, name in bound}
            counts = {formal.name: self.plan.buffers[name].count or 0 for formal, name in bound}
            status = None
            if kernel.may_fault:
                # one for each launch, to tell its fault from those of the kernel's other launches
                status = self.fault_record(step, kernel)
                recording.records.append(status)
            pointers |= self.unbound[step.program]
            words = dict(zip(sorted(step.program.params), step.words(params), strict=True))
            recording.arguments[step] = kernel.arguments(pointers, counts, words, status)
        for batch in batches_of(self.parts):
            try:
                recording.graphs[batch] = self._graph(batch, recording)
            except BackendError as error:
                recording.notes.append(f"no CUDA graph, launches go one by one: {error}")
        return recording

    def fault_record(self, step: LaunchStep, kernel: LoadedKernel) -> FaultRecord:
        plan = self.plan  # and not the runner, which the record would keep alive
        return self.device.faults.new(lambda fault: located(program_error(kernel.kernel, fault), plan, step))

    def _graph(self, batch: LaunchBatch, recording: _Recording) -> LaunchGraph:
        graph = LaunchGraph(self.dispatcher)
        with graph.record() as stream:
            self.enqueue(batch, recording, queue_of(self.device, stream))
        return graph

    def enqueue(self, batch: LaunchBatch, recording: _Recording, queue: Queue) -> None:
        for step in batch.steps:
            if self.dispatcher.options.zero_memory:
                for name, pointer in self.unbound[step.program].items():
                    queue.zero(pointer, step.program.buffers[name].size_bytes or 0)
            self.kernels[step.program].enqueue(queue, step.grid, recording.arguments[step])


class _PipelineCall(GpuCall):
    """A run of a plan on GPU arrays as one call of a launcher, which takes new pointers each time."""

    def __init__(
        self,
        runner: GpuRunner,
        launches: Sequence[LaunchStep],
        inputs: Mapping[str, Operand],
        results: Mapping[str, Any],
        in_place: bool,
    ) -> None:
        plan, names = runner.plan, list(inputs)
        self.runner = runner  # which owns the fault records
        pieces = Pieces(len(names) + len(results))
        numbers = {name: len(names) + number for number, name in enumerate(results)}
        steps: list[Step] = []
        for name in plan.buffers:
            if name in names and name not in numbers and (in_place or name not in plan.written):
                numbers[name] = names.index(name)
                continue
            if name not in numbers:
                numbers[name] = pieces.add(plan.size(name))
            if name in names and plan.size(name):
                steps.append(Copy(numbers[name], names.index(name), plan.size(name)))
            elif name in runner.zeroed and plan.size(name):
                steps.append(Clear(numbers[name], plan.size(name)))
        unbound = {
            program: {
                b.name: pieces.add(b.size_bytes or 0) for b in storage_buffers(program) if b.binding is None
            }
            for program in runner.kernels
        }
        values = {name: f"v{number}" for number, name in enumerate(sorted(plan.pipeline.params))}
        records: dict[LaunchStep, FaultRecord] = {}
        for step in launches:
            kernel = runner.kernels[step.program]
            if kernel.may_fault and step not in records:
                records[step] = runner.fault_record(step, kernel)
            formals = zip(step.program.bound_buffers, step.buffers, strict=True)
            actual = {formal.name: name for formal, name in formals}
            pointers = {formal: numbers[name] for formal, name in actual.items()} | unbound[step.program]
            counts = {formal: plan.buffers[name].count or 0 for formal, name in actual.items()}

            scalars: dict[str, Argument] = {
                name: values[value] if isinstance(value, str) else value
                for name, value in zip(sorted(step.program.params), step.params, strict=True)
            }
            named: dict[str, Mapping[str, Argument]] = {
                "buffer": {name: f"p{number}" for name, number in pointers.items()},
                "length": counts,
                "scalar": scalars,
            }

            def argument(param: KernelParam, named: Mapping[str, Mapping[str, Argument]] = named) -> Argument:
                return named[param.kind][param.name]

            if runner.dispatcher.options.zero_memory:
                buffers = step.program.buffers
                steps += [
                    Clear(p, buffers[name].size_bytes or 0) for name, p in unbound[step.program].items()
                ]
            steps.append(launch_of(kernel, step.grid, argument, records.get(step)))
        runner.owned.records += records.values()
        arrays = [operand.owner for operand in inputs.values()]
        title = f"pipeline @{plan.pipeline.name}"
        super().__init__(
            runner.dispatcher,
            arrays,
            list(results.values()),
            pieces,
            steps,
            bool(records),
            title,
            len(values),
        )


class _GpuRun(ABC):
    """One run of a plan; the context is current.  Subclasses know where arguments and results are.

    `read_copies`: what the host read of buffers that later steps write again, by name.
    """

    queue: Queue

    def __init__(
        self, runner: GpuRunner, inputs: Mapping[str, Any], watch: Watch, params: Mapping[str, int]
    ) -> None:
        self.runner, self.plan, self.device = runner, runner.plan, runner.device
        self.inputs, self.watch, self.params = inputs, watch, params
        self.read_copies: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        dispatcher = self.runner.dispatcher
        dispatcher.raise_fault()
        self.runner.owned.wait(self.queue)
        self.slots = {b.name: self.slot(b) for b in self.plan.buffers.values()}
        for name in self.runner.zeroed - self.inputs_with_contents():
            if self.plan.size(name):
                self.queue.zero(self.slots[name].pointer, self.plan.size(name))
        self.recording = self.runner.recording(self.slots, self.params)
        if self.watch.times is not None:
            self.watch.times.notes += self.recording.notes
        self._walk(self.runner.parts)
        outputs = {b.name: self._output(b) for b in self.plan.outputs}
        if self.must_wait() or (dispatcher.check == "now" and self.recording.records):
            self.queue.wait()
            dispatcher.raise_fault()
        return outputs

    def inputs_with_contents(self) -> set[str]:
        """The buffers that arrays were passed for."""
        return {name for name, value in self.inputs.items() if not isinstance(value, OutputAlloc)}

    @abstractmethod
    def slot(self, buffer: Buffer) -> _Slot:
        """The memory of a buffer; the copy of its contents is enqueued, if it needs one."""

    @abstractmethod
    def copy_out(self, buffer: Buffer) -> Any:
        """The current contents of a buffer, in an array that is filled once the queue has come so far."""

    @abstractmethod
    def must_wait(self) -> bool:
        """Whether to wait for the queue at the end, even if nothing can fault."""

    def _walk(self, parts: list[Part]) -> None:
        for part in parts:
            if isinstance(part, LaunchBatch):
                self._submit(part)
            elif isinstance(part, RepeatedParts):
                for _ in range(part.times):
                    self._walk(part.parts)
            else:
                self._read(part)

    def _submit(self, batch: LaunchBatch) -> None:
        graph = self.recording.graphs.get(batch)
        if self.watch.times is None or not isinstance(self.queue, PyCudaQueue):
            if graph is None:
                self.runner.enqueue(batch, self.recording, self.queue)
            else:
                graph.replay(self.queue.handle)
        elif graph is None:
            self._timed_one_by_one(batch, self.queue)
        else:
            with Timer(self.device, self.queue.stream) as timer:
                graph.replay(self.queue.stream)
            first = batch.steps[0].launch.loc
            what = f"a graph of {len(batch.steps)} launch{'es' * (len(batch.steps) > 1)}"
            self.watch.times.add(batch, what, timer.seconds(), first)

    def _timed_one_by_one(self, batch: LaunchBatch, queue: PyCudaQueue) -> None:
        assert self.watch.times is not None
        for step in batch.steps:
            with Timer(self.device, queue.stream) as timer:
                self.runner.enqueue(LaunchBatch([step]), self.recording, queue)
            self.watch.times.add(step, label_of(step), timer.seconds(), step.launch.loc)

    def _read(self, read: HostReadStep) -> None:
        buffer = self.plan.buffers[read.buffer]
        self.read_copies.pop(read.buffer, None)
        is_overwritten = not read.settled and not is_returned(buffer)
        if is_overwritten:
            self.read_copies[read.buffer] = self.copy_out(buffer)
        if self.watch.on_read is not None:
            contents = self.copy_out(buffer)
            self.queue.wait()
            self.runner.dispatcher.raise_fault()  # first, so that nobody sees the contents that a fault left
            self.watch.on_read(read, contents)

    def _output(self, buffer: Buffer) -> Any:
        if buffer.name in self.read_copies:
            return self.read_copies[buffer.name]
        result = self.slots[buffer.name].result
        return self.copy_out(buffer) if result is None else result


class _HostArraysRun(_GpuRun):
    """A run whose arguments and results are NumPy arrays."""

    def __init__(
        self, runner: GpuRunner, inputs: Mapping[str, Any], watch: Watch, params: Mapping[str, int]
    ) -> None:
        super().__init__(runner, inputs, watch, params)
        self.queue = PyCudaQueue(self.device, self.device.stream)

    def slot(self, buffer: Buffer) -> _Slot:
        if buffer.name in self.runner.own:
            return _Slot(self.runner.own[buffer.name], None)
        memory = self.device.allocate(self.plan.size(buffer.name))
        array = self.inputs.get(buffer.name)
        if isinstance(array, np.ndarray):
            to_device(self.device, int(memory), array, self.device.stream)
        return _Slot(int(memory), memory)

    def copy_out(self, buffer: Buffer) -> np.ndarray:
        self.queue.wait()
        shape, dtype = array_shape(buffer, buffer.count or 0)
        pointer = self.slots[buffer.name].pointer
        return from_device(self.device, pointer, shape, dtype, self.device.stream)

    def must_wait(self) -> bool:
        return True


class _DeviceArraysRun(_GpuRun):
    """A run whose arguments are on the GPU; so are the results, of the library of the first argument.

    An argument is copied if a launch writes it, and used in place otherwise.
    """

    def __init__(
        self, runner: GpuRunner, inputs: Mapping[str, Any], watch: Watch, params: Mapping[str, int]
    ) -> None:
        super().__init__(runner, inputs, watch, params)
        first = next(name for name, operand in inputs.items() if isinstance(operand, Operand))
        self.leader = inputs[first].owner
        self.leader_dtype: DataType = self.plan.buffers[first].dtype
        self.queue = queue_of(self.device, producer_stream(self.leader))
        self.temporary: list[Any] = []
        operands = [operand for operand in inputs.values() if isinstance(operand, Operand)]
        self.others = {producer_stream(operand.owner) for operand in operands} - {self.queue.handle}
        self.has_copies = any(must_outlive_work(operand.array, operand.owner) for operand in operands)
        for handle in self.others:
            queue_of(self.device, handle).wait()

    def slot(self, buffer: Buffer) -> _Slot:
        if buffer.name in self.runner.own:
            return _Slot(self.runner.own[buffer.name], None)
        operand = self.inputs.get(buffer.name)
        if not isinstance(operand, Operand):
            array, pointer = self._new_array(buffer)
            return _Slot(pointer, array, array)
        where = f"pipeline @{self.plan.pipeline.name}: input for @{buffer.name}"
        view = take(operand.array, buffer, where, self.device.number)
        is_result = is_returned(buffer)
        if not is_result and buffer.name not in self.plan.written and is_aligned(view):
            return _Slot(view.pointer, operand.array)
        array, pointer = new_array_like(operand.array, buffer, self.device)
        if view.size:
            self.queue.copy(pointer, view.pointer, view.size)
        if not is_result:
            self.temporary.append(array)
        return _Slot(pointer, array, array if is_result else None)

    def _new_array(self, buffer: Buffer) -> tuple[Any, int]:
        return new_output(self.leader, self.leader_dtype, buffer, buffer.count or 0, self.device)

    def copy_out(self, buffer: Buffer) -> Any:
        array, pointer = self._new_array(buffer)
        if self.plan.size(buffer.name):
            self.queue.copy(pointer, self.slots[buffer.name].pointer, self.plan.size(buffer.name))
        return array

    def must_wait(self) -> bool:
        """Allocators that know nothing of streams must not get memory back while it is in use."""
        has_temporary = self.temporary or self.others or self.has_copies
        return bool(has_temporary) or not library_of(self.leader).is_stream_ordered


def _is_own(buffer: Buffer) -> bool:
    """Whether a buffer is the pipeline's own: neither an input nor a result, though the host may read it."""
    return not (buffer.access is AccessMode.READ or buffer.live_in or is_returned(buffer))
