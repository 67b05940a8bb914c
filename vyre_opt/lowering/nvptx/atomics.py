"""Atomics, as LLVM's `atomicrmw` and `cmpxchg`, with a few words around them where the hardware does something else.

LLVM 22 writes an `atomicrmw` of every order as a relaxed instruction.  So fences say the order, and the instruction
itself is relaxed.  Elements of 8 and 16 bits are exchanged with the aligned 32 bits that they are in.

The hardware's atomic f32 addition in global memory flushes subnormals to zero.  That makes no
difference if the number added is at least 2^-101 in magnitude: next to it a subnormal is
less than half an ulp, and where the sum cancels the result is a multiple of 2^-125.  A smaller
number, or zero, is added by a compare-and-exchange loop.

No hardware has a minimum of floats.  Their bits are in the order of signed integers as long as one of two is positive, and in
the opposite order of unsigned ones where a negative one is compared, -0.0 and 0.0 included:

    x          minimum                 maximum                 leaves alone, of what it should replace
    positive   signed minimum          signed maximum          minimum: NaN with a sign;  maximum: NaN without
    negative   unsigned maximum        unsigned minimum        the same
    NaN        a load                  a load                  nothing

So an atomic of integers does it, and a compare-and-exchange loop follows where that found such a NaN, which it left as it was.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.program import Op
from ...ir.types import DataType
from ..common import conversions
from ..common.atomics import exchange_loop, integer_verb, is_atomic_read, updated
from ..common.lane_shape import SCALAR, float_literal
from ..common.llvm_text import Writer
from .function_emitter import BufferRef, FunctionEmitter
from .memory import address, guarded, locate
from .subgroup_atomics import aggregate
from .values import TARGET

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

    def exchange(values: list[str]) -> list[str]:
        pointer = address(emitter, access, dtype, 1, 0)
        before, after = _FENCES[op.attrs.get("order") or "relaxed"]
        _fence(emitter, access.buffer, before)
        old = _exchange(emitter, op, access.buffer, pointer, values, dtype)
        _fence(emitter, access.buffer, after)
        return [old]

    def change() -> list[str]:
        values = [emitter.scalar(value) for value in operands]
        if op not in emitter.context.aggregated:
            return exchange(values)
        return aggregate(emitter, op, values[0], lambda total: exchange([total]))

    emitter.set(op, *guarded(emitter, access.happens, change, dtype))


def _fence(emitter: FunctionEmitter, buffer: BufferRef, order: str) -> None:
    if order:
        emitter.w.line(f'fence syncscope("{buffer.scope}") {order}')


def _exchange(
    emitter: FunctionEmitter, op: Op, buffer: BufferRef, pointer: str, operands: list[str], dtype: DataType
) -> str:
    """Writes the atomic instruction; returns the old value."""
    w, name, value = emitter.w, op.name.removeprefix("atomic_"), operands[0]
    place, scope, align = (
        f"{buffer.type} {pointer}",
        f'syncscope("{buffer.scope}")',
        f"align {dtype.size_bytes}",
    )
    kind = f"i{dtype.bits}"
    if name == "compare_exchange":
        exchange = f"{kind} {value}, {kind} {operands[1]} {scope} monotonic monotonic"
        pair = w.emit(f"cmpxchg {place}, {exchange}, {align}")
        return w.emit(f"extractvalue {{ {kind}, i1 }} {pair}, 0")
    if is_atomic_read(op):
        return w.emit(f"load atomic {kind}, {place} {scope} monotonic, {align}")
    if dtype.is_float and name in ("min", "max"):
        bits = conversions.bits_of(w, SCALAR, dtype, value)
        return w.emit(
            f"call {SCALAR.type(dtype)} @{_extremum_function(w, name, dtype, buffer)}({place}, {kind} {bits})"
        )
    if dtype.is_float and name == "add":
        return _add(w, buffer, place, value, dtype)
    bits = conversions.bits_of(w, SCALAR, dtype, value)
    verb = integer_verb(name, dtype.is_signed)
    old = w.emit(f"atomicrmw {verb} {place}, {kind} {bits} {scope} monotonic, {align}")
    return conversions.from_bits(w, SCALAR, dtype, old)


def _add(w: Writer, buffer: BufferRef, place: str, value: str, dtype: DataType) -> str:
    if dtype.name == "f32" and buffer.space == 1:
        return w.emit(f"call float @{_add_function(w)}({place}, float {value})")
    scope, align = f'syncscope("{buffer.scope}")', f"align {dtype.size_bytes}"
    stored = conversions.store_value(w, SCALAR, dtype, value)
    memory = conversions.memory_type(dtype)
    if dtype.name == "bf16":
        memory, stored = "bfloat", w.emit(f"bitcast i16 {stored} to bfloat")
    old = w.emit(f"atomicrmw fadd {place}, {memory} {stored} {scope} monotonic, {align}")
    if dtype.name == "bf16":
        old = w.emit(f"bitcast bfloat {old} to i16")
    return conversions.load_value(w, SCALAR, dtype, old)


def _extremum_function(outer: Writer, name: str, dtype: DataType, buffer: BufferRef) -> str:
    """The name of a function that does an atomic_min or atomic_max with a float of the given bits."""
    symbol = f"vyre.atomic_{name}.{dtype.name}.{buffer.scope}"
    if not outer.module.defines(symbol):
        outer.module.define(symbol, _extremum_text(symbol, name, dtype, buffer, Writer(outer.module)))
    return symbol


def _extremum_text(symbol: str, name: str, dtype: DataType, buffer: BufferRef, w: Writer) -> str:
    carrier, kind, place = SCALAR.type(dtype), f"i{dtype.bits}", f"{buffer.type} %p"
    scope, align = f'syncscope("{buffer.scope}")', f"align {dtype.size_bytes}"

    def give(bits: str) -> None:
        w.line(f"ret {carrier} {conversions.from_bits(w, SCALAR, dtype, bits)}")

    value = conversions.from_bits(w, SCALAR, dtype, "%bits")
    w.branch_if(w.emit(f"fcmp uno {carrier} {value}, {value}"), "nan", "number")
    w.start("nan")
    give(w.emit(f"load atomic {kind}, {place} {scope} monotonic, {align}"))
    w.start("number")
    w.branch_if(w.emit(f"icmp slt {kind} %bits, 0"), "negative", "positive")
    olds = []
    for label, verb in (("negative", {"min": "umax", "max": "umin"}[name]), ("positive", name)):
        w.start(label)
        old = w.emit(f"atomicrmw {verb} {place}, {kind} %bits {scope} monotonic, {align}")
        olds.append((old, label))
        w.branch("exchanged")
    w.start("exchanged")
    old = w.phi(kind, olds)
    stays = w.emit(f"icmp {'slt' if name == 'min' else 'sge'} {kind} {old}, 0")
    number = conversions.from_bits(w, SCALAR, dtype, old)
    is_nan = w.emit(f"fcmp uno {carrier} {number}, {number}")
    w.branch_if(w.emit(f"and i1 {stays}, {is_nan}"), "again", "done")
    w.start("done")
    give(old)
    w.start("again")
    orders = "monotonic", "monotonic"
    old = exchange_loop(w, place, dtype, orders, lambda x: updated(w, name, dtype, x, [value], TARGET), scope)
    w.line(f"ret {carrier} {old}")
    body = "\n".join(w.lines)
    return f"define internal {carrier} @{symbol}({place}, {kind} %bits) {{\nentry:\n{body}\n}}"


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
    orders = "monotonic", "monotonic"
    old = exchange_loop(w, pointer, DataType.F32, orders, lambda x: w.emit(f"fadd float {x}, %x"), scope)
    w.line(f"ret float {old}")
    body = "\n".join(w.lines)
    return f"define internal float @{name}(ptr addrspace(1) %p, float %x) {{\nentry:\n{body}\n}}"


ATOMIC_OPS: dict[str, Callable[[FunctionEmitter, Op], None]] = {"atomic": _atomic}
