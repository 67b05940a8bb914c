"""Remarks of launch_fusion: joined launches with their savings, and reasons for the cuts that remain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from ..analysis.launch_flow import BufferStages, Separator
from ..analysis.locality import TileProof
from ..analysis.refusal import Refusal
from ..ir.grids import show_extent
from ..ir.pipeline import Fill, HostRead, KernelStage, Launch, Pipeline, Stage
from ..ir.program import Program
from ..records import dataclass
from .bound_program import BoundProgram
from .group_legality import GroupLegality, HaloHandoff, LaunchNode
from .halo_recompute import HaloTile
from .regrid import Regrid
from .remark_sink import RemarkSink

__all__ = ["FusionGroup", "separator_refusal", "refuse", "remark_cut", "remark_joined", "remark_storage"]


@dataclass(eq=False, slots=True)
class FusionGroup:
    """Launches of a run that become one.

    `barriers`: the members that get a barrier before them.  `handoffs`: for each buffer that one member writes
    and a later one reads, a proof or refusal that each workgroup reads only its own writes.  `internal`: buffers
    that leave the pipeline, apart from those of `tiles`.  `private`: buffers that only the group uses but that stay.
    """

    nodes: Sequence[LaunchNode]
    halos: Sequence[HaloHandoff]
    tiles: list[HaloTile]
    barriers: frozenset[int]
    handoffs: dict[str, TileProof | Refusal] = field(default_factory=dict)
    internal: list[str] = field(default_factory=list)
    private: list[str] = field(default_factory=list)

    @property
    def members(self) -> list[BoundProgram]:
        return [node.member for node in self.nodes]

    @property
    def buffers(self) -> list[str]:
        """The pipeline's buffers that the members pass, each once, in the order of its first use."""
        return list(dict.fromkeys(name for member in self.members for name in member.buffers))

    @property
    def local(self) -> list[str]:
        """The hand-offs that each workgroup reads only where it wrote."""
        return [name for name, verdict in self.handoffs.items() if isinstance(verdict, TileProof)]


def remark_joined(
    sink: RemarkSink,
    pipeline: Pipeline,
    group: FusionGroup,
    program: Program,
    numbers: Sequence[int],
    buffers: Mapping[str, str],
    order: Sequence[tuple[int, ...]] = (),
) -> None:
    """Remark on a joined group and its savings.

    `numbers`: the launches' numbers in the original pipeline.  `buffers`: the pipeline's buffers -> the program's.
    `order`: for each pair of launches that changed places, the numbers of the one that moved up, of the other, and of
    the one that neither faults nor prints.
    """
    launches = [node.launch.program for node in group.nodes]
    removed_buffers = [*group.internal, *(tile.buffer for tile in group.tiles)]
    saved_bytes = sum(_bytes_moved(pipeline, group, name) for name in removed_buffers)
    listing = ", ".join(f"@{name}" for name in launches[:4]) + (", ..." if len(launches) > 4 else "")
    message = f"{len(launches)} launches ({listing}) become one of @{program.name}"
    if removed_buffers:
        message += f"; {', '.join(f'@{n}' for n in removed_buffers)} no longer in the pipeline, {saved_bytes} bytes not moved"
    for node in group.nodes:
        if node.regrid is not None and (node.regrid.factor > 1 or node.regrid.single):
            message += f"; of @{node.launch.program} it runs {node.regrid}"
    for halo in group.halos:
        message += f"; a halo of @{halo.tile.buffer} is computed again: {halo.cost}"
    for number in dict.fromkeys(launch for launch, _, _ in order):
        message += f"; @{launches[list(numbers).index(number)]} comes earlier than it stood"
    regrids = [_regrid_facts(node.regrid) for node in group.nodes if node.regrid is not None]
    sink.remark(
        "applied",
        message,
        group.nodes[0].launch.loc,
        claim="join",
        pipeline=pipeline.name,
        at=list(numbers),
        launches=launches,
        program=program.name,
        internal=removed_buffers,
        buffers=dict(buffers),
        barriers=sorted(group.barriers),
        halo=[_halo_facts(*each) for each in zip(group.halos, group.tiles, strict=True)],
        saved_launches=len(launches) - 1,
        saved_bytes=saved_bytes,
        **({"regrid": regrids} if regrids else {}),
        **({"order": [list(each) for each in order]} if order else {}),
    )


