"""Loads and stores.

An access that is not proven in bounds is left alone, clamped or checked, as `bounds`
says.  A vector is moved in pieces as wide as its proven alignment allows, 16 bytes at most; where that is less, the lanes
of a subgroup load theirs together (see subgroup_loads.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...analysis.alignment import Alignment
from ...ir.program import Op, Value
from ...ir.types import DataType
from ...records import dataclass
from ..common import conversions
from ..common.lane_shape import SCALAR, LaneShape
from .abi import ALIGNMENT
from .exchange import send
from .function_emitter import NO_METADATA, BufferRef, FunctionEmitter
from .subgroup_loads import exchanged_at_once, load_together
from .values import as_vector, words_of

__all__ = [
    "MEMORY_OPS",
    "ThreadAccess",
    "access_width",
    "address",
    "aligned_bytes",
    "guarded",
    "is_in_bounds",
    "is_outside",
    "locate",
    "store",
]


@dataclass(frozen=True, slots=True)
class ThreadAccess:
    """An access to `buffer` from element `index` (i64) + `offset` on.

    `happens`: an i1 that must hold for the access to take place, or "" for always.
    `is_clamped`: the index may be any number, so nothing is known of its alignment.
    `owner`: the number (i32) of the workgroup whose row the index is of; "" in a whole buffer.
    """

    buffer: BufferRef
    index: str
    offset: int = 0
    happens: str = ""
    is_clamped: bool = False
    owner: str = ""


def locate(emitter: FunctionEmitter, op: Op, value: Value, moved: DataType) -> ThreadAccess:
    """The access that moves a `moved` at the index `value`, with the check or clamp that `bounds` asks for."""
    context = emitter.context
    width = access_width(emitter, op, moved)
    buffer = context.buffers[op.attrs["buffer"]]
    index = conversions.to_word(emitter.w, value.type, emitter.scalar(value))
    if context.bounds != "none" and not is_in_bounds(emitter, op):
        if context.bounds == "clamp":
            return _clamped(emitter, buffer, index, value.type.is_signed, width)
        emitter.fault_if(is_outside(emitter, buffer, index, width), op, "bounds", index, buffer.count, width)
    offset = 0
    if op in context.bases:
        # accesses from one base differ in a constant of the instruction only
        base, offset = context.bases[op][-1]
        index = conversions.to_word(emitter.w, base.type, emitter.scalar(base))
    return _in_row(emitter, buffer, index, offset) if buffer.row else ThreadAccess(buffer, index, offset)


def _in_row(emitter: FunctionEmitter, buffer: BufferRef, index: str, offset: int) -> ThreadAccess:
    """The access in the row of the workgroup that owns it; the base is in the same row, see owned_rows.py."""
    w = emitter.w
    narrow = w.emit(f"trunc i64 {index} to i32")
    owner = w.emit(f"udiv i32 {narrow}, {buffer.row}")
    within = w.emit(f"zext i32 {w.emit(f'urem i32 {narrow}, {buffer.row}')} to i64")
    return ThreadAccess(buffer, within, offset, owner=owner)


def is_in_bounds(emitter: FunctionEmitter, op: Op) -> bool:
    """Whether an access is proven to be in bounds, or was checked before."""
    return op in emitter.context.proven or op in emitter.checked


def access_width(emitter: FunctionEmitter, op: Op, moved: DataType) -> int:
    """The number of elements of the buffer that an access moves a `moved` from or to."""
    return moved.lanes // emitter.context.program.buffers[op.attrs["buffer"]].dtype.lanes


def is_outside(emitter: FunctionEmitter, buffer: BufferRef, index: str, width: int) -> str:
    """An i1: index > count - width, unsigned, or count < width."""
    w, count = emitter.w, buffer.count
    # Unsigned, so that a negative index is larger than any count
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
) -> ThreadAccess:
    """The access at the nearest index in bounds.

    In a buffer shorter than `width` there is none: no access happens, and a load gives 0.
    """
    w, count = emitter.w, buffer.count
    kind = "i64"
    if is_signed:
        index = w.call("llvm.smax.i64", kind, [(kind, index), (kind, "0")])
    if count.startswith("%"):
        last = w.emit(f"sub i64 {count}, {width}")
        happens = w.emit(f"icmp uge i64 {count}, {width}")
    else:
        last = str(max(0, int(count) - width))
        happens = "" if int(count) >= width else "false"
    index = w.call("llvm.umin.i64", kind, [(kind, index), (kind, last)])
    return ThreadAccess(buffer, index, 0, happens, is_clamped=True)


# --- addresses


def address(
    emitter: FunctionEmitter, access: ThreadAccess, dtype: DataType, lanes_per_element: int, offset: int
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
    offset += access.offset * lanes_per_element
    if offset:
        pointer = w.emit(f"getelementptr inbounds {memory}, {buffer.type} {pointer}, {kind} {offset}")
    return pointer


def _pieces(
    emitter: FunctionEmitter, op: Op, access: ThreadAccess, index: Value, moved: DataType
) -> Iterator[tuple[int, int, str]]:
    """The accesses that together move a value of type `moved`: (first scalar, scalars, pointer)."""
    buffer = emitter.context.program.buffers[op.attrs["buffer"]]
    size = moved.element.size_bytes or 1
    aligned = size
    if not access.is_clamped:
        aligned = aligned_bytes(emitter.context.alignment, moved, index, buffer.dtype.lanes)
    # Pieces of equal width, a power of two: a vec3 moves as three scalars
    wide = min(aligned // size, moved.lanes & -moved.lanes) or 1
    for first in range(0, moved.lanes, wide):
        yield first, wide, address(emitter, access, moved.element, buffer.dtype.lanes, first)


def _aligned(access: ThreadAccess, pointer: str, moved: DataType, wide: int) -> str:
    """The operand of a load or store of so many scalars at a pointer."""
    return f"{access.buffer.type} {pointer}, align {wide * (moved.element.size_bytes or 1)}"


def aligned_bytes(alignment: Alignment, moved: DataType, index: Value, lanes_per_element: int) -> int:
    """Alignment in bytes, up to 16, that the place of an element surely has."""
    zeros = alignment.of(index) + _trailing_zeros(lanes_per_element)
    return min(ALIGNMENT, (moved.element.size_bytes or 1) << min(zeros, 8))


def _trailing_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1


# --- load and store


def _load(emitter: FunctionEmitter, op: Op) -> None:
    (index,) = op.operands
    w, dtype = emitter.w, op.results[0].type
    access = locate(emitter, op, index, dtype)
    memory = conversions.memory_type(dtype.element)
    # Lets LLVM read a buffer that nobody writes through the read-only cache
    constant = f", !invariant.load {NO_METADATA}" if access.buffer.is_constant else ""

    def raw() -> list[str]:
        elements: list[str] = []
        for _, wide, pointer in _pieces(emitter, op, access, index, dtype):
            kind = LaneShape(wide).of(memory)
            piece = w.emit(f"load {kind}, {_aligned(access, pointer, dtype, wide)}{constant}")
            elements += (
                [w.emit(f"extractelement {kind} {piece}, i32 {k}") for k in range(wide)]
                if wide > 1
                else [piece]
            )
        return elements

    def read() -> list[str]:
        count = _exchanged_at_once(emitter, op, access, index, dtype)
        if count:
            place = w.emit(f"add i64 {access.index}, {access.offset}") if access.offset else access.index
            elements = load_together(emitter, access.buffer, place, dtype, count, raw)
        else:
            elements = raw()
        return [conversions.load_value(w, SCALAR, dtype.element, element) for element in elements]

    emitter.set(op, *guarded(emitter, access.happens, read, dtype))


def _exchanged_at_once(
    emitter: FunctionEmitter, op: Op, access: ThreadAccess, index: Value, dtype: DataType
) -> int:
    """Number of elements of a vector without alignment that the lanes of a subgroup exchange at once; 0 for none."""
    buffer = emitter.context.program.buffers[op.attrs["buffer"]]
    is_elsewhere = access.buffer.space != 1 or access.owner or access.happens or access.is_clamped
    if is_elsewhere or dtype.lanes == 1 or buffer.dtype.is_vec:
        return 0
    is_aligned = aligned_bytes(emitter.context.alignment, dtype, index, 1) == ALIGNMENT
    return 0 if is_aligned else exchanged_at_once(emitter, dtype)


def guarded(
    emitter: FunctionEmitter, happens: str, make: Callable[[], list[str]], dtype: DataType
) -> list[str]:
    """The values that `make` writes code for, in a branch taken if `happens`; 0 if not."""
    if not happens:
        return make()
    w = emitter.w
    inside, after, before = w.label("happens"), w.label("after"), w.block
    w.branch_if(happens, inside, after)
    w.start(inside)
    values, last = make(), w.block
    w.fall_into(after)
    kind, zero = SCALAR.type(dtype.element), SCALAR.const(0, dtype.element)
    return [w.phi(kind, [(x, last), (zero, before)]) for x in values]


def store(emitter: FunctionEmitter, op: Op) -> None:
    """A store, or a copy that is done as one."""
    value, index = op.operands
    dtype = value.type
    access = locate(emitter, op, index, dtype)
    elements, memory = emitter.get(value), conversions.memory_type(dtype.element)

    def write() -> list[str]:
        for first, wide, pointer in _pieces(emitter, op, access, index, dtype):
            lanes = elements[first : first + wide]
            if access.buffer.has_replicas:
                words = [w for lane in lanes for w in words_of(emitter, dtype.element, lane)]
                send(emitter, pointer, words, access.owner)
                continue
            raw = [conversions.store_value(emitter.w, SCALAR, dtype.element, lane) for lane in lanes]
            operand = _aligned(access, pointer, dtype, wide)
            emitter.w.line(f"store {LaneShape(wide).of(memory)} {as_vector(emitter, raw, memory)}, {operand}")
        return []

    guarded(emitter, access.happens, write, dtype)


MEMORY_OPS: dict[str, Callable[[FunctionEmitter, Op], None]] = {"load": _load, "store": store}
