"""Control flow: each op runs its blocks on the lanes that take them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import arith
from ...ir.loops import BOUND_NAMES, bounds, inits
from ...ir.program import Block, Op, Value
from ..dispatcher import BackendError
from .frame import Frame
from .machine import Machine
from .registers import constant_register, register_type

Array = np.ndarray
MAX_CALL_DEPTH = 64


def bind(frame: Frame, values: Sequence[Value], arrays: Sequence[Array]) -> None:
    frame.values.update(zip(values, arrays, strict=True))


def if_(machine: Machine, frame: Frame, op: Op) -> None:
    taken = frame.get(op.operands[0])
    if taken.all() or not taken.any():
        block = _branch(op, bool(taken[0]))
        bind(frame, op.results, machine.run_block(frame, block))
        return
    sides = [(frame.narrow(side), _branch(op, holds)) for holds, side in ((True, taken), (False, ~taken))]
    given = [machine.run_block(inner, block) for inner, block in sides]
    for place, result in enumerate(op.results):
        merged = empty(frame.size, result)
        for (inner, _), values in zip(sides, given, strict=True):
            merged[inner.picked] = values[place]
        frame.values[result] = merged


def _branch(op: Op, holds: bool) -> Block:
    if holds:
        return op.regions[0]
    return op.regions[1] if len(op.regions) > 1 else Block()


def empty(size: int, value: Value) -> Array:
    """Room for `value` in each of `size` lanes."""
    shape = (size, value.type.lanes) if value.type.is_vec else (size,)
    return np.empty(shape, register_type(value.type))


def region(machine: Machine, frame: Frame, op: Op) -> None:
    bind(frame, op.results, machine.run_block(frame, op.regions[0]))


def call(machine: Machine, frame: Frame, op: Op) -> None:
    func = machine.funcs[op.attrs["callee"]]
    machine.call_depth += 1
    if machine.call_depth > MAX_CALL_DEPTH:
        raise BackendError(
            f"program @{machine.program.name}: calls of @{func.name} nest deeper than {MAX_CALL_DEPTH}"
        )
    bind(frame, func.params, [frame.get(value) for value in op.operands])
    bind(frame, op.results, machine.run_block(frame, func.body))
    machine.call_depth -= 1


def trap(machine: Machine, frame: Frame, op: Op) -> None:
    raise machine.fault("trap", op, f"trap: {op.attrs['message']}; reached by {machine.who(frame, 0)}")


# --- loops


class Loop:
    """The lanes still in a loop, what they carry, and the results of those that left."""

    def __init__(self, frame: Frame, op: Op, carried: list[Array]) -> None:
        self.outer = frame
        self.op = op
        self.frame = frame
        self.carried = carried
        self.left: list[Array] | None = None

    def keep(self, stays: Array) -> bool:
        """Let the other lanes go with what they carry.  False if none stays."""
        if len(stays) == 1 or stays.all() or not stays.any():
            return bool(stays[0])
        self._leave(~stays)
        places = np.flatnonzero(stays) if self.frame is self.outer else self.frame.picked[stays]  # type: ignore[index]
        self.carried = [c if len(c) == 1 else c[stays] for c in self.carried]
        self.frame = Frame(self.outer.batch, self.outer, places)
        return True

    def _leave(self, going: Array) -> None:
        if self.left is None:
            self.left = [empty(self.outer.size, result) for result in self.op.results]
        places = np.flatnonzero(going) if self.frame is self.outer else self.frame.picked[going]  # type: ignore[index]
        for room, array in zip(self.left, self.carried, strict=False):
            room[places] = array if len(array) == 1 else array[going]

    def finish(self) -> None:
        """All lanes have left: the results are in."""
        if self.left is not None:
            self._leave(np.ones(self.frame.size, np.bool_))
        results = self.carried if self.left is None else self.left
        bind(self.outer, self.op.results, results[: len(self.op.results)])


def while_(machine: Machine, frame: Frame, op: Op) -> None:
    condition, body = op.regions
    loop = Loop(frame, op, [frame.get(value) for value in inits(op)])
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

    The counter, the upper bound and the step travel with the lanes behind the carried values.
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
    loop = Loop(frame, op, [*carried, lower, upper, step])
    stays = lower < upper
    while loop.keep(stays):
        counter, upper, step = loop.carried[count:]
        bind(loop.frame, body.args, [counter, *loop.carried[:count]])
        yielded = machine.run_block(loop.frame, body)
        following = counter + step
        stays = (following < upper) & (following > counter)
        loop.carried = [*yielded, following, upper, step]
    loop.finish()


def _check_step(machine: Machine, frame: Frame, op: Op, step: Array) -> None:
    stuck = step <= 0
    if stuck.any():
        lane = int(np.argmax(stuck))
        raise machine.fault(
            "step",
            op,
            f"the {BOUND_NAMES[2]} of this for is {int(step[lane])}, by {machine.who(frame, lane)}",
            help="a for counts up: its step is at least 1",
        )
