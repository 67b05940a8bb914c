"""Plans that need more than a list of launches on a GPU: host reads, repeats, grid barriers, prints, many launches.

    pointers of a call --> memory of each buffer --> graph, host read, graph, ...

The addresses of buffers are part of a graph.  The graphs of the latest calls are kept, and used again by a
call whose buffers have the same addresses.  That is the rule, since allocators reuse memory just freed.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import field
from threading import Lock
from typing import Any

from ...execution.dispatcher import BackendError, BadLaunch
from ...execution.plans.call_plan import CallPlan
from ...execution.plans.rounds import located
from ...execution.plans.steps import HostReadStep, LaunchStep, steps_of
from ...execution.plans.watch import Watch, label_of
from ...execution.row_major import row_major_plan
from ...ir.diagnostics import Diagnostic
from ...ir.program import Program
from ...lowering.nvptx.abi import ALIGNMENT, storage_buffers
from ...records import dataclass
from .device import Device
from .faults import FaultRecord, program_error
from .graph import LaunchGraph
from .launch_context import LaunchContext
from .loaded_kernel import LoadedKernel
from .queues import PyCudaQueue, Queue, queue_of
from .steps import UNALIGNED
from .submissions import LaunchBatch, Part, RepeatedParts, batches_of, parts_of
from .timing import Timer

__all__ = ["GpuWalk"]

MAX_RECORDINGS = 4
MIN_GRAPH = 2
"""Fewer launches are enqueued one by one: to make a graph of one takes longer than to launch it some times."""


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
    """The memory and the recordings of a plan on the GPU.  `last`: the queue of its latest run."""

    device: Device
    memory: list[Any] = field(default_factory=list)
    recordings: OrderedDict[tuple[int, ...], _Recording] = field(default_factory=OrderedDict)
    last: Queue | None = None

    def wait(self, queue: Queue) -> None:
        """Wait, before a run on a queue, for the last run if it was on another, since all runs share memory."""
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

        def drop_all() -> None:
            for key in list(self.recordings):
                self.drop(key)

        self.device.when_idle(drop_all)
        self.memory.clear()


class GpuWalk:
    """See `vyre_opt.execution.plans.call_plan.Loaded`.  Compiles all its programs as one module.

    Raises BadLaunch for a grid that is too large for the GPU.  Runs follow one another, since they share the memory
    of the plan's own buffers.
    """

    piece_bytes, pieces = 0, ()

    def __init__(self, dispatcher: LaunchContext, call: CallPlan) -> None:
        plan = self.plan = row_major_plan(call.plan)
        self.call, self.dispatcher, self.device = call, dispatcher, dispatcher.device
        self.parts = parts_of(plan.steps)
        self.launches = [step for step in steps_of(plan.steps) if isinstance(step, LaunchStep)]
        first_word = call.inputs + len(call.results)
        self._words = {name: first_word + k for k, name in enumerate(sorted(plan.pipeline.params))}
        clears_all = dispatcher.zero_memory
        self._cleared = call.zeroed | (call.unwritten if clears_all else frozenset())
        self.lock = Lock()
        self.owned = _Owned(self.device)
        with self.device:
            self.kernels = self._load()
            self._check_grids()
            self.call_storage = {name: self._allocate(plan.size(name)) for name in call.call_storage}
            self.unbound = {program: self._storage(program) for program in self.kernels}
        # bound to `owned` and not to the plan, which it would keep alive forever; at the exit the driver frees all
        weakref.finalize(self, self.owned.close).atexit = False

    @property
    def kept_bytes(self) -> int:
        unbound = sum(
            b.size_bytes or 0 for p in self.unbound for b in storage_buffers(p) if b.binding is None
        )
        return unbound + sum(self.plan.size(name) for name in self.call_storage)

    def _load(self) -> dict[Program, LoadedKernel]:
        programs = list(dict.fromkeys(step.program for step in self.launches))
        return self.dispatcher.kernels_of(programs, self.plan.module)

    def _check_grids(self) -> None:
        errors = []
        for step in self.launches:
            try:
                self.kernels[step.program].check_grid(step.grid)
            except BackendError as error:
                if step.launch is None:
                    raise
                help = "let each workgroup do more, by a loop of stride global_size"
                errors.append(Diagnostic("error", str(error), step.loc, help=help))
        if errors:
            raise BadLaunch(errors)

    def _allocate(self, size: int) -> int:
        """The pointer of new memory that lives as long as the plan."""
        self.owned.memory.append(self.device.allocate(size))
        return int(self.owned.memory[-1])

    def _storage(self, program: Program) -> dict[str, int]:
        """Memory for a program's unbound buffers, by name."""
        unbound = [b for b in storage_buffers(program) if b.binding is None]
        return {b.name: self._allocate(b.size_bytes or 0) for b in unbound}

    def run(self, stream: int, *words: int) -> int:
        return self.watched(Watch(), stream, words)

    def watched(self, watch: Watch, stream: int, words: Sequence[int]) -> int:
        if any(pointer % ALIGNMENT for pointer in words[: self.call.inputs + len(self.call.results)]):
            return UNALIGNED
        with self.lock, self.device:
            self.dispatcher.raise_fault()
            queue = queue_of(self.device, stream)
            self.owned.wait(queue)
            _PlanRun(self, watch, queue, words).run()
        return 0

    def explain(self, status: int) -> bool:
        return True

    def params(self, words: Sequence[int]) -> dict[str, int]:
        """The words of the plan's runtime scalars."""
        return {name: words[number] for name, number in self._words.items()}

    def begin(self, pointers: Mapping[str, int], words: Sequence[int], queue: Queue) -> None:
        """Enqueue what gives buffers the contents that they begin with."""
        for name, number in self.call.copies.items():
            if self.plan.size(name):
                queue.copy(pointers[name], words[number], self.plan.size(name))
        for name in self._cleared:
            if self.plan.size(name):
                queue.zero(pointers[name], self.plan.size(name))

    def recording(self, pointers: Mapping[str, int], params: Mapping[str, int]) -> _Recording:
        """The recording for these addresses and words of runtime scalars, from an earlier run if possible."""
        key = (*pointers.values(), *params.values())
        cached = self.owned.recordings
        recording = cached.get(key)
        if recording is None:
            if len(cached) >= MAX_RECORDINGS:
                # the fault records of the one to drop may still be written
                self.device.wait()
                self.dispatcher.raise_fault()
                self.owned.drop(next(iter(cached)))
            recording = cached[key] = self._record(pointers, params)
        cached.move_to_end(key)
        return recording

    def _record(self, pointers: Mapping[str, int], params: Mapping[str, int]) -> _Recording:
        recording = _Recording({}, [])
        for step in self.launches:
            kernel, formals = self.kernels[step.program], step.program.bound_buffers
            bound = list(zip(formals, step.buffers, strict=True))
            addresses = {formal.name: pointers[name] for formal, name in bound} | self.unbound[step.program]
            counts = {formal.name: self.plan.buffers[name].count or 0 for formal, name in bound}
            status = None
            if kernel.may_fault:
                # one for each launch, to tell its fault from those of the kernel's other launches
                status = self._fault_record(step, kernel)
                recording.records.append(status)
            words = dict(zip(sorted(kernel.kernel.program.params), step.words(params), strict=True))
            recording.arguments[step] = kernel.arguments(addresses, counts, words, status)
        for batch in batches_of(self.parts):
            if len(batch.steps) < MIN_GRAPH:
                continue
            try:
                recording.graphs[batch] = self._graph(batch, recording)
            except BackendError as error:
                recording.notes.append(f"no CUDA graph, launches go one by one: {error}")
        return recording

    def _fault_record(self, step: LaunchStep, kernel: LoadedKernel) -> FaultRecord:
        plan = self.plan  # and not the walk, which the record would keep alive
        return self.device.faults.new(
            lambda fault: located(program_error(kernel.kernel, fault, step), plan, step)
        )

    def _graph(self, batch: LaunchBatch, recording: _Recording) -> LaunchGraph:
        graph = LaunchGraph(self.dispatcher)
        with self.device.undisturbed, graph.record() as stream:
            self.enqueue(batch.steps, recording, queue_of(self.device, stream))
        return graph

    def enqueue(self, steps: Sequence[LaunchStep], recording: _Recording, queue: Queue) -> None:
        for step in steps:
            if self.dispatcher.zero_memory:
                for name, pointer in self.unbound[step.program].items():
                    queue.zero(pointer, step.program.buffers[name].size_bytes or 0)
            self.kernels[step.program].enqueue(queue, step.grid, recording.arguments[step])


