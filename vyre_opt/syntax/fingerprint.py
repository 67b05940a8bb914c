"""The fingerprint of a program: BLAKE3 over its canonical text.

It is the same for programs that differ only in value names, locations and comments, or in an order
without meaning: that of the items of a module, of declarations, of kernel parameters, of flags.
Nor does it tell how constants are written: as ops of their own, once or several times, or in place.  Any change
of an op, a type, a buffer or a flag changes it.
"""

from __future__ import annotations

from ..ir.pipeline import Pipeline
from ..ir.program import Func, Module, Program
from .printer import canonical_text

__all__ = ["exact_fingerprint", "fingerprint"]


def fingerprint(item: Module | Program | Func | Pipeline) -> bytes:
    """32 bytes that stand for the meaning of `item`."""
    return _digest(item, exact=False)


def exact_fingerprint(item: Module | Program | Func | Pipeline) -> bytes:
    """32 bytes that stand for the ops of `item`, constants included: for what moves ops, or counts them."""
    return _digest(item, exact=True)


def _digest(item: Module | Program | Func | Pipeline, exact: bool) -> bytes:
    from blake3 import blake3

    if isinstance(item, Module):
        # digests are of one length, so joining them is unambiguous
        return blake3(b"".join(sorted(_digest(part, exact) for part in item.order))).digest()
    return blake3(canonical_text(item, exact).encode()).digest()
