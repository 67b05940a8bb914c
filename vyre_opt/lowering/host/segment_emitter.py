"""Writes a segment plan: loops over workgroups and subgroups, and storage for values that cross segments.

    for each workgroup                (inside the phases, where grid barriers separate them)
      for each item
        Segment: for each subgroup    its ops
        SplitOp: a branch or a loop around items

A value that is used in another segment is stored once for the workgroup if it is uniform there,
else once for each subgroup: as a scalar, an element a row or 32 lanes, as `SubgroupEmitter` holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field

from ...ir.ops import BEYOND_WORKGROUP, SUBGROUP_SIZE
from ...ir.program import Op, Value
from ...ir.uniformity import Level
from ...records import dataclass
from ..common.lane_shape import CARRIER_BYTES, SCALAR, LaneShape, carrier
from .barrier_split import Phase, PlanItem, Segment, SegmentPlan, SplitOp, all_segments, control_operands
from .control import CONTROL_OPS, TripCounter
from .function_builder import WIDE, FunctionBuilder
from .held_values import Parts, PartsInMemory
from .live_values import ValueInMemory
from .matrices import MATRIX_OPS
from .memory import MEMORY_OPS
from .outline import write_block
from .subgroup_emitter import COMPUTE_OPS, SubgroupEmitter
from .subgroup_ops import SUBGROUP_OPS

__all__ = ["DivergentBarrier", "SegmentEmitter"]

TABLE = {**COMPUTE_OPS, **MEMORY_OPS, **SUBGROUP_OPS, **MATRIX_OPS, **CONTROL_OPS}
ALIGN = 64


class DivergentBarrier(Exception):
    """A barrier in control flow that may not be uniform over its scope; no verified program has one."""

    def __init__(self, op: Op) -> None:
        super().__init__(op.name)
        self.op = op


@dataclass(slots=True)
class _ValueStorage:
    """The place of a value between segments: stack slots, or an offset in the workgroup's context.

    The context is the workgroup's part of `%scratch`.  `step`: bytes from a part to the next; `size`: of one part.
    `per_subgroup`: the context has a copy of a part for each subgroup, `size` bytes apart.
    """

    shape: LaneShape
    kind: str
    slots: list[str] = field(default_factory=list)
    offset: int = 0
    step: int = 0
    per_subgroup: bool = False
    size: int = 0


class SegmentEmitter:
    """Writes a plan.

    `zeroed`: the workgroup buffers that each workgroup begins with as zeros; the others hold anything.
    `in_memory`: values that are stored as soon as they are computed.
    `context_bytes`: what a workgroup needs in `%scratch`, for workgroup buffers, then stored values.
    """

    def __init__(
        self,
        builder: FunctionBuilder,
        plan: SegmentPlan,
        zeroed: Collection[str] = (),
        in_memory: Sequence[ValueInMemory] = (),
    ) -> None:
        self.builder = builder
        self.zeroed = zeroed
        self.in_memory = {item.value for item in in_memory}
        self.w = builder.w
        self.plan = plan
        self.context_bytes = 0
        self.subgroups = -(-builder.program.lanes // SUBGROUP_SIZE)
        self.storages: dict[Value, _ValueStorage] = {}
        buffers = builder.program.buffers.values()
        self.tiles = {b.name: self._allocate(b.size_bytes or 0) for b in buffers if b.is_on_chip}
        self.stored = set(plan.stored)
        # A uniform target is assigned behind the loop over subgroups, where its source must be loaded
        for segment in all_segments(plan.items):
            self.stored.update(s for target, s in segment.assigns if self._is_workgroup_uniform(target))
        # in the order of slots: of those of one slot, only one is live at a time, and in one segment
        offsets: dict[int, int] = {}
        for item in in_memory:
            if item.value not in self.stored:
                self.storages[item.value] = self._shared_storage(item, offsets)

    def write(self) -> None:
        if self.plan.has_grid_barrier:
            if self.zeroed:
                self._groups([], begins=True)
            self._items(self.plan.items)
        else:
            self._groups(self.plan.items, begins=True)

    def _allocate(self, size: int) -> int:
        """Reserve `size` bytes of the context; returns their offset."""
        offset = self.context_bytes
        self.context_bytes = offset + -(-size // ALIGN) * ALIGN
        return offset

    # --- storage

    def _is_workgroup_uniform(self, value: Value) -> bool:
        return self.builder.facts.level(self.plan.aliases.get(value, value)) <= Level.WORKGROUP

    def _storage(self, value: Value) -> _ValueStorage:
        value = self.plan.aliases.get(value, value)
        storage = self.storages.get(value)
        if storage is None:
            storage = self.storages[value] = self._make_storage(value)
        return storage

    def _make_storage(self, value: Value) -> _ValueStorage:
        kind, lanes = carrier(value.type.element), range(value.type.lanes)
        is_uniform = self._is_workgroup_uniform(value)
        # With a grid barrier all workgroups run one phase before the next, and would share the slots
        if is_uniform and not self.plan.has_grid_barrier:
            return _ValueStorage(SCALAR, kind, slots=[self.builder.slot(kind) for _ in lanes])
        shape = self.builder.shape(value)
        size = CARRIER_BYTES[kind] * shape.lanes
        count = 1 if is_uniform else self.subgroups
        step = -(-size * count // ALIGN) * ALIGN
        offset = self._allocate(step * len(lanes))
        return _ValueStorage(shape, kind, offset=offset, step=step, per_subgroup=not is_uniform, size=size)

    def _shared_storage(self, item: ValueInMemory, offsets: dict[int, int]) -> _ValueStorage:
        """Storage in the item's slot; `offsets` has the offset of each in the context."""
        if item.slot not in offsets:
            offsets[item.slot] = self._allocate(item.slot_bytes)
        kind = carrier(item.value.type.element)
        size = CARRIER_BYTES[kind] * SUBGROUP_SIZE
        return _ValueStorage(WIDE, kind, offset=offsets[item.slot], step=size, size=size)

    def _address(self, storage: _ValueStorage, part: str) -> str:
        """Address of a stored part, given by a literal, or by an LLVM name if the value is in memory."""
        if storage.slots:
            return storage.slots[int(part)]
        w = self.w
        at = w.emit(f"getelementptr i8, ptr {self.builder.context}, i64 {storage.offset}")
        at = w.emit(f"getelementptr [{storage.step} x i8], ptr {at}, i64 {part}") if part != "0" else at
        if storage.per_subgroup and self.subgroups > 1:
            subgroup = w.emit(f"lshr i32 {self.builder.linear}, {SUBGROUP_SIZE.bit_length() - 1}")
            subgroup_offset = w.emit(f"mul i32 {subgroup}, {storage.size}")
            at = w.emit(f"getelementptr i8, ptr {at}, i32 {subgroup_offset}")
        return at

    def _load(self, value: Value) -> Parts:
        storage, count = self._storage(value), value.type.lanes
        # volatile, for LLVM would rather keep what was stored
        move = "load volatile" if value in self.in_memory else "load"
        kind, align = storage.shape.of(storage.kind), self._alignment(storage)

        def load(part: str) -> str:
            return self.w.emit(f"{move} {kind}, ptr {self._address(storage, part)}{align}")

        return (
            PartsInMemory(count, load)
            if value in self.in_memory
            else tuple(map(load, map(str, range(count))))
        )

    def _store(self, value: Value, parts: Iterable[str]) -> None:
        for number, part in enumerate(parts):
            self._store_part(value, part, str(number))

    def _store_part(self, value: Value, part: str, number: str) -> None:
        storage = self._storage(value)
        move = "store volatile" if value in self.in_memory else "store"
        kind, align = storage.shape.of(storage.kind), self._alignment(storage)
        self.w.line(f"{move} {kind} {part}, ptr {self._address(storage, number)}{align}")

    # --- of values in memory, see MemoryForValues

    def holds(self, value: Value) -> bool:
        return value in self.in_memory

    def store(self, value: Value, parts: Iterable[str]) -> PartsInMemory:
        self._store(value, parts)
        loaded = self._load(value)
        assert isinstance(loaded, PartsInMemory)
        return loaded

    def store_each(self, value: Value, write: Callable[[str], str]) -> PartsInMemory:
        with self.builder.each_part(value.type.lanes) as number:
            self._store_part(value, write(number), number)
        return self.store(value, ())

    @staticmethod
    def _alignment(storage: _ValueStorage) -> str:
        return "" if storage.slots else f", align {min(ALIGN, storage.size)}"

    def _make_available(self, emitter: SubgroupEmitter, value: Value) -> None:
        """Make a value of another segment available: loaded, or written again if that is cheaper."""
        if _is_recomputed(value):
            assert isinstance(value.owner, Op)
            emitter.op(value.owner)
        else:
            emitter.values[value] = self._load(value)

    def _uniform_emitter(self, *values: Value) -> SubgroupEmitter:
        """An emitter outside the loop over subgroups, with values that are uniform over the workgroup."""
        emitter = SubgroupEmitter(self.builder, None, TABLE)
        for value in values:
            self._make_available(emitter, value)
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

    def _groups(self, items: list[PlanItem], begins: bool = False) -> None:
        """A loop over workgroups; `begins`: it is the first."""
        w, builder, program = self.w, self.builder, self.builder.program
        with self.builder.counting("group", "i64", "%first", "%last") as group:
            builder.group = group
            builder.group_ids = self._group_ids(group)
            if self.plan.has_grid_barrier:
                # A name, since the size is known only when all is written (see program._define_groups)
                context_offset = w.emit(f"mul i64 {group}, %context.bytes")
                builder.context = w.emit(f"getelementptr i8, ptr %scratch, i64 {context_offset}")
            for name, offset in self.tiles.items():
                context = self._first_context(group) if program.buffers[name].is_cluster else builder.context
                builder.pointers[name] = w.emit(f"getelementptr i8, ptr {context}, i64 {offset}")
                if begins and name in self.zeroed:
                    self._zero(name)
            self._items(items)
        builder.group, builder.group_ids, builder.context = "0", ("0", "0", "0"), "%scratch"

    def _first_context(self, group: str) -> str:
        """The context of the first workgroup of a cluster, where its memory is."""
        w, builder = self.w, self.builder
        if not self.plan.has_grid_barrier:  # what one workgroup leaves there, no other may read
            return builder.context
        first = w.emit(f"sub i64 {group}, {w.emit(f'urem i64 {group}, {builder.program.cluster}')}")
        return w.emit(f"getelementptr i8, ptr %scratch, i64 {w.emit(f'mul i64 {first}, %context.bytes')}")

    def _zero(self, tile: str) -> None:
        size = self.builder.program.buffers[tile].size_bytes or 0
        target = f"align {ALIGN} {self.builder.pointers[tile]}"
        self.w.call(
            "llvm.memset.p0.i64", "void", [("ptr", target), ("i8", "0"), ("i64", str(size)), ("i1", "false")]
        )

    def _group_ids(self, group: str) -> tuple[str, str, str]:
        """The workgroup ids along x, y, z of a linear one."""
        w = self.w
        width, height = (w.emit(f"zext i32 {extent} to i64") for extent in self.builder.extents[:2])
        rest = w.emit(f"udiv i64 {group}, {width}")
        quotients = (f"urem i64 {group}, {width}", f"urem i64 {rest}, {height}", f"udiv i64 {rest}, {height}")
        wide = [w.emit(quotient) for quotient in quotients]
        x, y, z = (w.emit(f"trunc i64 {component} to i32") for component in wide)
        return x, y, z

    # --- segments

    def _segment(self, segment: Segment) -> None:
        if self.subgroups == 1:
            self._subgroup(segment)
        else:
            lanes = str(self.builder.program.lanes)
            with self.builder.counting("chunk", "i32", "%zero", lanes, SUBGROUP_SIZE) as linear:
                self.builder.linear = linear
                self._subgroup(segment)
            self.builder.linear = "%zero"
        uniform = [pair for pair in segment.assigns if self._is_workgroup_uniform(pair[0])]
        if uniform:
            emitter = self._uniform_emitter(*(source for _, source in uniform))
            for target, source in uniform:
                self._store(target, emitter.scalars(source))

    def _subgroup(self, segment: Segment) -> None:
        inside = segment.defined_values()
        emitter = SubgroupEmitter(self.builder, self._existing_lanes(), TABLE)
        emitter.memory = self if self.in_memory else None
        for value in segment.used_values():
            if value not in inside:
                self._make_available(emitter, value)

        def store_result(value: Value) -> None:
            is_stored = value in self.in_memory or _is_recomputed(value)
            if value in inside and value in self.stored and not is_stored:
                self._store(value, emitter.elements(value))

        emitter.on_define = store_result
        write_block(emitter, segment.ops)
        # All sources are read before a target is written: a loop may swap its values
        results = [
            (target, emitter.get(source, self._storage(target).shape))
            for target, source in segment.assigns
            if not self._is_workgroup_uniform(target)
        ]
        for target, parts in results:
            self._store(target, parts)

    def _existing_lanes(self) -> str | None:
        """The mask of lanes that exist in the workgroup, whose last subgroup may be partial; None for all."""
        lanes, w = self.builder.program.lanes, self.w
        remainder = lanes % SUBGROUP_SIZE
        if not remainder:
            return None
        kind = WIDE.of("i32")
        ids = self.builder.lane_indices(self.builder.linear)
        return w.emit(f"icmp ult {kind} {ids}, {WIDE.integer('i32', lanes)}")

    # --- control flow around segments

    def _split(self, split: SplitOp) -> None:
        scopes = [op.attrs["scope"] for op in split.op.walk() if op.name == "barrier"]
        # A branch around a grid barrier is taken once for all workgroups, so all must agree
        level = Level.GRID if set(BEYOND_WORKGROUP) & set(scopes) else Level.WORKGROUP
        if any(self.builder.facts.level(value) > level for value in control_operands(split.op)):
            raise DivergentBarrier(split.op)
        write: dict[str, Callable[[SplitOp], None]] = {"if": self._if, "for": self._for, "while": self._while}
        around = self.w.at(split.op.loc)
        write[split.op.name](split)
        self.w.at(around)

    def _if(self, split: SplitOp) -> None:
        w, condition = self.w, split.op.operands[0]
        then, end = w.label("then"), w.label("endif")
        other = w.label("else") if len(split.blocks) > 1 else end
        w.branch_if(self._uniform_emitter(condition).scalar(condition), then, other)
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
        self.storages[counter] = _ValueStorage(SCALAR, kind, slots=[slot])
        trip_counter = TripCounter(self._uniform_emitter(*control_operands(op)), op)
        head, body, done = w.label("for"), w.label("body"), w.label("endfor")
        w.fall_into(head)
        iteration = trip_counter.iteration()
        w.branch_if(w.emit(f"icmp ult {kind} {iteration}, {trip_counter.trips}"), body, done)
        w.start(body)
        builder.store(kind, trip_counter.counter(iteration), slot)
        self._items(split.blocks[0])
        trip_counter.advance(iteration)
        w.branch(head)
        w.start(done)

    def _while(self, split: SplitOp) -> None:
        w = self.w
        end = split.op.regions[0].terminator
        assert end is not None
        condition, body = split.blocks
        head, inside, done = w.label("while"), w.label("do"), w.label("endwhile")
        w.fall_into(head)
        self._items(condition)
        condition_value = end.operands[0]
        w.branch_if(self._uniform_emitter(condition_value).scalar(condition_value), inside, done)
        w.start(inside)
        self.builder.exit_if_stopped(split.op)
        self._items(body)
        w.branch(head)
        w.start(done)


def _is_recomputed(value: Value) -> bool:
    """Whether other segments write the op again instead of storing its value: a constant, id or size."""
    op = value.owner
    return isinstance(op, Op) and op.definition.is_pure and not op.operands and not op.regions
