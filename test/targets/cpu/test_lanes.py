"""What single lanes do: those that take another branch, leave a loop earlier, or are absent from a subgroup."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.pairs import pairs
from support.quick import quick

LANES = (48, 5, 32)

BODIES = {
    "the sides of a branch": """
      %p = gt %x, %c40 : u32
      %v = if %p -> u32 { %a = add %x, %l : u32 yield %a } else { %b = sub %x, %l : u32 yield %b }""",
    "a for of each lane's own rounds, the last of which is short": """
      %lower = rem %x, %c3 : u32
      %upper = rem %x, %c40 : u32
      %v = for %k = %lower to %upper step 7 iter(%a = %l : u32) {
        %b = mul %a, %c3 : u32
        %s = add %b, %k : u32
        yield %s
      }""",
    "a for of equal rounds, the last of which is short": """
      %v = for %k = 0 to 40 step 7 iter(%a = %x : u32) {
        %b = mul %a, %c3 : u32
        %s = add %b, %k : u32
        yield %s
      }""",
    "a while that lanes leave one by one": """
      %limit = mul %l, %c3 : u32
      %v, %rounds = while iter(%a = %x : u32, %n = %zero : u32) {
        %more = lt %n, %limit : u32
        condition %more
      } do {
        %b = mul %a, %c3 : u32
        %s = add %b, %n : u32
        %m = add %n, %one : u32
        yield %s, %m
      }""",
    "a while whose condition counts the lanes that ask": """
      %v = while iter(%n = %zero : u32) {
        %asked = atomic_add @count[%zero], %one : u32
        %more = lt %n, %l : u32
        condition %more
      } do {
        %m = add %n, %one : u32
        yield %m
      }""",
    "a number that an atomic hands out": "%v = atomic_add @count[%zero], %one : u32",
    "a vote that absent lanes would win": """
      %p = lt %l, %c100 : u32
      %v = subgroup_ballot %p""",
    "a shuffle upwards by nearly 2^32": """
      %far = sub %zero, %one : u32
      %varying = sub %far, %zero_of_lane : u32
      %v = subgroup_shuffle<up> %x, %varying : u32""",
    "a shuffle downwards by nearly 2^32": """
      %far = sub %zero, %one : u32
      %varying = sub %far, %zero_of_lane : u32
      %v = subgroup_shuffle<down> %x, %varying : u32""",
}


@pytest.mark.parametrize("lanes", quick(LANES))
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_each_lane_has_its_own_result(agree: Any, body: str, lanes: int) -> None:
    text = f"""program @p workgroup({lanes}) {{
      buffer @x : u32[?] read binding(0)
      buffer @count : u32[1] read_write binding(1) live_in live_out
      buffer @y : u32[?] write binding(2)
      %l = local_id x
      %zero = const 0 : u32
      %one = const 1 : u32
      %c3 = const 3 : u32
      %c40 = const 40 : u32
      %c100 = const 100 : u32
      %x = load @x[%l] : u32
      %zero_of_lane = div %x, %c100 : u32
      {body}
      store %v, @y[%l] : u32
    }}"""
    x = np.random.default_rng(lanes).integers(0, 100, lanes, dtype=np.uint32)
    agree(text, [x, np.zeros(1, np.uint32), np.zeros(lanes, np.uint32)], 1)


@pytest.mark.parametrize(("combine", "dtype"), pairs(["add", "mul", "min", "max"], ["f32", "f64"]))
def test_absent_lanes_leave_the_sign_of_a_zero(agree: Any, dtype: str, combine: str) -> None:
    text = f"""program @p workgroup(5) {{
      buffer @x : {dtype}[?] read binding(0)
      buffer @y : {dtype}[?] write binding(1)
      %l = local_id x
      %x = load @x[%l] : {dtype}
      %v = subgroup_reduce<{combine}> %x : {dtype}
      store %v, @y[%l] : {dtype}
    }}"""
    zeros = np.full(5, -0.0, {"f32": np.float32, "f64": np.float64}[dtype])
    agree(text, [zeros, np.ones_like(zeros)], 1)
