"""A miscompile in a random program of some 500 ops becomes a program of a few, in few tests."""

from __future__ import annotations

import pytest
from support import Settings, random_program
from support.quick import quick
from support.sample import random_inputs

from vyre_opt import dispatcher, parse, print_program, verify
from vyre_opt.execution import DispatchError
from vyre_opt.ir import Module
from vyre_opt.reduce import FunctionTest, Oracle, reduce_text

GRID = (1, 1, 1)


def swap_operands(module: Module) -> None:
    """The mistake: a - b becomes b - a."""
    for program in module.programs.values():
        for op in program.walk():
            if op.name == "sub":
                op.operands = op.operands[::-1]


def is_miscompiled(text: str) -> bool:
    """Whether the interpreter gives other outputs after the mistake."""
    ref = dispatcher("ref", max_steps=100_000)
    outputs = []
    for change in (lambda module: None, swap_operands):
        module = parse(text)
        program = module.programs.get("main")
        if program is None:
            return False
        change(module)
        try:
            outputs.append(ref.dispatch(program, random_inputs(program, GRID, 1), GRID, module=module))
        except DispatchError:
            return False
    return any(a.tobytes() != b.tobytes() for a, b in zip(*outputs, strict=True))


def ops(text: str) -> int:
    return sum(1 for item in parse(text).programs.values() for _ in item.walk())


@pytest.mark.parametrize(("seed", "statements"), quick([(12, 5), (1, 14)]))
def test_a_miscompile_becomes_small(seed: int, statements: int) -> None:
    """The tests are what costs when each is a process: a linear search would take over 500."""
    text = print_program(random_program(seed, Settings(statements=statements, grid=GRID)).module)
    assert ops(text) > 500
    assert is_miscompiled(text)
    oracle = Oracle(FunctionTest(is_miscompiled))
    small = reduce_text(text, oracle)
    assert is_miscompiled(small)
    assert ops(small) <= 6
    assert oracle.tests <= 200
    assert not [d for d in verify(parse(small)) if d.severity == "error"]


def test_several_trials_at_a_time_reach_the_same() -> None:
    """What runs ahead of a success is given up, so the order of the candidates decides, not their number at a time."""
    text = print_program(random_program(1, Settings(statements=4, grid=GRID)).module)

    def has_a_product(text: str) -> bool:
        return any(op.name == "mul" for program in parse(text).programs.values() for op in program.walk())

    assert has_a_product(text)
    alone = reduce_text(text, Oracle(FunctionTest(has_a_product)))
    assert reduce_text(text, Oracle(FunctionTest(has_a_product, jobs=4))) == alone
