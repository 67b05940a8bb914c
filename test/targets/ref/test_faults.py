"""The interpreter finds what a program does wrong, and says where and who; orderly programs pass.

Each faulty text counts its lines from 1 at `vyre 1`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vyre_opt.execution import BackendError, ProgramError

U32 = np.uint32


def zeros(count: int, kind: Any = U32) -> np.ndarray:
    return np.zeros(count, kind)


# --- out of bounds


@pytest.mark.parametrize("checks", [True, False])
def test_store_out_of_bounds(ref: Any, checks: bool) -> None:
    """The first lane past the end is named, with buffer, index and length; bounds are always checked."""
    text = """program @p workgroup(4) {
      buffer @y : u32[6] write binding(0) live_out
      %g = global_id x
      store %g, @y[%g] : u32
    }"""
    with pytest.raises(ProgramError) as caught:
        ref(text, [zeros(6)], 2, checks=checks)
    assert caught.value.kind == "bounds"
    first = str(caught.value).splitlines()[0]
    assert first == (
        "t.vyre:5:7: error: program @p: store out of bounds of @y: index 6, length 6, "
        "by workgroup (1,0,0) local id (2,0,0)"
    )
    assert isinstance(caught.value, BackendError)


@pytest.mark.parametrize(
    ("dtype", "index", "shown"),
    [("i32", -1, "index -1,"), ("u64", 2**64 - 1, f"index {2**64 - 1},"), ("u8", 4, "index 4,")],
)
def test_index_of_any_type(faulty: Any, dtype: str, index: int, shown: str) -> None:
    """A negative index does not count from the end, and a huge one does not wrap."""
    text = f"""program @p workgroup(1) {{
      buffer @x : u32[4] read binding(0)
      %i = const {index} : {dtype}
      %v = load @x[%i] : u32
    }}"""
    assert shown in faulty("bounds", 5, text, [zeros(4)], 1).diagnostic.message


def test_vector_and_atomic_out_of_bounds(faulty: Any) -> None:
    """A vector must fit to its last element; atomics and workgroup memory are checked as well."""
    text = """program @p workgroup(1) {
      buffer @x : u32[6] read binding(0)
      %i = const 3 : u32
      %v = load @x[%i] : vec<4 x u32>
    }"""
    assert "elements 3 to 6, length 6" in faulty("bounds", 5, text, [zeros(6)], 1).diagnostic.message
    text = """program @p workgroup(64) {
      buffer @s : u32[63] workgroup
      %l = local_id x
      store %l, @s[%l] : u32
    }"""
    assert "index 63, length 63" in faulty("bounds", 5, text, [], 3).diagnostic.message
    text = """program @p workgroup(2) {
      buffer @x : u32[1] read_write binding(0) live_in live_out
      %l = local_id x
      %o = atomic_add<relaxed> @x[%l], %l : u32
    }"""
    faulty("bounds", 5, text, [zeros(1)], 1)


# --- uninitialised reads


def uninitialised(declaration: str) -> str:
    return f"""program @p workgroup(4) {{
      buffer @b : u32[8] {declaration}
      %g = global_id x
      %two = const 2 : u32
      %some = lt %g, %two : u32
      if %some {{ store %g, @b[%g] : u32 }}
      %v = load @b[%g] : u32
    }}"""


@pytest.mark.parametrize(
    ("declaration", "bound"),
    [
        ("workgroup", False),
        ("read_write", False),
        ("write binding(0) live_out", True),
        ("read_write binding(0) live_out", True),
    ],
)
def test_read_of_what_nothing_has_written(faulty: Any, ref: Any, declaration: str, bound: bool) -> None:
    """The first lane whose element has no value; lanes that wrote theirs are fine."""
    error = faulty("uninitialised", 8, uninitialised(declaration), [zeros(8)] if bound else [], 1)
    assert "index 2, length 8" in error.diagnostic.message
    assert "local id (2,0,0)" in error.diagnostic.message
    assert ("live_in" in (error.diagnostic.help or "")) == bound
    ref(uninitialised(declaration), [zeros(8)] if bound else [], 1, checks=False)


@pytest.mark.parametrize(
    "declaration", ["read_write binding(0) live_in", "read_write binding(0) live_in live_out"]
)
def test_the_callers_contents_may_be_read(ref: Any, declaration: str) -> None:
    ref(uninitialised(declaration), [zeros(8)], 1)


def test_workgroup_memory_is_fresh_for_each_workgroup(faulty: Any) -> None:
    """What one workgroup wrote is no value for the next, also in another batch."""
    text = """program @p workgroup(1) {
      buffer @s : u32[1048576] workgroup
      %w = workgroup_id x
      %zero = const 0 : u32
      %first = eq %w, %zero : u32
      if %first { store %w, @s[%zero] : u32 }
      %v = load @s[%zero] : u32
    }"""
    assert "workgroup (1,0,0)" in faulty("uninitialised", 8, text, [], 2).diagnostic.message


# --- divergence


def test_divergent_barrier(faulty: Any) -> None:
    """Both an invocation that came and one that did not are named."""
    text = """program @p workgroup(8) {
      %l = local_id x
      %four = const 4 : u32
      %some = ge %l, %four : u32
      if %some {
        barrier workgroup
      }
    }"""
    error = faulty("divergence", 7, text, [], 2)
    assert "by workgroup (0,0,0) local id (4,0,0), not by workgroup (0,0,0) local id (0,0,0)" in str(error)


def test_barrier_in_a_loop_that_some_lanes_leave(faulty: Any) -> None:
    text = """program @p workgroup(8) {
      %l = local_id x
      %seven = const 7 : u32
      %n = max %l, %seven : u32
      for %i = 0 to %n { barrier workgroup }
      for %i = 0 to %l { barrier workgroup }
    }"""
    faulty("divergence", 7, text, [], 1)


def test_uniform_barriers_pass(ref: Any) -> None:
    """A whole workgroup, or a whole subgroup, may branch away from the others."""
    text = """program @p workgroup(64) {
      %w = workgroup_id x
      %s = subgroup_id
      %zero = const 0 : u32
      %first = eq %w, %zero : u32
      if %first { barrier workgroup }
      %low = eq %s, %zero : u32
      if %low {
        barrier subgroup
        %sum = subgroup_reduce<add> %s : u32
      }
    }"""
    ref(text, [], 3)


def test_divergent_subgroup_op(faulty: Any, ref: Any) -> None:
    text = """program @p workgroup(64) {
      %l = local_id x
      %n = const 40 : u32
      %some = lt %l, %n : u32
      if %some {
        %sum = subgroup_reduce<add> %l : u32
      }
    }"""
    assert "local id (40,0,0)" in faulty("divergence", 7, text, [], 1).diagnostic.message
    ref(text, [], 1, checks=False)


def test_grid_barrier_by_part_of_the_grid(faulty: Any) -> None:
    text = """program @p workgroup(4) {
      %w = workgroup_id x
      %zero = const 0 : u32
      %first = eq %w, %zero : u32
      if %first { barrier grid }
    }"""
    faulty("divergence", 6, text, [], 2)


# --- races


def test_two_lanes_of_one_store(faulty: Any) -> None:
    """A race even where both write the same value."""
    text = """program @p workgroup(8) {
      buffer @y : u32[8] write binding(0) live_out
      %l = local_id x
      %one = const 1 : u32
      %half = shr %l, %one : u32
      store %one, @y[%half] : u32
    }"""
    error = faulty("race", 7, text, [zeros(8)], 1)
    assert "index 0" in error.diagnostic.message
    assert "local id (0,0,0)" in error.diagnostic.message
    assert "local id (1,0,0)" in error.diagnostic.message


def neighbours(barrier: str, store: str = "%l") -> str:
    """Each lane writes its element and then reads the next one's."""
    return f"""program @p workgroup(64) {{
      buffer @s : u32[64] workgroup
      buffer @y : u32[?] write binding(0) live_out
      %l = local_id x
      %g = global_id x
      store {store}, @s[%l] : u32
      {barrier}
      %one = const 1 : u32
      %n = add %l, %one : u32
      %mask = const 63 : u32
      %m = and %n, %mask : u32
      %v = load @s[%m] : u32
      store %v, @y[%g] : u32
    }}"""


