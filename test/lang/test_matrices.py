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
