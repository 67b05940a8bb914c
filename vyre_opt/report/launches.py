"""Work that the launches of a module's pipelines ask of a machine, for pipelines whose sizes the text says."""

from __future__ import annotations

from math import prod

from ..driver.call_report import CallReport
from ..driver.compile import compile_module
from ..driver.machine_target import MachineTarget
from ..execution.dispatcher import DispatchError, OutputAlloc
from ..ir.diagnostics import DiagnosticError
from ..ir.program import Buffer, Module
from ..rewriting.cloning import copy_module
from ..scheduling.machines import machine_of

__all__ = ["call_reports"]


def call_reports(module: Module, target: str = "") -> dict[str, CallReport | str]:
    """The report of a call of each pipeline, or why there is none, as a GPU of the architecture `target` would launch it; an
    H100 where that is no GPU's."""
    return {name: _report(module, name, target) for name in module.pipelines}


def _report(module: Module, name: str, target: str) -> CallReport | str:
    sizes = [buffer for buffer in module.pipelines[name].buffers.values() if buffer.count is None]
    if sizes:
        names = ", ".join(f"@{buffer.name}" for buffer in sizes)
        return f"What launches ask of a machine depends on the open size of {names}: report() in Python has that of a call."
    try:
        executable = compile_module(copy_module(module), name, MachineTarget(machine_of(target)), {})
        return executable.report_on([_of_declared_size(buffer) for buffer in executable.signature.buffers])
    except (DispatchError, DiagnosticError) as error:
        return str(error).partition("\n")[0]


def _of_declared_size(buffer: Buffer) -> OutputAlloc:
    shape = tuple(extent or 0 for extent in buffer.shape)
    return OutputAlloc(prod(shape), shape if buffer.dimensions > 1 else ())
