"""Branches and loops that lanes take or leave alone, in workgroups of any shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.pairs import pairs
from support.quick import quick

LANES = (1, 5, 32, 33, 48, 64, 100)

DIVERGENT_IF = """
  %two = const 2 : u32
  %odd = rem %x, %two : u32
  %p = eq %odd, %two : u32
  %q = lt %odd, %x : u32
  %y, %f = if %q -> (u32, f32) {
    %a = mul %x, %x : u32
    %one = const 1.0 : f32
    yield %a, %one
  } else {
    %b = if %p -> u32 { yield %two } else { yield %odd }
    %z = const 0.5 : f32
    yield %b, %z
  }
  %g2 = cast %f : f32 -> u32
  %r = add %y, %g2 : u32"""

UNIFORM_IF = """
  %w = workgroup_id x
  %zero = const 0 : u32
  %first = eq %w, %zero : u32
  %l = local_id x
  %r = if %first -> u32 { %a = add %l, %x : u32  yield %a } else { yield %l }"""

DIVERGENT_FOR = """
  %l = local_id x
  %five = const 5 : u32
  %n = rem %x, %five : u32
  %one = const 1 : u32
  %m = and %x, %one : u32
  %step = add %m, %one : u32
  %sum, %last = for %k = %m to %n step %step iter(%acc = %l : u32, %u = %one : u32) {
    %t = add %acc, %k : u32
    %v = add %u, %one : u32
    yield %t, %v
  }
  %s = mul %last, %sum : u32
  %r = add %s, %last : u32"""

STRIDED_FOR = """
  %l = local_id x
  %n = const 150 : u32
  %size = workgroup_size x
  %r = for %k = %l to %n step %size iter(%acc = %x : u32) {
    %c = const 3 : u32
    %d = mul %k, %c : u32
    %t = add %acc, %d : u32
    yield %t
  }"""

CARRIED_PROGRESSION = """
  %l = local_id x
  %c = const 7 : u32
  %i = for %k = 0 to 4 step 1 iter(%p = %l : u32) {
    %q = add %p, %c : u32
    yield %q
  }
  %r = xor %i, %x : u32"""

SWAPPED = """
  %l = local_id x
  %a, %b = for %k = 0 to 3 step 1 iter(%p = %x : u32, %q = %l : u32) {
    yield %q, %p
  }
  %r = sub %a, %b : u32"""

WHILE = """
  %zero = const 0 : u32
  %one = const 1 : u32
  %rest, %rounds, %same = while iter(%v = %x : u32, %n = %zero : u32, %u = %one : u32) {
    %more = ne %v, %zero : u32
    condition %more
  } do {
    %half = shr %v, %one : u32
    %count = add %n, %one : u32
    %twice = add %u, %u : u32
    yield %half, %count, %twice
  }
  %s = add %rounds, %rest : u32
  %r = xor %s, %same : u32"""

UNIFORM_WHILE = """
  %zero = const 0 : u32
  %w = num_workgroups x
  %one = const 1 : u32
  %n, %t = while iter(%v = %w : u32, %m = %x : u32) {
    %more = ne %v, %zero : u32
    condition %more
  } do {
    %less = sub %v, %one : u32
    %mm = mul %m, %w : u32
    yield %less, %mm
  }
  %r = add %n, %t : u32"""

NESTED = """
  %zero = const 0 : u32
  %one = const 1 : u32
  %three = const 3 : u32
  %n = rem %x, %three : u32
  %r = for %k = 0 to %n step 1 iter(%acc = %zero : u32) {
    %j, %m = while iter(%a = %k : u32, %s = %acc : u32) {
      %more = lt %a, %three : u32
      condition %more
    } do {
      %p = eq %a, %one : u32
      %b = if %p -> u32 { %t = add %s, %x : u32  yield %t } else { yield %s }
      %a1 = add %a, %one : u32
      %b1 = add %b, %one : u32
      yield %a1, %b1
    }
    %q = add %m, %j : u32
    yield %q
  }"""

REGION_AND_CALL = """
  %l = local_id x
  %p = region @part -> u32 { %a = add %x, %l : u32  yield %a }
  %q, %s = call @twice(%p, %l) : (u32, u32) -> (u32, u32)
  %r = sub %q, %s : u32"""

FUNCS = """
func @once(%a : u32) -> u32 {
  %one = const 1 : u32
  %odd = and %a, %one : u32
  %zero = const 0 : u32
  %is = ne %odd, %zero : u32
  %r = if %is -> u32 { %t = mul %a, %a : u32  yield %t } else { yield %a }
  yield %r
}
func @twice(%a : u32, %b : u32) -> (u32, u32) {
  %x = call @once(%a) : (u32) -> u32
  %y = call @once(%b) : (u32) -> u32
  yield %y, %x
}
"""

BODIES = {
    name.lower(): text
    for name, text in globals().copy().items()
    if name.isupper() and isinstance(text, str) and "%r" in text and name != "FUNCS"
}


@pytest.mark.parametrize(("body", "lanes"), pairs(BODIES, LANES))
def test_lanes_go_their_own_ways(agree: Any, body: str, lanes: int) -> None:
    x = np.random.default_rng(lanes).integers(0, 40, 3 * lanes).astype(np.uint32)
    text = f"""program @p workgroup({lanes}) {{
      buffer @x : u32[?] read binding(0)
      buffer @y : u32[?] write binding(1) live_out
      %g = global_id x
      %x = load @x[%g] : u32
      {BODIES[body]}
      store %r, @y[%g] : u32
    }}"""
    agree((FUNCS if "call" in body else "") + text, [x, np.zeros_like(x)], 3)


@pytest.mark.parametrize("dtype", quick(["u8", "i64", "i32", "i8", "u32", "u64"], keep=3))
def test_loops_end_at_the_type_s_ends(agree: Any, dtype: str) -> None:
    """The counter never wraps, and the rounds are counted exactly."""
    bits, signed = int(dtype[1:]), dtype[0] == "i"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    third = (high - low) // 3
    lowers, uppers, steps = zip(
        (high - 5, high, 2), (low, high, third), (high, low, 1), (low, low + 1, high), (0, high, high),
        (high - 1, high, 1), (low, high, high), (3, 3, 1),
        strict=True,
    )  # fmt: skip
    kind = np.dtype(f"{dtype[0]}{bits // 8}")
    arrays = [np.array(column, kind) for column in (lowers, uppers, steps)]
    text = f"""program @p workgroup(8) {{
      buffer @a : {dtype}[8] read binding(0)
      buffer @b : {dtype}[8] read binding(1)
      buffer @c : {dtype}[8] read binding(2)
      buffer @n : u32[8] write binding(3) live_out
      buffer @m : u32[8] write binding(4) live_out
      %g = global_id x
      %lower = load @a[%g] : {dtype}
      %upper = load @b[%g] : {dtype}
      %step = load @c[%g] : {dtype}
      %zero = const 0 : u32
      %one = const 1 : u32
      %n = for %k = %lower to %upper step %step iter(%acc = %zero : u32) : {dtype} {{
        %t = add %acc, %one : u32
        yield %t
      }}
      store %n, @n[%g] : u32
      %m = for %k = {high - 3} to {high} step 2 iter(%acc = %zero : u32) : {dtype} {{
        %c = cast %k : {dtype} -> u32
        %t = add %acc, %c : u32
        yield %t
      }}
      store %m, @m[%g] : u32
    }}"""
    agree(text, [*arrays, np.zeros(8, np.uint32), np.zeros(8, np.uint32)], 1)


def test_blocks_nest_deeply(agree: Any) -> None:
    """As deep as the parser lets a text go."""
    depth = 190
    opening = "".join(f"%c{n} = ge %x, %zero : u32\nif %c{n} {{\n" for n in range(depth))
    text = f"""program @p workgroup(32) {{
      buffer @x : u32[32] read binding(0)
      buffer @y : u32[32] write binding(1) live_out
      %g = global_id x
      %x = load @x[%g] : u32
      %zero = const 0 : u32
      {opening} store %x, @y[%g] : u32 {"}" * depth}
    }}"""
    agree(text, [np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)], 1, opt=1)
