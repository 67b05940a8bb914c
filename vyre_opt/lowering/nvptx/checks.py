"""Bounds checks of several loads at once, before the first of them.

A check between two loads makes the second wait for the branch behind the first, so that a lane has one load
in flight where it could have many.  Loads change nothing, so those of one block with nothing but loads and
arithmetic between them may all be checked before the first one: a fault among them is the same fault, since
the first in order is the one that is recorded.

    load @x[%i]    op    load @y[%j]    =>    if %i or %j is outside: fault    load @x[%i]    op    load @y[%j]
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.program import Block, Op, Value
from ...ir.types import DataType
from ..common import conversions
from ..common.lane_shape import SCALAR
from .function_emitter import FunctionEmitter
from .memory import access_width, is_in_bounds, is_outside

__all__ = ["check_ahead"]

MAX_LOADS = 32
"""Indices that are computed ahead take registers until their load."""


def check_ahead(emitter: FunctionEmitter, block: Block, start: int, write: Callable[[Op], None]) -> set[Op]:
    """Check the load at `start` and those after it that allow it; gives the ops that `write` has written for that.

    These are the pure ops behind `start` that compute an index.
    """
    context = emitter.context
    if context.bounds != "trap" or not _needs_check(emitter, block.ops[start]):
        return set()
    loads, ahead = _group(emitter, block, start)
    if len(loads) < 2:
        return set()
    for op in ahead:
        write(op)
    w = emitter.w
    failing, passing = w.label("fault"), w.label("fine")
    w.branch_if(_any_outside(emitter, loads), failing, passing)
    w.start(failing)
    # the last one that is outside is written first, and replaced by those before it
    site, index, length = "0", "0", "0"
    for op in reversed(loads):
        at = conversions.to_word(w, op.index.type, emitter.scalar(op.index))
        outside = _is_outside(emitter, op, at)
        number = emitter.fault_site(op, "bounds", _width(emitter, op))
        count = context.buffers[op.attrs["buffer"]].count
        site = w.emit(f"select i1 {outside}, i32 {number}, i32 {site}")
        index = w.emit(f"select i1 {outside}, i64 {at}, i64 {index}")
        length = w.emit(f"select i1 {outside}, i64 {count}, i64 {length}")
    emitter.branch_to_fault(site, index, length)
    w.start(passing)
    emitter.checked.update(loads)
    return set(ahead)


def _any_outside(emitter: FunctionEmitter, loads: list[Op]) -> str:
    """An i1.  Of indices of one type into one buffer, only the largest is compared, and in its own type found.

    A negative one is the largest, as they are compared without sign, and is so as a word, too.
    """
    w = emitter.w
    largest: dict[tuple[str, int, DataType], tuple[Op, str]] = {}
    for op in loads:
        key = op.attrs["buffer"], _width(emitter, op), op.index.type
        index, kind = emitter.scalar(op.index), SCALAR.type(op.index.type)
        if key in largest:
            index = w.call(f"llvm.umax.{kind}", kind, [(kind, largest[key][1]), (kind, index)])
        largest[key] = op, index
    failed = ""
    for op, index in largest.values():
        outside = _is_outside(emitter, op, conversions.to_word(w, op.index.type, index))
        failed = w.emit(f"or i1 {failed}, {outside}") if failed else outside
    return failed


def _group(emitter: FunctionEmitter, block: Block, start: int) -> tuple[list[Op], list[Op]]:
    """The loads to check together, and the ops between them that compute their indices, in order."""
    loads, ahead = [block.ops[start]], []
    between: dict[Value, Op] = {}
    """The pure ops since the first load, by their results."""
    late = set(block.ops[start].results)
    """Results of loads, and all values computed from them."""
    for op in block.ops[start + 1 :]:
        if (
            op.regions
            or op.definition.is_terminator
            or (op.definition.effects - {"fault"} and op.name != "load")
        ):
            break
        is_late = op.name == "load" or any(value in late for value in op.operands)
        if op.name == "load" and _needs_check(emitter, op):
            if op.index in late:
                break
            loads.append(op)
            ahead += _computing(op.index, between)
            if len(loads) == MAX_LOADS:
                break
        if is_late:
            late.update(op.results)
        else:
            between.update(dict.fromkeys(op.results, op))
    members = set(ahead)
    return loads, [op for op in block.ops[start + 1 :] if op in members]


def _computing(value: Value, between: dict[Value, Op]) -> list[Op]:
    """The ops that a value needs, taken out of `between`."""
    ops: list[Op] = []
    pending = [value]
    while pending:
        op = between.pop(pending.pop(), None)
        if op is not None:
            ops.append(op)
            pending += op.operands
    return ops


def _needs_check(emitter: FunctionEmitter, op: Op) -> bool:
    return op.name == "load" and not is_in_bounds(emitter, op)


def _width(emitter: FunctionEmitter, op: Op) -> int:
    return access_width(emitter, op, op.results[0].type)


def _is_outside(emitter: FunctionEmitter, op: Op, index: str) -> str:
    return is_outside(emitter, emitter.context.buffers[op.attrs["buffer"]], index, _width(emitter, op))