def remark_storage(sink: RemarkSink, pipeline: Pipeline, uses: BufferStages, group: FusionGroup) -> None:
    """Remark on why hand-offs of a group stay in the pipeline."""
    for name, verdict in group.handoffs.items():
        if name in group.internal or name in group.private:
            continue
        reason, message = _storage_reason(uses, group, name, verdict)
        consumer = next((k for k in group.nodes if name in k.reads), group.nodes[-1])
        sink.remark(
            "refused",
            f"@{name} stays in storage: {message}",
            consumer.launch.loc,
            pipeline=pipeline.name,
            first=group.nodes[0].launch.program,
            second=consumer.launch.program,
            buffer=name,
            reason=reason,
        )


def remark_cut(
    sink: RemarkSink, pipeline: Pipeline, legality: GroupLegality, start: int, next_start: int
) -> None:
    """Remark on why the group that begins at launch `start` ends before launch `next_start`."""
    earlier, refusal = legality.refusals.get(next_start, (next_start - 1, None))
    # a refusal by a launch before `start` is not what ended this group
    if refusal is None or earlier < start:
        earlier, refusal = next_start - 1, legality.over_limit(start, next_start) or refusal
    if refusal is None:
        refusal = Refusal("plan", "the plan with the fewest launches and bytes has a cut here")
    first = legality.run[earlier].launch
    refuse(sink, pipeline, first, legality.run[next_start].launch, refusal)


def refuse(sink: RemarkSink, pipeline: Pipeline, first: Launch, second: Launch, refusal: Refusal) -> None:
    """Remark on why `second` does not join `first`."""
    facts: dict[str, Any] = {"pipeline": pipeline.name, "first": first.program, "second": second.program}
    if refusal.buffer is not None:
        facts["buffer"] = refusal.buffer
    message = f"@{second.program} does not join @{first.program}: {refusal.message}"
    sink.remark("refused", message, second.loc, **facts, reason=refusal.reason, **refusal.facts)


def _storage_reason(
    uses: BufferStages, group: FusionGroup, name: str, verdict: TileProof | Refusal
) -> tuple[str, str]:
    """The code of the reason, and its message."""
    visibility = uses.visibility(name)
    if visibility == "host-read":
        return visibility, "the host reads it"
    if visibility is not None:
        return visibility, f"the pipeline declares it {_declaration(uses.pipeline, name)}"
    launches = {id(node.launch) for node in group.nodes}
    user_stage = next((stage for stage in uses.stages[name] if id(stage) not in launches), None)
    if user_stage is not None:
        return "third-consumer", f"{_stage_name(user_stage)} uses it too, in a launch of its own"
    if isinstance(verdict, Refusal):
        return verdict.reason, verdict.message
    if uses.pipeline.buffers[name].size_bytes == 0:
        return "empty", "it has no elements"
    return "unsized", "its elements have no static size"


def _stage_name(stage: Stage) -> str:
    if isinstance(stage, Launch):
        return f"@{stage.program}"
    return stage.kernel if isinstance(stage, KernelStage) else "another stage"


def _declaration(pipeline: Pipeline, name: str) -> str:
    buffer = pipeline.buffers[name]
    words = [str(buffer.access)] if buffer.access is not None else []
    words += ["live_in"] * buffer.live_in + ["live_out"] * buffer.live_out
    return " ".join(words)


def separator_refusal(separator: Separator) -> Refusal:
    """Why the launches before and after a separator are not joined."""
    if isinstance(separator.stage, HostRead):
        name = separator.stage.buffer
        return Refusal("host-read", f"the host reads @{name} between them", name)
    if isinstance(separator.stage, KernelStage):
        return Refusal("named-kernel", f"{separator.stage.kernel} is between them; run expand_kernels first")
    if isinstance(separator.stage, Fill):
        return Refusal("named-kernel", "a fill is between them; run expand_kernels first")
    return Refusal("repeat", "a repeat is between them")


def _bytes_moved(pipeline: Pipeline, group: FusionGroup, name: str) -> int:
    """Bytes of a buffer that the launches of a group read and write as separate launches."""
    times = sum((name in node.reads) + (name in node.writes) for node in group.nodes)
    return times * (pipeline.buffers[name].size_bytes or 0)


def _regrid_facts(plan: Regrid) -> dict[str, Any]:
    return {"factor": plan.factor, "workgroups": show_extent(plan.extent), "single": plan.single}


def _halo_facts(halo: HaloHandoff, tile: HaloTile) -> dict[str, Any]:
    return {
        "buffer": tile.buffer,
        "producer": tile.producer,
        "tile": [tile.low, tile.low + tile.size - 1],
        "stride": tile.stride,
        "tile_bytes": halo.bytes,
        **halo.cost.facts(),
    }
