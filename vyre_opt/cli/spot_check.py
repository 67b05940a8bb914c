"""vyre-run --check: each launch on the target, and some of its workgroups on the interpreter beside it.

    memory before a launch --+-- the target runs all workgroups ----------- memory after it
                             |                                                |  compared where the
                             '-- the interpreter runs a sample of them -------'  sample wrote

The interpreter reports races, reads of what nobody wrote and accesses out of bounds; each launch starts
from what the target made of those before, so that a difference is found at the launch that makes it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.program import Dim3, Module, Op, Program
from ..runtime.dispatcher import Dispatcher, ProgramError, Scratch
from ..runtime.inputs import check_call
from ..runtime.pipelines.host_runner import HostRunner, Memory
from ..runtime.ref import RefDispatcher
from . import run_report
from .errors import ToolError

if TYPE_CHECKING:
    from ..runtime.pipelines.steps import Plan

__all__ = ["SpotCheck"]

SAMPLE = 64
"""Workgroups of a launch that the interpreter runs."""
EDGE = 8
"""Of these, so many at either end of the grid."""
MAX_WHOLE = 1 << 20
"""Invocations of a launch that is checked as a whole, since its workgroups exchange values."""
MAX_STEPS = 500_000
"""Ops that the interpreter runs of a launch: some seconds.  One that waits for a workgroup that the
interpreter does not run at the same time would never end there."""

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
        self.checked: dict[str, str] = {}
        """By program, what was run of its last launch, and what was left out."""
        self.is_approximate = False
        self.is_ordered = True
        """Whether no launch may give other outputs when its workgroups run in another order."""
        self._ref = RefDispatcher(max_steps=MAX_STEPS)

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
            before = _copies(memory)
            self._launch(program, memory, grid, module)
            total = grid[0] * grid[1] * grid[2]
            count = sum(map(len, workgroups))
            sampled = _copies(before)
            written: Mapping[str, np.ndarray] = {}
            why = "its workgroups wait for each other, and are too many to run them all"
            if count:
                try:
                    written = self._ref.sample(program, sampled, grid, module, workgroups)
                except ProgramError as fault:
                    if fault.kind != "limit":
                        raise
                    count, why = 0, f"it takes more than {MAX_STEPS} ops there"
            if not count:
                self.checked[program.name] = f"none of @{program.name} ({why})"
            else:
                left_out = self._compare(program, sampled, memory, written, count == total)
                what = f"all {total}" if count == total else f"{count} of {total}"
                self.checked[program.name] = f"@{program.name} {what} workgroups{left_out}"
            if count < total and any(held.written is not None for held in memory.values()):
                written = self._written(program, before, memory, grid, module)
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

    def _written(
        self,
        program: Program,
        before: Mapping[str, Memory],
        after: Mapping[str, Memory],
        grid: Dim3,
        module: Module,
    ) -> dict[str, np.ndarray]:
        """What a launch wrote of what held nothing: there the target makes the same of other bytes."""
        other = _copies(before)
        for held in other.values():
            if held.written is not None:
                flat = held.array.view(np.uint8).reshape(len(held.array), -1)
                flat[~held.written] ^= 1
        self._launch(program, other, grid, module)
        found = {}
        for buffer in program.bound_buffers:
            old, again, now = before[buffer.name], other[buffer.name], after[buffer.name]
            if old.written is not None and buffer.is_output:
                kept = _same(now.array, old.array) & ~_same(again.array, now.array)
                found[buffer.name] = ~kept
        return found

    def _compare(
        self,
        program: Program,
        sampled: Mapping[str, Memory],
        after: Mapping[str, Memory],
        written: Mapping[str, np.ndarray],
        is_whole: bool,
    ) -> str:
        """Raises ToolError where what the sample wrote is not what the target did; what was not compared."""
        approximate = _is_approximate(program)
        self.is_approximate |= approximate
        ordered = not _depends_on_order(program)
        self.is_ordered &= ordered
        if not ordered or (_exchanges(program) and not is_whole):
            return " (outputs not compared: they depend on the order of atomics)"
        left_out = []
        for buffer in program.bound_buffers:
            mask = written.get(buffer.name)
            if mask is None or not buffer.is_output:
                continue
            if approximate and not buffer.dtype.element.is_float:
                left_out.append(f"@{buffer.name}")
                continue
            got = after[buffer.name].array
            wanted = np.where(mask, sampled[buffer.name].array, got)
            if approximate and not self.tolerance:
                wanted = _near(got, wanted, buffer.dtype.element.name)
            try:
                run_report.compare([buffer], [got], [wanted], self.tolerance, ("on the target", "on ref"))
            except ToolError as differs:
                raise ToolError(f"program @{program.name}: {differs}") from None
        names = ", ".join(left_out)
        return f" ({names} not compared: no float, after approximate ops)" if names else ""


def _is_approximate(program: Program) -> bool:
    """Whether two targets may differ by more than no bit: by ulps, or by the order of float additions."""
    return any(
        op.definition.ulp or ("atomic" in op.definition.effects and op.results[0].type.is_float)
        for op in program.walk()
    )


def _depends_on_order(program: Program) -> bool:
    """Whether an atomic's old value is used, so that outputs depend on which workgroup comes first."""
    old = {op.results[0] for op in _storage_atomics(program)}
    return bool(old) and any(operand in old for op in program.walk() for operand in op.operands)


def _copies(memory: Mapping[str, Memory]) -> dict[str, Memory]:
    return {
        name: Memory(held.array.copy(), None if held.written is None else held.written.copy())
        for name, held in memory.items()
    }


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
        if total * program.lanes <= MAX_WHOLE:
            return [range(total)]
        # the first ones wait for no later one, but at a barrier of the grid
        return [] if _waits_for_grid(program) else [range(SAMPLE)]
    rng = random.Random(total)
    chosen = {*range(EDGE), *range(total - EDGE, total)}
    while len(chosen) < SAMPLE:
        first = rng.randrange(EDGE, total - EDGE)
        along = (1, grid[0], grid[0] * grid[1])
        chosen |= {first, *(first + step for step in along if first + step < total)}
    ordered = sorted(chosen)
    starts = [at for at in ordered if at - 1 not in chosen]
    ends = [at + 1 for at in ordered if at + 1 not in chosen]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def _exchanges(program: Program) -> bool:
    """Whether a workgroup may wait for another, or add to what another did."""
    return _waits_for_grid(program) or any(True for _ in _storage_atomics(program))


def _storage_atomics(program: Program) -> Iterator[Op]:
    for op in program.walk():
        if "atomic" in op.definition.effects and not program.buffers[op.attrs["buffer"]].is_workgroup:
            yield op


def _waits_for_grid(program: Program) -> bool:
    return any(op.definition.kernel is not None or op.attrs.get("scope") == "grid" for op in program.walk())
