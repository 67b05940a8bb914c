"""The named kernels, one file each, which declares all there is of a kernel beside its row in the op table.

A kernel's file is called like the last part of its name, and imported when somebody asks for the kernel.
"""

from __future__ import annotations

from ...ir.program import MAX_LANES
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
    """Raises ValueError saying what rules an expansion out, PluginError for a wrong one of another package."""
    expansion = named_kernel(request.kernel).expand(request)
    if expansion.program.lanes > MAX_LANES:
        raise ValueError(
            f"its schedule makes workgroups of {expansion.program.lanes} invocations; at most {MAX_LANES}"
        )
    return expansion
