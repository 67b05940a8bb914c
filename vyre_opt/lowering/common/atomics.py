"""What holds for atomics on every target."""

from __future__ import annotations

from ...ir.program import Op

__all__ = ["is_atomic_read"]

_KEEPING_ZERO = ("atomic_add", "atomic_or", "atomic_xor")
_READING_ORDERS = ("relaxed", "acquire")


def is_atomic_read(op: Op) -> bool:
    """Whether an atomic leaves memory as it is, since x + 0, x | 0 and x ^ 0 are x; so programs read atomically.

    Written as a load it lets a waiting invocation read without taking the cache line from the one that writes.  Release
    orders are left out: what they order before the op is ordered before a write.
    """
    if op.name not in _KEEPING_ZERO or op.attrs["order"] not in _READING_ORDERS:
        return False
    operand = op.operands[1].owner
    is_zero = isinstance(operand, Op) and operand.name == "const" and operand.attrs["value"] == 0
    return is_zero and op.results[0].type.is_int
