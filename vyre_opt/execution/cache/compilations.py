"""Looks code up in the cache or compiles it, and logs the time of either."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeVar

from ...observers import span
from ...records import dataclass
from .store import Store

__all__ = ["Compilation", "fetch", "new_log", "pack_parts", "unpack_parts"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Compilation:
    """`name`: of the programs.  `seconds`: to get their code.  `cached`: whether it came from the store."""

    name: str
    seconds: float
    cached: bool


def new_log() -> deque[Compilation]:
    """A log that keeps the last 256 entries."""
    return deque(maxlen=256)


def fetch(
    store: Store | None,
    kind: str,
    key: Callable[[], bytes],
    decode: Callable[[bytes], T],
    compile: Callable[[], tuple[bytes, T]],
    log: deque[Compilation],
    name: str,
) -> T:
    """The code under a key in the store, or else what `compile` gives, which is then stored.

    `compile` returns a payload for the store, and what `decode` gives for that payload.  A payload
    that `decode` cannot read, for which it may raise anything, is discarded and compiled again.
    """
    start = perf_counter()
    digest = b"" if store is None else key()
    payload = None if store is None else store.get(digest, kind)
    if store is not None and payload is not None:
        try:
            with span("read", name):
                code = decode(payload)
        except Exception:  # also of LLVM, which links object code
            store.discard(digest)
        else:
            log.append(Compilation(name, perf_counter() - start, True))
            return code
    with span("compile", name):
        payload, code = compile()
    log.append(Compilation(name, perf_counter() - start, False))
    if store is not None:
        store.put(digest, kind, payload)
    return code


def pack_parts(facts: dict[str, Any], code: bytes) -> bytes:
    """A payload: the length of the facts as JSON in 4 bytes (little endian), the JSON, and the code."""
    head = json.dumps(facts, separators=(",", ":"), sort_keys=True).encode()
    return len(head).to_bytes(4, "little") + head + code


def unpack_parts(payload: bytes) -> tuple[dict[str, Any], bytes]:
    """The facts and the code of a payload.  Raises ValueError, or RecursionError for facts nested too deep."""
    end = 4 + int.from_bytes(payload[:4], "little")
    if not 4 < end <= len(payload):
        raise ValueError("the facts of an entry are cut off")
    facts = json.loads(payload[4:end])
    if not isinstance(facts, dict):
        raise ValueError("the facts of an entry are named")
    return facts, payload[end:]
