"""Plans of stages with named buffers, against a simulation of what groups read and write."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vyre_opt import LaunchFusionError
from vyre_opt.fusion.liveness_plan import PipelineStage, bytes_at_cuts, bytes_moved, plan_pipeline_fusion

NAMES = "abcde"


def drawn(rng: random.Random, count: int) -> tuple[list[PipelineStage], dict[str, int], set[str]]:
    stages = [
        PipelineStage(
            number,
            tuple(rng.sample(NAMES, rng.randint(0, 2))),
            tuple(rng.sample(NAMES, rng.randint(0, 2))),
            rng.randint(0, 6),
            layout_hash=int(rng.random() < 0.1),
            requires_host_materialization=rng.random() < 0.1,
        )
        for number in range(count)
    ]
    return stages, {name: rng.randint(1, 20) for name in NAMES}, set(rng.sample(NAMES, rng.randint(0, 2)))


def simulated(
    stages: list[PipelineStage], sizes: dict[str, int], visible: set[str], starts: list[int]
) -> tuple[int, int]:
    """(bytes moved, bytes elided): each group keeps what it touched and writes back what is wanted later.

    Written from the text of the module alone: by contents, stage after stage, without spans.
    """

    def is_wanted(name: str, writer: int, after: int) -> bool:
        """Does a stage after number `after` read what `writer` wrote, before an overwrite?"""
        for number in range(writer + 1, len(stages)):
            if name in stages[number].reads and number > after:
                return True
            if name in stages[number].writes:
                return False
        return False

    moved = elided = 0
    for start, end in pairwise([*starts, len(stages)]):
        held: set[str] = set()
        for number in range(start, end):
            stage = stages[number]
            moved += sum(sizes[name] for name in stage.reads if name not in held)
            held |= {*stage.reads, *stage.writes}
            for name in stage.writes:
                has_reader = is_wanted(name, number, number)
                if has_reader and name not in visible and not is_wanted(name, number, end - 1):
                    elided += sizes[name]
                else:
                    moved += sizes[name]
    return moved, elided


def required(stages: list[PipelineStage], sizes: dict[str, int]) -> int:
    touched = {name for stage in stages for name in (*stage.reads, *stage.writes)}
    return sum(sizes[name] for name in touched) + max(stage.scratch_bytes for stage in stages)


@pytest.mark.campaign
@given(st.integers(0, 7), st.integers(10, 70), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_best_of_all_partitions(count: int, budget: int, rng: random.Random) -> None:
    stages, sizes, visible = drawn(rng, count)
    apart = {(rng.randrange(8), rng.randrange(8)) for _ in range(2)}

    def may_join(first: int, last: int) -> bool:
        """Some pairs of stages may not be in one group: so a part of a group is a group."""
        return not any((k, last) in apart for k in range(first, last))

    def is_legal(start: int, end: int) -> bool:
        group = stages[start:end]
        return (
            len({stage.layout_hash for stage in group}) == 1
            and not any(stage.requires_host_materialization for stage in group[1:])
            and all(may_join(start, last) for last in range(start + 1, end))
            and (len(group) == 1 or required(group, sizes) <= budget)
        )

    best = min(
        (len(starts), simulated(stages, sizes, visible, starts)[0], [-s for s in starts[::-1]])
        for mask in range(1 << max(0, count - 1))
        for starts in [[0, *(i + 1 for i in range(count - 1) if mask >> i & 1)] if count else []]
        if all(is_legal(a, b) for a, b in pairwise([*starts, count]))
    )
    starts = [-s for s in best[2][::-1]]
    plan = plan_pipeline_fusion(
        stages, sizes, budget, host_visible=visible, may_join=may_join, allow_oversize=True
    )
    assert [group.stage_ids[0] for group in plan.groups] == starts
    assert [id for group in plan.groups for id in group.stage_ids] == list(range(count))
    moved, elided = simulated(stages, sizes, visible, starts)
    assert plan.avoided_intermediate_bytes == elided
    assert bytes_moved(stages, sizes, plan, host_visible=visible) == moved
    for group in plan.groups:
        assert group.required_bytes == required([stages[id] for id in group.stage_ids], sizes)
    if count:
        whole, _ = simulated(stages, sizes, visible, [0])
        cuts = bytes_at_cuts(stages, sizes, host_visible=visible)
        assert cuts == [simulated(stages, sizes, visible, [0, k])[0] - whole for k in range(1, count)]


SIZES = {"text": 100, "mid": 64, "hits": 8}
DECODE_SCAN = [PipelineStage(0, ("text",), ("mid",)), PipelineStage(1, ("mid",), ("hits",))]


def test_a_hand_off_is_elided_unless_the_host_sees_it() -> None:
    plan = plan_pipeline_fusion(DECODE_SCAN, SIZES, 200, host_visible={"hits"})
    assert (plan.launch_count, plan.avoided_intermediate_bytes) == (1, 64)
    assert bytes_moved(DECODE_SCAN, SIZES, plan, host_visible={"hits"}) == 108
    assert bytes_at_cuts(DECODE_SCAN, SIZES, host_visible={"hits"}) == [128]
    seen = plan_pipeline_fusion(DECODE_SCAN, SIZES, 200, host_visible={"hits", "mid"})
    assert (seen.launch_count, seen.avoided_intermediate_bytes) == (1, 0)
    assert bytes_moved(DECODE_SCAN, SIZES, seen, host_visible={"hits", "mid"}) == 172


def test_stages_of_different_layouts_stay_apart() -> None:
    other = [DECODE_SCAN[0], replace(DECODE_SCAN[1], layout_hash=1)]
    assert plan_pipeline_fusion(other, SIZES, 200).launch_count == 2
    after_the_host = [DECODE_SCAN[0], replace(DECODE_SCAN[1], requires_host_materialization=True)]
    assert plan_pipeline_fusion(after_the_host, SIZES, 200).launch_count == 2


def test_neighbours_without_a_shared_buffer_save_no_bytes() -> None:
    """Only a true edge counts: the sizes of both are the same as in a chain."""
    stages = [PipelineStage(0, ("text",), ("mid",)), PipelineStage(1, ("other",), ("hits",))]
    sizes = {**SIZES, "other": 64}
    plan = plan_pipeline_fusion(stages, sizes, 1000)
    assert plan.avoided_intermediate_bytes == 0
    assert bytes_at_cuts(stages, sizes) == [0]


def test_a_later_reader_keeps_the_hand_off_in_memory() -> None:
    """@mid is read again by a stage that cannot join: it must be written."""
    stages = [*DECODE_SCAN, PipelineStage(2, ("mid",), ("hits",), requires_host_materialization=True)]
    plan = plan_pipeline_fusion(stages, SIZES, 1000)
    assert [group.stage_ids for group in plan.groups] == [[0, 1], [2]]
    assert plan.avoided_intermediate_bytes == 0


def test_may_join_is_asked_of_each_stage_a_few_times() -> None:
    """It proves footprints, so it is dear: at most twice a stage, and never of what cannot join anyway."""
    queries: list[tuple[int, int]] = []

    def may_join(first: int, last: int) -> bool:
        queries.append((first, last))
        return last - first < 3

    stages = [
        PipelineStage(k, (f"b{k}",), (f"b{k + 1}",), requires_host_materialization=k == 50)
        for k in range(100)
    ]
    plan = plan_pipeline_fusion(stages, {f"b{k}": 4 for k in range(101)}, 1000, may_join=may_join)
    assert max(len(group.stage_ids) for group in plan.groups) == 3
    assert len(queries) <= 200
    assert not any(first < 50 <= last for first, last in queries)


def test_errors() -> None:
    with pytest.raises(LaunchFusionError.ZeroBudget):
        plan_pipeline_fusion(DECODE_SCAN, SIZES, 0)
    with pytest.raises(LaunchFusionError.DuplicateStage):
        plan_pipeline_fusion([DECODE_SCAN[0]] * 2, SIZES, 200)
    with pytest.raises(LaunchFusionError.StageOverBudget) as over:
        plan_pipeline_fusion(DECODE_SCAN, SIZES, 163)
    assert (over.value.id, over.value.required_bytes) == (0, 164)
    alone = plan_pipeline_fusion(DECODE_SCAN, SIZES, 163, allow_oversize=True)
    assert [group.required_bytes for group in alone.groups] == [164, 72]
    with pytest.raises(LaunchFusionError, match="stage 0 uses @text, which has no size; did you mean"):
        plan_pipeline_fusion(DECODE_SCAN, {"texts": 1, "mid": 1, "hits": 1}, 200)
    with pytest.raises(LaunchFusionError, match="the size of @mid is -1"):
        plan_pipeline_fusion(DECODE_SCAN, {**SIZES, "mid": -1}, 200)
