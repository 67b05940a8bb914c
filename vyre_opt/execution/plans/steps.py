"""A plan: the launches, host reads and repeats of a pipeline for given lengths, which every target runs.

`vyre_opt.driver.pipeline_plan` makes plans, and checks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

from ...ir.diagnostics import Location
from ...ir.pipeline import HostRead, Launch, Pipeline
from ...ir.program import AccessMode, Buffer, Dim3, Module, Program
from ...records import dataclass
from ..arrays import storage_type
from ..params import Words
from .neighbours import ITSELF, Neighbours

__all__ = [
    "AnyStep",
    "FormDecision",
    "HostReadStep",
    "LaunchStep",
    "PipelinePlan",
    "RepeatStep",
    "is_returned",
    "steps_of",
]


@dataclass(frozen=True, slots=True)
class FormDecision:
    """A form that a launch was given or refused, as a remark of a pass would say it: `kind` is applied or refused."""

    kind: str
    message: str
    loc: Location | None = None


@dataclass(slots=True, eq=False)
class LaunchStep:
    """A launch; `launch`: the stage that it comes from, if it is one of a pipeline.

    `buffers`: names of the pipeline's buffers, in the order of the program's bindings.  `params`: for each runtime
    scalar of the program, in the order of their names, its word, or the pipeline's param that has it.
    `neighbours`: the invocations of the program as it was written that one of this program does the work of.
    `takes_turns`: whether its workgroups each do the work of several, one after the other.
    `original`: the launch before it got another program, if it did.  `decisions`: which forms were tried (see
    driver/launch_rewrites.py).
    """

    launch: Launch | None
    program: Program
    grid: Dim3
    buffers: tuple[str, ...]
    params: tuple[int | str, ...] = ()
    neighbours: Neighbours = ITSELF
    takes_turns: bool = False
    original: LaunchStep | None = None
    decisions: tuple[FormDecision, ...] = ()

    @property
    def is_rewritten(self) -> bool:
        """Whether its invocations are others than those of the program as it was written."""
        return self.neighbours != ITSELF or self.takes_turns or self.program.workgroup != self._workgroup

    @property
    def _workgroup(self) -> Dim3:
        """Workgroup of the program as it was written."""
        return (self.original or self).program.workgroup

    def written_ids(
        self, workgroup: Dim3, local: Dim3
    ) -> tuple[tuple[object, ...] | None, tuple[object, ...]]:
        """The workgroup and the local id of the program as it was written, for one of its invocations now.

        Of neighbours x is `4 to 7`; the workgroup is None where it is one of several that take turns.
        """
        (width, own_rows, _), (across, rows, _) = self._workgroup, self.program.workgroup
        if rows > own_rows:  # each row of invocations is a workgroup of it
            across, local = across * rows, (local[0] + across * local[1], 0, local[2])
        # several narrow workgroups are one of it
        group, lane = divmod(workgroup[0] * across + local[0], width)
        workgroup, local = (group, *workgroup[1:]), (lane, *local[1:])
        groups, lanes = self.neighbours.written(workgroup, local, self._workgroup)
        return None if self.takes_turns else groups, lanes

    @property
    def loc(self) -> Location | None:
        """The place of the stage."""
        return None if self.launch is None else self.launch.loc

    def words(self, params: Mapping[str, int]) -> Words:
        """The words of the program's runtime scalars, for those of the pipeline."""
        return tuple(params[value] if isinstance(value, str) else value for value in self.params)

    def relaunched(self, program: Program, grid: Dim3, told: Mapping[str, int]) -> LaunchStep:
        """The launch of another program over another grid.  `told`: words of the runtime scalars that it has besides."""
        words = {**dict(zip(sorted(self.program.params), self.params, strict=True)), **told}
        return replace(self, program=program, grid=grid, params=tuple(words[name] for name in sorted(words)))

    @property
    def written(self) -> list[str]:
        """The pipeline's buffers that it may write."""
        bound = zip(self.buffers, self.program.bound_buffers, strict=True)
        return [name for name, formal in bound if formal.access is not AccessMode.READ]


@dataclass(slots=True, eq=False)
class HostReadStep:
    """The host reads a buffer.  `is_final`: nothing writes it afterwards."""

    stage: HostRead
    is_final: bool = False

    @property
    def buffer(self) -> str:
        return self.stage.buffer


@dataclass(slots=True, eq=False)
class RepeatStep:
    times: int
    steps: list[AnyStep]


AnyStep = LaunchStep | HostReadStep | RepeatStep


@dataclass(slots=True, eq=False)
class PipelinePlan:
    """A pipeline for given lengths.

    `buffers`: all of them, also those that expanded kernels need, each with its count.  `written`:
    the buffers that some step may write.  `outputs`: the buffers that it returns, in order of
    declaration.
    """

    pipeline: Pipeline
    module: Module
    steps: list[AnyStep]
    written: frozenset[str] = frozenset()
    outputs: list[Buffer] = field(default_factory=list)

    @property
    def buffers(self) -> dict[str, Buffer]:
        return self.pipeline.buffers

    @property
    def title(self) -> str:
        """Name in messages: the program, where the plan is that of a program."""
        steps = self.steps
        is_program = len(steps) == 1 and isinstance(steps[0], LaunchStep) and steps[0].launch is None
        return f"{'program' if is_program else 'pipeline'} @{self.pipeline.name}"

    def size(self, name: str) -> int:
        """Bytes of a buffer."""
        buffer = self.buffers[name]
        stored = storage_type(buffer.dtype)
        assert stored is not None
        return (buffer.count or 0) * buffer.dtype.lanes * stored.itemsize


def is_returned(buffer: Buffer) -> bool:
    """Whether a pipeline returns its final contents, not only what the host reads of it."""
    return buffer.live_out or buffer.access is AccessMode.WRITE


def steps_of(steps: Iterable[AnyStep]) -> Iterator[LaunchStep | HostReadStep]:
    """All launches and host reads, each once, in order."""
    stack = list(steps)[::-1]
    while stack:
        step = stack.pop()
        if isinstance(step, RepeatStep):
            stack += step.steps[::-1]
        else:
            yield step
