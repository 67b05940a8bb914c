"""Arrays of several dimensions in kernels and pipelines: annotations, indices, shapes, calls, and what is refused."""

# ruff: noqa: F821, F841, RUF059 - of kernels that are wrong on purpose

from __future__ import annotations

import re
from typing import Annotated, Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import BadInputs, DiagnosticError, ProgramError
from vyre_opt.lang import Array, Read, ReadWrite, Write, f32, i32, u8, u32

TARGETS = pytest.mark.parametrize("target", ["ref", "cpu"])
PASSES = pytest.mark.parametrize("passes", [None, "default"])
WIDTH = 4
CORNER = (0, 1)
Matrix = f32[:, :]


@vyre.program(workgroup=(16, 16))
def transposed(x: Read[Matrix], y: Write[f32[:, :]]) -> None:
    tile = vyre.shared(f32, (16, 17))
    i, j = vyre.local_id(0), vyre.local_id(1)
    row, column = vyre.global_id(1), vyre.global_id(0)
    rows, columns = x.shape
    tile[j, i] = x[row, column] if row < rows and column < columns else 0.0
    vyre.barrier()
    row, column = vyre.workgroup_id(0) * 16 + j, vyre.workgroup_id(1) * 16 + i
    if row < len(y) and column < y.shape[1]:
        y[row, column] = tile[i, j]


@vyre.program(workgroup=(8, 4))
def by_fours(x: Read[f32[:, :, 8]], y: ReadWrite[f32[:, :, 8]], counts: ReadWrite[u32[2, 2]]) -> None:
    k, j, i = vyre.local_id(0), vyre.global_id(1), vyre.workgroup_id(2)
    lanes = x.vec(WIDTH)
    if k < lanes.shape[2] and j < x.shape[1]:
        y.vec(WIDTH)[i, j, k] += lanes[i, j, k] * 2
        vyre.atomic_add(counts, (k, i), 1)
    if k == 7 and j == 0:
        vyre.atomic_add(counts, CORNER, u32(counts.size))


