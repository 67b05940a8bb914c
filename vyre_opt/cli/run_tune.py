"""vyre-run --autotune: tunes the kernels of the program or pipeline, at the sizes of this run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ir.diagnostics import Location
from ..ir.program import Buffer, Module
from ..runtime.dispatcher import Dispatcher
from . import errors
from .text_files import write_file

if TYPE_CHECKING:
    from .run_buffers import AnyExecutable

__all__ = ["autotune_kernels"]


def autotune_kernels(
    module: Module,
    executable: AnyExecutable,
    arguments: Sequence[Any],
    target: str | Dispatcher,
    plot: str | None,
) -> bool:
    """Write the best schedules into the module; returns whether any kernel was tuned.

    A table for each kernel goes to stderr, the picture to the file `plot`.
    """
    from ..tuning.module_tuning import TuningOptions, tune_kernels
    from ..tuning.plot import svg

    signature = executable.signature
    counts = {b.name: _count(b, a) for b, a in zip(signature.buffers, arguments, strict=True)}
    refusals: list[str] = []

    def remark(kind: str, message: str, loc: Location | None = None, **facts: Any) -> None:
        if kind == "refused":
            refusals.append(message)

    tunings = tune_kernels(module, target, TuningOptions(progress=True), remark, {executable.name: counts})
    for tuning in tunings:
        errors.write_stderr(tuning.table())
    for message in refusals or ([] if tunings else ["there is no named kernel to tune"]):
        errors.write_stderr(f"{message}\n")
    if plot is not None:
        write_file(svg(tunings).encode(), plot)
    return bool(tunings)


def _count(buffer: Buffer, argument: Any) -> int:
    """Elements that a buffer has in this run."""
    count = getattr(argument, "count", None)  # of an OutputAlloc; NumPy's arrays have no such attribute
    if isinstance(count, int):
        return count
    return int(argument.size) // buffer.dtype.lanes
