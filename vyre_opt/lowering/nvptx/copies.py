"""Copies from storage to workgroup memory that run beside the arithmetic: cp.async, from sm_80 on.

    %v = load @x[%i] : vec<8 x bf16>             cp.async.cg.shared.global [t], [x], 16
    copy_async %v, @t[%j] : vec<8 x bf16>
    copy_wait 2                                  cp.async.commit_group; cp.async.wait_group 2

A copy of what a load read from a buffer that the kernel does not write reads it once more, and the load goes as unused.
Other copies are stores, and so are those of less than 4 bytes at an aligned place.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.program import Op, Value
from .function_emitter import FunctionEmitter
from .memory import ThreadAccess, address, aligned_bytes, locate, store

__all__ = ["COPY_OPS"]

FIRST = 80
SIZES = (16, 8, 4)


def _copy_async(emitter: FunctionEmitter, op: Op) -> None:
    value, index = op.operands
    source = _source(emitter, value)
    size = (value.type.element.size_bytes or 1) * value.type.lanes
    piece = 0
    if source is not None:
        alignment = emitter.context.alignment
        aligned = min(aligned_bytes(alignment, value.type, at, 1) for at in (index, source.index))
        piece = next((s for s in SIZES if s <= aligned and size % s == 0), 0)
    if source is None or not piece:
        store(emitter, op)
        return
    target = locate(emitter, op, index, value.type)
    origin = _found(emitter, source)
    element, w = value.type.element, emitter.w
    lanes = piece // (element.size_bytes or 1)
    name = f"llvm.nvvm.cp.async.{'cg' if piece == SIZES[0] else 'ca'}.shared.global.{piece}"
    for first in range(0, value.type.lanes, lanes):
        to, start = (address(emitter, access, element, 1, first) for access in (target, origin))
        w.call(name, "void", [("ptr addrspace(3)", to), ("ptr addrspace(1)", start)])


def _source(emitter: FunctionEmitter, value: Value) -> Op | None:
    """The load that a copy can do itself: of a buffer in storage that nobody writes meanwhile, and of its elements' bits."""
    op, context = value.owner, emitter.context
    if (
        context.target.number < FIRST
        or context.bounds == "clamp"
        or not isinstance(op, Op)
        or op.name != "load"
    ):
        return None
    buffer = context.buffers[op.attrs["buffer"]]
    declared = context.program.buffers[op.attrs["buffer"]].dtype
    is_plain = declared.lanes == 1 and not declared.is_bool
    return op if buffer.space == 1 and buffer.is_constant and is_plain else None


def _found(emitter: FunctionEmitter, load: Op) -> ThreadAccess:
    """The access of a load, whose bounds were checked when it was written."""
    emitter.checked.add(load)
    return locate(emitter, load, load.index, load.results[0].type)


def _copy_wait(emitter: FunctionEmitter, op: Op) -> None:
    if emitter.context.target.number >= FIRST:
        emitter.w.call("llvm.nvvm.cp.async.commit.group", "void", [])
        emitter.w.call("llvm.nvvm.cp.async.wait.group", "void", [("i32", str(op.attrs["pending"]))])


COPY_OPS: dict[str, Callable[[FunctionEmitter, Op], None]] = {
    "copy_async": _copy_async,
    "copy_wait": _copy_wait,
}
