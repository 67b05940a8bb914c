"""Atomics of a loop on one element are done once behind it, and leave the same there; no others are."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_opt import dispatcher, parse
from vyre_opt.fusion.remark_sink import Silent
from vyre_opt.ir import Program, errors_of
from vyre_opt.scheduling.carried_atomics import carry_atomics

TEXT = """vyre 2
program @p workgroup(8) {{
  buffer @x : {type}[96] read binding(0)
  buffer @y : {type}[4] read_write binding(1) live_in live_out
  %l = local_id x
  %one = const 1 : u32
  for %c = %l to 96 step 8 {{
    %v = load @x[%c]
    %odd = and %c, 1
    %is = eq %odd, 1
{body}
  }}
}}
"""
NUMPY = {
    "add": np.add,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def program_of(body: str, dtype: str = "u32") -> Program:
    module = parse(TEXT.format(type=dtype, body=body))
    assert not errors_of(module)
    (program,) = module.programs.values()
    return program


def atomics_in_loops(program: Program) -> int:
    loops = [op for op in program.walk() if op.name in ("for", "while")]
    return len({inner for op in loops for inner in op.walk() if inner.name.startswith("atomic")})


def after(program: Program, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The buffer, on both targets alike."""
    ref, cpu = (dispatcher(target).dispatch(program, [x, y.copy()], 1)[0] for target in ("ref", "cpu"))
    np.testing.assert_array_equal(ref, cpu)
    return ref


TYPES = ("u8", "i32", "u64", "f32", "f16")
CASES = [
    (name, dtype) for name in NUMPY for dtype in TYPES if name in ("add", "min", "max") or dtype[0] != "f"
]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_every_op(name: str, dtype: str) -> None:
    """In a branch, in the other one too, beside one of another element."""
    kind = np.dtype(f"{dtype[0]}{int(dtype[1:]) // 8}")
    flags = " fastmath<reassoc>" if name == "add" and kind.kind == "f" else ""
    body = f"""
    if %is {{
      %a = atomic_{name}<relaxed> @y[%one], %v{flags}
    }} else {{
      %b = atomic_{name}<relaxed> @y[3], %v{flags}
      %w = atomic_{name}<relaxed> @y[1], %v{flags}
    }}"""
    program = program_of(body, dtype)
    assert carry_atomics(program, Silent()) == 1
    assert atomics_in_loops(program) == 0
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 9, 96).astype(kind), np.array([5, 6, 7, 8]).astype(kind)
    if kind.kind == "f" and name != "add":
        x[::5], y[3] = np.nan, np.nan
    expected = y.copy()
    for c in range(96):
        expected[1] = NUMPY[name](expected[1], x[c])
        if c % 2 == 0:
            expected[3] = NUMPY[name](expected[3], x[c])
    np.testing.assert_array_equal(after(program, x, y), expected)


def test_loops_in_loops() -> None:
    """The outer loop carries what the inner one does once."""
    body = """
    for %d = 0 to %odd step 1 {
      %a = atomic_add<relaxed> @y[0], %v
    }"""
    program = program_of(body)
    assert carry_atomics(program, Silent()) == 2
    assert atomics_in_loops(program) == 0
    x = np.arange(96, dtype=np.uint32)
    assert list(after(program, x, np.zeros(4, np.uint32))) == [x[1::2].sum(), 0, 0, 0]


def test_nothing_is_added_where_nothing_was() -> None:
    """A sum that never began leaves -0.0, and an element beyond the buffer untouched."""
    body = "    if %is {\n      %a = atomic_add<relaxed> @y[2], %v fastmath<reassoc>\n    }"
    program = program_of(body.replace("if %is", "%no = lt %v, 0.0\n    if %no"), "f32")
    assert carry_atomics(program, Silent()) == 1
    assert np.signbit(after(program, np.ones(96, np.float32), np.full(4, -0.0, np.float32))).all()


@pytest.mark.parametrize(
    "body",
    [
        "    %a = atomic_add<relaxed> @y[%odd], %v",
        "    %a = atomic_add<relaxed> @y[1], %v\n    %b = add %a, 1\n    %u = atomic_add<relaxed> @y[2], %b",
        "    %a = atomic_add<acq_rel> @y[1], %v",
        "    %a = atomic_add<relaxed> @y[1], %v\n    %u = atomic_max<relaxed> @y[2], %v",
        "    %a = atomic_add<relaxed> @y[1], %v\n    assert %is, \"odd\"",
        "    %a = atomic_add<relaxed> @y[4], %v",
    ],
    ids=["elements", "old values", "ordered", "another op", "an assert", "out of bounds"],
)  # fmt: skip
def test_what_stays(body: str) -> None:
    program = program_of(body)
    count = atomics_in_loops(program)
    carry_atomics(program, Silent())
    assert atomics_in_loops(program) == count


@pytest.mark.parametrize("between", ["barrier workgroup", "%z = load @y[0]\n    store %z, @y[3]"])
def test_others_that_look(between: str) -> None:
    text = TEXT.format(type="u32", body=f"    %a = atomic_add<relaxed> @y[1], %v\n    {between}")
    (program,) = parse(text.replace("for %c = %l", "for %c = 0")).programs.values()
    assert carry_atomics(program, Silent()) == 0
