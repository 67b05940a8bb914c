"""Matrices in Python kernels, beside NumPy; and what is wrong about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.modules import written_module

import vyre_opt

HEAD = """import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, bf16, f16, f32, i8, i32, u32


@vyre.program(workgroup=64)
def kernel({arguments}):
    s = vyre.subgroup_id()
    r = (vyre.workgroup_id(0) * 2 + s) * 32
    {body}
"""


def kernel(folder: Path, arguments: str, body: str) -> Any:
    text = HEAD.format(arguments=arguments, body=body.replace("\n", "\n    "))
    return written_module(folder, text, "matrices").kernel


TILED = """n = vyre.workgroup_id(1) * 32
total = vyre.matrix(32, 32, f32)
tile = vyre.shared(f16, (64, 16))
for k in range(0, a.shape[1], 16):
    x = vyre.matrix_load(a, (r, k), 32, 16)
    vyre.matrix_store(tile, (s * 32, 0), x)
    vyre.barrier()
    left = vyre.matrix_load(tile, (s * 32, 0), 32, 16, "a")
    right = vyre.matrix_load(b, (n, k), 16, 32, use="b", layout="column_major")
    total = vyre.matrix_mul_add(left, right, total)
    vyre.barrier()
total = total * 0.5 + vyre.matrix_load(bias, n, 32, 32)
total = max(total, vyre.matrix(32, 32, f32, -1.0))
vyre.matrix_store(c, (r, n), f16(total))"""


def test_a_product_with_an_epilogue(tmp_path: Path) -> None:
    """By way of shared memory; the right factor is held transposed; a bias for each column, and a bound."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((128, 48), (64, 48)))
    bias, c = rng.standard_normal(64).astype(np.float32), np.zeros((128, 64), np.float16)
    arguments = "a: Read[f16[:, :]], b: Read[f16[:, :]], bias: Read[f32], c: Write[f16[:, :]]"
    kernel(tmp_path, arguments, TILED)[2, 2](a, b, bias, c)
    expected = np.maximum(a.astype(np.float64) @ b.T.astype(np.float64) / 2 + bias, -1)
    np.testing.assert_allclose(c, expected, rtol=2**-10, atol=2**-14)


def test_sums_become_factors(tmp_path: Path) -> None:
    """(a b) d of whole numbers, with i8 read, and cast, without a store between; a condition on the subgroup."""
    body = """x = vyre.matrix_cast(vyre.matrix_load(a, (r, 0), 32, 16), f32)
left = vyre.matrix_cast(x, bf16, "a")
one = vyre.matrix(16, 16, bf16, 1, "b")
if s == 1:
    left = left + left
vyre.matrix_store(c, (r, 0), i32(vyre.matrix_mul_add(left, one, vyre.matrix(32, 16, f32, u32(s) == 7 and 1.0 or 0.0))))"""
    body = body.replace("u32(s) == 7 and 1.0 or 0.0", "f32(s)")
    a = np.random.default_rng(1).integers(-100, 100, (64, 16)).astype(np.int8)
    c = np.zeros((64, 16), np.int32)
    kernel(tmp_path, "a: Read[i8[:, :]], c: Write[i32[:, :]]", body)[1](a, c)
    sums = a.astype(np.int32).sum(axis=1, keepdims=True)
    sums = np.where(np.arange(64)[:, None] >= 32, 2 * sums + 1, sums)
    np.testing.assert_array_equal(c, np.broadcast_to(sums, c.shape))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("vyre.matrix(16, 16, 4)", "the elements of a matrix have a type such as f32"),
        ("vyre.matrix(s, 16, f32)", "the rows of a matrix"),
        ("vyre.matrix(16, 0, f32)", "rows and columns are numbers, not 16 and 0"),
        ("vyre.matrix(24, 16, f32)", "has powers of two of rows and columns"),
        ("vyre.matrix(16, 16, u32)", "a matrix of use acc is of f32, i32, f16, bf16, i8, not u32"),
        ("vyre.matrix(16, 16, f16, use='c')", "the use of a matrix is a, b, acc, not 'c'"),
        ("vyre.matrix(16, 16, f32, 1.0)[0]", None),
        ("vyre.matrix_load(x, 0, 16, 16)", "x takes 2 indices, not one"),
        ("vyre.matrix_load(s, (0, 0), 16, 16)", "s is no array"),
        ("vyre.matrix_load(x, (0, 0), 16, 16, layout='rows')", "the layout of a matrix is row_major"),
        ("vyre.matrix_load(x, (vyre.lane_id(), 0), 16, 16)", "may differ within a subgroup"),
        ("vyre.matrix_store(y, (0, 0), 1.0)", "1.0 is"),
        ("vyre.matrix_store(y, (0, 0), vyre.matrix(16, 16, i32))", "and y holds f32"),
        ("vyre.matrix_mul_add(s, s, s)", "s is u32, no matrix"),
        ("vyre.matrix_mul_add(*[vyre.matrix(16, 16, f32)] * 3)", "a kernel does not unpack with *"),
        (
            "m = vyre.matrix(16, 16, f32)\nvyre.matrix_mul_add(m, m, m)",
            "not a matrix of use a",
        ),
        ("u32(vyre.matrix(16, 16, f32))", "not u32"),
        ("b = vyre.matrix(16, 16, f32) > 0.0", "> compares the elements of matrix<16x16xf32, acc>"),
        ("b = vyre.ne(vyre.matrix(16, 16, f32), 0.0)", "no matrices of bools"),
        ("b = bool(vyre.matrix(16, 16, f32))", "no matrices of bools"),
        ("b = vyre.matrix(16, 16, f32) // 2.0", "// compares the elements"),
        ("b = vyre.matrix(16, 16, i32) % 3", "% compares the elements"),
        ("if vyre.matrix(16, 16, f32):\n    pass", "a condition is a bool, not a matrix<16x16xf32, acc>"),
        (
            "vyre.matrix_store(y, (0, 0), vyre.matrix_cast(vyre.matrix(16, 16, f16), f32, 'b'))",
            "a matrix of use b is of",
        ),
        (
            "if vyre.lane_id() < 4:\n    vyre.matrix_store(y, (0, 0), vyre.matrix(16, 16, f32))",
            "in control flow",
        ),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, body: str, message: str | None) -> None:
    made = kernel(tmp_path, "x: Read[f32[:, :]], y: Write[f32[:, :]]", body)
    with pytest.raises(vyre_opt.DiagnosticError) as caught:
        made.text()
    error = caught.value.diagnostics[0]
    assert message is None or message in error.message + (error.help or "")
    assert error.loc is not None
    assert error.loc.source.name.endswith("matrices.py")


