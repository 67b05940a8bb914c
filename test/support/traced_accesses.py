"""The accesses that a program really makes, by the interpreter, against what analyses say of them.

    footprint    the expression of an index, at the ids, loop counters and values of each lane, is the index
    bounds       what is proven in bounds along a dimension is so there
    dependence   accesses that are said to be apart touch no element in common, from different workgroups, from
                 different invocations, or at all
    coverage     what a workgroup surely wrote before it reads it, it did write before

The trace has numbers only: it knows nothing of expressions, proofs, or how indices become one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from vyre_opt import dispatcher
from vyre_opt.analysis.affine import AffineExpr, Symbol, SymbolKind
from vyre_opt.analysis.bounds import BoundsProofs
from vyre_opt.analysis.coverage import CoverageWalk
from vyre_opt.analysis.dependence import DependenceTest, workgroup_axis
from vyre_opt.analysis.footprint import Footprints, MemoryAccess
from vyre_opt.analysis.virtual_index import components
from vyre_opt.execution import ProgramError, on_debug_print
from vyre_opt.ir import AccessMode, Module, Op, Program, Value, loops
from vyre_opt.ir.ops import AXES
from vyre_opt.ir.program import Dim3
from vyre_opt.targets.ref.frame import Frame
from vyre_opt.targets.ref.machine import Machine
from vyre_opt.targets.ref.table import TABLE

from .properties import MAX_STEPS

__all__ = ["Claims", "check_claims"]

Array = np.ndarray[Any, Any]
Element = tuple[int, ...]


@dataclass(slots=True)
class Claims:
    """How many claims of each kind were checked, and the wrong ones in words."""

    checked: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def check(self, kind: str, holds: bool, what: str) -> None:
        self.checked[kind] += 1
        if not holds:
            self.wrong.append(f"{kind}: {what}")


@dataclass(slots=True)
class _Touched:
    """By an access: element -> the invocations that touched it."""

    invocations: dict[Element, set[int]] = field(default_factory=dict)

    def meets(self, other: _Touched, group: int) -> bool:
        """Whether both touch an element, from invocations of different groups of so many; 0: from any."""
        for element, own in self.invocations.items():
            for one in other.invocations.get(element, ()):
                if not group or any(mine // group != one // group for mine in own):
                    return True
        return False


class _Trace:
    """Checks accesses as they happen, and keeps what they touched."""

    def __init__(self, program: Program, grid: Dim3, claims: Claims) -> None:
        self.program, self.grid, self.claims = program, grid, claims
        self.footprints = Footprints(program)
        self.proofs = BoundsProofs(program)
        stored = {b.name for b in program.buffers.values() if b.access is not AccessMode.READ}
        coverage = CoverageWalk(self.footprints, stored)
        coverage.run()
        self.covered = set(coverage.order)
        self.accesses = {
            event.op: event for event in self.footprints.events if isinstance(event, MemoryAccess)
        }
        self.touched: dict[Op, _Touched] = {op: _Touched() for op in self.accesses}
        self.written: set[tuple[str, int, Element]] = set()
        """Elements by buffer and the number of the workgroup that wrote them."""

    def record(self, machine: Machine, frame: Frame, op: Op) -> None:
        access = self.accesses.get(op)
        if access is None:
            return
        shape = machine.storages[access.buffer].shape
        indices = [frame.spread(frame.get(index)).astype(object) for index in op.indices]
        widths = [1] * (len(indices) - 1) + [access.width]
        inside = [
            (index >= 0) & (index + width <= extent)
            for index, width, extent in zip(indices, widths, shape, strict=True)
        ]
        along = self.proofs.along.get(op, (False,) * len(indices))
        for dimension, is_inside in enumerate(inside):
            if op in self.proofs.proven or along[dimension]:
                self.claims.check("bounds", bool(is_inside.all()), self._at(op, f"along {dimension}"))
        happens = np.logical_and.reduce(inside).astype(bool)
        if isinstance(access.index, AffineExpr):
            self._check_index(access, frame, indices, happens)
        self._touch(access, frame, indices, happens)

    def _at(self, op: Op, what: str) -> str:
        return f"{op.name} @{op.attrs['buffer']} at {op.loc}, {what}"

    def _check_index(
        self, access: MemoryAccess, frame: Frame, indices: Sequence[Array], happens: Array
    ) -> None:
        """The expression along each dimension is the index there; of one dimension, modulo its type."""
        op = access.op
        exprs = components(access.expr, len(indices)) if len(indices) > 1 else (access.expr,)
        for dimension, (expr, index) in enumerate(zip(exprs, indices, strict=True)):
            values = {symbol: _value_of(symbol, frame) for symbol in expr.terms}
            known = {symbol: value for symbol, value in values.items() if value is not None}
            for symbol, value in known.items():
                low, high = access.lanes.get(symbol, symbol.range)
                in_range = bool(((value >= low) & (value <= high))[happens].all())
                self.claims.check("range", in_range, self._at(op, f"{symbol} beyond {low} to {high}"))
            if len(known) < len(values):
                self.claims.checked["symbols that are not values"] += 1
                continue
            total = np.full(frame.size, expr.const, object)
            for symbol, coefficient in expr.terms.items():
                total = total + coefficient * known[symbol]
            difference = total - index
            if len(indices) == 1:
                difference = difference % (1 << (op.index.type.bits or 32))
            same = not difference[happens].any()
            self.claims.check("footprint", same, self._at(op, f"{expr} is not the index along {dimension}"))

    def _touch(self, access: MemoryAccess, frame: Frame, indices: Sequence[Array], happens: Array) -> None:
        touched, lanes = self.touched[access.op].invocations, self.program.lanes
        elements: set[tuple[str, int, Element]] = set()
        for lane in np.flatnonzero(happens):
            invocation = int(frame.invocations[lane])
            *outer, last = (int(index[lane]) for index in indices)
            for offset in range(access.width):
                element = (*outer, last + offset)
                touched.setdefault(element, set()).add(invocation)
                elements.add((access.buffer, invocation // lanes, element))
        if access.op in self.covered and not access.is_write:
            self.claims.check(
                "coverage", elements <= self.written, self._at(access.op, "reads what it had not written")
            )
        if access.is_write:
            self.written |= elements

    def check_dependences(self) -> None:
        """Of every pair of accesses of a buffer."""
        test = DependenceTest(self.footprints, self.grid)
        for p, q in combinations_with_replacement(self.accesses.values(), 2):
            if p.buffer != q.buffer:
                continue
            one, other = self.touched[p.op], self.touched[q.op]
            pair = f"{p.describe()} and {q.describe()}"
            for kind, group, holds in (
                ("apart", 0, test.disjoint(p, q)),
                ("apart between lanes", 1, test.disjoint_between_lanes(p, q)),
                ("apart between workgroups", self.program.lanes, test.disjoint_between_workgroups(p, q)),
            ):
                if holds:
                    self.claims.check(kind, not one.meets(other, group), pair)


def _value_of(symbol: Symbol, frame: Frame) -> Array | None:
    """What a symbol stands for, in each lane of a frame; None if that is no value of the program."""
    batch = frame.batch
    if symbol.by_lane is not None:
        by_lane: Array = np.array(symbol.by_lane, object)
        return np.asarray(by_lane[frame.locals])
    axis = workgroup_axis(symbol)
    if axis is not None:
        coordinate = _coordinate(frame.rows + batch.first, batch.grid, axis)
        return np.asarray(coordinate.astype(object))
    digit = symbol.digit
    if digit is not None:
        local = _coordinate(frame.locals, batch.workgroup, AXES.index(digit.axis))
        part = local // digit.stride % digit.radix
        return np.asarray(part.astype(object))
    identity = symbol.identity
    if symbol.kind is SymbolKind.LOOP and isinstance(identity, Op):
        counter, (lower, _, step) = identity.regions[0].args[0], loops.bounds(identity)
        values = [_number(value, frame) for value in (counter, lower, step)]
        first, start, stride = values
        if first is None or start is None or stride is None:
            return None
        iteration: Array = (first - start) // stride
        return iteration
    return _number(identity, frame) if isinstance(identity, Value) else None


def _coordinate(linear: Array, extents: Dim3, axis: int) -> Array:
    below = int(np.prod(extents[:axis], dtype=np.int64))
    coordinate: Array = linear // below % extents[axis]
    return coordinate


def _number(value: Value | int, frame: Frame) -> Array | None:
    """A value in each lane, if it is computed by now."""
    if isinstance(value, int):
        return np.full(frame.size, value, object)
    at: Frame | None = frame
    while at is not None and value not in at.values:
        at = at.parent
    if at is None:
        return None
    number: Array = frame.spread(frame.get(value)).astype(object)
    return number


@contextmanager
def _recording(trace: _Trace) -> Iterator[None]:
    """Accesses of the interpreter go to the trace first."""
    original = dict(TABLE)

    def traced(name: str) -> Any:
        def handler(machine: Machine, frame: Frame, op: Op) -> None:
            trace.record(machine, frame, op)
            original[name](machine, frame, op)

        return handler

    names = {op.name for op in trace.accesses}
    TABLE.update({name: traced(name) for name in names})
    try:
        yield
    finally:
        TABLE.update(original)


def check_claims(
    program: Program, module: Module, grid: Dim3, inputs: Sequence[Any], claims: Claims | None = None
) -> Claims:
    """Run a program on `inputs`, to its end or its fault, and check what is said of its accesses until then."""
    claims = Claims() if claims is None else claims
    trace = _Trace(program, grid, claims)
    with _recording(trace), on_debug_print(lambda line: None):
        try:
            dispatcher("ref", max_steps=MAX_STEPS).dispatch(program, list(inputs), grid, module=module)
        except ProgramError as fault:
            claims.checked[f"at fault: {fault.kind}"] += 1
    trace.check_dependences()
    return claims
