"""A pipeline as a function of arrays; `vyre_opt.compile` makes it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ..ir.diagnostics import Diagnostic
from ..ir.pipeline import Launch, Pipeline
from ..ir.program import Buffer
from ..runtime.array_backend import ArrayBackend, is_torch
from ..runtime.dispatcher import BackendError, BadLaunch, Dispatcher, OutputAlloc, Scratch
from ..runtime.inputs import Parameter
from ..runtime.pipelines.steps import Plan
from ..runtime.pipelines.watch import Watch
from .binding import Signature, bind
from .executable import Executable, Grid, Inputs, in_kind, taken
from .pipeline_plan import make_plan
from .placement import array_backend_of

__all__ = ["PipelineExecutable", "Runner"]

MAX_PLANS = 4


class Runner(Protocol):
    """A plan that a target is ready to carry out."""

    def run(self, given: Mapping[str, Any], watch: Watch, scratch: Scratch) -> dict[str, Any]:
        """The outputs by name.

        `given`: for each buffer that takes one an array as the target's place has it, which is not
        changed, or `OutputAlloc`.  Raises ProgramError, its diagnostic with a note of the launch.
        """


class PipelineExecutable(Executable):
    """A pipeline of its own module, for a target: call it.

    Grids, and the schedules of named kernels, depend on the lengths of the buffers, so a call with
    new lengths plans and compiles; one with lengths seen before only runs.
    """

    def __init__(self, *rest: Any) -> None:
        super().__init__(*rest)
        self.signature = Signature.of(self.pipeline)
        """What callers pass, whatever passes do to the pipeline's own buffers afterwards."""
        self._runners: OrderedDict[Any, Runner] = OrderedDict()

    @property
    def pipeline(self) -> Pipeline:
        return self.module.pipelines[self.name]

    def __repr__(self) -> str:
        return f"<pipeline @{self.name} for {self.target}>"

    def __call__(
        self,
        inputs: Inputs = (),
        grid: Grid = None,
        *,
        lengths: Mapping[str, int] | None = None,
        scratch: Scratch | None = None,
        on_host_read: Callable[[str, Any], None] | None = None,
    ) -> dict[str, Any]:
        """Run the stages in order, and return the outputs by name, in order of declaration.

        `inputs`: arrays (or bytes) by name; or in order of declaration, either for the buffers that
        are `read` or `live_in`, or for those and the outputs.  They are never modified.  An array
        that is given for an output says how long it is and what its elements hold where nothing is
        written.
        `grid`: None; a pipeline says the grid of each launch.
        `lengths`: elements of buffers of open size that no array is given for, by name, those that
        are the pipeline's own included.
        `on_host_read(name, array)`: called at each `host_read`, in order.  The array is the
        caller's to keep.

        The outputs are the buffers that are `write` or `live_out`, with what they hold at the end;
        and those that the host reads, with what they held at the last time.  Their shapes and
        kinds are those of `ProgramExecutable`.

        Raises BadInputs before anything runs, of which BadLaunch is located at the stages that do
        not fit; ProgramError for a program at fault, and BackendError for what else stops it.
        """
        arguments = self.arguments(inputs, lengths or {})
        watch = Watch()
        if on_host_read is not None:
            watch.on_read = lambda read, array: on_host_read(read.buffer, array)
        return self.outputs(self.run(arguments, grid, scratch, watch))

    def arguments(self, inputs: Inputs, lengths: Mapping[str, int]) -> list[Any]:
        """What was given for each buffer of the pipeline, or `OutputAlloc`.  Raises BadInputs."""
        return bind(self.signature, inputs, lengths, self.words)

    def run(
        self,
        arguments: Sequence[Any],
        grid: Grid = None,
        scratch: Scratch | None = None,
        watch: Watch | None = None,
    ) -> list[Any]:
        """The outputs in order of declaration."""
        self.refuse_grid(grid)
        signature = self.signature
        given = dict(zip((b.name for b in signature.buffers), arguments, strict=True))
        arrays = {name: a for name, a in given.items() if not isinstance(a, OutputAlloc)}
        place = array_backend_of(self._given, arrays)
        operands = {b.name: self._operand(place, b, given[b.name]) for b in signature.buffers}
        runner = self._runner(
            place.dispatcher, {b.name: _count(b, operands[b.name]) for b in signature.buffers}
        )
        made = runner.run(operands, watch or Watch(), scratch or Scratch())
        if place.on_gpu:
            return [made[b.name] for b in signature.outputs]
        owner = next((a for a in arrays.values() if is_torch(a)), None)
        return [in_kind(place, b, given[b.name], made[b.name], owner) for b in signature.outputs]

    def outputs(self, made: Sequence[Any]) -> dict[str, Any]:
        """What `run` returned, by name."""
        return dict(zip((b.name for b in self.signature.outputs), made, strict=True))

    def refuse_grid(self, grid: Grid) -> None:
        """Raises BadLaunch for a grid, at the launch whose grid it cannot be."""
        if grid is None:
            return
        launch = next((stage for stage in self.pipeline.walk() if isinstance(stage, Launch)), None)
        said = self.words.grid.format(value=grid if isinstance(grid, int) else ",".join(map(str, grid)))
        message = f"{said} is for programs: pipeline @{self.name} gives each launch its own grid"
        where = self.pipeline.loc if launch is None else launch.loc
        raise BadLaunch([Diagnostic("error", message, where, help="leave it out, or change the text here")])

    def _operand(self, place: ArrayBackend, buffer: Buffer, given: Any) -> Any:
        """An argument as runners take it: flat storage in main memory, an operand on a GPU."""
        if isinstance(given, OutputAlloc):
            return given
        if place.on_gpu:
            return place.take(given, f"inputs[{buffer.name!r}]")
        operand = taken(place, buffer, given)
        plain = getattr(operand, "array", operand)
        where = f"pipeline @{self.name}: input for @{buffer.name}"
        return Parameter.of(buffer, where, "pipeline").take(plain)

    def _runner(self, dispatcher: Dispatcher, lengths: Mapping[str, int]) -> Runner:
        """Made for these lengths, or kept from an earlier call."""
        key = (id(dispatcher), *lengths.values())
        found = self._runners.pop(key, None)
        if found is None:
            make = getattr(dispatcher, "pipeline", None)
            if make is None:
                raise BackendError(f"target {dispatcher.name} runs programs, but no pipelines")
            found = make(self._plan(lengths))
        self._runners[key] = found
        if len(self._runners) > MAX_PLANS:
            self._runners.popitem(last=False)
        return found

    def _plan(self, lengths: Mapping[str, int]) -> Plan:
        return make_plan(self.module, self.pipeline, lengths, self.schedules_for, self.target != "ref")


def _count(buffer: Buffer, operand: Any) -> int:
    """Elements of what is given, which is checked against the count that the pipeline declares."""
    if isinstance(operand, OutputAlloc):
        return operand.count
    if buffer.count is not None:
        return buffer.count
    from math import prod

    return int(prod(operand.shape)) // buffer.dtype.lanes
