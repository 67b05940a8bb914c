"""`compile` makes a function of a program or a pipeline; `run` compiles and calls it once.

    double = vyre_opt.compile(Path("double.vyre"), specs={"by": 3})
    outputs = double({"x": x}, grid=4)                  # {"y": array}

The dispatcher compiles at the first call; later calls only run.  `vyre-run` is made of this too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from ..execution.dispatcher import BadInputs, DispatcherLike, shared_dispatcher
from ..execution.environment import chosen_target, default_target
from ..execution.inputs import check_names_of_specs
from ..execution.target import as_target
from ..ir.pipeline import Pipeline
from ..ir.program import Module, Program
from ..ir.tracebacks import public
from ..rewriting.cloning import copy_for
from ..worker import import_module
from .binding import PYTHON, CallSyntax, Signature, find_entry, set_specs, wrong_source
from .executable import Grid, Inputs
from .program import ProgramExecutable
from .recording_folder import recording_folder

if TYPE_CHECKING:
    from pathlib import Path

    from ..execution.limits import Limits
    from ..passes.bisect import BisectLimit
    from ..passes.manager import Observer
    from .limited import LimitedExecutable
    from .pass_pipeline import Passes
    from .pipeline import PipelineExecutable

__all__ = ["compile", "compile_module", "module_of", "run"]


@overload
def compile(
    source: str | Path | Module | Program,
    *,
    entry: str | None = None,
    target: DispatcherLike | None = None,
    specs: Mapping[str, Any] | None = None,
    passes: Passes = None,
    debug_info: bool = False,
    limits: None = None,
) -> ProgramExecutable | PipelineExecutable: ...


@overload
def compile(
    source: str | Path | Module | Program,
    *,
    entry: str | None = None,
    target: DispatcherLike | None = None,
    specs: Mapping[str, Any] | None = None,
    passes: Passes = None,
    debug_info: bool = False,
    limits: Limits,
) -> LimitedExecutable: ...


@public
def compile(
    source: str | Path | Module | Program,
    *,
    entry: str | None = None,
    target: DispatcherLike | None = None,
    specs: Mapping[str, Any] | None = None,
    passes: Passes = None,
    debug_info: bool = False,
    limits: Limits | None = None,
) -> ProgramExecutable | PipelineExecutable | LimitedExecutable:
    """A program or a pipeline that is ready to be called; see `ProgramExecutable` and `PipelineExecutable`.

    `source`: the text of a module, the path of a file, or a module or program, which is not changed.
    `entry`: which program or pipeline; without it the pipeline @main, or the only pipeline, or the only
    program where there is no pipeline.
    `target`: ref, cpu, cuda, or a dispatcher; by default cpu, or what the environment variable VYRE_TARGET says.
    `specs`: values of specialization constants by name, in place of their defaults, as Python values or as
    text ("0x1f").
    `passes`: a pipeline to run before, such as "canonicalize,decode_scan_fuse", or a list of passes.  Named
    kernels are expanded after it, except for ref, which runs them itself.
    `debug_info`: put line tables into the code, by which debuggers and profilers show the lines of the source.
    `limits`: do all of this, and each call, in a child process that is held to them (see `Limits`).

    Raises LimitError, a BackendError, for a limit that was broken, DiagnosticError for a program that is wrong,
    BadInputs (a ValueError) for arguments that do not fit it, and OSError for a file that cannot be read.
    """
    if limits is not None:
        from .limited import LimitedExecutable

        if debug_info:
            raise BadInputs(
                "debug_info is for code of this process, which limits keep out of it; leave one of them out"
            )
        return LimitedExecutable(source, entry, target or default_target(), specs or {}, passes, limits)
    return compile_module(
        module_of(source), entry, chosen_target(target), specs or {}, passes, debug_info=debug_info
    )


@public
def run(
    source: str | Path | Module | Program,
    inputs: Inputs = (),
    grid: Grid = None,
    *,
    entry: str | None = None,
    target: DispatcherLike | None = None,
    specs: Mapping[str, Any] | None = None,
    lengths: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    passes: Passes = None,
    debug_info: bool = False,
    limits: Limits | None = None,
) -> dict[str, Any]:
    """Compile and call once: see `compile`, and `ProgramExecutable` for `inputs`, `grid`, `lengths` and `params`."""
    if limits is not None:
        limited = compile(
            source,
            entry=entry,
            target=target,
            specs=specs,
            passes=passes,
            debug_info=debug_info,
            limits=limits,
        )
        with limited:
            return limited(inputs, grid, lengths=lengths, params=params)
    executable = compile(
        source, entry=entry, target=target, specs=specs, passes=passes, debug_info=debug_info
    )
    return executable(inputs, grid, lengths=lengths, params=params)


def compile_module(
    module: Module,
    entry: str | None,
    target: DispatcherLike,
    specs: Mapping[str, Any],
    passes: Passes = None,
    syntax: CallSyntax = PYTHON,
    bisect: BisectLimit | None = None,
    debug_info: bool = False,
    observers: Sequence[Observer] = (),
) -> ProgramExecutable | PipelineExecutable:
    """`compile` for a module that verifies, with messages in the syntax of the caller.

    `bisect`: leaves out executions of passes.  `observers`: hear of those that run.
    """
    check_names_of_specs(specs)
    item = find_entry(module, entry, syntax)
    copy = copy_for(module, item)
    values = specs
    if any(item.type_parameters for item in copy.parametric):
        import_module("vyre_opt.specialization.binding")
        from ..specialization.binding import fix_types

        values = fix_types(copy, specs)
    set_specs(list(copy.programs.values()), values, Signature.of(item), syntax)
    if debug_info:
        target = as_target(shared_dispatcher(target)).with_debug_info()
    kind = _pipeline_executable() if isinstance(item, Pipeline) else ProgramExecutable
    executable = kind(copy, item.name, target, syntax)
    if recording_folder():
        import_module("vyre_opt.driver.recording")
        from .recording import new_recorder

        executable.recorder = new_recorder(copy, item.name)
    executable.transform(passes, bisect, observers)
    return executable


def _pipeline_executable() -> type[PipelineExecutable]:
    import_module("vyre_opt.driver.pipeline")
    from .pipeline import PipelineExecutable

    return PipelineExecutable


def module_of(source: str | Path | Module | Program) -> Module:
    """The verified module of a source.  Raises DiagnosticError, OSError, BadInputs."""
    for name in ("ir.verifier", "mlir.file_kind", "syntax.parser"):
        import_module(f"vyre_opt.{name}")
    from ..ir.bounded_read import read_file
    from ..ir.diagnostics import Source, decode
    from ..ir.verifier import check
    from ..mlir.file_kind import parse_either
    from ..syntax.parser import parse

    if isinstance(source, os.PathLike):
        module = parse_either(Source(decode(read_file(source), str(source)), str(source)))
        check(module)
        return module
    if isinstance(source, str):
        if source.endswith(".vyre") and "\n" not in source:
            raise BadInputs(f"{source!r} is the name of a file; pass pathlib.Path({source!r}), or its text")
        return parse(source)
    if isinstance(source, Program):
        module = Module()
        module.add(source)
    elif isinstance(source, Module):
        module = source
    else:
        raise wrong_source(source)
    check(module)
    return module
