"""The machine code of the launcher, compiled for a machine (see launcher.py)."""

from __future__ import annotations

from collections.abc import Mapping

from ...execution.cache.store import default_store
from ...worker import import_module
from ..cpu.host import Host
from ..cpu.linking import Library
from ..cpu.object_cache import link_text
from .launcher_ir import SYMBOL, launcher_ir

__all__ = ["compiled", "linked"]


def linked(addresses: Mapping[str, int]) -> Library:
    """The code for this machine, from the store or compiled now, linked into this process.  `addresses`: of what it calls."""
    store = default_store()
    host = Host.this(1, store=store)
    return link_text(launcher_ir(host.triple, host.layout), host, store, [SYMBOL], addresses)


def compiled(host: Host) -> bytes:
    """An object file of the code for a machine."""
    import_module("vyre_opt.targets.cpu.jit")
    from ..cpu.jit import compile_object

    return compile_object(launcher_ir(host.triple, host.layout), host)
