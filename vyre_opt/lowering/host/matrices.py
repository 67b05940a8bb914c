"""Loads and stores of matrices row by row, and products by a function for each shape: c += a b, of matrices in memory.

    for each few rows of c, kept in registers
        for k
            a row of b, times an element of each row of a

Where a register holds several rows of b, k goes on by as many, and a register has as many sums of each element of c, which
are added at last.

The slots of a matrix, one after the other, are the matrix in row-major order (matrix_fragments.ROWS).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op, Value
from ..common import conversions
from ..common.lane_shape import carrier
from .function_builder import WIDE, FunctionBuilder
from .subgroup_emitter import SubgroupEmitter

__all__ = ["MATRIX_OPS", "product_function"]


# --- memory


def load(emitter: SubgroupEmitter, op: Op) -> None:
    result, w = op.results[0], emitter.w
    element = result.type.element
    memory, builder = conversions.memory_type(element), emitter.builder

    def read() -> list[str]:
        parts: list[list[str]] = [[] for _ in range(result.type.lanes)]
        for slot, width, address in _rows(emitter, op, memory):
            loaded = f"load <{width} x {memory}>, ptr {address}, align {(element.bits or 8) // 8}"
            parts[slot].append(w.emit(loaded))
        whole = (builder.concatenate(memory, SUBGROUP_SIZE // len(part), part) for part in parts)
        return [conversions.load_value(w, WIDE, element, raw) for raw in whole]

    emitter.define(result, _if_active(emitter, read, WIDE.type(element)))


def store(emitter: SubgroupEmitter, op: Op) -> None:
    value, w = op.operands[0], emitter.w
    element = value.type.element
    memory, builder, parts = conversions.memory_type(element), emitter.builder, emitter.lanes(value)

    def write() -> list[str]:
        raw = [conversions.store_value(w, WIDE, element, part) for part in parts]
        done = [0] * len(raw)
        for slot, width, address in _rows(emitter, op, memory):
            lanes = range(done[slot], done[slot] + width)
            done[slot] += width
            piece = builder.shuffle(memory, SUBGROUP_SIZE, (raw[slot],), lanes)
            w.line(f"store <{width} x {memory}> {piece}, ptr {address}, align {(element.bits or 8) // 8}")
        return []

    _if_active(emitter, write, "")


def _rows(emitter: SubgroupEmitter, op: Op, memory: str) -> Iterator[tuple[int, int, str]]:
    """The pieces that slots are made of, in their order: the slot, its elements and their address."""
    builder, w = emitter.builder, emitter.w
    rows, columns = op.attrs["shape"]
    first, stride = (_same_for_all(emitter, value) for value in op.operands[-2:])
    width = min(columns, SUBGROUP_SIZE)
    for row in range(rows):
        start = first
        if row:
            start = w.emit(f"add i64 {first}, {w.emit(f'mul i64 {stride}, {row}')}")
        at = w.emit(f"getelementptr {memory}, ptr {builder.pointers[op.attrs['buffer']]}, i64 {start}")
        for column in range(0, columns, width):
            address = w.emit(f"getelementptr {memory}, ptr {at}, i64 {column}") if column else at
            yield (row * columns + column) // SUBGROUP_SIZE, width, address


def _same_for_all(emitter: SubgroupEmitter, value: Value) -> str:
    """A value that is the same for the subgroup, as i64."""
    if emitter.facts.is_uniform(value):
        scalar = emitter.scalar(value)
    else:
        lane = emitter.first_active_lane()
        kind = WIDE.type(value.type)
        scalar = emitter.w.emit(f"extractelement {kind} {emitter.lane(value)}, i64 {lane}")
    return conversions.to_word(emitter.w, value.type, scalar)


def _if_active(emitter: SubgroupEmitter, make: Callable[[], list[str]], kind: str) -> list[str]:
    """The values that `make` writes code for, which runs if the subgroup gets there; zeros if not."""
    if emitter.mask is None:
        return make()
    w = emitter.w
    inside, after = w.label("active"), w.label("after")
    active = emitter.builder.any_lane(emitter.mask)
    before = w.block
    w.branch_if(active, inside, after)
    w.start(inside)
    values, last = make(), w.block
    w.fall_into(after)
    return [w.phi(kind, [(value, last), ("zeroinitializer", before)]) for value in values]


# --- elements of lanes


def unpack(emitter: SubgroupEmitter, op: Op) -> None:
    """Read a matrix from memory, 8 adjacent elements of 8 rows at a time: two elements of each lane."""
    builder, kind = emitter.builder, carrier(op.operands[0].type.element)
    place, elements = _in_memory(emitter, op.operands[0], kind), list[str]()
    for pieces in _blocks(op):
        addresses = [builder.w.emit(f"getelementptr {kind}, ptr {place}, i64 {at}") for at in pieces]
        rows = [builder.w.emit(f"load <{PIECE} x {kind}>, ptr {address}, align 1") for address in addresses]
        block = builder.concatenate(kind, PIECE, rows)
        lanes = 2 * SUBGROUP_SIZE
        elements += [builder.shuffle(kind, lanes, (block,), range(k, lanes, 2)) for k in range(2)]
    emitter.define(op.result, elements)


def pack(emitter: SubgroupEmitter, op: Op) -> None:
    builder, kind = emitter.builder, carrier(op.result.type.element)
    parts, slots = emitter.lanes(op.operands[0]), op.result.type.lanes
    place = builder.slot(f"[{slots * SUBGROUP_SIZE} x {kind}]")
    for number, pieces in enumerate(_blocks(op)):
        pair = parts[2 * number], parts[2 * number + 1]
        order = [lane + SUBGROUP_SIZE * k for lane in range(SUBGROUP_SIZE) for k in range(2)]
        block = builder.shuffle(kind, SUBGROUP_SIZE, pair, order)
        for row, at in enumerate(pieces):
            piece = builder.shuffle(kind, 2 * SUBGROUP_SIZE, (block,), range(row * PIECE, (row + 1) * PIECE))
            address = builder.w.emit(f"getelementptr {kind}, ptr {place}, i64 {at}")
            builder.w.line(f"store <{PIECE} x {kind}> {piece}, ptr {address}, align 1")
    wide = WIDE.of(kind)
    addresses = [_slot_address(builder, place, kind, slot) for slot in range(slots)]
    emitter.define(
        op.result, [builder.w.emit(f"load {wide}, ptr {address}, align 1") for address in addresses]
    )


PIECE = 8  # neighbours of a row that four lanes have


def _blocks(op: Op) -> Iterator[list[int]]:
    """The elements of a matrix where the 8 rows of a block of 8 columns begin, in the order of the elements that a lane has."""
    rows, columns = op.attrs["shape"]
    for strip in range(0, rows, 2 * PIECE):
        for column in range(0, columns, PIECE):
            for half in (strip, strip + PIECE):
                yield [(half + row) * columns + column for row in range(PIECE)]


# --- products


def mul_add(emitter: SubgroupEmitter, op: Op) -> None:
    builder, (rows, depth, columns) = emitter.builder, op.attrs["shape"]
    kind = "i32" if op.attrs["element"].is_int else "float"
    a, b, c = (_in_memory(emitter, value, kind) for value in op.operands)
    name = _function(builder, rows, depth, columns, kind)
    builder.w.line(f"call void @{name}(ptr {c}, ptr {a}, ptr {b})")
    wide, result = WIDE.of(kind), op.results[0]
    addresses = (_slot_address(builder, c, kind, slot) for slot in range(result.type.lanes))
    emitter.define(result, [builder.w.emit(f"load {wide}, ptr {address}, align 4") for address in addresses])


def _in_memory(emitter: SubgroupEmitter, value: Value, kind: str) -> str:
    """A pointer to a copy of a matrix; integers are widened."""
    builder, carrier_kind, wide = emitter.builder, carrier(value.type.element), WIDE.of(kind)
    slots = value.type.lanes
    pointer = builder.slot(f"[{slots * SUBGROUP_SIZE} x {kind}]")
    for slot, part in enumerate(emitter.lanes(value)):
        if carrier_kind != kind:
            part = builder.w.emit(f"sext {WIDE.of(carrier_kind)} {part} to {wide}")
        builder.w.line(f"store {wide} {part}, ptr {_slot_address(builder, pointer, kind, slot)}, align 4")
    return pointer


def _slot_address(builder: FunctionBuilder, pointer: str, kind: str, slot: int) -> str:
    return builder.w.emit(f"getelementptr {kind}, ptr {pointer}, i64 {slot * SUBGROUP_SIZE}")


def _function(builder: FunctionBuilder, rows: int, depth: int, columns: int, kind: str) -> str:
    """The name of the function of a shape, which is written at its first use."""
    name = f"vyre.matrix.{rows}x{depth}x{columns}.{kind}"
    if not builder.module.defines(name):
        lanes = builder.features.register_bytes // 4
        builder.module.define(name, product_function(name, rows, depth, columns, kind, lanes))
    return name


def product_function(name: str, rows: int, depth: int, columns: int, kind: str, lanes: int) -> str:
    """The text of name(c, a, b), which adds a b to c: matrices in memory with elements of `kind`, `lanes` in a register."""
    together = max(1, lanes // columns)  # rows of b in a register
    return _text(name, rows, depth, columns, kind, _at_once(lanes, rows, columns * together), together)


def _at_once(lanes: int, rows: int, width: int) -> int:
    """Rows whose sums, of `width` lanes each, leave registers for a row of b: a power of two, as `rows` is."""
    registers = (24 if lanes == 16 else 12) * lanes // width
    return min(rows, 1 << max(0, registers.bit_length() - 1))


def _text(name: str, rows: int, depth: int, columns: int, kind: str, at_once: int, together: int) -> str:
    row, few, wide = (f"<{lanes} x {kind}>" for lanes in (columns, together, columns * together))
    spread = ", ".join(f"i32 {lane // columns}" for lane in range(columns * together))
    times, plus = ("mul", "add") if kind == "i32" else ("fmul contract", "fadd contract")
    sums, steps, ends = [], [], []
    for i in range(at_once):
        sums.append(f"  %sum{i} = phi {wide} [ zeroinitializer, %rows ], [ %next{i}, %depth ]")
        steps += [
            f"  %a{i}.at = add i64 %a.first, {i * depth}",
            f"  %a{i} = getelementptr {kind}, ptr %a, i64 %a{i}.at",
            f"  %x{i} = load {few}, ptr %a{i}, align 4",
            f"  %all{i} = shufflevector {few} %x{i}, {few} poison, <{columns * together} x i32> <{spread}>",
            f"  %product{i} = {times} {wide} %all{i}, %y",
            f"  %next{i} = {plus} {wide} %sum{i}, %product{i}",
        ]
        ends += [
            f"  %c{i}.at = add i64 %c.first, {i * columns}",
            f"  %c{i} = getelementptr {kind}, ptr %c, i64 %c{i}.at",
            f"  %total{i}.0 = load {row}, ptr %c{i}, align 4",
        ]
        for k in range(together):
            part = ", ".join(f"i32 {k * columns + column}" for column in range(columns))
            ends += [
                f"  %part{i}.{k} = shufflevector {wide} %next{i}, {wide} poison, <{columns} x i32> <{part}>",
                f"  %total{i}.{k + 1} = {plus} {row} %total{i}.{k}, %part{i}.{k}",
            ]
        ends.append(f"  store {row} %total{i}.{together}, ptr %c{i}, align 4")
    lines = [
        f"define internal void @{name}(ptr noalias %c, ptr noalias readonly %a, ptr noalias readonly %b) noinline nounwind {{",
        "entry:",
        "  br label %rows",
        "rows:",
        "  %r = phi i64 [ 0, %entry ], [ %r.next, %last ]",
        f"  %c.first = mul i64 %r, {columns}",
        f"  %a.row = mul i64 %r, {depth}",
        "  br label %depth",
        "depth:",
        "  %k = phi i64 [ 0, %rows ], [ %k.next, %depth ]",
        *sums,
        f"  %b.at = mul i64 %k, {columns}",
        f"  %b.row = getelementptr {kind}, ptr %b, i64 %b.at",
        f"  %y = load {wide}, ptr %b.row, align 4",
        "  %a.first = add i64 %a.row, %k",
        *steps,
        f"  %k.next = add i64 %k, {together}",
        f"  %more.k = icmp ult i64 %k.next, {depth}",
        "  br i1 %more.k, label %depth, label %last",
        "last:",
        *ends,
        f"  %r.next = add i64 %r, {at_once}",
        f"  %more.r = icmp ult i64 %r.next, {rows}",
        "  br i1 %more.r, label %rows, label %exit",
        "exit:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


MATRIX_OPS = {
    "matrix_load": load,
    "matrix_store": store,
    "matrix_mul_add": mul_add,
    "matrix_unpack": unpack,
    "matrix_pack": pack,
}
