"""Control flow: results, divergence of lanes, loop bounds at the edges of their types, calls."""

from __future__ import annotations

import _thread
import signal
import threading
from typing import Any

import numpy as np
import pytest

from vyre_opt import ProgramError, dispatcher, parse


def test_if_gives_each_lane_its_side(ref: Any) -> None:
    """Results of a divergent if are merged; values from outside are the lane's own."""
    text = """
    program @p workgroup(8) {
      buffer @y : u32[16] write binding(0) live_out
      %g = global_id x
      %c3 = const 3 : u32
      %r = rem %g, %c3 : u32
      %zero = const 0 : u32
      %p = eq %r, %zero : u32
      %v = if %p -> u32 {
        %q = eq %g, %zero : u32
        %w = if %q -> u32 { yield %c3 } else { yield %g }
        yield %w
      } else {
        %n = not %g : u32
        yield %n
      }
      store %v, @y[%g] : u32
    }"""
    (y,) = ref(text, [np.zeros(16, np.uint32)], 2)
    assert list(y) == [3 if g == 0 else g if g % 3 == 0 else 0xFFFFFFFF - g for g in range(16)]


def test_for_with_bounds_of_each_lane(ref: Any) -> None:
    """Lanes leave a loop at their own time, with their own results; some never enter."""
    text = """
    program @p workgroup(8) {
      buffer @y : u32[8] write binding(0) live_out
      buffer @z : u32[8] write binding(1) live_out
      %g = global_id x
      %two = const 2 : u32
      %zero = const 0 : u32
      %a, %b = for %i = %two to %g step 2 iter(%s = %zero : u32, %t = %g : u32) {
        %s2 = add %s, %i : u32
        yield %s2, %i
      }
      store %a, @y[%g] : u32
      store %b, @z[%g] : u32
    }"""
    y, z = ref(text, [np.zeros(8, np.uint32)] * 2, 1)
    assert list(y) == [sum(range(2, g, 2)) for g in range(8)]
    assert list(z) == [max(range(2, g, 2), default=g) for g in range(8)]


@pytest.mark.parametrize(
    ("dtype", "lower", "upper", "step", "trips"),
    [("u8", 250, 255, 3, 2), ("i8", -128, -120, 5, 2), ("i8", 100, 127, 20, 2), ("u32", 5, 5, 1, 0), ("u32", 6, 5, 1, 0),
     ("i32", -3, 3, 1, 6), ("u64", 2**64 - 3, 2**64 - 1, 1, 2), ("i64", 2**63 - 2, 2**63 - 1, 2**62, 1)],
)  # fmt: skip
@pytest.mark.parametrize("dynamic", [False, True])
def test_for_ends_where_the_counter_would_wrap(
    ref: Any, dtype: str, lower: int, upper: int, step: int, trips: int, dynamic: bool
) -> None:
    bounds = ("%l", "%u", "%s") if dynamic else (lower, upper, step)
    text = f"""
    program @p workgroup(1) {{
      buffer @y : u32[1] write binding(0) live_out
      %g = global_id x
      %l = const {lower} : {dtype}
      %u = const {upper} : {dtype}
      %s = const {step} : {dtype}
      %one = const 1 : u32
      %n = for %i = {bounds[0]} to {bounds[1]} step {bounds[2]} iter(%c = %g : u32) : {dtype} {{
        %d = add %c, %one : u32
        yield %d
      }}
      store %n, @y[%g] : u32
    }}"""
    (y,) = ref(text, [np.zeros(1, np.uint32)], 1)
    assert y[0] == trips


def test_step_of_zero_is_a_fault(faulty: Any) -> None:
    """It would never end."""
    text = """program @p workgroup(4) {
      %g = global_id x
      %n = num_workgroups x
      for %i = 0 to %n step %g { }
    }"""
    assert "step" in faulty("step", 5, text, [], 1).diagnostic.message


def test_while(ref: Any) -> None:
    """Collatz lengths: every lane its own number of iterations, two values carried."""
    text = """
    program @p workgroup(32) {
      buffer @y : u32[96] write binding(0) live_out
      %g = global_id x
      %zero = const 0 : u32
      %one = const 1 : u32
      %three = const 3 : u32
      %start = add %g, %one : u32
      %n, %steps = while iter(%a = %start : u32, %c = %zero : u32) {
        %more = ne %a, %one : u32
        condition %more
      } do {
        %odd = and %a, %one : u32
        %is = eq %odd, %one : u32
        %next = if %is -> u32 {
          %m = mul %a, %three : u32
          %m1 = add %m, %one : u32
          yield %m1
        } else {
          %h = shr %a, %one : u32
          yield %h
        }
        %d = add %c, %one : u32
        yield %next, %d
      }
      store %steps, @y[%g] : u32
    }"""

    def collatz(n: int) -> int:
        steps = 0
        while n != 1:
            n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
        return steps

    (y,) = ref(text, [np.zeros(96, np.uint32)], 3)
    assert list(y) == [collatz(n) for n in range(1, 97)]


ENDLESS = """
    program @p workgroup(1) {
      %always = const true : bool
      while { condition %always } do { }
    }"""


