"""The contract of plan_launch_fusion: the greedy plans, the errors and their order, the random stages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.calls import count_calls
from support.quick import quick

from vyre_opt import LaunchFusionError, LaunchFusionPlan, LaunchFusionStage, plan_launch_fusion

CASES = json.loads((Path(__file__).parent / "launch_fusion.json").read_text())
U64 = (1 << 64) - 1


def stage(id: int, *bytes_: int, layout: int = 7, host: bool = False) -> LaunchFusionStage:
    """Input, output and scratch bytes in this order."""
    return LaunchFusionStage(id, layout, *bytes_, host)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.get("error", f"{len(c['stages'])} stages"))
@pytest.mark.parametrize("strategy", ["greedy", "optimal"])
def test_cases(case: dict[str, Any], strategy: str) -> None:
    """Both strategies: in these chains each stage takes what the one before gives."""
    stages = [LaunchFusionStage(**fields) for fields in case["stages"]]
    if "error" in case:
        name, *fields = case["error"].split()
        with pytest.raises(getattr(LaunchFusionError, name)) as caught:
            plan_launch_fusion(stages, case["budget"], strategy)
        for field in fields:
            key, _, value = field.partition("=")
            assert getattr(caught.value, key) == int(value)
        return
    plan = plan_launch_fusion(stages, case["budget"], strategy)
    assert [group.stage_ids for group in plan.groups] == case["groups"]
    assert plan.launch_count == case["launch_count"]
    assert plan.avoided_launches == case["avoided_launches"]
    assert plan.avoided_intermediate_bytes == case.get("avoided_intermediate_bytes", 63 * 16)


def xorshift(state: int) -> Iterator[int]:
    while True:
        state ^= state << 13 & U64
        state ^= state >> 7
        state ^= state << 17 & U64
        yield state


def drawn(seed: int) -> tuple[list[LaunchFusionStage], int]:
    """The stages and the budget of a seed."""
    numbers = xorshift(seed ^ 0xF0511A4A7E570001)
    stages = [
        LaunchFusionStage(
            id=number,
            layout_hash=next(numbers) % 5,
            input_bytes=1 + next(numbers) % 48,
            output_bytes=1 + next(numbers) % 48,
            scratch_bytes=next(numbers) % 24,
            requires_host_materialization=next(numbers) % 11 == 0,
        )
        for number in range(1 + seed % 24)
    ]
    return stages, 96 + seed % 512


def check_plan(plan: LaunchFusionPlan, stages: list[LaunchFusionStage], budget: int) -> None:
    assert [id for group in plan.groups for id in group.stage_ids] == [s.id for s in stages]
    assert plan.launch_count == len(plan.groups)
    assert plan.avoided_launches == len(stages) - len(plan.groups)
    assert plan.avoided_intermediate_bytes == sum(g.avoided_intermediate_bytes for g in plan.groups)
    by_id = {s.id: s for s in stages}
    for group in plan.groups:
        assert group.required_bytes <= budget
        members = [by_id[id] for id in group.stage_ids]
        assert {s.layout_hash for s in members} == {group.layout_hash}
        assert not any(s.requires_host_materialization for s in members[1:])


@pytest.mark.parametrize("seeds", quick([range(400), range(400, 4096)], ids=["few", "many"]))
@pytest.mark.parametrize("strategy", ["greedy", "optimal"])
def test_random_stages(strategy: str, seeds: range) -> None:
    """Order, counts, layouts and budgets hold for every seed; no other error than StageOverBudget."""
    planned = 0
    for seed in seeds:
        stages, budget = drawn(seed)
        try:
            plan = plan_launch_fusion(stages, budget, strategy)
        except LaunchFusionError.StageOverBudget:
            continue
        check_plan(plan, stages, budget)
        planned += 1
    assert planned > 0.73 * len(seeds)


def test_order_of_checks() -> None:
    """Zero budget, then no stages, then repeated ids, then from left to right."""
    over, twice = stage(1, 100, 100, 100), [stage(2, 1, 1, 1), stage(1, 1, 1, 1)]
    with pytest.raises(LaunchFusionError.ZeroBudget):
        plan_launch_fusion([], 0)
    with pytest.raises(LaunchFusionError.ZeroBudget):
        plan_launch_fusion([over, over], 0)
    assert plan_launch_fusion([], 1) == LaunchFusionPlan([], 0, 0, 0)
    with pytest.raises(LaunchFusionError.DuplicateStage) as caught:
        plan_launch_fusion([over, *twice, stage(2, 1, 1, 1)], 10)
    assert caught.value.id == 1, "the first one to repeat, before any budget"
    with pytest.raises(LaunchFusionError.StageOverBudget) as first:
        plan_launch_fusion([stage(1, 5, 5, 1), stage(2, U64, U64, U64, layout=8)], 10)
    assert (first.value.id, first.value.required_bytes, first.value.budget_bytes) == (1, 11, 10)


def test_append_conditions() -> None:
    """Exactly on the budget fits; one byte more, another layout or a host stage begins a group."""
    first, second = stage(1, 8, 4, 2), stage(2, 999, 5, 3)  # an appended input does not count
    together = plan_launch_fusion([first, second], 1007)
    assert [g.stage_ids for g in together.groups] == [[1, 2]]
    assert (together.groups[0].required_bytes, together.avoided_intermediate_bytes) == (22, 4)
    small = stage(2, 4, 5, 3)
    assert plan_launch_fusion([first, small], 22).launch_count == 1
    assert plan_launch_fusion([first, small], 21).launch_count == 2
    assert plan_launch_fusion([first, stage(2, 4, 5, 3, layout=8)], 99).launch_count == 2
    assert plan_launch_fusion([first, stage(2, 4, 5, 3, host=True)], 99).launch_count == 2
    leader = plan_launch_fusion([stage(1, 8, 4, 2, host=True), small], 99)
    assert leader.launch_count == 1, "a host stage may begin a group"


@pytest.mark.parametrize(
    ("stages", "field"),
    [
        ([stage(1, U64, 1, 0)], "required_bytes"),
        ([stage(1, 1, 0, 0), stage(2, 0, U64, 0)], "required_bytes"),
        (
            [
                stage(1, 0, 1 << 63, 0),
                stage(2, 0, 0, 0),
                stage(3, 0, 1 << 63, 0, layout=8),
                stage(4, 0, 0, 0, layout=8),
            ],
            "avoided_intermediate_bytes",
        ),
    ],
    ids=["leader", "append", "avoided"],
)
def test_sums_are_u64(stages: list[LaunchFusionStage], field: str) -> None:
    with pytest.raises(LaunchFusionError.ByteCountOverflow) as caught:
        plan_launch_fusion(stages, U64)
    assert caught.value.field == field


def test_sums_up_to_u64_are_fine() -> None:
    """A bound that is one too tight would refuse the largest legal stage."""
    plan = plan_launch_fusion([stage(1, U64 - 2, 1, 1)], U64)
    assert plan.groups[0].required_bytes == U64


@pytest.mark.parametrize("strategy", quick(["optimal", "greedy"]))
@pytest.mark.parametrize("budget", quick([36 * 40, 1 << 40], ids=["many groups", "one group"]))
@pytest.mark.parametrize("count", quick([4096, 16_384, 65_536]))
def test_work_grows_with_the_stages(strategy: str, budget: int, count: int) -> None:
    """Eight times the stages take eight times the calls; bench/launch_plan.py has the seconds."""

    def calls(count: int) -> int:
        stages = [stage(number, 16, 16, 4) for number in range(count)]
        plans = []
        work = count_calls(lambda: plans.append(plan_launch_fusion(stages, budget, strategy)))
        check_plan(plans[0], stages, budget)
        return work

    assert calls(count) < 9 * calls(count // 8)


def test_what_all_groups_avoid_is_summed_at_the_end() -> None:
    """A stage that does not fit is told before a total beyond u64 is."""
    half = 1 << 63
    stages = [
        stage(1, 0, half, 0),
        stage(2, 0, 0, 0),
        stage(3, 0, half, 0, layout=8),
        stage(4, 0, 0, 0, layout=8),
    ]
    last = stage(5, half, 5, 0, layout=9)
    with pytest.raises(LaunchFusionError.StageOverBudget) as over:
        plan_launch_fusion([*stages, last], half)
    assert (over.value.id, over.value.required_bytes, over.value.budget_bytes) == (5, half + 5, half)
    with pytest.raises(LaunchFusionError.ByteCountOverflow) as beyond:
        plan_launch_fusion(stages, half)
    assert beyond.value.field == "avoided_intermediate_bytes"
