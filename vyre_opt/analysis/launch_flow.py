"""Dataflow between the launches of a pipeline: runs of launches, and which buffers pass between them.

    launch @a (@x, @mid)      reads @x     writes @mid
    launch @b (@mid, @y)      reads @mid   writes @y          @a hands @mid over to @b

A launch reads or writes a buffer if an op of its program does, whatever the program declares.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ..ir.grids import lengths_by_dimension
from ..ir.ops import NAMED_KERNELS
from ..ir.pipeline import Fill, HostRead, KernelStage, Launch, Pipeline, Repeat, Stage
from ..ir.program import AccessMode, Buffer, Module, Program
from ..records import dataclass

__all__ = [
    "Separator",
    "BufferStages",
    "StageEffects",
    "LaunchDataflow",
    "RunDataflow",
    "LaunchRun",
    "launch_runs",
]


@dataclass(frozen=True, slots=True)
class Separator:
    """The first stage of those between two launches of one list of stages, which ends a run."""

    before: Launch
    stage: Stage
    after: Launch


@dataclass(frozen=True, slots=True)
class LaunchRun:
    """Consecutive launches of one list of stages, with no other stage between them.

    `repeats`: whether it is the list of a repeat.  `separator`: what is between this run and the one before
    it in the list; None for the first.
    """

    launches: tuple[Launch, ...]
    repeats: bool
    separator: Separator | None


def launch_runs(stages: Sequence[Stage], repeats: bool = False) -> Iterator[LaunchRun]:
    """The maximal runs of launches, including those in repeats."""
    run: list[Launch] = []
    separator: Separator | None = None
    between: tuple[Launch, Stage] | None = None
    for stage in stages:
        if isinstance(stage, Launch):
            if between is not None:
                separator, between = Separator(*between, stage), None
            run.append(stage)
            continue
        if run:
            yield LaunchRun(tuple(run), repeats, separator)
            between, run = (run[-1], stage), []
        if isinstance(stage, Repeat):
            yield from launch_runs(stage.stages, repeats=True)
    if run:
        yield LaunchRun(tuple(run), repeats, separator)


class BufferStages:
    """The stages of a pipeline that use each buffer, its element count, and how the host uses it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.lengths = pipeline.static_lengths
        self.stages: dict[str, list[Launch | KernelStage | Fill | HostRead]] = defaultdict(list)
        self._host: set[str] = set()
        for stage in pipeline.walk():
            if isinstance(stage, HostRead):
                self.stages[stage.buffer].append(stage)
                self._host.add(stage.buffer)
            elif not isinstance(stage, Repeat):
                for name in dict.fromkeys(stage.buffers):
                    self.stages[name].append(stage)

    def visibility(self, name: str) -> str | None:
        """Use of a buffer by the host: `host-read`, `live-out` or `live-in`; None if it does not."""
        return "host-read" if name in self._host else _declared_use(self.pipeline.buffers[name])

    def escaping(self, launches: Sequence[Launch]) -> set[str]:
        """The buffers of `launches` that the host or other stages use too."""
        inside = {id(launch) for launch in launches}
        return {
            name
            for name in {name for launch in launches for name in launch.buffers}
            if self.visibility(name) or any(id(stage) not in inside for stage in self.stages[name])
        }


def _declared_use(buffer: Buffer) -> str | None:
    """`live-out` or `live-in`, by the declaration of a pipeline's buffer; None for neither."""
    if buffer.live_out or buffer.access is AccessMode.WRITE:
        return "live-out"
    return "live-in" if buffer.live_in or buffer.access is AccessMode.READ else None