EDGES = """n = vyre.workgroup_id(1) * 32
total = vyre.matrix(32, 32, f32)
for k in range(0, a.shape[1], 16):
    left = vyre.matrix_load(a, (r, k), 32, 16, "a", fill=0)
    right = vyre.matrix_load(b, (n, k), 16, 32, "b", "column_major", fill=0)
    total = vyre.matrix_mul_add(left, right, total)
total = total + vyre.matrix_load(bias, n, 32, 32, fill=-1)
vyre.matrix_store(c, (r, n), total, clip=True)
vyre.matrix_store(turned, (n, r), total, layout="column_major", clip=True)"""


@pytest.mark.parametrize("target", ["cpu", "ref"])
def test_matrices_at_the_edges_of_arrays(tmp_path: Path, target: str) -> None:
    """Whole, in part and not at all inside; only what is inside is written."""
    arguments = "a: Read[f16[:, :]], b: Read[f16[:, :]], bias: Read[f32], c: Write[f32[:, :]], turned: Write[f32[:, :]]"
    edges = kernel(tmp_path, arguments, EDGES).options(target=target)
    rng = np.random.default_rng(1)
    for m, n, k in ((50, 20, 40), (64, 32, 16), (1, 1, 1), (100, 77, 33)):
        a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (n, k)))
        bias, guarded = rng.integers(-4, 5, n).astype(np.float32), np.full((m, n + 3), 9, np.float32)
        turned = np.zeros((n, m), np.float32)
        expected = a.astype(np.float32) @ b.T.astype(np.float32) + bias
        edges[-(-m // 64), -(-n // 32)](a, b, bias, guarded[:, :n].copy(), turned)
        np.testing.assert_array_equal(turned, expected.T)


def test_an_index_below_zero_is_beyond_an_edge(tmp_path: Path) -> None:
    body = """m = vyre.matrix_load(a, (u32(0) - 2, u32(0) - 3), 16, 16, fill=7)
if s == 0:
    vyre.matrix_store(c, (r, 0), m)"""
    a, c = np.arange(400, dtype=np.float32).reshape(20, 20), np.zeros((16, 16), np.float32)
    kernel(tmp_path, "a: Read[f32[:, :]], c: Write[f32[:, :]]", body)[1](a, c)
    expected = np.full((16, 16), 7, np.float32)
    expected[2:, 3:] = a[:14, :13]
    np.testing.assert_array_equal(c, expected)


WRONG_EDGES = [
    ('vyre.matrix_load(a, (r, 0), 32, 16, "a", fill="x")', '"x" is no number', "write fill=0"),
    (
        "vyre.matrix_store(c, (r, 0), vyre.matrix(32, 32, f32), clip=3)",
        "3 is neither True nor False",
        "write clip=True",
    ),
    (
        "vyre.matrix_store(c, (r, 0), 1.0, clip=True)",
        "1.0 is a float, no matrix",
        "vyre.matrix_load gives one",
    ),
    ("vyre.matrix_load(a, r, 32, 16, fill=0)", "a takes 2 indices, not one", "an element is a[r, j]"),
    ("vyre.matrix_load(a, (r, 0), 32, 16, filled=0)", "takes no filled", "did you mean fill?"),
]


@pytest.mark.parametrize(("line", "message", "help"), WRONG_EDGES)
def test_wrong_edges_are_told_where_they_are(tmp_path: Path, line: str, message: str, help: str) -> None:
    with pytest.raises(vyre_opt.DiagnosticError) as caught:
        kernel(tmp_path, "a: Read[f16[:, :]], c: Write[f32[:, :]]", line).text()
    assert all(part in str(caught.value) for part in (message, help, "matrices.py:9:"))
