"""Runs plans in main memory: each buffer is one array, on which all launches work in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.diagnostics import Diagnostic
from ...ir.program import AccessMode, Buffer, Dim3, Module, Program
from ..arrays import storage_type
from ..dispatcher import BackendError, ProgramError, Scratch
from ..inputs import Empty
from .steps import AnyStep, Plan, Read, Step, is_given_back, steps_of
from .watch import Watch

__all__ = ["HostRunner", "Memory", "located"]


@dataclass(slots=True)
class Memory:
    """A buffer between launches.

    `array`: flat over scalars.  `written`: a bool for each scalar, whether it holds a value; None
    where all do, or nobody asks.
    """

    array: np.ndarray
    written: np.ndarray | None = None


Rounds = tuple[tuple[int, int], ...]
"""Which round of how many, of the repeats around a step, from the outermost in."""

InPlace = Callable[[Program, Mapping[str, Memory], Dim3, Module, Scratch], Callable[[], None]]
"""(program, its bound buffers by name, grid, module, storage for the others) -> what runs it once.

All is checked and compiled before; a run works on the memory itself, and raises ProgramError.
"""


class HostRunner:
    """`in_place`: the target's launches.

    `empty`: makes memory that holds anything.  `tracked`: whether `Memory.written` is kept.
    `poison`: whether what holds nothing yet is filled with bytes of 1, so that nobody takes it for
    zero.
    """

    def __init__(
        self,
        plan: Plan,
        in_place: InPlace,
        *,
        empty: Empty = np.empty,
        tracked: bool = False,
        poison: bool = False,
    ) -> None:
        self.plan = plan
        self.in_place = in_place
        self.empty = empty
        self.tracked = tracked
        self.poison = poison

    def run(self, given: Mapping[str, Any], watch: Watch, scratch: Scratch) -> dict[str, np.ndarray]:
        """The outputs by name, of shape (count,) or (count, lanes), none of them the caller's own.

        `given`: for each buffer that takes one a flat array, which is not changed, or `OutputAlloc`.
        """
        return _Session(self, given, watch, scratch).outputs()


class _Session:
    """One run."""

    def __init__(self, runner: HostRunner, given: Mapping[str, Any], watch: Watch, scratch: Scratch) -> None:
        self.runner, self.plan, self.watch = runner, runner.plan, watch
        self.given = given
        self.kept: dict[str, np.ndarray] = {}
        """What the host read of buffers that were written again."""
        try:
            self.memory = {
                name: self._memory(buffer, given.get(name), scratch)
                for name, buffer in self.plan.buffers.items()
            }
        except (MemoryError, ValueError) as short:  # ValueError: beyond the address space
            raise BackendError(f"pipeline @{self.plan.pipeline.name}: not enough memory: {short}") from None
        self.launches = self._launches()

    def _memory(self, buffer: Buffer, given: Any, scratch: Scratch) -> Memory:
        """Storage for a buffer: the caller's own where no launch writes it."""
        holds = isinstance(given, np.ndarray)
        if not holds:
            array = self._room(buffer, None if is_given_back(buffer) else scratch)
        elif buffer.name in self.plan.written or not given.flags.aligned:
            array = given.copy()
        else:
            array = given
        starts_written = buffer.access is AccessMode.READ or buffer.live_in
        tracks = self.runner.tracked and not starts_written
        return Memory(array, np.zeros(len(array), np.bool_) if tracks else None)

    def _room(self, buffer: Buffer, scratch: Scratch | None) -> np.ndarray:
        """Storage that holds nothing yet, kept in `scratch` where there is one."""
        stored = storage_type(buffer.dtype)
        assert stored is not None
        scalars = (buffer.count or 0) * buffer.dtype.lanes
        made = None if scratch is None else scratch.storage.get(buffer.name)
        if not isinstance(made, np.ndarray) or len(made) != scalars or made.dtype != stored:
            make = (
                np.zeros if stored == np.bool_ else self.runner.empty
            )  # other bytes than 0 and 1 are no bool
            made = make(scalars, stored)
            if scratch is not None:
                scratch.storage[buffer.name] = made
        if self.runner.poison:
            made.view(np.uint8).fill(1)
        return made

    def _launches(self) -> dict[Step, Callable[[], None]]:
        made: dict[Step, Callable[[], None]] = {}
        own: dict[Program, Scratch] = {}
        for step in steps_of(self.plan.steps):
            if isinstance(step, Step):
                formals = step.program.bound_buffers
                memory = {f.name: self.memory[name] for f, name in zip(formals, step.buffers, strict=True)}
                scratch = own.setdefault(step.program, Scratch())
                made[step] = self.runner.in_place(step.program, memory, step.grid, self.plan.module, scratch)
        return made

    def outputs(self) -> dict[str, np.ndarray]:
        self._walk(self.plan.steps, ())
        found = {}
        for buffer in self.plan.outputs:
            array = self.memory[buffer.name].array
            if buffer.name in self.kept:
                found[buffer.name] = self.kept[buffer.name]
            else:
                own = is_given_back(buffer) and array is not self.given.get(buffer.name)
                found[buffer.name] = _shaped(buffer, array if own else array.copy())
        return found

    def _walk(self, steps: list[AnyStep], rounds: Rounds) -> None:
        for step in steps:
            if isinstance(step, Step):
                with self.watch.lap(step):
                    try:
                        self.launches[step]()
                    except ProgramError as fault:
                        raise located(fault, self.plan, step, rounds) from None
            elif isinstance(step, Read):
                self._check_written(step, rounds)
                self._read(step)
            else:
                for number in range(step.times):
                    self._walk(step.steps, (*rounds, (number + 1, step.times)))

    def _check_written(self, read: Read, rounds: Rounds) -> None:
        """Raises ProgramError for elements that the host reads and no launch has written."""
        written = self.memory[read.buffer].written
        if written is None or written.all():
            return
        buffer = self.plan.buffers[read.buffer]
        at = int(np.argmin(written)) // buffer.dtype.lanes
        missing = len(written) - np.count_nonzero(written)
        message = (
            f"pipeline @{self.plan.pipeline.name}: host_read of @{buffer.name}, index {at}, length {buffer.count}, "
            f"which nothing has written{_in_round(rounds)} ({missing // buffer.dtype.lanes} such elements in all)"
        )
        help = "write every element before the host reads the buffer, or declare it live_in"
        found = Diagnostic("error", message, read.stage.loc, help=help)
        raise ProgramError("uninitialised", found.note(f"@{buffer.name} is declared here", buffer.loc))

    def _read(self, read: Read) -> None:
        buffer = self.plan.buffers[read.buffer]
        self.kept.pop(read.buffer, None)
        again = not read.settled and not is_given_back(buffer)
        if self.watch.on_read is None and not again:
            return
        seen = _shaped(buffer, self.memory[read.buffer].array.copy())
        if again:
            self.kept[read.buffer] = seen
        if self.watch.on_read is not None:
            self.watch.on_read(read, seen.copy() if again else seen)


def located(fault: ProgramError, plan: Plan, step: Step, rounds: Rounds = ()) -> ProgramError:
    """A fault of a program, with the launch at which it happened.

    `rounds`: which one of how many, of the repeats around it.
    """
    where = f"launched here by pipeline @{plan.pipeline.name}{_in_round(rounds)}"
    fault.diagnostic.note(where, step.launch.loc)
    return fault


def _in_round(rounds: Rounds) -> str:
    return "".join(f", round {number} of {times}" for number, times in rounds)


def _shaped(buffer: Buffer, array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, buffer.dtype.lanes) if buffer.dtype.is_vec else array
