"""The compile cache's entries of the cpu: a program's object file, and what a call needs to know of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.program import Module, Program
from ...lowering.host.abi import HostCode
from ..cache.compilations import pack_parts, unpack_parts
from ..cache.keys import compile_key, text_key
from ..cache.store import Store
from .jit import Host, compile_object

__all__ = ["decode", "encode", "key_of", "object_of"]


def key_of(program: Program, module: Module | None, specs: Mapping[str, Any], host: Host) -> bytes:
    """The cache key of a program for a machine and an optimisation level."""
    return compile_key(program, module, specs, _target(host))


def object_of(text: str, host: Host, store: Store) -> bytes:
    """The object file of LLVM IR that belongs to no program, from the store or compiled now."""
    key = text_key(text, _target(host))
    object_file = store.get(key, "cpu")
    if object_file is None:
        object_file = compile_object(text, host)
        store.put(key, "cpu", object_file)
    return object_file


def _target(host: Host) -> dict[str, str]:
    return {
        "kind": "cpu",
        "triple": host.triple,
        "cpu": host.name,
        "features": host.attributes,
        "opt": str(host.opt),
    }


def encode(code: HostCode, object_file: bytes) -> bytes:
    """An entry.  It does not hold the LLVM IR."""
    facts = {
        "buffers": code.buffers,
        "written": sorted(code.written),
        "scratch_bytes": code.scratch_bytes,
        "whole_grid": code.whole_grid,
    }
    return pack_parts(facts, object_file)


def decode(payload: bytes) -> tuple[HostCode, bytes]:
    """Raises ValueError, KeyError or TypeError for what `encode` did not write."""
    facts, object_file = unpack_parts(payload)
    return HostCode(
        "",
        tuple(facts["buffers"]),
        frozenset(facts["written"]),
        int(facts["scratch_bytes"]),
        bool(facts["whole_grid"]),
    ), object_file
