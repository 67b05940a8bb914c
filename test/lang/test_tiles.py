"""Tiles in Python kernels: copied and multiplied, beside NumPy; and what is wrong about copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.modules import written_module

import vyre_opt

HEAD = """import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f16, f32, i8, i32, u32


@vyre.program(workgroup=64)
def kernel(x: Read[{dtype}[:, 96]], y: Read[{dtype}[96, :]], z: Write[{total}[:, :]]):
    s = vyre.subgroup_id()
    {body}
"""

PRODUCT = """t = vyre.shared({dtype}, (2, 32, 48))
u = vyre.shared({dtype}, (32, {columns} + 8))
total = vyre.matrix(16, {columns}, {total})
for k in range(0, 96, 32):
    part = k // 32 % 2
    vyre.copy_tile(t, (part, 0, 8), x, (0, k), 32, 32)
    vyre.copy_tile(u, (0, 0), y, (k, 0), 32, {columns})
    vyre.copy_wait()
    vyre.barrier()
    total = vyre.dot(t, (part, s * 16, 8), u, (0, 0), total, 32)
    vyre.barrier()
vyre.matrix_store(z, (s * 16, 0), total)"""


def kernel(folder: Path, body: str, dtype: str = "f32", total: str = "f32") -> Any:
    text = HEAD.format(dtype=dtype, total=total, body=body.replace("\n", "\n    "))
    return written_module(folder, text, "tiles").kernel


@pytest.mark.parametrize("target", ["ref", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("dtype", "total"), [("f16", "f32"), ("f32", "f32"), ("i8", "i32")])
@pytest.mark.parametrize("columns", [8, 24, 32])
def test_a_product_of_tiles(tmp_path: Path, dtype: str, total: str, columns: int, target: str) -> None:
    """24 columns are no power of two, which a matrix needs: the message names its type."""
    body = PRODUCT.format(dtype=dtype, total=total, columns=columns)
    if columns == 24:
        with pytest.raises(vyre_opt.DiagnosticError, match="powers of two"):
            _ = kernel(tmp_path, body, dtype, total).module
        return
    rng = np.random.default_rng(columns)
    stored = {"f16": np.float16, "f32": np.float32, "i8": np.int8}[dtype]
    a, b = (rng.integers(-8, 8, shape).astype(stored) for shape in ((32, 96), (96, columns)))
    c = np.zeros((32, columns), np.int32 if total == "i32" else np.float32)
    module = kernel(tmp_path, body, dtype, total).module
    z = vyre_opt.run(module, [a, b, c], grid=1, target=target)["z"]
    np.testing.assert_array_equal(z, a.astype(np.int64) @ b.astype(np.int64))


WRONG = [
    ("vyre.copy_async(z, (0, 0), x, (0, 0))", "z is no shared memory, which is what copies go to"),
    (
        "t = vyre.shared(u32, 8)\nvyre.copy_async(t, 0, x, (0, 0))",
        "x holds f32, and t u32",
    ),
    ("t = vyre.shared(f32, 8)\nvyre.copy_async(t, 0, x, (0, 0), 0)", "a copy is of 1 to 64 elements, not 0"),
    ("t = vyre.shared(f32, 8)\nvyre.copy_async(t, 0, x, (0, 0), s)", "the number of elements"),
    ("t = vyre.shared(f32, 8)\nvyre.copy_async(t, 0, x, 0)", "x"),
    ("t = vyre.shared(f32, 8)\nvyre.copy_async(t, 0)", "needs array, start"),
    ("vyre.copy_wait(-1)", "copy_wait leaves 0 to 64 groups of copies, not -1"),
    ("vyre.copy_wait(s)", "what copy_wait leaves pending"),
    ("t = vyre.shared(f32, (8, 8))\nvyre.copy_tile(t, (0, 0), x, (0, 0), 8, s)", "copy_tile is called here"),
    ("n = x.itemsize", "an array of a kernel has no itemsize"),
]


@pytest.mark.parametrize(("body", "message"), WRONG)
def test_what_is_wrong_is_told(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(vyre_opt.DiagnosticError) as info:
        _ = kernel(tmp_path, body).module
    assert message in str(info.value)
