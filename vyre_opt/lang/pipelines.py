"""`@pipeline`: a Python function as a pipeline, which runs on the caller's arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ..execution.arguments import in_order, some_by_name
from ..ir.program import Module
from ..ir.tracebacks import CallerError, CallTypeError, hide_own_frames, public
from ..worker import import_module
from .decoration import is_usual
from .generics import types_of_call
from .program_warnings import give_warnings
from .python_source import FunctionSource, check_function
from .translated_function import TranslatedFunction

if TYPE_CHECKING:
    from ..driver.call_report import CallReport
    from ..driver.pipeline import PipelineExecutable
    from ..execution.dispatcher import Dispatcher
    from ..ir.pipeline import Pipeline
    from ..report.reports import Report

__all__ = ["PipelineFunction", "pipeline"]


@public
def pipeline(function: Callable[..., Any]) -> PipelineFunction:
    """A Python function as a pipeline of launches: `@pipeline`, called as `name(arguments)`."""
    check_function(function, "@pipeline")
    made = PipelineFunction(function)
    source = FunctionSource(function)
    if not is_usual(source, has_types=True):
        import_module("vyre_opt.lang.pipeline_translation")
        from .pipeline_translation import check_source

        check_source(source)
    return made


class PipelineFunction(TranslatedFunction):
    """Result of `@pipeline`: a call runs the stages in order, in place on arrays, which decide where.

    The default passes join launches first, where that is proven to give the same.
    """

    def __init__(self, function: Callable[..., Any], types: Mapping[Any, Any] | None = None) -> None:
        super().__init__(function, types)
        self._has_run = False

    def __repr__(self) -> str:
        return f"<pipeline {self.function.__qualname__}>"

    def _remade(self, types: Mapping[Any, Any] | None) -> Self:
        return type(self)(self.function, types)

    def _translated(self, for_debugger: bool = False) -> Module:
        import_module("vyre_opt.lang.pipeline_translation")
        from .pipeline_translation import translate_pipeline

        return translate_pipeline(self.function, self.types, for_debugger)

    @property
    def _item(self) -> Pipeline:
        return self.module.pipelines[self.function.__name__]

    @public
    def __getitem__(self, grid: Any) -> NoReturn:
        name = self.function.__name__
        raise CallTypeError(
            f"{name} is a pipeline, whose launches have their grids: call {name}({', '.join(self.parameters)})"
        )

    @property
    def __vyre_pipeline__(self) -> Callable[..., Any]:
        """The function, for a pipeline that calls this one."""
        return self.function

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        try:
            if kwargs or len(args) != len(self.parameters):
                args = in_order(self.function, args, kwargs)
            if self.constants:
                self.warn_of_constants()
            self.in_place(args, None)
        except CallerError as error:
            hide_own_frames(error)
            raise

    @public
    def executable(self, target: str | Dispatcher | None = None) -> PipelineExecutable:
        """The pipeline compiled for a target, as `vyre_opt.compile` gives it."""
        from ..driver.pipeline import PipelineExecutable
        from ..execution.environment import chosen_target

        executable = self._compiled(chosen_target(target))
        assert isinstance(executable, PipelineExecutable)
        return executable

    def _warn(self, grid: Any, arrays: Sequence[Any], params: Mapping[str, int]) -> None:
        import_module("vyre_opt.ir.warnings.launch_warnings")
        import_module("vyre_opt.lang.lost_results")
        from ..ir.warnings.launch_warnings import pipeline_warnings
        from .lost_results import lost_results

        names = [name for name in self._item.buffers if name in self.parameters]
        by_name, told = dict(zip(names, arrays, strict=True)), [warning.loc for warning in self._warnings]
        found = [*pipeline_warnings(self.module, self._item, by_name, params, told, self._has_run)]
        self._has_run = True
        written = {
            name: array for name, array in by_name.items() if self._item.buffers[name].access != "read"
        }
        give_warnings([*found, *lost_results(self.function.__name__, self.parameters, written)])

    @functools.cached_property
    def _array_positions(self) -> list[int]:
        return [self.parameters.index(name) for name in self._item.buffers if name in self.parameters]

    @public
    def report(
        self, *args: Any, passes: str | None = None, machine: str | None = None, **kwargs: Any
    ) -> Report:
        """Report of the passes on the pipeline: the launches that become one, the others, and the missing facts.

        With the arguments of a call also what it launches: what that moves and computes, and what it waits for.
        `passes`: others than those of a call.  `machine`: as a GPU would launch it, such as "H100 SXM"; by default what the
        arrays are on.  Print it, show it in a notebook, or `save` it as a page.
        """
        from ..report.reports import Report

        if not args and not kwargs:
            return Report(self.module, passes or self._options.passes or ())
        if self.variables:
            arguments = some_by_name(self.function, args, kwargs)
            own = self.at(*types_of_call(self, arguments))
            return own.report(*args, passes=passes, machine=machine, **kwargs)
        chosen = self if passes is None else self.options(target=self._options.target, passes=passes)
        call = chosen.in_place.report(in_order(self.function, args, kwargs), None, machine)
        return Report(self.module, chosen._options.passes or (), call)

    @public
    def time(self, *args: Any, **kwargs: Any) -> CallReport:
        """Time the launches of a call, beside a copy of as many bytes: medians of some runs on copies
        of the arrays."""
        return self.in_place.report(in_order(self.function, args, kwargs), None, is_timed=True)

    def _repr_html_(self) -> str | None:
        return None if self.variables else self.report()._repr_html_()

    @public
    def text(self, *, passes: str | None = None) -> str:
        """The .vyre text of the pipeline and its programs, before passes or after those that are named."""
        if passes is None:
            return str(self.module)
        return str(self.options(passes=passes).executable().module)
