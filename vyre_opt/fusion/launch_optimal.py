"""The optimal strategy for plain stages: fewest launches, then fewest bytes moved.

Stages may share a group as the greedy strategy has it: equal layouts, no host materialization
but in the first.  What a group holds and saves is counted closer.  With stage k before stage l,

    handed(l) = min(output of k, input of l)       what l takes from k; it is held once
    required  = first input + outputs + (input - handed) of the others + the largest scratch
    avoided   = handed, where k requires no host materialization: then the host sees its output

so an input that the stage before does not give counts, and scratch is used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .group_budget import StageMemory, check_each_fits, earliest_starts, required_bytes
from .launch_groups import LaunchFusionGroup, LaunchFusionPlan, LaunchFusionStage, check_sum, plan_of
from .partition import Span, group_starts, group_totals

__all__ = ["make_groups", "plan_optimal"]


def plan_optimal(stages: Sequence[LaunchFusionStage], budget: int) -> LaunchFusionPlan:
    """The plan for stages with unique ids.  O(n log n) at most.

    Raises, from left to right, ByteCountOverflow and StageOverBudget.
    """
    line, sizes, spans = _chain(stages)
    ids = [stage.id for stage in stages]
    check_each_fits(ids, line, sizes, budget)

    def may_join(first: int, last: int) -> bool:
        stage = stages[last]
        return not stage.requires_host_materialization and stage.layout_hash == stages[last - 1].layout_hash

    starts = group_starts(earliest_starts(line, sizes, budget, may_join), spans)
    return make_groups(starts, ids, [stage.layout_hash for stage in stages], line, sizes, spans)


def _chain(stages: Sequence[LaunchFusionStage]) -> tuple[list[StageMemory], list[int], list[Span]]:
    """As buffers: 2k is what stage k alone holds, 2k + 1 what it hands to the next."""
    handoffs = [min(a.output_bytes, b.input_bytes) for a, b in pairwise(stages)]
    sizes: list[int] = []
    line: list[StageMemory] = []
    taken = 0
    for k, (stage, given) in enumerate(zip(stages, [*handoffs, 0], strict=False)):
        sizes += (stage.input_bytes - taken + stage.output_bytes - given, given)
        held = (2 * k - 1, 2 * k, 2 * k + 1) if k else (0, 1)
        line.append(StageMemory(held, stage.scratch_bytes))
        taken = given
    spans = [
        Span(k, k + 1, size, 0) if stages[k].requires_host_materialization else Span(k, k + 1, 2 * size, size)
        for k, size in enumerate(handoffs)
        if size
    ]
    return line, sizes, spans


def make_groups(
    starts: Sequence[int],
    ids: Sequence[int],
    layouts: Sequence[int],
    line: Sequence[StageMemory],
    sizes: Sequence[int],
    spans: Sequence[Span],
) -> LaunchFusionPlan:
    """The plan with groups that begin at `starts`."""
    groups = []
    for (start, end), (_, avoided) in zip(
        pairwise([*starts, len(ids)]), group_totals(starts, spans, len(ids)), strict=True
    ):
        required = required_bytes(line[start:end], sizes)
        check_sum(required, "required_bytes")
        groups.append(LaunchFusionGroup(list(ids[start:end]), layouts[start], required, avoided))
    return plan_of(groups)
