"""Barriers, what lives across them, and ops of subgroups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.quick import quick

from vyre_opt.execution import ProgramError
from vyre_opt.ir import Source, parse_source
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

LANES = quick((48, 5, 64, 1, 32, 33, 100), keep=3)


def scan(lanes: int) -> str:
    """Hillis and Steele's inclusive scan of a workgroup: barriers in a loop, values across them."""
    return f"""program @scan workgroup({lanes}) {{
      buffer @x : f32[?] read binding(0)
      buffer @y : f32[?] write binding(1) live_out
      buffer @tile : f32[{lanes}] workgroup
      %g = global_id x
      %l = local_id x
      %n = const {lanes} : u32
      %one = const 1 : u32
      %x = load @x[%g] : f32
      %d, %total = while iter(%d = %one : u32, %mine = %x : f32) {{
        %more = lt %d, %n : u32
        condition %more
      }} do {{
        store %mine, @tile[%l] : f32
        barrier workgroup
        %has = ge %l, %d : u32
        %sum = if %has -> f32 {{
          %i = sub %l, %d : u32
          %left = load @tile[%i] : f32
          %s = add %left, %mine : f32
          yield %s
        }} else {{ yield %mine }}
        barrier workgroup
        %twice = add %d, %d : u32
        yield %twice, %sum
      }}
      store %total, @y[%g] : f32
    }}"""


@pytest.mark.parametrize("lanes", LANES)
def test_values_live_across_barriers(agree: Any, lanes: int) -> None:
    x = np.random.default_rng(lanes).normal(size=3 * lanes).astype(np.float32)
    agree(scan(lanes), [x, np.zeros_like(x)], 3)


@pytest.mark.parametrize("lanes", LANES)
def test_control_flow_around_barriers(agree: Any, lanes: int) -> None:
    """Values of each kind: agreed by the workgroup, progressions, lanes, bools, vectors; swapped in a loop."""
    x = np.random.default_rng(lanes).integers(0, 99, 4 * lanes).astype(np.uint32)
    text = f"""program @p workgroup({lanes}) {{
      buffer @x : u32[?] read binding(0)
      buffer @y : u32[?] write binding(1) live_out
      buffer @z : vec<2 x f16>[?] write binding(2) live_out
      buffer @tile : u32[{lanes}] workgroup
      %g = global_id x
      %l = local_id x
      %w = workgroup_id x
      %n = const {lanes} : u32
      %one = const 1 : u32
      %two = const 2 : u32
      %zero = const 0 : u32
      %x = load @x[%g] : u32
      %big = gt %x, %n : u32
      %h = cast %x : u32 -> f16
      %pair = splat %h : vec<2 x f16>
      %odd = and %w, %one : u32
      %is = eq %odd, %one : u32
      %wx = load @x[%w] : u32
      %a, %b, %c, %e, %f = for %k = %zero to %two step 1
          iter(%p = %x : u32, %q = %l : u32, %r = %big : bool, %s = %wx : u32, %v = %pair : vec<2 x f16>) {{
        store %p, @tile[%l] : u32
        barrier workgroup
        %m1 = sub %n, %one : u32
        %m = sub %m1, %l : u32
        %other = load @tile[%m] : u32
        %t, %u = if %is -> (u32, vec<2 x f16>) {{
          barrier workgroup
          store %q, @tile[%l] : u32
          barrier workgroup
          %o = load @tile[%m] : u32
          %k2 = add %o, %k : u32
          %i = neg %v : vec<2 x f16>
          yield %k2, %i
        }} else {{
          %sum = add %other, %s : u32
          yield %sum, %v
        }}
        %flip = xor %r, %is : bool
        %s2 = add %s, %two : u32
        barrier workgroup
        yield %q, %t, %flip, %s2, %u
      }}
      %ab = sub %a, %b : u32
      %ce = select %c, %e, %ab : u32
      store %ce, @y[%g] : u32
      store %f, @z[%g] : vec<2 x f16>
    }}"""
    agree(text, [x, np.zeros_like(x), np.zeros((len(x), 2), np.float16)], 4)


