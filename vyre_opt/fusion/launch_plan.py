"""plan_launch_fusion: which neighbouring launches become one.

The greedy strategy walks once from left to right and appends while the next stage fits:

    leader      input + output + scratch          <= budget, or StageOverBudget
    next stage  required + its scratch + output   <= budget, equal layout, no host before it
                avoids the bytes of the output before it

It takes every stage for the only reader of the stage before it.  `launch_optimal` counts closer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
)

__all__ = ["plan_launch_fusion"]

STRATEGIES = ("greedy", "optimal")


def plan_launch_fusion(
    stages: Iterable[LaunchFusionStage], max_group_bytes: int, strategy: str = "greedy"
) -> LaunchFusionPlan:
    """The groups that `stages`, in order, are launched in, each of at most `max_group_bytes`.

    `strategy`: "greedy", one pass in linear time, or "optimal": the fewest launches, and of
    such plans one that moves the fewest bytes (see `launch_optimal.plan_optimal`).

    Raises, in this order: ZeroBudget; DuplicateStage for the first id that repeats; then, from
    left to right, ByteCountOverflow for what a group requires beyond u64 and StageOverBudget for a
    stage that does not fit alone; last, ByteCountOverflow for what all groups avoid.  What is no stage, budget or strategy at all is a LaunchFusionError.
    """
    if strategy not in STRATEGIES:
        raise LaunchFusionError(f"unknown strategy {strategy!r}; the strategies are {', '.join(STRATEGIES)}")
    budget = byte_count(max_group_bytes, "max_group_bytes")
    if budget == 0:
        raise ZeroBudget
    line = _checked_line(stages)
    check_unique([stage.id for stage in line])
    if strategy == "optimal":
        from .launch_optimal import plan_optimal

        return plan_optimal(line, budget)
    return _plan_greedy(line, budget)


def _checked_line(stages: Iterable[LaunchFusionStage]) -> list[LaunchFusionStage]:
    if not isinstance(stages, Iterable):
        raise LaunchFusionError(f"stages are a sequence of LaunchFusionStage, not a {type(stages).__name__}")
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
            grown = required + stage.scratch_bytes + stage.output_bytes
            if grown > U64_MAX:
                raise ByteCountOverflow("required_bytes")
            if grown > budget:
                break
            required = grown
            avoided += stages[end - 1].output_bytes
            end += 1
        total_avoided += avoided
        ids = [stage.id for stage in stages[first:end]]
        groups.append(LaunchFusionGroup(ids, leader.layout_hash, required, avoided))
        first = end
    check_sum(total_avoided, "avoided_intermediate_bytes")
    return LaunchFusionPlan(groups, len(groups), count - len(groups), total_avoided)
