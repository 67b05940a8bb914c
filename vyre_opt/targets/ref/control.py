"""Control flow: each op runs its blocks on the lanes that enter them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...execution.faults import asserted, bad_step, out_of_checked_bounds, trapped
from ...ir import arith
from ...ir.loops import bounds, inits
from ...ir.program import Block, Op, Value
from .frame import Frame
from .machine import Machine
from .registers import constant_register, register_type

Array = np.ndarray


def bind(frame: Frame, values: Sequence[Value], arrays: Sequence[Array]) -> None:
    frame.values.update(zip(values, arrays, strict=True))


def if_(machine: Machine, frame: Frame, op: Op) -> None:
    condition = frame.get(op.operands[0])
    if condition.all() or not condition.any():
        block = _branch(op, bool(condition[0]))
        bind(frame, op.results, machine.run_block(frame, block))
        return
    for result in op.results:
        frame.values[result] = empty(frame.size, result)
    for holds in (True, False):
        inner = frame.narrow(condition if holds else ~condition)
        yielded = machine.run_block(inner, _branch(op, holds))
        for result, values in zip(op.results, yielded, strict=True):
            frame.values[result][inner.picked] = values


def _branch(op: Op, condition: bool) -> Block:
    if condition:
        return op.regions[0]
    return op.regions[1] if len(op.regions) > 1 else Block()


def empty(size: int, value: Value) -> Array:
    """An uninitialised array of values of `value` in `size` lanes."""
    shape = (size, value.type.lanes) if value.type.lanes > 1 else (size,)
    return np.empty(shape, register_type(value.type))


def region(machine: Machine, frame: Frame, op: Op) -> None:
    bind(frame, op.results, machine.run_block(frame, op.regions[0]))


def call(machine: Machine, frame: Frame, op: Op) -> None:
    func = machine.funcs[op.attrs["callee"]]
    bind(frame, func.params, [frame.get(value) for value in op.operands])
    bind(frame, op.results, machine.run_block(frame, func.body))


def trap(machine: Machine, frame: Frame, op: Op) -> None:
    raise trapped(machine.program, op, machine.invocation_at(frame, 0))


def assert_(machine: Machine, frame: Frame, op: Op) -> None:
    holds = frame.get(op.operands[0])
    if not holds.all():
        raise asserted(machine.program, op, machine.invocation_at(frame, int(np.argmin(holds))))


def check_bounds(machine: Machine, frame: Frame, op: Op) -> None:
    index, length = (frame.get(value) for value in op.operands)
    outside = index >= length
    if outside.any():
        lane = int(np.argmax(outside))
        element, end = (int(values[lane % len(values)]) for values in (index, length))
        raise out_of_checked_bounds(machine.program, op, element, end, machine.invocation_at(frame, lane))


def debug_print(machine: Machine, frame: Frame, op: Op) -> None:
    machine.prints.add(frame, op)


def breakpoint_(machine: Machine, frame: Frame, op: Op) -> None:
    """Nothing: an observer stops before it."""


# --- loops


class _LoopLanes:
    """The lanes that are still in a loop, as `frame`, and the values that they carry.

    `results`: of the lanes that have left; None as long as all lanes are still in the loop.
    """

    def __init__(self, frame: Frame, op: Op, carried: list[Array]) -> None:
        self.outer = frame
        self.op = op
        self.frame = frame
        self.carried = carried
        self.results: list[Array] | None = None

    def keep(self, stays: Array) -> bool:
        """Let only the lanes where `stays` holds go on.  False if no lane stays."""
        if len(stays) == 1 or stays.all() or not stays.any():
            return bool(stays[0])
        self._leave(~stays)
        lanes = self._outer_lanes(stays)
        self.carried = [c if len(c) == 1 else c[stays] for c in self.carried]
        self.frame = Frame(self.outer.batch, self.outer, lanes)
        return True

    def _outer_lanes(self, selected: Array) -> Array:
        """The indices, in the outer frame, of the lanes of this frame where `selected` holds."""
        if self.frame.picked is None or self.frame is self.outer:
            return np.flatnonzero(selected)
        lanes: Array = self.frame.picked[selected]
        return lanes

    def _leave(self, leaves: Array) -> None:
        if self.results is None:
            self.results = [empty(self.outer.size, result) for result in self.op.results]
        lanes = self._outer_lanes(leaves)
        # the carried values of a `for` end with its counter and bounds, which are no results
        for result, array in zip(self.results, self.carried, strict=False):
            result[lanes] = array if len(array) == 1 else array[leaves]

    def finish(self) -> None:
        """Bind the results, when no lane stays."""
        if self.results is not None:
            self._leave(np.ones(self.frame.size, np.bool_))
        # where all lanes left together, the carried values are the results, uniform ones included
        results = self.carried if self.results is None else self.results
        bind(self.outer, self.op.results, results[: len(self.op.results)])


def while_(machine: Machine, frame: Frame, op: Op) -> None:
    condition, body = op.regions
    loop = _LoopLanes(frame, op, [frame.get(value) for value in inits(op)])
    while True:
        bind(loop.frame, condition.args, loop.carried)
        (stays,) = machine.run_block(loop.frame, condition)
        if not loop.keep(stays):
            break
        bind(loop.frame, body.args, loop.carried)
        loop.carried = machine.run_block(loop.frame, body)
    loop.finish()


def for_(machine: Machine, frame: Frame, op: Op) -> None:
    """Counts lower, lower + step, ... while less than upper; stops where the sum would wrap.

    The counter, the upper bound and the step may differ between lanes, so they are carried too, behind
    the loop's own values.
    """
    body = op.regions[0]
    variable = body.args[0].type
    lower, upper, step = (
        constant_register(arith.wrap(bound, variable), variable)
        if isinstance(bound, int)
        else frame.get(bound)
        for bound in bounds(op)
    )
    _check_step(machine, frame, op, step)
    carried = [frame.get(value) for value in inits(op)]
    count = len(carried)
    loop = _LoopLanes(frame, op, [*carried, lower, upper, step])
    stays = lower < upper
    while loop.keep(stays):
        counter, upper, step = loop.carried[count:]
        bind(loop.frame, body.args, [counter, *loop.carried[:count]])
        yielded = machine.run_block(loop.frame, body)
        next_counter = counter + step
        # the second comparison is false where the sum wrapped
        stays = (next_counter < upper) & (next_counter > counter)
        loop.carried = [*yielded, next_counter, upper, step]
    loop.finish()


def _check_step(machine: Machine, frame: Frame, op: Op, step: Array) -> None:
    invalid = step <= 0
    if invalid.any():
        lane = int(np.argmax(invalid))
        raise bad_step(machine.program, op, int(step[lane]), machine.invocation_at(frame, lane))