@pytest.mark.parametrize("lanes", LANES)
def test_grid_barriers(agree: Any, lanes: int) -> None:
    """All workgroups reach one before any goes on; their memory and values stay."""
    groups = 5
    x = np.random.default_rng(lanes).integers(0, 99, groups * lanes).astype(np.uint32)
    text = f"""program @p workgroup({lanes}) grid({groups}) {{
      buffer @x : u32[?] read binding(0)
      buffer @y : u32[?] write binding(1) live_out
      buffer @sums : u32[{groups}] read_write
      buffer @tile : u32[{lanes}] workgroup
      %g = global_id x
      %l = local_id x
      %w = workgroup_id x
      %zero = const 0 : u32
      %first = eq %l, %zero : u32
      %x = load @x[%g] : u32
      store %x, @tile[%l] : u32
      barrier workgroup
      %n = const {lanes} : u32
      %mine = for %k = 0 to %n step 1 iter(%acc = %zero : u32) {{
        %v = load @tile[%k] : u32
        %t = add %acc, %v : u32
        yield %t
      }}
      %r = for %round = 0 to 3 step 1 iter(%own = %mine : u32) {{
        if %first {{ store %own, @sums[%w] : u32 }}
        barrier grid
        %groups = num_workgroups x
        %all = for %k = 0 to %groups step 1 iter(%acc = %zero : u32) {{
          %v = load @sums[%k] : u32
          %t = add %acc, %v : u32
          yield %t
        }}
        barrier grid
        %next = add %all, %w : u32
        yield %next
      }}
      %back = load @tile[%l] : u32
      %s = add %r, %back : u32
      store %s, @y[%g] : u32
    }}"""
    agree(text, [x, np.zeros_like(x)], groups)


# --- subgroups

COMBINED = {
    "i8": ("add", "mul", "min", "max", "and", "or", "xor"),
    "bool": ("and", "or", "xor"),
    "f16": ("add", "mul", "min", "max"),
    "u32": ("add", "mul", "min", "max", "and", "or", "xor"),
    "bf16": ("add", "mul", "min", "max"),
    "f32": ("add", "mul", "min", "max"),
    "f64": ("add", "mul", "min", "max"),
}


