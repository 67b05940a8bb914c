"""Stages, groups and plans of launch fusion, and their errors.

Byte counts are u64: integers from 0 to 2^64 - 1, and so are their sums.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, ClassVar

from ..records import dataclass

__all__ = [
    "U64_MAX",
    "ByteCountOverflow",
    "DuplicateStage",
    "LaunchFusionError",
    "LaunchFusionGroup",
    "LaunchFusionPlan",
    "LaunchFusionStage",
    "StageOverBudget",
    "ZeroBudget",
    "byte_count",
    "check_sum",
    "check_unique",
    "is_flag",
    "plan_of",
]

U64_MAX = (1 << 64) - 1


class LaunchFusionError(ValueError):
    """Error for stages without a plan.  The kinds are attributes too: `LaunchFusionError.ZeroBudget`.

    Errors of one kind with equal fields are equal.
    """

    ZeroBudget: ClassVar[type[ZeroBudget]]
    DuplicateStage: ClassVar[type[DuplicateStage]]
    ByteCountOverflow: ClassVar[type[ByteCountOverflow]]
    StageOverBudget: ClassVar[type[StageOverBudget]]

    def __eq__(self, other: object) -> bool:
        return self.args == other.args if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self.args))


class ZeroBudget(LaunchFusionError):
    """max_group_bytes is 0."""

    def __str__(self) -> str:
        return "max_group_bytes is 0, which no stage fits; give the bytes that a group may hold"


class DuplicateStage(LaunchFusionError):
    """Two stages have the same `id`."""

    def __init__(self, id: int) -> None:
        super().__init__(id)
        self.id = id

    def __str__(self) -> str:
        return f"stage id {self.id} is there twice; give each stage an id of its own"


class ByteCountOverflow(LaunchFusionError):
    """The sum in `field` of a group or a plan is beyond u64."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field

    def __str__(self) -> str:
        return f"{self.field} is a sum beyond 2^64 - 1; check the stages' byte counts"


class StageOverBudget(LaunchFusionError):
    """Stage `id` alone needs `required_bytes`, more than `budget_bytes`."""

    def __init__(self, id: int, required_bytes: int, budget_bytes: int) -> None:
        super().__init__(id, required_bytes, budget_bytes)
        self.id = id
        self.required_bytes = required_bytes
        self.budget_bytes = budget_bytes

    def __str__(self) -> str:
        return (
            f"stage {self.id} alone needs {self.required_bytes} bytes of a budget of {self.budget_bytes}; "
            "raise max_group_bytes or split the stage"
        )


for _kind in (ZeroBudget, DuplicateStage, ByteCountOverflow, StageOverBudget):
    setattr(LaunchFusionError, _kind.__name__, _kind)


def byte_count(value: Any, label: str) -> int:
    """`value` as an int of u64.  Raises LaunchFusionError."""
    count = _integer(value, label)
    if not 0 <= count <= U64_MAX:
        raise LaunchFusionError(f"{label} is {count}; bytes are counted from 0 to 2^64 - 1")
    return count


def _integer(value: Any, label: str) -> int:
    """A plain int: a NumPy integer would wrap in sums."""
    if type(value) is int:
        return value
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise LaunchFusionError(f"{label} is {value!r}, which is not an integer") from None


def is_flag(value: Any, label: str) -> bool:
    """`value` as a bool.  Raises LaunchFusionError for a value that is neither true nor false."""
    if isinstance(value, str) or value not in (0, 1):
        raise LaunchFusionError(f"{label} is {value!r}; it is True or False")
    return bool(value)


@dataclass(frozen=True, slots=True)
class LaunchFusionStage:
    """A launch in a line of launches, where each takes the output of the one before.

    Stages may share a group only if their `layout_hash` is equal.  `scratch_bytes`: memory that only this
    stage uses.  A stage that `requires_host_materialization` begins a group.
    Raises LaunchFusionError for a field that is not an integer, or bytes that are not u64.
    """

    id: int
    layout_hash: int
    input_bytes: int
    output_bytes: int
    scratch_bytes: int
    requires_host_materialization: bool

    def __post_init__(self) -> None:
        for name in ("id", "layout_hash"):
            value = getattr(self, name)
            if type(value) is not int:
                object.__setattr__(self, name, _integer(value, f"a stage's {name}"))
        for name in ("input_bytes", "output_bytes", "scratch_bytes"):
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= U64_MAX:
                object.__setattr__(self, name, byte_count(value, f"stage {self.id}: {name}"))
        flag = self.requires_host_materialization
        if type(flag) is not bool:
            label = f"stage {self.id}: requires_host_materialization"
            object.__setattr__(self, "requires_host_materialization", is_flag(flag, label))


@dataclass(frozen=True, slots=True)
class LaunchFusionGroup:
    """Stages that become one launch, in order.

    `required_bytes`: bytes that the group holds at once.  `avoided_intermediate_bytes`: bytes of
    intermediate results that no longer pass through memory.
    """

    stage_ids: list[int]
    layout_hash: int
    required_bytes: int
    avoided_intermediate_bytes: int


@dataclass(frozen=True, slots=True)
class LaunchFusionPlan:
    """All stages, in order, in groups.  `avoided_launches`: stages less groups."""

    groups: list[LaunchFusionGroup]
    launch_count: int
    avoided_launches: int
    avoided_intermediate_bytes: int


def plan_of(groups: list[LaunchFusionGroup]) -> LaunchFusionPlan:
    """The plan that consists of `groups`.  Raises ByteCountOverflow for the sum of avoided bytes."""
    total = sum(group.avoided_intermediate_bytes for group in groups)
    check_sum(total, "avoided_intermediate_bytes")
    stages = sum(len(group.stage_ids) for group in groups)
    return LaunchFusionPlan(groups, len(groups), stages - len(groups), total)


def check_sum(total: int, field: str) -> None:
    """Raises ByteCountOverflow for a sum beyond u64."""
    if total > U64_MAX:
        raise ByteCountOverflow(field)


def check_unique(ids: Sequence[int]) -> None:
    """Raises DuplicateStage for the first id that was there before."""
    seen: set[int] = set()
    for id in ids:
        if id in seen:
            raise DuplicateStage(id)
        seen.add(id)
