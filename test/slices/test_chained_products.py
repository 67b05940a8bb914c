"""Products of what products give, as attention has them: by units, from registers, beside NumPy.  Of small integers every order gives the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from support.quick import quick

import vyre_opt as vyre
from vyre_opt import Read, Write, bf16, dispatcher, f16, f32
from vyre_opt.ir import Program
from vyre_opt.passes import PassManager

Array = np.ndarray[Any, Any]


def chained(rows: int, keys: int, size: int, dtype: Any, is_triangle: bool) -> Any:
    @vyre.program
    def chained(
        q: Read[dtype[:, :]],
        k: Read[dtype[:, :]],
        v: Read[dtype[:, :]],
        y: Write[f32[:, :]],
        most: Write[f32],
    ) -> None:
        i = vyre.workgroup_id(0) * rows
        query = q.filled(0)[i : i + rows, 0:size]
        largest, total = vyre.full((rows,), -64.0, f32), vyre.zeros((rows, size), f32)
        for j in range(0, k.shape[0], keys):
            score = query @ k.filled(0)[j : j + keys, 0:size].T
            place = j + vyre.arange(keys)
            if is_triangle:
                score = vyre.where(place[None, :] <= (i + vyre.arange(rows))[:, None], score, -64.0)
            score = vyre.where(place < k.shape[0], score, -64.0)
            largest = vyre.max(largest, vyre.max(score, axis=1))
            odd = vyre.max(score - largest[:, None], -8.0)
            total = total * 0.5 + largest[:, None]
            total = (
                total + dtype(odd) @ v.filled(0)[j : j + keys, 0:size] * (1 + vyre.min(odd, axis=1))[:, None]
            )
        y[i : i + rows, 0:size] = total
        most[i : i + rows] = largest

    return chained


def expected(q: Array, k: Array, v: Array, keys: int, is_triangle: bool) -> tuple[Array, Array]:
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    largest, total = np.full(len(q), -64.0), np.zeros((len(q), q.shape[1]))
    for j in range(0, len(k), keys):
        pad = keys - len(k[j : j + keys])
        block, values = (np.pad(each[j : j + keys], ((0, pad), (0, 0))) for each in (k, v))
        score, place = q @ block.T, j + np.arange(keys)
        if is_triangle:
            score = np.where(place <= np.arange(len(q))[:, None], score, -64.0)
        score = np.where(place < len(k), score, -64.0)
        largest = np.maximum(largest, score.max(1))
        odd = np.maximum(score - largest[:, None], -8.0)
        total = total * 0.5 + largest[:, None] + (odd @ values) * (1 + odd.min(1))[:, None]
    return total, largest


def lowered(program: Program, options: str) -> Program:
    module = vyre.parse(vyre.print_program(program))
    PassManager(f"lower_slices{{{options}}}", target="sm_90a").run(module)
    return module.programs[program.name]


CASES = [("ref", 0), ("cpu", 1), *((target, seed) for seed in range(2, 40) for target in ("ref", "cpu"))]


@pytest.mark.parametrize(("target", "seed"), quick(CASES, keep=2))
def test_blocks_beside_numpy(target: str, seed: int) -> None:
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    rows, keys = rng.choice([16, 32, 64]), rng.choice([16, 32, 64])
    size, dtype = rng.choice([16, 32, 64]), rng.choice([f16, bf16])
    queries, count, width = rng.randint(1, 90), rng.randint(1, 200), rng.randint(1, size)
    is_triangle = rng.random() < 0.5
    q, k, v = (draw.integers(-1, 2, (n, width)) for n in (queries, count, count))
    program = chained(rows, keys, size, dtype, is_triangle).module.programs["chained"]
    units, stages = rng.choice(["subgroups", "warpgroups", "none"]), rng.randint(1, 3)
    program = lowered(program, f"units={units} stages={stages}")
    arrays = [each.astype(np.float16) for each in (q, k, v)]
    if dtype is bf16:
        arrays = [(each.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for each in (q, k, v)]
    outputs = [np.zeros((queries, width), np.float32), np.zeros(queries, np.float32)]
    grid = -(-queries // rows), 1, 1
    found = dispatcher(target).dispatch(program, [*arrays, *outputs], grid)
    for one, other in zip(found, expected(q, k, v, keys, is_triangle), strict=True):
        np.testing.assert_array_equal(np.asarray(one).reshape(other.shape), other)


def test_sums_stay_in_registers() -> None:
    """Between products nothing goes through memory: not scores, not the values of rows, not the weights that are the next factor."""
    program = chained(64, 64, 64, bf16, True).module.programs["chained"]
    program = lowered(program, "units=warpgroups")
    loop = next(op for op in program.body.ops if op.name == "for" and len(op.results) > 2)
    names = [op.name for op in loop.walk()]
    assert names.count("barrier") == 1
    assert "matrix_store" not in names
    written = {op.attrs["buffer"] for op in loop.walk() if op.name in ("store", "copy_async")}
    assert written == {"right.0.bf16", "right.1.bf16"}


def test_whole_blocks_are_not_compared() -> None:
    """A comparison for each element stands in a branch, for blocks at the edge and on the diagonal."""
    program = chained(64, 64, 64, bf16, True).module.programs["chained"]
    program = lowered(program, "units=warpgroups")
    loop = next(op for op in program.body.ops if op.name == "for" and len(op.results) > 2)
    outside = [op for op in loop.regions[0].ops if op.name == "le"]
    assert len(outside) <= 2
    assert sum(op.name == "le" for op in loop.walk()) > 16
