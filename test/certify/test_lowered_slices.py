"""Slices as what invocations do: what the pass makes is proved, and no edit of it that a run tells apart."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from support.block_programs import block_program
from support.certifier_mistakes.edits import edit
from support.certifier_mistakes.recorder import Recorder, Step
from support.quick import quick
from support.slice_programs import SliceProgram, slice_program

from vyre_opt import dispatcher
from vyre_opt.certify.certifier import Certifier
from vyre_opt.driver.counterexample import counterexample
from vyre_opt.execution import DispatchError
from vyre_opt.ir import DiagnosticError, Module, errors_of, parse
from vyre_opt.passes import PassManager
from vyre_opt.rewriting.cloning import copy_module, copy_program

SCHEDULES = ("lanes=64", "lanes=32 neighbours=1", "lanes=128")
SECONDS = 2.0


def step_of(sample: SliceProgram, schedule: str) -> Step:
    module, recorder = Module(), Recorder()
    module.add(copy_program(sample.program, None)[0])
    PassManager(f"lower_slices{{{schedule}}}", observers=[recorder]).run(module)
    (step,) = recorder.steps
    return step


def status(step: Step, after: Module | None = None) -> str:
    certifier = Certifier()
    certifier.before(step.running, step.before)
    certifier.after(step.running, step.after if after is None else after, True, step.remarks)
    for decision in certifier.decisions:
        decision.certify(SECONDS)
    (found,) = {decision.status for decision in certifier.decisions}
    return found


@pytest.mark.parametrize("make", [slice_program, block_program])
@pytest.mark.parametrize("seed", quick([6, *range(7, 400)], keep=2))
def test_random_programs(make: Callable[[int], SliceProgram], seed: int) -> None:
    assert status(step_of(make(seed), SCHEDULES[seed % len(SCHEDULES)])) == "proved"


LOOP = """vyre 2
program @p workgroup(1) {
  buffer @x : f32[?, 40] read binding(0)
  buffer @n : u32[1] read binding(1)
  buffer @y : f32[?, 40] read_write binding(2) live_in live_out
  %r = workgroup_id x
  %n = load @n[0]
  %row = slice_load @x[%r, 0] : slice<40xf32>
  %last, %total = for %k = 0 to %n step 1 iter(%held = %row : slice<40xf32>, %sum = 0.0 : f32) {
    %more = slice_reduce<add> %held[0] : f32
    %next = add %sum, %more : f32
    %all = slice_broadcast %next : slice<40xf32>
    %changed = mul %held, %all : slice<40xf32>
    slice_store %changed, @y[%r, 0] : slice<40xf32>
    yield %changed, %next
  }
  %big = gt %total, 1.0 : f32
  if %big {
    slice_store %last, @y[%r, 0] : slice<40xf32>
  }
}
"""


def test_slices_that_a_loop_of_unknown_length_carries() -> None:
    """The certificate says who holds which elements, which is checked at each end of the loop."""
    module, recorder = parse(LOOP), Recorder()
    PassManager("lower_slices{lanes=32}", observers=[recorder]).run(module)
    (step,) = recorder.steps
    assert status(step) == "proved"
    (remark,) = step.remarks
    remark.certificate["carried"][0][1] = [(1, 40, 1, 32, 4, False)]
    assert status(step) == "unknown"


def outputs(sample: SliceProgram, module: Module) -> list[bytes] | None:
    """None for a run that ends in an error."""
    arrays = [array.copy() for array in sample.arrays]
    try:
        found = dispatcher("ref").dispatch(module.programs["p"], arrays, (sample.rows, 1, 1))
    except DispatchError:
        return None
    return [np.where(np.isnan(a), 0, a).tobytes() if a.dtype.kind == "f" else a.tobytes() for a in found]


@pytest.mark.parametrize("seeds", quick([range(k, k + 10) for k in range(0, 2000, 10)]), ids=str)
def test_edits_that_runs_tell_apart_are_not_proved(seeds: range) -> None:
    statuses = Counter[str]()
    for seed in seeds:
        sample = block_program(6 + seed % 7)
        step = step_of(sample, "lanes=32")
        edited = copy_module(step.after)
        what = edit(edited, random.Random(seed))
        try:
            is_right = bool(what) and not errors_of(edited)
        except DiagnosticError:
            is_right = False
        if not is_right:
            continue
        found = status(step, edited)
        statuses[found] += 1
        if found == "proved":
            assert outputs(sample, edited) == outputs(sample, step.before), f"{seed}: {what}"
    assert statuses["unknown"] > 0


PRODUCT = """vyre 2
program @p workgroup(1) {
  buffer @a : f16[16, 16] read binding(0)
  buffer @b : f16[16, 16] read binding(1)
  buffer @v : f32[16] read binding(2)
  buffer @c : f32[16, 16] write binding(3) live_out
  %x = slice_load @a[0, 0] : slice<16x16xf16>
  %y = slice_load @b[0, 0] : slice<16x16xf16>
  %t = slice_dot %x, %y : slice<16x16xf32>
  %r = slice_load @v[0] : slice<16xf32>
  %s = slice_broadcast %r : slice<16x16xf32>
  %e = add %t, %s : slice<16x16xf32>
  slice_store %e, @c[0, 0]
}
"""


def test_products_on_matrix_units_are_compared_where_their_sums_have_one_value() -> None:
    """They add in an order of their own: no call refutes them by that, but one does by anything else."""
    module = parse(PRODUCT)
    made = step_of(SliceProgram(module.programs["p"], [], 1), "units=subgroups")
    assert status(made) == "unknown"
    assert counterexample(made.before, made.after, SECONDS) is None
    wrong = parse(re.sub(r"load @v\[%\w+\]", "load @v[0]", str(made.after)))
    assert counterexample(made.before, wrong, SECONDS) is not None
