"""The machine code of the thread pool, compiled for a machine (see thread_pool_ir.py)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ...execution.cache.store import default_store
from ...worker import import_module
from . import object_cache
from .host import Host
from .linking import Library
from .thread_pool_ir import linux_ir, worker_ir

__all__ = ["compiled", "linked"]


def linked(symbols: Sequence[str]) -> Library:
    """The code for this machine, from the store or compiled now, linked into this process."""
    store = default_store()
    host = Host.this(1, store=store)
    return object_cache.link_text(_text(host, sys.platform == "linux"), host, store, symbols)


def compiled(host: Host) -> bytes:
    """An object file of the code for a machine with Linux."""
    import_module(f"{__package__}.jit")
    from .jit import compile_object

    return compile_object(_text(host, is_linux=True), host)


def _text(host: Host, is_linux: bool) -> str:
    text = worker_ir(host.triple, host.layout)
    return text + linux_ir(host.triple) if is_linux else text
