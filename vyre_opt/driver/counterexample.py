"""Calls on which a module does something else than it did before passes, found by running both in the interpreter.

What is found refutes the passes: as it was, the module runs on these values without a fault, and what it leaves behind
then has other bits, or it is at fault.  Nothing here knows of passes, proofs or analyses.  What may differ by right is no
counterexample: elements that the module as it was does not write, NaNs, results that depend on the order of atomics,
and those of fast maths, sums of matrices and named kernels, which may be computed in several ways.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ..execution.arrays import storage_type
from ..execution.debug_prints import on_debug_print
from ..execution.dispatcher import BadInputs, DispatchError, ProgramError
from ..ir.diagnostics import DiagnosticError
from ..ir.grids import GridError, evaluate, lengths_by_dimension
from ..ir.pipeline import KernelStage, Launch, Pipeline
from ..ir.program import Buffer, Func, Module, Op, Param, Program
from ..ir.types import DataType
from ..records import dataclass
from ..rewriting.cloning import copy_for
from ..syntax.printer import print_program
from ..targets.ref import RefDispatcher
from ..targets.ref.machine import Machine
from .binding import Signature
from .compile import compile_module

__all__ = ["CallValues", "Counterexample", "counterexample"]

Array = np.ndarray[Any, Any]

MOST_CALLS = 100
"""Most calls of each program and pipeline.  Three calls find nearly all planted mistakes."""

MOST_STEPS = 20_000
"""Most steps of a run, which may never end otherwise."""

MOST_ELEMENTS = 1 << 17
"""Most elements of a call's buffers together: larger ones take seconds."""

COMMUTE = {"atomic_add", "atomic_and", "atomic_or", "atomic_xor", "atomic_min", "atomic_max"}
KINDS = ("ramp", "any", "small", "index")
"""Contents of the arrays of the first calls; later calls mix other kinds."""
EXACT_KINDS = ("small",)
"""Contents whose sums of products are exact in any order: for modules that make products on matrix units, and did not before."""

SHOWN = 8
"""Elements of an array that a witness shows."""


@dataclass(frozen=True)
class CallValues:
    """Values for a program or pipeline: `arrays` of its inputs and outputs, `lengths` of buffers of its own, `params`, and
    the `grid` of a program that leaves it open."""

    entry: str
    arrays: Mapping[str, Array]
    lengths: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Counterexample:
    """`what`: how the modules differ, where, and who has stored it.  `witness`: the values of the call, by name."""

    call: CallValues
    what: str
    witness: Mapping[str, int | float | str]


def counterexample(before: Module, after: Module, seconds: float) -> Counterexample | None:
    """A call on which `after` does not do what `before` does; None if none is found in `seconds`."""
    until = time.perf_counter() + seconds
    searches = [_Entry(before, after, item) for item in _items(before, after)]
    calls = [entry.calls() for entry in searches]
    with on_debug_print(lambda line: None):
        while calls and time.perf_counter() < until:
            for entry, calls_of_entry in zip(list(searches), list(calls), strict=True):
                call = next(calls_of_entry, None)
                found = None if call is None else entry.try_call(call)
                if found is not None:
                    return found
                if call is None:
                    searches.remove(entry)
                    calls.remove(calls_of_entry)
    return None


# --- what is run ----------------------------------------------------------------------------


def _items(before: Module, after: Module) -> Iterator[Program | Pipeline]:
    """The pipelines, and the programs that none of them launches, that are not as they were."""
    launched = {
        stage.program
        for pipeline in before.pipelines.values()
        for stage in pipeline.walk()
        if isinstance(stage, Launch)
    }
    items: list[tuple[Program | Pipeline, Program | Pipeline | None]] = [
        (pipeline, after.pipelines.get(name)) for name, pipeline in before.pipelines.items()
    ]
    items += [(p, after.programs.get(name)) for name, p in before.programs.items() if name not in launched]
    for item, now in items:
        if now is None:
            continue
        copy, others = copy_for(before, item), copy_for(after, now)
        if _text(copy) != _text(others) and _has_one_result(copy):
            yield item


def _text(module: Module) -> str:
    """Text of a copy, without the notes on launches, which mean nothing."""
    for pipeline in module.pipelines.values():
        for stage in pipeline.walk():
            if isinstance(stage, Launch):
                stage.notes.clear()
    return print_program(module)


