"""`@pipeline`: a Python function as a pipeline, which runs on the caller's arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from ..ir.program import Module
from ..ir.tracebacks import CallerError, CallTypeError, hide_own_frames, public
from ..worker import import_module
from .arguments import Encoder, encoder_of, in_order, some_by_name
from .generics import ByTypes, Variable, at_types, refuse_variables, type_variables, types_of_call
from .options import under_options
from .pickling import reduced
from .python_source import FunctionSource, check_function, remember_source

if TYPE_CHECKING:
    from ..driver.call_report import CallReport
    from ..driver.in_place import InPlace
    from ..driver.pipeline import PipelineExecutable
    from ..execution.dispatcher import Dispatcher
    from ..report.reports import Report

__all__ = ["PipelineFunction", "pipeline"]


@public
def pipeline(function: Callable[..., Any]) -> PipelineFunction:
    """A Python function as a pipeline of launches: `@pipeline`, called as `name(arguments)`."""
    check_function(function, "@pipeline")
    made = PipelineFunction(function)
    import_module("vyre_opt.lang.pipeline_translation")
    from .pipeline_translation import check_decorated_pipeline

    check_decorated_pipeline(function)
    return made


class PipelineFunction:
    """What `@pipeline` makes: a call runs the stages in order, in place on arrays, which decide where.

    The default passes join launches first, where that is proven to give the same.
    """

    def __init__(self, function: Callable[..., Any], types: Mapping[Any, Any] | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function, self.types = function, types
        remember_source(function)
        self._module: Module | None = None
        self._target: str | Dispatcher | None = None
        self._passes: str | None = "default"
        self._debug_info = False
        self._original: PipelineFunction | None = None
        self._generic: tuple[PipelineFunction, tuple[Any, ...]] | None = None
        self._variants: dict[Any, PipelineFunction] = {}
        """Those of `options`, by a target's name and passes, so that one that is asked for at each call is made once; of `at`, by
        types."""

    def __repr__(self) -> str:
        return f"<pipeline {self.function.__qualname__}>"

    def __reduce__(self) -> Any:
        return reduced(
            self.function,
            self._original,
            self._generic,
            target=self._target,
            passes=self._passes,
            debug_info=self._debug_info,
        )

    @public
    def __getitem__(self, grid: Any) -> NoReturn:
        name = self.function.__name__
        raise CallTypeError(f"{name} is a pipeline, whose launches have their grids: call {name}(...)")

    @property
    def __vyre_pipeline__(self) -> Callable[..., Any]:
        """The function, for a pipeline that calls this one."""
        return self.function

    @public
    def options(
        self,
        *,
        target: str | Dispatcher | None = None,
        passes: str | None = "default",
        debug_info: bool = False,
    ) -> PipelineFunction:
        """The same pipeline for a target, ref, cpu, cuda or a dispatcher, or after other passes (None: none).

        `debug_info`: with line tables, by which debuggers and profilers show the lines of the functions.
        """
        return under_options(
            self, target, passes, debug_info, lambda: PipelineFunction(self.function, self.types)
        )

    @functools.cached_property
    def variables(self) -> list[Variable]:
        """The type variables that arrays of each call decide."""
        return type_variables(FunctionSource(self.function)) if self.types is None else []

    @public
    def at(self, *types: Any) -> PipelineFunction:
        """The same pipeline for types of its variables, in the order in which its arrays name them: `name.at(f32)`."""
        return at_types(self, types, functools.partial(PipelineFunction, self.function))

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        try:
            if kwargs or len(args) != len(self.parameters):
                args = in_order(self.function, args, kwargs)
            self._in_place(args, None)
        except CallerError as error:
            hide_own_frames(error)
            raise

    @functools.cached_property
    def _in_place(self) -> InPlace | ByTypes:
        return (
            ByTypes(self, lambda types: self.at(*types)._own_in_place)
            if self.variables
            else self._own_in_place
        )

    @functools.cached_property
    def _own_in_place(self) -> InPlace:
        from ..driver.in_place import InPlace  # with NumPy and LLVM, which only a run needs

        return InPlace(self.executable, self._target, self._array_positions, self._scalars)

    @public
    def executable(self, target: str | Dispatcher | None = None) -> PipelineExecutable:
        """The pipeline compiled for a target, as `vyre_opt.compile` gives it."""
        from ..driver.compile import compile_module
        from ..driver.pipeline import PipelineExecutable
        from ..execution.environment import chosen_target, passes_of_call

        chosen = chosen_target(target)
        passes = passes_of_call(self._passes, chosen)
        executable = compile_module(
            self.module, self.function.__name__, chosen, {}, passes, debug_info=self._debug_info
        )
        assert isinstance(executable, PipelineExecutable)
        if executable.recorder is not None:
            executable.recorder.written = self.debug_module()
        return executable

    @property
    @public
    def module(self) -> Module:
        """The module of the pipeline, translated now if it was not.  Raises DiagnosticError, and BadInputs for one with type variables."""
        if self._module is None:
            from .pipeline_translation import translate_pipeline

            refuse_variables(self)
            self._module = translate_pipeline(self.function, self.types)
        return self._module

    def debug_module(self) -> Module:
        """The module for a debugger: translated at each call, and its ops know the names of Python.  Raises DiagnosticError."""
        from .pipeline_translation import translate_pipeline

        return translate_pipeline(self.function, self.types, for_debugger=True)

    @functools.cached_property
    def parameters(self) -> list[str]:
        """The names of the arguments, in order."""
        return list(inspect.signature(self.function).parameters)

    @functools.cached_property
    def _array_positions(self) -> list[int]:
        translated = self.module.pipelines[self.function.__name__]
        return [self.parameters.index(name) for name in translated.buffers if name in self.parameters]

    @functools.cached_property
    def _scalars(self) -> list[tuple[str, int, Encoder]]:
        params = sorted(self.module.pipelines[self.function.__name__].params.items())
        return [(n, self.parameters.index(n), encoder_of(self.function.__name__, p)) for n, p in params]

    @public
    def report(
        self, *args: Any, passes: str | None = None, machine: str | None = None, **kwargs: Any
    ) -> Report:
        """What the passes make of the pipeline: which launches become one, which do not, and which fact is missing.

        With the arguments of a call also what it launches: what that moves and computes, and what it waits for.
        `passes`: others than those of a call.  `machine`: as a GPU would launch it, such as "H100 SXM"; by default what the
        arrays are on.  Print it, show it in a notebook, or `save` it as a page.
        """
        from ..report.reports import Report

        if not args and not kwargs:
            return Report(self.module, passes or self._passes or ())
        if self.variables:
            arguments = some_by_name(self.function, args, kwargs)
            own = self.at(*types_of_call(self, arguments))
            return own.report(*args, passes=passes, machine=machine, **kwargs)
        chosen = self if passes is None else self.options(target=self._target, passes=passes)
        call = chosen._in_place.report(in_order(self.function, args, kwargs), None, machine)
        return Report(self.module, chosen._passes or (), call)

    @public
    def time(self, *args: Any, **kwargs: Any) -> CallReport:
        """What a call launches, and how long each launch takes, beside a copy of as many bytes: medians of some runs on copies
        of the arrays."""
        return self._in_place.report(in_order(self.function, args, kwargs), None, is_timed=True)

    def _repr_html_(self) -> str | None:
        return None if self.variables else self.report()._repr_html_()

    @public
    def text(self, *, passes: str | None = None) -> str:
        """The .vyre text of the pipeline and its programs, before passes or after those that are named."""
        if passes is None:
            return str(self.module)
        return str(self.options(passes=passes).executable().module)
