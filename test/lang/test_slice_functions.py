"""Blocks in kernels: products, scans, gathers, indices of the largest, random numbers and edges, beside NumPy on both targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import Read, Write, bf16, f32, i32, u8, u32
from vyre_opt.lang.functions import Kernel

TARGETS = pytest.mark.parametrize("target", ["ref", "cpu"])
Array = np.ndarray[Any, Any]


def run(kernel: Kernel, target: str, grid: Any, *arguments: Any) -> None:
    kernel.options(target=target)[grid](*arguments)


@vyre.program
def product(a: Read[f32[:, :]], b: Read[f32[:, :]], c: Write[f32[:, :]]) -> None:
    i, j = vyre.workgroup_id(0) * 32, vyre.workgroup_id(1) * 32
    total = vyre.zeros((32, 32), f32)
    for k in range(0, a.shape[1], 16):
        total += a.filled(0)[i : i + 32, k : k + 16] @ b.filled(0)[k : k + 16, j : j + 32]
    c[i : i + 32, j : j + 32] = total


@vyre.program
def transposed_product(a: Read[u8[:, :]], c: Write[u32[:, :]]) -> None:
    block = a.filled(0)[0:24, 0:40]
    c[0:24, 0:24] = block @ block.T


@TARGETS
@pytest.mark.parametrize("shape", [(70, 50, 90), (32, 16, 32), (1, 1, 1)])
def test_products(target: str, shape: tuple[int, int, int]) -> None:
    """Of integers, which no order of sums rounds, with edges."""
    rows, depth, columns = shape
    rng = np.random.default_rng(depth)
    a = rng.integers(-9, 9, (rows, depth)).astype(np.float32)
    b = rng.integers(-9, 9, (depth, columns)).astype(np.float32)
    c = np.zeros((rows, columns), np.float32)
    run(product, target, (-(-rows // 32), -(-columns // 32)), a, b, c)
    assert np.array_equal(c, a @ b)
    bytes_, squares = rng.integers(0, 255, (20, 33)).astype(np.uint8), np.zeros((20, 20), np.uint32)
    run(transposed_product, target, 1, bytes_, squares)
    assert np.array_equal(squares, bytes_.astype(np.uint32) @ bytes_.T)


@vyre.program
def places(x: Read[f32[:, :]], least: Write[u32[:]], most: Write[u32[:]], columns: Write[u32[:]]) -> None:
    r = vyre.workgroup_id(0)
    least[r] = vyre.argmin(x[r, :])
    most[r] = vyre.argmax(x[r, :])
    if r == 0:
        columns[0:16] = vyre.argmax(x.filled(-100.0)[0:8, 0:16], axis=0)


@TARGETS
@pytest.mark.parametrize("width", [1, 16, 131, 5000])
def test_the_first_of_the_largest(target: str, width: int) -> None:
    """Also among equal ones; a NaN is none of them, unlike in NumPy."""
    x = np.random.default_rng(width).integers(-3, 3, (8, width)).astype(np.float32)
    x[1], x[2, ::2] = np.nan, np.nan
    least, most, columns = (np.full(n, 99, np.uint32) for n in (8, 8, 16))
    run(places, target, 8, x, least, most, columns)
    lowest, highest = np.where(np.isnan(x), np.inf, x), np.where(np.isnan(x), -np.inf, x)
    assert np.array_equal(least, lowest.argmin(1))
    assert np.array_equal(most, highest.argmax(1))
    beside = np.full((8, 16), -100, np.float32)
    beside[:, : min(16, width)] = highest[:, :16]
    assert np.array_equal(columns, beside.argmax(0))


@vyre.program
def scans(
    x: Read[i32[:, 1000]], sums: Write[i32[:, 1000]], before: Write[i32[:, 1000]], most: Write[i32[:, 1000]]
) -> None:
    r = vyre.workgroup_id(0)
    sums[r, :] = vyre.cumsum(x[r, :])
    before[r, :] = vyre.cumsum(x[r, :], exclusive=True)
    most[r, :] = vyre.cummax(x[r, :])


@vyre.program
def scan_of_floats(x: Read[f32], y: Write[f32]) -> None:
    y[:] = vyre.cumsum(x[:])


def scanned_in_order(values: Array) -> Array:
    """As language.md has it: 4 neighbours one after the other, 32 groups and 32 chunks by doubled distances, then blocks."""

    def doubled(terms: list[Any]) -> list[Any]:
        for distance in (1, 2, 4, 8, 16):
            terms = [terms[k - distance] + terms[k] if k >= distance else terms[k] for k in range(len(terms))]
        return terms

    zero = np.float32(-0.0)
    padded = [*values, *[zero] * (-len(values) % 4096)]
    results: list[Any] = []
    carried = None
    for start in range(0, len(padded), 4096):
        groups = []
        for at in range(start, start + 4096, 4):
            a, b, c, d = padded[at : at + 4]
            groups.append([a, a + b, (a + b) + c, ((a + b) + c) + d])
        chunks = [doubled([group[3] for group in groups[k : k + 32]]) for k in range(0, 1024, 32)]
        blocks = doubled([chunk[31] for chunk in chunks])
        for number, group in enumerate(groups):
            chunk, place = divmod(number, 32)
            for value in group:
                term = (chunks[chunk][place - 1] if place else zero) + value
                term = (blocks[chunk - 1] if chunk else zero) + term
                results.append(term if carried is None else carried + term)
        carried = blocks[31] if carried is None else carried + blocks[31]
    return np.array(results[: len(values)], np.float32)


@TARGETS
def test_scans(target: str) -> None:
    x = np.random.default_rng(3).integers(-99, 99, (5, 1000)).astype(np.int32)
    sums, before, most = (np.zeros_like(x) for _ in range(3))
    run(scans, target, 5, x, sums, before, most)
    assert np.array_equal(sums, x.cumsum(1))
    assert np.array_equal(before, x.cumsum(1) - x)
    assert np.array_equal(most, np.maximum.accumulate(x, 1))


@TARGETS
@pytest.mark.parametrize("length", [1, 5, 127, 600, 4097, 9001])
def test_one_order_of_scans(target: str, length: int) -> None:
    rng = np.random.default_rng(length)
    x = (rng.standard_normal(length) * np.exp2(rng.integers(-20, 20, length))).astype(np.float32)
    y = np.zeros_like(x)
    run(scan_of_floats, target, 1, x, y)
    assert y.tobytes() == scanned_in_order(x).tobytes()


@vyre.program
def lookups(table: Read[f32[:, :]], index: Read[u32], y: Write[f32[:, :]], z: Write[f32]) -> None:
    i = vyre.workgroup_id(0) * 16
    rows, columns = index[i : i + 16], vyre.arange(24)
    y[i : i + 16, 0:24] = table[
        rows[:, None] + vyre.zeros((16, 24), u32), columns[None, :] + vyre.zeros((16, 24), u32)
    ]
    z[i : i + 16] = table[rows, 3]


@TARGETS
def test_gathers(target: str) -> None:
    rng = np.random.default_rng(4)
    table, index = rng.standard_normal((40, 24)).astype(np.float32), rng.integers(0, 40, 32).astype(np.uint32)
    y, z = np.zeros((32, 24), np.float32), np.zeros(32, np.float32)
    run(lookups, target, 2, table, index, y, z)
    assert np.array_equal(y, table[index])
    assert np.array_equal(z, table[index, 3])
    index[17] = 40
    with pytest.raises(vyre.ProgramError, match="out of bounds of @table"):
        run(lookups, target, 2, table, index, y, z)


@vyre.program
def smoothed(x: Read[f32], y: Write[f32]) -> None:
    """The edges of a block are those of the array, the left one too."""
    i = vyre.i32(vyre.workgroup_id(0)) * 64
    edge = x.filled(0.0)
    y[i : i + 64] = (edge[i - 1 : i - 1 + 64] + x.filled(0.0)[i : i + 64]) + edge[i + 1 : i + 1 + 64]


@TARGETS
@pytest.mark.parametrize("length", [1, 64, 100, 300])
def test_what_is_beyond_the_edges(target: str, length: int) -> None:
    x = np.random.default_rng(length).integers(-9, 9, length).astype(np.float32)
    y = np.zeros_like(x)
    run(smoothed, target, -(-length // 64) + 1, x, y)
    padded = np.pad(x, 1)
    assert np.array_equal(y, padded[:-2] + padded[1:-1] + padded[2:])


@vyre.program
def softmax_of_rows(x: Read[bf16[:, :]], y: Write[bf16[:, :]]) -> None:
    """Eight short rows a workgroup."""
    i = vyre.workgroup_id(0) * 8
    block = f32(x.filled(-1.0)[i : i + 8, 0:48])
    block = vyre.where(vyre.arange(48)[None, :] < x.shape[1], block, -3e38)
    e = vyre.exp(block - vyre.max(block, axis=1, keepdims=True))
    y[i : i + 8, 0:48] = bf16(e / vyre.sum(e, axis=1, keepdims=True))


@TARGETS
def test_blocks_of_rows(target: str) -> None:
    x = np.random.default_rng(6).standard_normal((21, 43)).astype(np.float32)
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    y = np.zeros_like(bits)
    run(softmax_of_rows, target, 3, bits, y)
    wide = (bits.astype(np.uint32) << 16).view(np.float32)
    e = np.exp(wide - wide.max(1, keepdims=True))
    found = (y.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=8e-3)


@vyre.program
def drawn(words: Write[u32], numbers: Write[f32], key: u32) -> None:
    i = vyre.workgroup_id(0) * 64
    words[i : i + 64] = vyre.randint(key, i + vyre.arange(64))
    numbers[i : i + 64] = vyre.rand(key, i + vyre.arange(64))


def philox(key: int, counter: int) -> int:
    """Philox 4x32-10 in Python's integers."""
    words, keys = [counter, 0, 0, 0], [key, 0]
    for _ in range(10):
        a, c = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [
            (c >> 32) ^ words[1] ^ keys[0],
            c & 0xFFFFFFFF,
            (a >> 32) ^ words[3] ^ keys[1],
            a & 0xFFFFFFFF,
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words[0]


@TARGETS
@pytest.mark.parametrize("key", [0, 1, 0xFFFFFFFF])
@pytest.mark.filterwarnings("ignore:this is the same number")
def test_random_numbers(target: str, key: int) -> None:
    """The first is that of the known answers of Random123 for a key and a counter of 0."""
    words, numbers = np.zeros(150, np.uint32), np.zeros(150, np.float32)
    run(drawn, target, 3, words, numbers, key)
    assert philox(0, 0) == 0x6627E8D5
    assert words.tolist() == [philox(key, n) for n in range(150)]
    assert np.array_equal(numbers, ((words >> 8) * 2.0**-24).astype(np.float32))


@vyre.program
def filled(y: Write[f32[:, :]], n: u32) -> None:
    r = vyre.workgroup_id(0)
    y[r, :] = 0.5
    y[r, 2:] = f32(n)


@TARGETS
def test_a_row_of_one_value(target: str) -> None:
    y = np.zeros((3, 37), np.float32)
    run(filled, target, 3, y, 7)
    assert (y[:, :2] == 0.5).all()
    assert (y[:, 2:] == 7).all()


@vyre.program
def narrow_starts(x: Read[f32], y: Write[f32], z: Write[f32], low: Read[u8], signed: Read[vyre.i8]) -> None:
    i, j = low[0], signed[0]
    y[0:8] = x[i : i + 8]
    y[8:16] = x.filled(-1.0)[j : j + 8]
    z[i:] = x[i:] + 1.0


@TARGETS
@pytest.mark.parametrize(("low", "signed"), [(254, -3), (0, 120), (250, 127)])
def test_starts_of_few_bits(target: str, low: int, signed: int) -> None:
    """Places of elements do not wrap around where a start's type does."""
    x = np.arange(300, dtype=np.float32)
    y, z = np.zeros(16, np.float32), np.zeros(300, np.float32)
    run(narrow_starts, target, 1, x, y, z, np.array([low], np.uint8), np.array([signed], np.int8))
    assert np.array_equal(y[:8], x[low : low + 8])
    assert y[8:].tolist() == [n if n >= 0 else -1 for n in range(signed, signed + 8)]
    assert np.array_equal(z, np.where(x >= low, x + 1, 0))


@vyre.program
def wide_starts(x: Read[f32], y: Write[f32], start: vyre.u64) -> None:
    y[0:8] = x.filled(-1.0)[start : start + 8]


@TARGETS
def test_a_start_that_has_wrapped_around(target: str) -> None:
    y = np.zeros(8, np.float32)
    run(wide_starts, target, 1, np.arange(9, dtype=np.float32), y, 2**64 - 3)
    assert y.tolist() == [-1, -1, -1, 0, 1, 2, 3, 4]


@vyre.program
def reduced(x: Read[f32[:, :]], sums: Write[f32], most: Write[f32], columns: Write[f32]) -> None:
    r = vyre.workgroup_id(0)
    sums[r], most[r] = vyre.sum(x[r, :]), vyre.max(x[r, :])
    if r == 0:
        columns[:] = vyre.sum(x[:, :], axis=0)


@TARGETS
def test_rows_of_no_elements(target: str) -> None:
    sums, most = np.ones(3, np.float32), np.ones(3, np.float32)
    run(reduced, target, 3, np.zeros((3, 0), np.float32), sums, most, np.zeros(0, np.float32))
    assert (sums == 0).all()
    assert np.isnan(most).all()


@vyre.program
def rounded_down(x: Read[i32], y: Write[i32], z: Read[f32], w: Write[f32]) -> None:
    y[:] = x[:] // 3 + x[:] % -7
    w[:] = z[:] // 2.0 + z[:] % 0.75


@TARGETS
def test_quotients_are_rounded_down(target: str) -> None:
    x, z = np.arange(-20, 20, dtype=np.int32), np.linspace(-5, 5, 37).astype(np.float32)
    y, w = np.zeros_like(x), np.zeros_like(z)
    run(rounded_down, target, 1, x, y, z, w)
    assert np.array_equal(y, x // 3 + x % -7)
    assert np.array_equal(w, z // 2 + z % np.float32(0.75))


@vyre.program
def rows_and_columns(x: Read[f32[:, :]], index: Read[u32], y: Write[f32[:, :]], z: Write[f32]) -> None:
    i = index[0:4]
    y[0:4, 0:4] = x[i[:, None], i[None, :]]
    z[0:4] = vyre.sum(x.filled(9.0)[0:1, -1:3], axis=0)


@TARGETS
def test_indices_broadcast(target: str) -> None:
    x, index = np.random.default_rng(1).random((9, 9)).astype(np.float32), np.array([3, 1, 7, 2], np.uint32)
    y, z = np.zeros((4, 4), np.float32), np.zeros(4, np.float32)
    run(rows_and_columns, target, 1, x, index, y, z)
    assert np.array_equal(y, x[np.ix_(index, index)])
    assert np.array_equal(z, [9, *x[0, :3]])


def test_more_lengths_than_there_are_forms() -> None:
    """What has to know the length is made for each."""
    for length in range(1, 20):
        x, y = np.arange(length, dtype=np.float32), np.zeros(length, np.float32)
        scan_of_floats[1](x, y)
        assert np.array_equal(y, x.cumsum())
