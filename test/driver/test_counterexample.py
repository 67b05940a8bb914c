"""Calls on which two modules differ: what is found is a difference, and what may differ by right is none."""

from __future__ import annotations

import pytest

from vyre_opt import parse
from vyre_opt.driver.counterexample import Counterexample, counterexample

SECONDS = 20.0
"""As good as no limit: what is looked for is found at once, or by none of the calls."""


def found(before: str, after: str, buffers: str = "", grid: str = "grid(2)") -> Counterexample | None:
    text = """vyre 2
    program @p workgroup(4) GRID {
      buffer @x : f32[8] read binding(0)
      buffer @n : u32[8] read_write binding(1) live_in live_out
      BUFFERS
      buffer @y : f32[8] write binding(7) live_out
      %g = global_id x
      %l = local_id x
      %v = load @x[%g]
      BODY
    }
    """
    text = text.replace("GRID", grid).replace("BUFFERS", buffers)
    was, now = (parse(text.replace("BODY", body)) for body in (before, after))
    return counterexample(was, now, SECONDS)


STORE = "store %v, @y[%g]"
TILE = "buffer @t : f32[4] workgroup"
READ_BACK = "%m = xor %l, 1 %u = load @t[%m] store %u, @y[%g]"


@pytest.mark.parametrize(
    ("before", "after", "buffers"),
    [
        (STORE, "%w = add %v, 0.5 store %w, @y[%g]", ""),
        (STORE, "%c = lt %g, 7 if %c { store %v, @y[%g] }", ""),
        (STORE, f"{STORE} %o = load @n[%g] %q = add %o, 1 store %q, @n[%g]", ""),
        (f"%c = lt %g, 7 if %c {{ {STORE} }}", "%i = add %g, 1 store %v, @y[%i]", ""),  # out of bounds
        (f"store %v, @t[%l] barrier workgroup {READ_BACK}", f"store %v, @t[%l] {READ_BACK}", TILE),  # a race
        ("%o = atomic_add<relaxed> @n[0], 1 : u32", "%o = atomic_add<relaxed> @n[0], 2 : u32", ""),
    ],
)
def test_a_difference_is_found(before: str, after: str, buffers: str) -> None:
    assert found(before, before, buffers) is None
    assert found(before, after, buffers) is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("%c = lt %g, 7 if %c { store %v, @y[%g] }", STORE),  # an element that nobody wrote
        ("%i = add %g, 1 store %v, @y[%i]", STORE),  # at fault as it was
        ("store %v, @y[0]", "store 1.0, @y[0] : f32"),  # a race as it was
        ("%z = sub %v, %v %w = div %z, %z store %w, @y[%g]", "%z = sub %v, %v %w = div %z, %z %q = neg %w store %q, @y[%g]"),  # NaNs
        # in whatever order lanes come
        ("%o = atomic_add<relaxed> @n[0], 1 : u32 %f = cast %o : u32 -> f32 store %f, @y[%g]",
         "%o = atomic_add<relaxed> @n[0], 1 : u32 %f = cast %o : u32 -> f32 %w = add %f, 1.0 store %w, @y[%g]"),
        ("%w = add %v, %v fastmath<reassoc> : f32 store %w, @y[%g]", STORE),  # computed in other ways
    ],
)  # fmt: skip
def test_what_may_differ_by_right_is_no_counterexample(before: str, after: str) -> None:
    assert found(before, after) is None


def test_the_witness() -> None:
    """Values, the element, and who has stored it."""
    one = found(STORE, "%w = add %v, %v store %w, @y[%g]", grid="")
    assert one is not None
    assert one.what == (
        "@p: @y[0] is 2.0 by workgroup (0,0,0) local id (0,0,0) of @p, "
        "not 1.0 by workgroup (0,0,0) local id (0,0,0) of @p"
    )
    assert one.witness["@x"] == "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0] of 8"
    assert one.witness["grid"] == "2 x 1 x 1"


def test_lengths_and_params_of_a_pipeline() -> None:
    """A guard by another length, which is equal only for some of the lengths that are tried."""
    text = """vyre 2
    program @p workgroup(4) {
      buffer @x : u32[?] read binding(0)
      buffer @y : u32[?] write binding(1)
      param @k : u32
      %g = global_id x
      %k = param @k
      %n = len @x
      %c = lt %g, LIMIT
      if %c { store %k, @y[%g] }
    }
    pipeline @main {
      buffer @x : u32[?] read
      buffer @y : u32[64] live_in live_out
      param @k : u32
      launch @p grid(4) (@x, @y) params(@k = @k)
    }
    """
    before = parse(text.replace("LIMIT", "%n"))
    one = counterexample(before, parse(text.replace("LIMIT", "%k")), SECONDS)
    assert one is not None
    assert one.call.params["k"] != len(one.call.arrays["x"])
    assert counterexample(before, before, SECONDS) is None
