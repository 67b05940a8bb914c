"""Runs plans in main memory: each buffer is an array, and all launches work on it in place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ...ir.diagnostics import Diagnostic, spelling_at
from ...ir.program import AccessMode, Buffer, Dim3, Module, Program
from ..arrays import fits_buffer, new_storage
from ..dispatcher import BackendError, ProgramError, Scratch
from ..faults import place_in
from ..inputs import Empty
from ..params import NO_PARAMS, Words
from ..shapes import array_of, place_of
from .steps import AnyStep, HostReadStep, LaunchStep, PipelinePlan, is_returned, steps_of
from .watch import Watch

__all__ = ["HostRunner", "HostMemory", "Rounds", "located"]


@dataclass(slots=True)
class HostMemory:
    """The storage of a pipeline's buffer.

    `array`: flat over scalars.  `written`: for each scalar, whether it is initialised; None if all
    are, or if that is not tracked.  `shape`: the extents; empty for one dimension.
    """

    array: np.ndarray
    written: np.ndarray | None = None
    shape: tuple[int, ...] = ()


Rounds = tuple[tuple[int, int], ...]
"""(round, number of rounds) of each repeat around a step, from the outermost in; rounds count from 1."""

InPlace = Callable[[Program, Mapping[str, HostMemory], Dim3, Module, Scratch, Words], Callable[[], None]]
"""(program, its bound buffers by name, grid, module, storage for the others, words of its runtime scalars) -> a function
that runs it once.

