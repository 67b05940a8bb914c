"""Compiled patterns in the compile cache.

The key is a digest of the patterns, their flags, the options, and the sources that compile them.  What is read is
checked as tables from anywhere are: it becomes no wrong index.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from .. import patterns as patterns_package
from ..execution.cache.compilations import fetch, new_log, pack_parts, unpack_parts
from ..execution.cache.store import Store
from ..patterns.compile import DEFAULT_MAX_STATES, compiled
from ..patterns.compiled import CompiledPatterns
from ..patterns.pattern_list import Patterns, read_patterns
from ..specialization.digest import digest_of

__all__ = ["KIND", "cached_compiled", "cached_patterns", "decode", "encode"]

KIND = "patterns"

FEW_BYTES = 1 << 15
"""Literals that have fewer together are compiled in less time than a store takes to keep and to find them."""

Array = np.ndarray[Any, Any]

_DTYPES: dict[str, np.dtype[Any]] = {"u1": np.dtype(np.uint8), "u4": np.dtype("<u4")}


def cached_patterns(
    patterns: Iterable[Any],
    *,
    regex: bool = False,
    caseless: bool = False,
    max_states: int = DEFAULT_MAX_STATES,
    store: Store | None,
) -> CompiledPatterns:
    """As `compile_patterns`, from the store if it has them; None: without one."""
    return cached_compiled(
        read_patterns(patterns, regex=regex, caseless=caseless), caseless, max_states, store
    )


def cached_compiled(
    read: Patterns, caseless: bool, max_states: int = DEFAULT_MAX_STATES, store: Store | None = None
) -> CompiledPatterns:
    """As `cached_patterns`, of patterns that are read."""
    if not read.flags and sum(map(len, read.contents)) < FEW_BYTES:
        return compiled(read, caseless, max_states)

    def compile() -> tuple[bytes, CompiledPatterns]:
        automata = compiled(read, caseless, max_states)
        return (b"" if store is None else encode(automata)), automata

    name = f"{len(read.contents)} patterns"
    return fetch(store, KIND, lambda: _key(read, caseless, max_states), decode, compile, new_log(), name)


def _key(patterns: Patterns, caseless: bool, max_states: int) -> bytes:
    contents = patterns.contents
    flags = np.array([*patterns.flags.items()], "<i8").reshape(-1, 2)
    return digest_of(
        [
            ("compiler", "sources", _sources()),
            ("caseless", "bool", bytes([caseless])),
            ("max_states", "int", str(max_states).encode()),
            ("flags", "pairs of i64", flags.tobytes()),
            ("lengths", "u32", np.fromiter(map(len, contents), "<u4", len(contents)).tobytes()),
            ("patterns", "bytes", b"".join(contents)),
        ]
    )


@cache
def _sources() -> bytes:
    """A hash of the sources of this file and of `vyre_opt.patterns`: a checkout changes between versions."""
    from blake3 import blake3

    digest = blake3()
    for path in (*sorted(Path(patterns_package.__path__[0]).glob("*.py")), Path(__file__)):
        content = path.read_bytes()
        digest.update(path.name.encode() + b"\0" + len(content).to_bytes(8, "little") + content)
    return digest.digest()


def encode(patterns: CompiledPatterns) -> bytes:
    """A payload: the types and shapes of the arrays, and their bytes (little endian), one after the other."""
    arrays = patterns.to_arrays()
    facts = {name: [f"u{array.itemsize}", *array.shape] for name, array in arrays.items()}
    chunks = [arrays[name].astype(_DTYPES[facts[name][0]]).tobytes() for name in sorted(facts)]
    return pack_parts(facts, b"".join(chunks))


def decode(payload: bytes) -> CompiledPatterns:
    """The patterns of a payload.  Raises ValueError, KeyError or TypeError if it is none."""
    facts, content = unpack_parts(payload)
    arrays: dict[str, Array] = {}
    at = 0
    for name in sorted(facts):
        kind, *shape = facts[name]
        size = _DTYPES[kind].itemsize * prod(shape)
        if not all(isinstance(extent, int) and extent >= 0 for extent in shape) or at + size > len(content):
            raise ValueError(f"the bytes of {name} are not all there")
        array = np.frombuffer(content, _DTYPES[kind], prod(shape), at).reshape(shape)
        arrays[name] = array.astype(_DTYPES[kind].newbyteorder("="), copy=False)
        at += size
    return CompiledPatterns.from_arrays(arrays)
