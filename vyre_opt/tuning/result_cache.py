"""Results of the tuner in the compile cache, by device, program and space.

The key is a digest of all that the best configuration depends on: the version of this package, the
device, the workload with its sizes, its program at the default configuration, and every configuration of
the space.  An entry that cannot be read, or whose configuration is not in the space, is a miss.
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
    """32 bytes.  `program`: the fingerprint of the workload's program; empty if a function measures."""
    return digest_of(
        [
            ("compiler", "version", __version__.encode()),
            ("kernel", "text", kernel.encode()),
            ("program", "fingerprint", program),
            ("device", "text", device.encode()),
            ("factors", "json", json.dumps(space.factors).encode()),
            ("configurations", "i32", space.rows.astype("<i4").tobytes()),
        ]
    )


def device_of(dispatcher: Dispatcher) -> str:
    """A text that is the same for two devices only if the results for one are valid for the other."""
    facts = getattr(dispatcher, "facts", None)
    if facts is not None:
        return str(facts.key)
    host = getattr(dispatcher, "host", None)
    if host is None:
        return str(getattr(dispatcher, "name", type(dispatcher).__name__))
    return f"cpu {host.name} {getattr(dispatcher, 'workers', 1)} threads"


def load(store: Any, key: bytes, space: Space) -> Tuning | None:
    """The result under a key; None if there is none that is valid."""
    payload = store.get(key, KIND)
    if payload is None:
        return None
    try:
        result = Tuning.from_json(payload.decode())
    except ValueError:
        store.discard(key)  # else it would be read, and fail, each time
        return None
    return replace(result, kept=True) if space.find(result.config) is not None else None


def save(store: Any, key: bytes, result: Tuning) -> None:
    """Store a result; a store that cannot be written to ignores it."""
    store.put(key, KIND, result.to_json().encode())
