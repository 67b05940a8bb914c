"""Cutting a body at its barriers.

Code between barriers is a segment, which runs in a loop over the subgroups of a workgroup.
Control flow with a barrier inside is uniform over the barrier's scope, so it stays outside
those loops.  Values that are used in another segment go through storage.

    a; if %p { b; barrier workgroup; c } d   ->   Segment[a]
                                                  SplitOp if: [Segment[b], Segment[c]]
                                                  Segment[d]

A program with a grid or cluster barrier is cut twice: the body at grid barriers into phases, each a
loop over the workgroups, and then each phase as above.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from ...ir.loops import bounds, inits
from ...ir.ops import BEYOND_WORKGROUP
from ...ir.program import Block, Op, Program, Value
from ...records import dataclass

__all__ = [
    "PlanItem",
    "Phase",
    "SegmentPlan",
    "Segment",
    "SplitOp",
    "split_at_barriers",
    "all_segments",
    "control_operands",
]


@dataclass(slots=True, eq=False)
class Segment:
    """Ops that one subgroup after the other runs, then assignments (target, source) of block arguments
    and results."""

    ops: list[Op] = field(default_factory=list)
    assigns: list[tuple[Value, Value]] = field(default_factory=list)

    def defined_values(self) -> set[Value]:
        return {result for op in self.ops for result in op.results}

    def used_values(self) -> list[Value]:
        """Values from outside that the segment reads, in the order of their first use."""
        inside: set[Value] = set()
        values: dict[Value, None] = {}
        for op in walk(self.ops):
            for block in op.regions:
                inside.update(block.args)
            inside.update(op.results)
            values.update(dict.fromkeys(op.operands))
        values.update(dict.fromkeys(source for _, source in self.assigns))
        return [value for value in values if value not in inside]


@dataclass(slots=True, eq=False)
class Phase:
    """The items between two grid or cluster barriers, which one workgroup after the other runs."""

    items: list[PlanItem]


@dataclass(slots=True, eq=False)
class SplitOp:
    """An if, for or while with a barrier inside; `blocks` has a list for each of its regions."""

    op: Op
    blocks: list[list[PlanItem]]


PlanItem = Segment | Phase | SplitOp


@dataclass(slots=True, eq=False)
class SegmentPlan:
    """`stored`: values that are used outside their segment.  `aliases`: loop arguments, each with the
    loop's result whose storage it shares."""

    items: list[PlanItem]
    has_grid_barrier: bool
    stored: set[Value]
    aliases: dict[Value, Value]


def split_at_barriers(program: Program) -> SegmentPlan:
    """The plan of a flat program."""
    ops = list(walk(program.body.ops))
    grid = any(_is_barrier(op, BEYOND_WORKGROUP) for op in ops)
    aliases: dict[Value, Value] = {}
    items = _cut(program.body.ops, BEYOND_WORKGROUP if grid else _SCOPES, aliases)
    in_memory: set[Value] = set()
    for item in _flat(items):
        if isinstance(item, Segment):
            in_memory.update(item.used_values())
            in_memory.update(target for target, _ in item.assigns)
        else:
            in_memory.update(control_operands(item.op))
    return SegmentPlan(items, grid, in_memory, aliases)


def all_segments(items: list[PlanItem]) -> Iterator[Segment]:
    """All segments, those inside of splits and phases included."""
    return (item for item in _flat(items) if isinstance(item, Segment))


def walk(ops: list[Op]) -> Iterator[Op]:
    for op in ops:
        yield op
        for block in op.regions:
            yield from walk(block.ops)


# At a cluster barrier all workgroups meet, too: those of one cluster could, but would gain nothing
_SCOPES = ("workgroup", *BEYOND_WORKGROUP)


def _is_barrier(op: Op, scopes: tuple[str, ...]) -> bool:
    return op.name == "barrier" and op.attrs["scope"] in scopes


def _cut(ops: list[Op], scopes: tuple[str, ...], aliases: dict[Value, Value]) -> list[PlanItem]:
    """The items of a block without its terminator, cut at barriers of these scopes."""
    items: list[PlanItem] = []
    run: list[Op] = []

    def flush(assigns: list[tuple[Value, Value]]) -> None:
        if not run and not assigns:
            return
        if scopes == BEYOND_WORKGROUP:
            inner = _cut(run, _SCOPES, aliases)
            _assign(inner, assigns)
            items.append(Phase(inner))
        else:
            items.append(Segment(list(run), assigns))
        run.clear()

    for op in ops:
        if op.definition.is_terminator:
            continue
        if _is_barrier(op, scopes):
            flush([])
        elif any(_is_barrier(inner, scopes) for inner in walk([op]) if inner is not op):
            # a loop carries values in the memory of its results, so the initial values are stored there
            results = op.results if op.name != "if" else ()
            flush(list(zip(results, inits(op), strict=True)) if results else [])
            items.append(SplitOp(op, [_block(op, block, scopes, aliases) for block in op.regions]))
        else:
            run.append(op)
    flush([])
    return items


def _block(op: Op, block: Block, scopes: tuple[str, ...], aliases: dict[Value, Value]) -> list[PlanItem]:
    """The items of a region of a split op; at their end the yielded values are assigned to its results."""
    if op.name != "if" and op.results:
        aliases.update(zip(block.args[-len(op.results) :], op.results, strict=True))
    items = _cut(block.ops, scopes, aliases)
    end = block.terminator
    if end is not None and end.name == "yield" and end.operands:
        assigns = list(zip(op.results, end.operands, strict=True))
        if scopes == BEYOND_WORKGROUP:
            # Segments stand in phases here; the region may have ended in a split, or be empty
            if not items or not isinstance(items[-1], Phase):
                items.append(Phase([]))
            assert isinstance(items[-1], Phase)
            _assign(items[-1].items, assigns)
        else:
            _assign(items, assigns)
    return items


def _assign(items: list[PlanItem], assigns: list[tuple[Value, Value]]) -> None:
    """Add assignments at the end of the last segment, or in a new one.

    The assignments of one segment are parallel: all sources are read before a target is written.
    """
    if not assigns:
        return
    if items and isinstance(items[-1], Segment) and not items[-1].assigns:
        items[-1].assigns = assigns
    else:
        items.append(Segment([], assigns))


def _flat(items: list[PlanItem]) -> Iterator[Segment | SplitOp]:
    for item in items:
        if isinstance(item, Phase):
            yield from _flat(item.items)
            continue
        yield item
        if isinstance(item, SplitOp):
            for block in item.blocks:
                yield from _flat(block)


def control_operands(op: Op) -> list[Value]:
    """The values that an if, for or while branches on: condition or loop bounds."""
    if op.name == "if":
        return [op.operands[0]]
    if op.name == "for":
        return [bound for bound in bounds(op) if isinstance(bound, Value)]
    end = op.regions[0].terminator
    return list(end.operands) if end is not None else []
