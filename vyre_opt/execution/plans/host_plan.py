"""Plans in main memory, launch by launch: each buffer is an array, and all launches work on it in place.

The interpreter runs plans so, and the spot checks of `vyre-run --check`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...ir.diagnostics import Diagnostic, spelling_at
from ...ir.program import AccessMode, Buffer, Dim3, Module, Program
from ...records import dataclass
from ...worker import import_module
from ..arrays import POISON, new_storage, storage_type
from ..dispatcher import BackendError, ProgramError, Scratch
from ..faults import place_in
from ..params import Words
from ..shapes import unravel_index
from .call_plan import CallPlan
from .rounds import Rounds, in_round, located
from .steps import AnyStep, HostReadStep, LaunchStep, steps_of
from .watch import Watch

__all__ = ["HostMemory", "HostPlan", "array_at"]


@dataclass(slots=True)
class HostMemory:
    """The storage of a pipeline's buffer.

    `array`: flat over scalars.  `written`: for each scalar, whether it is initialised; None if all
    are, or if that is not tracked.  `shape`: the extents; empty for one dimension.
    """

    array: np.ndarray
    written: np.ndarray | None = None
    shape: tuple[int, ...] = ()


InPlace = Callable[[Program, Mapping[str, HostMemory], Dim3, Module, Scratch, Words], Callable[[], None]]
"""(program, its bound buffers by name, grid, module, storage for the others, words of its runtime scalars) -> a function
that runs it once.

Everything is checked and compiled before it returns.  A run works on the memory itself, and raises ProgramError.
"""


class HostPlan:
    """See `vyre_opt.execution.plans.call_plan.Loaded`.

    `in_place`: how the target launches a program.  `tracked`: whether to keep `HostMemory.written`.
    Memory without contents of the caller holds POISON at the start.
    """

    piece_bytes, pieces, kept_bytes = 0, (), 0

    def __init__(self, call: CallPlan, in_place: InPlace, tracked: bool) -> None:
        self.call, self.plan, self.in_place, self.tracked = call, call.plan, in_place, tracked
        first_word = call.inputs + len(call.results)
        self._words = {name: first_word + k for k, name in enumerate(sorted(self.plan.pipeline.params))}

    def run(self, stream: int, *words: int) -> int:
        return self.watched(Watch(), stream, words)

    def watched(self, watch: Watch, stream: int, words: Sequence[int]) -> int:
        _HostRun(self, watch, words).walk(self.plan.steps, ())
        return 0

    def explain(self, status: int) -> bool:
        raise AssertionError("a run in main memory has no status")

    def memory(self, buffer: Buffer, words: Sequence[int]) -> HostMemory:
        """Storage for a buffer, with the contents that it begins with."""
        call, name = self.call, buffer.name
        slot, source = call.slots.get(name), call.copies.get(name)
        array = new_storage(buffer, np.empty) if slot is None else array_at(words[slot], buffer)
        is_passed = slot is not None and slot < call.inputs
        if source is not None:
            array[:] = array_at(words[source], buffer)
        elif not is_passed:
            array.view(np.uint8).fill(0 if name in call.zeroed else POISON)
        is_initialised = buffer.access is AccessMode.READ or buffer.live_in or name in call.zeroed
        is_tracked = self.tracked and not is_initialised
        shape = tuple(extent or 0 for extent in buffer.shape) if buffer.dimensions > 1 else ()
        return HostMemory(array, np.zeros(len(array), np.bool_) if is_tracked else None, shape)

    def params(self, words: Sequence[int]) -> dict[str, int]:
        """The words of the pipeline's runtime scalars."""
        return {name: words[number] for name, number in self._words.items()}


def array_at(address: int, buffer: Buffer) -> np.ndarray:
    """The memory of a buffer of known extents at an address, flat over scalars; it must outlive the array."""
    stored = storage_type(buffer.dtype)
    assert stored is not None
    scalars = (buffer.count or 0) * buffer.dtype.lanes
    if not scalars:
        return np.empty(0, stored)
    memory = (ctypes.c_uint8 * (scalars * stored.itemsize)).from_address(address)
    import_module("numpy.ctypeslib")
    array: np.ndarray = np.ctypeslib.as_array(memory).view(stored)
    return array


class _HostRun:
    """One run of a plan."""

    def __init__(self, owner: HostPlan, watch: Watch, words: Sequence[int]) -> None:
        self.owner, self.plan, self.watch, self.words = owner, owner.plan, watch, words
        try:
            self.memory = {name: owner.memory(buffer, words) for name, buffer in self.plan.buffers.items()}
        except (MemoryError, ValueError) as error:  # ValueError: beyond the address space
            raise BackendError(f"{self.plan.title}: not enough memory: {error}") from None
        self.launches = self._prepared(owner.params(words))

    def _prepared(self, params: Mapping[str, int]) -> dict[LaunchStep, Callable[[], None]]:
        launches: dict[LaunchStep, Callable[[], None]] = {}
        scratches: dict[Program, Scratch] = {}
        for step in steps_of(self.plan.steps):
            if isinstance(step, LaunchStep):
                formals = step.program.bound_buffers
                memory = {f.name: self.memory[name] for f, name in zip(formals, step.buffers, strict=True)}
                scratch = scratches.setdefault(step.program, Scratch())
                launches[step] = self.owner.in_place(
                    step.program, memory, step.grid, self.plan.module, scratch, step.words(params)
                )
        return launches

    def walk(self, steps: list[AnyStep], rounds: Rounds) -> None:
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
                    self.walk(step.steps, (*rounds, (number + 1, step.times)))

    def _check_written(self, read: HostReadStep, rounds: Rounds) -> None:
        """Raises ProgramError for elements that the host reads and no launch has written."""
        written = self.memory[read.buffer].written
        if written is None or written.all():
            return
        buffer = self.plan.buffers[read.buffer]
        at = int(np.argmin(written)) // buffer.dtype.lanes
        missing = len(written) - np.count_nonzero(written)
        message = (
            f"{self.plan.title}: host_read of @{buffer.name}, {_place(buffer, at)}, "
            f"which nothing has written{in_round(rounds)} ({missing // buffer.dtype.lanes} such elements in all)"
        )
        input = spelling_at(read.stage.loc).input(buffer.name, "live_in")
        help = f"write every element before the host reads the buffer, or {input}"
        diagnostic = Diagnostic("error", message, read.stage.loc, help=help)
        raise ProgramError("uninitialised", diagnostic.note(f"@{buffer.name} is declared here", buffer.loc))

    def _read(self, read: HostReadStep) -> None:
        buffer, number = self.plan.buffers[read.buffer], self.owner.call.reads.get(read.buffer)
        contents = self.memory[read.buffer].array
        if number is not None:
            array_at(self.words[number], buffer)[:] = contents
        if self.watch.on_read is not None:
            array, address = self.watch.allocate(buffer)
            array_at(address, buffer)[:] = contents
            self.watch.on_read(read, array)


def _place(buffer: Buffer, element: int) -> str:
    shape = tuple(extent or 0 for extent in buffer.shape)
    return place_in(unravel_index(element, shape), shape)
