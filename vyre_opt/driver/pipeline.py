"""A pipeline as a function on arrays, which `vyre_opt.compile` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

from ..execution.array_backend import ArrayBackend, Operand
from ..execution.dispatcher import BadInputs, BadLaunch, Scratch
from ..execution.params import NO_PARAMS
from ..execution.plans.call_plan import CallPlan, pipeline_call
from ..execution.plans.watch import Watch
from ..execution.plans.zeroed import zeroed_buffers
from ..execution.target import as_target
from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.grids import GridCall, length_key, params_of
from ..ir.pipeline import HostRead, Launch, Pipeline
from ..ir.program import Buffer, Dim3, Module
from ..ir.shapes import has_slices
from ..ir.tracebacks import CallerError, hide_own_frames
from ..worker import import_module
from .binding import Signature
from .executable import Executable, Grid, Inputs

if TYPE_CHECKING:
    from ..passes.bisect import BisectLimit
    from ..passes.manager import Observer
    from ..slices.row_lengths import Bounds
    from .pass_pipeline import Passes
    from .slice_lengths import FixedRows, RowClasses

__all__ = ["PipelineExecutable", "equal_lengths"]

MAX_VARIANTS = 4
"""Most codes of a pipeline for lengths of their own; calls with further lengths run the general code."""

Equal = tuple[tuple[tuple[str, int], tuple[str, int]], ...]


class PipelineExecutable(Executable):
    """A pipeline that is compiled for a target and can be called.

    Grids, and the schedules of named kernels, depend on the lengths of the buffers, so a call with
    new lengths plans and compiles; one with the lengths of an earlier call only runs.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.signature = Signature.of(self.pipeline)
        """Signature for callers, taken before passes run, which may change buffers inside the pipeline."""
        self._written: tuple[Module, Passes] | None = None
        """The module before its passes, and these, where they may do more if they know which lengths are equal."""
        self._variants: dict[object, PipelineExecutable] = {}
        self._open_length: DiagnosticError | None = None
        """The error of a program that needs lengths which only a call has."""

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
        try:
            words = self.param_words(params) if params or self.signature.params else NO_PARAMS
            bound, key, arrays = None, None, ()
            if scratch is None and on_host_read is None and grid is None:
                bound, key, arrays = self._planned(inputs, grid, lengths, self.shape_words(words))
            if bound is not None:
                return self.outputs(bound.run(arrays, tuple(words.values())))
            if on_host_read is not None and not callable(on_host_read):
                raise BadInputs(
                    f"on_host_read is a function of a name and an array, not {type(on_host_read).__name__}"
                )
            self._check_options(lengths, scratch)
            arguments = self.arguments(inputs, lengths or {}, words)
            watch = None
            if on_host_read is not None:
                watch = Watch(lambda read, array: on_host_read(read.buffer, array))
            return self.outputs(self.run(arguments, grid, scratch, watch, params, key, inputs))
        except CallerError as error:
            hide_own_frames(error)
            raise

    @cached_property
    def shape_params(self) -> list[str]:
        """The params that grids and sizes use, those of the text as it was before passes too: values are refused by them."""
        sizes = [size for buffer in self.signature.buffers for size in buffer.sizes if size is not None]
        return sorted({name for extent in (*sizes, *self.pipeline.extents) for name in params_of(extent)})

    def transform(
        self, passes: Passes, bisect: BisectLimit | None = None, observers: Sequence[Observer] = ()
    ) -> None:
        stages = [stage for stage in self.pipeline.walk() if not isinstance(stage, HostRead)]
        has_rows = any(map(has_slices, self.module.programs.values()))
        if passes and bisect is None and (len(stages) > 1 or has_rows):
            import_module("vyre_opt.rewriting.cloning")
            from ..rewriting.cloning import copy_module

            self._written = copy_module(self.module), passes
        try:
            super().transform(passes, bisect, observers)
        except DiagnosticError as error:
            from ..slices.elements import OpenLengthError

            if self._written is None or not isinstance(error, OpenLengthError):
                raise
            self.module, self._open_length = copy_module(self._written[0]), error

    def _rewritten(
        self,
        backend: ArrayBackend,
        named: Mapping[str, Any],
        grid: Dim3 | None,
        words: Mapping[str, int],
        has_storage: bool = False,
        in_place: bool = False,
    ) -> CallPlan:
        variant = self.variant(self.lengths(named))
        if variant is self and self._open_length is not None:
            raise self._open_length
        make = super()._rewritten if variant is self else variant._rewritten
        return make(backend, named, grid, words, has_storage, in_place)

    def variant(self, lengths: Mapping[str, int]) -> PipelineExecutable:
        """The pipeline after passes that know which of the open lengths are equal in such calls, and how long rows are: each launch
        asks for the length of an array of its own, and what one hands over is proven only if these are equal.

        There are few for lengths of their own, then some for classes of lengths; further calls run the general code.
        """
        if self._written is None:
            return self
        equal, fixed = equal_lengths(self.signature.buffers, lengths), self._fixed_rows(lengths)
        if fixed is None:
            return self._variant(equal, None, MAX_VARIANTS)
        if (equal, fixed.key) in self._variants or len(self._variants) < fixed.most:
            return self._variant(equal, fixed)
        classes = fixed.classes(self._written[0])
        return self._variant(equal, classes, classes.most)

    def exact_variant(self, lengths: Mapping[str, int]) -> PipelineExecutable:
        """The same for these lengths, however many there are."""
        return self._variant(equal_lengths(self.signature.buffers, lengths), self._fixed_rows(lengths))

    def class_variant(
        self, lengths: Mapping[str, int]
    ) -> tuple[PipelineExecutable, Mapping[str, Bounds]] | None:
        """The same for rows of the classes that those of such calls are in, and these classes by extents; None where it has none."""
        fixed = self._fixed_rows(lengths)
        if self._written is None or fixed is None:
            return None
        module, _ = self._written
        classes = fixed.classes(module)
        extents = classes.extents(module, module.pipelines[self.name])
        if not extents:
            return None
        return self._variant(equal_lengths(self.signature.buffers, lengths), classes), extents

    def _fixed_rows(self, lengths: Mapping[str, int]) -> FixedRows | None:
        """The shapes of rows in such calls; None for a pipeline without rows."""
        if self._written is None or not any(map(has_slices, self._written[0].programs.values())):
            return None
        import_module("vyre_opt.driver.slice_lengths")
        from .slice_lengths import fixed_rows

        module, _ = self._written
        return fixed_rows(module, module.pipelines[self.name], lengths)

    def _variant(
        self, equal: Equal, rows: FixedRows | RowClasses | None, most: float = inf
    ) -> PipelineExecutable:
        """The pipeline for such calls; itself where it knows nothing more of them, or where it is a new one beyond `most`."""
        key = equal, rows.key if rows else ()
        if self._written is None or key == ((), ()):
            return self
        if key not in self._variants:
            if len(self._variants) >= most:
                return self
            from ..rewriting.cloning import copy_module

            module, passes = self._written
            variant = PipelineExecutable(copy_module(module), self.name, self._target, self.syntax)
            _set_sizes(variant.pipeline, equal)
            if rows:
                rows.fix(variant.module, variant.pipeline)
            Executable.transform(variant, passes)
            variant.signature = self.signature
            self._variants[key] = variant
        return self._variants[key]

    def grid(self, grid: Grid, named: Mapping[str, Any]) -> None:
        self.refuse_grid(grid)

    def plan(
        self,
        backend: ArrayBackend,
        named: Mapping[str, Any],
        grid: Dim3 | None,
        words: Mapping[str, int],
        has_storage: bool = False,
        in_place: bool = False,
    ) -> CallPlan:
        import_module(f"{__package__}.pipeline_plan")
        from .pipeline_plan import make_plan

        known = {**self.lengths(named), **self.extent_params(words)}
        expands = self.target != "ref"  # ref runs named kernels itself
        target = as_target(backend.dispatcher)
        plan = make_plan(self.module, self.pipeline, known, target.schedules, expands)
        passed = [name for name, argument in named.items() if isinstance(argument, Operand)]
        results = [] if in_place else [buffer.name for buffer in self.signature.outputs]
        unwritten = zeroed_buffers(plan, target.forms_of)
        return pipeline_call(plan, passed, results, unwritten, in_place=in_place, has_storage=has_storage)

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


def equal_lengths(buffers: Iterable[Buffer], lengths: Mapping[str, int]) -> Equal:
    """The open extents that equal one of a buffer declared before, by name and dimension, each with the first such."""
    first: dict[int, tuple[str, int]] = {}
    equal: list[tuple[tuple[str, int], tuple[str, int]]] = []
    for buffer in buffers:
        for dimension, extent in enumerate(buffer.extents):
            if extent is not None:
                continue
            here = buffer.name, dimension
            length = lengths[length_key(buffer.name, dimension if buffer.dimensions > 1 else None)]
            other = first.setdefault(length, here)
            if other[0] != buffer.name:
                equal.append((here, other))
    return tuple(equal)


def _set_sizes(pipeline: Pipeline, equal: Equal) -> None:
    """Let the pipeline's buffers say which of their extents are equal."""
    for (name, dimension), (other, along) in equal:
        buffer = pipeline.buffers[name]
        sizes = list(buffer.sizes or (None,) * buffer.dimensions)
        axis = (along,) if pipeline.buffers[other].dimensions > 1 else ()
        sizes[dimension] = GridCall("len", (other, *axis))
        pipeline.buffers[name] = replace(buffer, sizes=tuple(sizes))
