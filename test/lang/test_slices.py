"""Kernels that compute with rows: what NumPy makes of them on both targets, and what is wrong is told at its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import Read, ReadWrite, Write, f16, f32, i32, u8, u32
from vyre_opt.ir import DiagnosticError
from vyre_opt.lang.functions import Kernel


@vyre.program
def softmax(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    row = x[r, :]
    e = vyre.exp(row - vyre.max(row))
    y[r, :] = e / vyre.sum(e)


@vyre.func
def mean(row: Any) -> Any:
    return vyre.sum(row) / f32(len(row))


@vyre.program
def layernorm(x: Read[f32[:, :]], w: Read[f32], b: Read[f32], y: Write[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    centred = x[r, :] - mean(x[r, :])
    scale = vyre.rsqrt(mean(centred**2) + 1e-5)
    y[r, :] = centred * scale * w[:] + b[:]


@vyre.program
def kinds(x: ReadWrite[i32[:, :]], z: Write[f32[:, :]]) -> None:
    """Comparisons, choices, conversions, flags, and a row in place."""
    r = vyre.workgroup_id(0)
    row = x[r, :]
    is_odd = (row & 1) != 0
    z[r, 0] = f32(vyre.sum(vyre.select(is_odd, 1, 0)))
    z[r, 1] = vyre.min(f32(row) * 0.5)
    z[r, 2] = 1.0 if vyre.any(row > 90) else 0.0
    z[r, 3] = 1.0 if vyre.all(is_odd | (row < 95)) else 0.0
    z[r, 4] = f32(row.shape[0])
    x[r, :] += vyre.max(row)


@vyre.program
def blocks(x: Read[u8], y: Write[u8], z: Write[u32]) -> None:
    i = vyre.workgroup_id(0) * 16
    block = x[i : i + 16]
    y[i : i + 16] = ~block
    z[vyre.workgroup_id(0)] = vyre.sum(u32(block))


@vyre.program
def narrow(x: Read[f16[:, :]], z: Write[f16]) -> None:
    z[vyre.workgroup_id(0)] = vyre.sum(x[vyre.workgroup_id(0), :])


TARGETS = pytest.mark.parametrize("target", ["ref", "cpu"])


@TARGETS
@pytest.mark.parametrize("shape", [(1, 1), (4, 100), (2, 1025), (1, 5000)], ids=str)
def test_rows(target: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(shape[1])
    x, w, b = (rng.standard_normal(extents).astype(np.float32) for extents in (shape, shape[1], shape[1]))
    y = np.zeros_like(x)
    softmax.options(target=target)[shape[0]](x, y)
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, wide / wide.sum(1, keepdims=True), rtol=3e-6, atol=1e-9)
    layernorm.options(target=target)[shape[0]](x, w, b, y)
    centred = x.astype(np.float64) - x.astype(np.float64).mean(1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * w + b
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@TARGETS
@pytest.mark.parametrize("columns", [1, 6, 300])
def test_kinds_of_elements(target: str, columns: int) -> None:
    x = np.random.default_rng(columns).integers(0, 100, (3, columns)).astype(np.int32)
    before, z = x.copy(), np.zeros((3, 5), np.float32)
    kinds.options(target=target)[3](x, z)
    odd = before % 2 == 1
    expected = [
        odd.sum(1),
        before.min(1) / 2,
        (before > 90).any(1),
        (odd | (before < 95)).all(1),
        [columns] * 3,
    ]
    np.testing.assert_array_equal(z.T, np.array(expected, np.float32))
    np.testing.assert_array_equal(x, before + before.max(1, keepdims=True))


@TARGETS
def test_blocks(target: str) -> None:
    x = np.random.default_rng(1).integers(0, 256, 160).astype(np.uint8)
    y, z = np.zeros(155, np.uint8), np.zeros(10, np.uint32)
    blocks.options(target=target)[10](x, y, z)
    np.testing.assert_array_equal(y, ~x[:155])
    np.testing.assert_array_equal(z, x.reshape(10, 16).astype(np.uint32).sum(1))
    with pytest.raises(vyre.ProgramError, match="out of bounds"):
        blocks.options(target=target)[10](x[:155], y, z)


@TARGETS
def test_narrow_floats_are_added_in_f32(target: str) -> None:
    x = np.full((2, 5000), 0.1, np.float16)
    z = np.zeros(2, np.float16)
    narrow.options(target=target)[2](x, z)
    assert z.tolist() == [np.float16(5000 * float(np.float16(0.1)))] * 2


WRONG = [
    ("y[r, :] = sum(x[r, :])", "a kernel has no sum", "vyre.sum"),
    ("y[r, :] = max(x[r, :])", "max takes two or more", "vyre.max"),
    ("v = x[:, r]", "of the last dimensions", "write x[vyre.arange(x.shape[0]), r]"),
    ("v = x[:]", "x takes 2 indices, not one", "x[i, :]"),
    ("v = x[r, ::2]", "has no step", "x[r, 2 * vyre.arange(vyre.ceil_div(x.shape[1], 2))]"),
    ("v = x[r, r:n]", "known when the kernel is translated", "r + vyre.arange(n - r)"),
    ("v = x[r, 5:5]", "from 1 on, not 0", ""),
    ("v = x[r, :] + i[:]", "types do not mix", "f32(i[:])"),
    ("v = x[r, :] + x[r, 0:8]", "does not broadcast", "the same or 1"),
    ("v = vyre.sum(n)", "n is u32, no slice", "x[r, :]"),
    ("v = vyre.sum(x[r, :], axis=1)", "no axis 1", ""),
    ("v = vyre.any(x[r, :])", "takes bools", "x[r, :] != 0"),
    ("v = vyre.sum(x[r, :] > 0.0)", "takes numbers", "u32("),
    ("v = 1 if x[r, :] > 0.0 else 0", "one bool", "write vyre.where(x[r, :] > 0.0, 1, 0)"),
    ("v = x[r, :] @ x[r, :]", "blocks of two fixed extents", "write vyre.sum(x[r, :] * x[r, :])"),
    ("v = x[r:r + 8, 0:8] @ x[r:r + 4, 0:8]", "M x K and K x N", ""),
    ("v = x[r:r + 8, 0:8] @ i[0:8]", "blocks of two fixed extents", ""),
    ("v = vyre.cumsum(x[r:r + 8, 0:8])", "works along one", "axis=1"),
    ("v = vyre.argmax(n)", "n is u32, no slice", "x[r, :]"),
    ("v = x[r, :].T", "not a block of two", ""),
    ("v = x[r, :][None, :]", "are not to be had one by one", "of a row of fixed extent"),
    ("v = x.filled(0)[r, :]", "ends where the array does", "an extent"),
    ("v = x.filled(0.5, 1)[r, 0:8]", "filled takes the value", ""),
    ("v = vyre.zeros((8, 8, 8), f32)", "1 or 2 extents", ""),
    ("v = vyre.full((8, n), 0.0, f32)", "known when the kernel is translated", "a number"),
    ("v = vyre.arange(5, 5)", "one element at least", ""),
    ("v = vyre.arange(n, n)", "known when the kernel is translated", "start + vyre.arange(64)"),
    ("y[r, i[0:8]] = 0.0", "not written at the indices of a slice", "an invocation for each"),
    ("v = vyre.where(x[r, :], 1.0, 0.0)", "not of bools", "!= 0"),
    ("v = vyre.sum(x[r, :], keepdims=1)", "is True or False", ""),
    ("x.filled(0.0)[r, 0:8] = y[r, 0:8]", "is written here", ""),
    ("v = i.filled(0)[3]", "filled is for blocks", "x.filled(0)[i:i + 64]"),
    ("v = x[r, x[r, 0:8]]", "an index is an integer, not", ""),
    ("y[r, :] = i[:]", "takes slice<?xf32>", "f32(i[:])"),
    ("x[r, :] = y[r, :]", "is written here, but it is Read", ""),
    ("v = x[r, :][0]", "one by one", ""),
]  # fmt: skip


def translated(line: str, tmp_path: Any) -> Kernel:
    text = (
        "import vyre_opt as vyre\nfrom vyre_opt import Read, ReadWrite, f32, i32\n\n"
        "def p(x: Read[f32[:, :]], i: Read[i32], y: ReadWrite[f32[:, :]]) -> None:\n"
        f"    r, n = vyre.workgroup_id(0), len(i)\n    {line}\n"
    )
    path = tmp_path / "kernel.py"
    path.write_text(text)
    names: dict[str, Any] = {"__name__": "kernel"}
    exec(compile(text, str(path), "exec"), names)
    return vyre.program(names["p"])


@pytest.mark.parametrize(("line", "message", "help"), WRONG, ids=[line for line, _, _ in WRONG])
def test_what_is_wrong_is_told_at_its_place(line: str, message: str, help: str, tmp_path: Any) -> None:
    with pytest.raises(DiagnosticError) as caught:
        translated(line, tmp_path).text()
    (error,) = caught.value.diagnostics
    assert message in error.message, error
    assert help in (error.help or ""), error
    assert error.loc is not None
    assert error.loc.line == 6


def test_a_workgroup_of_slices_has_one_invocation_as_it_is_written() -> None:
    assert "workgroup(1)" in softmax.text()
    with pytest.raises(DiagnosticError, match="leave workgroup= out"):
        vyre.program(workgroup=64)(softmax.function).text()


@vyre.program
def mixed(x: Read[f32[:, :]], y: Write[f32[:, :]]):
    r, j = vyre.workgroup_id(0), vyre.local_id(0)
    most = vyre.max(x[r, :])
    y[r, :] = x[r, :] - most - f32(j)


def test_a_kernel_of_slices_has_no_ids_of_invocations() -> None:
    """One would always be the first, and the others' elements be left out."""
    with pytest.raises(
        DiagnosticError, match=r"mixed computes with slices, .* so there is no local_id"
    ) as caught:
        mixed.text()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.loc is not None
    assert diagnostic.loc.source.text[diagnostic.loc.start : diagnostic.loc.end] == "vyre.local_id(0)"
