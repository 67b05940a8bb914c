"""What a program at fault on the GPU tells: the op, the element, the invocation; and the context lives on."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_opt import parse
from vyre_opt.execution import BackendError, ProgramError

pytestmark = pytest.mark.gpu

GATHER = """vyre 1
program @gather workgroup(32) {
  buffer @at : i32[?] read binding(0)
  buffer @x : f32[?] read binding(1)
  buffer @y : f32[?] write binding(2)
  %g = global_id x
  %i = load @at[%g] : i32
  %v = load @x[%i] : f32
  store %v, @y[%g] : f32
}
"""


def arrays(bad: int) -> list[np.ndarray]:
    at = np.arange(64, dtype=np.int32) % 10
    at[37] = bad
    return [at, np.arange(10, dtype=np.float32), np.zeros(64, np.float32)]


@pytest.mark.parametrize("bad", [10, -1, -(2**31), 2**31 - 1])
def test_an_access_out_of_bounds_is_reported_where_it_is(cuda, bad):
    program = parse(GATHER).programs["gather"]
    gpu = cuda()
    with pytest.raises(ProgramError) as caught:
        gpu.dispatch(program, arrays(bad), 2)
    assert caught.value.kind == "bounds"
    assert caught.value.diagnostic.loc.line == 8
    assert f"index {bad}, length 10, by workgroup (1,0,0) local id (5,0,0)" in str(caught.value)
    (fine,) = gpu.dispatch(program, arrays(3), 2)
    assert fine[37] == 3


def test_a_vector_access_that_sticks_out_is_reported(cuda):
    text = GATHER.replace(
        "%v = load @x[%i] : f32", "%w = load @x[%i] : vec<4 x f32>\n  %v = extract %w[0] : vec<4 x f32>"
    )
    program = parse(text).programs["gather"]
    inputs = arrays(0)
    inputs[0][:] = 6
    cuda().dispatch(program, inputs, 2)
    inputs[0][5] = 7
    with pytest.raises(ProgramError, match="elements 7 to 10, length 10"):
        cuda().dispatch(program, inputs, 2)


def test_clamp_moves_to_the_nearest_element(cuda):
    program = parse(GATHER).programs["gather"]
    gpu = cuda(bounds="clamp")
    assert gpu.dispatch(program, arrays(999), 2)[0][37] == 9
    assert gpu.dispatch(program, arrays(-5), 2)[0][37] == 0
    empty = arrays(0)
    empty[1] = empty[1][:0]
    assert not gpu.dispatch(program, empty, 2)[0].any()


def test_a_trap_in_some_lanes_ends_the_dispatch_with_its_message(cuda):
    program = parse("""vyre 1
program @t workgroup(64) {
  buffer @x : u32[64] read binding(0)
  buffer @y : u32[64] write binding(1)
  buffer @s : u32[64] workgroup
  %i = local_id x
  %v = load @x[%i] : u32
  %bad = const 7 : u32
  %is = eq %v, %bad : u32
  if %is {
    trap "seven"
  }
  store %v, @s[%i] : u32
  barrier workgroup
  %w = load @s[%i] : u32
  store %w, @y[%i] : u32
}
""").programs["t"]
    gpu = cuda(bounds="none")
    with pytest.raises(ProgramError, match=r"trap: seven; reached by workgroup \(0,0,0\) local id \(7,0,0\)"):
        gpu.dispatch(program, [np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)], 1)
    (y,) = gpu.dispatch(program, [np.full(64, 3, np.uint32), np.zeros(64, np.uint32)], 1)
    assert (y == 3).all()


def test_an_assert_that_is_false_in_some_lanes_ends_the_dispatch(cuda):
    program = parse("""vyre 2
program @t workgroup(64) {
  buffer @x : u32[64] read binding(0)
  buffer @y : u32[64] write binding(1)
  %i = local_id x
  %v = load @x[%i] : u32
  %seven = const 7 : u32
  %fine = ne %v, %seven : u32
  assert %fine, "not seven"
  store %v, @y[%i] : u32
}
""").programs["t"]
    gpu = cuda(bounds="none")
    with pytest.raises(
        ProgramError, match=r"assert: not seven; false in workgroup \(0,0,0\) local id \(7,0,0\)"
    ):
        gpu.dispatch(program, [np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)], 1)
    (y,) = gpu.dispatch(program, [np.full(64, 3, np.uint32), np.zeros(64, np.uint32)], 1)
    assert (y == 3).all()


def test_a_step_of_zero_is_reported(cuda):
    program = parse("""vyre 1
program @t workgroup(1) {
  buffer @x : i32[1] read binding(0)
  buffer @y : i32[1] write binding(1)
  %z = const 0 : i32
  %n = const 10 : i32
  %zi = const 0 : u32
  %s = load @x[%zi] : i32
  %r = for %k = %z to %n step %s iter(%a = %z : i32) : i32 {
    %b = add %a, %k : i32
    yield %b
  }
  store %r, @y[%zi] : i32
}
""").programs["t"]
    out = np.zeros(1, np.int32)
    assert cuda().dispatch(program, [np.array([3], np.int32), out], 1)[0][0] == 18
    with pytest.raises(ProgramError, match="the step of this for is -2"):
        cuda().dispatch(program, [np.array([-2], np.int32), out], 1)


def test_those_who_wait_for_a_faulty_workgroup_do_not_wait_for_ever(cuda):
    program = parse("""vyre 1
program @t workgroup(32) {
  buffer @flag : u32[1] read_write binding(0) live_in live_out
  buffer @x : u32[?] read binding(1)
  buffer @y : u32[?] write binding(2)
  %zero = const 0 : u32
  %w = workgroup_id x
  %g = global_id x
  %first = eq %w, %zero : u32
  if %first {
    %far = const 1000000 : u32
    %v = load @x[%far] : u32
    store %v, @y[%g] : u32
    %one = const 1 : u32
    %o = atomic_exchange<relaxed> @flag[%zero], %one : u32
  } else {
    %r = while iter(%a = %zero : u32) {
      %seen = atomic_add<relaxed> @flag[%zero], %zero : u32
      %none = eq %seen, %zero : u32
      condition %none
    } do {
      yield %a
    }
  }
}
""").programs["t"]
    x = np.zeros(128, np.uint32)
    with pytest.raises(ProgramError, match="index 1000000"):
        cuda().dispatch(program, [np.zeros(1, np.uint32), x, x], 4)


def test_too_many_workgroups_for_a_grid_barrier(cuda):
    program = parse("""vyre 1
program @t workgroup(1024) {
  buffer @y : u32[?] write binding(0)
  %g = global_id x
  barrier grid
  store %g, @y[%g] : u32
}
""").programs["t"]
    gpu = cuda()
    with pytest.raises(BackendError, match="must run at once"):
        gpu.dispatch(program, [np.zeros(1024 * 10000, np.uint32)], 10000)
