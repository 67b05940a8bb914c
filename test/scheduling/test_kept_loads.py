"""Loops that load the same elements load them once, and compute the same, in the same order."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.loading_loops import ROW_HEAD, ROW_LOOPS, row_text
from support.quick import quick

from vyre_opt import dispatcher, parse, print_program
from vyre_opt.ir import Program
from vyre_opt.passes import PassManager
from vyre_opt.scheduling.launch_forms import LaunchForms

LANES = 8


def program_of(text: str) -> Program:
    (program,) = parse(text).programs.values()
    return program


def kept(text: str) -> tuple[Program, list[str]]:
    module = parse(text)
    result = PassManager("keep_loads{always=true}").run(module)
    (program,) = module.programs.values()
    return program, [f"{remark.kind}: {remark.message}" for remark in result.remarks]


def expected(kinds: list[str], arrays: list[np.ndarray], start: int | None, step: int) -> list[np.ndarray]:
    """@y and @z, computed loop by loop and iteration by iteration."""
    x, w, y = (array.copy() for array in arrays)
    totals = []
    for lane in range(LANES):
        total = np.float32(0)
        for kind in kinds:
            before = total
            for c in range(lane if start is None else start, len(x), step):
                if kind == "sum":
                    total = total + x[c]
                elif kind == "squares":
                    total = total - (x[c] - before) * (x[c] - before) * w[c]
                elif kind == "in place":
                    y[c] = y[c] + x[c] * total
                elif kind == "newest":
                    total = x[c]
                else:
                    total = total - x[c] if w[c] > 0.5 else total * w[c]
            total = total + np.float32(1) if kind == "in place" else total
        totals.append(total)
    return [y, np.array(totals, np.float32)]


def loads_of(program: Program, buffer: str) -> int:
    return sum(op.name == "load" and op.attrs["buffer"] == buffer for op in program.walk())


@pytest.mark.parametrize("seed", quick(range(200), keep=12))
def test_random_rows(seed: int) -> None:
    """Several loops over one row, by lanes in turn, at lengths with and without a last partial turn, on both targets."""
    rng = random.Random(seed)
    kinds = [rng.choice(list(ROW_LOOPS)) for _ in range(rng.randint(2, 4))]
    length = rng.choice([1, 5, 8, 9, 23, 64, 100])
    program, remarks = kept(row_text(kinds, length, "%l to %n step 8"))
    values = np.random.default_rng(seed)
    arrays = [values.standard_normal(length, np.float32) for _ in range(3)]
    want = expected(kinds, arrays, None, 8)
    for target in ("ref", "cpu"):
        got = dispatcher(target).dispatch(program, [*map(np.copy, arrays), np.zeros(8, np.float32)], 1)
        for have, wanted in zip(got, want, strict=True):
            np.testing.assert_array_equal(have, wanted)
    if sum(kind != "branch" for kind in kinds) > 1:  # a load in a branch stays there
        assert remarks[0].startswith("applied")
        # once in each loop for where iterations are missing
        assert loads_of(program, "x") <= len(kinds) + (1 + kinds.count("branch")) * -(-length // 8)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_what_an_iteration_carries_on_may_be_what_it_loads(target: str) -> None:
    """Nothing is computed of it then; a lane that lacks the last iteration has what the one before loaded."""
    kinds = ["newest", "sum", "newest"]
    program, remarks = kept(row_text(kinds, 20, "%l to %n step 8"))
    assert remarks == ["applied: 3 loops load 3 elements once, and keep them in registers"]
    arrays = [np.arange(1, 21, dtype=np.float32) for _ in range(3)]
    got = dispatcher(target).dispatch(program, [*map(np.copy, arrays), np.zeros(8, np.float32)], 1)
    for have, wanted in zip(got, expected(kinds, arrays, None, 8), strict=True):
        np.testing.assert_array_equal(have, wanted)


def test_a_call_says_how_many() -> None:
    """Where lengths are open: the forms of a program share code for about as many iterations."""
    program = program_of(row_text(["sum", "squares", "in place"], "?", "%l to %n step 8"))
    forms = LaunchForms()
    made = {
        n: forms.batched(program, {"x": (n,), "w": (n,), "y": (n,), "z": (8,)}).program
        for n in (41, 48, 49, 56, 2000)
    }
    assert made[41] is made[48]
    assert made[49] is made[56]
    assert "if" in {op.name for op in made[56].body.ops}
    assert "if" not in {op.name for op in made[2000].body.ops}
    for n, form in made.items():
        arrays = [np.random.default_rng(n).standard_normal(n, np.float32) for _ in range(3)]
        got = dispatcher("cpu").dispatch(form, [*map(np.copy, arrays), np.zeros(8, np.float32)], 1)
        for have, wanted in zip(got, expected(["sum", "squares", "in place"], arrays, None, 8), strict=True):
            np.testing.assert_array_equal(have, wanted)


def test_as_many_as_registers_hold() -> None:
    """The loads of all iterations are results of one op, and a text of it is read again."""
    program, remarks = kept(row_text(["sum", "sum"], 512, "%l to %n step 8"))
    assert remarks == ["applied: 2 loops load 64 elements once, and keep them in registers"]
    again = program_of(print_program(program))
    x = np.random.default_rng(0).standard_normal(512, np.float32)
    z = dispatcher("cpu").dispatch(again, [x, x.copy(), x.copy(), np.zeros(8, np.float32)], 1)[1]
    np.testing.assert_array_equal(z, expected(["sum", "sum"], [x, x, x], None, 8)[1])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("@x : f32[100] read ", "@x : f32[100] read_write live_in "), None),
        (("step 8", "step %step"), None),
        (("length=100", ""), "refused: this loop loads again what one before it did: registers do not hold"),
    ],
    ids=["written", "step", "long"],
)
def test_rows_that_stay(change: tuple[str, str], why: str | None) -> None:
    length = 100 if why is None else 10_000
    text = row_text(["sum", "sum"], length, "%l to %n step 8").replace(*change)
    text = text.replace("  %total_0", "  %step = const 8 : u32\n  %total_0", 1)
    if "read_write live_in" in change[1]:
        text = text.replace("  store", "  store %total_0, @x[%l]\n  store", 1)
    program, remarks = kept(text)
    assert sum(op.name == "for" for op in program.walk()) == 2
    assert bool(remarks) == (why is not None)
    assert not why or remarks[0].startswith(why)


def test_terms_that_share_parts_are_numbered_in_linear_time() -> None:
    """%v1 = %v0 * %v0, %v2 = %v1 * %v1, ...: written out as a tree, the last one has 2^200 leaves."""
    squares = "".join(f"    %v{k + 1} = mul %v{k}, %v{k}\n" for k in range(200))
    loop = """  %t{n} = for %c = %l to %n step 8 iter(%a = %total_0 : f32) {{
    %v0 = load @x[%c]
{squares}    %b = add %a, %v200
    yield %b
  }}
"""
    text = ROW_HEAD.format(length=8) + "".join(loop.format(n=n, squares=squares) for n in range(2))
    program, remarks = kept(text + "  store %t1, @z[%l]\n}\n")
    assert remarks == ["applied: 2 loops load 1 elements once, and keep them in registers"]
    assert sum(op.name == "mul" for op in program.walk()) == 3 * 200