Everything is checked and compiled before it returns.  A run works on the memory itself, and raises ProgramError.
"""


@dataclass(slots=True, eq=False)
class HostRunner:
    """Runs a plan, any number of times.

    `in_place`: how the target launches a program.  `empty`: allocates uninitialised memory.
    `tracked`: whether to keep `HostMemory.written`.  `filled`: the buffers that begin as bytes of `fill`, where
    they have no contents of the caller; the others are uninitialised.
    """

    plan: PipelinePlan
    in_place: InPlace
    _: KW_ONLY
    empty: Empty = np.empty
    tracked: bool = False
    filled: Collection[str] = ()
    fill: int = 0

    def run(
        self, inputs: Mapping[str, Any], watch: Watch, scratch: Scratch, params: Mapping[str, int] = NO_PARAMS
    ) -> dict[str, np.ndarray]:
        """The outputs by name, of shape (count,) or (count, lanes); none is an array of the caller.

        `inputs`: for each buffer that takes an input a flat array, which is not changed, or `OutputAlloc`.
        `params`: the words of the pipeline's runtime scalars, by name.
        """
        return _HostRun(self, inputs, watch, scratch, params).outputs()

    def run_in_place(self, inputs: Mapping[str, Any], params: Mapping[str, int] = NO_PARAMS) -> None:
        """`run` on the arrays themselves, flat and aligned, which may be written."""
        _HostRun(self, inputs, Watch(), Scratch(), params, in_place=True).walk()


class _HostRun:
    """One run of a plan.

    `read_copies`: what the host read of buffers that later steps write again, by name.
    """

    def __init__(
        self,
        runner: HostRunner,
        inputs: Mapping[str, Any],
        watch: Watch,
        scratch: Scratch,
        params: Mapping[str, int],
        in_place: bool = False,
    ) -> None:
        self.in_place = in_place
        self.runner, self.plan, self.watch, self.params = runner, runner.plan, watch, params
        self.inputs = inputs
        self.read_copies: dict[str, np.ndarray] = {}
        try:
            self.memory = {
                name: self._memory(buffer, inputs.get(name), scratch)
                for name, buffer in self.plan.buffers.items()
            }
        except (MemoryError, ValueError) as error:  # ValueError: beyond the address space
            raise BackendError(f"pipeline @{self.plan.pipeline.name}: not enough memory: {error}") from None
        self.launches = self._prepared_launches()

    def _memory(self, buffer: Buffer, value: Any, scratch: Scratch) -> HostMemory:
        """Storage for a buffer: the caller's own array if no launch writes it."""
        if not isinstance(value, np.ndarray):
            array = self._allocate(buffer, None if is_returned(buffer) else scratch)
        elif not self.in_place and (buffer.name in self.plan.written or not value.flags.aligned):
            array = value.copy()
        else:
            array = value
        is_initialised = buffer.access is AccessMode.READ or buffer.live_in
        tracks = self.runner.tracked and not is_initialised
        shape = tuple(extent or 0 for extent in buffer.shape) if buffer.dimensions > 1 else ()
        return HostMemory(array, np.zeros(len(array), np.bool_) if tracks else None, shape)

    def _allocate(self, buffer: Buffer, scratch: Scratch | None) -> np.ndarray:
        """Storage, kept in `scratch` if there is one."""
        array = None if scratch is None else scratch.storage.get(buffer.name)
        if not isinstance(array, np.ndarray) or not fits_buffer(array, buffer):
            array = new_storage(buffer, self.runner.empty)
            if scratch is not None:
                scratch.storage[buffer.name] = array
        if buffer.name in self.runner.filled:
            array.view(np.uint8).fill(self.runner.fill)
        return array

    def _prepared_launches(self) -> dict[LaunchStep, Callable[[], None]]:
        launches: dict[LaunchStep, Callable[[], None]] = {}
        scratches: dict[Program, Scratch] = {}
        for step in steps_of(self.plan.steps):
            if isinstance(step, LaunchStep):
                formals = step.program.bound_buffers
                memory = {f.name: self.memory[name] for f, name in zip(formals, step.buffers, strict=True)}
                scratch = scratches.setdefault(step.program, Scratch())
                launches[step] = self.runner.in_place(
                    step.program, memory, step.grid, self.plan.module, scratch, step.words(self.params)
                )
        return launches

    def walk(self) -> None:
        """Run all steps."""
        self._walk(self.plan.steps, ())

    def outputs(self) -> dict[str, np.ndarray]:
        self.walk()
        return {buffer.name: self._output(buffer) for buffer in self.plan.outputs}

    def _output(self, buffer: Buffer) -> np.ndarray:
        if buffer.name in self.read_copies:
            return self.read_copies[buffer.name]
        array = self.memory[buffer.name].array
        # neither the caller's array nor one that stays in the scratch may be handed out
        is_new = is_returned(buffer) and array is not self.inputs.get(buffer.name)
        return _shaped(buffer, array if is_new else array.copy())

    def _walk(self, steps: list[AnyStep], rounds: Rounds) -> None:
        for step in steps:
            if isinstance(step, LaunchStep):
                with self.watch.lap(step):
                    try:
                        self.launches[step]()
                    except ProgramError as fault:
                        raise located(fault, self.plan, step, rounds) from None
            elif isinstance(step, HostReadStep):
                self._check_written(step, rounds)
                self._read(step)
            else:
                for number in range(step.times):
                    self._walk(step.steps, (*rounds, (number + 1, step.times)))

    def _check_written(self, read: HostReadStep, rounds: Rounds) -> None:
        """Raises ProgramError for elements that the host reads and no launch has written."""
        written = self.memory[read.buffer].written
        if written is None or written.all():
            return
        buffer = self.plan.buffers[read.buffer]
        at = int(np.argmin(written)) // buffer.dtype.lanes
        missing = len(written) - np.count_nonzero(written)
        message = (
            f"pipeline @{self.plan.pipeline.name}: host_read of @{buffer.name}, {_place(buffer, at)}, "
            f"which nothing has written{_in_round(rounds)} ({missing // buffer.dtype.lanes} such elements in all)"
        )
        input = spelling_at(read.stage.loc).input(buffer.name)
        help = f"write every element before the host reads the buffer, or {input}"
        diagnostic = Diagnostic("error", message, read.stage.loc, help=help)
        raise ProgramError("uninitialised", diagnostic.note(f"@{buffer.name} is declared here", buffer.loc))

    def _read(self, read: HostReadStep) -> None:
        buffer = self.plan.buffers[read.buffer]
        self.read_copies.pop(read.buffer, None)
        is_overwritten = not read.settled and not is_returned(buffer)
        if self.watch.on_read is None and not is_overwritten:
            return
        contents = _shaped(buffer, self.memory[read.buffer].array.copy())
        if is_overwritten:
            self.read_copies[read.buffer] = contents
        if self.watch.on_read is not None:
            self.watch.on_read(read, contents.copy() if is_overwritten else contents)


def located(fault: ProgramError, plan: PipelinePlan, step: LaunchStep, rounds: Rounds = ()) -> ProgramError:
    """The fault, with a note that says which launch it happened in."""
    where = f"launched here by pipeline @{plan.pipeline.name}{_in_round(rounds)}"
    fault.diagnostic.note(where, step.launch.loc)
    return fault


def _in_round(rounds: Rounds) -> str:
    return "".join(f", round {number} of {times}" for number, times in rounds)


def _place(buffer: Buffer, element: int) -> str:
    shape = tuple(extent or 0 for extent in buffer.shape)
    return place_in(place_of(element, shape), shape)


def _shaped(buffer: Buffer, array: np.ndarray) -> np.ndarray:
    if buffer.dimensions > 1:
        return array.reshape(array_of(buffer, tuple(extent or 0 for extent in buffer.shape)))
    return array.reshape(-1, buffer.dtype.lanes) if buffer.dtype.is_vec else array