def test_an_endless_loop_can_be_interrupted(ref: Any) -> None:
    """Ctrl-C reaches a program that never ends, also where the shell that started us ignores it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.05, _thread.interrupt_main)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            ref(ENDLESS, [], 1)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, handler)


def test_an_endless_loop_can_be_bounded() -> None:
    """With max_steps a program that never ends is at fault."""
    program = parse(f"vyre 1{ENDLESS}").programs["p"]
    with pytest.raises(ProgramError, match="more than 1000 ops were run") as caught:
        dispatcher("ref", max_steps=1000).dispatch(program, [], 1)
    assert caught.value.kind == "limit"


def test_deep_nesting(ref: Any) -> None:
    """As deep as the parser allows, each level leaving one lane behind."""
    depth = 195
    levels = "".join(
        f"%k{i} = const {i} : u32 %p{i} = gt %g, %k{i} : u32 %r{i} = if %p{i} -> u32 {{\n"
        for i in range(depth)
    )
    ends = "".join(f"yield {value} }} else {{ yield %k{i} }}\n" for i, value in
                   [(i, "%g" if i == depth - 1 else f"%r{i + 1}") for i in reversed(range(depth))])  # fmt: skip
    text = f"""
    program @p workgroup(200) {{
      buffer @y : u32[200] write binding(0) live_out
      %g = global_id x
      {levels}
      {ends}
      store %r0, @y[%g] : u32
    }}"""
    (y,) = ref(text, [np.zeros(200, np.uint32)], 1)
    assert list(y) == list(range(200))


def test_region_and_call(ref: Any) -> None:
    """Functions called from different lanes and from each other; a region's results."""
    text = """
    func @twice(%a : u32) -> u32 {
      %b = add %a, %a : u32
      yield %b
    }
    func @pair(%a : u32, %b : u32) -> (u32, u32) {
      %c = call @twice(%a) : (u32) -> u32
      yield %c, %a
    }
    program @p workgroup(4) {
      buffer @y : u32[4] write binding(0) live_out
      %g = global_id x
      %two = const 2 : u32
      %low = lt %g, %two : u32
      %v = if %low -> u32 {
        %a, %b = call @pair(%g, %two) : (u32, u32) -> (u32, u32)
        %s = add %a, %b : u32
        yield %s
      } else {
        %t = call @twice(%two) : (u32) -> u32
        yield %t
      }
      %r = region @final -> u32 {
        %w = add %v, %two : u32
        yield %w
      }
      store %r, @y[%g] : u32
    }"""
    (y,) = ref(text, [np.zeros(4, np.uint32)], 1)
    assert list(y) == [2, 5, 6, 6]


def test_trap_names_the_invocation(faulty: Any) -> None:
    """A trap stops the dispatch only if a lane reaches it."""
    text = """program @p workgroup(4, 2) {
      %l = local_id y
      %w = workgroup_id x
      %both = and %l, %w : u32
      %zero = const 0 : u32
      %bad = ne %both, %zero : u32
      if %bad { trap "no good" }
    }"""
    error = faulty("trap", 8, text, [], (2, 1))
    assert "no good" in error.diagnostic.message
    assert "workgroup (1,0,0) local id (0,1,0)" in error.diagnostic.message


def test_an_assert_names_the_first_invocation_where_it_is_false(faulty: Any) -> None:
    """One behind a branch is asked of those that take it only."""
    text = """program @p workgroup(4, 2) {
      buffer @y : u32[16] write binding(0)
      %l = local_id y
      %w = workgroup_id x
      %sum = add %l, %w : u32
      %two = const 2 : u32
      %fine = lt %sum, %two : u32
      if %fine { assert %fine, "inside" }
      assert %fine, "both are one"
      %g = global_id x
      store %l, @y[%g] : u32
    }"""
    error = faulty("assert", 10, text, [np.zeros(16, np.uint32)], (2, 1))
    assert "assert: both are one; false in workgroup (1,0,0) local id (0,1,0)" in error.diagnostic.message


def test_ids_in_three_dimensions(ref: Any) -> None:
    """x is the fastest, in the workgroup as in the grid; every id and size agrees with that."""
    names = ["global_id", "local_id", "workgroup_id", "num_workgroups", "workgroup_size", "global_size"]
    sizes = ["lane_id", "subgroup_id", "subgroup_size", "num_subgroups"]
    columns = [f"{name} {axis}" for name in names for axis in "xyz"] + sizes
    body = "\n".join(
        f"%v{i} = {column}\n %k{i} = const {i} : u32\n %p{i} = add %row, %k{i} : u32\n store %v{i}, @y[%p{i}] : u32"
        for i, column in enumerate(columns)
    )
    group, grid = (4, 3, 5), (3, 2, 2)
    text = f"""
    program @p workgroup(4, 3, 5) {{
      buffer @y : u32[?] write binding(0) live_out
      %gx = global_id x
      %gy = global_id y
      %gz = global_id z
      %nx = global_size x
      %ny = global_size y
      %zy = mul %gz, %ny : u32
      %yy = add %zy, %gy : u32
      %zyx = mul %yy, %nx : u32
      %linear = add %zyx, %gx : u32
      %width = const {len(columns)} : u32
      %row = mul %linear, %width : u32
      {body}
    }}"""
    total = [w * n for w, n in zip(group, grid, strict=True)]
    (y,) = ref(text, [np.zeros(int(np.prod(total)) * len(columns), np.uint32)], grid)
    table = y.reshape(*total[::-1], len(columns))
    for z, yy, x in np.ndindex(*total[::-1]):
        place = (x, yy, z)
        local = [p % w for p, w in zip(place, group, strict=True)]
        linear = local[0] + 4 * (local[1] + 3 * local[2])
        row = [*place, *local, *(p // w for p, w in zip(place, group, strict=True)), *grid, *group, *total,
               linear % 32, linear // 32, 32, 2]  # fmt: skip
        assert list(table[z, yy, x]) == row
