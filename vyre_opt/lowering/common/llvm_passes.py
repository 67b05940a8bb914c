"""Runs LLVM's passes over a module of llvmlite, and gives the memory of the pipeline back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import llvmlite.binding as llvm

__all__ = ["run_passes"]


def run_passes(
    module: llvm.ModuleRef,
    machine: llvm.TargetMachine,
    options: llvm.PipelineTuningOptions,
    names: Sequence[str] | None = None,
) -> None:
    """LLVM's default pipeline at the level of `options`, or the passes `names`, as llvmlite calls them."""
    import llvmlite.binding as llvm

    # a builder for each run: it would call back what instrumented its last run, which is gone
    with llvm.create_pass_builder(machine, options) as builder:
        if names is None:
            manager = builder.getModulePassManager()
        else:
            manager = llvm.create_new_module_pass_manager()
            for name in names:
                getattr(manager, f"add_{name}_pass")()
        try:
            manager.run(module, builder)
        finally:
            _close(manager)


def _close(manager: Any) -> None:
    """Dispose of a pass manager, some 95 KB.

    llvmlite's own `close` does not (0.50): of its two bases the one first in order has a `_dispose` that does nothing.
    """
    import llvmlite.binding as llvm
    from llvmlite.binding.newpassmanagers import NewPassManager

    if type(manager)._dispose is llvm.ffi.ObjectRef._dispose:
        NewPassManager._dispose(manager)
        manager.detach()
    else:
        manager.close()
