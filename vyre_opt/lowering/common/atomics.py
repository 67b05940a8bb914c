"""Rules of atomics on every target."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.program import Op
from ...ir.types import DataType
from . import conversions, elementwise
from .lane_shape import SCALAR
from .llvm_text import Writer

__all__ = ["exchange_loop", "integer_verb", "is_atomic_read", "updated"]

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


def integer_verb(name: str, is_signed: bool) -> str:
    """The operation of LLVM's `atomicrmw` on integers that an atomic, without its `atomic_`, is."""
    if name in ("min", "max"):
        return name if is_signed else f"u{name}"
    return {"exchange": "xchg"}.get(name, name)


def updated(
    w: Writer, name: str, dtype: DataType, old: str, operands: Sequence[str], target: str = "host"
) -> str:
    """The element that an atomic, without its `atomic_`, leaves where it finds `old`."""
    if name == "exchange":
        return operands[0]
    if name == "compare_exchange":
        equal = elementwise.compare(w, SCALAR, "eq", dtype, old, operands[0])
        return elementwise.select(w, SCALAR, dtype, equal, operands[1], old)
    return elementwise.apply(w, SCALAR, name, dtype, [old, operands[0]], target)


def exchange_loop(
    w: Writer,
    pointer: str,
    dtype: DataType,
    orders: tuple[str, str],
    update: Callable[[str], str],
    scope: str = "",
) -> str:
    """Replace the float at a pointer, with its LLVM type, by what `update` makes of it; returns the old one.

    By compare-and-exchange of its bits, until nobody has written in between.  `orders`: LLVM's, where it writes, and where it
    finds another value than expected.  Where no order is asked for, a value that stays is not written, so that invocations
    that change nothing do not take the cache line from each other.
    """
    kind, align = f"i{dtype.bits}", f"align {dtype.size_bytes}"
    # a stale value costs another round, no more
    first, before = w.emit(f"load atomic {kind}, {pointer} {scope} monotonic, {align}"), w.block
    again, attempt, done = w.label("again"), w.label("attempt"), w.label("done")
    expected, loaded = w.fresh("seen"), w.fresh("found")
    w.fall_into(again)
    w.line(f"{expected} = phi {kind} [ {first}, %{before} ], [ {loaded}, %{attempt} ]")
    old = conversions.from_bits(w, SCALAR, dtype, expected)
    new = conversions.bits_of(w, SCALAR, dtype, update(old))
    stays = w.emit(f"icmp eq {kind} {new}, {expected}") if orders == ("monotonic", "monotonic") else "false"
    w.branch_if(stays, done, attempt)
    w.start(attempt)
    pair = w.emit(f"cmpxchg {pointer}, {kind} {expected}, {kind} {new} {scope} {' '.join(orders)}, {align}")
    w.line(f"{loaded} = extractvalue {{ {kind}, i1 }} {pair}, 0")
    w.branch_if(w.emit(f"extractvalue {{ {kind}, i1 }} {pair}, 1"), done, again)
    w.start(done)
    return old
