"""Programs without ops of other packages, for what looks into ops: analyses, targets, MLIR.

Nearly every process has met no such op, and then nothing is imported here to replace any.
"""

from __future__ import annotations

from ..ir.plugin_ops import has_plugin_ops
from ..ir.program import Module, Program

__all__ = ["core_form", "core_module"]


def core_form(program: Program, module: Module | None) -> tuple[Program, Module | None]:
    """A program without ops of other packages, and the module of the functions that it calls: copies, if it has any."""
    if not has_plugin_ops(program) and (module is None or not has_plugin_ops(module)):
        return program, module
    from .cloning import copy_program
    from .expansion import expand_ops

    copied, around = copy_program(program, module)
    expand_ops(around)
    return copied, around


def core_module(module: Module) -> Module:
    """A module without ops of other packages: a copy, if it has any."""
    if not has_plugin_ops(module):
        return module
    from .cloning import copy_module
    from .expansion import expand_ops

    copied = copy_module(module)
    expand_ops(copied)
    return copied
