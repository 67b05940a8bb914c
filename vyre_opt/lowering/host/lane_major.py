"""Writes the ops on vectors that are held lane after lane, see lane_major_layout.py.

Consecutive ops are written chunk by chunk, not op by op, so that what lives from one to the next is a few registers
and not a subgroup's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Protocol

from ...ir.folding import lanes_of
from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op, Value
from ...ir.rewrite import constant_value
from ...records import dataclass
from ..common import conversions, elementwise
from ..common.guards import largest_lane, needs_guard
from ..common.lane_shape import SCALAR, LaneShape, carrier
from ..common.llvm_text import Writer
from .byte_shuffles import ByteShuffle
from .function_builder import WIDE, FunctionBuilder
from .held_values import MemoryForValues, Parts
from .lane_facts import LaneFacts

__all__ = ["LaneMajorVectors"]


class SubgroupValues(Protocol):
    """Access to the other values of a subgroup; see `SubgroupEmitter`."""

    builder: FunctionBuilder
    w: Writer
    facts: LaneFacts
    values: dict[Value, Parts]
    memory: MemoryForValues | None
    on_define: Callable[[Value], None]

    def shape(self, value: Value) -> LaneShape: ...

    def define(self, value: Value, parts: Iterable[str]) -> None: ...

    def lane(self, value: Value) -> str: ...

    def scalar(self, value: Value) -> str: ...


@dataclass(slots=True)
class _PendingWrite:
    """Write that is still pending: `write` writes a chunk of all lanes, then `finish` the values that are no vectors."""

    write: Callable[[int], str]
    finish: Callable[[list[str]], None] | None
    chunks: list[str] = field(default_factory=list)


class LaneMajorVectors:
    """The values of a subgroup's emitter that are held lane after lane.

    `chunks`: the LLVM vectors of each; those of ops that are still to be written have none yet.
    """

    def __init__(self, emitter: SubgroupValues) -> None:
        self.emitter, self.builder, self.w = emitter, emitter.builder, emitter.w
        self.layout = emitter.builder.layout
        self.count = SUBGROUP_SIZE // self.layout.lanes
        self.chunks: dict[Value, list[str]] = {}
        self.pending: list[_PendingWrite] = []
        self._unwritten: dict[Value, None] = {}
        self._has_store = False

    # --- values in this layout

    def takes(self, op: Op) -> bool:
        """Whether the op is written chunk by chunk."""
        values = self.layout.values
        if op.results and op.results[0] in values:
            return True
        if op.definition.format == "movemask":
            return True  # of compared floats too, which are put together for it
        if op.definition.format == "store":
            return op.operands[0] in values and self.emitter.facts.stride(op.index) != 0
        takes_apart = op.definition.format == "extract" or (
            op.name == "bitcast" and not op.results[0].type.is_vec and op.results[0].type.is_int
        )
        return takes_apart and op.operands[0] in values

    def lanes(self, value: Value) -> int:
        """The lanes of a chunk of `value`."""
        return 1 if self.emitter.shape(value) is SCALAR else self.layout.lanes

    def shape(self, value: Value) -> LaneShape:
        """The LLVM vector that a chunk of `value` is."""
        return LaneShape(self.lanes(value) * value.type.lanes)

    def kind(self, value: Value) -> str:
        return self.shape(value).of(carrier(value.type.element))

    # --- the order of writing

    def prepare(self, op: Op) -> None:
        """Write, before an op is written or put off, the values that it needs, and the accesses that must not change places with it."""
        if not self.pending:
            return
        if self.takes(op):
            # a scalar is put together from all chunks
            needs = any(v in self._unwritten and v not in self.layout.values for v in op.operands)
            needs |= self._has_store and op.name == "load"
        else:
            needs = not op.definition.is_pure or any(v in self._unwritten for v in op.operands)
        if needs:
            self.flush()

    def flush(self) -> None:
        """Write what was put off."""
        pending, unwritten = self.pending, self._unwritten
        self.pending, self._unwritten, self._has_store = [], {}, False
        for number in range(self.count) if pending else ():
            for item in pending:
                item.chunks.append(item.write(number))
        for item in pending:
            if item.finish is not None:
                item.finish(item.chunks)
        for value in unwritten:
            if value in self.chunks:
                self._defined(value)

    def define(self, value: Value, write: Callable[[int], str]) -> None:
        """Set how each chunk of `value` is written."""
        if self.emitter.shape(value) is SCALAR:
            self.chunks[value] = [write(0)]
            self._defined(value)
            return
        item = _PendingWrite(write, None)
        self.chunks[value] = item.chunks
        self._put_off(item, value)

    def define_elsewhere(self, value: Value, write: Callable[[int], str]) -> None:
        """Set how the lanes of each chunk are written of a value that is not held here: one element for each lane."""
        if self.emitter.shape(value) is SCALAR:
            self.emitter.define(value, [write(0)])
            return

        def finish(chunks: list[str]) -> None:
            self.emitter.define(value, [self._joined(carrier(value.type.element), self.layout.lanes, chunks)])

        self._put_off(_PendingWrite(write, finish), value)

    def store(self, write: Callable[[int], str]) -> None:
        """Put a store of each chunk off."""
        self._has_store = True
        self._put_off(_PendingWrite(write, None))

    def after(self, finish: Callable[[], None]) -> None:
        """Run a callback after the chunks of a deferred op."""
        self._put_off(_PendingWrite(lambda number: "", lambda chunks: finish()))

    def _put_off(self, item: _PendingWrite, *values: Value) -> None:
        self.pending.append(item)
        self._unwritten.update(dict.fromkeys(values))
        # values that share a slot in memory are stored there in the order of their ops
        if any(map(self._is_in_memory, values)):
            self.flush()

    def _is_in_memory(self, value: Value) -> bool:
        return self.emitter.memory is not None and self.emitter.memory.holds(value)

    def _defined(self, value: Value) -> None:
        if self._is_in_memory(value):
            self.emitter.define(value, self.elements(value))
            del self.chunks[value]
        else:
            self.emitter.on_define(value)

    # --- chunks and elements

    def operand(self, value: Value, like: Value) -> Sequence[str]:
        """The chunks of a vector; where `like` differs from lane to lane, chunks of as many lanes as its.

        Those of an op that is put off are in the list once they are written.
        """
        return self._own(value) if self.emitter.shape(like) is SCALAR else self.wide(value)

    def wide(self, value: Value) -> Sequence[str]:
        """The chunks of a vector, of all lanes."""
        chunks = self._own(value)
        if self.emitter.shape(value) is not SCALAR:
            return chunks
        kind, elements = carrier(value.type.element), range(value.type.lanes)
        constant = _constant_elements(value)
        if constant is not None:
            return [_literal(kind, constant * self.layout.lanes)] * self.count
        order = [*elements] * self.layout.lanes
        return [self._shuffled(kind, value.type.lanes, chunks[0], order)] * self.count

    def _own(self, value: Value) -> Sequence[str]:
        chunks = self.chunks.get(value)
        return self._from_elements(value) if chunks is None else chunks

    def _from_elements(self, value: Value) -> list[str]:
        parts = list(self.emitter.values[value])
        kind, count = carrier(value.type.element), value.type.lanes
        if self.emitter.shape(value) is SCALAR:
            whole = "poison"
            for position, part in enumerate(parts):
                whole = self.w.emit(
                    f"insertelement <{count} x {kind}> {whole}, {kind} {part}, i64 {position}"
                )
            return [whole]
        stored, joined = self._bytes(kind, SUBGROUP_SIZE, parts)
        whole = self.builder.concatenate(stored, SUBGROUP_SIZE, joined)
        total = SUBGROUP_SIZE << (count - 1).bit_length()
        orders = [
            [part * SUBGROUP_SIZE + lane for lane in self._lanes_of(number) for part in range(count)]
            for number in range(self.count)
        ]
        chunks = [self.builder.shuffle(stored, total, (whole,), order) for order in orders]
        return [self._from_bytes(kind, len(order), c) for c, order in zip(chunks, orders, strict=True)]

    def elements(self, value: Value) -> list[str]:
        """A value as its emitter holds others: each element as a scalar, or as a vector of all lanes."""
        kind, count, chunks = carrier(value.type.element), value.type.lanes, self.chunks[value]
        if self.emitter.shape(value) is SCALAR:
            constant = _constant_elements(value)
            return constant or [
                self.w.emit(f"extractelement <{count} x {kind}> {chunks[0]}, i64 {position}")
                for position in range(count)
            ]
        stored, pieces = self._bytes(kind, self.layout.lanes * count, chunks)
        whole = self.builder.concatenate(stored, self.layout.lanes * count, pieces)
        total = SUBGROUP_SIZE * count
        return [
            self._from_bytes(
                kind,
                SUBGROUP_SIZE,
                self.builder.shuffle(stored, total, (whole,), range(position, total, count)),
            )
            for position in range(count)
        ]

    def _lanes_of(self, number: int) -> range:
        """The lanes of a chunk."""
        return range(number * self.layout.lanes, (number + 1) * self.layout.lanes)

    def _slices(self, value: Value, times: int) -> Callable[[int], str]:
        """Writer of a chunk that has the one element of each lane `times` times."""
        whole, kind = self.emitter.lane(value), carrier(value.type)

        def write(number: int) -> str:
            order = [lane for lane in self._lanes_of(number) for _ in range(times)]
            return self._shuffled(kind, SUBGROUP_SIZE, whole, order)

        return write

    def _shuffled(self, kind: str, lanes: int, vector: str, order: Sequence[int]) -> str:
        """Lanes of a vector in a new order; of one of them, the scalar that LaneShape(1) is."""
        if len(order) == 1:
            return self.w.emit(f"extractelement <{lanes} x {kind}> {vector}, i64 {order[0]}")
        stored, (piece,) = self._bytes(kind, lanes, [vector])
        return self._from_bytes(kind, len(order), self.builder.shuffle(stored, lanes, (piece,), order))

    def _joined(self, kind: str, lanes: int, vectors: Sequence[str]) -> str:
        """The lanes of the chunks of a value, each of so many, as one vector."""
        if lanes == 1:
            whole, wide = "poison", WIDE.of(kind)
            for lane, element in enumerate(vectors):
                whole = self.w.emit(f"insertelement {wide} {whole}, {kind} {element}, i64 {lane}")
            return whole
        stored, pieces = self._bytes(kind, lanes, vectors)
        return self._from_bytes(kind, SUBGROUP_SIZE, self.builder.concatenate(stored, lanes, pieces))

    def _bytes(self, kind: str, lanes: int, vectors: Iterable[str]) -> tuple[str, list[str]]:
        """Vectors of so many lanes for a shuffle, and the kind of their elements: a bool is shuffled as a byte."""
        if kind != "i1":
            return kind, list(vectors)
        return "i8", [self.w.emit(f"zext <{lanes} x i1> {v} to <{lanes} x i8>") for v in vectors]

    def _from_bytes(self, kind: str, lanes: int, vector: str) -> str:
        if kind != "i1":
            return vector
        return self.w.emit(f"icmp ne <{lanes} x i8> {vector}, zeroinitializer")

    # --- ops

    def write(self, op: Op) -> None:
        """Write an op, or put it off."""
        _OPS[op.definition.format](self, op)

    def _columns(self, op: Op) -> Callable[[int], list[str]]:
        """Function from a number to the chunks of that number of all operands, which are vectors."""
        operands = [self.operand(value, op.results[0]) for value in op.operands]
        return lambda number: [chunks[number] for chunks in operands]

    def _arithmetic(self, op: Op) -> None:
        result, columns = op.results[0], self._columns(op)
        guarded = needs_guard(op, self.emitter.facts.forms)
        target, flags = self.builder.features.arithmetic, op.attrs.get("fastmath", ())
        apply = elementwise.Elementwise(
            self.w, self.shape(result), result.type.element, target, guarded, flags
        ).apply
        self.define(result, lambda number: apply(op.name, columns(number)))

    def _compare(self, op: Op) -> None:
        result, columns = op.results[0], self._columns(op)
        shape, dtype = self.shape(result), op.operands[0].type.element
        self.define(
            result, lambda number: elementwise.compare(self.w, shape, op.name, dtype, *columns(number))
        )

    def _select(self, op: Op) -> None:
        predicate, *arms = op.operands
        result = op.results[0]
        a, b = (self.operand(value, result) for value in arms)
        shape, kind = self.shape(result), self.kind(result)
        flags, condition = shape.of("i1"), self._condition(predicate, result)
        if not predicate.type.is_vec and self.emitter.shape(predicate) is SCALAR:
            flags = "i1"
        self.define(
            result,
            lambda n: self.w.emit(f"select {flags} {condition(n)}, {kind} {a[n]}, {kind} {b[n]}"),
        )

    def _condition(self, predicate: Value, result: Value) -> Callable[[int], str]:
        if predicate.type.is_vec:
            return self.operand(predicate, result).__getitem__
        if self.emitter.shape(predicate) is SCALAR:
            scalar = self.emitter.scalar(predicate)
            return lambda number: scalar
        return self._slices(predicate, result.type.lanes)

    def _convert(self, op: Op) -> None:
        source, result = op.operands[0], op.results[0]
        if op.name == "cast":
            chunks, shape = self.operand(source, result), self.shape(result)
            pair = (source.type.element, result.type.element)
            self.define(result, lambda number: conversions.convert(self.w, shape, *pair, chunks[number]))
            return
        old, new = self.kind(source), self.kind(result)
        chunk = self.operand(source, result).__getitem__ if source.type.is_vec else self._scalar(source)
        define = self.define if result in self.layout.values else self.define_elsewhere
        define(result, lambda number: self.w.emit(f"bitcast {old} {chunk(number)} to {new}"))

    def _scalar(self, value: Value) -> Callable[[int], str]:
        """A chunk of a value that has one element for each lane."""
        if self.emitter.shape(value) is SCALAR:
            scalar = self.emitter.scalar(value)
            return lambda number: scalar
        return self._slices(value, 1)

    def _splat(self, op: Op) -> None:
        source, result = op.operands[0], op.results[0]
        if self.emitter.shape(result) is SCALAR:
            kind, scalar = carrier(source.type), self.emitter.scalar(source)
            self.define(result, lambda number: self.builder.splat(kind, scalar, self.shape(result)))
        else:
            self.define(result, self._slices(source, result.type.lanes))

    def _const(self, op: Op) -> None:
        result = op.results[0]
        elements = _constant_elements(result)
        assert elements is not None
        self.define(result, lambda number: _literal(carrier(result.type.element), elements))

    def _permute(self, op: Op) -> None:
        table, index = op.operands
        result, lanes = op.results[0], self.lanes(op.results[0])
        tables, indices = (self.operand(value, result) for value in op.operands)
        shares = lanes > 1 and self.emitter.shape(table) is SCALAR
        if shares:
            tables = [self._own(table)[0]] * self.count
        shuffle = ByteShuffle(
            self.builder,
            lanes=lanes,
            entries=table.type.lanes,
            indices=index.type.lanes,
            one_table=shares or lanes == 1,
            is_inside=largest_lane(index) < table.type.lanes,
        )
        known = constant_value(index)
        if known is not None:
            constant = lanes_of(known, index.type)
            self.define(result, lambda number: shuffle.write_constant(tables[number], constant))
        else:
            self.define(result, lambda number: shuffle.write(tables[number], indices[number]))

    def _movemask(self, op: Op) -> None:
        flags, result = op.operands[0], op.results[0]
        chunks, new = self.operand(flags, result), LaneShape(self.lanes(result)).type(result.type)
        old = self.kind(flags)
        self.define_elsewhere(result, lambda n: self.w.emit(f"bitcast {old} {chunks[n]} to {new}"))

    def _extract(self, op: Op) -> None:
        vector, result = op.operands[0], op.results[0]
        chunks, kind, count = self._own(vector), carrier(result.type), vector.type.lanes
        position, lanes = op.attrs["index"], self.lanes(vector)
        if self.emitter.shape(result) is SCALAR:
            (element,) = chunks
            self.emitter.define(
                result, [self.w.emit(f"extractelement {self.kind(vector)} {element}, i64 {position}")]
            )
            return
        order = range(position, lanes * count, count)
        self.define_elsewhere(result, lambda n: self._shuffled(kind, lanes * count, chunks[n], order))


_OPS: dict[str, Callable[[LaneMajorVectors, Op], None]] = {
    **dict.fromkeys(("unary", "binary"), LaneMajorVectors._arithmetic),
    "compare": LaneMajorVectors._compare,
    "select": LaneMajorVectors._select,
    "convert": LaneMajorVectors._convert,
    "splat": LaneMajorVectors._splat,
    "const": LaneMajorVectors._const,
    "permute": LaneMajorVectors._permute,
    "movemask": LaneMajorVectors._movemask,
    "extract": LaneMajorVectors._extract,
}


def _constant_elements(value: Value) -> list[str] | None:
    op = value.owner
    if not isinstance(op, Op) or op.name != "const":
        return None
    encoded, dtype = op.attrs["value"], value.type
    lanes = encoded if isinstance(encoded, tuple) else (encoded,) * dtype.lanes
    return [SCALAR.const(lane, dtype.element) for lane in lanes]


def _literal(kind: str, elements: Sequence[str]) -> str:
    return f"<{', '.join(f'{kind} {element}' for element in elements)}>"
