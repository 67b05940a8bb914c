"""Asynchronous copies: they are there after their wait, and what a program may do before that."""

from __future__ import annotations

import numpy as np
import pytest
from support.copy_programs import StreamedTiles
from support.quick import quick

from vyre_opt import ProgramError, dispatcher, run

TARGETS = ["ref", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]

PIPELINED = """vyre 2
program @mirror workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  buffer @t : f32[2, 64] workgroup
  %l = local_id x
  %n = len @x
  %zero = const 0 : u32
  %one = const 1 : u32
  %size = const 64 : u32
  %last = const 63 : u32
  %mirrored = sub %last, %l : u32
  %a = load @x[%l] : f32
  copy_async %a, @t[%zero, %l] : f32
  copy_wait 1
  for %k = 64 to %n step 64 {
    %i = add %k, %l : u32
    %b = div %k, %size : u32
    %s = and %b, %one : u32
    %v = load @x[%i] : f32
    copy_async %v, @t[%s, %l] : f32
    copy_wait 1
    barrier workgroup
    %before = xor %s, %one : u32
    %m = load @t[%before, %mirrored] : f32
    %o = sub %i, %size : u32
    store %m, @y[%o] : f32
    barrier workgroup
  }
  copy_wait
  barrier workgroup
  %b2 = div %n, %size : u32
  %b3 = sub %b2, %one : u32
  %s2 = and %b3, %one : u32
  %m2 = load @t[%s2, %mirrored] : f32
  %o2 = sub %n, %size : u32
  %o3 = add %o2, %l : u32
  store %m2, @y[%o3] : f32
}"""
"""Every 64 elements backwards; a copy is under way while the one before it is stored."""

X = np.arange(256, dtype=np.float32)


@pytest.mark.parametrize("target", TARGETS)
def test_a_copy_runs_beside_the_use_of_the_one_before(target: str) -> None:
    y = run(PIPELINED, [X, np.zeros_like(X)], grid=1, target=target)["y"]
    np.testing.assert_array_equal(y.reshape(4, 64), X.reshape(4, 64)[:, ::-1])


@pytest.mark.parametrize("target", TARGETS)
def test_a_pipeline_may_launch_one(target: str) -> None:
    """Its only buffer of two dimensions is workgroup memory."""
    text = (
        PIPELINED
        + """
    pipeline @main {
      buffer @x : f32[?] read
      buffer @y : f32[?] live_out
      launch @mirror grid(1) (@x, @y)
    }"""
    )
    y = run(text, [X], target=target, lengths={"y": len(X)})["y"]
    np.testing.assert_array_equal(y.reshape(4, 64), X.reshape(4, 64)[:, ::-1])


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("seed", quick(range(60), keep=3))
def test_tiles_come_through_a_ring_of_stages(seed: int, target: str) -> None:
    """Waits that leave 0 to 3 groups, rings of 2 to 4 stages; NumPy says what is expected."""
    case = StreamedTiles(seed)
    outputs = dispatcher(target).dispatch(case.program(), case.arrays(), (case.groups, 1, 1))
    for output, expected in zip(outputs, case.expected(), strict=True):
        np.testing.assert_array_equal(np.asarray(output).view(expected.dtype).ravel(), expected)


WRONG = [
    ("copy_wait 1\n    barrier", "copy_wait 2\n    barrier", "which is being copied"),
    ("copy_wait 1\n    barrier workgroup", "barrier workgroup\n    copy_wait 1", "data race on @t"),
    ("    barrier workgroup\n  }", "  }", "data race on @t"),
    ("copy_wait\n  barrier workgroup", "barrier workgroup", "which is being copied"),
    ("copy_wait 1\n  for", "for", "which is being copied"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_what_is_not_waited_for_is_told(old: str, new: str, message: str) -> None:
    assert PIPELINED.count(old) == 1
    with pytest.raises(ProgramError, match=message) as info:
        run(PIPELINED.replace(old, new), [X, np.zeros_like(X)], grid=1, target="ref")
    assert "@t" in str(info.value)


BRANCH = """vyre 2
program @p workgroup(64) {
  buffer @x : u32[64] read binding(0)
  buffer @y : u32[64] write binding(1)
  buffer @t : u32[64] workgroup
  %l = local_id x
  %one = const 1 : u32
  %bit = and %l, %one : u32
  %zero = const 0 : u32
  %is_even = eq %bit, %zero : u32
  %v = load @x[%l] : u32
  copy_async %v, @t[%l] : u32
  if %is_even {
    copy_wait
  } else {
    ELSE
  }
  %w = load @t[%l] : u32
  store %w, @y[%l] : u32
}"""


def test_each_invocation_waits_for_its_own() -> None:
    x = np.arange(64, dtype=np.uint32)
    y = run(BRANCH.replace("ELSE", "copy_wait"), [x, np.zeros_like(x)], grid=1, target="ref")["y"]
    np.testing.assert_array_equal(y, x)
    with pytest.raises(ProgramError, match=r"local id \(1,0,0\) touches index 1"):
        run(BRANCH.replace("ELSE", ""), [x, np.zeros_like(x)], grid=1, target="ref")


@pytest.mark.parametrize("target", TARGETS)
def test_a_copy_out_of_bounds_is_told(target: str) -> None:
    text = PIPELINED.replace("copy_async %a, @t[%zero, %l]", "copy_async %a, @t[%last, %l]")
    with pytest.raises(ProgramError, match="@t"):
        run(text, [X, np.zeros_like(X)], grid=1, target=target)
    flat = BRANCH.replace("ELSE", "copy_wait").replace("@t[%l] : u32\n  if", "@t[%n] : u32\n  if")
    flat = flat.replace("%v = load", "%n = add %l, %one : u32\n  %v = load")
    x = np.arange(64, dtype=np.uint32)
    with pytest.raises(ProgramError, match="copy_async out of bounds of @t: index 64, length 64"):
        run(flat, [x, np.zeros_like(x)], grid=1, target=target)
