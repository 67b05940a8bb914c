"""The fingerprint of a program: BLAKE3 over its canonical text.

Equal for programs that differ in value names, locations and comments only;
different for any change of an op, a type, a buffer or a flag.
"""

from __future__ import annotations

from .printer import canonical_text
from .program import Func, Module, Pipeline, Program

__all__ = ["fingerprint"]


def fingerprint(item: Module | Program | Func | Pipeline) -> bytes:
    """32 bytes that stand for the meaning of `item`."""
    from blake3 import blake3

    items = item.order if isinstance(item, Module) else [item]
    digest = blake3()
    for part in items:
        text = canonical_text(part).encode()
        digest.update(len(text).to_bytes(8, "little"))
        digest.update(text)
    return digest.digest()
