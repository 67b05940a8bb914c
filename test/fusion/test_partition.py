"""The optimal strategy against every partition there is, and what it promises on larger lines."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.quick import quick

from vyre_opt import LaunchFusionError, LaunchFusionStage, plan_launch_fusion
from vyre_opt.fusion.partition import SharedSpan, group_starts

Stages = Sequence[LaunchFusionStage]


def partitions(count: int) -> Iterator[list[int]]:
    """The first stages of the groups, for every way to cut a line."""
    for mask in range(1 << max(0, count - 1)):
        yield [0, *(i + 1 for i in range(count - 1) if mask >> i & 1)] if count else []


def bounds(starts: list[int], count: int) -> list[tuple[int, int]]:
    return list(pairwise([*starts, count]))


# --- the formulae of the optimal strategy, straight from their text -----------------------


def handed(stages: Stages, k: int) -> int:
    return min(stages[k - 1].output_bytes, stages[k].input_bytes)


def required(stages: Stages, start: int, end: int) -> int:
    own_inputs = sum(stages[k].input_bytes - handed(stages, k) for k in range(start + 1, end))
    outputs = sum(stage.output_bytes for stage in stages[start:end])
    scratch = max(stage.scratch_bytes for stage in stages[start:end])
    return stages[start].input_bytes + own_inputs + outputs + scratch


def avoided(stages: Stages, start: int, end: int) -> int:
    return sum(
        0 if stages[k - 1].requires_host_materialization else handed(stages, k) for k in range(start + 1, end)
    )


def moved(stages: Stages, start: int, end: int) -> int:
    """Inputs that nobody of the group hands over, and outputs that are not elided."""
    inputs = stages[start].input_bytes + sum(
        stages[k].input_bytes - handed(stages, k) for k in range(start + 1, end)
    )
    return inputs + sum(stage.output_bytes for stage in stages[start:end]) - avoided(stages, start, end)


def is_legal(stages: Stages, start: int, end: int, budget: int) -> bool:
    group = stages[start:end]
    return (
        len({stage.layout_hash for stage in group}) == 1
        and not any(stage.requires_host_materialization for stage in group[1:])
        and required(stages, start, end) <= budget
    )


def line(draws: Sequence[tuple[int, int, int, int, bool]]) -> list[LaunchFusionStage]:
    return [LaunchFusionStage(number, *fields) for number, fields in enumerate(draws)]


FIELDS = st.tuples(
    st.sampled_from([0, 0, 0, 1]),
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, 8),
    st.sampled_from([False] * 5 + [True]),
)


@pytest.mark.parametrize("examples", quick([60, 300]))
def test_best_of_all_partitions(examples: int) -> None:
    """Fewest launches, then fewest bytes, then the longest leading groups; and its figures are right."""
    check = given(st.lists(FIELDS, max_size=9), st.integers(30, 90))(check_best_of_all)
    settings(max_examples=examples, deadline=None)(check)()


def check_best_of_all(draws: list[tuple[int, int, int, int, bool]], budget: int) -> None:
    stages = line(draws)
    count = len(stages)
    legal = [
        (len(starts), sum(moved(stages, a, b) for a, b in bounds(starts, count)), [-s for s in starts[::-1]])
        for starts in partitions(count)
        if all(is_legal(stages, a, b, budget) for a, b in bounds(starts, count))
    ]
    if not legal:
        with pytest.raises(LaunchFusionError.StageOverBudget):
            plan_launch_fusion(stages, budget, "optimal")
        return
    launches, _, ends = min(legal)
    plan = plan_launch_fusion(stages, budget, "optimal")
    cuts = bounds([-s for s in ends[::-1]], count)
    assert plan.launch_count == launches
    assert [group.stage_ids for group in plan.groups] == [list(range(a, b)) for a, b in cuts]
    for group, (start, end) in zip(plan.groups, cuts, strict=True):
        assert group.required_bytes == required(stages, start, end) <= budget
        assert group.avoided_intermediate_bytes == avoided(stages, start, end)
    assert plan.avoided_intermediate_bytes == sum(avoided(stages, a, b) for a, b in cuts)
    assert plan.avoided_launches == count - launches


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 8)), min_size=1, max_size=60), st.integers(60, 200)
)
@settings(max_examples=200, deadline=None)
def test_never_more_launches_than_greedy(draws: list[tuple[int, int]], budget: int) -> None:
    """Where each stage takes just what the one before gives, closer counting never forbids a group."""
    sizes = [7, *(size for size, _ in draws)]
    stages = [
        LaunchFusionStage(k, 0, sizes[k], sizes[k + 1], scratch, False)
        for k, (_, scratch) in enumerate(draws)
    ]
    greedy = plan_launch_fusion(stages, budget)
    assert plan_launch_fusion(stages, budget, "optimal").launch_count <= greedy.launch_count


def test_what_the_greedy_plan_does_not_see() -> None:
    """A stage's own input counts; the output of a host stage exists, fused or not; scratch is shared."""
    wide = line([(0, 8, 8, 0, False), (0, 100, 8, 0, False)])
    assert plan_launch_fusion(wide, 110).launch_count == 1
    assert plan_launch_fusion(wide, 110, "optimal").launch_count == 2
    host = line([(0, 8, 8, 0, True), (0, 8, 8, 0, False)])
    fused = plan_launch_fusion(host, 100, "optimal")
    assert (fused.launch_count, fused.avoided_intermediate_bytes) == (1, 0)
    assert plan_launch_fusion(host, 100).avoided_intermediate_bytes == 8
    scratch = line([(0, 8, 8, 50, False), (0, 8, 8, 50, False)])
    assert plan_launch_fusion(scratch, 80).launch_count == 2
    assert plan_launch_fusion(scratch, 80, "optimal").launch_count == 1


