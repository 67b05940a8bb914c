"""vyre-run --check: each launch on the target, and some of its workgroups on the interpreter beside it.

    memory before a launch --+-- the target runs all workgroups ----------- memory after it
                             |                                                |  compared where the
                             '-- the interpreter runs a sample of them -------'  sample wrote

The interpreter reports races, reads of what nobody wrote and accesses out of bounds; each launch starts
from what the target made of those before, so that a difference is found at the launch that makes it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.program import Dim3, Module, Program
from ..runtime.dispatcher import Dispatcher, Scratch
from ..runtime.inputs import check_call
from ..runtime.pipelines.host import HostRunner, Memory
from ..runtime.ref import RefDispatcher
from . import run_report
from .conduct import ToolError

if TYPE_CHECKING:
    from ..runtime.pipelines.plan import Plan

__all__ = ["SpotCheck"]

SAMPLE = 64
"""Workgroups of a launch that the interpreter runs."""
EDGE = 8
"""Of these, so many at either end of the grid."""
MAX_WHOLE = 1 << 20
"""Invocations of a launch that is checked as a whole, since its workgroups exchange values."""

APPROXIMATE = {"f64": 1e-12, "f32": 1e-5, "f16": 1e-2, "bf16": 5e-2}
"""How far two targets may be apart where an op is approximate, as a part of the largest value."""


class SpotCheck:
    """A dispatcher that dispatches to `target` and checks what it does.

    `tolerance`: relative error that is allowed for floats.  `checked`: what was run, in words.
    Raises ProgramError for a fault that the interpreter finds, and ToolError for outputs that differ.
    """

    def __init__(self, target: Dispatcher, tolerance: float) -> None:
        self.target = target
        self.name = target.name
        self.tolerance = tolerance
        self.checked: dict[str, None] = {}
        self.is_approximate = False
        self._ref = RefDispatcher()

    @property
    def facts(self) -> Any:
        """Of a GPU: what schedules are chosen for."""
        return getattr(self.target, "facts", None)

    def dispatch(
        self,
        program: Program,
        inputs: Sequence[Any],
        grid: int | Sequence[int] | None = None,
        *,
        module: Module | None = None,
        specs: Mapping[str, Any] | None = None,
        scratch: Scratch | None = None,
    ) -> list[np.ndarray]:
        """See `Dispatcher.dispatch`."""
        call = check_call(program, inputs, grid, module, specs)
        memory = {}
        for buffer in program.bound_buffers:
            array = call.arrays[buffer.name].copy()
            memory[buffer.name] = Memory(array, None)
        self.in_place(program, memory, call.grid, module or Module(), scratch or Scratch())()
        outputs = []
        for buffer in program.bound_buffers:
            if buffer.is_output:
                array = memory[buffer.name].array
                outputs.append(array.reshape(-1, buffer.dtype.lanes) if buffer.dtype.is_vec else array)
        return outputs

    def pipeline(self, plan: Plan) -> HostRunner:
        """What runs a pipeline, launch by launch."""
        return HostRunner(plan, self.in_place, tracked=True, poison=True)

    def in_place(
        self, program: Program, memory: Mapping[str, Memory], grid: Dim3, module: Module, scratch: Scratch
    ) -> Callable[[], None]:
        """See `HostRunner`."""

        workgroups = _sample(program, grid)

        def run() -> None:
            before = {name: _copy(held) for name, held in memory.items()}
            self._launch(program, memory, grid, module)
            total = grid[0] * grid[1] * grid[2]
            count = sum(map(len, workgroups))
            self._note(program, count, total)
            unsettled = before if count == total else {name: _copy(held) for name, held in before.items()}
            written: Mapping[str, np.ndarray] = {}
            if count:
                written = self._ref.sample(program, before, grid, module, workgroups)
                self._compare(program, before, memory, written)
            if count < total and any(held.written is not None for held in memory.values()):
                written = self._written(program, unsettled, memory, grid, module)
            for buffer in program.bound_buffers:
                held = memory[buffer.name]
                if held.written is not None and buffer.is_transient:
                    held.written[:] = False
                elif held.written is not None and buffer.name in written:
                    held.written |= written[buffer.name]

        return run

    def _launch(self, program: Program, memory: Mapping[str, Memory], grid: Dim3, module: Module) -> None:
        """All workgroups, on the target."""
        arguments = [memory[b.name].array for b in program.bound_buffers]
        outputs = iter(self.target.dispatch(program, arguments, grid, module=module))
        for buffer in program.bound_buffers:
            if buffer.is_output:
                memory[buffer.name].array[:] = next(outputs).reshape(-1)

    def _note(self, program: Program, count: int, total: int) -> None:
        what = f"all {total}" if count == total else f"{count} of {total}" if count else f"none of {total}"
        why = "" if count else " (they exchange values, and are too many to run them all)"
        self.checked[f"@{program.name} {what} workgroups{why}"] = None

    def _written(
        self,
        program: Program,
        before: dict[str, Memory],
        after: Mapping[str, Memory],
        grid: Dim3,
        module: Module,
    ) -> dict[str, np.ndarray]:
        """What a launch wrote of what held nothing: there the target makes the same of other bytes."""
        held_before = {name: _copy(held) for name, held in before.items()}
        for held in before.values():
            if held.written is not None:
                flat = held.array.view(np.uint8).reshape(len(held.array), -1)
                flat[~held.written] ^= 1
        self._launch(program, before, grid, module)
        found = {}
        for buffer in program.bound_buffers:
            old, again, now = held_before[buffer.name], before[buffer.name], after[buffer.name]
            if old.written is not None and buffer.is_output:
                kept = _same(now.array, old.array) & ~_same(again.array, now.array)
                found[buffer.name] = ~kept
        return found

    def _compare(
        self,
        program: Program,
        before: Mapping[str, Memory],
        after: Mapping[str, Memory],
        written: Mapping[str, np.ndarray],
    ) -> None:
        approximate = any(op.definition.ulp for op in program.walk())
        self.is_approximate |= approximate
        for buffer in program.bound_buffers:
            mask = written.get(buffer.name)
            if mask is None or not buffer.is_output:
                continue
            got = after[buffer.name].array
            wanted = np.where(mask, before[buffer.name].array, got)
            if approximate and not self.tolerance:
                wanted = _near(got, wanted, buffer.dtype.element.name)
            try:
                run_report.compare([buffer], [got], [wanted], self.tolerance, ("on the target", "on ref"))
            except ToolError as differs:
                raise ToolError(f"program @{program.name}: {differs}") from None


def _copy(held: Memory) -> Memory:
    return Memory(held.array.copy(), None if held.written is None else held.written.copy())


def _near(got: np.ndarray, wanted: np.ndarray, name: str) -> np.ndarray:
    """`wanted`, with what is near enough to it in its place."""
    share = APPROXIMATE.get(name)
    if share is None:
        return wanted
    a, b = run_report.as_float(got, name), run_report.as_float(wanted, name)
    finite = np.abs(b[np.isfinite(b)])
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= share * (finite.max() if finite.size else 0.0)
    return np.where(near, got, wanted)


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where the bytes of two arrays are equal."""
    equal: np.ndarray = (a.view(np.uint8) == b.view(np.uint8)).reshape(len(a), -1).all(axis=1)
    return equal


def _sample(program: Program, grid: Dim3) -> list[range]:
    """The workgroups to run: both ends of the grid, and neighbours from anywhere between."""
    total = grid[0] * grid[1] * grid[2]
    if total <= SAMPLE:
        return [range(total)]
    if _exchanges(program):
        return [range(total)] if total * program.lanes <= MAX_WHOLE else []
    rng = random.Random(total)
    chosen = {*range(EDGE), *range(total - EDGE, total)}
    while len(chosen) < SAMPLE:
        first = rng.randrange(EDGE, total - EDGE)
        chosen |= {first, first + 1}
    ordered = sorted(chosen)
    starts = [at for at in ordered if at - 1 not in chosen]
    ends = [at + 1 for at in ordered if at + 1 not in chosen]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def _exchanges(program: Program) -> bool:
    """Whether a workgroup may wait for another, or add to what another did."""
    for op in program.walk():
        if op.definition.kernel is not None or op.attrs.get("scope") == "grid":
            return True
        if "atomic" in op.definition.effects and not program.buffers[op.attrs["buffer"]].is_workgroup:
            return True
    return False
