"""Kernels of other packages: the op table has only the function that expands them."""

from __future__ import annotations

from dataclasses import is_dataclass

from ...ir.diagnostics import DiagnosticError
from ...ir.ops import OPS
from ...ir.plugins import PluginError
from ...ir.program import Program
from ..expansion import Expansion, ExpansionRequest
from .kernel import NamedKernel

__all__ = ["PluginKernel"]


class PluginKernel(NamedKernel):
    def expand(self, r: ExpansionRequest) -> Expansion:
        """Build the program of another package's function, with its ops expanded.  Raises PluginError for a wrong one."""
        from ...rewriting.expansion import expand_ops

        build = OPS[r.kernel].expansion
        assert build is not None
        where = f"the function of {r.kernel} in {build.__module__}"
        try:
            expansion = build(r)
        except (ValueError, DiagnosticError):
            raise
        except Exception as error:
            raise PluginError(f"{where} fails: {type(error).__name__}: {error}") from error
        if not isinstance(expansion, Expansion) or not isinstance(expansion.program, Program):
            raise PluginError(f"{where} returns an Expansion of a Program, and not {expansion!r}")
        formals = expansion.program.bound_buffers[: len(r.buffers)]
        if [b.dtype for b in formals] != [b.dtype for b in r.buffers]:
            listed = ", ".join(f"@{b.name} {b.dtype}" for b in formals)
            wanted = ", ".join(f"@{b.name} {b.dtype}" for b in r.buffers)
            raise PluginError(f"{where} returns a program whose buffers are {listed or 'none'}, for {wanted}")
        if r.owns_grid and expansion.grid is None:
            raise PluginError(f"{where} returns no grid for a launch of its own")
        if not is_dataclass(expansion.schedule):
            raise PluginError(f"{where} returns a schedule that is no dataclass: {expansion.schedule!r}")
        expand_ops(expansion.program)
        return expansion
