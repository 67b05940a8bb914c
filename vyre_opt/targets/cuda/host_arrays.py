"""Plans on a GPU for arrays in main memory: copied there before each run, and what was written copied back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...execution.plans.call_plan import CallPlan
from ...execution.plans.host_plan import array_at
from ...execution.plans.steps import HostReadStep
from ...execution.plans.watch import Watch
from ...ir.program import Buffer
from .launch_context import LaunchContext
from .transfers import copy_back, to_device
from .walk import GpuWalk

__all__ = ["UploadedPlan"]


class UploadedPlan:
    """See `vyre_opt.execution.plans.call_plan.Loaded`.  Its pointers are addresses in main memory."""

    piece_bytes, pieces = 0, ()

    def __init__(self, dispatcher: LaunchContext, call: CallPlan) -> None:
        self._walk, self._device, self._call = GpuWalk(dispatcher, call), dispatcher.device, call
        self._dispatcher = dispatcher
        buffers = call.plan.buffers
        inputs = {number: buffers[name] for name, number in call.copies.items()}
        inputs |= {number: buffers[name] for name, number in call.slots.items() if number < call.inputs}
        self._inputs = inputs
        self._results = {call.inputs + k: buffers[name] for k, name in enumerate(call.results)}
        self._written = {number: buffers[name] for number, name in call.written.items()} | self._results

    @property
    def kept_bytes(self) -> int:
        return self._walk.kept_bytes

    def run(self, stream: int, *words: int) -> int:
        return self.watched(Watch(), stream, words)

    def watched(self, watch: Watch, stream: int, words: Sequence[int]) -> int:
        device, queue = self._device, self._device.stream
        with device:
            memory = {
                number: device.allocate(self._call.plan.size(buffer.name))
                for number, buffer in {**self._inputs, **self._results}.items()
            }
            for number, buffer in self._inputs.items():
                to_device(device, int(memory[number]), array_at(words[number], buffer), queue)
        pointers = [int(memory[number]) if number in memory else word for number, word in enumerate(words)]
        self._walk.watched(self._downloading(watch), int(queue.handle), pointers)
        with device:
            copy_back(
                device,
                [(int(memory[n]), array_at(words[n], buffer)) for n, buffer in self._written.items()],
                queue,
            )
            self._dispatcher.raise_fault()
        return 0

    def explain(self, status: int) -> bool:
        raise AssertionError("copies on the GPU are aligned")

    def _downloading(self, watch: Watch) -> Watch:
        """An observer to whom arrays are on the GPU, and who hands them on in main memory."""
        if watch.on_read is None:
            return watch
        device, on_read, plan = self._device, watch.on_read, self._call.plan

        def allocate(buffer: Buffer) -> tuple[Any, int]:
            memory = device.allocate(plan.size(buffer.name))
            return memory, int(memory)

        def read(step: HostReadStep, memory: Any) -> None:
            array, address = watch.allocate(plan.buffers[step.buffer])
            copy_back(device, [(int(memory), array_at(address, plan.buffers[step.buffer]))], device.stream)
            on_read(step, array)

        return replace(watch, on_read=read, allocate=allocate)
