"""Plans launch fusion for stages that read and write named buffers, as the launches of a pipeline do.

Bytes are counted by the liveness of the buffers.  A *version* of a buffer lives from the stage that
writes it to the last stage that reads it before the next write.

    stage      0          1          2          3
    @mid       write      read                  write
               |--version--|                    a version of its own
    @table     read       read       read
               |--reread---|--reread--|

A version that lives within one group is not written to memory, unless the host sees the buffer.  What a
stage reads is not read from memory if an earlier stage of its group has read or written it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from ..ir.suggestions import suggest
from ..records import dataclass
from .group_budget import StageMemory, check_each_fits, earliest_starts
from .launch_groups import LaunchFusionError, LaunchFusionPlan, ZeroBudget, byte_count, check_unique
from .launch_plan import make_groups
from .partition import SharedSpan, group_starts, group_totals

__all__ = ["PipelineStage", "bytes_at_cuts", "bytes_moved", "plan_pipeline_fusion"]


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """A launch, and the buffers it reads and writes.

    A stage that writes only a part of a buffer, so that older contents remain, names it in `reads` too.
    `scratch_bytes`: memory of its own, such as workgroup memory.  Stages of a group have equal
    `layout_hash`; one that `requires_host_materialization` begins a group.
    """

    id: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    scratch_bytes: int = 0
    layout_hash: int = 0
    requires_host_materialization: bool = False

    @property
    def buffers(self) -> tuple[str, ...]:
        """Buffers that the stage reads or writes, each once."""
        return tuple(dict.fromkeys((*self.reads, *self.writes)))


def plan_pipeline_fusion(
    stages: Sequence[PipelineStage],
    buffer_bytes: Mapping[str, int],
    max_group_bytes: int,
    *,
    host_visible: Collection[str] = (),
    may_join: Callable[[int, int], bool] | None = None,
    allow_oversize: bool = False,
) -> LaunchFusionPlan:
    """The plan of fewest launches, and of those one that moves the fewest bytes.

    `buffer_bytes`: the size of every buffer.  `host_visible`: buffers whose contents are used outside of the
    stages; they are never elided.
    `may_join(first, last)`: whether stage number `last` may follow in the group of the stages `first` to
    `last - 1`; if so, it must be able to join any tail of it.  None: always.  It is called only where
    layout, host and budget allow, at most 2 n times.
    `allow_oversize`: a stage that alone needs more than `max_group_bytes` is a group alone;
    otherwise it is a StageOverBudget.

    A group requires each of its buffers once, and the largest scratch.  It avoids the versions that
    live within it.  Time is O(t log n) for t uses of buffers by n stages.

    Raises LaunchFusionError as `plan_launch_fusion` does, and for a buffer without a size.
    """
    budget = byte_count(max_group_bytes, "max_group_bytes")
    if budget == 0:
        raise ZeroBudget
    ids = [stage.id for stage in stages]
    check_unique(ids)
    numbers, sizes = _number_buffers(stages, buffer_bytes)
    memory = [
        StageMemory(
            tuple(numbers[name] for name in stage.buffers),
            byte_count(stage.scratch_bytes, f"stage {stage.id}: scratch_bytes"),
        )
        for stage in stages
    ]
    if not allow_oversize:
        check_each_fits(ids, memory, sizes, budget)

    def joins(first: int, last: int) -> bool:
        if stages[last].requires_host_materialization:
            return False
        if stages[last].layout_hash != stages[last - 1].layout_hash:
            return False
        return may_join is None or may_join(first, last)

    spans = list(_spans(stages, buffer_bytes, host_visible))
    starts = group_starts(earliest_starts(memory, sizes, budget, joins), spans)
    return make_groups(starts, ids, [stage.layout_hash for stage in stages], memory, sizes, spans)


def bytes_moved(
    stages: Sequence[PipelineStage],
    buffer_bytes: Mapping[str, int],
    plan: LaunchFusionPlan,
    *,
    host_visible: Collection[str] = (),
) -> int:
    """Bytes of memory traffic, reads and writes, of a plan for the stages."""
    each_alone = sum(
        buffer_bytes[name] for stage in stages for names in (stage.reads, stage.writes) for name in set(names)
    )
    starts = [0]
    for group in plan.groups:
        starts.append(starts[-1] + len(group.stage_ids))
    spans = list(_spans(stages, buffer_bytes, host_visible))
    return each_alone - sum(traffic for traffic, _ in group_totals(starts[:-1], spans, len(stages)))


def bytes_at_cuts(
    stages: Sequence[PipelineStage], buffer_bytes: Mapping[str, int], *, host_visible: Collection[str] = ()
) -> list[int]:
    """Memory traffic, in bytes, of a cut between each two neighbours.

    A cut moves the bytes that one group of all the stages would keep on chip across that place.
    """
    changes = [0] * (len(stages) + 1)
    for first, last, traffic, _ in _spans(stages, buffer_bytes, host_visible):
        changes[first] += traffic
        changes[last] -= traffic
    return list(accumulate(changes[:-2]))


def _number_buffers(
    stages: Iterable[PipelineStage], buffer_bytes: Mapping[str, int]
) -> tuple[dict[str, int], list[int]]:
    """The number of each buffer in use, and the sizes by number."""
    numbers: dict[str, int] = {}
    sizes: list[int] = []
    for stage in stages:
        for name in stage.buffers:
            if name in numbers:
                continue
            if name not in buffer_bytes:
                hint = suggest(name, buffer_bytes, "@")
                raise LaunchFusionError(
                    f"stage {stage.id} uses @{name}, which has no size" + (f"; {hint}" if hint else "")
                )
            numbers[name] = len(sizes)
            sizes.append(byte_count(buffer_bytes[name], f"the size of @{name}"))
    return numbers, sizes


def _spans(
    stages: Sequence[PipelineStage], buffer_bytes: Mapping[str, int], host_visible: Collection[str]
) -> Iterator[SharedSpan]:
    """The spans over which data is reused: from one use of contents to the next read, and lifetimes of versions."""
    visible = frozenset(host_visible)
    last_use: dict[str, int] = {}  # buffer -> the last stage that read or wrote it
    version: dict[str, tuple[int, int]] = {}  # buffer -> (the stage that wrote it, its last reader)

    def end_version(name: str) -> Iterator[SharedSpan]:
        writer, reader = version.pop(name, (0, 0))
        if reader > writer and name not in visible:
            yield SharedSpan(writer, reader, buffer_bytes[name], buffer_bytes[name])

    for number, stage in enumerate(stages):
        for name in set(stage.reads):
            if name in last_use:
                yield SharedSpan(last_use[name], number, buffer_bytes[name], 0)
            if name in version:
                version[name] = (version[name][0], number)
            last_use[name] = number
        for name in set(stage.writes):
            yield from end_version(name)
            version[name] = (number, number)
            last_use[name] = number
    for name in list(version):
        yield from end_version(name)
