"""store_forward on indices that are one element, or seem to be: memory holds the same afterwards."""

from __future__ import annotations

import numpy as np
from support.each import each

from vyre_opt import run

BODIES = {
    "one before and one behind": """
      %before = sub %i, %one : u32
      %behind = add %i, %one : u32
      store %a, @y[%before] : u32
      store %b, @y[%behind] : u32
      %v = load @y[%before] : u32""",
    "an index that is loaded may be any element": """
      store %a, @y[%i] : u32
      store %b, @y[%same] : u32
      %v = load @y[%i] : u32""",
    "an index whose element is known already may be any element": """
      store %a, @y[%i] : u32
      %known = load @y[%same] : u32
      %sum = add %known, %b : u32
      store %sum, @y[%same] : u32
      %v = load @y[%i] : u32""",
    "a vector that begins before the element": """
      %before = sub %i, %one : u32
      %pair = splat %b : vec<2 x u32>
      store %a, @y[%i] : u32
      store %pair, @y[%before] : vec<2 x u32>
      %v = load @y[%i] : u32""",
    "a vector whose index wraps": """
      %i8 = cast %same : u32 -> u8
      %most = const 255 : u8
      %before = add %i8, %most : u8
      %pair = splat %b : vec<2 x u32>
      store %a, @y[%i8] : u32
      store %pair, @y[%before] : vec<2 x u32>
      %v = load @y[%i8] : u32""",
    "another lane's store behind a barrier": """
      store %a, @y[%i] : u32
      barrier workgroup
      store %b, @y[%other] : u32
      barrier workgroup
      %v = load @y[%i] : u32""",
    "a store that another place reads before the next": """
      store %a, @y[%i] : u32
      %v = load @y[%same] : u32
      store %b, @y[%i] : u32""",
}


def test_memory_holds_the_same() -> None:
    """Lane l has the elements from 4*l on; %i and %same are its third."""

    def check(name: str) -> None:
        body = BODIES[name]
        text = f"""vyre 1
        program @p workgroup(8) {{
          buffer @at : u32[8] read binding(0)
          buffer @y : u32[32] read_write binding(1) live_in live_out
          buffer @z : u32[8] write binding(2)
          %l = local_id x
          %one = const 1 : u32
          %two = const 2 : u32
          %four = const 4 : u32
          %seven = const 7 : u32
          %hundred = const 100 : u32
          %mine = mul %l, %four : u32
          %i = add %mine, %two : u32
          %mirrored = sub %seven, %l : u32
          %theirs = mul %mirrored, %four : u32
          %other = add %theirs, %two : u32
          %same = load @at[%l] : u32
          %a = add %l, %hundred : u32
          %b = add %a, %hundred : u32
          {body}
          store %v, @z[%l] : u32
        }}"""
        arrays = {"at": np.arange(8, dtype=np.uint32) * 4 + 2, "y": np.arange(32, dtype=np.uint32)}
        before = run(text, arrays, 1, target="ref")
        after = run(text, arrays, 1, target="ref", passes="store_forward")
        for name, array in before.items():
            np.testing.assert_array_equal(after[name], array, err_msg=f"@{name}")

    each(BODIES, check)
