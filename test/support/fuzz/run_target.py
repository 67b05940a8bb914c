"""Programs and pipelines on ref and through the JIT of the cpu target, without and with passes."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from types import FrameType
from typing import Any

import numpy as np

import vyre_opt
from vyre_opt.driver.binding import Signature
from vyre_opt.execution import DispatchError, ProgramError, on_debug_print
from vyre_opt.ir import Buffer, DataType, DiagnosticError, KernelStage, Module, Op, Pipeline, Program, parse
from vyre_opt.ir.diagnostics import decode
from vyre_opt.ir.program import Func
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
from vyre_opt.targets.ref import RefDispatcher

from ..pipeline_runs import Observation, difference
from ..sample import random_array
from .header import bytes_of, mutate_with_header, split_header, text_of, with_header
from .seed_texts import runnable_texts
from .target import Target, Wrong, shape_of
from .text_mutations import SMALL_EDITS, WELL_TYPED

__all__ = ["RUN"]

MAX_STEPS = 20_000
"""Ops that the interpreter runs before it gives up, some tenths of a second."""
MAX_BYTES = 16 << 20
"""A program whose buffers take more is compiled, and not run."""
OPEN_COUNT = 96
"""Elements of a buffer of open size."""
OPEN_EXTENT = 40
"""Of a dimension where there are several."""
FAULTY_SECONDS = 1.5
"""A program at fault may run for ever on the cpu, which is told to stop then."""


class _Stopped(BaseException):
    """The alarm of `_stopped_after`."""


@contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """Raise _Stopped in the body after so many seconds."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Stopped

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _seeds() -> list[bytes]:
    passes = ("", "default")
    return [
        bytes_of(with_header(text, passes[number % 2], 3 * (number // 2 % 2)))
        for number, text in enumerate(runnable_texts())
    ]


def _mutate(case: bytes, other: bytes, rng: random.Random) -> bytes:
    mutations = WELL_TYPED if rng.random() < 0.7 else SMALL_EDITS
    return bytes_of(mutate_with_header(text_of(case), text_of(other), rng, mutations))


def _run(case: bytes) -> str:
    """What the interpreter computes, the cpu target computes; what it refuses or reports, the cpu may."""
    passes, opt, text = split_header(text_of(case))
    try:
        module = parse(decode(bytes_of(text), "case.vyre"))
    except DiagnosticError:
        return "refused: wrong text"
    item = _entry(module)
    if item is None:
        return "refused: nothing to run"
    cpu = CpuDispatcher(workers=1, opt=opt, cache=False)
    inputs = _inputs(item)
    if inputs is None:
        return _compile(module, item, cpu, passes)
    try:
        expected = _observe(module, item, RefDispatcher(max_steps=MAX_STEPS), inputs)
    except (DispatchError, DiagnosticError) as refused:
        return _run_faulty(module, item, cpu, passes, inputs, refused)
    try:
        actual = _observe(module, item, cpu, inputs, passes)
    except ProgramError as fault:
        raise Wrong(f"at fault on cpu alone: {shape_of(fault.diagnostic.message)}") from None
    except (DispatchError, DiagnosticError) as refused:
        return f"cpu: {shape_of(str(refused))}"
    if _is_exact(module) and (what := difference(expected, actual)):
        raise Wrong(f"cpu differs from ref: {shape_of(what)}")
    return "runs"


def _run_faulty(
    module: Module, item: Program | Pipeline, cpu: CpuDispatcher, passes: str, inputs: Any, refused: Exception
) -> str:
    """The cpu target on what ref did not run to its end: it ends, or stops when it is told to."""
    if isinstance(refused, ProgramError) and refused.kind == "limit":
        return _compile(module, item, cpu, passes)
    message = f"ref: {shape_of(str(refused))}"
    try:
        with _stopped_after(FAULTY_SECONDS):
            _observe(module, item, cpu, inputs, passes)
    except (DispatchError, DiagnosticError) as error:
        return f"{message} / cpu: {shape_of(str(error))}"
    except _Stopped:
        return f"{message} / cpu stopped"
    return message


def _entry(module: Module) -> Program | Pipeline | None:
    """The last pipeline, or else the last program."""
    items: list[Program | Pipeline] = [*(module.pipelines or module.programs).values()]
    return items[-1] if items else None


def _inputs(item: Program | Pipeline) -> dict[str, Any] | None:
    """An array for each buffer that a caller may pass; None if all buffers together are too large."""
    buffers = [*item.buffers.values()]
    sizes = [prod(_shape(b)) * b.dtype.lanes * 8 for b in buffers if not b.is_workgroup]
    if sum(sizes) > MAX_BYTES:
        return None
    return {b.name: _contents(b.dtype, _shape(b)) for b in Signature.of(item).parameters}


@lru_cache(1000)
def _contents(dtype: DataType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Edge values, then anything; the same for all buffers of a type and shape."""
    return random_array(dtype, shape, random.Random(prod(shape)))


def _shape(buffer: Buffer) -> tuple[int, ...]:
    opened = OPEN_COUNT if buffer.dimensions == 1 else OPEN_EXTENT
    return tuple(opened if extent is None else extent for extent in buffer.shape)


def _observe(
    module: Module, item: Program | Pipeline, target: Any, inputs: dict[str, Any], passes: str = ""
) -> Observation:
    """The host reads and outputs of one run.  Raises DispatchError, DiagnosticError.

    What programs print is dropped: launches that a pass joins print in another order.
    """
    with on_debug_print(lambda line: None):
        return _observed(module, item, target, inputs, passes)


def _observed(
    module: Module, item: Program | Pipeline, target: Any, inputs: dict[str, Any], passes: str
) -> Observation:
    compiled: Any = vyre_opt.compile(module, entry=item.name, target=target, passes=passes or None)
    elements = {b.name: b.dtype.element.name for b in compiled.signature.buffers}
    names = {b.name for b in compiled.signature.parameters}
    arrays: list[tuple[str, str, np.ndarray[Any, Any]]] = []
    passed = {name: array for name, array in inputs.items() if name in names}
    if isinstance(item, Pipeline):
        open_sizes = {
            b.name: _shape(b) if b.dimensions > 1 else OPEN_COUNT
            for b in item.buffers.values()
            if b.count is None and b.name not in passed
        }
        outputs = compiled(
            passed,
            lengths=open_sizes,
            on_host_read=lambda name, array: arrays.append((f"host_read {name}", elements[name], array)),
        )
    else:
        outputs = compiled(passed, None if item.grid else 1)
    arrays += [(name, elements[name], array) for name, array in outputs.items()]
    return Observation(tuple(arrays), 0, 0)


def _compile(module: Module, item: Program | Pipeline, cpu: CpuDispatcher, passes: str) -> str:
    """Machine code of each program, run by nobody."""
    try:
        compiled: Any = vyre_opt.compile(module, entry=item.name, target=cpu, passes=passes or None)
        for program in compiled.module.programs.values():
            if all(spec.default is not None for spec in program.specs.values()):
                cpu.prepared(program, module=compiled.module).prepare(program.grid or 1)
    except (DispatchError, DiagnosticError) as error:
        return f"compiled alone: {shape_of(str(error))}"
    return "compiled alone"


# --- which programs give the same bits on all targets


def _is_exact(module: Module) -> bool:
    """Whether no op is a kernel, has fast maths, sees the bits of a NaN, or an order that the target chooses."""
    bodies = [item for item in module.order if isinstance(item, Program | Func)]
    ops = [op for body in bodies for op in body.walk()]
    stages = (stage for pipeline in module.pipelines.values() for stage in pipeline.walk())
    return (
        not any(isinstance(stage, KernelStage) for stage in stages)
        and not any(_is_inexact(op) for op in ops)
        and _are_unordered([op for op in ops if op.definition.format == "atomic"], ops)
    )


def _is_inexact(op: Op) -> bool:
    return bool(
        op.definition.format == "kernel"
        or op.attrs.get("fastmath")
        or (op.name == "bitcast" and op.operands[0].type.element.is_float)
    )


def _are_unordered(atomics: list[Op], ops: list[Op]) -> bool:
    """Whether the atomics give the same in any order: all of one kind, on integers, and nobody looks at old values."""
    used = {operand for op in ops for operand in op.operands}
    names = {op.name for op in atomics}
    results = [result for op in atomics for result in op.results]
    return (
        len(names) <= 1
        and not any(name.endswith("exchange") for name in names)
        and not any(result in used or result.type.is_float for result in results)
    )


RUN = Target(
    "run",
    ".vyre",
    "programs and pipelines on ref and through the JIT",
    _seeds,
    _mutate,
    _run,
    batch=1000,
)
