"""A pipeline as a function on arrays, which `vyre_opt.compile` returns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import Any, Protocol

from ..ir.diagnostics import Diagnostic
from ..ir.grids import length_key, params_of
from ..ir.pipeline import Launch, Pipeline
from ..ir.program import Buffer
from ..runtime.array_backend import ArrayBackend, Operand, is_torch
from ..runtime.dispatcher import BackendError, BadInputs, BadLaunch, Dispatcher, OutputAlloc, Scratch
from ..runtime.inputs import Parameter
from ..runtime.kernel_call import planned_on_contiguous
from ..runtime.limits import compiling
from ..runtime.params import NO_PARAMS
from ..runtime.pipelines.watch import Watch
from ..runtime.shapes import argument_shape, array_of
from .binding import Signature
from .executable import Executable, Grid, Inputs, output_like, take_argument
from .pipeline_plan import make_plan
from .placement import array_backend_of, target_of
from .planned_function import remember

__all__ = ["PipelineExecutable", "PipelineRunner"]

MAX_RUNNERS = 64
MAX_KEPT_BYTES = 1 << 30
"""How many runners are kept, one for each set of lengths, and how much memory they may keep."""


class PipelineRunner(Protocol):
    """A plan that is compiled for a target."""

    def run(
        self,
        arguments: Mapping[str, Any],
        watch: Watch,
        scratch: Scratch,
        params: Mapping[str, int] = NO_PARAMS,
    ) -> dict[str, Any]:
        """The outputs by name.

        `arguments`: by name an array in the form of the target's array backend, which is not changed, or
        `OutputAlloc`.  `params`: the words of the pipeline's runtime scalars, in the order of their names.  Raises ProgramError, its diagnostic with a note of the launch.
        """


class PipelineExecutable(Executable):
    """A pipeline that is compiled for a target and can be called.

    Grids, and the schedules of named kernels, depend on the lengths of the buffers, so a call with
    new lengths plans and compiles; one with the lengths of an earlier call only runs.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.signature = Signature.of(self.pipeline)
        """What callers pass; taken before passes run, which may change buffers inside the pipeline."""
        self._lock = Lock()
        self._runners: OrderedDict[tuple[Any, ...], PipelineRunner] = OrderedDict()

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
        lengths: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        scratch: Scratch | None = None,
        on_host_read: Callable[[str, Any], None] | None = None,
    ) -> dict[str, Any]:
        """Run the stages in order, and return the outputs by name, in order of declaration.

        `inputs`: arrays (or bytes) by name; or in order of declaration, either for the buffers that
        are `read` or `live_in`, or for those and the outputs.  They are never modified.  An array
        that is passed for an output gives its length, and the contents of elements that nothing
        writes.
        `grid`: None; a pipeline says the grid of each launch.
        `lengths`: by name, the number of elements of buffers of open size that no array is passed for,
        including those inside the pipeline.
        `params`: values of the pipeline's runtime scalars by name; another value costs no compilation.
        `on_host_read(name, array)`: called at each `host_read`, in order.  The array is the
        caller's to keep.

        The outputs are the buffers that are `write` or `live_out`, with what they hold at the end;
        and those that the host reads, with what they held at the last time.  Their shapes and
        types are those of `ProgramExecutable`.

        Raises BadInputs before anything runs, of which BadLaunch is located at the stages that do
        not fit; ProgramError for a fault of a program, and BackendError for any other failure.
        """
        fast, key, names, arrays = None, None, (), ()
        words = self.param_words(params) if params or self.signature.params else NO_PARAMS
        if scratch is None and on_host_read is None and grid is None:
            fast, key, names, arrays = self._planned(inputs, grid, lengths, self.settled_words(words))
        if fast is not None:
            return self.outputs(fast.run(arrays, tuple(words.values())) if words else fast.run(arrays))
        if on_host_read is not None and not callable(on_host_read):
            raise BadInputs(
                f"on_host_read is a function of a name and an array, not {type(on_host_read).__name__}"
            )
        self._check_options(lengths, scratch)
        arguments = self.arguments(inputs, lengths or {}, words)
        watch = Watch()
        if on_host_read is not None:
            shapes = self._shapes(arguments)
            watch.on_read = lambda read, array: on_host_read(
                read.buffer, _in_shape(self.pipeline.buffers[read.buffer], array, shapes)
            )
        outputs = self.run(arguments, grid, scratch, watch, params)
        if key is not None and arrays:
            self._plan(key, self._named(names, arrays), arguments, outputs, words)
        return self.outputs(outputs)

    def settled_words(self, words: Mapping[str, int]) -> tuple[int, ...]:
        """The words of the params that grids and sizes depend on, and so what a plan is for."""
        return tuple([words[name] for name in self._extent_names]) if words else ()

    @cached_property
    def _extent_names(self) -> list[str]:
        """The params that grids and sizes use, those of the text as it was before passes too: values are refused by them."""
        sizes = [size for buffer in self.signature.buffers for size in buffer.sizes if size is not None]
        return sorted({name for extent in (*sizes, *self.pipeline.extents) for name in params_of(extent)})

    def _plan(
        self,
        key: Any,
        arrays: Mapping[str, Any],
        arguments: Sequence[Any],
        outputs: Sequence[Any],
        words: Mapping[str, int],
    ) -> None:
        """Plan later calls with like arrays, if they and the target allow it; the rest is of this call."""
        signature = self.signature
        by_name = dict(zip((b.name for b in signature.buffers), arguments, strict=True))
        backend, _, lengths = self._operands(by_name)
        plan = getattr(self._runner(backend.dispatcher, lengths, words), "fast_call", None)
        if plan is None:
            return
        results = dict(zip((b.name for b in signature.outputs), outputs, strict=True))
        operands = [backend.take(array, name) for name, array in arrays.items()]
        fast = planned_on_contiguous(
            backend, operands, lambda settled: plan(dict(zip(arrays, settled, strict=True)), results)
        )
        if fast is not None:
            remember(self._fast, key, fast)

    def run(
        self,
        arguments: Sequence[Any],
        grid: Grid = None,
        scratch: Scratch | None = None,
        watch: Watch | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> list[Any]:
        """The outputs in order of declaration."""
        self.refuse_grid(grid)
        words = self.param_words(params)
        signature = self.signature
        by_name = dict(zip((b.name for b in signature.buffers), arguments, strict=True))
        backend, operands, lengths = self._operands(by_name)
        runner = self._runner(backend.dispatcher, lengths, words)
        outputs = runner.run(operands, watch or Watch(), scratch or Scratch(), words)
        shapes = self._shapes(arguments)
        outputs = {b.name: _in_shape(b, outputs[b.name], shapes) for b in signature.outputs}
        if backend.on_gpu:
            return [outputs[b.name] for b in signature.outputs]
        owner = next(filter(is_torch, arguments), None)
        return [output_like(backend, b, by_name[b.name], outputs[b.name], owner) for b in signature.outputs]

    def runner_for(self, arrays: Mapping[str, Any], words: Mapping[str, int]) -> PipelineRunner:
        """The runner for calls with such arrays by name, which may be anything that is compiled for their lengths."""
        arguments = self.arguments(arrays, {}, words)
        by_name = dict(zip((b.name for b in self.signature.buffers), arguments, strict=True))
        backend, _, lengths = self._operands(by_name)
        return self._runner(backend.dispatcher, lengths, words)

    def _operands(self, arguments: Mapping[str, Any]) -> tuple[ArrayBackend, dict[str, Any], dict[str, int]]:
        """The backend of a call, and by name its operands and the lengths of its buffers."""
        arrays = {name: a for name, a in arguments.items() if not isinstance(a, OutputAlloc)}
        backend = array_backend_of(self._target, arrays)
        operands = {b.name: self._operand(backend, b, arguments[b.name]) for b in self.signature.buffers}
        lengths = {b.name: _count(b, operands[b.name]) for b in self.signature.buffers}
        shapes = self._shapes([arguments[b.name] for b in self.signature.buffers])
        for name, shape in shapes.items():
            lengths.update((length_key(name, number), extent) for number, extent in enumerate(shape))
        return backend, operands, lengths

    def _shapes(self, arguments: Sequence[Any]) -> dict[str, tuple[int, ...]]:
        """The extents of the buffers of several dimensions."""
        return {
            b.name: argument_shape(b, argument, f"pipeline @{self.name}: @{b.name}")
            for b, argument in zip(self.signature.buffers, arguments, strict=True)
            if b.dimensions > 1
        }

    def refuse_grid(self, grid: Grid) -> None:
        """Raises BadLaunch if there is a grid: launches of a pipeline have their own."""
        if grid is None:
            return
        launch = next((stage for stage in self.pipeline.walk() if isinstance(stage, Launch)), None)
        value = ",".join(map(str, grid)) if isinstance(grid, (tuple, list)) else grid
        argument = self.syntax.grid.format(value=value)
        message = f"{argument} is for programs: pipeline @{self.name} gives each launch its own grid"
        where = self.pipeline.loc if launch is None else launch.loc
        raise BadLaunch([Diagnostic("error", message, where, help="leave it out, or change the text here")])

    def _operand(self, backend: ArrayBackend, buffer: Buffer, argument: Any) -> Any:
        """An argument as runners take it: flat storage in main memory, an operand on a GPU."""
        if isinstance(argument, OutputAlloc):
            return argument
        if backend.on_gpu:
            return backend.take(argument, f"inputs[{buffer.name!r}]")
        operand = take_argument(backend, buffer, argument)
        plain = operand.array.reshape(operand.shape) if isinstance(operand, Operand) else operand
        where = f"pipeline @{self.name}: input for @{buffer.name}"
        return Parameter.of(buffer, where, "pipeline").take(plain)

    def _runner(
        self, dispatcher: Dispatcher, lengths: Mapping[str, int], words: Mapping[str, int]
    ) -> PipelineRunner:
        """The runner for these lengths, and words of params in grids: one of an earlier call, or a new one."""
        # the id: a dispatcher of the caller's need have no hash, and those that calls choose are never gone
        key = (id(dispatcher), tuple(lengths.items()), self.settled_words(words))
        with self._lock:
            runner = self._runners.get(key)
            if runner is not None:
                self._runners.move_to_end(key)
                return runner
        make_runner = getattr(dispatcher, "pipeline", None)
        if make_runner is None:
            raise BackendError(f"target {dispatcher.name} runs programs, but no pipelines")
        expands = self.target != "ref"  # ref runs named kernels itself
        with compiling():
            known = {**lengths, **self.extent_params(words)}
            plan = make_plan(self.module, self.pipeline, known, target_of(dispatcher), expands)
        runner = make_runner(plan)
        with self._lock:
            # another thread may have made one meanwhile
            runner = self._runners.setdefault(key, runner)
            self._drop_old_runners()
        return runner

    def _drop_old_runners(self) -> None:
        """Drop those used longest ago where there are too many, or they keep too much memory; under the lock."""
        kept = sum(map(_nbytes, self._runners.values()))
        while len(self._runners) > MAX_RUNNERS or (kept > MAX_KEPT_BYTES and len(self._runners) > 1):
            _, old = self._runners.popitem(last=False)
            kept -= _nbytes(old)
            for key, fast in list(self._fast.items()):
                if getattr(fast, "runner", None) is old:
                    del self._fast[key]


def _in_shape(buffer: Buffer, array: Any, shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """What a run gives for a buffer, in its shape where it has several dimensions."""
    return array.reshape(array_of(buffer, shapes[buffer.name])) if buffer.name in shapes else array


def _nbytes(runner: PipelineRunner) -> int:
    """The memory that a runner keeps from call to call."""
    return int(getattr(runner, "nbytes", 0))


def _count(buffer: Buffer, operand: Any) -> int:
    """The number of elements of an operand, which has been checked against the count of the buffer."""
    if isinstance(operand, OutputAlloc):
        return operand.count
    if buffer.count is not None:
        return buffer.count
    from math import prod

    return int(prod(operand.shape)) // buffer.dtype.lanes
