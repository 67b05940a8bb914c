"""The cpu target gives the interpreter's results: every op at every type, and random programs.

VYRE_PROGRAMS is the number of random programs; the cuda target's are in test/targets/cuda.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from support import differential
from support.differential import Difference, compare_ops, compare_random, smallest
from support.quick import quick

from vyre_opt.execution.dispatcher import Dispatcher
from vyre_opt.ir import Module

PROGRAMS = int(os.environ.get("VYRE_PROGRAMS", "2000"))
PART = 4


def shown(differences: list[Difference]) -> str:
    return "\n".join(map(str, differences[:40]))


@pytest.mark.parametrize(("per_op", "programs"), quick([(1, 78), (None, 1500)]))
def test_every_op(per_op: int | None, programs: int) -> None:
    """With no and with full optimisation; where there is a program or two of each op, in turn."""
    in_turn = per_op is not None
    done = compare_ops("cpu", per_op=per_op, in_turn=in_turn, jobs=1 if in_turn else None)
    assert done.runs == (1 if in_turn else 2) * done.programs
    assert done.programs > programs
    assert not done.differences, shown(done.differences)


@pytest.mark.parametrize("start", quick(range(0, PROGRAMS, PART)))
def test_random_programs(start: int) -> None:
    """In turn with no and with full optimisation.

    `PYTHONPATH=test python -m support --target cpu` does both for each program.
    """
    seeds = range(start, min(start + PART, PROGRAMS))
    done = compare_random("cpu", seeds, in_turn=True, jobs=1)
    assert done.runs == done.programs == len(seeds)
    assert not done.differences, shown(done.differences)


class WrongAdd:
    """A cpu target on which a program with an `add` gives something else."""

    name = "wrong"

    def __init__(self, ref: Dispatcher) -> None:
        self.ref = ref

    def dispatch(self, program, inputs, grid=None, *, module: Module | None = None, **rest):
        outputs = self.ref.dispatch(program, inputs, grid, module=module)
        if outputs and any(op.name == "add" for op in program.walk()):
            outputs[0].view("u1")[:1] ^= 1
        return outputs


@pytest.mark.campaign
def test_a_wrong_target_is_found_and_the_program_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that never finds anything would pass every other test here."""
    right = differential.dispatcher

    def make(name: str, **options: Any) -> Any:
        return WrongAdd(right("ref")) if name == "cpu" else right(name, **options)

    monkeypatch.setattr(differential, "dispatcher", make)
    done = compare_random("cpu", range(6), jobs=1)
    assert len(done.differences) > 6
    name, options, what = done.differences[0]
    assert name.startswith("seed ")
    assert what.startswith("@")
    text = smallest("cpu", int(name.removeprefix("seed ")), options)
    assert " add " in text
    assert text.count("\n") < 20
