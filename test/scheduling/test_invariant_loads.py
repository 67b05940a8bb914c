"""Loads that all iterations of a loop repeat stand before it, and nothing else changes: results, and faults."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.loading_loops import REPEATING, REPEATING_BODIES, REPEATING_LOOPS
from support.quick import quick

from vyre_opt import ProgramError, dispatcher, parse
from vyre_opt.ir import Program
from vyre_opt.passes import PassManager


def run(text: str, arrays: list[np.ndarray], passes: str, target: str) -> tuple[Program, np.ndarray]:
    module = parse(text)
    PassManager(passes).run(module)
    (program,) = module.programs.values()
    return program, dispatcher(target).dispatch(program, [*map(np.copy, arrays)], 1)[0]


def expected(body: str, arrays: list[np.ndarray]) -> np.ndarray:
    x, k, y = arrays
    sums = y.copy()
    for lane, a in enumerate(y):
        n = int(k[lane])
        for c in range(n):
            if body == "one":
                a = a + x[n + 3]
            elif body == "inner":
                for _ in range(c):
                    a = x[n] * x[c] - a
            else:
                a = x[k[8]] - a
        sums[lane] = a
    return sums


def loads_in_loops(program: Program) -> int:
    loops = [op for op in program.walk() if op.name in ("for", "while")]
    bodies = [inner for loop in loops for block in loop.regions for inner in block.ops]
    return sum(op.name == "load" for op in bodies)


@pytest.mark.parametrize("seed", quick(range(100), keep=8))
def test_random_loops(seed: int) -> None:
    """Loops of no iteration as well, whose loads would be out of bounds."""
    rng, values = random.Random(seed), np.random.default_rng(seed)
    kind, body = rng.choice(list(REPEATING_LOOPS)), rng.choice(list(REPEATING_BODIES))
    text = REPEATING.format(loop=REPEATING_LOOPS[kind].format(body=REPEATING_BODIES[body]))
    k = values.integers(0, rng.choice((1, 2, 9)), 9, np.uint32)
    x = values.standard_normal(13 if k[:8].any() else 1, np.float32)
    arrays = [x, k, values.standard_normal(8, np.float32)]
    for target in ("ref", "cpu"):
        program, y = run(text, arrays, "keep_loads{always=true}", target)
        np.testing.assert_array_equal(y, expected(body, arrays))
    assert loads_in_loops(program) == {"one": 0, "gather": 0, "inner": 0, "store": 1}[body]


@pytest.mark.parametrize("kind", REPEATING_LOOPS)
def test_a_fault_stays_one(kind: str) -> None:
    """Of a first iteration, in the invocation that has one."""
    text = REPEATING.format(loop=REPEATING_LOOPS[kind].format(body=REPEATING_BODIES["one"]))
    k = np.zeros(9, np.uint32)
    k[5] = 2
    for passes in ("verify", "keep_loads{always=true}"):
        with pytest.raises(ProgramError, match=r"load.*out of bounds of @x|index 5") as error:
            run(text, [np.zeros(4, np.float32), k, np.zeros(8, np.float32)], passes, "cpu")
        assert "(5,0,0)" in str(error.value)


@pytest.mark.parametrize(
    "body",
    [
        "    %v = load @x[%c]\n    %next = add %a, %v",
        "    %v = load @y[%l]\n    %next = add %a, %v",
        '    %is = lt %c, 5\n    assert %is, "too far"\n    %v = load @x[%l]\n    %next = add %a, %v',
    ],
    ids=["another index", "written", "behind an assert"],
)
def test_loads_that_stay(body: str) -> None:
    text = REPEATING.format(loop=REPEATING_LOOPS["for"].format(body=body))
    module = parse(text)
    PassManager("keep_loads{always=true}").run(module)
    assert loads_in_loops(module.programs["p"]) == 1