def _has_one_result(module: Module) -> bool:
    """Whether nothing in a module may be computed in several ways."""
    if any(isinstance(s, KernelStage) for pipeline in module.pipelines.values() for s in pipeline.walk()):
        return False
    for ops in [*map(_ops, module.programs.values()), *map(_ops, module.funcs.values())]:
        used = {value for op in ops for value in op.operands}
        if any(_may_vary(op, used) for op in ops):
            return False
    return True


def _ops(item: Program | Func) -> list[Op]:
    return list(item.walk())


def _may_vary(op: Op, used: set[Any]) -> bool:
    if "atomic" in op.definition.effects:
        is_float_sum = op.name == "atomic_add" and op.result.type.is_float
        return op.name not in COMMUTE or is_float_sum or op.result in used
    if op.name == "matrix_mul_add" and op.result.type.element.is_float:
        return True  # the order of its sums is open
    return op.definition.kernel is not None or bool(op.attrs.get("fastmath"))


Result = tuple[str, DataType, Array]

Outcome = tuple[Result, ...]
"""Results of a run: the host's reads, in order, then the outputs."""


class _Runner:
    """Runs a program or a pipeline of a module.  `machines`: of the dispatches of the last run."""

    def __init__(self, module: Module, name: str) -> None:
        self.module, self.name = module, name
        self.machines: list[Machine] = []

    @cached_property
    def _compiled(self) -> Any:
        ref = RefDispatcher(max_steps=MOST_STEPS, on_run=self.machines.append)
        return compile_module(self.module, self.name, ref, {})

    def __call__(self, call: CallValues) -> Outcome:
        self.machines.clear()
        signature = self._compiled.signature
        types = {buffer.name: buffer.dtype for buffer in signature.buffers}
        taken = {buffer.name for buffer in signature.parameters}
        reads: list[Result] = []
        options: dict[str, Any] = {
            "lengths": {name: length for name, length in call.lengths.items() if name in types},
            "params": call.params,
            "grid": call.grid,
        }
        if signature.owner == "pipeline":
            options["on_host_read"] = lambda name, array: reads.append((name, types[name], array))
        arrays = {name: array for name, array in call.arrays.items() if name in taken}
        outputs = self._compiled(arrays, **options)
        return (*reads, *((name, types[name], array) for name, array in outputs.items()))

    def writer(self, array: Array, index: tuple[int, ...]) -> str:
        """Op that stored an element of an output of the last run."""
        scalar = int(np.ravel_multi_index(index, array.shape))
        for machine in reversed(self.machines):
            if (invocation := machine.writer(array, scalar)) is not None:
                return f" by {invocation} of @{machine.program.name}"
        return ""


