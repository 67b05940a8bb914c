"""The claim that an access lies within its buffer, and that a division or shift needs no guard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import z3

from ..ir.ops import AXES
from ..ir.program import Op, Program
from .accesses import accesses_of, is_inside, named
from .obligations import Obligation
from .points import MAIN_GROUP, Group, Nesting, Point

__all__ = ["in_bounds", "shown_at", "unguarded"]


def in_bounds(program: Program, proven: Iterable[Op]) -> Iterator[Obligation]:
    """Obligations for each access among `proven`: whenever a lane makes it, its elements are in the buffer; and each check of bounds
    among them holds.  Here and below specialization constants have their defaults, with which the program is compiled."""
    nesting = Nesting(program)
    wanted = set(proven)
    for op in (op for op in nesting.ops if op.name == "check_bounds" and op in wanted):
        point = Point.any(nesting, _group(program), "lane")
        index, length = (point.integer(value).term for value in op.operands)
        what, shown = f"this check of @{op.attrs['of']} holds", shown_at(point, index=index, length=length)
        yield Obligation(what, [op], [point], [point.reaches(op)], index < length, shown)
    for access in accesses_of(nesting):
        if access.op not in wanted:
            continue
        point = Point.any(nesting, _group(program), "lane")
        indices, shape = point.indices(access.op), point.group.shape(access.buffer)
        yield Obligation(
            f"{access} is in bounds",
            [access.op],
            [point],
            [point.reaches(access.op)],
            is_inside(access, indices, shape),
            shown_at(point, **named("index", indices), **named("length", shape)),
        )


def unguarded(program: Program, ops: Mapping[Op, int | None]) -> Iterator[Obligation]:
    """Obligations for each of these divisions and shifts: no lane that computes it has operands for which the machine's instruction
    is undefined.  `ops`: the number of lanes that compute each, active or not, which may exceed the workgroup's; None
    where only active lanes do."""
    nesting = Nesting(program)
    for op, lanes in ops.items():
        group = _group(program)
        if lanes is None:
            point = Point.any(nesting, group, "lane")
        else:
            point = Point.computed(nesting, group, "lane", lanes)
        second = point.integer(op.operands[1]).term
        bits = op.result.type.bits or 1
        if op.name in ("shl", "shr"):
            claim = z3.And(second >= 0, second < bits)
        else:
            claim = second != 0
            if op.result.type.is_signed:
                first = point.integer(op.operands[0]).term
                claim = z3.And(claim, z3.Or(second != -1, first != -(1 << (bits - 1))))
        yield Obligation(
            f"{op.name} needs no guard",
            [op],
            [point],
            [point.reaches(op)] if lanes is None else [],
            claim,
            shown_at(point, operand=second),
        )


def _group(program: Program) -> Group:
    return Group(program, specs=program.spec_defaults)


def shown_at(point: Point, **terms: z3.ArithRef) -> dict[str, z3.ArithRef]:
    """Terms that explain a refutation to a person: the workgroup, the lane, the iterations, and `terms`."""
    whose = "" if point.group.name == MAIN_GROUP else f"{point.name} "
    shown = {}
    for axis, name in enumerate(AXES):
        if point.group.num_workgroups(axis).high > 1:
            shown[f"{whose}workgroup {name}"] = point.group.workgroup_id(axis).term
    for axis, name in enumerate(AXES):
        if point.program.workgroup[axis] > 1 or (axis == 0 and point.linear is not None):
            shown[f"{point.name} {name}"] = point.local[axis]
    for loop, iteration in point.iterations.items():
        shown[f"{point.name} iteration of %{loop.regions[0].args[0].name}"] = iteration
    return {**shown, **terms}
