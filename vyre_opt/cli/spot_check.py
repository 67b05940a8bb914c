"""vyre-run --check: each launch on the target, and some of its workgroups on the interpreter beside it.

    memory before a launch --+-- the target runs all workgroups ----------- memory after it
                             |                                                |  compared where the
                             '-- the interpreter runs a sample of them -------'  sample wrote

The interpreter reports races, reads of elements that nothing has written, and accesses out of bounds.
Each launch starts from the memory that the target left, so a difference is found at the launch that
makes it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..execution.dispatcher import Dispatcher, ProgramError, Scratch
from ..execution.inputs import check_call
from ..execution.params import Words, values_of_words
from ..execution.plans.host_plan import HostMemory, HostPlan
from ..execution.shapes import array_of
from ..execution.target import Target, as_target
from ..ir.ops import BEYOND_WORKGROUP
from ..ir.program import Dim3, Module, Op, Program
from ..targets.ref import RefDispatcher
from . import run_report
from .errors import ToolError

if TYPE_CHECKING:
    from ..execution.plans.call_plan import CallPlan

__all__ = ["SpotCheck"]

SAMPLE = 64
"""The number of workgroups of a launch that the interpreter runs."""
EDGE = 8
"""Number of these at either end of the grid."""
MAX_WHOLE = 1 << 20
"""A launch whose workgroups exchange values is checked as a whole up to so many invocations."""
MAX_STEPS = 500_000
"""Ops of a launch that the interpreter runs at most, which takes some seconds.  A launch that waits for a
workgroup outside of the sample would never end."""

APPROXIMATE = {"f64": 1e-12, "f32": 1e-5, "f16": 1e-2, "bf16": 5e-2}
"""Largest difference of two targets where an op has fast maths, adds floats atomically or multiplies matrices, relative to the largest value of the buffer."""


class SpotCheck(Target):
    """A dispatcher that dispatches to `target` and checks each launch on the interpreter.

    `tolerance`: relative error that is allowed for floats.  `checked`: by program, a text that says what was
    checked of its last launch, and what was left out.  `is_approximate`: whether a launch had such
    ops.  `is_ordered`: whether the outputs of all launches are independent of the order of workgroups.

    A launch raises ProgramError for a fault that the interpreter finds, ToolError for outputs that differ.
    """

    def __init__(self, target: Dispatcher, tolerance: float) -> None:
        self.target = target
        self.name = target.name
        self.tolerance = tolerance
        self.checked: dict[str, str] = {}
        self.is_approximate = False
        self.is_ordered = True
        self._ref = RefDispatcher(max_steps=MAX_STEPS)

    @property
    def architecture(self) -> str:
        return as_target(self.target).architecture

    def dispatch(
        self,
        program: Program,
        inputs: Sequence[Any],
        grid: int | Sequence[int] | None = None,
        *,
        module: Module | None = None,
        specs: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        scratch: Scratch | None = None,
    ) -> list[np.ndarray]:
        """See `Dispatcher.dispatch`."""
        call = check_call(program, inputs, grid, module, specs, params)
        memory = {
            b.name: HostMemory(call.arrays[b.name].copy(), shape=call.shapes.get(b.name, ()))
            for b in program.bound_buffers
        }
        words = tuple(call.params.values())
        self.in_place(program, memory, call.grid, module or Module(), scratch or Scratch(), words)()
        outputs = []
        for buffer in program.bound_buffers:
            if buffer.is_output:
                held = memory[buffer.name]
                shape = held.shape or (len(held.array) // buffer.dtype.lanes,)
                outputs.append(held.array.reshape(array_of(buffer, shape)))
        return outputs

    def load(self, call: CallPlan) -> HostPlan:
        """The plan of a call, whose launches run one by one."""
        return HostPlan(call, self.in_place, tracked=True)

    def in_place(
        self,
        program: Program,
        memory: Mapping[str, HostMemory],
        grid: Dim3,
        module: Module,
        scratch: Scratch,
        params: Words = (),
    ) -> Callable[[], None]:
        """See `HostPlan`."""
        workgroups = _sample(program, grid)
        values = values_of_words(program, params)

        def run() -> None:
            before = _copies(memory)
            self._launch(program, memory, grid, module, values)
            total = grid[0] * grid[1] * grid[2]
            count = sum(map(len, workgroups))
            sampled = _copies(before)  # the interpreter works in place, and `before` is needed again below
            written: Mapping[str, np.ndarray] = {}
            reason = "its workgroups wait for each other, and are too many to run them all"
            if count or not total:
                try:
                    written = self._ref.sample(program, sampled, grid, module, workgroups, values)
                except ProgramError as error:
                    if error.kind != "limit":
                        raise
                    count, reason = 0, f"it takes more than {MAX_STEPS} ops there"
            if count < min(1, total):
                self.checked[program.name] = f"none of @{program.name} ({reason})"
            else:
                left_out = self._compare(program, sampled, memory, written, count == total)
                amount = f"all {total}" if count == total else f"{count} of {total}"
                self.checked[program.name] = f"@{program.name} {amount} workgroups{left_out}"
            # a sample does not tell all that the launch wrote, which later launches need to know
            if count < total and any(m.written is not None for m in memory.values()):
                written = self._written(program, before, memory, grid, module, values)
            for buffer in program.bound_buffers:
                mask = memory[buffer.name].written
                if mask is not None and buffer.is_transient:
                    mask[:] = False  # nobody may rely on what the launch left there
                elif mask is not None and buffer.name in written:
                    mask |= written[buffer.name]

        return run

    def _launch(
        self,
        program: Program,
        memory: Mapping[str, HostMemory],
        grid: Dim3,
        module: Module,
        params: Mapping[str, Any],
    ) -> None:
        """Run all workgroups on the target, in place."""
        held = [(b, memory[b.name]) for b in program.bound_buffers]
        arguments = [m.array.reshape(array_of(b, m.shape)) if m.shape else m.array for b, m in held]
        outputs = iter(self.target.dispatch(program, arguments, grid, module=module, params=params))
        for buffer in program.bound_buffers:
            if buffer.is_output:
                memory[buffer.name].array[:] = next(outputs).reshape(-1)

    def _written(
        self,
        program: Program,
        before: Mapping[str, HostMemory],
        after: Mapping[str, HostMemory],
        grid: Dim3,
        module: Module,
        params: Mapping[str, Any],
    ) -> dict[str, np.ndarray]:
        """Masks of the elements that a launch wrote, by buffer.

        The launch runs again with a bit flipped in each element that nothing had written: an element that is
        unchanged in the first run, and differs in the second, still has its old contents.
        """
        flipped = _copies(before)
        for contents in flipped.values():
            if contents.written is not None:
                octets = contents.array.view(np.uint8).reshape(len(contents.array), contents.array.itemsize)
                octets[~contents.written] ^= 1  # the lowest bit, so that a bool stays 0 or 1
        self._launch(program, flipped, grid, module, params)
        masks = {}
        for buffer in program.bound_buffers:
            old, second, new = before[buffer.name], flipped[buffer.name], after[buffer.name]
            if old.written is not None and buffer.is_output:
                is_old = _same(new.array, old.array) & ~_same(second.array, new.array)
                masks[buffer.name] = ~is_old
        return masks

    def _compare(
        self,
        program: Program,
        sampled: Mapping[str, HostMemory],
        after: Mapping[str, HostMemory],
        written: Mapping[str, np.ndarray],
        is_whole: bool,
    ) -> str:
        """Compare what the sample wrote with the target's memory; returns a text of what was not compared.

        Raises ToolError where they differ.
        """
        approximate = _is_approximate(program)
        self.is_approximate |= approximate
        ordered = not _depends_on_order(program)
        self.is_ordered &= ordered
        # a sample adds up less into shared atomics than all workgroups do
        if not ordered or (_exchanges(program) and not is_whole):
            return " (outputs not compared: they depend on the order of atomics)"
        left_out = []
        for buffer in program.bound_buffers:
            mask = written.get(buffer.name)
            if mask is None or not buffer.is_output:
                continue
            # an ulp in a float may turn a comparison or a rounding, and so an integer by any amount
            if approximate and not buffer.dtype.element.is_float:
                left_out.append(f"@{buffer.name}")
                continue
            output = after[buffer.name].array
            # elements that the sample did not write are those of other workgroups: they count as equal
            reference = np.where(mask, sampled[buffer.name].array, output)
            if approximate and not self.tolerance:
                reference = _accept_near(output, reference, buffer.dtype.element.name)
            try:
                run_report.compare(
                    [buffer], [output], [reference], self.tolerance, ("on the target", "on ref")
                )
            except ToolError as error:
                raise ToolError(f"program @{program.name}: {error}") from None
        names = ", ".join(left_out)
        return f" ({names} not compared: no float, after approximate ops)" if names else ""


def _is_approximate(program: Program) -> bool:
    """Whether two correct targets may differ: by fast maths, or by the order of float additions."""
    return any(
        op.attrs.get("fastmath")
        or ("atomic" in op.definition.effects and op.results[0].type.is_float)
        or (op.name == "matrix_mul_add" and op.results[0].type.element.is_float)
        for op in program.walk()
    )


def _depends_on_order(program: Program) -> bool:
    """Whether the old value of an atomic is used: it depends on which workgroup comes first."""
    old_values = {op.results[0] for op in _storage_atomics(program)}
    return bool(old_values) and any(operand in old_values for op in program.walk() for operand in op.operands)


def _copies(memory: Mapping[str, HostMemory]) -> dict[str, HostMemory]:
    return {
        name: HostMemory(m.array.copy(), None if m.written is None else m.written.copy(), m.shape)
        for name, m in memory.items()
    }


def _accept_near(output: np.ndarray, reference: np.ndarray, name: str) -> np.ndarray:
    """`reference`, but `output` where that is within APPROXIMATE of it; `name` is the element type."""
    tolerance = APPROXIMATE.get(name)
    if tolerance is None:
        return reference
    a, b = run_report.as_float(output, name), run_report.as_float(reference, name)
    finite = np.abs(b[np.isfinite(b)])
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= tolerance * (finite.max() if finite.size else 0.0)
    return np.where(near, output, reference)


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Mask of equal bytes of two arrays."""
    equal: np.ndarray = (a.view(np.uint8) == b.view(np.uint8)).reshape(len(a), a.itemsize).all(axis=1)
    return equal


