"""plan_launch_fusion: which launches of a line become one.

The greedy strategy walks once from left to right and appends while the next stage fits:

    leader      input + output + scratch          <= budget, or StageOverBudget
    next stage  required + its scratch + output   <= budget, equal layout, no host before it
                avoids the bytes of the output before it

It takes every stage for the only reader of the stage before it.

The optimal strategy finds the fewest launches, then the fewest bytes moved.  The same stages may share a
group, but their bytes are counted more closely.  With stage k before stage l,

    handed(l) = min(output of k, input of l)       what l takes from k; it is held once
    required  = first input + outputs + (input - handed) of the others + the largest scratch
    avoided   = handed, unless k requires host materialization: then the host sees its output

so an input that the stage before does not produce counts, and scratch is reused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from ..ir.types import with_article
from .group_budget import StageMemory, check_each_fits, earliest_starts, required_bytes
from .launch_groups import (
    U64_MAX,
    ByteCountOverflow,
    LaunchFusionError,
    LaunchFusionGroup,
    LaunchFusionPlan,
    LaunchFusionStage,
    StageOverBudget,
    ZeroBudget,
    byte_count,
    check_sum,
    check_unique,
    plan_of,
)
from .partition import SharedSpan, group_starts, group_totals

__all__ = ["make_groups", "plan_launch_fusion"]

STRATEGIES = ("greedy", "optimal")


def plan_launch_fusion(
    stages: Iterable[LaunchFusionStage], max_group_bytes: int, strategy: str = "greedy"
) -> LaunchFusionPlan:
    """Split `stages`, in order, into groups of at most `max_group_bytes` that become one launch each.

    `strategy`: "greedy", one pass in linear time, or "optimal": the fewest launches, and of
    such plans one that moves the fewest bytes (see above).

    Raises, in this order: ZeroBudget; DuplicateStage for the first id that repeats; then, from
    left to right, ByteCountOverflow for required bytes beyond u64 and StageOverBudget for a stage that
    does not fit alone; last, ByteCountOverflow for the sum of avoided bytes.  Arguments of other types or
    values, such as an unknown strategy, are a LaunchFusionError.
    """
    if strategy not in STRATEGIES:
        raise LaunchFusionError(f"unknown strategy {strategy!r}; the strategies are {', '.join(STRATEGIES)}")
    budget = byte_count(max_group_bytes, "max_group_bytes")
    if budget == 0:
        raise ZeroBudget
    line = _checked_line(stages)
    check_unique([stage.id for stage in line])
    if strategy == "optimal":
        return _plan_optimal(line, budget)
    return _plan_greedy(line, budget)


def _checked_line(stages: Iterable[LaunchFusionStage]) -> list[LaunchFusionStage]:
    if not isinstance(stages, Iterable):
        raise LaunchFusionError(
            f"stages are a sequence of LaunchFusionStage, not {with_article(type(stages).__name__)}"
        )
    line = list(stages)
    for position, stage in enumerate(line):
        if not isinstance(stage, LaunchFusionStage):
            raise LaunchFusionError(
                f"stage {position} of the line is a {type(stage).__name__}, no LaunchFusionStage"
            )
    return line


def _plan_greedy(stages: Sequence[LaunchFusionStage], budget: int) -> LaunchFusionPlan:
    groups: list[LaunchFusionGroup] = []
    total_avoided = 0
    first, count = 0, len(stages)
    while first < count:
        leader = stages[first]
        required = leader.input_bytes + leader.output_bytes + leader.scratch_bytes
        if required > U64_MAX:
            raise ByteCountOverflow("required_bytes")
        if required > budget:
            raise StageOverBudget(leader.id, required, budget)
        avoided, end = 0, first + 1
        while end < count:
            stage = stages[end]
            if stage.requires_host_materialization or stage.layout_hash != leader.layout_hash:
                break
            total = required + stage.scratch_bytes + stage.output_bytes
            if total > U64_MAX:
                raise ByteCountOverflow("required_bytes")
            if total > budget:
                break
            required = total
            avoided += stages[end - 1].output_bytes
            end += 1
        total_avoided += avoided
        ids = [stage.id for stage in stages[first:end]]
        groups.append(LaunchFusionGroup(ids, leader.layout_hash, required, avoided))
        first = end
    check_sum(total_avoided, "avoided_intermediate_bytes")
    return LaunchFusionPlan(groups, len(groups), count - len(groups), total_avoided)


def _plan_optimal(stages: Sequence[LaunchFusionStage], budget: int) -> LaunchFusionPlan:
    """The plan for stages with unique ids.  O(n log n) at most.

    Raises, from left to right, ByteCountOverflow and StageOverBudget.
    """
    memory, sizes, spans = _chain(stages)
    ids = [stage.id for stage in stages]
    check_each_fits(ids, memory, sizes, budget)

    def may_join(first: int, last: int) -> bool:
        stage = stages[last]
        return not stage.requires_host_materialization and stage.layout_hash == stages[last - 1].layout_hash

    starts = group_starts(earliest_starts(memory, sizes, budget, may_join), spans)
    return make_groups(starts, ids, [stage.layout_hash for stage in stages], memory, sizes, spans)


def _chain(stages: Sequence[LaunchFusionStage]) -> tuple[list[StageMemory], list[int], list[SharedSpan]]:
    """The stages' memory as buffers: number 2k for stage k alone, 2k + 1 for its hand-off to the next stage."""
    handoffs = [min(a.output_bytes, b.input_bytes) for a, b in pairwise(stages)]
    sizes: list[int] = []
    memory: list[StageMemory] = []
    incoming = 0
    for k, (stage, outgoing) in enumerate(zip(stages, [*handoffs, 0], strict=False)):
        sizes += (stage.input_bytes - incoming + stage.output_bytes - outgoing, outgoing)
        buffers = (2 * k - 1, 2 * k, 2 * k + 1) if k else (0, 1)
        memory.append(StageMemory(buffers, stage.scratch_bytes))
        incoming = outgoing
    spans = [
        SharedSpan(k, k + 1, size, 0)
        if stages[k].requires_host_materialization
        else SharedSpan(k, k + 1, 2 * size, size)
        for k, size in enumerate(handoffs)
        if size
    ]
    return memory, sizes, spans


def make_groups(
    starts: Sequence[int],
    ids: Sequence[int],
    layouts: Sequence[int],
    memory: Sequence[StageMemory],
    sizes: Sequence[int],
    spans: Sequence[SharedSpan],
) -> LaunchFusionPlan:
    """The plan with groups that begin at `starts`.  Raises ByteCountOverflow."""
    groups = []
    for (start, end), (_, avoided) in zip(
        pairwise([*starts, len(ids)]), group_totals(starts, spans, len(ids)), strict=True
    ):
        required = required_bytes(memory[start:end], sizes)
        check_sum(required, "required_bytes")
        groups.append(LaunchFusionGroup(list(ids[start:end]), layouts[start], required, avoided))
    return plan_of(groups)
