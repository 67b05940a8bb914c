"""What the generator promises: the same program for a seed, every op, every type, honest sizes."""

from __future__ import annotations

import pytest
from support import Settings, handoff_program, random_inputs, random_program
from support.expressions import LANES, PURE_FORMATS, SCALARS
from support.properties import baseline

from vyre_opt import print_program, verify
from vyre_opt.ir import OPS, Op
from vyre_opt.ir.program import Func


def ops_of(seed: int) -> list[Op]:
    return [op for item in random_program(seed).module.order for op in item.walk()]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def many() -> list[Op]:
    return [op for seed in range(60) for op in ops_of(seed)]


def test_every_op_of_the_table_is_generated(many: list[Op]) -> None:
    """A row that is added to the table is covered without being listed again; kernels stand alone."""
    missing = {name for name, row in OPS.items() if row.kernel is None} - {op.name for op in many}
    assert not missing


def test_every_pure_form_is_known() -> None:
    """A new format needs a maker in expressions.py, or its ops would be left out in silence."""
    assert {row.format for row in OPS.values() if row.is_pure} <= PURE_FORMATS


def test_every_type_is_generated(many: list[Op]) -> None:
    """All scalars, and vectors of each of the generator's widths."""
    types = {value.type for op in many for value in op.results}
    assert set(SCALARS) <= types
    assert {t.lanes for t in types if t.is_vec} == set(LANES)


def test_a_seed_stands_for_one_program() -> None:
    """Failures are reported by seed, so a seed must give the same bytes each time."""
    for make in (random_program, handoff_program):
        for seed in range(20):
            assert print_program(make(seed).module) == print_program(make(seed).module)
    first, second = (random_inputs(random_program(3).program, (2, 1, 1), 9) for _ in range(2))
    assert [a.tobytes() for a in first] == [b.tobytes() for b in second]


def test_settings_bound_the_size() -> None:
    """Small settings give small programs, for callers whose backend is slow."""
    small = Settings(statements=3, depth=1, expression_depth=1)
    assert max(sum(1 for _ in random_program(s, small).program.walk()) for s in range(30)) < 700

    def depth(ops: list[Op]) -> int:
        return max((1 + depth(block.ops) for op in ops for block in op.regions), default=0)

    assert max(depth(random_program(s, small).program.body.ops) for s in range(30)) <= 2


def test_programs_verify_without_synchronisation() -> None:
    """sync=False leaves out barriers and subgroup ops, for backends that lack them."""
    for seed in range(20):
        sample = random_program(seed, Settings(sync=False))
        assert not [d for d in verify(sample.module) if d.severity == "error"]
        effects = {effect for op in sample.program.walk() for effect in op.definition.effects}
        assert not effects & {"sync", "subgroup"}


def test_open_buffers_are_large_enough() -> None:
    """The generator and random_inputs agree on the length of a buffer of open size."""
    opened = [s for s in range(40) if any(b.count is None for b in random_program(s).program.bound_buffers)]
    assert len(opened) > 10
    for seed in opened[:10]:
        baseline(random_program(seed), seed)


def test_functions_are_called() -> None:
    """Inlining is only tested if programs call functions with results."""
    called = [
        op
        for seed in range(40)
        for item in random_program(seed).module.order
        if not isinstance(item, Func)
        for op in item.walk()  # type: ignore[union-attr]
        if op.name == "call"
    ]
    assert len(called) > 5


def test_hand_offs_are_of_both_kinds() -> None:
    """Without programs that run clean and others that do not, the hand-off test would prove nothing."""
    kinds = [getattr(baseline(handoff_program(seed), seed).outcome, "kind", "clean") for seed in range(60)]
    assert kinds.count("clean") > 15
    assert kinds.count("uninitialised") > 3
    assert kinds.count("race") > 3
