"""The named kernels, one file each, which declares all there is of a kernel beside its row in the op table.

A kernel's file is called like the last part of its name, and imported when somebody asks for the kernel.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.kernel_rules import complete_params
from ...ir.ops import NAMED_KERNELS
from ...ir.program import MAX_GRID, MAX_INVOCATIONS, MAX_LANES
from ...worker import import_module
from ..expansion import Expansion, ExpansionRequest, is_of_plugin
from .kernel import KERNELS, NamedKernel
from .plugin import PluginKernel

__all__ = ["expand", "named_kernel"]


def named_kernel(name: str) -> NamedKernel:
    """The declaration of a kernel, of tt.chain in chain.py; of another package's, it can expand and nothing else."""
    if is_of_plugin(name):
        return PluginKernel()
    if name not in KERNELS:
        import_module(f"{__name__}.{name.rpartition('.')[2]}")
    return KERNELS[name]


def expand(request: ExpansionRequest) -> Expansion:
    """The program of a use, over a grid that there can be.

    Raises ValueError saying what rules an expansion out, PluginError for a wrong one of another package.
    """
    complete_params(NAMED_KERNELS[request.kernel], request.buffers, request.params)
    expansion = named_kernel(request.kernel).expand(request)
    lanes, grid = expansion.program.lanes, expansion.grid
    if lanes > MAX_LANES:
        raise ValueError(f"its schedule makes workgroups of {lanes} invocations; at most {MAX_LANES}")
    if request.owns_grid and isinstance(grid, int):
        if grid < 1:
            raise ValueError(f"its grid has {grid} workgroups; at least 1")
        if grid > _most_workgroups(lanes):  # then each workgroup does several parts
            expansion = expand(replace(request, owns_grid=False))
            return replace(expansion, grid=_most_workgroups(expansion.program.lanes))
    return expansion


def _most_workgroups(lanes: int) -> int:
    return min(MAX_GRID[0], MAX_INVOCATIONS // lanes)