def test_missing_barrier(faulty: Any, ref: Any) -> None:
    """Write then read by a neighbour; both ops are shown.  With a barrier the program is right."""
    error = faulty("race", 13, neighbours(""), [zeros(128)], 2)
    (note, where), *_ = error.diagnostic.notes
    assert "store @s" in note
    assert where is not None
    assert where.line == 7
    assert "barrier workgroup" in (error.diagnostic.help or "")
    (y,) = ref(neighbours("barrier workgroup"), [zeros(128)], 2)
    assert list(y) == [(i + 1) % 64 for i in range(64)] * 2


def test_the_other_access_is_the_one_that_its_lane_made(faulty: Any) -> None:
    """Lanes 0 and 1 read @b[0] by different ops, then lane 2 writes it: each reader is shown with its own op."""
    text = """program @p workgroup(4) {
      buffer @b : u32[1] read_write binding(0) live_in live_out
      %l = local_id x
      %zero = const 0 : u32
      %one = const 1 : u32
      %two = const 2 : u32
      %is_first = eq %l, %FIRST : u32
      if %is_first { %v = load @b[%zero] : u32 }
      %is_second = eq %l, %SECOND : u32
      if %is_second { %v = load @b[%zero] : u32 }
      %is_third = eq %l, %two : u32
      if %is_third { store %l, @b[%zero] : u32 }
    }"""
    for first, second, line in (("zero", "one", 9), ("one", "zero", 11)):
        error = faulty("race", 13, text.replace("FIRST", first).replace("SECOND", second), [zeros(1)], 1)
        (_, where), *_ = error.diagnostic.notes
        assert "load @b by workgroup (0,0,0) local id (0,0,0)" in error.diagnostic.message
        assert where is not None
        assert where.line == line