def _sample(program: Program, grid: Dim3) -> list[range]:
    """The workgroups that the interpreter runs, by number: both ends of the grid, and random ones with neighbours."""
    total = grid[0] * grid[1] * grid[2]
    if total <= SAMPLE:
        return [range(total)]
    if _exchanges(program):
        if total * program.lanes <= MAX_WHOLE:
            return [range(total)]
        # a workgroup waits for earlier ones only, unless there is a barrier of the whole grid
        return [] if _waits_for_grid(program) else [range(SAMPLE)]
    rng = random.Random(total)  # seeded, so that a fault that was found is found again
    sample = {*range(EDGE), *range(total - EDGE, total)}
    # with the neighbours along each axis, since races and halos are between those
    strides = (1, grid[0], grid[0] * grid[1])
    while len(sample) < SAMPLE:
        first = rng.randrange(EDGE, total - EDGE)
        sample |= {first, *(first + stride for stride in strides if first + stride < total)}
    ordered = sorted(sample)
    starts = [number for number in ordered if number - 1 not in sample]
    ends = [number + 1 for number in ordered if number + 1 not in sample]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def _exchanges(program: Program) -> bool:
    """Whether a workgroup may wait for another, or use atomics on a buffer that they share."""
    return _waits_for_grid(program) or any(True for _ in _storage_atomics(program))


def _storage_atomics(program: Program) -> Iterator[Op]:
    for op in program.walk():
        if "atomic" in op.definition.effects and not program.buffers[op.attrs["buffer"]].is_workgroup:
            yield op


def _waits_for_grid(program: Program) -> bool:
    return any(
        op.definition.kernel is not None or op.attrs.get("scope") in BEYOND_WORKGROUP for op in program.walk()
    )
