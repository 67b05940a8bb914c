"""Results of the tuner in the compile cache, by device, program and space.

The key is over all that a choice rests on: the version of this package, the device, the workload
with its sizes, the program that the default configuration makes of it, and every configuration of
the space.  An entry that does not read back, or whose choice the space does not have, is a miss.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from .. import __version__
from ..runtime.dispatcher import Dispatcher
from ..specialization.digest import digest_of
from .result import Tuning
from .space import Space

__all__ = ["device_of", "load", "save", "tuning_key"]

KIND = "tuning"


def tuning_key(kernel: str, program: bytes, device: str, space: Space) -> bytes:
    """32 bytes; `program` is a fingerprint, or empty where a function measures."""
    configs = json.dumps(space.configs, sort_keys=True).encode()
    return digest_of(
        [
            ("compiler", "version", __version__.encode()),
            ("kernel", "text", kernel.encode()),
            ("program", "fingerprint", program),
            ("device", "text", device.encode()),
            ("space", "json", configs),
        ]
    )


def device_of(dispatcher: Dispatcher) -> str:
    """A text that two devices share only if what is tuned for one suits the other."""
    facts = getattr(dispatcher, "facts", None)
    if facts is not None:
        return str(facts.key)
    host = getattr(dispatcher, "host", None)
    if host is None:
        return str(getattr(dispatcher, "name", type(dispatcher).__name__))
    return f"cpu {host.name} {getattr(dispatcher, 'workers', 1)} threads"


def load(store: Any, key: bytes, space: Space) -> Tuning | None:
    """The result that is kept under a key."""
    payload = store.get(key, KIND)
    if payload is None:
        return None
    try:
        found = Tuning.from_json(payload.decode())
    except ValueError:
        store.discard(key)
        return None
    return replace(found, kept=True) if space.find(found.config) is not None else None


def save(store: Any, key: bytes, found: Tuning) -> None:
    """Keep a result, where the store can."""
    store.put(key, KIND, found.to_json().encode())
