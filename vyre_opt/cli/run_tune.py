"""vyre-run --autotune: tunes the kernels of the program or pipeline, and the call, at the sizes of this run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..execution.dispatcher import OutputAlloc
from ..execution.target import as_target
from ..ir.diagnostics import Location
from ..ir.program import Buffer, Module
from . import errors, run_buffers
from .text_files import write_file

if TYPE_CHECKING:
    from ..tuning.result import Tuning
    from .run_buffers import AnyExecutable
    from .run_options import RunOptions

__all__ = ["autotune", "check_plot"]


def autotune(
    module: Module, executable: AnyExecutable, arguments: Sequence[Any], options: RunOptions
) -> AnyExecutable:
    """The executable at the best schedules of its kernels, which are written into the module, and of its launches.

    A table for each kernel and for the call goes to stderr, the picture to the file of --plot.
    """
    if executable.target == "cuda":
        as_target(executable.dispatcher).synchronize()  # raises BackendError where no GPU is
    tunings = _tune_kernels(module, executable, arguments)
    if options.passes in ("", DEFAULT_PASSES):
        tuned, call = _tune_call(module, executable, arguments, options)
        tunings.append(call)
    else:
        errors.write_stderr("how launches are joined is not tuned: limits of fusion are given\n")
        # the first one holds a copy of the module, made before the schedules were written
        tuned = run_buffers.compile_entry(
            module, options.entry, executable.dispatcher, options.spec, options.passes
        )
    if options.plot is not None:
        from ..tuning.plot import picture, picture_format

        write_file(picture(tunings, picture_format(options.plot)), options.plot)
    return tuned


def check_plot(path: str) -> None:
    """Whether a picture can be drawn in a file, which is asked before minutes of measuring.  Raises UsageError, ToolError."""
    from ..tuning.plot import MissingMatplotlib, picture_format

    try:
        picture_format(path)
    except ValueError as error:
        raise click.UsageError(f"--plot: {error}") from None
    except MissingMatplotlib as error:
        raise errors.ToolError(str(error)) from None


DEFAULT_PASSES = "specialize,default"


def _tune_kernels(module: Module, executable: AnyExecutable, arguments: Sequence[Any]) -> list[Tuning]:
    from ..tuning.module_tuning import TuningOptions, tune_kernels

    signature = executable.signature
    counts = {b.name: _count(b, a) for b, a in zip(signature.buffers, arguments, strict=True)}
    refusals: list[str] = []

    def remark(kind: str, message: str, loc: Location | None = None, **facts: Any) -> None:
        if kind == "refused":
            refusals.append(message)

    tunings = tune_kernels(
        module, executable.dispatcher, TuningOptions(progress=True), remark, {executable.name: counts}
    )
    for tuning in tunings:
        errors.write_stderr(tuning.table())
    for message in refusals:
        errors.write_stderr(f"{message}\n")
    return tunings


def _tune_call(
    module: Module, executable: AnyExecutable, arguments: Sequence[Any], options: RunOptions
) -> tuple[AnyExecutable, Tuning]:
    from ..tuning.call_workload import CallWorkload, passes_of
    from ..tuning.tuner import autotune as tune

    pairs = list(zip(executable.signature.buffers, arguments, strict=True))
    arrays = {b.name: a for b, a in pairs if not isinstance(a, OutputAlloc)}
    lengths = {b.name: a.count for b, a in pairs if isinstance(a, OutputAlloc) and b.count is None}
    workload = CallWorkload(
        module,
        executable.name,
        _on_gpu(arrays) if executable.target == "cuda" else arrays,
        executable.dispatcher,
        options.grid,
        lengths,
        dict(options.param),
        dict(options.spec),
    )
    tuning = tune(workload, progress=True)
    errors.write_stderr(tuning.table())
    backend = workload.dispatcher_of(tuning.config)
    passes = f"specialize,{passes_of(tuning.config)}"
    return run_buffers.compile_entry(module, options.entry, backend, options.spec, passes), tuning


def _on_gpu(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Copies there, so that no call waits for the bus."""
    from pycuda import gpuarray

    return {name: gpuarray.to_gpu(array) for name, array in arrays.items()}


def _count(buffer: Buffer, argument: Any) -> int:
    """Elements that a buffer has in this run."""
    if isinstance(argument, OutputAlloc):
        return argument.count
    return int(argument.size) // buffer.dtype.lanes