def test_a_subgroup_barrier_orders_only_its_subgroup(faulty: Any, ref: Any) -> None:
    """Lane 31 reads from the other subgroup: its access alone races."""
    error = faulty("race", 13, neighbours("barrier subgroup"), [zeros(64)], 1)
    assert "local id (31,0,0)" in error.diagnostic.message
    assert "local id (32,0,0)" in error.diagnostic.message
    swap = """program @p workgroup(64) {
      buffer @s : u32[64] workgroup
      %l = local_id x
      store %l, @s[%l] : u32
      barrier subgroup
      %one = const 1 : u32
      %m = xor %l, %one : u32
      %v = load @s[%m] : u32
      barrier subgroup
      store %v, @s[%l] : u32
    }"""
    ref(swap, [], 3)


def test_read_then_write_needs_a_barrier_too(faulty: Any, ref: Any) -> None:
    """A loop that reads a neighbour's element and then writes its own, twice around."""

    def text(first: str, second: str) -> str:
        return f"""program @p workgroup(32) {{
      buffer @s : u32[32] workgroup
      %l = local_id x
      store %l, @s[%l] : u32
      %one = const 1 : u32
      %m = xor %l, %one : u32
      for %i = 0 to 4 {{
        {first}
        %v = load @s[%m] : u32
        {second}
        store %v, @s[%l] : u32
      }}
    }}"""

    ref(text("barrier workgroup", "barrier workgroup"), [], 2)
    faulty("race", 12, text("barrier workgroup", ""), [], 1)
    faulty("race", 10, text("", "barrier workgroup"), [], 1)


def test_broadcast_reads_then_a_write(faulty: Any, ref: Any) -> None:
    """All lanes read one element; only if no other lane did may one write it without a barrier."""

    def text(readers: int, barrier: str) -> str:
        return f"""program @p workgroup(64) {{
      buffer @s : u32[4] workgroup
      %l = local_id x
      %zero = const 0 : u32
      %first = eq %l, %zero : u32
      if %first {{ store %l, @s[%zero] : u32 }}
      barrier workgroup
      %n = const {readers} : u32
      %some = lt %l, %n : u32
      if %some {{ %v = load @s[%zero] : u32 }}
      {barrier}
      if %first {{ store %l, @s[%zero] : u32 }}
    }}"""

    for readers in (2, 40, 64):
        error = faulty("race", 13, text(readers, ""), [], 2)
        assert f"local id ({readers - 1},0,0)" in error.diagnostic.message
        ref(text(readers, "barrier workgroup"), [], 2)
    ref(text(1, ""), [], 2)


