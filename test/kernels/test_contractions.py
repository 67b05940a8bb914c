"""The array functions matvec_fixed, tt_contract_step, tt_chain and tt_embedding; their programs are in
test/support/kernel_cases."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import pytest
from support.quick import quick

from vyre_opt import dispatcher, kernels
from vyre_opt.execution import BadInputs
from vyre_opt.kernels.embedding import EmbeddingShape
from vyre_opt.kernels.embedding_merge import MOST_GROWTH, merged_groups, merged_shape


def test_products_round_down(target: str) -> None:
    """-1/65536 times 1/2 is shifted to -1/65536, not to 0."""
    m, x = np.array([-1, 1], np.int32), np.array([1 << 15], np.int32)
    assert kernels.matvec_fixed(m, x, dispatcher=target).tolist() == [-1, 0]


def test_matrices_of_arrays(target: str) -> None:
    """A matrix has a row for each output; a core has a row for each input."""
    one = 1 << 16
    m = np.array([[one, 2 * one, 0], [0, one, one]], np.uint32)
    x = np.array([3, 5, 7], np.uint32)
    assert kernels.matvec_fixed(m, x, dispatcher=target).tolist() == [13, 12]
    out = kernels.tt_contract_step(np.array([3, 5], np.uint32), m, dispatcher=target)
    assert out.tolist() == [3, 11, 5]
    with pytest.raises(BadInputs, match=r"a matrix of shape \(2, 3\) has no rows of 2"):
        kernels.matvec_fixed(m, x[:2], dispatcher=target)


@pytest.mark.parametrize("seed", quick(range(3)))
def test_matrices_of_random_shapes(seed: int, target: str) -> None:
    """Against integers of Python, that have no width; long rows among them, which workgroups of a GPU share."""
    rng = np.random.default_rng(seed)
    shapes = [(1, 1), (1, int(rng.integers(66_000, 80_000))), (int(rng.integers(2000)), 1)]
    shapes += [(int(rng.integers(1, 12)), int(rng.integers(1, 3000))) for _ in range(3)]
    for rows, columns in shapes:
        m = rng.integers(0, 2**32, (rows, columns), dtype=np.uint32)
        x = rng.integers(-(2**31), 2**31, columns).astype(np.int32)
        out = kernels.matvec_fixed(m, x, dispatcher=target)
        terms = x.tolist()
        expected = [
            sum(a * b >> 16 for a, b in zip(row, terms, strict=True)) for row in m.view(np.int32).tolist()
        ]
        assert out.tolist() == [total % 2**32 for total in expected], (rows, columns)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_contractions_of_several_vectors(dtype: type, target: str, rng: np.random.Generator) -> None:
    """As NumPy multiplies them; one vector as a row, too, and none."""
    core = rng.standard_normal((40, 33)).astype(dtype)
    for count in (1, 7, 0):
        acc = rng.standard_normal((count, 40)).astype(dtype)
        out = kernels.tt_contract_step(acc, core, dispatcher=target)
        assert out.shape == (count, 33)
        assert out.dtype == dtype
        expected = acc.astype(np.float64) @ core.astype(np.float64)
        assert np.abs(out - expected).max(initial=0) <= (1e-5 if dtype is np.float32 else 2e-2)


def test_wrong_contractions_of_several_vectors() -> None:
    core = np.ones((3, 4), np.float32)
    for acc, matrix, message in (
        (np.ones((2, 4), np.float32), core, r"acc has shape \(2, 4\) and the core \(3, 4\)"),
        (np.ones((2, 3, 3), np.float32), core, r"not \(n, rows\) and \(rows, columns\)"),
        (np.ones((2, 3), np.float32), core.reshape(-1), r"the core \(12,\)"),
        (np.ones((2, 3), np.int32), core, "acc of several vectors holds f32"),
        (np.ones((2, 3), np.float32), core.astype(np.float16), "core holds f32"),
    ):
        with pytest.raises(BadInputs, match=message):
            kernels.tt_contract_step(acc, matrix)


@pytest.mark.parametrize(
    "ranks",
    quick(
        [(5,), (64, 64, 64, 64), (7, 3, 9, 1), (525, 525, 525), (7, 3), (1, 40, 40, 33, 2)],
        keep=3,
        one_parameter=True,
    ),
)
def test_prepared_chain(ranks: tuple[int, ...], target: str, rng: np.random.Generator) -> None:
    """A vector, or rows of vectors, as NumPy multiplies them; a chain keeps its own cores."""
    shapes = list(itertools.pairwise((4, *ranks)))
    cores = [rng.standard_normal(shape).astype(np.float32) / np.float32(shape[0] ** 0.5) for shape in shapes]
    chain = kernels.TTChain(cores, dispatcher=target)
    assert chain.ranks == (4, *ranks)
    rows = rng.standard_normal((5, 4)).astype(np.float32)
    expected = rows.astype(np.float64)
    for core in cores:
        expected = expected @ core
        core[:] = np.nan
    for vectors, exact in ((rows, expected), (rows[:1], expected[:1]), (rows[2], expected[2])):
        actual = chain(vectors)
        assert actual.shape == exact.shape
        assert np.abs(actual - exact).max() <= 1e-5 * np.abs(expected).max()
    assert chain(rows[:0]).shape == (0, ranks[-1])
    out = np.zeros((5, ranks[-1]), np.float32)
    assert chain(rows, out=out) is out
    assert np.array_equal(out, chain(rows))


@pytest.mark.parametrize("dtype", quick([np.uint32, np.int32]))
def test_prepared_chain_of_fixed_point(dtype: type, target: str, rng: np.random.Generator) -> None:
    """The bits of tt_chain, row by row."""
    cores = [rng.integers(-(2**18), 2**18, shape).astype(dtype) for shape in ((6, 50), (50, 50), (50, 3))]
    rows = rng.integers(-(2**18), 2**18, (4, 6)).astype(dtype)
    chain = kernels.TTChain(cores, dispatcher=target)
    for row, result in zip(rows, chain(rows), strict=True):
        expected = kernels.tt_chain(row, cores, dispatcher=target)
        assert np.array_equal(result, expected)
        assert np.array_equal(chain(row), expected)


def test_prepared_chain_of_large_cores_is_a_launch_for_each(rng: np.random.Generator) -> None:
    threads = dispatcher("cpu", workers=2)
    cores = [rng.standard_normal((1500, 1500)).astype(np.float32) / 35 for _ in range(3)]
    x, out = rng.standard_normal(1500).astype(np.float32), np.zeros(1500, np.float32)
    assert kernels.TTChain(cores, dispatcher=threads)(x, out=out) is out
    expected = x.astype(np.float64) @ cores[0] @ cores[1] @ cores[2]
    assert np.abs(out - expected).max() <= 1e-5 * np.abs(expected).max()


def test_wrong_prepared_chains() -> None:
    one = np.ones((3, 4), np.float32)
    for cores, message in (
        ([], "a chain has at least one core"),
        (3, "cores: a list is wanted, not int"),
        ([one, one], r"core 1 has shape \(3, 4\), not \(4, ranks\)"),
        ([one[0]], r"core 0 has shape \(4,\), not \(ranks, ranks\)"),
        ([one[:0]], "ranks are 1 to 4096"),
        ([one.astype(np.float64)], "core 0 holds f32, u32, i32, not float64"),
        ([one, np.ones((4, 4), np.int32)], "core 1 holds"),
    ):
        with pytest.raises(BadInputs, match=message):
            kernels.TTChain(cores)
    chain = kernels.TTChain([one])
    for acc in (
        np.ones(4, np.float32),
        np.ones((2, 2, 3), np.float32),
        np.float32(1),
        np.ones((2, 4), np.float32),
    ):
        with pytest.raises(BadInputs, match="acc has shape"):
            chain(acc)
    with pytest.raises(BadInputs, match="acc holds"):
        chain(np.ones(3, np.int32))


def test_chain_of_arrays(target: str) -> None:
    """Shapes must follow each other; no core is no step."""
    acc = np.array([1, 2], np.float32)
    cores = [np.ones((2, 3), np.float32), np.full((3, 1), 2, np.float32)]
    assert kernels.tt_chain(acc, cores, dispatcher=target).tolist() == [18]
    assert kernels.tt_chain(acc, [], dispatcher=target).tolist() == [1, 2]
    with pytest.raises(
        BadInputs, match=r"core 1 has shape \(2, 3\), and core 0 gives a vector of 3 elements"
    ):
        kernels.tt_chain(acc, [cores[0], cores[0]], dispatcher=target)


def tables(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.standard_normal(s).astype(np.float32) for s in ((3, 1, 2, 5), (4, 5, 3, 1))]


@pytest.mark.parametrize("dtype", quick(["u4", "f4", "i4"], keep=1))
def test_chain_of_several_launches(rng: np.random.Generator, dtype: str) -> None:
    """As its steps one by one, `out` too; what does not fit is refused before anything runs."""
    ranks = [5, 1500, 1400, *[3] * 14, 600, 500, 2]
    acc = rng.integers(-9, 9, 5).astype(dtype)
    cores = [rng.integers(-9, 9, size).astype(dtype) for size in itertools.pairwise(ranks)]
    if dtype != "f4":
        acc, cores = acc << 16, [core << 8 for core in cores]
    expected = acc
    for core in cores:
        expected = kernels.tt_contract_step(expected, core)
    for workers in (1, 2):
        target = dispatcher("cpu", workers=workers)
        np.testing.assert_allclose(kernels.tt_chain(acc, cores, dispatcher=target), expected, rtol=1e-4)
        out = np.zeros(2, dtype)
        assert kernels.tt_chain(acc, cores, dispatcher=target, out=out) is out
        np.testing.assert_allclose(out, expected, rtol=1e-4)
        with pytest.raises(
            BadInputs, match=r"core 18 has shape \(7, 2\), and core 17 gives a vector of 500 elements"
        ):
            kernels.tt_chain(acc, [*cores[:-1], cores[-1][:7]], dispatcher=target)


def test_embedding_of_arrays(rng: np.random.Generator, target: str) -> None:
    """Shape of the indices, then the row; bf16 by its bits."""
    first, second = tables(rng)
    indices = np.array([[0, 11], [7, 4]], np.uint32)
    whole = np.einsum("iar,jrb->ijab", first[:, 0], second[..., 0]).reshape(12, 6)
    rows = kernels.tt_embedding([first, second], indices, dispatcher=target)
    np.testing.assert_allclose(rows, whole[indices], rtol=1e-5, atol=1e-5)
    bits = [(core.view(np.uint32) >> 16).astype(np.uint16) for core in (first, second)]
    narrow = kernels.tt_embedding(bits, indices, dtype="bf16", dispatcher=target)
    assert narrow.dtype == np.uint16
    rounded = (narrow.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(rounded, whole[indices], rtol=0.05, atol=0.05)


MERGED = (
    ((3, 4, 5), (2, 3, 2), (20, 30), 2),
    ((3, 4, 2, 3), (2, 2, 2, 2), (9, 20, 7), 2),
    ((16, 16, 16, 16), (4, 4, 2, 2), (8, 8, 8), 3),
    ((5, 6), (2, 2), (3,), 2),
    ((30, 40, 50), (4, 4, 4), (2, 2), 3),
)


@pytest.mark.parametrize(
    ("p", "q", "r", "stored", "bf16"),
    quick([(*table, (k + shift) % 2 == 1) for shift in (0, 1) for k, table in enumerate(MERGED)], keep=3),
)
def test_table_of_merged_cores(
    rng: np.random.Generator,
    p: tuple[int, ...],
    q: tuple[int, ...],
    r: tuple[int, ...],
    stored: int,
    bf16: bool,
) -> None:
    """It has the rows of the cores as they are, in memory that is bounded."""
    shape = EmbeddingShape(p, q, r)
    groups = merged_groups(shape)
    assert len(groups) == stored
    assert merged_shape(shape, groups).elements <= MOST_GROWTH * shape.elements
    sizes = [(p[k], shape.ranks[k], q[k], shape.ranks[k + 1]) for k in range(len(p))]
    cores = [rng.standard_normal(size).astype(np.float32) for size in sizes]
    dtype = "bf16" if bf16 else None
    if bf16:
        cores = [(core.view(np.uint32) >> 16).astype(np.uint16) for core in cores]
    indices = rng.integers(0, prod(p), 50)
    rows = kernels.TTTable(cores, dtype=dtype)(indices)
    expected = kernels.tt_embedding(cores, indices, dtype=dtype)
    assert rows.dtype == expected.dtype
    if bf16:
        rows, expected = ((a.astype(np.uint32) << 16).view(np.float32) for a in (rows, expected))
    worst = np.abs(rows - expected).max() / np.abs(expected).max()
    assert worst < (2e-2 if bf16 else 1e-5)


def test_merging_stays_within_32_bits() -> None:
    shape = EmbeddingShape((4, 1 << 22, 4), (8, 4, 8), (8, 8))
    assert merged_groups(shape) == [(0, 1), (1, 2), (2, 3)]


def test_embedding_of_wrong_arrays(rng: np.random.Generator, target: str) -> None:
    cores = tables(rng)
    with pytest.raises(BadInputs, match="index 12 of a table of 12 rows"):
        kernels.tt_embedding(cores, [12], dispatcher=target)
    with pytest.raises(BadInputs, match="2 to 4 cores"):
        kernels.tt_embedding([np.ones((2, 1, 2, 1), np.float32)], [0], dispatcher=target)
    with pytest.raises(BadInputs, match=r"core 1 has shape \(3, 1, 2, 5\), not \[p, 5, q, r\]"):
        kernels.tt_embedding([cores[0], cores[0]], [0], dispatcher=target)
    assert kernels.tt_embedding(cores, np.zeros((2, 0), np.uint32), dispatcher=target).shape == (2, 0, 6)
    assert kernels.tt_embedding(cores, [], dispatcher=target).shape == (0, 6)
    for mask in (np.zeros(0, bool), np.zeros(3, bool)):
        with pytest.raises(BadInputs, match="indices holds bool, not integers"):
            kernels.TTTable(cores, dispatcher=target)(mask)
