"""math.matvec_fixed, tt.contract_step, tt.chain and tt.embedding, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod

import numpy as np
import pytest

from vyre_opt import kernels
from vyre_opt.ir.types import DataType
from vyre_opt.kernels.chain import ChainSchedule, chain
from vyre_opt.kernels.embedding import (
    EmbeddingSchedule,
    EmbeddingShape,
    embedding,
    embedding_grid,
    embedding_schedule,
)
from vyre_opt.kernels.matvec import MatvecSchedule, matvec_fixed
from vyre_opt.kernels.tensor_train import StepSchedule, contract_step
from vyre_opt.runtime.dispatcher import BadInputs
from vyre_opt.runtime.ref import kernels as reference

Once = Callable[..., np.ndarray]
TYPES = {"u32": DataType.U32, "i32": DataType.I32, "f32": DataType.F32}


def draw(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    """Every bit pattern of the integers; floats of about 1."""
    if dtype == "f32":
        return rng.standard_normal(shape).astype(np.float32)
    return rng.integers(0, 2**32, shape, dtype=np.uint32).view({"u32": np.uint32, "i32": np.int32}[dtype])


def check(got: np.ndarray, expected: np.ndarray, terms: int = 1) -> None:
    assert got.dtype == expected.dtype
    if got.dtype == np.float32:
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-6 * terms)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 33), (33, 5), (7, 1000), (2, 4097)])
@pytest.mark.parametrize("dtype", ["u32", "i32"])
def test_matvec_fixed(once: Once, rng: np.random.Generator, rows: int, columns: int, dtype: str) -> None:
    m, x = draw(rng, dtype, rows, columns), draw(rng, dtype, columns)
    expected = reference.matvec_fixed(m.reshape(-1), x)
    check(kernels.matvec_fixed(m, x, dispatcher="ref"), expected)
    program = matvec_fixed(TYPES[dtype], MatvecSchedule(2, strided=True))
    check(once(program, [m.reshape(-1), x, np.zeros(rows, x.dtype)], 3), expected)


def test_products_round_down() -> None:
    """-1/65536 times 1/2 is shifted to -1/65536, not to 0."""
    m, x = np.array([-1, 1], np.int32), np.array([1 << 15], np.int32)
    assert kernels.matvec_fixed(m, x, dispatcher="ref").tolist() == [-1, 0]


@pytest.mark.parametrize(("inner", "outer"), [(1, 1), (1, 300), (300, 1), (33, 31), (64, 4097)])
@pytest.mark.parametrize("dtype", TYPES)
def test_contract_step(once: Once, rng: np.random.Generator, inner: int, outer: int, dtype: str) -> None:
    acc, core = draw(rng, dtype, inner), draw(rng, dtype, inner, outer)
    expected = reference.contract_step(acc, core.reshape(-1))
    check(kernels.tt_contract_step(acc, core, dispatcher="ref"), expected, inner)
    program = contract_step(TYPES[dtype], StepSchedule(32, 3))
    check(once(program, [acc, core.reshape(-1), np.zeros(outer, acc.dtype)], 2), expected, inner)


@pytest.mark.parametrize(
    "ranks", [(1, 1), (1, 5), (7, 3, 3, 3, 2), (64,) * 4, (33,) * 4, (300, 70, 300), (16,) * 6]
)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("schedule", [None, ChainSchedule(32, 2), ChainSchedule(128, 4, 0)])
def test_chain(
    once: Once, rng: np.random.Generator, ranks: tuple[int, ...], dtype: str, schedule: ChainSchedule | None
) -> None:
    """Loops with a core loaded ahead and without, one slice and many, every type."""
    acc = draw(rng, dtype, ranks[0])
    cores = [draw(rng, dtype, x, y) for x, y in pairwise(ranks)]
    if dtype == "f32":
        cores = [core / np.float32(np.sqrt(len(core))) for core in cores]
    expected = acc.astype(np.float64) if dtype == "f32" else acc
    for core in cores:
        step = expected @ core if dtype == "f32" else reference.contract_step(expected, core.reshape(-1))
        expected = step
    joined = np.concatenate([core.reshape(-1) for core in cores])
    out = once(chain(ranks, TYPES[dtype], schedule), [acc, joined, np.zeros(ranks[-1], acc.dtype)], 1)
    check(out, expected.astype(acc.dtype), len(ranks))


def test_chain_of_arrays() -> None:
    """Shapes must follow each other; no core is no step."""
    acc = np.array([1, 2], np.float32)
    cores = [np.ones((2, 3), np.float32), np.full((3, 1), 2, np.float32)]
    assert kernels.tt_chain(acc, cores, dispatcher="ref").tolist() == [18]
    assert kernels.tt_chain(acc, [], dispatcher="ref").tolist() == [1, 2]
    with pytest.raises(BadInputs, match=r"core 1 has shape \(2, 3\); it takes a vector of 3"):
        kernels.tt_chain(acc, [cores[0], cores[0]], dispatcher="ref")


# --- embedding ---------------------------------------------------------------------------

SHAPES = [
    EmbeddingShape((3, 4), (2, 3), (5,)),
    EmbeddingShape((20, 22, 25), (4, 4, 4), (16, 16)),
    EmbeddingShape((3, 1, 2, 4), (1, 3, 2, 2), (3, 8, 4)),
    EmbeddingShape((5, 6, 7), (4, 4, 4), (64, 64)),
]


def tables(rng: np.random.Generator, shape: EmbeddingShape) -> list[np.ndarray]:
    d = len(shape.p)
    sizes = [(shape.p[k], shape.ranks[k], shape.q[k], shape.ranks[k + 1]) for k in range(d)]
    return [(rng.standard_normal(s) / np.sqrt(s[1])).astype(np.float32) for s in sizes]


def rows_of(cores: list[np.ndarray], indices: np.ndarray) -> np.ndarray:
    """One lookup after the other, by einsum."""
    found = []
    for digits in zip(*np.unravel_index(indices, [c.shape[0] for c in cores]), strict=True):
        row = np.ones((1, 1))
        for core, digit in zip(cores, digits, strict=True):
            row = np.einsum("ar,rqs->aqs", row, core[digit].astype(np.float64)).reshape(-1, core.shape[3])
        found.append(row.reshape(-1))
    return np.array(found)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [1, 2, 33])
def test_embedding(once: Once, rng: np.random.Generator, shape: EmbeddingShape, count: int) -> None:
    cores = tables(rng, shape)
    indices = rng.integers(0, prod(shape.p), count).astype(np.uint32)
    indices[0] = prod(shape.p) - 1
    expected = rows_of(cores, indices)
    np.testing.assert_allclose(
        kernels.tt_embedding(cores, indices, dispatcher="ref"), expected, rtol=1e-4, atol=1e-4
    )
    joined = np.concatenate([c.reshape(-1) for c in cores])
    schedule = EmbeddingSchedule(32, 2, 4, 1, strided=True)
    out = once(
        embedding(shape, DataType.F32, schedule), [joined, indices, np.zeros(expected.size, np.float32)], 2
    )
    np.testing.assert_allclose(out.reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)


def test_embedding_of_bf16(once: Once, rng: np.random.Generator) -> None:
    """bf16 in, f32 sums, f32 or bf16 out."""
    shape = SHAPES[1]
    bits = [(c.view(np.uint32) >> 16).astype(np.uint16) for c in tables(rng, shape)]
    cores = [(c.astype(np.uint32) << 16).view(np.float32) for c in bits]
    indices = rng.integers(0, prod(shape.p), 9).astype(np.uint32)
    expected = rows_of(cores, indices)
    schedule = embedding_schedule(shape)
    program = embedding(shape, DataType.BF16, schedule, DataType.F32)
    joined = np.concatenate([c.reshape(-1) for c in bits])
    wide = once(program, [joined, indices, np.zeros(expected.size, np.float32)], embedding_grid(schedule, 9))
    np.testing.assert_allclose(wide.reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)
    narrow = kernels.tt_embedding(bits, indices, dtype="bf16", dispatcher="ref")
    rounded = (narrow.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(rounded, expected, rtol=2.0**-8, atol=1e-4)


def test_embedding_of_wrong_arrays(rng: np.random.Generator) -> None:
    cores = tables(rng, SHAPES[0])
    with pytest.raises(BadInputs, match="index 12 of a table of 12 rows"):
        kernels.tt_embedding(cores, [12], dispatcher="ref")
    with pytest.raises(BadInputs, match="2 to 4 cores"):
        kernels.tt_embedding([np.ones((2, 1, 2, 1), np.float32)], [0], dispatcher="ref")
    with pytest.raises(BadInputs, match=r"core 1 has shape \(3, 1, 2, 5\), not \[p, 5, q, r\]"):
        kernels.tt_embedding([cores[0], cores[0]], [0], dispatcher="ref")
    assert kernels.tt_embedding(cores, np.zeros((2, 0), np.uint32), dispatcher="ref").shape == (2, 0, 6)
