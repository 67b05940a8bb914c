"""Copies from storage to workgroup memory that run beside the arithmetic: cp.async, from sm_80 on, and runs of many from
sm_90 on (see copy_runs.py).

    %v = load @x[%i] : vec<8 x bf16>             cp.async.cg.shared.global [t], [x], 16
    copy_async %v, @t[%j] : vec<8 x bf16>
    copy_wait 2                                  cp.async.commit_group; cp.async.wait_group 2

A copy of what a load read from a buffer that the kernel does not write reads it once more, and the load goes as unused.
Other copies are stores, and so are those of less than 4 bytes at an aligned place.

Where zeros are stored in the place of what is not there, the copy writes them, and there is no branch:

    if %inside { %v = load @x[%i]                cp.async.ca.shared.global [t], [x], 4, %inside ? 4 : 0
                 copy_async %v, @t[%j] }
    else { store 0.0, @t[%j] }
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign

from ...ir.program import Block, Op, Value
from ...ir.rewrite import constant_value
from .bulk_copies import copy_run, wait_for_groups
from .copy_runs import source
from .function_emitter import FunctionEmitter, RunBlock
from .memory import ThreadAccess, address, aligned_bytes, is_in_bounds, locate, store

__all__ = ["COPY_OPS", "copies_or_zeros"]

FIRST = 80
SIZES = (16, 8, 4)
MAX_DEPTH = 16
"""Ops that an index is computed by one after the other, as far as they are compared with those of another one."""


def _copy_async(emitter: FunctionEmitter, op: Op) -> None:
    runs = emitter.context.runs
    if runs is not None and (run := runs.runs.get(op)):
        copy_run(emitter, op, run)
        return
    load, piece = _load_and_bytes(emitter, op)
    if load is None:
        store(emitter, op)
    else:
        _copy(emitter, op, load, piece)


def _load_and_bytes(emitter: FunctionEmitter, op: Op) -> tuple[Op | None, int]:
    """The load of what a copy moves by itself, and the bytes that it moves at a time; None for a copy that is a store."""
    value, index = op.operands
    load = _constant_source(emitter, value)
    if load is None:
        return None, 0
    size = (value.type.element.size_bytes or 1) * value.type.lanes
    alignment = emitter.context.alignment
    aligned = min(aligned_bytes(alignment, value.type, at, 1) for at in (index, load.index))
    piece = next((s for s in SIZES if s <= aligned and size % s == 0), 0)
    return (load, piece) if piece else (None, 0)


def _copy(emitter: FunctionEmitter, op: Op, load: Op, piece: int, condition: str = "") -> None:
    """`condition`: an i1; where it does not hold, zeros are written and nothing is read."""
    value, index = op.operands
    target = locate(emitter, op, index, value.type)
    origin = _locate(emitter, load)
    element, w = value.type.element, emitter.w
    lanes = piece // (element.size_bytes or 1)
    name = f"llvm.nvvm.cp.async.{'cg' if piece == SIZES[0] else 'ca'}.shared.global.{piece}"
    size = [("i32", w.emit(f"select i1 {condition}, i32 {piece}, i32 0"))] if condition else []
    for first in range(0, value.type.lanes, lanes):
        to, start = (address(emitter, access, element, 1, first) for access in (target, origin))
        suffix = ".s" if condition else ""
        w.call(name + suffix, "void", [("ptr addrspace(3)", to), ("ptr addrspace(1)", start), *size])


def copies_or_zeros(emitter: FunctionEmitter, op: Op, run: RunBlock) -> bool:
    """Write an `if` that copies, or stores zeros in the same place, without a branch; whether it is one."""
    blocks = [[each for each in block.ops if not each.definition.is_terminator] for block in op.regions]
    if len(blocks) < 2 or not all(blocks) or op.results:
        return False
    (*before, copy), (*others, zeros) = blocks
    if copy.name != "copy_async" or zeros.name != "store" or copy.attrs["buffer"] != zeros.attrs["buffer"]:
        return False
    value, (zero, place), runs = copy.operands[0], zeros.operands, emitter.context.runs
    if zero.type is not value.type or not _is_zero(zero) or not _is_same(place, copy.index):
        return False
    load, piece = _load_and_bytes(emitter, copy)
    if load not in before or (runs is not None and copy in runs.runs):
        return False
    if emitter.context.bounds != "none" and not is_in_bounds(emitter, load):
        return False
    pure = [each for each in before if each is not load]
    if not all(each.definition.is_pure and not each.regions for each in (*pure, *others)):
        return False
    if any(value in each.operands for each in pure):
        return False
    run(emitter, Block((), pure))
    _copy(emitter, copy, load, piece, emitter.scalar(op.operands[0]))
    return True


def _is_same(a: Value, c: Value, depth: int = MAX_DEPTH) -> bool:
    """Whether two values are computed by the same ops of the same values."""
    first, second = a.owner, c.owner
    if a is c or not isinstance(first, Op) or not isinstance(second, Op) or not depth:
        return a is c
    return (
        first.definition is second.definition
        and first.definition.is_pure
        and not first.regions
        and a.type is c.type
        and first.attrs == second.attrs
        and all(_is_same(x, y, depth - 1) for x, y in zip(first.operands, second.operands, strict=True))
    )


def _is_zero(value: Value) -> bool:
    """Whether all bits of a constant, or of a vector of one, are zeros."""
    op = value.owner
    if isinstance(op, Op) and op.name in ("splat", "vector"):
        return all(map(_is_zero, op.operands))
    number = constant_value(value)
    return number == 0 and copysign(1.0, float(number)) > 0


def _constant_source(emitter: FunctionEmitter, value: Value) -> Op | None:
    """The load that a copy can do itself, of a buffer that nobody writes meanwhile."""
    context, load = emitter.context, source(emitter.context.program, value)
    if load is None or context.target.number < FIRST or context.bounds == "clamp":
        return None
    return load if context.buffers[load.attrs["buffer"]].is_constant else None


def _locate(emitter: FunctionEmitter, load: Op) -> ThreadAccess:
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
