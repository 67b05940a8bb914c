"""Atomics of one invocation on one element become one of the combined value, and no others do."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_opt import dispatcher, parse
from vyre_opt.ir import Program
from vyre_opt.scheduling.combined_atomics import combine_atomics

TEXT = """vyre 2
program @p workgroup(8) {{
  buffer @x : {type}[8] read binding(0)
  buffer @y : {type}[4] read_write binding(1) live_in live_out
  %l = local_id x
  %a = load @x[%l]
  %zero = const 0 : {type}
  %i = const 1 : u32
  %j = and %l, 3
{body}
}}
"""


def program_of(body: str, dtype: str) -> Program:
    (program,) = parse(TEXT.format(type=dtype, body=body)).programs.values()
    return program


def atomics(program: Program) -> list[str]:
    return [op.name.removeprefix("atomic_") for op in program.walk() if op.name.startswith("atomic")]


ADD = "  %{n} = atomic_add<relaxed> @y[{i}], %a{flags}\n"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (ADD.format(n="p", i=1, flags="") + ADD.format(n="q", i="%i", flags=""), ["add"]),
        (ADD.format(n="p", i="%j", flags="") + ADD.format(n="q", i="%j", flags="") * 0 + ADD.format(n="r", i=2, flags="")
         + ADD.format(n="s", i="%j", flags=""), ["add", "add"]),
        (ADD.format(n="p", i=1, flags="") + "  %m = atomic_max<relaxed> @y[1], 3\n" + ADD.format(n="q", i=1, flags=""),
         ["add", "max", "add"]),
        (ADD.format(n="p", i=1, flags="") + "  %b = load @y[1]\n  store %b, @y[3]\n" + ADD.format(n="q", i=1, flags=""),
         ["add", "add"]),
        (ADD.format(n="p", i=1, flags="") + ADD.format(n="q", i=1, flags="").replace("@y[1], %a", "@y[1], %p"), ["add", "add"]),
        (ADD.format(n="p", i=1, flags="") + "  barrier workgroup\n" + ADD.format(n="q", i=1, flags=""), ["add", "add"]),
        ("  %p = atomic_add<acq_rel> @y[1], %a\n  %q = atomic_add<acq_rel> @y[1], %a\n", ["add", "add"]),
    ],
    ids=["one element", "others between", "another op", "a load", "old values", "a barrier", "ordered"],
)  # fmt: skip
def test_which_are_combined(body: str, left: list[str]) -> None:
    """One invocation tells all, also in the one whose loads and stores race in the others."""
    program = program_of(body, "u32")
    x, y = np.arange(3, 11, dtype=np.uint32), np.arange(4, dtype=np.uint32)
    program.workgroup = (1, 1, 1)
    before = dispatcher("ref").dispatch(program, [x, y.copy()], 1)[0]
    combine_atomics(program)
    assert atomics(program) == left
    for target in ("ref", "cpu"):
        np.testing.assert_array_equal(dispatcher(target).dispatch(program, [x, y.copy()], 1)[0], before)


@pytest.mark.parametrize("name", ["add", "min", "max", "and", "or", "xor"])
def test_every_op(name: str) -> None:
    body = "".join(f"  %p{k} = atomic_{name}<relaxed> @y[1], %a\n" for k in range(3))
    program = program_of(body, "u8")
    assert combine_atomics(program) == 2
    x, y = np.array([7, 250, 3, 9, 77, 1, 0, 128], np.uint8), np.array([1, 5, 9, 200], np.uint8)
    ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum}.get(name) or getattr(np, f"bitwise_{name}")
    want = y.copy()
    for value in x:
        for _ in range(3):
            want[1] = ufunc(want[1], value)
    for target in ("ref", "cpu"):
        np.testing.assert_array_equal(dispatcher(target).dispatch(program, [x, y.copy()], 1)[0], want)


def test_sums_of_floats() -> None:
    """Only where they may be regrouped."""
    for flags, left in (("", 2), (" fastmath<reassoc>", 1)):
        program = program_of(ADD.format(n="p", i=1, flags=flags) + ADD.format(n="q", i=1, flags=flags), "f32")
        combine_atomics(program)
        assert len(atomics(program)) == left
