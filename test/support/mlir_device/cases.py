"""What to compare: random programs, one program for each op and type, the shipped kernels, and pipelines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from support.generator import random_program
from support.kernel_cases import kernel_cases
from support.op_programs import op_programs
from support.pipeline_runs import plain_inputs
from support.sample import random_inputs, shape_of
from vyre_opt.execution.arrays import storage_type
from vyre_opt.ir import Buffer, DataType, Launch, Module, Program, Repeat, parse, print_program
from vyre_opt.ir.pipeline import Stage
from vyre_opt.ir.program import Dim3
from vyre_opt.lowering.nvptx.abi import storage_buffers
from vyre_opt.passes import PassManager

__all__ = ["RANDOM", "Case", "ProgramLaunch", "Storage", "cases"]

RANDOM = "random program"
"""The kind of random programs."""

INPUTS = 1
"""The seed of inputs."""

PIPELINES = Path(__file__).parents[3] / "examples" / "pipelines"

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Storage:
    """A buffer in GPU memory: its elements, extents without the lanes of vectors, and contents before the first launch.

    `tolerance`: by how much each element of an output may differ between two runs; None if it may not in any bit.
    """

    name: str
    dtype: DataType
    shape: tuple[int, ...]
    contents: Array
    is_output: bool
    tolerance: Array | None = None


@dataclass(frozen=True, slots=True)
class ProgramLaunch:
    """`storage`: the names of what the kernel takes pointers to, in the order of `storage_buffers`.

    `params`: the words of runtime scalars that have no default.
    """

    program: Program
    grid: Dim3
    storage: tuple[str, ...]
    params: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """Launches in order over the same storage; `kind` groups cases in what is printed."""

    kind: str
    name: str
    module: Module
    storage: dict[str, Storage]
    launches: list[ProgramLaunch]


def cases(ops: int, kernels: int, pipelines: bool, random: bool) -> Iterator[Case]:
    """`ops`, `kernels`: every n-th of those, 0 for none.  `random`: random programs after them, without end."""
    if pipelines:
        yield from _pipelines()
    if ops:
        for case in [*op_programs()][::ops]:
            yield _alone("op", case.name, case.module, case.program, case.grid, case.inputs(INPUTS))
    if kernels:
        yield from _kernels(kernels)
    seed = 0
    while random:
        sample = random_program(seed)
        arrays = random_inputs(sample.program, sample.grid, INPUTS)
        yield _alone(RANDOM, f"seed {seed}", sample.module, sample.program, sample.grid, arrays)
        seed += 1


def _alone(
    kind: str,
    name: str,
    module: Module,
    program: Program,
    grid: Dim3,
    arrays: list[Array],
    params: dict[str, int] | None = None,
) -> Case:
    """One launch of a program.  `arrays`: one for each bound buffer, in binding order."""
    by_name = dict(zip([b.name for b in program.bound_buffers], arrays, strict=True))
    storage = {b.name: _storage(b.name, b, by_name.get(b.name)) for b in storage_buffers(program)}
    launch = ProgramLaunch(program, program.grid or grid, tuple(storage), params or {})
    return Case(kind, name, module, storage, [launch])


def _storage(name: str, buffer: Buffer, array: Array | None, is_output: bool | None = None) -> Storage:
    """Storage with the contents of an array, or zeros."""
    if array is None:
        dtype = storage_type(buffer.dtype)
        assert dtype is not None
        array = np.zeros((buffer.count or 0) * buffer.dtype.lanes, dtype)
    shape = _shape(buffer.shape, buffer.dtype.lanes, array)
    is_output = buffer.is_output if is_output is None else is_output
    return Storage(name, buffer.dtype, shape, np.ascontiguousarray(array), is_output)


def _shape(declared: tuple[int | None, ...], lanes: int, array: Array) -> tuple[int, ...]:
    """The extents of a buffer in elements, of which the array tells the open ones."""
    if declared == (None,):
        return (array.size // lanes,)
    return tuple(array.shape[number] if extent is None else extent for number, extent in enumerate(declared))


# --- the shipped kernels

MOST_BYTES = 1 << 18
"""Of the arrays of a kernel; larger cases say no more about its code."""


def _kernels(step: int) -> Iterator[Case]:
    for case in kernel_cases()[::step]:
        use = case.make()
        module = Module()
        module.add(use.program)
        grid = (use.grid, 1, 1)
        arrays = [np.ascontiguousarray(np.asarray(array)) for array in use.inputs]
        buffers = use.program.bound_buffers
        if len(arrays) != len(buffers) or sum(array.nbytes for array in arrays) > MOST_BYTES:
            continue
        known = [
            array if array.size else np.zeros(shape_of(b, use.program, grid))
            for array, b in zip(arrays, buffers, strict=True)
        ]
        whole = _alone("kernel", case.name, module, use.program, grid, known, dict(use.params or {}))
        yield _tolerant(whole, 2 * np.asarray(use.bound)) if use.order_varies else whole


def _tolerant(case: Case, tolerance: Array) -> Case:
    """The case with a tolerance of its only output."""
    (output,) = [storage for storage in case.storage.values() if storage.is_output]
    tolerance = np.broadcast_to(tolerance, output.contents.shape)
    return replace(case, storage=case.storage | {output.name: replace(output, tolerance=tolerance)})


# --- pipelines


def _pipelines() -> Iterator[Case]:
    """Every pipeline of the examples, as it is written and as the default passes leave it."""
    for path in sorted(PIPELINES.glob("*.vyre")):
        module = parse(path.read_text(encoding="utf-8"))
        PassManager("expand_kernels").run(module)
        text = print_program(module)
        inputs = plain_inputs(text, INPUTS)
        yield _pipeline("pipeline", path.stem, module, inputs)
        fused = parse(text)
        PassManager("default").run(fused)
        yield _pipeline("pipeline after the default passes", path.stem, fused, inputs)


def _pipeline(kind: str, name: str, module: Module, inputs: Mapping[str, Array]) -> Case:
    """The launches of @main in order.  All of its buffers are compared, also those between launches."""
    pipeline = module.pipelines["main"]
    storage = {b.name: _storage(b.name, b, inputs.get(b.name), True) for b in pipeline.buffers.values()}
    launches = []
    for number, stage in enumerate(_unrolled(pipeline.stages)):
        program = module.programs[stage.program]
        own = storage_buffers(program)[len(stage.buffers) :]
        names = [f"launch {number}: {b.name}" for b in own]
        storage |= {name: _storage(name, b, None) for name, b in zip(names, own, strict=True)}
        grid = stage.workgroups(pipeline.static_lengths)
        launches.append(ProgramLaunch(program, grid, (*stage.buffers, *names)))
    return Case(kind, name, module, storage, launches)


def _unrolled(stages: list[Stage]) -> Iterator[Launch]:
    """Launches in the order in which they run."""
    for stage in stages:
        if isinstance(stage, Repeat):
            for _ in range(stage.times):
                yield from _unrolled(stage.stages)
        elif isinstance(stage, Launch):
            yield stage
