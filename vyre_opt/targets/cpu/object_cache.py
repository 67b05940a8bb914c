"""The compile cache's entries of the cpu: a program's object file, and what a call needs to know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ...execution.cache.compilations import fetch, new_log, pack_parts, unpack_parts
from ...execution.cache.keys import Fingerprints, compile_key, line_table_key, text_key
from ...execution.cache.store import Store
from ...ir.program import Module, Program
from ...lowering.host.abi import HostCode
from ...worker import import_module
from .host import Host
from .linking import NO_ADDRESSES, Library, link
from .object_code import RunFacts, checked_code, checked_facts

__all__ = ["decode", "encode", "key_of", "link_text"]


def key_of(
    program: Program,
    module: Module | None,
    specs: Mapping[str, Any],
    host: Host,
    prints: Fingerprints | None = None,
) -> bytes:
    """The cache key of a program for a machine and an optimisation level."""
    lines = line_table_key(program, module, host.debug_info)
    return compile_key(program, module, specs, (*_target(host), *lines), prints)


def link_text(
    text: str, host: Host, store: Store, symbols: Sequence[str], addresses: Mapping[str, int] = NO_ADDRESSES
) -> Library:
    """LLVM IR that belongs to no program, from the store or compiled now, linked into this process.

    `addresses`: see `link`.
    """

    def compile() -> tuple[bytes, Library]:
        import_module(f"{__package__}.jit")
        from .jit import compile_object

        object_file = compile_object(text, host)
        return object_file, link(object_file, symbols, addresses)

    return fetch(
        store,
        "cpu",
        lambda: text_key(text, _target(host)),
        lambda object_file: link(object_file, symbols, addresses),
        compile,
        new_log(),
        symbols[0],
    )


def _target(host: Host) -> tuple[str, str, Host]:
    return "cpu", host.triple, host


def encode(code: HostCode, run: RunFacts, object_file: bytes) -> bytes:
    """An entry.  It does not hold the LLVM IR."""
    facts = {
        "buffers": code.buffers,
        "written": sorted(code.written),
        "scratch_bytes": code.scratch_bytes,
        "whole_grid": code.whole_grid,
        "run": asdict(run),
    }
    return pack_parts(facts, object_file)


def decode(payload: bytes, program: Program) -> tuple[HostCode, RunFacts, bytes]:
    """Raises ValueError, KeyError, TypeError or RecursionError for what `encode` did not write for the program."""
    facts, object_file = unpack_parts(payload)
    return checked_code(facts, program), checked_facts(facts["run"]), object_file
