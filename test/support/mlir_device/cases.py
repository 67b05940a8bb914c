"""The programs to compare: random ones, one for each op and type, and the shipped kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.generator import random_program
from support.kernel_cases import kernel_cases
from support.op_programs import op_programs
from support.sample import random_inputs, shape_of
from vyre_opt.ir.program import Dim3, Module, Program

__all__ = ["Case", "cases"]

INPUTS = 1
"""The seed of inputs."""


@dataclass(frozen=True, slots=True)
class Case:
    """`arrays`: one for each bound buffer, in binding order.  `params`: the words of runtime scalars that have no default."""

    name: str
    program: Program
    module: Module
    grid: Dim3
    arrays: list[np.ndarray[Any, Any]]
    params: dict[str, int]


def cases(random: int, ops: int, kernels: int) -> Iterator[Case]:
    """`random`: how many random programs; `ops`, `kernels`: every n-th of those of ops and of kernels, 0 for none."""
    for seed in range(random):
        sample = random_program(seed)
        arrays = random_inputs(sample.program, sample.grid, INPUTS)
        yield Case(f"seed {seed}", sample.program, sample.module, sample.grid, arrays, {})
    if ops:
        for case in [*op_programs()][::ops]:
            yield Case(case.name, case.program, case.module, case.grid, case.inputs(INPUTS), {})
    if kernels:
        yield from _kernels(kernels)


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
        yield Case(case.name, use.program, module, grid, known, dict(use.params or {}))
