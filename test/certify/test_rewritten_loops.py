"""Loops that load at other places: what the passes make is proved, and no edit of it that a run tells apart."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.certifier_mistakes.edits import edit
from support.certifier_mistakes.recorder import Recorder, Step
from support.loading_loops import KINDS, MEETING, REPEATING, REPEATING_BODIES, REPEATING_LOOPS, SUM
from support.quick import quick

from vyre_opt import dispatcher, parse
from vyre_opt.certify.certifier import Certifier
from vyre_opt.certify.obligations import prove
from vyre_opt.certify.rewritten_loops import rewritten_loops
from vyre_opt.driver.counterexample import counterexample
from vyre_opt.execution import ProgramError
from vyre_opt.ir import OPS, DataType, Module, Op, Program, Value, errors_of, print_program
from vyre_opt.passes import PassManager
from vyre_opt.rewriting.cloning import copy_module

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
    assert statuses(step) == {"proved": 4 if name == "batch_loads" else 2}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", quick([range(k, k + 4) for k in range(0, 1000, 4)]), ids=str)
def test_random_loops(kind: str, seeds: range) -> None:
    make, passes = KINDS[kind]
    counts = Counter[str]()
    for seed in seeds:
        for step in steps_of(make(seed), passes):
            counts += statuses(step)
    assert counts.keys() == {"proved"} or (kind == "shared elements" and not counts), counts


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


# --- one program beside another -------------------------------------------------------------------

BOTH = """vyre 2
program @p workgroup(32) grid(1) {
  buffer @x : u32[?] read binding(0)
  buffer @w : u32[?] read binding(1)
  buffer @y : u32[600] read_write binding(2) live_in live_out
  buffer @t : u32[32] workgroup
  %l = local_id x
  %n = len @x
  %one = const 1.5 : f32
  %bits = bitcast %one : f32 -> u32
  %a = load @x[%l]
  %is = lt %a, 5 : u32
  %odd = eq %n, 7 : u32
  %old = atomic_add<relaxed> @y[%l], %a
  %m = subgroup_reduce<add> %a
  %sum = for %c = 2 to %n step 2 iter(%s = %m : u32) {
    %v = load @x[%c]
    %r = add %s, %v
    yield %r
  }
  %b = load @w[%l]
  %with = add %sum, %b
  store %with, @t[%l]
  %more, %left = while iter(%k = %a : u32, %q = %n : u32) {
    %go = lt %k, %n
    condition %go
  } do {
    %k1 = add %k, %bits
    %q1 = sub %q, 3
    yield %k1, %q1
  }
  %both = and %is, %odd
  if %both {
    store %more, @y[%l]
  } else {
    if %is {
      store %left, @y[%l]
    }
  }
  %narrow = cast %l : u32 -> u8
  %far = add %l, 256
  %also = cast %far : u32 -> u8
  store %m, @y[%narrow]
  %again = load @y[%also]
  store %again, @t[%l]
  %pair = splat %m : vec<2 x u32>
  store %pair, @y[%l]
  %next = add %l, 1
  %second = load @y[%next]
  store %second, @t[%l]
  barrier workgroup
  %third = load @y[%next]
  store %third, @t[%l]
}
"""
AGAIN = "  %again = load @y[%also]\n"
SECOND = "  %next = add %l, 1\n  %second = load @y[%next]\n"
THIRD = "  %third = load @y[%next]\n"


def beside(other: str) -> set[str]:
    """What is said of another program in the place of the one above."""
    before, after = (parse(text).programs["p"] for text in (BOTH, other))
    return {prove(obligation).status for _, obligation in rewritten_loops(before, after, {})}


def test_a_program_is_as_it_is() -> None:
    assert beside(BOTH) == {"proved"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("load @x[%c]", "load @w[%c]"),
        ("load @w[%l]", "load @x[%l]"),
        ("%n = len @x", "%n = len @w"),
        ("const 1.5", "const 2.5"),
        ("local_id x", "lane_id"),
        ("u32[600]", "u32[601]"),
        ("atomic_add<relaxed>", "atomic_add<acq_rel>"),
        ("atomic_add<relaxed>", "atomic_max<relaxed>"),
        ("reduce<add>", "reduce<max>"),
        ("= 2 to %n", "= 4 to %n"),
        ("= 2 to %n", "= 2 to %a"),
        ("step 2", "step 3"),
        ("step 2", "step 1"),
        ("iter(%s = %m", "iter(%s = %a"),
        ("    yield %r", "    yield %v"),
        ("lt %k, %n", "lt %q, %n"),
        ("iter(%k = %a", "iter(%k = %m"),
        ("yield %k1, %q1", "yield %k1, %q"),
        ("if %both", "if %odd"),
        ("and %is, %odd", "or %is, %odd"),
        ("    if %is {\n      store %left, @y[%l]\n    }", "    %nothing = add %l, 3"),
        ("store %more, @y[%l]", "store %more, @t[%l]"),
        (f"  store %m, @y[%narrow]\n{AGAIN}", f"{AGAIN}  store %m, @y[%narrow]\n"),
        (f"  store %pair, @y[%l]\n{SECOND}", f"{SECOND}  store %pair, @y[%l]\n"),
        (f"  barrier workgroup\n{THIRD}", f"{THIRD}  barrier workgroup\n"),
        ("  barrier workgroup\n", "  barrier subgroup\n"),
    ],
)
def test_another_program_is_not(old: str, new: str) -> None:
    assert BOTH.count(old) == 1
    assert beside(BOTH.replace(old, new)) != {"proved"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  %old = atomic_add<relaxed> @y[%l], %a\n", "  %old = atomic_add<relaxed> @y[%l], %a\n  %v0 = load @x[%l]\n"),
        ("%far = add %l, 256\n", "%half = add %l, 128\n  %far = add %half, 128\n"),
        ("lt %a, 5", "gt 5, %a"),
        ("and %is, %odd", "and %odd, %is"),
    ],
)  # fmt: skip
def test_what_is_written_otherwise(old: str, new: str) -> None:
    assert BOTH.count(old) == 1
    assert beside(BOTH.replace(old, new)) == {"proved"}


SCALARS = """vyre 2
program @p workgroup(32) grid(1) {
  buffer @x : u32[?, ?] read binding(0)
  buffer @y : u32[32] write binding(1)
  %l = local_id x
  %c = cast %l : u32 -> u8
  %d = add %c, 1 : u8
  %a = load @x[%l, %c]
  %b = load @x[%l, %d]
  %s = sub %a, %b
  store %s, @y[%l]
}
"""
VECTOR = SCALARS.replace(
    "  %a = load @x[%l, %c]\n  %b = load @x[%l, %d]\n",
    "  %v = load @x[%l, %c] : vec<2 x u32>\n  %a = extract %v[0]\n  %b = extract %v[1]\n",
)


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("", "", False),  # a lane of 255 would load element 0, and not 256
        ("cast %l : u32 -> u8", "const 7 : u8", True),
        ("cast %l : u32 -> u8", "const 255 : u8", False),
        ("cast %l : u32 -> u8", "const -1 : i8", True),
        ("cast %l : u32 -> u8", "const 127 : i8", False),
    ],
)
def test_a_vector_of_elements(old: str, new: str, is_same: bool) -> None:
    """It is of neighbours where no index wraps around."""
    texts = [text.replace(old, new) for text in (SCALARS, VECTOR)]
    if "i8" in new:
        texts = [text.replace("add %c, 1 : u8", "add %c, 1 : i8") for text in texts]
    before, after = (parse(text).programs["p"] for text in texts)
    statuses = {prove(obligation).status for _, obligation in rewritten_loops(before, after, {})}
    assert (statuses == {"proved"}) == is_same
    after = parse(texts[1].replace("extract %v[1]", "extract %v[0]")).programs["p"]
    statuses = {prove(obligation).status for _, obligation in rewritten_loops(before, after, {})}
    assert statuses != {"proved"}


# --- edits ----------------------------------------------------------------------------------------

EDITS = 12


def is_valid(module: Module) -> bool:
    try:
        return not errors_of(module)
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
@pytest.mark.parametrize("seeds", quick([range(k, k + 2) for k in range(0, 400, 2)]), ids=str)
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
