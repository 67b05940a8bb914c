"""Long vectors that lie apart in memory, as rows do, and that all lanes of a subgroup load together:

    %mask = activemask                                 all lanes are here, together, and
    if %mask == all lanes && the places are            their places are equally far apart
        equally far apart {
      for each lane k:  %k = the vector of lane k,     neighbouring elements to neighbouring lanes:
          an element a lane                            few lines of memory a load
      exchange: lane k gets the elements of its own    through workgroup memory, a row of which is
                                                       an element longer, against conflicts of banks
    } else {
      load the own elements
    }

Which lanes are together is the hardware's choice, so nothing but the speed depends on it.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.ops import SUBGROUP_SIZE
from ...ir.types import DataType
from ..common import conversions
from .function_emitter import NO_METADATA, BufferRef, FunctionEmitter
from .subgroup_ops import WHOLE, move
from .values import lane, subgroup

__all__ = ["declare_tile", "exchanged_at_once", "load_together"]

FEWEST_BYTES = 32
"""Least bytes of a vector that lanes load together: a sector of memory."""


def exchanged_at_once(emitter: FunctionEmitter, dtype: DataType) -> int:
    """Number of elements of a vector that lanes exchange at once, a power of two; 0 if each loads its own ones."""
    context, size = emitter.context, dtype.element.size_bytes or 1
    if context.program.lanes < SUBGROUP_SIZE or dtype.lanes * size < FEWEST_BYTES:
        return 0
    count = min(dtype.lanes & -dtype.lanes, SUBGROUP_SIZE)
    while count * size >= FEWEST_BYTES and _tile_bytes(emitter, dtype, count) > context.free_shared:
        count //= 2
    return count if count * size >= FEWEST_BYTES else 0


def _tile_bytes(emitter: FunctionEmitter, dtype: DataType, count: int) -> int:
    return _subgroups(emitter) * SUBGROUP_SIZE * (count + 1) * (dtype.element.size_bytes or 1)


def _subgroups(emitter: FunctionEmitter) -> int:
    return emitter.context.program.lanes // SUBGROUP_SIZE


def declare_tile(emitter: FunctionEmitter) -> None:
    """Declare the workgroup memory of the exchanges that were written, if there are any."""
    context = emitter.context
    if context.exchanged:
        kind = f"[{context.exchanged} x i8]"
        context.text.globals.append(f"{_tile(emitter)} = internal addrspace(3) global {kind} undef, align 8")


def _tile(emitter: FunctionEmitter) -> str:
    return f"@{emitter.context.symbol}.exchange"


def load_together(
    emitter: FunctionEmitter,
    buffer: BufferRef,
    index: str,
    dtype: DataType,
    count: int,
    alone: Callable[[], list[str]],
) -> list[str]:
    """The elements, of the memory type, of the vector from `index` (i64) of a buffer in global memory on.

    `count`: see `exchanged_at_once`.  `alone` writes the loads of a lane that loads its own ones.
    """
    w = emitter.w
    column = w.emit(f"and i32 {lane(emitter)}, {count - 1}")
    mask = w.call("llvm.nvvm.activemask", "i32", [])
    meet, together, apart, after = (w.label(name) for name in ("meet", "together", "apart", "loaded"))
    w.branch_if(w.emit(f"icmp eq i32 {mask}, {WHOLE}"), meet, apart)

    w.start(meet)
    leader = w.emit(f"and i32 {lane(emitter)}, {-count}")
    second = w.emit(f"or i32 {leader}, 1")
    first, next_one = (move(emitter, DataType.U64, index, "idx", each, WHOLE) for each in (leader, second))
    stride = w.emit(f"sub i64 {next_one}, {first}")
    wide_column = w.emit(f"zext i32 {column} to i64")
    expected = w.emit(f"add i64 {first}, {w.emit(f'mul i64 {wide_column}, {stride}')}")
    votes = w.call(
        "llvm.nvvm.vote.ballot.sync",
        "i32",
        [("i32", WHOLE), ("i1", w.emit(f"icmp eq i64 {expected}, {index}"))],
    )
    w.branch_if(w.emit(f"icmp eq i32 {votes}, {WHOLE}"), together, apart)

    w.start(together)
    if not buffer.is_constant:  # what a lane has stored, another one may load for it
        w.call("llvm.nvvm.bar.warp.sync", "void", [("i32", WHOLE)])
    place = w.emit(f"add i64 {first}, {wide_column}")
    loaded = _load_across(emitter, buffer, place, stride, dtype, count)
    exchanged = [
        element
        for start in range(0, dtype.lanes, count)
        for element in _exchange(emitter, loaded[start : start + count], dtype, leader, column)
    ]
    last = w.block
    w.branch(after)

    w.start(apart)
    own, last_apart = alone(), w.block
    w.fall_into(after)
    kind = conversions.memory_type(dtype.element)
    return [w.phi(kind, [(a, last), (b, last_apart)]) for a, b in zip(exchanged, own, strict=True)]


def _load_across(
    emitter: FunctionEmitter, buffer: BufferRef, place: str, stride: str, dtype: DataType, count: int
) -> list[str]:
    """Number `start + k`: this lane's column of the vector of lane k of its group, in the part from `start` on."""
    w, kind = emitter.w, conversions.memory_type(dtype.element)
    constant = f", !invariant.load {NO_METADATA}" if buffer.is_constant else ""
    pointer = w.emit(f"getelementptr inbounds {kind}, {buffer.type} {buffer.pointer}, i64 {place}")
    rows = [pointer]
    for _ in range(count - 1):
        rows.append(w.emit(f"getelementptr inbounds {kind}, {buffer.type} {rows[-1]}, i64 {stride}"))
    loaded: list[str] = []
    for start in range(0, dtype.lanes, count):
        for row in rows:
            at = w.emit(f"getelementptr inbounds {kind}, {buffer.type} {row}, i64 {start}") if start else row
            operand = f"{buffer.type} {at}, align {dtype.element.size_bytes}"
            loaded.append(w.emit(f"load {kind}, {operand}{constant}"))
    return loaded


