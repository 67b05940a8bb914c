"""Writes the ops of one subgroup, 32 lanes of a workgroup; this file has the pure ops.

A value that is uniform over the subgroup, or an arithmetic progression over its lanes (see
lane_facts.py), is held as a scalar, its value in lane 0; one that is so in each row of lanes as a
vector with its value in the first lane of each; any other as a vector of 32.  A vec<N x T> is N of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

from ...ir.ops import AXES, SUBGROUP_SIZE
from ...ir.program import Op, Value
from ...ir.types import DataType
from ..common import conversions, elementwise
from ..common.guards import needs_guard
from ..common.lane_shape import SCALAR, LaneShape, carrier
from .function_builder import WIDE, FunctionBuilder
from .held_values import MemoryForValues, Parts, PartsInMemory
from .lane_major import LaneMajorVectors

__all__ = ["COMPUTE_OPS", "SubgroupEmitter"]


class SubgroupEmitter:
    """Writes ops for the lanes of `mask` (an i1 vector, or None for all 32).

    `table`: what writes an op, by name or form.  `values`: the LLVM values so far.  `on_define` is
    called with each value when it is defined.  `memory`: for values that are kept there, None where none is.
    `columns`: where the elements of all lanes are that an access moves, if they are on the stack (see loop_tiles.py).
    """

    def __init__(
        self,
        builder: FunctionBuilder,
        mask: str | None,
        table: dict[str, Callable[[SubgroupEmitter, Op], None]],
    ) -> None:
        self.builder = builder
        self.w = builder.w
        self.facts = builder.facts
        self.mask = mask
        self.table = table
        self.values: dict[Value, Parts] = {}
        self.on_define: Callable[[Value], None] = lambda value: None
        self.memory: MemoryForValues | None = None
        self.columns: dict[Op, str] = {}
        self.lane_major = LaneMajorVectors(self)

    def op(self, op: Op) -> None:
        around = self.w.at(op.loc)
        self.lane_major.prepare(op)
        if op.definition.is_pure and self.lane_major.takes(op):
            self.lane_major.write(op)
        else:
            self.table[op.definition.format if op.name not in self.table else op.name](self, op)
        self.w.at(around)

    def write_pure(self, value: Value) -> None:
        """Write the ops that a value follows from, all of them pure, unless they are written."""
        if value not in self.values:
            assert isinstance(value.owner, Op)
            for operand in value.owner.operands:
                self.write_pure(operand)
            self.op(value.owner)

    # --- values

    def shape(self, value: Value) -> LaneShape:
        """The shape in which `value` is held."""
        return self.builder.shape(value)

    def define(self, value: Value, parts: Iterable[str]) -> None:
        """Set what `value` is held as; `parts` are of its `shape`."""
        if self.memory is not None and self.memory.holds(value):
            self.values[value] = self.memory.store(value, parts)
        else:
            self.values[value] = tuple(parts)
        self.on_define(value)

    def define_each(
        self, value: Value, operands: Sequence[Parts], write: Callable[[Sequence[str], str], str]
    ) -> None:
        """Define a value by `write(column, number)`, which writes a part from those of the operands.

        Where value and operands are in memory that is a loop, so that long vectors are short code.
        """
        memory, is_vector = self.memory, value.type.lanes > 1
        if memory is not None and is_vector and memory.holds(value) and all(map(_has_any_part, operands)):
            self.values[value] = memory.store_each(
                value, lambda number: write([_part(parts, number) for parts in operands], number)
            )
            self.on_define(value)
            return
        columns = zip(*operands, strict=True) if operands else [()] * value.type.lanes
        self.define(value, (write(column, str(number)) for number, column in enumerate(columns)))

    def each_part(self, operands: Sequence[Parts], write: Callable[[Sequence[str], str], None]) -> None:
        """Write something for each part of values, by `write(column, number)`; a loop if they are in memory."""
        if len(operands[0]) > 1 and all(isinstance(parts, PartsInMemory) for parts in operands):
            with self.builder.each_part(len(operands[0])) as number:
                write([_part(parts, number) for parts in operands], number)
            return
        for position, column in enumerate(zip(*operands, strict=True)):
            write(column, str(position))

    def get(self, value: Value, shape: LaneShape) -> Parts:
        """`value` as scalars or as vectors; the scalar of a progression is its value in lane 0, or in a row's first."""
        if shape is SCALAR:
            return self.scalars(value)
        return self.lanes(value) if shape is WIDE else self.rows(value)

    def held(self, value: Value) -> Sequence[str] | None:
        """The LLVM values of `value`; None if it is in memory, or has none yet."""
        chunks = self.lane_major.chunks.get(value)
        if chunks is not None:
            return chunks
        parts = self.values.get(value)
        return parts if isinstance(parts, tuple) else None

    def held_kind(self, value: Value) -> str:
        """The LLVM type of each of them."""
        if value in self.lane_major.chunks:
            return self.lane_major.kind(value)
        return self.shape(value).type(value.type.element)

    def hold(self, value: Value, names: Iterable[str]) -> None:
        """Set other names for them."""
        if value in self.lane_major.chunks:
            self.lane_major.chunks[value] = [*names]
        else:
            self.values[value] = tuple(names)

    def elements(self, value: Value) -> Parts:
        """The parts of `value`, in its shape."""
        parts = self.values.get(value)
        return self.lane_major.elements(value) if parts is None else parts

    def scalars(self, value: Value) -> Parts:
        assert self.shape(value) is SCALAR, value
        return self.elements(value)

    def scalar(self, value: Value) -> str:
        return self.scalars(value)[0]

    def lanes(self, value: Value) -> Parts:
        """`value` as vectors."""
        parts, shape = self.elements(value), self.shape(value)
        if shape is WIDE:
            return parts
        kind, row = carrier(value.type.element), self.facts.row
        if shape is SCALAR:
            spread = tuple(self.builder.splat(kind, part) for part in parts)
            return self._progression(kind, WIDE, spread, self.facts.stride(value), range(SUBGROUP_SIZE))
        order = [lane // row for lane in range(SUBGROUP_SIZE)]
        spread = tuple(self.builder.shuffle(kind, shape.lanes, (part,), order) for part in parts)
        steps = [lane % row for lane in range(SUBGROUP_SIZE)]
        return self._progression(kind, WIDE, spread, self.facts.row_stride(value), steps)

    def rows(self, value: Value) -> Parts:
        """Vectors of the first lane's value in each row, for `value` with a stride in each row."""
        parts, shape = self.values[value], self.builder.rows
        if self.shape(value) is not SCALAR:
            assert self.shape(value) is shape, value
            return parts
        kind = carrier(value.type.element)
        spread = tuple(self.builder.splat(kind, part, shape) for part in parts)
        starts = range(0, SUBGROUP_SIZE, self.facts.row)
        return self._progression(kind, shape, spread, self.facts.stride(value), starts)

    def lane(self, value: Value) -> str:
        return self.lanes(value)[0]

    def _progression(
        self, kind: str, shape: LaneShape, bases: Parts, stride: int | None, lanes: Sequence[int]
    ) -> Parts:
        """base + stride * lane for each of `lanes`; only an integer has a stride that is not 0."""
        if not stride:
            return bases
        bits = int(kind[1:])
        steps = ", ".join(f"{kind} {(stride * lane) & ((1 << bits) - 1)}" for lane in lanes)
        return tuple(self.w.emit(f"add {shape.of(kind)} {base}, <{steps}>") for base in bases)

    def get_like(self, value: Value, like: Value) -> Parts:
        """`value` in the shape in which `like` is held."""
        return self.get(value, self.shape(like))

    # --- the mask

    def active_bits(self) -> str:
        return "-1" if self.mask is None else self.builder.mask_bits(self.mask)

    def first_active_lane(self) -> str:
        return "0" if self.mask is None else self.builder.first_lane(self.active_bits())


# --- ops that only compute


def _has_any_part(parts: Parts) -> bool:
    """Whether the part of a number that is not known yet can be named."""
    return isinstance(parts, PartsInMemory) or len(set(parts)) == 1


def _part(parts: Parts, number: str) -> str:
    return parts.load_part(number) if isinstance(parts, PartsInMemory) else parts[0]


def arithmetic(emitter: SubgroupEmitter, op: Op) -> None:
    result = op.results[0]
    shape, dtype = emitter.shape(result), result.type.element
    guarded = needs_guard(op, emitter.facts.forms)
    target, flags = emitter.builder.features.arithmetic, op.attrs.get("fastmath", ())
    apply = elementwise.Elementwise(emitter.w, shape, dtype, target, guarded, flags).apply
    operands = [emitter.get(value, shape) for value in op.operands]
    emitter.define_each(result, operands, lambda column, _: apply(op.name, column))


def compare(emitter: SubgroupEmitter, op: Op) -> None:
    result, dtype = op.results[0], op.operands[0].type.element
    shape = emitter.shape(result)
    operands = [emitter.get(value, shape) for value in op.operands]
    emitter.define_each(
        result, operands, lambda pair, _: elementwise.compare(emitter.w, shape, op.name, dtype, *pair)
    )


def select(emitter: SubgroupEmitter, op: Op) -> None:
    """A condition that is uniform over the subgroup selects whole vectors."""
    result, predicate = op.results[0], op.operands[0]
    shape = emitter.shape(result)
    uniform = emitter.facts.is_uniform(predicate)
    conditions = emitter.scalars(predicate) if uniform else emitter.lanes(predicate)
    if len(conditions) == 1:
        conditions = (conditions[0],) * result.type.lanes
    flags, kind = (SCALAR if uniform else shape).of("i1"), shape.type(result.type.element)

    def write(column: Sequence[str], _: str) -> str:
        condition, a, b = column
        return emitter.w.emit(f"select {flags} {condition}, {kind} {a}, {kind} {b}")

    emitter.define_each(result, [conditions, *(emitter.get(v, shape) for v in op.operands[1:])], write)


def convert(emitter: SubgroupEmitter, op: Op) -> None:
    source, result = op.operands[0], op.results[0]
    shape = emitter.shape(result)
    parts = emitter.get(source, shape)
    if op.name == "cast":
        pair = (source.type.element, result.type.element)
        emitter.define_each(
            result, [parts], lambda part, _: conversions.convert(emitter.w, shape, *pair, *part)
        )
    else:
        emitter.define(result, _bitcast(emitter, shape, source.type, result.type, parts))


def _bitcast(
    emitter: SubgroupEmitter, shape: LaneShape, source: DataType, target: DataType, parts: Parts
) -> list[str]:
    """Elements are cut into narrower ones or joined into wider ones, lowest bits first."""
    w, old, new = emitter.w, source.element.bits or 0, target.element.bits or 0
    bits = [conversions.bits_of(w, shape, source.element, part) for part in parts]
    element = f"i{max(old, new)}"
    narrow, wide = shape.of(f"i{min(old, new)}"), shape.of(element)
    pieces: list[str] = []
    if old == new:
        pieces = bits
    elif old > new:
        for whole in bits:
            for low in range(0, old, new):
                moved = w.emit(f"lshr {wide} {whole}, {shape.integer(element, low)}") if low else whole
                pieces.append(w.emit(f"trunc {wide} {moved} to {narrow}"))
    else:
        count = new // old
        for start in range(0, len(bits), count):
            total = ""
            for number, piece in enumerate(bits[start : start + count]):
                extended = w.emit(f"zext {narrow} {piece} to {wide}")
                if number:
                    amount = shape.integer(element, number * old)
                    extended = w.emit(f"shl {wide} {extended}, {amount}")
                    extended = w.emit(f"or {wide} {total}, {extended}")
                total = extended
            pieces.append(total)
    return [conversions.from_bits(w, shape, target.element, piece) for piece in pieces]


# --- constants, ids and sizes


def constant(emitter: SubgroupEmitter, op: Op) -> None:
    _constant(emitter, op.results[0], op.attrs["value"])


def spec(emitter: SubgroupEmitter, op: Op) -> None:
    _constant(emitter, op.results[0], emitter.builder.specs[op.attrs["spec"]])


def param(emitter: SubgroupEmitter, op: Op) -> None:
    result = op.results[0]
    word = emitter.builder.params[op.attrs["param"]]
    emitter.define(result, [conversions.of_word(emitter.w, result.type, word)])


def _constant(emitter: SubgroupEmitter, result: Value, value: Any) -> None:
    lanes = value if isinstance(value, tuple) else (value,) * result.type.lanes
    emitter.define(result, [SCALAR.const(lane, result.type.element) for lane in lanes])


def length(emitter: SubgroupEmitter, op: Op) -> None:
    count, result = emitter.builder.counts[op.attrs["buffer"]], op.results[0]
    if result.type is DataType.U32:
        count = emitter.w.emit(f"trunc i64 {count} to i32")
    emitter.define(result, [count])


def id_or_size(emitter: SubgroupEmitter, op: Op) -> None:
    """Ids and sizes of lanes, subgroups, workgroups and the grid."""
    result, builder, w = op.results[0], emitter.builder, emitter.w
    axis = AXES.index(op.attrs.get("axis", "x"))
    sizes = builder.program.workgroup
    if op.name == "lane_id":
        element = builder.lane_indices() if emitter.shape(result) is WIDE else "%zero"
    elif op.name == "local_id":
        element = _local_id(emitter, axis, emitter.shape(result))
    elif op.name == "global_id":
        shape = emitter.shape(result)
        start = w.emit(f"mul i32 {builder.group_ids[axis]}, {sizes[axis]}")
        if shape is not SCALAR:
            start = builder.splat("i32", start, shape)
        element = w.emit(f"add {shape.of('i32')} {start}, {_local_id(emitter, axis, shape)}")
    elif op.name == "global_size":
        element = w.emit(f"mul i32 {builder.extents[axis]}, {sizes[axis]}")
    elif op.name == "subgroup_id":
        element = w.emit(f"lshr i32 {builder.linear}, {SUBGROUP_SIZE.bit_length() - 1}")
    else:
        element = {
            "workgroup_id": builder.group_ids[axis],
            "num_workgroups": builder.extents[axis],
            "workgroup_size": str(sizes[axis]),
            "subgroup_size": str(SUBGROUP_SIZE),
            "num_subgroups": str(-(-builder.program.lanes // SUBGROUP_SIZE)),
        }[op.name]
    emitter.define(result, [element])


def _local_id(emitter: SubgroupEmitter, axis: int, shape: LaneShape) -> str:
    """(linear local id / stride of the axis) % its size, for lane 0, for the first lane of each row, or for all."""
    w, sizes = emitter.w, emitter.builder.program.workgroup
    stride = prod(sizes[:axis])
    kind, ids = shape.of("i32"), emitter.builder.linear
    if sizes[axis] == 1:
        return shape.integer("i32", 0)
    if shape is not SCALAR:
        ids = emitter.builder.lane_indices(ids, shape)
    if stride > 1:
        ids = w.emit(f"udiv {kind} {ids}, {shape.integer('i32', stride)}")
    if stride * sizes[axis] < emitter.builder.program.lanes:
        ids = w.emit(f"urem {kind} {ids}, {shape.integer('i32', sizes[axis])}")
    return ids


# --- vectors


def splat(emitter: SubgroupEmitter, op: Op) -> None:
    result = op.results[0]
    parts = (emitter.get_like(op.operands[0], result)[0],) * result.type.lanes
    emitter.define_each(result, [parts], lambda part, _: part[0])


def vector(emitter: SubgroupEmitter, op: Op) -> None:
    result = op.results[0]
    emitter.define(result, (emitter.get_like(value, result)[0] for value in op.operands))


def extract(emitter: SubgroupEmitter, op: Op) -> None:
    emitter.define(op.results[0], [emitter.get_like(op.operands[0], op.results[0])[op.attrs["index"]]])


def insert(emitter: SubgroupEmitter, op: Op) -> None:
    result = op.results[0]
    scalar, whole = (emitter.get_like(value, result) for value in op.operands)
    at = op.attrs["index"]
    emitter.define(result, [*whole[:at], scalar[0], *whole[at + 1 :]])


COMPUTE_OPS: dict[str, Callable[[SubgroupEmitter, Op], None]] = {
    **dict.fromkeys(("unary", "binary", "ternary"), arithmetic),
    "compare": compare,
    "select": select,
    "convert": convert,
    "const": constant,
    "spec": spec,
    "param": param,
    "len": length,
    **dict.fromkeys(("id", "size"), id_or_size),
    "splat": splat,
    "vector": vector,
    "extract": extract,
    "insert": insert,
}
"""Op format or name -> the function that writes it."""
