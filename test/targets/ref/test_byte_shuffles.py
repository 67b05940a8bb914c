"""permute and movemask in the interpreter, against values written down by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def test_permute_takes_lanes_of_the_table_and_0_beyond_it(ref: Any) -> None:
    """Each invocation has its own table; lengths of table and index differ, and neither is a power of two."""
    table = np.array([[10, 11, 12], [20, 21, 22]], np.uint8)
    index = np.array([[2, 0, 3, 255, 1], [0, 0, 128, 2, 4]], np.uint8)
    text = """program @p workgroup(2) {
      buffer @t : vec<3 x u8>[2] read binding(0)
      buffer @i : vec<5 x u8>[2] read binding(1)
      buffer @y : vec<5 x u8>[2] write binding(2) live_out
      %g = global_id x
      %t = load @t[%g] : vec<3 x u8>
      %i = load @i[%g] : vec<5 x u8>
      %y = permute %t, %i : vec<5 x u8>
      store %y, @y[%g] : vec<5 x u8>
    }"""
    (y,) = ref(text, [table, index, np.zeros((2, 5), np.uint8)], 1)
    assert y.tolist() == [[12, 10, 0, 0, 11], [20, 20, 0, 22, 0]]


@pytest.mark.parametrize(
    ("lanes", "result"), [(8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64)]
)
def test_bit_i_of_a_mask_is_lane_i(ref: Any, lanes: int, result: type) -> None:
    """Of masks with one lane, of none, and of all: the highest bit is no sign."""
    flags = np.vstack([np.eye(lanes, dtype=bool), np.zeros((1, lanes), bool), np.ones((1, lanes), bool)])
    text = f"""program @p workgroup({lanes + 2}) {{
      buffer @p : vec<{lanes} x bool>[{lanes + 2}] read binding(0)
      buffer @y : u{lanes}[{lanes + 2}] write binding(1) live_out
      %g = global_id x
      %p = load @p[%g] : vec<{lanes} x bool>
      %y = movemask %p : vec<{lanes} x bool>
      store %y, @y[%g] : u{lanes}
    }}"""
    (y,) = ref(text, [flags, np.zeros(lanes + 2, result)], 1)
    assert [int(bits) for bits in y] == [*(1 << lane for lane in range(lanes)), 0, (1 << lanes) - 1]
