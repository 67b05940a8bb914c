"""Data of a pipeline for its drawing: names, texts, sizes and locations.

A picture is taken before the passes and another after them, so it refers to no part of the module,
which the passes change in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from math import prod

from ..analysis.launch_flow import LaunchDataflow
from ..fusion.halo_plan import LAUNCH_US, time_us, work_of
from ..ir.diagnostics import Location
from ..ir.grids import Grid, GridError, evaluate, show_extent
from ..ir.pipeline import Fill, HostRead, KernelStage, Launch, Pipeline, Repeat, Stage
from ..ir.program import AccessMode, Buffer, Module, Program
from ..ir.shapes import declared_shape
from ..records import dataclass
from .traffic import Traffic

__all__ = ["BufferPicture", "PipelinePicture", "RepeatPicture", "StagePicture", "pictures"]


@dataclass(frozen=True, slots=True)
class BufferPicture:
    """`size`: bytes, None if open.  `from_host`: the caller passes its contents; `to_host`: gets them back."""

    name: str
    type: str
    size: int | None
    from_host: bool
    to_host: bool


@dataclass(frozen=True, slots=True)
class StagePicture:
    """`kind` is launch, kernel or host_read; `times`: how often it runs.

    `shape`: the grid and the workgroup as text; `tiles`: (name, bytes) of each workgroup buffer that
    the program uses.  `estimated_us`: microseconds that one run of it is thought to take on a large GPU, with its launch, if
    each buffer is moved whole (see fusion/halo_plan.py); None where sizes are open.
    """

    kind: str
    name: str
    shape: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    times: int
    tiles: tuple[tuple[str, int], ...]
    loc: Location | None
    estimated_us: float | None = None

    @property
    def title(self) -> str:
        return self.name if self.kind == "kernel" else f"@{self.name}"


@dataclass(frozen=True, slots=True)
class RepeatPicture:
    """Stages `first` to `last` (inclusive) run `times` times; `depth` other repeats are around it."""

    first: int
    last: int
    times: int
    depth: int


@dataclass(slots=True)
class PipelinePicture:
    """`stages` in the order of the text; `repeats` refer to them by index."""

    name: str
    loc: Location | None
    buffers: dict[str, BufferPicture]
    stages: list[StagePicture] = field(default_factory=list)
    repeats: list[RepeatPicture] = field(default_factory=list)

    @property
    def launches(self) -> int:
        """The number of launches in a run, those in repeats each time."""
        return sum(stage.times for stage in self.stages if stage.kind != "host_read")

    @property
    def estimated_us(self) -> float | None:
        """Microseconds of a run of all launches; None if the time of one is unknown."""
        each = [(stage.estimated_us, stage.times) for stage in self.stages if stage.kind != "host_read"]
        known = [us * times for us, times in each if us is not None]
        return sum(known) if len(known) == len(each) and known else None

    @property
    def traffic(self) -> Traffic:
        """Traffic of the launches with memory, if each moves its buffers whole."""
        traffic = Traffic()
        for stage in self.stages:
            if stage.kind != "host_read":
                for name in (*stage.reads, *stage.writes):
                    traffic.add(name, self.buffers[name].size, stage.times)
        return traffic


def pictures(module: Module) -> dict[str, PipelinePicture]:
    """Pictures of all pipelines of a module, by name."""
    flows = LaunchDataflow(module)
    return {name: _picture(pipeline, flows) for name, pipeline in module.pipelines.items()}


def _picture(pipeline: Pipeline, flows: LaunchDataflow) -> PipelinePicture:
    counts = flows.counts(pipeline)
    buffers = {name: _buffer(buffer, counts[name]) for name, buffer in pipeline.buffers.items()}
    picture = PipelinePicture(pipeline.name, pipeline.loc, buffers)
    _add_stages(picture, pipeline.stages, _Estimator(flows, counts, buffers), times=1, depth=0)
    return picture


def _buffer(buffer: Buffer, count: int | None) -> BufferPicture:
    size = buffer.dtype.size_bytes
    return BufferPicture(
        buffer.name,
        f"{buffer.dtype}[{declared_shape(buffer) if count is None else count}]",
        None if count is None or size is None else count * size,
        buffer.live_in or buffer.access is AccessMode.READ,
        buffer.live_out or buffer.access is AccessMode.WRITE,
    )


def _add_stages(
    picture: PipelinePicture, stages: Sequence[Stage], estimator: _Estimator, times: int, depth: int
) -> None:
    for stage in stages:
        if isinstance(stage, Repeat):
            first, index = len(picture.stages), len(picture.repeats)
            _add_stages(picture, stage.stages, estimator, times * stage.times, depth + 1)
            if len(picture.stages) > first:  # a drawing of an empty repeat would have no extent
                repeat = RepeatPicture(first, len(picture.stages) - 1, stage.times, depth)
                picture.repeats.insert(index, repeat)  # before those inside it
        elif isinstance(stage, HostRead):
            name = stage.buffer
            picture.stages.append(
                StagePicture("host_read", name, "the host reads", (name,), (), times, (), stage.loc)
            )
        else:
            picture.stages.append(_stage(stage, estimator, times))


@dataclass(frozen=True, slots=True)
class _Estimator:
    """Facts from which the times of a pipeline's stages are estimated; `counts`: the lengths of its buffers."""

    flows: LaunchDataflow
    counts: dict[str, int | None]
    buffers: dict[str, BufferPicture]

    def microseconds(self, stage: Launch | KernelStage | Fill) -> float | None:
        """See `StagePicture`; the ops of a named kernel are not counted."""
        flow = self.flows.of(stage)
        moved = 0
        for name in (*flow.reads, *flow.writes):
            size = self.buffers[name].size
            if size is None:
                return None
            moved += size
        if not isinstance(stage, Launch):
            return LAUNCH_US + time_us(0, moved)
        program = self.flows.module.programs[stage.program]
        try:
            groups = prod(evaluate(extent, self.counts) for extent in stage.grid)
        except GridError:
            return None
        ops, _ = work_of(program)
        return LAUNCH_US + time_us(ops * groups * prod(program.workgroup), moved)


def _stage(stage: Launch | KernelStage | Fill, estimator: _Estimator, times: int) -> StagePicture:
    flows, estimate = estimator.flows, estimator.microseconds(stage)
    flow = flows.of(stage)
    if isinstance(stage, KernelStage):
        params = ", ".join(f"{key} = {value}" for key, value in stage.attrs.items())
        shape = f"named kernel{f', {params}' if params else ''}"
        return StagePicture(
            "kernel", stage.kernel, shape, flow.reads, flow.writes, times, (), stage.loc, estimate
        )
    if isinstance(stage, Fill):
        shape = f"all elements are {stage.shown}"
        return StagePicture("kernel", "fill", shape, (), flow.writes, times, (), stage.loc, estimate)
    program = flows.module.programs[stage.program]
    shape = f"grid {_dims(stage.grid)}, workgroup {_dims(program.workgroup)}"
    tiles = tuple(_tiles(program, flows))
    return StagePicture(
        "launch", stage.program, shape, flow.reads, flow.writes, times, tiles, stage.loc, estimate
    )


def _tiles(program: Program, flows: LaunchDataflow) -> Iterator[tuple[str, int]]:
    read, written = flows.accessed_buffers(program)
    for buffer in program.buffers.values():
        if buffer.is_workgroup and buffer.name in read | written:
            yield buffer.name, buffer.size_bytes or 0


def _dims(dims: Grid) -> str:
    shown = [show_extent(extent) for extent in dims]
    while len(shown) > 1 and shown[-1] == "1":
        shown.pop()
    return " x ".join(shown)