@pytest.mark.parametrize("workgroups", [2, 5000])
def test_workgroups_are_not_ordered(faulty: Any, ref: Any, workgroups: int) -> None:
    """The last workgroup reads what the first wrote, in the same batch or in a later one; a grid barrier helps."""

    def text(barrier: str) -> str:
        return f"""program @p workgroup(32) {{
      buffer @b : u32[160000] read_write
      %g = global_id x
      store %g, @b[%g] : u32
      {barrier}
      %w = workgroup_id x
      %last = const {workgroups - 1} : u32
      %is = eq %w, %last : u32
      if %is {{
        %l = local_id x
        %v = load @b[%l] : u32
      }}
    }}"""

    error = faulty("race", 12, text("barrier workgroup"), [], workgroups)
    assert f"workgroup ({workgroups - 1},0,0) local id (0,0,0)" in error.diagnostic.message
    assert "workgroup (0,0,0) local id (0,0,0)" in error.diagnostic.message
    assert "barrier grid" in (error.diagnostic.help or "")
    ref(text("barrier grid"), [], workgroups)


def test_an_old_reader_of_another_workgroup_is_not_forgotten(faulty: Any) -> None:
    """The set of readers keeps one of each workgroup, past barriers and later readers of its own."""
    text = """program @p workgroup(32) {
      buffer @b : u32[1] read_write binding(0) live_in live_out
      %w = workgroup_id x
      %l = local_id x
      %zero = const 0 : u32
      %v = load @b[%zero] : u32
      barrier workgroup
      %u = load @b[%zero] : u32
      barrier workgroup
      %sum = add %w, %l : u32
      %only = eq %sum, %zero : u32
      if %only { store %w, @b[%zero] : u32 }
    }"""
    assert "workgroup (1,0,0)" in faulty("race", 13, text, [zeros(1)], 2).diagnostic.message


def test_atomics_race_with_plain_accesses_only(faulty: Any, ref: Any) -> None:
    def text(access: str) -> str:
        return f"""program @p workgroup(32) {{
      buffer @b : u32[1] read_write binding(0) live_in live_out
      %l = local_id x
      %zero = const 0 : u32
      %o = atomic_add<relaxed> @b[%zero], %l : u32
      {access}
    }}"""

    (b,) = ref(text("%q = atomic_max<relaxed> @b[%zero], %l : u32"), [zeros(1)], 4)
    assert b[0] == 4 * sum(range(32))
    faulty("race", 7, text("%v = load @b[%zero] : u32"), [zeros(1)], 1)
    ref(text("barrier workgroup\n%v = load @b[%zero] : u32"), [zeros(1)], 1)


def test_vector_accesses_race_by_element(faulty: Any, ref: Any) -> None:
    """Vectors that overlap in one element collide; those side by side do not."""

    def text(stride: int) -> str:
        return f"""program @p workgroup(8) {{
      buffer @y : u32[32] write binding(0) live_out
      %l = local_id x
      %n = const {stride} : u32
      %i = mul %l, %n : u32
      %v = splat %l : vec<4 x u32>
      store %v, @y[%i] : vec<4 x u32>
    }}"""

    ref(text(4), [zeros(32)], 1)
    assert "index 3" in faulty("race", 8, text(3), [zeros(32)], 1).diagnostic.message


def test_a_lane_may_use_its_own_element_again(ref: Any) -> None:
    """Same-lane order needs no barrier: write, read, write, and vector after scalars."""
    text = """program @p workgroup(64) {
      buffer @y : u32[?] read_write binding(0) live_out
      %g = global_id x
      %two = const 2 : u32
      %one = const 1 : u32
      %i = mul %g, %two : u32
      %j = add %i, %one : u32
      store %g, @y[%i] : u32
      store %i, @y[%j] : u32
      %v = load @y[%i] : vec<2 x u32>
      %w = add %v, %v : vec<2 x u32>
      store %w, @y[%i] : vec<2 x u32>
    }"""
    (y,) = ref(text, [zeros(256)], 2)
    assert (y.reshape(-1, 2) == np.arange(128)[:, None] * [2, 4]).all()


def test_checks_can_be_left_out(ref: Any) -> None:
    (y,) = ref(neighbours(""), [zeros(64)], 1, checks=False)
    assert list(y) == [(i + 1) % 64 for i in range(64)]
