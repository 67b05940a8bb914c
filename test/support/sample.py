"""A generated program with its grid, and inputs for it: edge values first, then anything."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from vyre_opt.execution.arrays import bits_type, storage_type
from vyre_opt.ir import AccessMode, Buffer, DataType, Module, Program, arith
from vyre_opt.ir.program import Dim3

MAX_SLOTS = 4
"""Elements of one buffer that one invocation owns, at most."""

OPEN_INPUT_EXTENT = 5
"""Of the first dimension of an input of several, where it is open; the others have one more each."""

MAX_DRAWN = 4096
"""Elements of an array that are drawn; a larger one has them over and over."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A program to run over `grid`, and the module with the functions it calls.

    `sound` is True for a program without races or reads of nothing, False for one that
    has some on purpose, None where only running it tells.
    """

    module: Module
    program: Program
    grid: Dim3
    seed: int
    sound: bool | None = True


def invocations(program: Program, grid: Dim3) -> int:
    x, y, z = grid
    return program.lanes * x * y * z


def open_count(program: Program, grid: Dim3) -> int:
    """Elements of a bound buffer of open size: MAX_SLOTS an invocation."""
    return invocations(program, grid) * MAX_SLOTS


def shape_of(buffer: Buffer, program: Program, grid: Dim3) -> tuple[int, ...]:
    """The extents of the array for a bound buffer, in elements; open ones are as large as a program here needs.

    Of several dimensions, those of an input may all be open, since programs ask for their lengths.  Any other buffer
    has one open extent, for all that invocations number along it.
    """
    if buffer.dimensions == 1:
        return (open_count(program, grid) if buffer.count is None else buffer.count,)
    if buffer.access is AccessMode.READ:
        opened = [OPEN_INPUT_EXTENT + dimension for dimension in range(buffer.dimensions)]
    else:
        x, y, z = grid
        # workgroups come along the first dimension, perhaps with lanes or slots; both of these along the others
        opened = [x * y * z * max(program.lanes, MAX_SLOTS) + 1]
        opened += [program.lanes * MAX_SLOTS + 1] * (buffer.dimensions - 1)
    return tuple(
        most if extent is None else extent for extent, most in zip(buffer.shape, opened, strict=True)
    )


def edge_values(dtype: DataType) -> list[int]:
    """Encoded constants of a scalar type at which arithmetic goes wrong first."""
    if dtype.is_bool:
        return [0, 1]
    if dtype.is_float:
        numbers = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            3.0,
            1e-3,
            65504.0,
            -2.5,
            float("inf"),
            float("-inf"),
            float("nan"),
        ]
        bits = dtype.bits or 0
        largest = arith.encode_float(float("inf"), dtype) - 1
        return [*(arith.encode_float(n, dtype) for n in numbers), 1, 1 << (bits - 1) | 1, largest]
    low, high = arith.int_range(dtype)
    near = {low, low + 1, high, high - 1, high // 2, 0, 1, 2, 3, 7, dtype.bits or 0, (dtype.bits or 0) - 1}
    return sorted(near | ({-1, -2} if dtype.is_signed else set()))


def random_bits(dtype: DataType, rng: random.Random) -> int:
    """An encoded constant of a scalar type: an edge value, a small number, or any bits."""
    kind = rng.random()
    if kind < 0.35 or dtype.is_bool:
        return rng.choice(edge_values(dtype))
    if dtype.is_float:
        if kind < 0.85:
            return arith.encode_float(rng.choice((rng.uniform(-8, 8), float(rng.randrange(-20, 20)))), dtype)
        return rng.getrandbits(dtype.bits or 0)
    if kind < 0.7:
        return arith.wrap(rng.randrange(-4 if dtype.is_signed else 0, 40), dtype)
    return arith.wrap(rng.getrandbits(dtype.bits or 0), dtype)


def random_array(dtype: DataType, shape: Sequence[int], rng: random.Random) -> np.ndarray[Any, Any]:
    """The elements of a buffer of that shape in storage form; of one dimension flat over the lanes of vectors."""
    element, size = dtype.element, prod(shape) * dtype.lanes
    stored = storage_type(element)
    assert stored is not None, f"no array holds {dtype}"
    patterns = [arith.to_bits(random_bits(element, rng), element) for _ in range(min(size, MAX_DRAWN))]
    flat = np.resize(np.array(patterns, dtype=bits_type(element)), size).view(stored)
    if len(shape) == 1:
        return flat
    return flat.reshape((*shape, dtype.lanes) if dtype.is_vec else tuple(shape))


def random_inputs(program: Program, grid: Dim3, seed: int) -> list[np.ndarray[Any, Any]]:
    """An array for each bound buffer."""
    rng = random.Random(seed)
    return [random_array(b.dtype, shape_of(b, program, grid), rng) for b in program.bound_buffers]
