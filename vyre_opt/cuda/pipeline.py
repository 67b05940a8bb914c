"""Runs plans on a GPU: buffers stay there, and what lies between two host reads is one submission.

    arguments --take or upload--> memory of each buffer --> graph, host read, graph, ... --> outputs

A graph has the addresses of its buffers in it.  It is kept, and used again by a call whose buffers
are where they were, which allocators see to: they hand out what they just got back.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.diagnostics import Diagnostic
from ..ir.program import AccessMode, Buffer, Program
from ..ir.types import DataType
from ..lowering.nvptx.abi import Unit, storage_buffers
from ..runtime.array_backend import Operand
from ..runtime.arrays import array_shape
from ..runtime.dispatcher import BackendError, BadLaunch, Scratch
from ..runtime.pipelines.host_runner import located
from ..runtime.pipelines.steps import Plan, Read, Step, is_given_back, steps_of
from ..runtime.pipelines.watch import Watch, label_of
from .device import Device, Record
from .device_arrays import is_aligned, made_like, producer_stream, room_like, take
from .faults import program_error, take_fault
from .graph import LaunchGraph
from .kernels import LoadedKernel, unit_of
from .libraries import library_of
from .queues import PyCudaQueue, Queue, queue_of
from .submissions import Again, Batch, Part, batches_of, parts_of
from .timing import Timer
from .transfers import from_device, to_device

if TYPE_CHECKING:
    from .dispatcher import CudaDispatcher

__all__ = ["GpuRunner"]

MAX_RECORDINGS = 4


@dataclass(slots=True)
class _Slot:
    """Where a buffer is in a run.  `result`: the array that the caller gets, if it is its own."""

    pointer: int
    owner: Any
    result: Any = None


@dataclass(slots=True)
class _Recording:
    """A plan at some addresses: the arguments of its launches, and graphs of its batches.

    A batch without a graph is launched one by one.
    """

    arguments: dict[Step, list[int]]
    records: list[tuple[Step, LoadedKernel, Record]]
    graphs: dict[Batch, LaunchGraph] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Held:
    """What a runner has on the GPU.  `last`: where its work was enqueued last."""

    device: Device
    memory: list[Any] = field(default_factory=list)
    recordings: OrderedDict[tuple[int, ...], _Recording] = field(default_factory=OrderedDict)
    last: Queue | None = None

    def wait(self, queue: Queue) -> None:
        """Until work on another queue is done: the memory here is one for all."""
        if self.last is not None and self.last.handle != queue.handle:
            self.last.wait()
        self.last = queue

    def drop(self, key: tuple[int, ...]) -> None:
        old = self.recordings.pop(key)
        for graph in old.graphs.values():
            graph.drop()
        for _, _, record in old.records:
            self.device.keep(record)

    def close(self) -> None:
        """Give all back, when the GPU has come to rest."""
        try:
            with self.device:
                self.device.cuda.Context.synchronize()
                for key in list(self.recordings):
                    self.drop(key)
                self.memory.clear()
        except (self.device.cuda.Error, BackendError):  # a broken context has nothing to give back
            self.memory.clear()


class GpuRunner:
    """Compiles all programs of a plan as one module.  Raises BadLaunch for a grid beyond the GPU.

    Runs of one runner go one after the other, since the pipeline's own buffers are its own.
    """

    def __init__(self, plan: Plan, dispatcher: CudaDispatcher) -> None:
        self.plan, self.dispatcher, self.device = plan, dispatcher, dispatcher.device
        self.parts = parts_of(plan.steps)
        self.launches = [step for step in steps_of(plan.steps) if isinstance(step, Step)]
        self.lock = Lock()
        self.held = _Held(self.device)
        with self.device:
            self.kernels = self._load()
            self._check_grids()
            self.own = {
                b.name: self._allocate(plan.size(b.name)) for b in plan.buffers.values() if _is_own(b)
            }
            self.unbound = {program: self._storage(program) for program in self.kernels}
        weakref.finalize(self, self.held.close)

    def _load(self) -> dict[Program, LoadedKernel]:
        programs = list(dict.fromkeys(step.program for step in self.launches))
        units: list[Unit] = [unit_of(program, self.plan.module, {}) for program in programs]
        return dict(zip(programs, self.dispatcher.kernels.get_all(units), strict=True))

    def _check_grids(self) -> None:
        errors = []
        for step in self.launches:
            try:
                self.kernels[step.program].check_grid(step.grid)
            except BackendError as refused:
                help = "let each workgroup do more, by a loop of stride global_size"
                errors.append(Diagnostic("error", str(refused), step.launch.loc, help=help))
        if errors:
            raise BadLaunch(errors)

    def _allocate(self, size: int) -> int:
        """Memory that the runner keeps."""
        self.held.memory.append(self.device.allocate(size))
        return int(self.held.memory[-1])

    def _storage(self, program: Program) -> dict[str, int]:
        """Memory for what a program keeps to itself."""
        unbound = [b for b in storage_buffers(program) if b.binding is None]
        return {b.name: self._allocate(b.size_bytes or 0) for b in unbound}

    def run(self, given: Mapping[str, Any], watch: Watch, scratch: Scratch) -> dict[str, Any]:
        """See `Runner`.  `given`: operands on the GPU, flat arrays in main memory, `OutputAlloc`."""
        with self.lock, self.device:
            on_gpu = any(isinstance(operand, Operand) for operand in given.values())
            session = _OnGpu(self, given, watch) if on_gpu else _FromHost(self, given, watch)
            return session.run()

    def recording(self, slots: Mapping[str, _Slot]) -> _Recording:
        """Made for these addresses, or kept."""
        key = tuple(slot.pointer for slot in slots.values())
        known = self.held.recordings
        found = known.get(key)
        if found is None:
            if len(known) >= MAX_RECORDINGS:
                if self.held.last is not None:
                    self.held.last.wait()  # its records may still be written
                self.held.drop(next(iter(known)))
            found = known[key] = self._record(slots)
        known.move_to_end(key)
        return found

    def _record(self, slots: Mapping[str, _Slot]) -> _Recording:
        made = _Recording({}, [])
        for step in self.launches:
            kernel, formals = self.kernels[step.program], step.program.bound_buffers
            bound = list(zip(formals, step.buffers, strict=True))
            pointers = {formal.name: slots[name].pointer for formal, name in bound}
            counts = {formal.name: self.plan.buffers[name].count or 0 for formal, name in bound}
            status = None
            if kernel.may_fault:
                status = self.device.record()
                made.records.append((step, kernel, status))
            pointers |= self.unbound[step.program]
            made.arguments[step] = kernel.arguments(pointers, counts, status)
        for batch in batches_of(self.parts):
            try:
                made.graphs[batch] = self._graph(batch, made)
            except BackendError as refused:
                made.notes.append(f"no CUDA graph, launches go one by one: {refused}")
        return made

    def _graph(self, batch: Batch, made: _Recording) -> LaunchGraph:
        graph = LaunchGraph(self.dispatcher)
        with graph.record() as stream:
            self.enqueue(batch, made, queue_of(self.device, stream))
        return graph

    def enqueue(self, batch: Batch, made: _Recording, queue: Queue) -> None:
        for step in batch.steps:
            self.kernels[step.program].enqueue(queue, step.grid, made.arguments[step])


class _Session(ABC):
    """One run; the context is current.  Subclasses say where arguments are and results go."""

    queue: Queue

    def __init__(self, runner: GpuRunner, given: Mapping[str, Any], watch: Watch) -> None:
        self.runner, self.plan, self.device = runner, runner.plan, runner.device
        self.given, self.watch = given, watch
        self.seen: dict[str, Any] = {}
        """What the host read of buffers that were written again."""

    def run(self) -> dict[str, Any]:
        self.runner.held.wait(self.queue)
        self.slots = {b.name: self.slot(b) for b in self.plan.buffers.values()}
        self.recording = self.runner.recording(self.slots)
        if self.watch.times is not None:
            self.watch.times.notes += self.recording.notes
        self._walk(self.runner.parts)
        outputs = {b.name: self._output(b) for b in self.plan.outputs}
        if self.must_wait() or self.recording.records:
            self.queue.wait()
            self._check_faults()
        return outputs

    @abstractmethod
    def slot(self, buffer: Buffer) -> _Slot:
        """Where a buffer is; its contents are on their way."""

    @abstractmethod
    def copy_out(self, buffer: Buffer) -> Any:
        """What a buffer holds now, in an array that is full when the queue has come so far."""

    @abstractmethod
    def must_wait(self) -> bool:
        """Whether the queue is waited for at the end, even if nothing can fault."""

    def _walk(self, parts: list[Part]) -> None:
        for part in parts:
            if isinstance(part, Batch):
                self._submit(part)
            elif isinstance(part, Again):
                for _ in range(part.times):
                    self._walk(part.parts)
            else:
                self._read(part)

    def _submit(self, batch: Batch) -> None:
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

    def _timed_one_by_one(self, batch: Batch, queue: PyCudaQueue) -> None:
        assert self.watch.times is not None
        for step in batch.steps:
            with Timer(self.device, queue.stream) as timer:
                self.runner.enqueue(Batch([step]), self.recording, queue)
            self.watch.times.add(step, label_of(step), timer.seconds(), step.launch.loc)

    def _read(self, read: Read) -> None:
        buffer = self.plan.buffers[read.buffer]
        self.seen.pop(read.buffer, None)
        again = not read.settled and not is_given_back(buffer)
        if again:
            self.seen[read.buffer] = self.copy_out(buffer)
        if self.watch.on_read is not None:
            found = self.copy_out(buffer)
            self.queue.wait()
            self._check_faults()  # before anybody sees what a launch at fault left
            self.watch.on_read(read, found)

    def _output(self, buffer: Buffer) -> Any:
        if buffer.name in self.seen:
            return self.seen[buffer.name]
        result = self.slots[buffer.name].result
        return self.copy_out(buffer) if result is None else result

    def _check_faults(self) -> None:
        """Raise the fault of the first launch that has one; the queue is done."""
        faults = [
            (step, kernel, fault)
            for step, kernel, record in self.recording.records
            if record.host[:4].any() and (fault := take_fault(record)) is not None
        ]
        if faults:
            step, kernel, fault = faults[0]
            raise located(program_error(kernel.kernel, fault), self.plan, step)


class _FromHost(_Session):
    """Arrays come from main memory and go back there."""

    def __init__(self, runner: GpuRunner, given: Mapping[str, Any], watch: Watch) -> None:
        super().__init__(runner, given, watch)
        self.queue = PyCudaQueue(self.device, self.device.stream)

    def slot(self, buffer: Buffer) -> _Slot:
        if buffer.name in self.runner.own:
            return _Slot(self.runner.own[buffer.name], None)
        memory = self.device.allocate(self.plan.size(buffer.name))
        array = self.given.get(buffer.name)
        if isinstance(array, np.ndarray):
            to_device(self.device, int(memory), array, self.device.stream)
        return _Slot(int(memory), memory)

    def copy_out(self, buffer: Buffer) -> np.ndarray:
        shape, dtype = array_shape(buffer, buffer.count or 0)
        pointer = self.slots[buffer.name].pointer
        return from_device(self.device, pointer, shape, dtype, self.device.stream)

    def must_wait(self) -> bool:
        return True


class _OnGpu(_Session):
    """Arrays are on the GPU, and results are made there, of the library of the first of them.

    What a launch writes is a copy; what none writes is used where it is.
    """

    def __init__(self, runner: GpuRunner, given: Mapping[str, Any], watch: Watch) -> None:
        super().__init__(runner, given, watch)
        first = next(name for name, operand in given.items() if isinstance(operand, Operand))
        self.leader = given[first].array
        self.held_type: DataType = self.plan.buffers[first].dtype
        self.queue = queue_of(self.device, producer_stream(self.leader))
        self.temporary: list[Any] = []
        arrays = [operand.array for operand in given.values() if isinstance(operand, Operand)]
        self.others = {producer_stream(array) for array in arrays} - {self.queue.handle}
        for handle in self.others:
            queue_of(self.device, handle).wait()

    def slot(self, buffer: Buffer) -> _Slot:
        if buffer.name in self.runner.own:
            return _Slot(self.runner.own[buffer.name], None)
        operand = self.given.get(buffer.name)
        if not isinstance(operand, Operand):
            made, pointer = self._made(buffer)
            return _Slot(pointer, made, made)
        where = f"pipeline @{self.plan.pipeline.name}: input for @{buffer.name}"
        view = take(operand.array, buffer, where, self.device.number)
        back = is_given_back(buffer)
        if not back and buffer.name not in self.plan.written and is_aligned(view):
            return _Slot(view.pointer, operand.array)
        made, pointer = made_like(operand.array, buffer, self.device)
        if view.size:
            self.queue.copy(pointer, view.pointer, view.size)
        if not back:
            self.temporary.append(made)
        return _Slot(pointer, made, made if back else None)

    def _made(self, buffer: Buffer) -> tuple[Any, int]:
        return room_like(self.leader, self.held_type, buffer, buffer.count or 0, self.device)

    def copy_out(self, buffer: Buffer) -> Any:
        made, pointer = self._made(buffer)
        if self.plan.size(buffer.name):
            self.queue.copy(pointer, self.slots[buffer.name].pointer, self.plan.size(buffer.name))
        return made

    def must_wait(self) -> bool:
        """Memory of ours, and of libraries that know no streams, is not given back while it is in use."""
        return bool(self.temporary or self.others) or not library_of(self.leader).ordered


def _is_own(buffer: Buffer) -> bool:
    """Whether a buffer is the pipeline's: neither given nor given back, host reads aside."""
    return not (buffer.access is AccessMode.READ or buffer.live_in or is_given_back(buffer))
