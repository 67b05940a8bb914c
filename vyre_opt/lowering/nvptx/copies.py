"""Copies from storage to workgroup memory that run beside the arithmetic: cp.async, from sm_80 on, and runs of many from
sm_90 on (see copy_runs.py).

    %v = load @x[%i] : vec<8 x bf16>             cp.async.cg.shared.global [t], [x], 16
    copy_async %v, @t[%j] : vec<8 x bf16>
    copy_wait 2                                  cp.async.commit_group; cp.async.wait_group 2

A copy of what a load read from a buffer that the kernel does not write reads it once more, and the load goes as unused.
Other copies are stores, and so are those of less than 4 bytes at an aligned place.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.program import Op, Value
from .bulk_copies import copy_run, wait_for_groups
from .copy_runs import source
from .function_emitter import FunctionEmitter
from .memory import ThreadAccess, address, aligned_bytes, locate, store

__all__ = ["COPY_OPS"]

FIRST = 80
SIZES = (16, 8, 4)


def _copy_async(emitter: FunctionEmitter, op: Op) -> None:
    runs = emitter.context.runs
    if runs is not None and (run := runs.runs.get(op)):
        copy_run(emitter, op, run)
        return
    value, index = op.operands
    load = _constant_source(emitter, value)
    size = (value.type.element.size_bytes or 1) * value.type.lanes
    piece = 0
    if load is not None:
        alignment = emitter.context.alignment
        aligned = min(aligned_bytes(alignment, value.type, at, 1) for at in (index, load.index))
        piece = next((s for s in SIZES if s <= aligned and size % s == 0), 0)
    if load is None or not piece:
        store(emitter, op)
        return
    target = locate(emitter, op, index, value.type)
    origin = _found(emitter, load)
    element, w = value.type.element, emitter.w
    lanes = piece // (element.size_bytes or 1)
    name = f"llvm.nvvm.cp.async.{'cg' if piece == SIZES[0] else 'ca'}.shared.global.{piece}"
    for first in range(0, value.type.lanes, lanes):
        to, start = (address(emitter, access, element, 1, first) for access in (target, origin))
        w.call(name, "void", [("ptr addrspace(3)", to), ("ptr addrspace(1)", start)])


def _constant_source(emitter: FunctionEmitter, value: Value) -> Op | None:
    """The load that a copy can do itself, of a buffer that nobody writes meanwhile."""
    context, load = emitter.context, source(emitter.context.program, value)
    if load is None or context.target.number < FIRST or context.bounds == "clamp":
        return None
    return load if context.buffers[load.attrs["buffer"]].is_constant else None


def _found(emitter: FunctionEmitter, load: Op) -> ThreadAccess:
    """The access of a load, whose bounds were checked when it was written."""
    emitter.checked.add(load)
    return locate(emitter, load, load.index, load.results[0].type)


def _copy_wait(emitter: FunctionEmitter, op: Op) -> None:
    context, pending = emitter.context, op.attrs["pending"]
    if context.target.number >= FIRST and (context.runs is None or not context.runs.are_all):
        emitter.w.call("llvm.nvvm.cp.async.commit.group", "void", [])
        emitter.w.call("llvm.nvvm.cp.async.wait.group", "void", [("i32", str(pending))])
    if context.runs is not None:
        wait_for_groups(emitter, pending)


COPY_OPS: dict[str, Callable[[FunctionEmitter, Op], None]] = {
    "copy_async": _copy_async,
    "copy_wait": _copy_wait,
}