class _PlanRun:
    """One run of a plan; the context is current."""

    def __init__(self, walk: GpuWalk, watch: Watch, queue: Queue, words: Sequence[int]) -> None:
        self.walk, self.watch, self.queue, self.words = walk, watch, queue, words
        addresses = walk.call.slots
        self.pointers = {
            name: walk.call_storage[name] if name in walk.call_storage else words[addresses[name]]
            for name in walk.plan.buffers
        }

    def run(self) -> None:
        walk, dispatcher = self.walk, self.walk.dispatcher
        walk.begin(self.pointers, self.words, self.queue)
        self.recording = walk.recording(self.pointers, walk.params(self.words))
        if self.watch.times is not None:
            self.watch.times.notes += self.recording.notes
        self._walk(walk.parts)
        if dispatcher.check == "now" and self.recording.records:
            self.queue.wait()
            dispatcher.raise_fault()

    def _walk(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if isinstance(part, LaunchBatch):
                self._submit(part)
            elif isinstance(part, RepeatedParts):
                for _ in range(part.times):
                    self._walk(part.parts)
            else:
                self._read(part)

    def _submit(self, batch: LaunchBatch) -> None:
        graph, times = self.recording.graphs.get(batch), self.watch.times
        if times is not None and self.watch.apart:
            graph = None
        if times is None or not isinstance(self.queue, PyCudaQueue):
            if graph is None:
                self.walk.enqueue(batch.steps, self.recording, self.queue)
            else:
                graph.replay(self.queue.handle)
        elif graph is None:
            for step in batch.steps:
                with Timer(self.walk.device, self.queue.stream) as timer:
                    self.walk.enqueue([step], self.recording, self.queue)
                times.add(step, label_of(step), timer.seconds(), (step,))
        else:
            with Timer(self.walk.device, self.queue.stream) as timer:
                graph.replay(self.queue.stream)
            what = f"a graph of {len(batch.steps)} launches"
            times.add(batch, what, timer.seconds(), batch.steps)

    def _read(self, read: HostReadStep) -> None:
        walk, name = self.walk, read.buffer
        source, size, number = self.pointers[name], walk.plan.size(name), walk.call.reads.get(name)
        if number is not None and size:
            self.queue.copy(self.words[number], source, size)
        if self.watch.on_read is not None:
            contents, pointer = self.watch.allocate(walk.plan.buffers[name])
            if size:
                self.queue.copy(pointer, source, size)
            self.queue.wait()
            walk.dispatcher.raise_fault()  # first, so that nobody sees the contents that a fault left
            self.watch.on_read(read, contents)
