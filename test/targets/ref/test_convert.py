"""cast and bitcast between all types, and vectors."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from vyre_opt.execution.arrays import constant, storage_type
from vyre_opt.ir import DataType, arith

SCALARS = [
    DataType.BOOL,
    *(DataType.of(f"{sign}{bits}") for sign in "ui" for bits in (8, 16, 32, 64)),
    *(DataType.F16, DataType.BF16, DataType.F32, DataType.F64),
]


def interesting(dtype: DataType) -> list[int]:
    """Encoded constants of `dtype`: edges of this and of other types, ties of narrower floats, NaN."""
    rng = random.Random(5)
    if dtype.is_bool:
        return [0, 1]
    if dtype.is_int:
        low, high = arith.int_range(dtype)
        near = [(1 << k) + d for k in range(65) for d in (-1, 0, 1)]
        ties = [(1 << k) + (1 << k - p) + d for k in (30, 55, 62) for p in (8, 11, 24) for d in (-1, 0, 1)]
        edges = [0, low, high, *near, *(-n for n in near), *ties, *(-t for t in ties)]
        return [v for v in edges if low <= v <= high] + [rng.randint(low, high) for _ in range(50)]
    limits = [float(1 << k) + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1.5, -0.5, 0.0, 0.5)]
    ties = [
        1.0 + 2.0**-8,
        1.0 + 2.0**-8 + 2.0**-40,
        1.0 + 2.0**-11,
        1.0 + 2.0**-24,
        65519.9,
        65520.0,
        3.4e38,
        1e300,
    ]
    tiny = [
        2.0**-24,
        2.0**-25,
        2.0**-25 * 1.01,
        2.0**-133,
        2.0**-134,
        2.0**-134 * 1.001,
        2.0**-149,
        2.0**-1074,
    ]
    found_floats = [0.0, 0.5, 1.0, 2.5, *limits, *ties, *tiny, math.inf]
    return [
        *(arith.encode_float(s * f, dtype) for f in found_floats for s in (1.0, -1.0)),
        arith.CANONICAL_NAN[dtype.name],
    ]


def array(values: list[int], dtype: DataType) -> np.ndarray:
    return np.concatenate([constant(value, dtype) for value in values])


def sign_kept(value: int, source: DataType, target: DataType) -> int:
    """arith.convert, with the sign of a negative number that rounds to zero."""
    bits = arith.convert(value, source, target)
    if (
        source.is_float
        and target.is_float
        and bits == 0
        and math.copysign(1.0, arith.decode_float(value, source)) < 0
    ):
        return 1 << (target.bits or 0) - 1
    return bits


@pytest.mark.parametrize("source", SCALARS, ids=str)
def test_cast(ref: Any, source: DataType) -> None:
    """Each conversion rounds once, wraps, or saturates with NaN -> 0, as ir.arith says."""
    values = interesting(source)
    outputs = [f"buffer @o{i} : {t}[?] write binding({i + 1}) live_out" for i, t in enumerate(SCALARS)]
    body = [
        f"%c{i} = cast %a : {source} -> {t}\n store %c{i}, @o{i}[%g] : {t}" for i, t in enumerate(SCALARS)
    ]
    nl = "\n"
    text = f"""
    program @c workgroup(1) {{
      buffer @a : {source}[?] read binding(0)
      {nl.join(outputs)}
      %g = global_id x
      %a = load @a[%g] : {source}
      {nl.join(body)}
    }}"""
    space = [np.zeros(len(values), storage_type(t)) for t in SCALARS]
    for target, out in zip(SCALARS, ref(text, [array(values, source), *space], len(values)), strict=True):
        expected = array([sign_kept(v, source, target) for v in values], target)
        if target.is_float:
            bits = f"u{out.itemsize}"
            is_nan = np.array([math.isnan(arith.decode_float(int(w), target)) for w in expected.view(bits)])
            same = (out.view(bits) == expected.view(bits)) | is_nan
            got_nan = np.array([math.isnan(arith.decode_float(int(w), target)) for w in out.view(bits)])
            assert (got_nan == is_nan).all()
        else:
            same = out == expected
        assert same.all(), (target, [(values[i], out[i], expected[i]) for i in np.flatnonzero(~same)[:3]])


def test_bitcast_keeps_bits(ref: Any) -> None:
    """Float to int and back, bf16 through its storage form, and between vectors, lowest lane first."""
    text = """
    program @b workgroup(1) {
      buffer @f : f32[?] read binding(0)
      buffer @h : bf16[?] read binding(1)
      buffer @u : u32[?] write binding(2) live_out
      buffer @v : vec<2 x u16>[?] write binding(3) live_out
      buffer @w : u16[?] write binding(4) live_out
      %g = global_id x
      %f = load @f[%g] : f32
      %u = bitcast %f : f32 -> u32
      store %u, @u[%g] : u32
      %v = bitcast %u : u32 -> vec<2 x u16>
      store %v, @v[%g] : vec<2 x u16>
      %h = load @h[%g] : bf16
      %w = bitcast %h : bf16 -> u16
      store %w, @w[%g] : u16
    }"""
    floats = np.array([1.5, -0.0, np.inf, 1e-40], np.float32)
    halves = np.array([0x3FC0, 0x8000, 0x7FC1, 0x0001], np.uint16)
    zeros = np.zeros(4, np.uint32)
    u, v, w = ref(text, [floats, halves, zeros, np.zeros((4, 2), np.uint16), np.zeros(4, np.uint16)], 4)
    assert (u == floats.view(np.uint32)).all()
    assert v.shape == (4, 2)
    assert (v.view(np.uint32).reshape(-1) == u).all()
    assert (w == halves).all()


def test_vectors(ref: Any) -> None:
    """splat, vector, extract, insert, vector select and compare, element-wise ops, vector load and store.

    A vector load from a scalar buffer starts at an element and need not be aligned.
    """
    text = """
    program @v workgroup(2) {
      buffer @in : i32[?] read binding(0)
      buffer @vs : vec<4 x i32>[?] write binding(1) live_out
      buffer @flat : i32[?] write binding(2) live_out
      %g = global_id x
      %one = const 1 : u32
      %four = const 4 : u32
      %at = mul %g, %four : u32
      %from = add %at, %one : u32
      %a = load @in[%from] : vec<4 x i32>
      %k = const [10, 20, 30, 40] : vec<4 x i32>
      %sum = add %a, %k : vec<4 x i32>
      %lane2 = extract %sum[2] : vec<4 x i32>
      %changed = insert %lane2, %sum[0] : vec<4 x i32>
      %wide = splat %lane2 : vec<4 x i32>
      %less = lt %changed, %wide : vec<4 x i32>
      %chosen = select %less, %changed, %wide : vec<4 x i32>
      store %chosen, @vs[%g] : vec<4 x i32>
      %x = extract %a[0] : vec<4 x i32>
      %y = extract %a[3] : vec<4 x i32>
      %made = vector %y, %x : vec<2 x i32>
      %two = const 2 : u32
      %place = mul %g, %two : u32
      store %made, @flat[%place] : vec<2 x i32>
    }"""
    ints = np.arange(-3, 6, dtype=np.int32)
    vs, flat = ref(text, [ints, np.zeros((2, 4), np.int32), np.zeros(4, np.int32)], 1)
    for lane in range(2):
        a = ints[1 + 4 * lane : 5 + 4 * lane]
        total = a + np.array([10, 20, 30, 40], np.int32)
        middle = total[2]
        total[0] = middle
        assert (vs[lane] == np.minimum(total, middle)).all()
        assert list(flat[2 * lane : 2 * lane + 2]) == [a[3], a[0]]
