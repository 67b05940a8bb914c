"""Loads and stores.

An access that is not proven in bounds is left alone, clamped or checked, as `bounds`
says.  A vector is moved in pieces as wide as its proven alignment allows, 16 bytes at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...ir.program import Op, Value
from ...ir.types import DataType
from ..common import conversions
from ..common.lane_shape import SCALAR
from .abi import ALIGNMENT
from .function_emitter import NO_METADATA, BufferRef, FunctionEmitter

__all__ = ["MEMORY_OPS", "MemoryAccess", "address", "guarded", "locate"]


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """An access to `buffer` from element `index` (i64) on.

    `happens`: an i1 that must hold for the access to take place, or "" for always.
    `is_clamped`: the index may be any number, so nothing is known of its alignment.
    """

    buffer: BufferRef
    index: str
    happens: str = ""
    is_clamped: bool = False


def _index(emitter: FunctionEmitter, value: Value) -> str:
    """The element index as i64; a negative one stays negative."""
    (index,) = emitter.get(value)
    dtype = value.type
    if dtype.bits == 64:
        return index
    return emitter.w.emit(f"{'sext' if dtype.is_signed else 'zext'} i{dtype.bits} {index} to i64")


def locate(emitter: FunctionEmitter, op: Op, value: Value, width: int) -> MemoryAccess:
    """The access of `width` elements from the index `value` on, with the check or clamp that `bounds` asks for."""
    context = emitter.context
    buffer = context.buffers[op.attrs["buffer"]]
    index = _index(emitter, value)
    if context.bounds == "none" or op in context.proven:
        return MemoryAccess(buffer, index)
    if context.bounds == "clamp":
        return _clamped(emitter, buffer, index, value.type.is_signed, width)
    emitter.fault_if(_is_outside(emitter, buffer, index, width), op, "bounds", index, buffer.count, width)
    return MemoryAccess(buffer, index)


def _is_outside(emitter: FunctionEmitter, buffer: BufferRef, index: str, width: int) -> str:
    """An i1: index > count - width, unsigned, or count < width."""
    w, count = emitter.w, buffer.count
    if width == 1:
        return w.emit(f"icmp uge i64 {index}, {count}")
    if not count.startswith("%"):
        last = int(count) - width
        return "true" if last < 0 else w.emit(f"icmp ugt i64 {index}, {last}")
    last_name = w.emit(f"sub i64 {count}, {width}")
    beyond = w.emit(f"icmp ugt i64 {index}, {last_name}")
    # Where the subtraction above wraps, `beyond` means nothing
    short = w.emit(f"icmp ult i64 {count}, {width}")
    return w.emit(f"or i1 {beyond}, {short}")


def _clamped(
    emitter: FunctionEmitter, buffer: BufferRef, index: str, is_signed: bool, width: int
) -> MemoryAccess:
    """The access at the nearest index in bounds.

    In a buffer shorter than `width` there is none: no access happens, and a load gives 0.
    """
    w, count = emitter.w, buffer.count
    kind = "i64"
    if is_signed:
        index = w.call("llvm.smax.i64", kind, [(kind, index), (kind, "0")])
    happens = ""
    if count.startswith("%"):
        last = w.emit(f"sub i64 {count}, {width}")
        happens = w.emit(f"icmp uge i64 {count}, {width}")
    else:
        last = str(max(0, int(count) - width))
        happens = "" if int(count) >= width else "false"
    index = w.call("llvm.umin.i64", kind, [(kind, index), (kind, last)])
    return MemoryAccess(buffer, index, happens, is_clamped=True)


# --- addresses


def address(
    emitter: FunctionEmitter, access: MemoryAccess, dtype: DataType, lanes_per_element: int, offset: int
) -> str:
    """A pointer to scalar number `offset` of the access; `dtype` is the scalar type."""
    w, buffer, index = emitter.w, access.buffer, access.index
    kind = "i64"
    if lanes_per_element > 1:
        index = w.emit(f"mul i64 {index}, {lanes_per_element}")
    if buffer.space == 3:
        index, kind = w.emit(f"trunc i64 {index} to i32"), "i32"  # shared memory has 32-bit addresses
    memory = conversions.memory_type(dtype)
    pointer = w.emit(f"getelementptr inbounds {memory}, {buffer.type} {buffer.pointer}, {kind} {index}")
    if offset:
        pointer = w.emit(f"getelementptr inbounds {memory}, {buffer.type} {pointer}, {kind} {offset}")
    return pointer


def _pieces(
    emitter: FunctionEmitter, op: Op, access: MemoryAccess, index: Value, moved: DataType
) -> Iterator[tuple[int, int, int]]:
    """The accesses that together move a value of type `moved`: (first scalar, scalars, alignment in bytes)."""
    buffer = emitter.context.program.buffers[op.attrs["buffer"]]
    size = moved.element.size_bytes or 1
    zeros = 0 if access.is_clamped else emitter.context.alignment.of(index)
    zeros += _trailing_zeros(buffer.dtype.lanes)
    aligned = min(ALIGNMENT, size << min(zeros, 8))
    wide = min(aligned // size, moved.lanes & -moved.lanes) or 1
    for first in range(0, moved.lanes, wide):
        yield first, wide, wide * size


def _trailing_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1


# --- load and store


def _load(emitter: FunctionEmitter, op: Op) -> None:
    (index,) = op.operands
    dtype = op.results[0].type
    per_element = emitter.context.program.buffers[op.attrs["buffer"]].dtype.lanes
    access = locate(emitter, op, index, dtype.lanes // per_element)

    def read() -> list[str]:
        elements: list[str] = []
        for first, wide, align in _pieces(emitter, op, access, index, dtype):
            pointer = address(emitter, access, dtype.element, per_element, first)
            elements += _read(emitter, access.buffer, pointer, dtype.element, wide, align)
        return elements

    if not access.happens:
        emitter.set(op, *read())
        return
    zero = SCALAR.const(0, dtype.element)
    emitter.values[op.results[0]] = tuple(guarded(emitter, access.happens, read, dtype, zero))


def _read(
    emitter: FunctionEmitter, buffer: BufferRef, pointer: str, dtype: DataType, wide: int, align: int
) -> list[str]:
    w, memory = emitter.w, conversions.memory_type(dtype)
    constant = f", !invariant.load {NO_METADATA}" if buffer.is_constant else ""
    kind = memory if wide == 1 else f"<{wide} x {memory}>"
    raw = w.emit(f"load {kind}, {buffer.type} {pointer}, align {align}{constant}")
    parts = [raw] if wide == 1 else [w.emit(f"extractelement {kind} {raw}, i32 {k}") for k in range(wide)]
    return [conversions.load_value(w, SCALAR, dtype, part) for part in parts]


def guarded(
    emitter: FunctionEmitter, happens: str, make: Callable[[], list[str]], dtype: DataType, otherwise: str
) -> list[str]:
    """The values that `make` writes code for, in a branch taken if `happens`; `otherwise` if not."""
    w = emitter.w
    inside, after, before = w.label("happens"), w.label("after"), w.block
    w.branch_if(happens, inside, after)
    w.start(inside)
    values, last = make(), w.block
    w.branch(after)
    w.start(after)
    kind = SCALAR.type(dtype.element)
    return [w.phi(kind, [(x, last), (otherwise, before)]) for x in values]


def _store(emitter: FunctionEmitter, op: Op) -> None:
    value, index = op.operands
    dtype = value.type
    per_element = emitter.context.program.buffers[op.attrs["buffer"]].dtype.lanes
    access = locate(emitter, op, index, dtype.lanes // per_element)
    elements = emitter.get(value)

    def write() -> list[str]:
        for first, wide, align in _pieces(emitter, op, access, index, dtype):
            pointer = address(emitter, access, dtype.element, per_element, first)
            _write(emitter, access.buffer, pointer, dtype.element, elements[first : first + wide], align)
        return []

    if access.happens:
        guarded(emitter, access.happens, write, dtype, "")
    else:
        write()


def _write(
    emitter: FunctionEmitter,
    buffer: BufferRef,
    pointer: str,
    dtype: DataType,
    elements: tuple[str, ...],
    align: int,
) -> None:
    w, memory = emitter.w, conversions.memory_type(dtype)
    raw = [conversions.store_value(w, SCALAR, dtype, x) for x in elements]
    value, kind = raw[0], memory
    if len(raw) > 1:
        value, kind = "poison", f"<{len(raw)} x {memory}>"
        for lane, part in enumerate(raw):
            value = w.emit(f"insertelement {kind} {value}, {memory} {part}, i32 {lane}")
    w.line(f"store {kind} {value}, {buffer.type} {pointer}, align {align}")


MEMORY_OPS: dict[str, Callable[[FunctionEmitter, Op], None]] = {"load": _load, "store": _store}