def _exchange(
    emitter: FunctionEmitter, loaded: list[str], dtype: DataType, leader: str, column: str
) -> list[str]:
    """Exchange loaded elements so that this lane gets its own; each lane has loaded a column."""
    context, w, count = emitter.context, emitter.w, len(loaded)
    context.exchanged = max(context.exchanged, _tile_bytes(emitter, dtype, count))
    kind, pointer, pitch = conversions.memory_type(dtype.element), "ptr addrspace(3)", count + 1
    start = w.emit(f"mul i32 {subgroup(emitter)}, {SUBGROUP_SIZE * pitch}")
    there, here = (
        w.emit(f"add i32 {start}, {w.emit(f'mul i32 {row}, {pitch}')}") for row in (leader, lane(emitter))
    )
    at = w.emit(
        f"getelementptr inbounds {kind}, {pointer} {_tile(emitter)}, i32 {w.emit(f'add i32 {there}, {column}')}"
    )
    align = f"align {dtype.element.size_bytes}"
    for row, value in enumerate(loaded):
        to = w.emit(f"getelementptr inbounds {kind}, {pointer} {at}, i32 {row * pitch}")
        w.line(f"store {kind} {value}, {pointer} {to}, {align}")
    w.call("llvm.nvvm.bar.warp.sync", "void", [("i32", WHOLE)])
    mine = w.emit(f"getelementptr inbounds {kind}, {pointer} {_tile(emitter)}, i32 {here}")
    elements: list[str] = []
    for k in range(count):
        place = w.emit(f"getelementptr inbounds {kind}, {pointer} {mine}, i32 {k}")
        elements.append(w.emit(f"load {kind}, {pointer} {place}, {align}"))
    w.call("llvm.nvvm.bar.warp.sync", "void", [("i32", WHOLE)])  # before others write the next ones there
    return elements
