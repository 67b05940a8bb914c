"""Loops over workgroups and chunks, what stays between them, and what lives across.

    for each workgroup            (inside of the items, where grid barriers cut them)
      for each item
        Segment: for each chunk   its ops
        Split:   a branch or a loop around items

A value that outlives its segment is kept once for the workgroup if all of it agrees,
else once a chunk: as a scalar or as 32 lanes, as the chunk holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op, Value
from ...ir.uniformity import Level
from ..common.lane_shape import SCALAR, LaneShape, carrier
from .barrier_split import Phase, PlanItem, Segment, SegmentPlan, SplitOp, all_segments, control_operands
from .control import CONTROL_OPS, TripCounter
from .function_builder import WIDE, FunctionBuilder
from .memory import MEMORY_OPS
from .subgroup_emitter import COMPUTE_OPS, Parts, SubgroupEmitter
from .subgroup_ops import SUBGROUP_OPS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DivergentBarrier", "SegmentEmitter"]

TABLE = {**COMPUTE_OPS, **MEMORY_OPS, **SUBGROUP_OPS, **CONTROL_OPS}
ALIGN = 64
_BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}


class DivergentBarrier(Exception):
    """A barrier in control flow that its scope may not share; no verified program has one."""

    def __init__(self, op: Op) -> None:
        super().__init__(op.name)
        self.op = op


@dataclass(slots=True)
class _Storage:
    """Where a value lives between segments: stack slots, or offsets in the workgroup's context.

    `per_chunk`: the context has one for each chunk, `size` bytes apart.
    """

    shape: LaneShape
    kind: str
    slots: list[str]
    offsets: list[int]
    per_chunk: bool
    size: int


class SegmentEmitter:
    """Writes a plan.  `bytes` of context a workgroup needs: workgroup buffers, then stored values."""

    def __init__(self, builder: FunctionBuilder, plan: SegmentPlan) -> None:
        self.builder = builder
        self.w = builder.w
        self.plan = plan
        self.context = "%scratch"
        self.bytes = 0
        self.chunks = -(-builder.program.lanes // SUBGROUP_SIZE)
        self.storages: dict[Value, _Storage] = {}
        self.tiles = {
            b.name: self._room(b.size_bytes or 0) for b in builder.program.buffers.values() if b.is_workgroup
        }
        self.stored = set(plan.stored)
        for segment in all_segments(plan.items):
            agreed = [source for target, source in segment.assigns if self._agreed(target)]
            self.stored.update(agreed)

    def write(self) -> None:
        if self.plan.has_grid_barrier:
            self._items(self.plan.items)
        else:
            self._groups(self.plan.items)

    def _room(self, size: int) -> int:
        """The offset of new room in the context."""
        at = self.bytes
        self.bytes = at + -(-size // ALIGN) * ALIGN
        return at

    # --- storage

    def _agreed(self, value: Value) -> bool:
        return self.builder.facts.level(self.plan.home.get(value, value)) <= Level.WORKGROUP

    def _storage(self, value: Value) -> _Storage:
        value = self.plan.home.get(value, value)
        found = self.storages.get(value)
        if found is None:
            found = self.storages[value] = self._make_storage(value)
        return found

    def _make_storage(self, value: Value) -> _Storage:
        kind, lanes = carrier(value.type.element), range(value.type.lanes)
        agreed = self._agreed(value)
        if agreed and not self.plan.has_grid_barrier:
            return _Storage(SCALAR, kind, [self.builder.slot(kind) for _ in lanes], [], False, 0)
        shape = WIDE if self.builder.facts.stride(value) is None else SCALAR
        size = _BYTES[kind] * shape.lanes
        count = 1 if agreed else self.chunks
        return _Storage(shape, kind, [], [self._room(size * count) for _ in lanes], not agreed, size)

    def _addresses(self, storage: _Storage) -> list[str]:
        if storage.slots:
            return storage.slots
        w, found = self.w, []
        for offset in storage.offsets:
            at = w.emit(f"getelementptr i8, ptr {self.context}, i64 {offset}")
            if storage.per_chunk and self.chunks > 1:
                chunk = w.emit(f"lshr i32 {self.builder.linear}, {SUBGROUP_SIZE.bit_length() - 1}")
                away = w.emit(f"mul i32 {chunk}, {storage.size}")
                at = w.emit(f"getelementptr i8, ptr {at}, i32 {away}")
            found.append(at)
        return found

    def _load(self, value: Value) -> Parts:
        storage = self._storage(value)
        kind, align = storage.shape.of(storage.kind), self._alignment(storage)
        return tuple(self.w.emit(f"load {kind}, ptr {at}{align}") for at in self._addresses(storage))

    def _store(self, value: Value, parts: Parts) -> None:
        storage = self._storage(value)
        kind, align = storage.shape.of(storage.kind), self._alignment(storage)
        for at, part in zip(self._addresses(storage), parts, strict=True):
            self.w.line(f"store {kind} {part}, ptr {at}{align}")

    @staticmethod
    def _alignment(storage: _Storage) -> str:
        return "" if storage.slots else f", align {min(ALIGN, storage.size)}"

    def _fetch(self, emitter: SubgroupEmitter, value: Value) -> None:
        """Make a value of another segment known; what depends on nothing is simply written again."""
        if _is_anew(value):
            assert isinstance(value.owner, Op)
            emitter.op(value.owner)
        else:
            emitter.values[value] = self._load(value)

    def _outside(self, *values: Value) -> SubgroupEmitter:
        """What control flow around segments sees: values that the workgroup agrees on."""
        emitter = SubgroupEmitter(self.builder, None, TABLE)
        for value in values:
            self._fetch(emitter, value)
        return emitter

    # --- items

    def _items(self, items: list[PlanItem]) -> None:
        for item in items:
            if isinstance(item, Phase):
                self._groups(item.items)
            elif isinstance(item, Segment):
                self._segment(item)
            else:
                self._split(item)

    @contextmanager
    def _counting(self, name: str, kind: str, first: str, last: str, step: int = 1) -> Iterator[str]:
        """A loop from `first` up to `last`, which must be larger; gives the counter."""
        w, builder = self.w, self.builder
        slot = builder.slot(kind)
        builder.store(kind, first, slot)
        body, end = w.label(name), w.label(f"end{name}")
        w.branch(body)
        w.start(body)
        counter = builder.load(kind, slot)
        yield counter
        following = w.emit(f"add {kind} {counter}, {step}")
        builder.store(kind, following, slot)
        w.branch_if(w.emit(f"icmp ult {kind} {following}, {last}"), body, end)
        w.start(end)

    def _groups(self, items: list[PlanItem]) -> None:
        w, builder = self.w, self.builder
        with self._counting("group", "i64", "%first", "%last") as group:
            builder.group = group
            builder.group_ids = self._group_ids(group)
            if self.plan.has_grid_barrier:
                away = w.emit(f"mul i64 {group}, %context.bytes")
                self.context = w.emit(f"getelementptr i8, ptr %scratch, i64 {away}")
            for name, offset in self.tiles.items():
                builder.pointers[name] = w.emit(f"getelementptr i8, ptr {self.context}, i64 {offset}")
            self._items(items)
        builder.group, builder.group_ids, self.context = "0", ("0", "0", "0"), "%scratch"

    def _group_ids(self, group: str) -> tuple[str, str, str]:
        """Linear number -> place along x, y, z."""
        w = self.w
        width, height = (w.emit(f"zext i32 {extent} to i64") for extent in self.builder.extents[:2])
        rest = w.emit(f"udiv i64 {group}, {width}")
        x = w.emit(f"urem i64 {group}, {width}")
        y = w.emit(f"urem i64 {rest}, {height}")
        z = w.emit(f"udiv i64 {rest}, {height}")
        x, y, z = (w.emit(f"trunc i64 {position} to i32") for position in (x, y, z))
        return x, y, z

    # --- segments

    def _segment(self, segment: Segment) -> None:
        if self.chunks == 1:
            self._chunk(segment)
        else:
            with self._counting(
                "chunk", "i32", "%zero", str(self.builder.program.lanes), SUBGROUP_SIZE
            ) as linear:
                self.builder.linear = linear
                self._chunk(segment)
            self.builder.linear = "%zero"
        agreed = [(target, source) for target, source in segment.assigns if self._agreed(target)]
        if agreed:
            emitter = self._outside(*(source for _, source in agreed))
            for target, source in agreed:
                self._store(target, emitter.scalars(source))

    def _chunk(self, segment: Segment) -> None:
        inside = segment.defined_values()
        emitter = SubgroupEmitter(self.builder, self._present(), TABLE)
        for value in segment.used():
            if value not in inside:
                self._fetch(emitter, value)

        def keep(value: Value) -> None:
            if value in inside and value in self.stored and not _is_anew(value):
                self._store(value, emitter.values[value])

        emitter.on_define = keep
        emitter.ops(segment.ops)
        given = [
            (target, emitter.get(source, self._storage(target).shape))
            for target, source in segment.assigns
            if not self._agreed(target)
        ]
        for target, parts in given:
            self._store(target, parts)

    def _present(self) -> str | None:
        """The lanes of a chunk that the workgroup has; None for all."""
        lanes, w = self.builder.program.lanes, self.w
        rest = lanes % SUBGROUP_SIZE
        if not rest:
            return None
        kind = WIDE.of("i32")
        here = self.builder.lane_indices(self.builder.linear)
        return w.emit(f"icmp ult {kind} {here}, {WIDE.integer('i32', lanes)}")

    # --- control flow around segments

    def _split(self, split: SplitOp) -> None:
        scopes = [op.attrs["scope"] for op in split.op.walk() if op.name == "barrier"]
        needed = Level.GRID if "grid" in scopes else Level.WORKGROUP
        if any(self.builder.facts.level(value) > needed for value in control_operands(split.op)):
            raise DivergentBarrier(split.op)
        write: dict[str, Callable[[SplitOp], None]] = {"if": self._if, "for": self._for, "while": self._while}
        write[split.op.name](split)

    def _if(self, split: SplitOp) -> None:
        w, condition = self.w, split.op.operands[0]
        then, end = w.label("then"), w.label("endif")
        other = w.label("else") if len(split.blocks) > 1 else end
        w.branch_if(self._outside(condition).scalar(condition), then, other)
        for label, items in zip((then, other), split.blocks, strict=False):
            w.start(label)
            self._items(items)
            w.branch(end)
        w.start(end)

    def _for(self, split: SplitOp) -> None:
        op, builder, w = split.op, self.builder, self.w
        counter = op.regions[0].args[0]
        kind = carrier(counter.type)
        slot = builder.slot(kind)
        self.storages[counter] = _Storage(SCALAR, kind, [slot], [], False, 0)
        rounds = TripCounter(self._outside(*control_operands(op)), op)
        head, body, done = w.label("for"), w.label("body"), w.label("endfor")
        w.branch(head)
        w.start(head)
        number = rounds.number()
        w.branch_if(w.emit(f"icmp ult {kind} {number}, {rounds.trips}"), body, done)
        w.start(body)
        builder.store(kind, rounds.counter(number), slot)
        self._items(split.blocks[0])
        rounds.advance(number)
        w.branch(head)
        w.start(done)

    def _while(self, split: SplitOp) -> None:
        w = self.w
        end = split.op.regions[0].terminator
        assert end is not None
        condition, body = split.blocks
        head, inside, done = w.label("while"), w.label("do"), w.label("endwhile")
        w.branch(head)
        w.start(head)
        self._items(condition)
        holds = end.operands[0]
        w.branch_if(self._outside(holds).scalar(holds), inside, done)
        w.start(inside)
        self.builder.exit_if_stopped(split.op)
        self._items(body)
        w.branch(head)
        w.start(done)


def _is_anew(value: Value) -> bool:
    """A constant, id or size."""
    op = value.owner
    return isinstance(op, Op) and op.definition.is_pure and not op.operands and not op.regions