@pytest.mark.parametrize("dtype", quick(COMBINED, keep=3))
def test_reduce_and_scan(agree: Any, dtype: str) -> None:
    """In lane order, so that float sums agree to the bit; NaN, -0.0 and short subgroups included."""
    rng = np.random.default_rng(8)
    stored = {"f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64, "bool": np.bool_}
    kind = stored.get(dtype, np.dtype(f"{dtype[0]}{int(dtype[1:]) // 8}") if dtype[0] in "ui" else None)
    for lanes in (5, 32, 48):
        x = rng.integers(0, 2 if dtype == "bool" else 100, 2 * lanes).astype(kind)
        if dtype[0] == "f":
            x = rng.normal(size=2 * lanes).astype(kind)
            x[1], x[3] = np.nan, -0.0
        if dtype == "bf16":
            x = rng.integers(0x3F00, 0x4100, 2 * lanes).astype(np.uint16)
        outputs, body = [], []
        for combine in COMBINED[dtype]:
            for form in (f"reduce<{combine}>", f"scan<inclusive, {combine}>", f"scan<exclusive, {combine}>"):
                place = len(outputs) + 1
                outputs.append(f"buffer @y{place} : {dtype}[?] write binding({place}) live_out")
                body.append(f"%y{place} = subgroup_{form} %x : {dtype}")
                body.append(f"store %y{place}, @y{place}[%g] : {dtype}")
        nl = "\n"
        text = f"""program @p workgroup({lanes}) {{
          buffer @x : {dtype}[?] read binding(0)
          {nl.join(outputs)}
          %g = global_id x
          %x = load @x[%g] : {dtype}
          {nl.join(body)}
        }}"""
        agree(text, [x, *(np.zeros_like(x) for _ in outputs)], 2)


@pytest.mark.parametrize("lanes", LANES)
def test_shuffles_and_ballot(agree: Any, lanes: int) -> None:
    """By amounts that are known, agreed, and each lane's own; sources beyond the subgroup keep their own."""
    x = np.random.default_rng(lanes).integers(0, 2**32, 2 * lanes, dtype=np.uint64).astype(np.uint32)
    x[::5] %= 40
    cases = [
        f"subgroup_shuffle<{mode}> %x, {amount} : u32"
        for mode in ("idx", "up", "down", "xor")
        for amount in ("%zero", "%three", "%sixteen", "%forty", "%w", "%l", "%x")
    ]
    outputs = "\n".join(
        f"buffer @y{n} : u32[?] write binding({n}) live_out" for n in range(1, len(cases) + 2)
    )
    body = "\n".join(f"%y{n} = {case}\nstore %y{n}, @y{n}[%g] : u32" for n, case in enumerate(cases, 1))
    last = len(cases) + 1
    text = f"""program @p workgroup({lanes}) {{
      buffer @x : u32[?] read binding(0)
      {outputs}
      %g = global_id x
      %l = local_id x
      %w = workgroup_id x
      %zero = const 0 : u32
      %three = const 3 : u32
      %sixteen = const 16 : u32
      %forty = const 40 : u32
      %x = load @x[%g] : u32
      {body}
      %small = lt %x, %forty : u32
      %b = subgroup_ballot %small
      store %b, @y{last}[%g] : u32
    }}"""
    agree(text, [x, *(np.zeros_like(x) for _ in range(last))], 2)


def test_shuffle_of_vectors_and_bools(agree: Any) -> None:
    x = np.random.default_rng(1).integers(0, 90, (40, 3)).astype(np.uint16)
    text = """program @p workgroup(40) {
      buffer @x : vec<3 x u16>[40] read binding(0)
      buffer @y : vec<3 x u16>[40] write binding(1) live_out
      buffer @z : bool[40] write binding(2) live_out
      %g = global_id x
      %x = load @x[%g] : vec<3 x u16>
      %a = extract %x[0] : vec<3 x u16>
      %n = cast %a : u16 -> u32
      %y = subgroup_shuffle<xor> %x, %n : vec<3 x u16>
      store %y, @y[%g] : vec<3 x u16>
      %c = const 9 : u16
      %p = lt %a, %c : u16
      %q = subgroup_shuffle<down> %p, %n : bool
      store %q, @z[%g] : bool
    }"""
    agree(text, [x, np.zeros_like(x), np.zeros(40, np.bool_)], 1)


def test_subgroup_barriers(agree: Any) -> None:
    """A subgroup hands data to itself; another goes another way."""
    x = np.arange(96, dtype=np.uint32)
    text = """program @p workgroup(96) {
      buffer @x : u32[96] read binding(0)
      buffer @y : u32[96] write binding(1) live_out
      buffer @tile : u32[96] workgroup
      %l = local_id x
      %s = subgroup_id
      %one = const 1 : u32
      %x = load @x[%l] : u32
      %is = eq %s, %one : u32
      if %is {
        store %x, @tile[%l] : u32
        barrier subgroup
        %i = xor %l, %one : u32
        %v = load @tile[%i] : u32
        store %v, @y[%l] : u32
      } else {
        store %s, @y[%l] : u32
      }
    }"""
    agree(text, [x, np.zeros_like(x)], 1)


def test_a_barrier_that_only_some_may_reach_is_refused() -> None:
    """Such a program does not verify; who runs it all the same is told."""
    text = """vyre 1
    program @p workgroup(64) {
      %l = local_id x
      %c = const 5 : u32
      %p = lt %l, %c : u32
      if %p { barrier workgroup }
    }"""
    (program,) = parse_source(Source(text, "t.vyre")).programs.values()
    with pytest.raises(ProgramError, match="may go different ways") as caught:
        CpuDispatcher().dispatch(program, [], 1)
    assert caught.value.kind == "divergence"


def test_lanes_that_a_short_subgroup_lacks_never_take_part(agree: Any) -> None:
    """LLVM loses flags that it knows to be false, if it may shuffle them; so it must not know them."""
    text = """program @p workgroup(4, 2) {
      buffer @x : u64[16] read binding(0)
      buffer @hits : u64[16] read_write binding(1) live_in live_out
      %zero = const 0 : u32
      %one = const 1 : u32
      %nought = const 0.0 : f32
      %least = subgroup_scan<exclusive, min> %nought : f32
      %some = ge %nought, %least : f32
      %n = num_workgroups x
      %none = lt %n, %one : u32
      %old = atomic_add<relaxed> @hits[%zero], %old_value : u64
      %yes = const true : bool
      %known = xor %yes, %none : bool
      %p = select %known, %yes, %some : bool
      if %p {
        %y = local_id y
        %four = const 4 : u32
        %i = mul %y, %four : u32
        %w = workgroup_id x
        %sixteen = const 16 : u32
        %base = mul %w, %sixteen : u32
        %at = add %base, %i : u32
        %v = load @x[%at] : u64
      }
    }"""
    text = text.replace("%old = ", "%old_value = const 0 : u64\n      %old = ")
    agree(text, [np.zeros(16, np.uint64), np.zeros(16, np.uint64)], 1)
