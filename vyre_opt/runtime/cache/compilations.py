"""What a dispatcher compiled, and what it found compiled: for those who ask where the time went."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

from .store import Store

__all__ = ["Compilation", "fetch", "new_log", "pack_parts", "unpack_parts"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Compilation:
    """`name`: of the programs; `seconds`: until their code was there; `cached`: whether it was read."""

    name: str
    seconds: float
    cached: bool


def new_log() -> deque[Compilation]:
    """Of the last few hundred."""
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
    """What a store has under a key, or else what `compile` makes, which is then kept.

    `compile` gives the payload that is to be kept, and what `decode` would make of it.  A payload
    that `decode` cannot read (ValueError, KeyError, TypeError) is dropped, and made anew.
    """
    started = perf_counter()
    if store is None:
        made = compile()[1]
        log.append(Compilation(name, perf_counter() - started, False))
        return made
    place = key()
    payload = store.get(place, kind)
    if payload is not None:
        try:
            made = decode(payload)
        except (ValueError, KeyError, TypeError, IndexError):
            store.discard(place)
        else:
            log.append(Compilation(name, perf_counter() - started, True))
            return made
    payload, made = compile()
    log.append(Compilation(name, perf_counter() - started, False))
    store.put(place, kind, payload)
    return made


def pack_parts(facts: dict[str, Any], code: bytes) -> bytes:
    """Facts that JSON can say, then code: the length of the first in 4 bytes, and both."""
    head = json.dumps(facts, separators=(",", ":"), sort_keys=True).encode()
    return len(head).to_bytes(4, "little") + head + code


def unpack_parts(payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Raises ValueError."""
    end = 4 + int.from_bytes(payload[:4], "little")
    facts = json.loads(payload[4:end])
    if not isinstance(facts, dict):
        raise ValueError("the facts of an entry are named")
    return facts, payload[end:]