@dataclass(frozen=True, slots=True)
class StageEffects:
    """The buffers that a stage reads and writes, each once, in argument order."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunDataflow:
    """The launches of a run, and what each reads and writes.

    `escaping`: those of their buffers that others use too: the host, other stages of the pipeline, or the
    next iteration of a repeat.
    """

    launches: tuple[Launch, ...]
    effects: tuple[StageEffects, ...]
    escaping: frozenset[str]


class LaunchDataflow:
    """An analysis: what the stages of a module's pipelines read and write, and who uses their buffers.

    Each program and each pipeline is looked at once.
    """

    name = "fusion"

    def __init__(self, module: Module) -> None:
        self.module = module
        self._used: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        self._uses: dict[Pipeline, BufferStages] = {}

    def uses(self, pipeline: Pipeline) -> BufferStages:
        """Users of the buffers of a pipeline."""
        if pipeline not in self._uses:
            self._uses[pipeline] = BufferStages(pipeline)
        return self._uses[pipeline]

    def of(self, stage: Launch | KernelStage | Fill) -> StageEffects:
        """Buffers that a stage reads and writes."""
        if isinstance(stage, Fill):
            return StageEffects((), stage.buffers)
        if isinstance(stage, KernelStage):
            row = NAMED_KERNELS[stage.kernel]
            uses = [
                (name, role.access is not AccessMode.WRITE, role.access is not AccessMode.READ)
                for name, role in row.with_roles(stage.buffers)
            ]
        else:
            program = self.module.programs[stage.program]
            read_by_ops, written_by_ops = self.accessed_buffers(program)
            formals = [formal.name for formal in program.bound_buffers]
            uses = [
                (a, f in read_by_ops, f in written_by_ops)
                for a, f in zip(stage.buffers, formals, strict=True)
            ]
        reads = dict.fromkeys(name for name, is_read, _ in uses if is_read)
        writes = dict.fromkeys(name for name, _, is_written in uses if is_written)
        return StageEffects(tuple(reads), tuple(writes))

    def counts(self, pipeline: Pipeline) -> dict[str, int | None]:
        """Elements of each buffer; an open size is known where a program that takes the buffer has it."""
        counts = pipeline.static_lengths
        for stage in pipeline.walk():
            if isinstance(stage, Launch):
                for name, formal in zip(
                    stage.buffers, self.module.programs[stage.program].bound_buffers, strict=True
                ):
                    if counts[name] is None:
                        counts[name] = formal.count
                    for key, extent in lengths_by_dimension(name, formal.shape).items():
                        if counts[key] is None:
                            counts[key] = extent
        return counts

    def runs(self, pipeline: Pipeline) -> Iterator[RunDataflow]:
        """The runs of launches, those in repeats included."""
        uses = self.uses(pipeline)
        for run in launch_runs(pipeline.stages):
            effects = tuple(self.of(launch) for launch in run.launches)
            escaping = uses.escaping(run.launches)
            if run.repeats:
                escaping |= _carried_buffers(effects)
            yield RunDataflow(run.launches, effects, frozenset(escaping))

    def accessed_buffers(self, program: Program) -> tuple[frozenset[str], frozenset[str]]:
        """Two sets: buffers that a program's ops read, and buffers that they write."""
        cached = self._used.get(program.name)
        if cached is not None:
            return cached
        reads: set[str] = set()
        writes: set[str] = set()
        for op in program.walk():
            kernel = op.definition.kernel
            if kernel is not None:
                for name, role in kernel.with_roles(op.attrs["buffers"]):
                    if role.access is not AccessMode.WRITE:
                        reads.add(name)
                    if role.access is not AccessMode.READ:
                        writes.add(name)
            elif isinstance(name := op.attrs.get("buffer"), str):
                if "read" in op.definition.effects:
                    reads.add(name)
                if "write" in op.definition.effects:
                    writes.add(name)
        result = self._used[program.name] = (frozenset(reads), frozenset(writes))
        return result


def _carried_buffers(run: Sequence[StageEffects]) -> set[str]:
    """Buffers that an iteration of a repeat reads before it writes them: they come from the one before."""
    writes: set[str] = set()
    buffers: set[str] = set()
    for effects in run:
        buffers.update(name for name in effects.reads if name not in writes)
        writes.update(effects.writes)
    return buffers