def test_bytes_decide_between_plans_of_equal_launches() -> None:
    """Greedy fills the first group and cuts the 30 byte hand-off; cutting the 2 bytes costs as many launches."""
    stages = line([(0, 2, 2, 0, False), (0, 2, 30, 0, False), (0, 30, 2, 0, False)])
    greedy, best = plan_launch_fusion(stages, 35), plan_launch_fusion(stages, 35, "optimal")
    assert [g.stage_ids for g in greedy.groups] == [[0, 1], [2]]
    assert [g.stage_ids for g in best.groups] == [[0], [1, 2]]


def test_unknown_strategy() -> None:
    with pytest.raises(
        LaunchFusionError, match="unknown strategy 'best'; the strategies are greedy, optimal"
    ):
        plan_launch_fusion([], 1, "best")


def test_sums_beyond_u64() -> None:
    """A stage beyond u64, and a plan that avoids more than u64, are overflows and not budgets."""
    huge = 1 << 63
    with pytest.raises(LaunchFusionError.ByteCountOverflow) as caught:
        plan_launch_fusion(line([(0, huge, huge, 0, False)]), 1 << 62, "optimal")
    assert caught.value.field == "required_bytes"
    pairs = line([(k // 2, huge if k % 2 else 0, 0 if k % 2 else huge, 0, False) for k in range(4)])
    with pytest.raises(LaunchFusionError.ByteCountOverflow) as caught:
        plan_launch_fusion(pairs, (1 << 64) - 1, "optimal")
    assert caught.value.field == "avoided_intermediate_bytes"


# --- group_starts with spans of any length ------------------------------------------------


@pytest.mark.parametrize("examples", quick([60, 300]))
def test_long_spans(examples: int) -> None:
    """Spans over many stages and windows of any shape, against every partition."""
    check = given(st.integers(1, 9), st.randoms(use_true_random=False))(check_long_spans)
    settings(max_examples=examples, deadline=None)(check)()


def check_long_spans(count: int, rng: random.Random) -> None:
    earliest, at = [], 0
    for j in range(count):
        at = max(at, rng.randint(max(0, j - 5), j)) if rng.random() < 0.7 else at
        earliest.append(at)
    spans = []
    for _ in range(rng.randint(0, 12) if count > 1 else 0):
        first = rng.randint(0, count - 2)
        spans.append(
            SharedSpan(first, rng.randint(first + 1, count - 1), rng.choice([0, 1, 1, 5, 1 << 63]), 0)
        )

    def cost(starts: list[int]) -> int:
        return sum(s.traffic for s in spans if any(s.first < cut <= s.last for cut in starts))

    best = min(
        (len(starts), cost(starts), [-s for s in starts[::-1]])
        for starts in partitions(count)
        if all(earliest[end - 1] <= start for start, end in bounds(starts, count))
    )
    assert group_starts(earliest, spans) == [-s for s in best[2][::-1]]


@pytest.mark.parametrize("reach", quick([3000, 2, 40], keep=2))
def test_time_grows_with_the_line_and_not_its_square(reach: int) -> None:
    """Windows of half the line and spans that end all over them: what a scan of the window chokes on."""
    rng = random.Random(reach)
    times = []
    for count in (4096, 16384):
        window = count // 3
        earliest = [max(0, j - window) for j in range(count)]
        firsts = [rng.randrange(count - 1) for _ in range(count)]
        spans = [
            SharedSpan(f, min(count - 1, f + rng.randint(1, reach)), rng.randint(1, 99), 0) for f in firsts
        ]
        least = float("inf")
        for _ in range(3):
            start = time.process_time()
            group_starts(earliest, spans)
            least = min(least, time.process_time() - start)
        times.append(least)
    assert times[1] < 8 * times[0], "4 times is linear, 16 times a square"
