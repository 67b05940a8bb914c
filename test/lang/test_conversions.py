"""Conversions of kernels in Python: bits as vectors of other shapes, bools, lengths of 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import DiagnosticError
from vyre_opt.lang import Read, ReadWrite, Write, f32, i64, u8, u16, u32, u64

TARGETS = ["ref", "cpu"]


@vyre.program(workgroup=4)
def swapped(x: Read[u8], y: Write[u8], words: Write[u32], halves: Write[u16]) -> None:
    i = vyre.local_id(0)
    word = vyre.bitcast(x.vec(4)[i], u32)
    words[i] = word
    halves.vec(2)[i] = vyre.bitcast(word, u16)
    y.vec(4)[i] = vyre.bitcast((word << 16) | (word >> 16), u8)


@vyre.program(workgroup=4)
def truths(x: Read[f32], n: ReadWrite[u32], flags: Write[u32]) -> None:
    i = vyre.local_id(0)
    if bool(n[i]) and bool(x[i]):
        flags[i] = u32(bool(x[i]))
    vyre.barrier()
    if i == 0:
        n.vec(4)[0] = vyre.select(bool(n.vec(4)[0]), n.vec(4)[0] + 1, 100)


@vyre.program(workgroup=4)
def lengths(x: Read[f32], y: Write[u64], z: Write[f32]) -> None:
    n = u64(len(x))
    i = vyre.local_id(0)
    if i == 0:
        y[i64(0)] = n
        y[u64(1)] = u64(len(x)) * 1000000007 * 1000
    if u64(i) < u64(len(z)):
        z[u8(i)] = x[n - 1 - u64(i)]


@pytest.mark.parametrize("target", TARGETS)
def test_bits_as_vectors_of_another_shape(target: str) -> None:
    x = np.arange(16, dtype=np.uint8) * 15
    y, words, halves = np.zeros(16, np.uint8), np.zeros(4, np.uint32), np.zeros(8, np.uint16)
    swapped.options(target=target)[1](x, y, words, halves)
    assert words.tolist() == x.view(np.uint32).tolist()
    assert halves.tolist() == x.view(np.uint16).tolist()
    assert y.tolist() == x.view(np.uint16).reshape(4, 2)[:, ::-1].copy().view(np.uint8).reshape(-1).tolist()


@pytest.mark.parametrize("target", TARGETS)
def test_bools_of_numbers(target: str) -> None:
    x, n = np.array([0.0, -0.0, np.nan, 0.25], np.float32), np.array([1, 0, 3, 4], np.uint32)
    flags = np.full(4, 9, np.uint32)
    expected = np.where(x.astype(bool) & (n != 0), 1, 9)
    truths.options(target=target)[1](x, n, flags)
    assert flags.tolist() == expected.tolist() == [9, 9, 1, 1]
    assert n.tolist() == [2, 100, 4, 5]


@pytest.mark.parametrize("target", TARGETS)
def test_a_length_of_64_bits(target: str) -> None:
    """It is taken as such, and not made of one of 32 bits, which would have wrapped."""
    taken = [op.result.type for op in lengths.program().walk() if op.name == "len"]
    assert {str(dtype) for dtype in taken} == {"u64"}
    x, y, z = np.arange(5, dtype=np.float32), np.zeros(2, np.uint64), np.zeros(3, np.float32)
    lengths.options(target=target)[1](x, y, z)
    assert y.tolist() == [5, 5 * 1000000007 * 1000]
    assert z.tolist() == [4.0, 3.0, 2.0]


def test_what_has_no_bits_of_another_type() -> None:
    @vyre.program(workgroup=1)
    def wrong(x: ReadWrite[u8]) -> None:
        vyre.bitcast(x[0], u32)
        vyre.bitcast(x.vec(3)[0], u16)
        vyre.bitcast(x[0] > 1, u8)
        vyre.bitcast(x[0], bool)

    with pytest.raises(DiagnosticError) as caught:
        wrong.text()
    assert [d.message for d in caught.value.diagnostics] == [
        "u8 has 8 bits, which are no vector of u32",
        "vec<3 x u8> has 24 bits, which are no vector of u16",
        *["a bool has no bits of its own"] * 2,
    ]


@vyre.program(workgroup=1, grid=1)
def annotated(x: Read[f32], y: Write[f32]) -> None:
    total: Any = x.vec(2)[0] * 0.0  # a vector, which f32 would refuse
    for k in range(len(x.vec(2))):
        total += x.vec(2)[k]
    half: f32 = 1
    y[0] = (total[0] + total[1]) * (half / 2)


def test_locals_with_annotations() -> None:
    """Of `Any`, which is for type checkers, as without one; of a type, as that."""
    y = np.zeros(1, np.float32)
    annotated(np.arange(6, dtype=np.float32), y)
    assert y[0] == 7.5

    @vyre.program(workgroup=1)
    def wrong(x: ReadWrite[u8]) -> None:
        a: list[u8] = x[0]
        b: u32 = x[0]
        x[0] = a + u8(b)

    with pytest.raises(DiagnosticError) as caught:
        wrong.text()
    assert [d.message for d in caught.value.diagnostics] == [
        "the type of a local is f32, u32 or the like",
        "x[0] is u8, where u32 is wanted",
    ]
