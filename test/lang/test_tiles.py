"""Tiles in Python kernels: copied and multiplied, beside NumPy; and what is wrong about copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.modules import written_module
from support.quick import quick
from support.warned import UNUSED

import vyre_opt
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.targets import gpu

pytestmark = pytest.mark.filterwarnings(f"ignore:{UNUSED}")

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


TYPES = [("f16", "f32"), ("f32", "f32"), ("i8", "i32")]
# the first: each type once, each number of columns once
PRODUCTS = [
    *zip(TYPES, (8, 24, 32), strict=True),
    *((types, columns) for types in TYPES for columns in (8, 24, 32)),
]


@pytest.mark.parametrize("target", ["ref", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    ("dtype", "total", "columns"),
    quick(((*types, columns) for types, columns in dict.fromkeys(PRODUCTS)), keep=3),
)
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
    (
        "t = vyre.shared(f32, (8, 8))\nvyre.copy_tile(t, (0, 0), x, (0, 0), 8, s)",
        "the number of columns is known",
    ),
    (
        "t = vyre.shared(f32, (8, 8))\nvyre.copy_tile(t, (0, 0, 1), x, (0, 0), 8, 8)",
        "t takes 2 indices, not 3",
    ),
    ("t = vyre.shared(f32, (8, 8))\nvyre.copy_tile(t, 0, x, (0, 0), 8, 8)", "t takes 2 indices, not one"),
    ("t = vyre.shared(f32, 8)\nvyre.copy_tile(t, 0, x, (0, 0), 8, 8)", "t has no rows: it has one dimension"),
    (
        "t = vyre.shared(f32, (8, 8))\nvyre.copy_tile(t, (0, 0), x, (0, 0), -1, 8)",
        "a whole number from 1 on, not -1",
    ),
    ("vyre.dot(x, (0, 0), y, (0, 0), 1.0, 8)", "1.0 is a float, not a matrix of f32"),
    (
        "t = vyre.matrix(16, 16, f32)\nvyre.dot(x, (0, 0), y, (0, 0), t, 12)",
        "the depth is a multiple of 8, not 12",
    ),
    ("n = x.itemsize", "an array of a kernel has no itemsize"),
]


@pytest.mark.parametrize(("body", "message"), WRONG)
def test_what_is_wrong_is_told(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(vyre_opt.DiagnosticError) as info:
        _ = kernel(tmp_path, body).module
    assert message in str(info.value)


def test_a_fault_of_a_copy_is_where_it_is_called(tmp_path: Path) -> None:
    module = kernel(
        tmp_path, "t = vyre.shared(f32, (8, 8))\nvyre.copy_tile(t, (0, 0), x, (0, 0), 9, 8)"
    ).module
    x = np.zeros((9, 96), np.float32)
    for target in ("ref", "cpu"):
        with pytest.raises(vyre_opt.ProgramError, match=r"out of bounds of @t") as info:
            vyre_opt.run(module, [x, x.T.copy(), x], grid=1, target=target)
        assert "vyre.copy_tile(t, (0, 0), x, (0, 0), 9, 8)" in str(info.value)


@pytest.mark.parametrize("lanes", [1, 3, 40, 64])
def test_workgroups_of_any_size_copy_a_whole_tile(tmp_path: Path, lanes: int) -> None:
    text = HEAD.format(
        dtype="f32",
        total="f32",
        body="""t = vyre.shared(f32, (5, 12))
    vyre.copy_tile(t, (0, 0), x, (1, 4), 5, 12)
    vyre.copy_wait()
    vyre.barrier()
    if vyre.local_id(0) == 0:
        for r in range(5):
            for c in range(12):
                z[r, c] = t[r, c]""",
    ).replace("workgroup=64", f"workgroup={lanes}")
    x = np.arange(6 * 96, dtype=np.float32).reshape(6, 96)
    module = written_module(tmp_path, text, "sizes").kernel.module
    for target in ("ref", "cpu"):
        z = vyre_opt.run(module, [x, x.T.copy(), np.zeros((5, 12), np.float32)], grid=1, target=target)["z"]
        np.testing.assert_array_equal(z, x[1:6, 4:16])


BLOCKS = """import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32


@vyre.program(workgroup=64)
def kernel(x: Read[f32[:, 128]], y: Write[f32[:, 128]]):
    t = vyre.shared(f32, (2, 4, 128 + {pad}))
    first = vyre.workgroup_id(0) * 4
    if first + 4 <= len(x) and first + 4 <= len(y):
        vyre.copy_tile(t, (1, 0, 0), x, (first, 0), 4, 128)
        vyre.copy_wait()
        vyre.barrier()
        for row in range(4):
            for column in range(vyre.local_id(0), 128, 64):
                y[first + row, column] = t[1, 3 - row, column]
"""


@pytest.mark.parametrize(("pad", "size"), [(0, 2048), (4, 512), (3, 0)])
def test_rows_of_a_tile_are_bulk_copies(tmp_path: Path, pad: int, size: int) -> None:
    """All bounds are checked, as they are if nobody says otherwise.  Rows 3 elements further apart are not aligned."""
    module = written_module(tmp_path, BLOCKS.format(pad=pad), "blocks").kernel.module
    text = lower([Unit(module.programs["kernel"])], gpu("sm_90"), "trap").text
    assert ("cp.async.bulk" in text) == (size > 0)
    assert size == 0 or f", i32 {size}, i32 " in text
    x = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)
    for target in ("ref", "cpu"):
        y = vyre_opt.run(module, [x, np.zeros_like(x)], grid=2, target=target)["y"]
        np.testing.assert_array_equal(y.reshape(2, 4, 128), x.reshape(2, 4, 128)[:, ::-1])


EDGES = """import vyre_opt as vyre
from vyre_opt.lang import Read, Write, {dtype}


@vyre.program(workgroup=64)
def kernel(x: Read[{dtype}[:, :]], z: Write[{dtype}[:, :]]):
    t = vyre.shared({dtype}, (16, 40))
    i, j = vyre.workgroup_id(1) * 16 - 3, vyre.workgroup_id(0) * 32 - 5
    vyre.copy_tile(t, (0, 8), x, (i, j), 16, 32, fill={fill})
    vyre.copy_wait()
    vyre.barrier()
    for n in range(vyre.local_id(0), 512, 64):
        z[i + 3 + n // 32, j + 5 + n % 32] = t[n // 32, 8 + n % 32]
"""


@pytest.mark.parametrize("target", ["ref", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("dtype", "fill"), [("f32", -1.5), ("i8", 7)])
@pytest.mark.parametrize("shape", [(37, 51), (45, 59), (1, 2)])
def test_a_tile_beyond_the_edges(
    tmp_path: Path, dtype: str, fill: float, shape: tuple[int, int], target: str
) -> None:
    """On all sides, and with pieces of 16 bytes of which some elements are there."""
    kernel = written_module(tmp_path, EDGES.format(dtype=dtype, fill=fill), "edges").kernel
    x = np.random.default_rng(1).integers(-99, 99, shape).astype({"f32": "f4", "i8": "i1"}[dtype])
    z = np.zeros((48, 64), x.dtype)
    kernel.options(target=target)[2, 3](x, z)
    expected = np.full((60, 80), fill, x.dtype)
    expected[3 : 3 + shape[0], 5 : 5 + shape[1]] = x
    np.testing.assert_array_equal(z, expected[:48, :64])