class _Entry:
    """A program or a pipeline, as it was and as it is."""

    def __init__(self, before: Module, after: Module, item: Program | Pipeline) -> None:
        self.name, self.item = item.name, item
        after_item = (after.pipelines if isinstance(item, Pipeline) else after.programs)[item.name]
        self.signature = Signature.of(item)
        self.before, self.after = (_Runner(module, item.name) for module in (before, after))
        programs = copy_for(before, item).programs.values()
        self.lanes = max((program.lanes for program in programs), default=1)
        self.kinds = KINDS if _has_one_result(copy_for(after, after_item)) else EXACT_KINDS

    def try_call(self, call: CallValues) -> Counterexample | None:
        try:
            expected = self.before(call)
        except (DispatchError, DiagnosticError, MemoryError):
            return None  # nothing is said of what a program at fault does
        try:
            actual = self.after(call)
        except ProgramError as fault:
            if fault.kind == "limit":
                return None
            return self._found(call, f"it is at fault now: {fault.diagnostic.message}")
        except BadInputs as refused:
            return self._found(call, f"it cannot be called so now: {refused}")
        except (DispatchError, DiagnosticError, MemoryError):
            return None
        names = [name for name, _, _ in expected]
        if names != [name for name, _, _ in actual]:
            return self._found(call, f"it gives {', '.join(name for name, _, _ in actual) or 'nothing'} now")
        if not any(_differ(*pair).any() for pair in zip(expected, actual, strict=True)):
            return None
        return self._written(call, expected, actual)

    def _written(self, call: CallValues, expected: Outcome, actual: Outcome) -> Counterexample | None:
        """The first difference in an element that the module as it was writes, or has from its caller to keep: one that
        does not depend on what its outputs hold at the start."""
        read = {buffer.name for buffer in self.signature.read}
        others = {name: array if name in read else _other(array) for name, array in call.arrays.items()}
        again = self.before(CallValues(call.entry, others, call.lengths, call.params, call.grid))
        for was, now, second in zip(expected, actual, again, strict=True):
            differs = _differ(was, now) & ~_differ(was, second)
            if differs.any():
                index = tuple(int(i) for i in np.argwhere(differs)[0])
                name = f"@{was[0]}[{', '.join(map(str, index))}]"
                numbers = f"{_number(now, index)}{self.after.writer(now[2], index)}"
                wanted = f"{_number(second, index)}{self.before.writer(second[2], index)}"
                return self._found(call, f"{name} is {numbers}, not {wanted}")
        return None

    def _found(self, call: CallValues, what: str) -> Counterexample:
        witness: dict[str, int | float | str] = {}
        if call.grid is not None and call.grid != getattr(self.item, "grid", None):
            witness["grid"] = " x ".join(map(str, call.grid))
        witness |= {f"len {name}": str(length) for name, length in call.lengths.items()}
        witness |= {f"param {name}": value for name, value in call.params.items()}
        read = {buffer.name for buffer in self.signature.read}
        for name, array in call.arrays.items():
            values = ", ".join(map(str, array.reshape(-1)[:SHOWN].tolist()))
            rest = ", ..." if array.size > SHOWN else ""
            witness[f"@{name}"] = (
                f"[{values}{rest}] of {array.size}" if name in read else f"{array.size} elements"
            )
        return Counterexample(call, f"@{self.name}: {what}", witness)

    # --- calls --------------------------------------------------------------------------------

    def calls(self) -> Iterator[CallValues]:
        """Values to call it with, small and plain ones first."""
        rng = random.Random(0)
        has_sizes = any(None in buffer.shape for buffer in self.signature.buffers)
        for number in range(MOST_CALLS):
            lengths = self._lengths(number, rng) if has_sizes else []
            call = self._call(number, lengths, rng)
            if call is not None:
                yield call
            elif not has_sizes and not self.signature.params:
                return

    def _lengths(self, number: int, rng: random.Random) -> list[int]:
        """Lengths to choose from: one for all, or several."""
        lanes, groups = self.lanes, (2, 3, 1, 4)[number // len(KINDS) % 4]
        near = [lanes * groups, lanes * groups + 1, lanes * groups - 1, lanes * groups + lanes // 2 + 1]
        every = [*near, lanes, 1, 0, 3, 2 * lanes * groups, lanes * groups // 2]
        return [rng.choice(every if number >= 8 else near)] if number % 3 < 2 else every

    def _call(self, number: int, lengths: Sequence[int], rng: random.Random) -> CallValues | None:
        """None where the buffers cannot have these lengths, or are too large."""
        params = {name: self._param(param, number, rng) for name, param in self.signature.params.items()}
        known: dict[str, int | None] = {
            f"@{name}": value for name, value in params.items() if type(value) is int
        }
        shapes: dict[str, tuple[int, ...]] = {}
        for buffer in self.signature.buffers:
            try:
                shapes[buffer.name] = _shape(buffer, known, lengths, rng)
            except (GridError, ValueError):
                return None
            known[buffer.name] = prod(shapes[buffer.name])
            known.update(lengths_by_dimension(buffer.name, shapes[buffer.name]))
        if sum(map(prod, shapes.values())) > MOST_ELEMENTS:
            return None
        given = {buffer.name for buffer in self.signature.parameters}
        least = max(1, min((prod(shapes[name]) for name in given if prod(shapes[name])), default=1))
        arrays = {}
        for buffer in self.signature.parameters:
            kind = self.kinds[number] if number < len(self.kinds) else rng.choice(self.kinds)
            arrays[buffer.name] = _array(buffer.dtype, shapes[buffer.name], kind, least, rng)
        lengths_here = {
            buffer.name: shapes[buffer.name] if buffer.dimensions > 1 else shapes[buffer.name][0]
            for buffer in self.signature.buffers
            if buffer.name not in given and None in buffer.shape and not any(buffer.sizes)
        }
        return CallValues(self.name, arrays, lengths_here, params, self._grid(shapes, number, rng))

    def _param(self, param: Param, number: int, rng: random.Random) -> Any:
        if param.dtype.is_bool:
            return bool(rng.randrange(2))
        if param.dtype.is_float:
            return rng.choice((1.0, 0.0, 2.0, -0.5, 3.0))
        return rng.choice((0, 1, 2, 3, 4, 8, self.lanes, self.lanes - 1, self.lanes // 2))

    def _grid(
        self, shapes: Mapping[str, tuple[int, ...]], number: int, rng: random.Random
    ) -> tuple[int, int, int] | None:
        """Grid for a program that leaves it open: as many invocations as there are elements, or a small one."""
        if isinstance(self.item, Pipeline) or self.item.grid is not None:
            return None
        x, y, z = self.item.workgroup
        if y == z == 1 and number % 2 == 0:
            return max(1, min(64, -(-max(map(prod, shapes.values()), default=1) // x))), 1, 1
        return rng.choice(((2, 1, 1), (3, 1, 1), (1, 1, 1), (2, 2, 1), (4, 1, 1)))


def _shape(
    buffer: Buffer, known: Mapping[str, int | None], lengths: Sequence[int], rng: random.Random
) -> tuple[int, ...]:
    shape = []
    for extent in buffer.extents:
        if extent is None:
            extent = rng.choice(lengths if buffer.dimensions == 1 else (1, 2, 3, 4, 5, 8))
        length = evaluate(extent, known)
        if length < 0:
            raise ValueError("a negative length")
        shape.append(length)
    return tuple(shape)


def _array(dtype: DataType, shape: tuple[int, ...], kind: str, least: int, rng: random.Random) -> Array:
    """Array in storage form: one dimension, flat over the lanes of vectors."""
    stored = storage_type(dtype)
    assert stored is not None
    generator = np.random.default_rng(rng.getrandbits(32))
    size = prod(shape) * dtype.lanes
    low, high = {"any": (-(1 << 40), 1 << 40), "small": (0, 4), "index": (0, least)}.get(kind, (0, 1))
    numbers = np.arange(size) + 1 if kind == "ramp" else generator.integers(low, high, size)
    if dtype.element.is_float and stored.kind == "f":
        flat = numbers.astype(stored) if kind != "any" else generator.normal(size=size).astype(stored)
    elif dtype.element.is_float and dtype.element.bits == 16:  # bf16, by its bits
        flat = (numbers.astype(np.float32).view(np.uint32) >> 16).astype(stored)
    else:
        flat = (numbers % 2 if stored.kind == "b" else numbers).astype(stored)
    if len(shape) == 1:
        return flat
    return flat.reshape((*shape, dtype.lanes) if dtype.is_vec else shape)


# --- what differs ---------------------------------------------------------------------------


def _other(array: Array) -> Array:
    """Another value for each element."""
    return ~array if array.dtype.kind in "bui" else np.where(array == 5, 6, 5).astype(array.dtype)


def _differ(one: Result, other: Result) -> Any:
    """Mask of the elements that differ in bits; NaNs do not."""
    (_, dtype, a), (_, _, b) = one, other
    if a.shape != b.shape:
        return np.ones(a.shape, np.bool_)
    unsigned = f"u{a.dtype.itemsize}"
    differs = np.ascontiguousarray(a).view(unsigned) != np.ascontiguousarray(b).view(unsigned)
    return differs & ~(_is_nan(dtype, a) & _is_nan(dtype, b))


_LARGEST = {"bf16": (0x7FFF, 0x7F80), "f8e4m3": (0x7F, 0x7E), "f8e5m2": (0x7F, 0x7C)}
"""Bits of types that are stored as bits: the mask without the sign, and infinity or the largest number."""


def _is_nan(dtype: DataType, array: Array) -> Any:
    if array.dtype.kind == "f":
        return np.isnan(array)
    mask, largest = _LARGEST.get(dtype.element.name, (0, 0))
    return (array & mask) > largest if mask else np.zeros(array.shape, np.bool_)


def _number(result: Result, index: tuple[int, ...]) -> str:
    return str(result[2][index].item())
