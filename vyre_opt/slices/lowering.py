"""Programs with slices as programs without: what a workgroup computes with a row becomes what its invocations do.

    %row = slice_load @x[%r, 0] : slice<?xf32>        nothing: a load of each element where it is wanted
    %sum = slice_reduce<add> %row[0] : f32            for %base = 0 to %n step 4096 iter(sums) {
                                                        for the groups of 4 that the invocation has from %base on:
                                                          sums + @x[%r, %p], as far as %p < %n
                                                      }
                                                      the sums of all invocations, see sums
    slice_store %y, @y[%r, 0] : slice<?xf32>          a loop over groups, with a store of each element

All invocations compute the values that are no slices, alike; what writes is done by the first of them.  A slice of fixed and few
elements has no loops, and its elements are computed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from ..ir.builder import Builder
from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.program import AccessMode, Block, Op, Program, Value
from ..ir.rewrite import constant_value, every_op, fresh_name
from ..ir.types import DataType
from .groups import Group
from .nodes import Computed, Extent, Loaded, Node, Spread
from .schedule import FOLDED, GROUP, SliceSchedule
from .sums import Fold

__all__ = ["lower_in_place", "lower_slices"]

T = TypeVar("T")

MOST_HELD = 16
"""Groups of a slice of fixed extent that an invocation holds in registers."""

_IDS = {"global_id": "workgroup_id", "global_size": "num_workgroups"}
_OF_ONE = {"local_id": 0, "workgroup_size": 1, "lane_id": 0, "subgroup_id": 0, "num_subgroups": 1}
"""What the only invocation of a workgroup is told."""


def lower_slices(program: Program, schedule: SliceSchedule) -> Program:
    """The program for workgroups of several invocations.  Raises DiagnosticError for what has no such form, located."""
    copy = replace(program, workgroup=(schedule.lanes, 1, 1), buffers=dict(program.buffers), body=Block())
    lowering = _Lowering(program, Builder.on(copy), schedule)
    lowering.ops(program.body.ops)
    return copy


def lower_in_place(program: Program, schedule: SliceSchedule) -> None:
    """The same of the program itself."""
    lowered = lower_slices(program, schedule)
    program.workgroup, program.body, program.buffers = lowered.workgroup, lowered.body, lowered.buffers


def _refused(op: Op, message: str, help: str | None = None) -> DiagnosticError:
    return DiagnosticError([Diagnostic("error", f"{op.name}: {message}", op.loc, help=help)])


class _Lowering:
    """`values`: of the program before, those that are no slices; `nodes`: those that are."""

    def __init__(self, program: Program, b: Builder, schedule: SliceSchedule) -> None:
        self.program, self.b, self.lanes = program, b, schedule.lanes
        self.values: dict[Value, Value] = {}
        self.nodes: dict[Value, Node] = {}
        self.rules = {
            "slice_load": self.load,
            "slice_store": self.store,
            "slice_broadcast": self.broadcast,
            "slice_reduce": self.reduce,
            "slice_len": self.length,
        }
        self.used = {value for op in every_op(program.body) for value in op.operands}
        self.of_control = _of_control(program)
        self.contested = _contested(program.body)
        self.versions: dict[str, int] = {}
        """How often each buffer has been written by now: what is loaded from it later is another slice."""
        self.memory: dict[tuple[str, DataType], str] = {}
        self.known: list[dict[Hashable, Any]] = [{}]
        """What was computed in the blocks around: elements by their nodes and groups, and groups of fixed extents."""
        with b.at(b.program.body):
            self.lane = b.local_id("x", name="lane")
            self.first = b.mul(self.lane, GROUP, name="first")

    # --- ops in order ----------------------------------------------------------------------------

    def ops(self, ops: Sequence[Op]) -> None:
        for op in ops:
            self.b.loc = op.loc
            self.op(op)

    def op(self, op: Op) -> None:
        rule = self.rules.get(op.definition.format)
        if rule is not None:
            rule(op)
        elif op.results and op.results[0].type.is_slice and not op.regions and op.definition.is_pure:
            self.elementwise(op)
        elif any(value.type.is_slice for value in (*op.operands, *op.results)):
            raise _refused(
                op, "hands a slice on, which has no form for invocations yet", "store it, and load it again"
            )
        elif op.name in _OF_ONE:
            self.values[op.result] = self.b.const(_OF_ONE[op.name], op.result.type)
        elif op.name == "barrier" and op.attrs["scope"] in ("subgroup", "workgroup"):
            pass
        elif op.definition.effects & {"subgroup", "workgroup", "wait"}:
            raise _refused(
                op, "is of several invocations, and a workgroup of slices has one as it is written"
            )
        elif op.definition.effects & {"write", "print"}:
            self.once(op)
        else:
            self.copied(op)

    def copied(self, op: Op) -> Op:
        if op.name in _IDS:
            value = getattr(self.b, _IDS[op.name])(op.attrs["axis"])
            self.values[op.result] = value
            return op
        if op.name in ("for", "while"):  # what was loaded before is another slice from the second round on
            for inner in op.walk():
                if "write" in inner.definition.effects:
                    self.overwrite(inner.attrs["buffer"])
        operands, types = tuple(self.of(v) for v in op.operands), [v.type for v in op.results]
        regions = tuple(self.region(each) for each in op.regions)
        new = self.b.emit(op.definition, operands, types, op.attrs, regions)
        self.values.update(zip(op.results, new.results, strict=True))
        return new

    def of(self, value: Value) -> Value:
        return self.values[value]

    def region(self, region: Block) -> Block:
        block = Block(tuple(self.b.fresh(arg.type) for arg in region.args))
        self.values.update(zip(region.args, block.args, strict=True))
        with self.b.at(block), self.scope():
            self.ops(region.ops)
        return block

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is computed in it is not known behind it."""
        self.known.append({})
        yield
        self.known.pop()

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        for known in self.known:
            if key in known:
                return known[key]  # type: ignore[no-any-return]
        self.known[-1][key] = value = make()
        return value

    # --- what only one invocation does -------------------------------------------------------------

    def once(self, op: Op) -> None:
        """A write or a print, of which all get the result."""
        with self.written(op.attrs.get("buffer")):
            if not self.used.isdisjoint(op.results):
                self.values[op.result] = self.from_first(op.result.type, lambda: self.copied(op).result)
                return
            with self.b.if_(self.b.eq(self.lane, 0)), self.scope():
                self.copied(op)

    def from_first(self, dtype: DataType, make: Callable[[], Value]) -> Value:
        """What the first invocation computes, in all of them, and seen to be the same for all."""
        b, place = self.b, self.workgroup_memory("handed", dtype, 1)
        b.barrier()
        with b.if_(b.eq(self.lane, 0)), self.scope():
            b.store(make(), place, 0)
        b.barrier()
        return b.load(place, 0)

    def workgroup_memory(self, name: str, dtype: DataType, count: int) -> str:
        key = name, dtype
        if key not in self.memory:
            unique = self.memory[key] = fresh_name(f"{name}.{dtype}", self.b.program.buffers)
            self.b.buffer(unique, dtype, count, AccessMode.WORKGROUP.value)
        return self.memory[key]

    @contextmanager
    def written(self, buffer: str | None) -> Iterator[None]:
        """Around a write: invocations read and write what they do before it, and find it behind it."""
        if buffer in self.contested:
            self.b.barrier()
        yield
        if buffer is not None:
            self.overwrite(buffer)
        if buffer in self.contested:
            self.b.barrier()

    def overwrite(self, buffer: str) -> None:
        self.versions[buffer] = self.versions.get(buffer, 0) + 1

    # --- slices --------------------------------------------------------------------------------------

    def extent(self, op: Op, dtype: DataType, indices: Sequence[Value]) -> Extent:
        """Of a row of a buffer from some indices on."""
        number = _only_extent(op, dtype)
        if number is not None:
            return self.fixed(number)
        b, name, start = self.b, op.attrs["buffer"], constant_value(indices[-1])
        columns = b.program.buffers[name].shape[-1]
        if columns is not None and start is not None and start <= columns:
            return self.fixed(columns - start)
        length = self.columns(name)
        if start == 0:
            return Extent(length, None, name)
        return Extent(b.sub(length, b.cast(indices[-1], DataType.U32)), None, (name, indices[-1]))

    def fixed(self, number: int) -> Extent:
        return Extent(self.b.const(number), number, number)

    def columns(self, name: str) -> Value:
        """The extent of a buffer along its last dimension."""
        last = self.b.program.buffers[name].dimensions - 1
        return self.b.len(name, dimension=last or None)

    def load(self, op: Op) -> None:
        indices = [self.of(v) for v in op.indices]
        fill = self.of(op.operands[-1]) if op.attrs["edge"] == "filled" else None
        dtype, name = op.result.type, op.attrs["buffer"]
        extent = self.extent(op, dtype, indices)
        self.nodes[op.result] = Loaded(dtype, extent, op, indices, fill, self.versions.get(name, 0))

    def broadcast(self, op: Op) -> None:
        value, dtype = op.operands[0], op.result.type
        number = _only_extent(op, dtype)
        extent = self.nodes[op.operands[1]].extent if number is None else self.fixed(number)
        if value.type.extents == dtype.extents:
            self.same_extents(op, self.nodes[value].extent, extent)
            self.nodes[op.result] = self.nodes[value]
        else:
            one = self.only(self.nodes[value]) if value.type.is_slice else self.of(value)
            self.nodes[op.result] = Spread(dtype, extent, one)

    def only(self, node: Node) -> Value:
        """The element of a slice of one."""
        if isinstance(node, Spread):
            return node.value
        if isinstance(node, Computed):
            operands = tuple(self.only(v) if isinstance(v, Node) else v for v in node.operands)
            return self.b.emit(node.op.definition, operands, [node.dtype.element], node.op.attrs).result
        assert isinstance(node, Loaded)
        return self.element(node, self.b.const(0))

    def length(self, op: Op) -> None:
        self.values[op.result] = self.nodes[op.operands[0]].extent.value

    def elementwise(self, op: Op) -> None:
        nodes = [self.nodes[v] for v in op.operands if v.type.is_slice]
        for other in nodes[1:]:
            self.same_extents(op, nodes[0].extent, other.extent)
        operands = [self.nodes[v] if v.type.is_slice else self.of(v) for v in op.operands]
        self.nodes[op.result] = Computed(op.result.type, nodes[0].extent, op, operands)

    def same_extents(self, op: Op, one: Extent, other: Extent) -> None:
        if one.key != other.key:
            self.b.assert_(self.b.eq(one.value, other.value), f"{op.name} takes slices of the same extents")

    # --- elements --------------------------------------------------------------------------------------

    def element(self, node: Loaded, position: Value) -> Value:
        b = self.b
        if self.versions.get(node.op.attrs["buffer"], 0) != node.version:
            raise _refused(
                node.op,
                f"@{node.op.attrs['buffer']} is written before this slice is computed with for the last time",
                "load it again, or write to another buffer",
            )
        *outer, start = node.indices
        at = b.add(start, b.cast(position, start.type))
        return b.load(node.op.attrs["buffer"], (*outer, at))

    def elements(self, node: Node, group: Group) -> list[Value]:
        return self.remembered((node, group), lambda: self.compute(node, group))

    def compute(self, node: Node, group: Group) -> list[Value]:
        b = self.b
        if isinstance(node, Spread):
            return [node.value] * GROUP
        if isinstance(node, Computed):
            columns = [self.elements(v, group) if isinstance(v, Node) else [v] * GROUP for v in node.operands]
            b.loc = node.op.loc
            return [
                b.emit(node.op.definition, operands, [node.dtype.element], node.op.attrs).result
                for operands in zip(*columns, strict=True)
            ]
        assert isinstance(node, Loaded)
        before, b.loc = b.loc, node.op.loc
        zero = b.const(False if node.dtype.element.is_bool else 0, node.dtype.element)
        if node.fill is None:
            values = group.guarded(lambda k: self.element(node, group.positions[k]), lambda: zero)
        else:
            fill, inside = (
                node.fill,
                [self.is_inside(node.op, node.indices, position) for position in group.positions],
            )
            values = group.guarded(
                lambda k: group.where(
                    inside[k], lambda: self.element(node, group.positions[k]), lambda: fill
                )[0],
                lambda: zero,
            )
        b.loc = before
        return values

    def is_inside(self, op: Op, indices: Sequence[Value], position: Value) -> Value:
        """Whether there is an element at a position of a slice that may reach beyond the edge."""
        b, length = self.b, self.columns(op.attrs["buffer"])
        start = b.cast(indices[-1], DataType.U32)
        return b.and_(b.lt(start, length), b.lt(position, b.sub(length, start)))

    # --- groups ------------------------------------------------------------------------------------------

    def held(self, extent: Extent) -> list[Group] | None:
        """The groups of a slice of fixed and few elements, None for another one."""
        if extent.number is None or extent.number > MOST_HELD * GROUP * self.lanes:
            return None
        step = GROUP * self.lanes
        return [
            self.held_group(extent, r, (r + 1) * step <= extent.number)
            for r in range(-(-extent.number // step))
        ]

    def held_group(self, extent: Extent, number: int, is_whole: bool) -> Group:
        return self.remembered(
            (extent.number, number), lambda: Group(self.b, extent, self.offset(number), None, is_whole)
        )

    def offset(self, number: int) -> Value:
        """Where an invocation's group of a round is."""
        return self.b.add(self.first, number * GROUP * self.lanes) if number else self.first

    # --- results -----------------------------------------------------------------------------------------

    def reduce(self, op: Op) -> None:
        node = self.nodes[op.operands[0]]
        dtype = node.dtype.element
        fold = Fold(self.b, op.attrs["combine"], dtype, self.workgroup_memory("exchange", dtype, self.lanes))
        held = self.held(node.extent)
        sums = self.sums_in_loop(node, fold) if held is None else self.sums_of_held(node, held, fold)
        total = fold.over_lanes(fold.in_groups(sums) if sums else fold.neutral())
        if op.result in self.of_control:
            total = self.from_first(total.type, lambda: total)
        if op.result.type.is_slice:
            self.nodes[op.result] = Spread(op.result.type, self.fixed(1), total)
        else:
            self.values[op.result] = total

    @property
    def rounds(self) -> int:
        """Groups that an invocation has of FOLDED positions."""
        return FOLDED // (GROUP * self.lanes)

    def sums_of_held(self, node: Node, held: Sequence[Group], fold: Fold) -> list[list[Value]]:
        """Of an invocation: those of each round, as many as a power of two."""
        neutral, sums = fold.neutral(), list[list[Value]]()
        for number, group in enumerate(held):
            values = self.masked(node, group, neutral)
            if number < self.rounds:
                sums.append(values)
            else:
                sums[number % self.rounds] = fold.each(sums[number % self.rounds], values)
        count = 1
        while count < len(sums):
            count *= 2
        return sums + [[neutral] * GROUP] * (count - len(sums))

    def sums_in_loop(self, node: Node, fold: Fold) -> list[list[Value]]:
        neutral, starts = fold.neutral(), range(0, GROUP * self.rounds, GROUP)
        carry = [neutral] * (GROUP * self.rounds)
        with self.b.for_(0, node.extent.value, FOLDED, carry=carry, dtype=DataType.U32) as loop:
            sums: list[Value] = []
            with self.scope():
                for number, start in enumerate(starts):
                    group = Group(self.b, node.extent, self.offset(number), loop.index, False)
                    values = self.masked(node, group, neutral)
                    sums += fold.each(loop.args[start : start + GROUP], values)
            loop.yield_(*sums)
        return [list(loop.results[start : start + GROUP]) for start in starts]

    def masked(self, node: Node, group: Group, neutral: Value) -> list[Value]:
        """The elements that are there, and what changes nothing in the place of the others."""
        values = self.elements(node, group)
        if group.is_whole:
            return values
        return [
            self.b.select(inside, value, neutral) for inside, value in zip(group.inside, values, strict=True)
        ]

    def store(self, op: Op) -> None:
        node = self.nodes[op.operands[0]]
        indices = [self.of(v) for v in op.indices]
        extent = self.extent(op, op.operands[0].type, indices)
        self.same_extents(op, extent, node.extent)
        held = self.held(node.extent)
        if held is not None:
            columns = [self.elements(node, group) for group in held]
            with self.written(op.attrs["buffer"]):
                for group, values in zip(held, columns, strict=True):
                    self.put(op, indices, group, values)
            return
        self.check_places(node, op, indices)
        step = GROUP * self.lanes
        with (
            self.written(op.attrs["buffer"]),
            self.b.for_(0, node.extent.value, step, dtype=DataType.U32) as loop,
            self.scope(),
        ):
            group = Group(self.b, node.extent, self.first, loop.index, False)
            self.put(op, indices, group, self.elements(node, group))

    def check_places(self, node: Node, op: Op, indices: Sequence[Value]) -> None:
        """Of a slice that is loaded while it is stored: what is overwritten was each element's own."""
        for each in _leaves(node):
            if each.op.attrs["buffer"] != op.attrs["buffer"]:
                continue
            if not all(_same(a, c) for a, c in zip(each.indices, indices, strict=True)):
                raise _refused(
                    op,
                    f"@{op.attrs['buffer']} is overwritten at other places than those that the slice is made of",
                    "write to another buffer",
                )

    def put(self, op: Op, indices: Sequence[Value], group: Group, values: Sequence[Value]) -> None:
        b, name = self.b, op.attrs["buffer"]
        *outer, start = indices

        def put(k: int) -> None:
            at = b.add(start, b.cast(group.positions[k], start.type))
            if op.attrs["edge"] == "clipped":
                with b.if_(self.is_inside(op, indices, group.positions[k])):
                    b.store(values[k], name, (*outer, at))
            else:
                b.store(values[k], name, (*outer, at))

        group.guarded(put, None)


def _only_extent(op: Op, dtype: DataType) -> int | None:
    if len(dtype.extents) != 1:
        raise _refused(
            op, f"{dtype} has two extents, of which only the interpreter (target ref) makes rows so far"
        )
    return dtype.extents[0]


def _same(a: Value, c: Value) -> bool:
    return a is c or (constant_value(a) is not None and constant_value(a) == constant_value(c))


def _leaves(node: Node) -> Iterator[Loaded]:
    pending, seen = [node], set[Node]()
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        if isinstance(each, Loaded):
            yield each
        elif isinstance(each, Computed):
            pending += [v for v in each.operands if isinstance(v, Node)]


def _contested(body: Block) -> set[str]:
    """The buffers that are accessed more than once, by several ops or in a loop: invocations wait for one another's writes."""
    accesses: Counter[str] = Counter()
    pending = [(body, 1)]
    while pending:
        block, times = pending.pop()
        for op in block.ops:
            if op.definition.effects & {"read", "write"}:
                accesses[op.attrs["buffer"]] += times
            pending += [(region, 2 if op.name in ("for", "while") else times) for region in op.regions]
    return {name for name, count in accesses.items() if count > 1}


def _of_control(program: Program) -> set[Value]:
    """The values that conditions and bounds of a program are computed of."""
    wanted: set[Value] = set()
    ops = [*program.walk()]
    for op in ops:
        if op.name in ("if", "for", "while", "condition"):
            wanted.update(op.operands)
    for op in reversed(ops):
        if not wanted.isdisjoint(op.results):
            for inner in op.walk():
                wanted.update(inner.operands)
    return wanted
