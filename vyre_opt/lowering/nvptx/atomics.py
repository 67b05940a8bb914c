"""Atomics, as LLVM's `atomicrmw` and `cmpxchg`, but for one case.

LLVM 22 writes an `atomicrmw` of every order as a relaxed instruction.  So fences say the order, and the instruction
itself is relaxed.

The hardware's atomic f32 addition in global memory flushes subnormals to zero.  That makes no
difference if the number added is at least 2^-101 in magnitude: next to it a subnormal is
less than half an ulp, and where the sum cancels the result is a multiple of 2^-125.  A smaller
number, or zero, is added by a compare-and-exchange loop.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.program import Op
from ...ir.types import DataType
from ..common import conversions
from ..common.atomics import is_atomic_read
from ..common.lane_shape import SCALAR, float_literal
from ..common.llvm_text import Writer
from .function_emitter import BufferRef, FunctionEmitter
from .memory import address, guarded, locate

__all__ = ["ATOMIC_OPS"]

LEAST_FOR_HARDWARE = 2.0**-101
"""The smallest magnitude that the hardware adds exactly; see above."""

_FENCES = {
    "relaxed": ("", ""), "acquire": ("", "acquire"), "release": ("release", ""), "acq_rel": ("release", "acquire"),
    "seq_cst": ("seq_cst", "acquire"),
}  # fmt: skip
"""Memory order -> the orders of the fences before and after the instruction."""


def _atomic(emitter: FunctionEmitter, op: Op) -> None:
    index, *operands = op.operands
    dtype = op.results[0].type
    access = locate(emitter, op, index, dtype)

    def change() -> list[str]:
        pointer = address(emitter, access, dtype, 1, 0)
        before, after = _FENCES[op.attrs.get("order") or "relaxed"]
        _fence(emitter, access.buffer, before)
        old = _exchange(emitter, op, access.buffer, pointer, [emitter.scalar(v) for v in operands], dtype)
        _fence(emitter, access.buffer, after)
        return [old]

    emitter.set(op, *guarded(emitter, access.happens, change, dtype))


def _fence(emitter: FunctionEmitter, buffer: BufferRef, order: str) -> None:
    if order:
        emitter.w.line(f'fence syncscope("{buffer.scope}") {order}')


def _exchange(
    emitter: FunctionEmitter, op: Op, buffer: BufferRef, pointer: str, operands: list[str], dtype: DataType
) -> str:
    """Writes the atomic instruction; returns the old value.  A float is exchanged as its bits."""
    w, name = emitter.w, op.name.removeprefix("atomic_")
    kind, value = SCALAR.type(dtype), operands[0]
    scope, align = f'syncscope("{buffer.scope}")', f"align {dtype.size_bytes}"
    if name == "compare_exchange":
        exchange = f"{kind} {value}, {kind} {operands[1]} {scope} monotonic monotonic"
        pair = w.emit(f"cmpxchg {buffer.type} {pointer}, {exchange}, {align}")
        return w.emit(f"extractvalue {{ {kind}, i1 }} {pair}, 0")
    if is_atomic_read(op):
        return w.emit(f"load atomic {kind}, {buffer.type} {pointer} {scope} monotonic, {align}")
    verb = {"exchange": "xchg"}.get(name, name)
    if name in ("min", "max") and not dtype.is_signed:
        verb = f"u{name}"
    if dtype.is_float and name == "add":
        verb = "fadd"
    as_bits = dtype.is_float and name == "exchange"
    if as_bits:
        kind, value = f"i{dtype.bits}", conversions.bits_of(w, SCALAR, dtype, value)
    if verb == "fadd" and dtype.name == "f32" and buffer.space == 1:
        return w.emit(f"call float @{_add_function(w)}({buffer.type} {pointer}, float {value})")
    old = w.emit(f"atomicrmw {verb} {buffer.type} {pointer}, {kind} {value} {scope} monotonic, {align}")
    return conversions.from_bits(w, SCALAR, dtype, old) if as_bits else old


def _add_function(outer: Writer) -> str:
    """The name of a function that adds to an f32 in global memory with IEEE subnormals."""
    name = "vyre.atomic_add.f32"
    if not outer.module.defines(name):
        outer.module.define(name, _add_text(name, Writer(outer.module)))
    return name


def _add_text(name: str, w: Writer) -> str:
    pointer, scope = "ptr addrspace(1) %p", 'syncscope("device")'
    magnitude = w.call("llvm.fabs.f32", "float", [("float", "%x")])
    small = w.emit(f"fcmp olt float {magnitude}, {float_literal(LEAST_FOR_HARDWARE)}")
    w.branch_if(small, "careful", "direct")
    w.start("direct")
    w.line(f"%sum = atomicrmw fadd {pointer}, float %x {scope} monotonic, align 4")
    w.line("ret float %sum")
    w.start("careful")
    # A stale value costs another round, no more
    first = w.emit(f"load atomic i32, {pointer} {scope} monotonic, align 4")
    w.fall_into("again")
    w.line(f"%seen = phi i32 [ {first}, %careful ], [ %found, %again ]")
    old = w.emit("bitcast i32 %seen to float")
    new = w.emit(f"bitcast float {w.emit(f'fadd float {old}, %x')} to i32")
    w.line(f"%pair = cmpxchg {pointer}, i32 %seen, i32 {new} {scope} monotonic monotonic, align 4")
    w.line("%found = extractvalue { i32, i1 } %pair, 0")
    done = w.emit("extractvalue { i32, i1 } %pair, 1")
    w.branch_if(done, "done", "again")
    w.start("done")
    w.line(f"ret float {old}")
    body = "\n".join(w.lines)
    return f"define internal float @{name}(ptr addrspace(1) %p, float %x) {{\nentry:\n{body}\n}}"


ATOMIC_OPS: dict[str, Callable[[FunctionEmitter, Op], None]] = {"atomic": _atomic}
