"""Loops that load at other places: what the passes make is proved, and no edit of it that a run tells apart."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.certifier_mistakes.edits import edit
from support.certifier_mistakes.recorder import Recorder, Step
from support.loading_loops import KINDS, REPEATING, REPEATING_BODIES, REPEATING_LOOPS, SUM
from support.quick import quick

from vyre_opt import parse
from vyre_opt.certify.certifier import Certifier
from vyre_opt.driver.counterexample import counterexample
from vyre_opt.execution.dispatcher import ProgramError, dispatcher
from vyre_opt.ir.ops import OPS
from vyre_opt.ir.program import Module, Op, Program, Value
from vyre_opt.ir.types import DataType
from vyre_opt.ir.verifier import verify
from vyre_opt.passes.manager import PassManager
from vyre_opt.rewriting.cloning import copy_module
from vyre_opt.syntax.printer import print_program

LIT = Path(__file__).parents[1] / "lit" / "passes"
SECONDS = 2.0


def steps_of(text: str, passes: str) -> list[Step]:
    recorder = Recorder()
    PassManager(passes, observers=[recorder]).run(parse(text))
    return [step for step in recorder.steps if step.changed]


def statuses(step: Step, after: Module | None = None) -> Counter[str]:
    """Of the decisions that a pass made, or would have made with another result."""
    certifier = Certifier()
    certifier.before(step.running, step.before)
    certifier.after(step.running, step.after if after is None else after, True, step.remarks)
    for decision in certifier.decisions:
        decision.certify(SECONDS)
    return Counter(decision.status for decision in certifier.decisions)


def is_proved(step: Step, after: Module | None = None) -> bool:
    return statuses(step, after).keys() == {"proved"}


@pytest.mark.parametrize("name", ["batch_loads", "keep_loads"])
def test_the_passes_own_texts(name: str) -> None:
    (step,) = steps_of((LIT / f"{name}.vyre").read_text(encoding="utf-8"), f"{name}{{always=true}}")
    assert statuses(step) == {"proved": 2}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", quick([range(k, k + 40) for k in range(0, 1000, 40)]), ids=str)
def test_random_loops(kind: str, seeds: range) -> None:
    make, passes = KINDS[kind]
    counts = Counter[str]()
    for seed in seeds:
        for step in steps_of(make(seed), passes):
            counts += statuses(step)
    assert counts.keys() == {"proved"}, counts


MEETING = """    %at = add %c, %l
    %is = lt %at, %n
    %v = if %is -> f32 {
      %u = load @x[%at]
      yield %u
    } else {
      yield 0.25
    }
    %most = workgroup_reduce<max> %v
    %next = sub %most, %acc"""

RAGGED = """vyre 2
program @p workgroup(32) grid(1) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[32] write binding(1)
  %l = local_id x
  %n = len @x
  %sum = for %c = START to %n step 1 iter(%acc = 0 : u32) {
    %v = load @x[%c]
    %m = subgroup_reduce<add> %v
    %next = add %acc, %m
    yield %next
  }
  store %sum, @y[%l]
}
"""


def test_invocations_that_meet() -> None:
    """All have the same iterations left; where they have not, the loads may be right, but not who meets."""
    (step,) = steps_of(SUM.format(lower="0", upper="%n", step=8, body=MEETING), "batch_loads{always=true}")
    assert is_proved(step)
    (step,) = steps_of(RAGGED.replace("START", "0"), "batch_loads{always=true}")
    assert is_proved(step)
    for module in (step.before, step.after):
        loop, lane = (
            next(op for op in module.programs["p"].walk() if op.name == name) for name in ("for", "local_id")
        )
        loop.operands = (lane.result, *loop.operands)
        loop.attrs = {**loop.attrs, "lower": None}
    assert not is_proved(step)


def test_a_load_behind_an_assert() -> None:
    """It is not made where that stops the program."""
    text = REPEATING.format(loop=REPEATING_LOOPS["for"].format(body=REPEATING_BODIES["one"]))
    (step,) = steps_of(text, "keep_loads{always=true}")
    assert is_proved(step)
    for module in (step.before, step.after):
        loop = next(op for op in module.programs["p"].walk() if op.name == "for")
        number = loop.regions[0].ops[0].result
        less = Op(OPS["lt"], (number, number), (Value("less", DataType.BOOL),))
        loop.regions[0].ops[1:1] = [less, Op(OPS["assert"], less.results, attrs={"message": "too many"})]
    assert not is_proved(step)


# --- edits ----------------------------------------------------------------------------------------

EDITS = 12


def is_valid(module: Module) -> bool:
    try:
        return not any(each.severity == "error" for each in verify(module))
    except (AssertionError, LookupError, ValueError):
        return False


def results(program: Program, seed: int) -> list[np.ndarray] | None:
    """Of a run on random inputs; None if it is at fault."""
    numbers = np.random.default_rng(seed)
    length = int(numbers.integers(1, 120))
    arrays = []
    for buffer in program.bound_buffers:
        shape = tuple(length if extent is None else extent for extent in buffer.shape)
        is_float = buffer.dtype.is_float
        values = numbers.standard_normal(shape) if is_float else numbers.integers(0, 9, shape)
        arrays.append(values.astype(np.float32 if is_float else np.uint32))
    try:
        return dispatcher("ref").dispatch(program, arrays, (1, 1, 1))
    except ProgramError:
        return None


def differs(before: Module, after: Module) -> bool:
    for seed in range(6):
        expected = results(before.programs["p"], seed)
        if expected is None:
            continue
        actual = results(after.programs["p"], seed)
        if actual is None or any((a != b).any() for a, b in zip(expected, actual, strict=True)):
            return True
    return False


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", quick([range(k, k + 4) for k in range(0, 400, 4)]), ids=str)
def test_no_edit_that_changes_a_program_is_proved(kind: str, seeds: range) -> None:
    make, passes = KINDS[kind]
    counts = Counter[bool]()
    for seed in seeds:
        for step in steps_of(make(100 + seed), passes):
            for place in range(EDITS):
                edited = copy_module(step.after)
                what = edit(edited, random.Random(1000 * seed + place))
                if not what or not is_valid(edited):
                    continue
                proved = is_proved(step, edited)
                counts[proved] += 1
                if proved:
                    assert not differs(step.before, edited), f"{what}\n{print_program(edited)}"
                    assert counterexample(step.before, edited, 0.2) is None, (
                        f"{what}\n{print_program(edited)}"
                    )
    assert counts[False] or kind == "shared elements", "nothing was edited"