def columns_of(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return x, np.zeros(shape[::-1], np.float32)


# --- kernels


@PASSES
@TARGETS
@pytest.mark.parametrize("shape", [(1, 1), (33, 50), (16, 32), (3, 0)])
def test_a_tile_of_two_dimensions(shape: tuple[int, int], target: str, passes: str | None) -> None:
    x, y = columns_of(shape)
    kernel = transposed.options(target=target, passes=passes)
    for _ in range(2):  # the second call runs an earlier one's plan
        y[...] = -1
        kernel[vyre.ceil_div(shape[1], 16) or 1, vyre.ceil_div(shape[0], 16)](x, y)
        assert np.array_equal(y, x.T)


@PASSES
@TARGETS
def test_vectors_along_the_last_dimension_and_atomics(target: str, passes: str | None) -> None:
    x = np.arange(2 * 7 * 8, dtype=np.float32).reshape(2, 7, 8)
    y, counts = np.ones_like(x), np.zeros((2, 2), np.uint32)
    by_fours.options(target=target, passes=passes)[1, 2, 2](x, y, counts)
    assert np.array_equal(y, 1 + 2 * x)
    assert counts.tolist() == [[7, 7 + 2 * 4], [7, 7]]


def test_the_program_has_the_dimensions() -> None:
    program = transposed.program()
    assert [b.shape for b in program.buffers.values()] == [(None, None), (None, None), (16, 17)]
    assert "%columns = len @x, 1" in transposed.text(x=np.zeros((2, 2), np.float32))
    assert ".entry transposed" in transposed.ptx("sm_90")
    assert by_fours.program().buffers["x"].shape == (None, None, 8)


@vyre.program(workgroup=4)
def fixed(x: Read[f32[4]], y: Write[Annotated[f32, :]], z: Write[bool], flags: Write[Annotated[bool, 2, :]]):
    i = vyre.local_id(0)
    for k in vyre.static(range(len(x))):
        if i == k:
            y[i] = x[k]
    z[i] = x[i] > 1
    flags[0, i] = x[i] > 2
    flags[1, i] = x.ndim == 1


@TARGETS
def test_extents_of_one_dimension_and_bools(target: str) -> None:
    """A length that the head fixes is a number of Python: a static loop may use it."""
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    z, flags = np.zeros(4, np.bool_), np.zeros((2, 4), np.bool_)
    fixed.options(target=target)[1](x, y, z, flags)
    assert y.tolist() == x.tolist()
    assert z.tolist() == [False, False, True, True]
    assert flags.tolist() == [[False, False, False, True], [True] * 4]


# --- pipelines


@vyre.program(workgroup=(16, 16))
def scaled(a: f32, x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    j, i = vyre.global_id(0), vyre.global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = a * x[i, j]


@vyre.program(workgroup=64)
def first_column(x: Read[f32[:, :]], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = x[i, 0]


@vyre.pipeline
def there_and_back(a: f32, x: Read[f32[:, :]], y: Write[f32[:, :]], z: ReadWrite[f32]) -> None:
    rows, columns = x.shape
    scales = vyre.buffer(f32, (rows, columns))
    turned = vyre.buffer(f32, (max(x.shape[1], 1), len(x)))
    plain = vyre.buffer(f32, x.size)
    grid = vyre.ceil_div(columns, 16)
    scaled[grid, vyre.ceil_div(rows, 16)](a, x, scales)
    transposed[grid, vyre.ceil_div(len(scales), 16)](scales, turned)
    transposed[vyre.ceil_div(turned.shape[1], 16), grid](turned, y)
    first_column[vyre.ceil_div(len(plain), 64)](y, plain)
    vyre.host_read(plain)
    first_column[1](y, z)


@PASSES
@TARGETS
def test_a_pipeline_passes_buffers_of_two_dimensions(target: str, passes: str | None) -> None:
    pipeline = there_and_back.options(target=target, passes=passes)
    for shape in ((33, 50), (5, 1), (33, 50)):
        x, _ = columns_of(shape)
        y, z = np.zeros(shape, np.float32), np.zeros(shape[0], np.float32)
        if shape[1] == 1:
            pipeline(3.0, x, y, z)
        else:  # @plain has more elements than @y has rows
            with pytest.raises(ProgramError, match="outside along dimension 0"):
                pipeline(3.0, x, y, z)
        assert np.array_equal(y, 3 * x)
        assert shape[1] > 1 or np.array_equal(z, 3 * x[:, 0])


@vyre.pipeline
def with_a_fixed_extent(a: f32, x: Read[f32[:, 32]], y: Write[f32[:, 32]]) -> None:
    half = vyre.buffer(f32, (x.shape[0], x.shape[1] // 2 * 2))
    scaled[vyre.ceil_div(x.shape[1], 16), vyre.ceil_div(x.shape[0], 16)](a, x, half)
    scaled[max(x.shape[1:]) // 16, vyre.ceil_div(x.shape[0], 16)](a, half, y)


@TARGETS
def test_an_extent_that_the_type_fixes_is_a_constant(target: str) -> None:
    """Where another one of the shape is known only when the pipeline runs."""
    x = np.arange(7 * 32, dtype=np.float32).reshape(7, 32)
    y = np.zeros((7, 32), np.float32)
    with_a_fixed_extent.options(target=target)(3.0, x, y)
    assert np.array_equal(y, 9 * x)
    assert "launch @scaled grid(2, ceil_div(len(@x, 0), 16))" in with_a_fixed_extent.text()


def test_sizes_of_a_pipeline_are_expressions_of_extents() -> None:
    text = there_and_back.text()
    assert "buffer @scales : f32[len(@x, 0), len(@x, 1)]" in text
    assert "buffer @turned : f32[max(len(@x, 1), 1), len(@x, 0)]" in text
    assert "buffer @plain : f32[mul(len(@x, 0), len(@x, 1))]" in text


# --- calls


ROWS = np.zeros((8, 64), np.float32)


@vyre.program(workgroup=8)
def row_sums(x: Read[f32[:, 64]], y: ReadWrite[f32[:]]) -> None:
    i = vyre.global_id(0)
    for k in range(64):
        y[i] += x[i, k]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (ROWS[:, :63].copy(), ROWS[0, :8], "row_sums: x: an array of shape (8, 63), and @x is f32[?, 64]"),
        (ROWS[:, :63].copy(), ROWS[0, :8], "it has 63 along dimension 1, not 64"),
        (ROWS.reshape(-1), ROWS[0, :8], "pass array.reshape(-1, 64)"),
        (ROWS.reshape(8, 8, 8), ROWS[0, :8], "x: an array of shape (8, 8, 8)"),
        (ROWS.astype(np.float64), ROWS[0, :8], "f32 elements are float32, the array is float64"),
    ],
)
@TARGETS
def test_arrays_of_other_shapes_are_refused(target: str, x: np.ndarray, y: np.ndarray, message: str) -> None:
    with pytest.raises(BadInputs, match=re.escape(message)):
        row_sums.options(target=target)[1](x, y.copy())


@TARGETS
def test_what_is_written_is_contiguous(target: str) -> None:
    x, y = columns_of((20, 20))
    kernel = transposed.options(target=target)
    with pytest.raises(BadInputs, match="y is written, but the array is not contiguous"):
        kernel[2, 2](x, y.T)
    kernel[2, 2](x.T, y)  # one that is read is copied
    assert np.array_equal(y, x)
    kernel[2, 2](y, y)  # and so is one that shares memory with what is written
    assert np.array_equal(y, x.T)


@vyre.program(workgroup=32)
def doubled(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = 2 * x[i]


@TARGETS
def test_an_argument_of_one_dimension_takes_any_shape_row_by_row(target: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = np.zeros((2, 6), np.float32)
    doubled.options(target=target)[1](x, y)
    assert y.tolist() == (2 * x).reshape(2, 6).tolist()


@vyre.program(workgroup=(8, 4))
def unguarded(x: Read[f32[:, 8]], y: Write[f32[:, :]]) -> None:
    i, j = vyre.global_id(1), vyre.global_id(0)
    y[i, j] = x[i, j + 1 - i]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((4, 8), r"load out of bounds of @x: index \(0, 8\), shape \(4, 8\), outside along dimension 1"),
        ((0, 8), r"load out of bounds of @x: index \(0, \d\), shape \(0, 8\), outside along dimension 0"),
    ],
)
@TARGETS
def test_a_fault_shows_the_line_of_python_and_the_dimension(
    target: str, shape: tuple[int, int], message: str
) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        unguarded.options(target=target)[1](np.zeros(shape, np.float32), np.zeros((4, 8), np.float32))
    shown = str(caught.value)
    assert shown.startswith(f"{__file__}:")
    assert "y[i, j] = x[i, j + 1 - i]" in shown
    assert re.search(
        r"help: guard the access with a comparison against x\.shape\[[01]\]: write if i < x\.shape\[0\]|: write if j \+ 1 - i < x\.shape\[1\]",
        shown,
    )


# --- what is refused


@vyre.program(workgroup=16)
def wrong_indices(
    n: u32, x: Read[Matrix], y: Write[f32[:, 64]], z: ReadWrite[i32[8, 4, 2]], v: ReadWrite[f32[64]]
):
    tile = vyre.shared(f32, (16, 17))
    i, j = vyre.local_id(0), vyre.local_id(0)
    y[i] = 1.0
    y[i, j, 0] = 1.0
    v[i, j] = 1.0
    v[0, 0, 0, 0] = 1.0
    y[i][j] = 1.0
    tile[i, -1] = 1.0
    tile[i, 17] = 1.0
    y[-2, i] = 1.0
    v[64] = 1.0
    y.vec(4)[i, 16] = x.vec(4)[i, 0]
    y[:, j] = 1.0
    y[i, j] = y[i, j]
    y[i, 1.5] = 1.0
    y[x[0, 0], j] = 1.0
    rows, columns = z.shape
    extent = x.shape[n]
    extent = x.shape[2]
    total = x.size
    m = x + 1
    vyre.atomic_add(z, (i, j), 1)
    vyre.atomic_add(z, i, 1)
    a = vyre.shared(f32, (16, 0))
    b = vyre.shared(f32, (1, 2, 3, 4))
    c = vyre.shared(f32, (16, n))


MESSAGES = [
    ("i", "y takes 2 indices, not one", "an element is y[i, j], in an atomic (i, j); a row is y[i, :]"),
    ("i, j, 0", "y takes 2 indices, not 3", "write y[i, j]"),
    ("i, j", "v takes one index, not 2", "write v[i], or declare v: ReadWrite[f32[:, :]]"),
    ("0, 0, 0, 0", "v takes one index, not 4", "write v[i]"),
    ("i", "y takes 2 indices, not one", "an element is y[i, j], in an atomic (i, j); a row is y[i, :]"),
    ("-1", "-1 is before the first element along dimension 1; a kernel", "write tile.shape[1] - 1"),
    ("17", "17 is beyond the 17 elements of tile along dimension 1", None),
    ("-2", "-2 is before the first element along dimension 0; a kernel", "write y.shape[0] - 2"),
    ("64", "64 is beyond the 64 elements of v", None),
    ("16", "16 is beyond the 16 elements of y along dimension 1", None),
    ("j", "a slice is of the last dimensions of an array", None),
    ("y[i, j]", "y is read here, but it is Write", "declare it ReadWrite[f32[:, 64]]"),
    ("1.5", "an index is an integer, not 1.5", None),
    ("x[0, 0]", "an index is an integer, not f32", "write u32(x[0, 0])"),
    ("rows, columns", "2 names for 3 values", None),
    ("n", "the index of a tuple or a vector is known when the kernel is translated", None),
    ("x.shape[2]", "x.shape[2]: tuple index out of range", None),
    ("x.size", "a u32 may not hold all elements of x", "if it does, write x.shape[0] * x.shape[1]"),
    ("x", "x is an array, not a value", "write m = x[vyre.global_id(1), j] + 1"),
    (
        "(i, j)",
        "z takes 3 indices, not 2",
        "an element is z[i, j, k], in an atomic (i, j, k); a row is z[i, j, :]",
    ),
    (
        "i",
        "z takes 3 indices, not one",
        "an element is z[i, j, k], in an atomic (i, j, k); a row is z[i, :, :]",
    ),
    ("(16, 0)", "shared memory has 1 or more elements along a dimension, not 0", None),
    ("(1, 2, 3, 4)", "shared memory has 1 to 3 dimensions, not 4", None),
    ("(16, n)", "the size of shared memory is known when the kernel is translated", None),
]


def diagnostics_of(kernel: Any) -> list[Any]:
    with pytest.raises(DiagnosticError) as caught:
        kernel.text()
    return list(caught.value.diagnostics)


def check(kernel: Any, messages: list[tuple[str, str, str | None]]) -> None:
    """The diagnostics of a kernel: what each is at, what it says, and its help, if that is looked at."""
    diagnostics = diagnostics_of(kernel)
    shown = [d.loc.source.text[d.loc.start : d.loc.end] for d in diagnostics]
    assert shown == [place for place, _, _ in messages]
    for diagnostic, (_, message, help) in zip(diagnostics, messages, strict=True):
        assert diagnostic.message.startswith(message)
        assert help is None or diagnostic.help == help


def test_wrong_indices_are_refused_at_their_places() -> None:
    check(wrong_indices, MESSAGES)


@vyre.program
def wrong_types(
    n: u32,
    a: Read[f32[:, n]],
    b: Read[f32[:, nowhere]],
    c: Read[f32[:, 0]],
    d: Read[f32[:, :, :, :]],
    e: Read[f32[1:]],
    f: Read[f32[:, 2.5]],
    g: Read[f32[...]],
    h: Read[f32[()]],
    i: Read[f32[True]],
    j: f32[:, :],
    k: Array[f32[:]],
):
    pass


def test_wrong_annotations_are_refused_at_their_places() -> None:
    extents = (
        "write a : for a dimension of any extent, a number from 1 on for one of fixed extent: f32[:, 64]"
    )
    check(
        wrong_types,
        [
            ("n", "n is an argument, and types are known before there are any", None),
            ("nowhere", "nowhere is not defined", None),
            ("Read[f32[:, 0]]", "0 is no extent of an array", extents),
            ("Read[f32[:, :, :, :]]", "an array has 1 to 3 dimensions, not 4", None),
            ("Read[f32[1:]]", "a part of a slice is no extent of an array", extents),
            ("Read[f32[:, 2.5]]", "2.5 is no extent of an array", extents),
            ("Read[f32[...]]", "Ellipsis is no extent of an array", extents),
            ("Read[f32[()]]", "() is no extent of an array", extents),
            ("Read[f32[True]]", "True is no extent of an array", extents),
            ("j: f32[:, :]", "the type of j is f32[:, :], which is none of a kernel", None),
            ("k: Array[f32[:]]", "the type of k is Array[f32[:]], which is none of a kernel", None),
        ],
    )


@vyre.pipeline
def wrong_pipeline(n: u32, x: Read[f32[:, :]], y: Write[u8[:, n]]) -> None:
    t = vyre.buffer(f32, (n, 0, 1, 2))
    s = x.shpe
    r = vyre.buffer(f32, (n, 1.5))


@vyre.pipeline
def wrong_buffers(x: Read[f32[:, :]], y: Write[f32]) -> None:
    t = vyre.buffer(f32, (4, 8))
    scaled[1](2.0, x, y)
    vyre.math.softmax(t, y, columns=4)


@vyre.pipeline
def attention(a: Read[f32[:, :]], b: Read[f32[:, :]], weights: Write[f32[:, :]], sums: Write[f32]) -> None:
    scores = vyre.buffer(f32, (len(a), b.shape[1]))
    vyre.math.matmul(a, b, scores)
    vyre.math.softmax(scores, weights)
    vyre.scan.prefix(weights, sums)


@PASSES
@TARGETS
def test_named_kernels_on_matrices(target: str, passes: str | None) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((6, 16), (16, 9)))
    weights, sums = np.zeros((6, 9), np.float32), np.zeros(54, np.float32)
    attention.options(target=target, passes=passes)(a, b, weights, sums)
    powers = np.exp(a.astype(np.float64) @ b)
    expected = powers / powers.sum(1, keepdims=True)
    assert np.allclose(weights, expected, rtol=1e-4)
    assert np.allclose(sums, np.cumsum(expected), rtol=1e-4)


def test_wrong_pipelines_are_refused_at_their_places() -> None:
    check(
        wrong_pipeline,
        [
            ("n", "n is an argument, and types are known before there are any", None),
            ("(n, 0, 1, 2)", "a buffer has 1 to 3 dimensions, not 4", None),
            ("x.shpe", "x has no shpe in a pipeline", "an array has shape, size, ndim, and len(x)"),
            ("1.5", "1.5 is no whole number", None),
        ],
    )
    check(
        wrong_buffers,
        [
            ("scaled[1](2.0, x, y)", "@y is f32[?], @y is f32[?, ?]", None),
            (
                "vyre.math.softmax(t, y, columns=4)",
                "math.softmax: columns is 4, and a row of @t has 8",
                None,
            ),
        ],
    )
