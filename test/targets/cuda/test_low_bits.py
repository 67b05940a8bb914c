"""The low bits of floats, stored as narrower integers."""

from __future__ import annotations

import numpy as np
import pytest
from support.pairs import pairs

from vyre_opt import dispatcher, parse

pytestmark = pytest.mark.gpu

COUNT = 512
WORDS = {"f16": "u16", "f32": "u32", "f64": "u64"}
NARROWER = [("f16", "u8"), ("f32", "u8"), ("f32", "u16"), ("f64", "u8"), ("f64", "u16"), ("f64", "u32")]


@pytest.mark.parametrize(("level", "bounds"), pairs([0, 1, 2, 3], ["none", "clamp", "trap"]))
@pytest.mark.parametrize(("source", "result"), NARROWER)
def test_low_bits_of_a_float(source: str, result: str, level: int, bounds: str) -> None:
    """Of a sum, in storage and by way of workgroup memory; and all parts of it as a vector, as few at a time as can be."""
    bits = np.dtype(WORDS[source].replace("u", "uint")).itemsize * 8
    parts = bits // int(result[1:])
    text = f"""vyre 1
    program @low workgroup(64) {{
      buffer @x : {source}[{COUNT}] read binding(0)
      buffer @low : {result}[{COUNT}] write binding(1)
      buffer @tiled : {result}[{COUNT}] write binding(2)
      buffer @parts : {result}[{COUNT * parts}] write binding(3)
      buffer @tile : {result}[64] workgroup
      %i = global_id x
      %l = local_id x
      %x = load @x[%i] : {source}
      %sum = add %x, %x : {source}
      %word = bitcast %sum : {source} -> {WORDS[source]}
      %cut = cast %word : {WORDS[source]} -> {result}
      store %cut, @low[%i] : {result}
      store %cut, @tile[%l] : {result}
      barrier workgroup
      %again = load @tile[%l] : {result}
      store %again, @tiled[%i] : {result}
      %all = bitcast %sum : {source} -> vec<{parts} x {result}>
      %n = const {parts} : u32
      %place = mul %i, %n : u32
      store %all, @parts[%place] : vec<{parts} x {result}>
    }}
    """
    draw = np.random.default_rng(1)
    kind = np.dtype(source.replace("f", "float"))
    x = draw.standard_normal(COUNT).astype(kind)
    expected = (x + x).view(result.replace("u", "uint")).reshape(COUNT, parts)
    empty = [
        np.zeros(COUNT, expected.dtype),
        np.zeros(COUNT, expected.dtype),
        np.zeros(COUNT * parts, expected.dtype),
    ]
    gpu = dispatcher("cuda", bounds=bounds, opt_level=level)
    low, tiled, all_parts = gpu.dispatch(parse(text).programs["low"], [x, *empty], COUNT // 64)
    np.testing.assert_array_equal(low, expected[:, 0])
    np.testing.assert_array_equal(tiled, expected[:, 0])
    np.testing.assert_array_equal(all_parts, expected.ravel())
