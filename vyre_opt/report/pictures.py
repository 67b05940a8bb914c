"""A pipeline in the few words that a drawing needs.

It is taken before the passes and after them, so it holds no part of the module: names, texts,
sizes, and locations, which passes do not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..analysis.launch_flow import LaunchDataflow
from ..ir.diagnostics import Location
from ..ir.grids import Grid, show_extent
from ..ir.pipeline import HostRead, KernelStage, Launch, Pipeline, Repeat, Stage
from ..ir.program import AccessMode, Buffer, Module, Program
from .traffic import Traffic

__all__ = ["BufferPicture", "PipelinePicture", "RepeatPicture", "StagePicture", "pictures"]


@dataclass(frozen=True, slots=True)
class BufferPicture:
    """`given`, `taken`: whether the caller gives its contents, and gets them back."""

    name: str
    type: str
    size: int | None
    given: bool
    taken: bool


@dataclass(frozen=True, slots=True)
class StagePicture:
    """`kind` is launch, kernel or host_read; `times`: how often it runs.

    `shape` has the grid and the workgroup in words; `tiles` the workgroup buffers that the program
    uses, with their bytes.
    """

    kind: str
    name: str
    shape: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    times: int
    tiles: tuple[tuple[str, int], ...]
    loc: Location | None

    @property
    def title(self) -> str:
        return self.name if self.kind == "kernel" else f"@{self.name}"


@dataclass(frozen=True, slots=True)
class RepeatPicture:
    """Stages `first` to `last`, `times` over, in `depth` repeats around it."""

    first: int
    last: int
    times: int
    depth: int


@dataclass(slots=True)
class PipelinePicture:
    """The stages in order, those of repeats in place."""

    name: str
    loc: Location | None
    buffers: dict[str, BufferPicture]
    stages: list[StagePicture] = field(default_factory=list)
    repeats: list[RepeatPicture] = field(default_factory=list)

    @property
    def launches(self) -> int:
        """How many are made in all."""
        return sum(stage.times for stage in self.stages if stage.kind != "host_read")

    @property
    def traffic(self) -> Traffic:
        """What the launches read from memory and write to it, each buffer as a whole."""
        found = Traffic()
        for stage in self.stages:
            if stage.kind != "host_read":
                for name in (*stage.reads, *stage.writes):
                    found.add(name, self.buffers[name].size, stage.times)
        return found


def pictures(module: Module) -> dict[str, PipelinePicture]:
    """The pipelines of a module, by name."""
    flows = LaunchDataflow(module)
    return {name: _picture(pipeline, flows) for name, pipeline in module.pipelines.items()}


def _picture(pipeline: Pipeline, flows: LaunchDataflow) -> PipelinePicture:
    counts = flows.counts(pipeline)
    buffers = {name: _buffer(buffer, counts[name]) for name, buffer in pipeline.buffers.items()}
    made = PipelinePicture(pipeline.name, pipeline.loc, buffers)
    _stages(made, pipeline.stages, flows, times=1, depth=0)
    return made


def _buffer(buffer: Buffer, count: int | None) -> BufferPicture:
    size = buffer.dtype.size_bytes
    return BufferPicture(
        buffer.name,
        f"{buffer.dtype}[{'?' if count is None else count}]",
        None if count is None or size is None else count * size,
        buffer.live_in or buffer.access is AccessMode.READ,
        buffer.live_out or buffer.access is AccessMode.WRITE,
    )


def _stages(
    made: PipelinePicture, stages: Sequence[Stage], flows: LaunchDataflow, times: int, depth: int
) -> None:
    for stage in stages:
        if isinstance(stage, Repeat):
            first, place = len(made.stages), len(made.repeats)
            _stages(made, stage.stages, flows, times * stage.times, depth + 1)
            if len(made.stages) > first:
                made.repeats.insert(place, RepeatPicture(first, len(made.stages) - 1, stage.times, depth))
        elif isinstance(stage, HostRead):
            name = stage.buffer
            made.stages.append(
                StagePicture("host_read", name, "the host reads", (name,), (), times, (), stage.loc)
            )
        else:
            made.stages.append(_stage(stage, flows, times))


def _stage(stage: Launch | KernelStage, flows: LaunchDataflow, times: int) -> StagePicture:
    flow = flows.of(stage)
    if isinstance(stage, KernelStage):
        given = ", ".join(f"{key} = {value}" for key, value in stage.attrs.items())
        shape = f"named kernel{f', {given}' if given else ''}"
        return StagePicture("kernel", stage.kernel, shape, flow.reads, flow.writes, times, (), stage.loc)
    program = flows.module.programs[stage.program]
    shape = f"grid {_dims(stage.grid)}, workgroup {_dims(program.workgroup)}"
    tiles = tuple(_tiles(program, flows))
    return StagePicture("launch", stage.program, shape, flow.reads, flow.writes, times, tiles, stage.loc)


def _tiles(program: Program, flows: LaunchDataflow) -> Iterator[tuple[str, int]]:
    read, written = flows.used(program)
    for buffer in program.buffers.values():
        if buffer.is_workgroup and buffer.name in read | written:
            yield buffer.name, buffer.size_bytes or 0


def _dims(dims: Grid) -> str:
    shown = [show_extent(extent) for extent in dims]
    while len(shown) > 1 and shown[-1] == "1":
        shown.pop()
    return " x ".join(shown)
