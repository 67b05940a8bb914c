"""vyre-run --autotune: the kernels of what runs, tuned at the sizes that it runs with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.program import Module
from ..runtime.dispatcher import Dispatcher
from . import errors
from .text_files import write_file

__all__ = ["autotune_kernels"]


def autotune_kernels(
    module: Module, compiled: Any, arguments: Sequence[Any], target: str | Dispatcher, plot: str | None
) -> bool:
    """Write the best schedules into the module; whether there is anything new to compile.

    A table of each kernel goes to stderr, the picture to the file `plot`.
    """
    from ..tuning.module_tuning import Settings, tune_kernels
    from ..tuning.plot import svg

    signature = compiled.signature
    counts = {b.name: _count(b, a) for b, a in zip(signature.buffers, arguments, strict=True)}
    said: list[str] = []

    def remark(kind: str, message: str, loc: Any = None, **facts: Any) -> None:
        if kind == "refused":
            said.append(message)

    found = tune_kernels(module, target, Settings(progress=True), remark, {compiled.name: counts})
    for tuning in found:
        errors.write_stderr(tuning.table())
    for message in said or ([] if found else ["there is no named kernel to tune"]):
        errors.write_stderr(f"{message}\n")
    if plot is not None:
        write_file(svg(found).encode(), plot)
    return bool(found)


def _count(buffer: Any, argument: Any) -> int:
    """Elements that a buffer has in this run."""
    count = getattr(argument, "count", None)  # of a Room; NumPy's arrays have no such number
    if isinstance(count, int):
        return count
    return int(argument.size) // int(buffer.dtype.lanes)
