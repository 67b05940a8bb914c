"""unroll on loops of every start, step and remainder: the rounds and what they carry stay the same."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from support.quick import quick

from vyre_opt import PassManager, parse, run

OPTIONS = ("factor=2", "factor=3", "factor=4", "full=true")


def loop(dtype: str, lower: str, upper: str, step: int) -> str:
    """Each lane keeps a number that tells all its rounds, and their order."""
    return f"""vyre 1
program @p workgroup(4) {{
  buffer @bounds : {dtype}[2] read binding(0)
  buffer @y : {dtype}[4] write binding(1)
  %l = local_id x
  %c0 = const 0 : u32
  %c1 = const 1 : u32
  %lane = cast %l : u32 -> {dtype}
  %seven = const 7 : {dtype}
  %from = load @bounds[%c0] : {dtype}
  %to = load @bounds[%c1] : {dtype}
  %r = for %k = {lower} to {upper} step {step} iter(%a = %lane : {dtype}) : {dtype} {{
    %scaled = mul %a, %seven : {dtype}
    %next = add %scaled, %k : {dtype}
    yield %next
  }}
  store %r, @y[%l] : {dtype}
}}
"""


DTYPES = ("u32", "i32", "u8")


@pytest.mark.parametrize(
    ("dtype", "options"),
    quick(
        [(DTYPES[(k + shift) % 3], o) for shift in range(3) for k, o in enumerate(OPTIONS)], keep=len(OPTIONS)
    ),
)
def test_all_rounds_run_once_and_in_order(dtype: str, options: str) -> None:
    passes = f"unroll{{{options}}}"
    for lower, upper, step in product((0, 3), (0, 3, 4, 17, 30), (1, 3)):
        stored = np.array([lower, upper], dtype.replace("u", "uint").replace("i3", "int3"))
        for bounds in ((str(lower), str(upper)), ("%from", "%to")):
            text = loop(dtype, *bounds, step)
            (expected,) = run(text, {"bounds": stored}, 1, target="ref").values()
            (after,) = run(text, {"bounds": stored}, 1, target="ref", passes=passes).values()
            np.testing.assert_array_equal(after, expected, err_msg=f"{bounds} step {step}")


def test_bounds_whose_distance_may_not_fit_keep_their_loop() -> None:
    """From -2^31 to 2^31 - 1 there are more numbers than an i32 counts."""
    (remark,) = PassManager("unroll").run(parse(loop("i32", "%from", "%to", 1))).remarks
    assert (remark.kind, "may not fit" in remark.message) == ("refused", True)
