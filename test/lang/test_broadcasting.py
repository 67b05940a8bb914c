"""A number beside a vector is a vector of it, in every operation; types of elements do not mix."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import DiagnosticError
from vyre_opt.lang import Read, ReadWrite, Write, f32, i32, u32


@vyre.program(workgroup=2)
def operators(x: Read[f32], mean: f32, y: Write[f32]) -> None:
    i = vyre.local_id(0)
    v, out = x.vec(4)[i], y.vec(4)
    out[i] = v - mean
    out[2 + i] = mean - v
    out[4 + i] = 2.0 * v / mean
    out[6 + i] = vyre.fma(v, mean, 1.0)
    out[8 + i] = vyre.fma(mean, v, mean)
    out[10 + i] = max(mean, v, 0.5)
    out[12 + i] = vyre.select(v < mean, mean, v)
    out[14 + i] = vyre.select(mean <= v, mean, 0.0)
    out[16 + i] = mean
    v *= mean
    out[18 + i] = v


@vyre.program(workgroup=2)
def counters(x: ReadWrite[i32]) -> None:
    i = vyre.local_id(0)
    v, total, n = x.vec(2)[i], 0, 0
    for k in range(1, 4):
        v = v + k
        total += v
    while n < 3:
        v = v * n + total
        n += 1
    x.vec(2)[i] = v


@vyre.program(workgroup=1)
def masks(x: Read[u32], flag: u32, y: Write[u32]) -> None:
    v = x.vec(4)[0]
    is_set = (v & 1 != 0) & (flag != 0)
    y.vec(4)[0] = vyre.select(is_set, v << flag, v >> 1)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_a_number_beside_a_vector(target: str) -> None:
    x, m = np.array([1, -2, 3, 0.25, 5, 1.5, -7, 8], np.float32), np.float32(1.5)
    y = np.zeros(80, np.float32)
    operators.options(target=target)[1](x, 1.5, y)
    expected = [x - m, m - x, 2 * x / m, x * m + 1, m * x + m, np.maximum(np.maximum(m, x), 0.5)]
    expected += [np.where(x < m, m, x), np.where(m <= x, m, np.float32(0)), np.full(8, m), x * m]
    assert y.reshape(10, 8).tolist() == [row.tolist() for row in expected]


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_counters_stay_numbers_and_sums_become_vectors(target: str) -> None:
    """A local that has met only literals is what its uses ask for: the sum a vector, what counts rounds a number."""
    x = np.array([1, 20, -3, 4], np.int32)
    v, total = x.copy(), np.zeros(4, np.int32)
    for k in (1, 2, 3):
        v = v + k
        total += v
    for n in range(3):
        v = v * n + total
    counters.options(target=target)[1](x)
    assert x.tolist() == v.tolist()


@pytest.mark.parametrize("flag", [0, 3])
def test_flags_and_shift_amounts(flag: int) -> None:
    x, y = np.array([1, 2, 3, 8], np.uint32), np.zeros(4, np.uint32)
    masks[1](x, flag, y)
    assert y.tolist() == np.where((x % 2 == 1) & (flag != 0), x << flag, x >> 1).tolist()


def test_types_of_elements_do_not_mix() -> None:
    @vyre.program(workgroup=1)
    def mixed(x: ReadWrite[f32], n: u32) -> None:
        v = x.vec(4)[0]
        x.vec(4)[0] = v * n
        x.vec(4)[1] = vyre.fma(v, 2.0, n)
        x.vec(2)[4] = v
        x.vec(4)[2] = v + x.vec(2)[0]
        x.vec(4)[3] = n

    with pytest.raises(DiagnosticError) as caught:
        mixed.text()
    found = [(d.message, d.help) for d in caught.value.diagnostics]
    assert found == [
        ("v is vec<4 x f32> and n is u32; types do not mix", "write f32(n)"),
        ("v is vec<4 x f32> and n is u32; types do not mix", "write f32(n)"),
        ("v is vec<4 x f32>, where vec<2 x f32> is wanted", None),
        ("v is vec<4 x f32> and x.vec(2)[0] is vec<2 x f32>; types do not mix", None),
        ("n is u32, where vec<4 x f32> is wanted", "write f32(n)"),
    ]
