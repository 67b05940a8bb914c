"""A pipeline as launch_fusion sees it: runs of launches, and who touches which buffer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from ..ir.grids import Grid, fold
from ..ir.pipeline import HostRead, KernelStage, Launch, Pipeline, Repeat, Stage
from ..ir.program import Access, Buffer, Module
from .join import Member

__all__ = ["Border", "BufferUses", "Link", "runs_of"]


@dataclass(eq=False, slots=True)
class Link:
    """A launch of a run, with what a plan asks of it: what it reads and writes, and its grid as far as known."""

    launch: Launch
    member: Member
    grid: Grid
    reads: frozenset[str]
    writes: frozenset[str]

    @property
    def touched(self) -> frozenset[str]:
        return self.reads | self.writes

    @property
    def is_aliased(self) -> bool:
        """Whether it passes one buffer for two."""
        return len(self.touched) < len(self.launch.buffers)


@dataclass(frozen=True, slots=True)
class Border:
    """A stage that no group goes across, between two launches of one list of stages."""

    before: Launch
    stage: Stage
    after: Launch


class BufferUses:
    """The stages of a pipeline that touch each buffer, and the buffers that are seen from outside."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.lengths = pipeline.static_lengths
        self.stages: dict[str, list[Launch | KernelStage | HostRead]] = defaultdict(list)
        for stage in pipeline.walk():
            if isinstance(stage, HostRead):
                self.stages[stage.buffer].append(stage)
            elif not isinstance(stage, Repeat):
                for name in dict.fromkeys(stage.buffers):
                    self.stages[name].append(stage)

    def seen(self, name: str) -> str | None:
        """How the outside sees a buffer: the reason's code, or None."""
        buffer = self.pipeline.buffers[name]
        if any(isinstance(stage, HostRead) for stage in self.stages[name]):
            return "host-read"
        return outside_use(buffer)


def outside_use(buffer: Buffer) -> str | None:
    """Whether a pipeline is given a buffer or gives it back, by its declaration."""
    if buffer.live_out or buffer.access is Access.WRITE:
        return "live-out"
    return "live-in" if buffer.live_in or buffer.access is Access.READ else None


def runs_of(module: Module, pipeline: Pipeline) -> Iterator[tuple[list[Link], list[Border]]]:
    """The runs of consecutive launches in each list of stages, and what stands between them."""
    lengths = pipeline.static_lengths
    waiting = [pipeline.stages]
    while waiting:
        stages = waiting.pop(0)
        run: list[Link] = []
        borders: list[Border] = []
        last: Launch | None = None
        between: Stage | None = None
        for stage in stages:
            if not isinstance(stage, Launch):
                if isinstance(stage, Repeat):
                    waiting.append(stage.stages)
                between = between or stage
                if run:
                    yield run, []
                run = []
                continue
            if last is not None and between is not None:
                borders.append(Border(last, between, stage))
            last, between = stage, None
            run.append(_link(module, stage, lengths))
        yield run, borders


def _link(module: Module, launch: Launch, lengths: dict[str, int | None]) -> Link:
    member = Member(module.programs[launch.program], launch.buffers)
    reads = {actual for formal, actual in member.formals if formal.access is not Access.WRITE}
    writes = {actual for formal, actual in member.formals if formal.access is not Access.READ}
    x, y, z = (fold(extent, lengths) for extent in launch.grid)
    return Link(launch, member, (x, y, z), frozenset(reads), frozenset(writes))
