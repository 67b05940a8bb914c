"""Structured control flow as blocks and phis.

    if      before -> then | else -> after          for     before -> body -> body | after
    while   before -> head -> body -> head | after

Loops stay rolled, so that the code's size and compile time do not grow with trip counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...analysis.value_forms import ValueForms
from ...ir import arith
from ...ir.loops import Bound, bounds, inits
from ...ir.program import Op, Value
from ...ir.types import DataType
from ..common import conversions
from ..common.lane_shape import SCALAR
from .calls import call
from .copies import copies_or_zeros
from .faults import poll
from .function_emitter import Elements, FunctionEmitter, RunBlock

__all__ = ["CONTROL_OPS", "has_positive_step"]


def _if(emitter: FunctionEmitter, op: Op, run: RunBlock) -> None:
    if copies_or_zeros(emitter, op, run):
        return
    w = emitter.w
    condition = emitter.scalar(op.operands[0])
    then, after = w.label("then"), w.label("after")
    otherwise = w.label("else") if len(op.regions) > 1 else after
    w.branch_if(condition, then, otherwise)
    predecessors: list[tuple[Sequence[Elements], str]] = []
    for block, label in zip(op.regions, (then, otherwise), strict=False):
        w.start(label)
        results = run(emitter, block)
        predecessors.append((results, w.block))
        w.branch(after)
    w.start(after)
    emitter.merge(op.results, predecessors)


def _region(emitter: FunctionEmitter, op: Op, run: RunBlock) -> None:
    emitter.values.update(zip(op.results, run(emitter, op.regions[0]), strict=True))


# --- loops


class _LoopPhis:
    """The phis of a loop's iteration arguments.

    Their lines are reserved at the loop's head and filled in by `close`, once the body is written and
    the yielded values are known.
    """

    def __init__(
        self, emitter: FunctionEmitter, args: Sequence[Value], initial: Sequence[Elements], before: str
    ) -> None:
        self.emitter = emitter
        self.before = before
        self.initial = initial
        self.phis: list[list[tuple[int, str]]] = []
        self.args = args
        for arg in args:
            phis = [emitter.reserve_phi() for _ in range(arg.type.lanes)]
            self.phis.append(phis)
            emitter.values[arg] = tuple(name for _, name in phis)

    def close(self, yielded: Sequence[Elements], latch: str) -> None:
        for arg, phis, start, end in zip(self.args, self.phis, self.initial, yielded, strict=True):
            for lane, (line, name) in enumerate(phis):
                incoming = [(start[lane], self.before), (end[lane], latch)]
                self.emitter.set_phi(line, name, arg.type.element, incoming)


def _for(emitter: FunctionEmitter, op: Op, run: RunBlock) -> None:
    """The counter goes lower, lower + step, ... while it is less than upper, and never wraps."""
    w, block = emitter.w, op.regions[0]
    counter, *args = block.args
    dtype = counter.type
    kind, sign = SCALAR.type(dtype), "s" if dtype.is_signed else "u"
    limits = bounds(op)
    if emitter.context.runs is not None and op in emitter.context.runs.ends:
        limits = (limits[0], emitter.context.runs.ends[op], limits[2])
    lower, upper, step = (_bound(emitter, bound, dtype) for bound in limits)
    initial = [emitter.get(value) for value in inits(op)]
    if emitter.context.bounds == "trap" and not has_positive_step(op, emitter.context.forms):
        _check_step(emitter, op, limits[2], step)
    before, start, after = w.block, w.label("loop"), w.label("after")
    w.branch_if(w.emit(f"icmp {sign}lt {kind} {lower}, {upper}"), start, after)
    w.start(start)
    counter_phi = _LoopPhis(emitter, [counter], [(lower,)], before)
    phis = _LoopPhis(emitter, args, initial, before)
    yielded = run(emitter, block)
    (current,) = emitter.get(counter)
    cannot_wrap = _cannot_wrap(limits, dtype)
    flag = f"n{sign}w " if cannot_wrap else ""
    next_value = w.emit(f"add {flag}{kind} {current}, {step}")
    continues = w.emit(f"icmp {sign}lt {kind} {next_value}, {upper}")
    if not cannot_wrap:
        # The counter does not grow if it wrapped, or if the step is 0 or less: either ends the loop
        grew = w.emit(f"icmp {sign}gt {kind} {next_value}, {current}")
        continues = w.emit(f"and i1 {continues}, {grew}")
    latch = w.block
    w.branch_if(continues, start, after)
    counter_phi.close([(next_value,)], latch)
    phis.close(yielded, latch)
    w.start(after)
    emitter.merge(op.results, [(initial, before), (yielded, latch)])


def has_positive_step(loop: Op, forms: ValueForms) -> bool:
    """Whether a `for` surely ends: with a step of 0 or less it never would."""
    step = bounds(loop)[2]
    return isinstance(step, int) or forms.expr(step).range()[0] > 0


def _bound(emitter: FunctionEmitter, bound: Bound, dtype: DataType) -> str:
    return str(arith.wrap(bound, dtype)) if isinstance(bound, int) else emitter.scalar(bound)


def _cannot_wrap(limits: tuple[Bound, Bound, Bound], dtype: DataType) -> bool:
    """Whether counter + step stays in the type for every counter below the upper bound."""
    _, upper, step = limits
    if not isinstance(step, int):
        return False
    highest = arith.int_range(dtype)[1]
    return step == 1 or (isinstance(upper, int) and upper - 1 + step <= highest)


def _check_step(emitter: FunctionEmitter, op: Op, value: Bound, step: str) -> None:
    assert isinstance(value, Value)
    w, dtype = emitter.w, value.type
    stuck = w.emit(f"icmp {'sle' if dtype.is_signed else 'eq'} {SCALAR.type(dtype)} {step}, 0")
    emitter.fault_if(stuck, op, "step", conversions.to_word(w, dtype, step), "0")


def _while(emitter: FunctionEmitter, op: Op, run: RunBlock) -> None:
    w = emitter.w
    condition, block = op.regions
    before, head, start, after = w.block, w.label("head"), w.label("body"), w.label("after")
    w.fall_into(head)
    phis = _LoopPhis(emitter, condition.args, [emitter.get(value) for value in op.operands], before)
    ((condition_value,),) = run(emitter, condition)
    w.branch_if(condition_value, start, after)
    w.start(start)
    for arg, outer in zip(block.args, condition.args, strict=True):
        emitter.values[arg] = emitter.get(outer)
    yielded = run(emitter, block)
    if emitter.context.may_fault and any("atomic" in inner.definition.effects for inner in op.walk()):
        # The loop may wait for an invocation that has faulted, and so never comes
        poll(emitter)
    phis.close(yielded, w.block)
    w.branch(head)
    w.start(after)
    for result, arg in zip(op.results, condition.args, strict=True):
        emitter.values[result] = emitter.get(arg)


# --- traps and asserts


def _trap(emitter: FunctionEmitter, op: Op, run: RunBlock) -> None:
    """Ops after a trap in its block are unreachable, but still need a block to be written to."""
    # of an access that is out of bounds, its indices and the open extents of its buffer
    first, second, third = (*(emitter.scalar(value) for value in op.operands), "0", "0", "0")[:3]
    params = emitter.context.params
    extents = tuple(params[extent] for extent in op.attrs.get("shape", ()) if isinstance(extent, str))
    emitter.fault(op, "trap", first, second, last=third, extents=extents)
    emitter.w.start(emitter.w.label("dead"))


def _assert(emitter: FunctionEmitter, op: Op, run: RunBlock) -> None:
    fails = emitter.w.emit(f"xor i1 {emitter.scalar(op.operands[0])}, true")
    emitter.fault_if(fails, op, "assert", "0", "0")


def _check_bounds(emitter: FunctionEmitter, op: Op, run: RunBlock) -> None:
    """Nothing where accesses are not checked, or clamped: to the tile, then."""
    if emitter.context.bounds != "trap" or op in emitter.context.proven:
        return
    w, index = emitter.w, op.operands[0]
    kind, words = SCALAR.type(index.type), [emitter.scalar(value) for value in op.operands]
    outside = w.emit(f"icmp uge {kind} {words[0]}, {words[1]}")
    element, end = (conversions.to_word(w, index.type, word) for word in words)
    emitter.fault_if(outside, op, "bounds", element, end)


CONTROL_OPS: dict[str, Callable[[FunctionEmitter, Op, RunBlock], None]] = {
    "if": _if,
    "region": _region,
    "for": _for,
    "while": _while,
    "call": call,
    "trap": _trap,
    "assert": _assert,
    "check_bounds": _check_bounds,
}
