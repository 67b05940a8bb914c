"""Loads, stores and atomics of a chunk, each checked against the length of its buffer.

    index               load                            store
    the chunk agrees    one element for all             the first active lane's element
    consecutive         one wide load                   one wide (masked) store
    every 2nd .. 4th    a wide load, then a shuffle     scatter
    anything            gather                          scatter

A wide access needs one comparison: all that it may touch is in bounds, and no lane's index wraps
around its type on the way.  Where that does not hold (at the end of a buffer), lanes are checked
and served one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op, Value
from ...ir.types import DataType
from ..common import conversions
from ..common.lane_shape import SCALAR
from . import runtime_functions
from .function_builder import ALL, FLAGS, WIDE, FunctionBuilder
from .subgroup_emitter import SubgroupEmitter

__all__ = ["MEMORY_OPS"]

MAX_SHUFFLED = 4
"""Of the elements of a wide load, at least one in so many is used."""

MAX_WIDE_PARTS = 8

Words = list[str]


@dataclass(slots=True)
class SubgroupAccess:
    """`parts` memory scalars of type `memory`, from element `index` on.

    `element`: scalars of one element of the buffer; `covered`: elements of the value.
    """

    op: Op
    index: Value
    pointer: str
    count: str
    dtype: DataType
    element: int
    parts: int
    stride: int | None
    proven: bool

    @property
    def covered(self) -> int:
        return self.parts // self.element

    @property
    def memory(self) -> str:
        return conversions.memory_type(self.dtype)

    @property
    def bits(self) -> int:
        return self.dtype.bits or 0


def _access(emitter: SubgroupEmitter, op: Op, index: Value, dtype: DataType) -> SubgroupAccess:
    name = op.attrs["buffer"]
    builder = emitter.builder
    element = builder.program.buffers[name].dtype.lanes
    return SubgroupAccess(
        op,
        index,
        builder.pointers[name],
        builder.counts[name],
        dtype.element,
        element,
        dtype.lanes,
        emitter.facts.stride(index),
        op in emitter.facts.proven,
    )


# --- addresses


def _wide(builder: FunctionBuilder, value: str, dtype: DataType, lanes: bool) -> str:
    """An index as i64; a negative one becomes larger than any length."""
    if dtype.bits == 64:
        return value
    shape = WIDE if lanes else SCALAR
    verb = "sext" if dtype.is_signed else "zext"
    return builder.w.emit(f"{verb} {shape.type(dtype)} {value} to {shape.of('i64')}")


def _base(emitter: SubgroupEmitter, access: SubgroupAccess) -> str:
    return _wide(emitter.builder, emitter.scalar(access.index), access.index.type, False)


def _lanes(emitter: SubgroupEmitter, access: SubgroupAccess) -> str:
    return _wide(emitter.builder, emitter.lane(access.index), access.index.type, True)


def _limit(builder: FunctionBuilder, access: SubgroupAccess, reach: int) -> str:
    """Indices below this leave room for `reach` elements from there on."""
    if access.count.isdigit():
        return str(max(0, int(access.count) - reach + 1))
    if reach == 1:
        return access.count
    return builder.w.call("llvm.usub.sat.i64", "i64", [("i64", access.count), ("i64", str(reach - 1))])


def _limit_run(builder: FunctionBuilder, access: SubgroupAccess) -> str:
    """Indices below this leave room for the elements of all lanes, and no lane's index wraps on the way."""
    assert access.stride is not None
    reach = access.stride * SUBGROUP_SIZE
    limit = _limit(builder, access, reach)
    bits = (access.index.type.bits or 0) - access.index.type.is_signed
    if bits >= 63 or (access.count.isdigit() and int(access.count) <= 1 << bits):
        return limit
    # behind its largest value an index goes on at its least, not at the next element
    last = max(0, (1 << bits) - reach + 1)
    return builder.w.call("llvm.umin.i64", "i64", [("i64", limit), ("i64", str(last))])


def _pointer(builder: FunctionBuilder, access: SubgroupAccess, index: str, part: int = 0) -> str:
    """The address of a scalar of the element at a scalar index."""
    w = builder.w
    if access.element > 1:
        index = w.emit(f"mul i64 {index}, {access.element}")
    at = w.emit(f"getelementptr {access.memory}, ptr {access.pointer}, i64 {index}")
    return w.emit(f"getelementptr {access.memory}, ptr {at}, i64 {part}") if part else at


def _places(builder: FunctionBuilder, access: SubgroupAccess, indices: str, part: int) -> str:
    """The scalar that each lane touches, counted from the start of the buffer."""
    w, wide = builder.w, WIDE.of("i64")
    if access.element > 1:
        indices = w.emit(f"mul {wide} {indices}, {WIDE.integer('i64', access.element)}")
    return w.emit(f"add {wide} {indices}, {WIDE.integer('i64', part)}") if part else indices


def _check_one(emitter: SubgroupEmitter, access: SubgroupAccess, index: str) -> None:
    """Go on only if a scalar index is in bounds."""
    if access.proven:
        return
    w = emitter.w
    fine = w.emit(f"icmp ult i64 {index}, {_limit(emitter.builder, access, access.covered)}")
    good, bad = w.label("inside"), w.label("outside")
    w.branch_if(fine, good, bad)
    w.start(bad)
    emitter.builder.fault(access.op, emitter.first_active_lane(), index)
    w.start(good)


def _check_lanes(emitter: SubgroupEmitter, access: SubgroupAccess, indices: str) -> None:
    """Go on only if the indices of all active lanes are in bounds."""
    if access.proven:
        return
    w, builder, wide = emitter.w, emitter.builder, WIDE.of("i64")
    limit = builder.splat("i64", _limit(builder, access, access.covered))
    outside = builder.mask_and(emitter.mask, w.emit(f"icmp uge {wide} {indices}, {limit}"))
    bits = builder.mask_bits(outside)
    some = w.emit(f"icmp ne i32 {bits}, 0")
    good, bad = w.label("inside"), w.label("outside")
    w.branch_if(some, bad, good)
    w.start(bad)
    runtime_functions.fault_lane(builder, access.op, indices, bits)
    w.start(good)


def _rare_lanes(emitter: SubgroupEmitter, access: SubgroupAccess) -> str:
    """The indices of a progression whose wide access is not in bounds as a whole, checked; in little code."""
    assert access.stride is not None
    indices = runtime_functions.progression(
        emitter.builder, access.index.type, emitter.scalar(access.index), access.stride
    )
    limit = _limit(emitter.builder, access, access.covered)
    bad = runtime_functions.is_outside(emitter.builder, access.op, indices, limit, emitter.active_bits())
    good = emitter.w.label("inside")
    emitter.w.branch_if(bad, "exit", good)
    emitter.w.start(good)
    return indices


# --- loads


def load(emitter: SubgroupEmitter, op: Op) -> None:
    result = op.results[0]
    access = _access(emitter, op, op.operands[0], result.type)
    if access.stride == 0:
        raw, shape = _load_one(emitter, access), SCALAR
    elif access.stride is not None and (spread := _spread(access)):
        raw, shape = _load_near(emitter, access, spread), WIDE
    else:
        raw, shape = _load_far(emitter, access), WIDE
    emitter.define(result, [conversions.load_value(emitter.w, shape, access.dtype, part) for part in raw])


def _load_one(emitter: SubgroupEmitter, access: SubgroupAccess) -> Words:
    index = _base(emitter, access)
    _check_one(emitter, access, index)
    return [
        emitter.w.emit(f"load {access.memory}, ptr {_pointer(emitter.builder, access, index, part)}")
        for part in range(access.parts)
    ]


def _spread(access: SubgroupAccess) -> int:
    """Scalars from lane to lane if one wide load serves all, else 0."""
    scalars = (access.stride or 0) * access.element
    if scalars == access.parts:
        return scalars if access.parts <= MAX_WIDE_PARTS else 0
    return scalars if 1 < scalars <= MAX_SHUFFLED and access.parts <= scalars else 0


def _load_near(emitter: SubgroupEmitter, access: SubgroupAccess, spread: int) -> Words:
    w, builder = emitter.w, emitter.builder
    assert access.stride is not None
    if access.proven and emitter.mask is None and spread == access.parts:
        return _load_run(builder, access, _base(emitter, access), spread)
    base = _base(emitter, access)
    fine = w.emit(f"icmp ult i64 {base}, {_limit_run(builder, access)}")
    near, far, end = w.label("near"), w.label("far"), w.label("loaded")
    w.branch_if(fine, near, far)
    w.start(near)
    fast = _load_run(builder, access, base, spread)
    near = w.block
    w.branch(end)
    w.start(far)
    slow = _gather(emitter, access, _rare_lanes(emitter, access), cold=True)
    far = w.block
    w.branch(end)
    w.start(end)
    return [w.phi(WIDE.of(access.memory), [(f, near), (s, far)]) for f, s in zip(fast, slow, strict=True)]


def _load_run(builder: FunctionBuilder, access: SubgroupAccess, base: str, spread: int) -> Words:
    """All scalars from the first lane's on, then those of each part out of them."""
    w, many = builder.w, f"<{spread * SUBGROUP_SIZE} x {access.memory}>"
    whole = w.emit(f"load {many}, ptr {_pointer(builder, access, base)}, align {max(1, access.bits // 8)}")
    if spread == 1:
        return [whole]
    found = []
    for part in range(access.parts):
        picked = ", ".join(f"i32 {lane * spread + part}" for lane in range(SUBGROUP_SIZE))
        found.append(w.emit(f"shufflevector {many} {whole}, {many} poison, {WIDE.of('i32')} <{picked}>"))
    return found


def _load_far(emitter: SubgroupEmitter, access: SubgroupAccess) -> Words:
    indices = _lanes(emitter, access)
    _check_lanes(emitter, access, indices)
    return _gather(emitter, access, indices)


def _gather(emitter: SubgroupEmitter, access: SubgroupAccess, indices: str, cold: bool = False) -> Words:
    builder, found = emitter.builder, []
    for part in range(access.parts):
        places = _places(builder, access, indices, part)
        found.append(
            runtime_functions.gather(
                builder, access.memory, access.bits, access.pointer, places, emitter.mask, cold
            )
        )
    return found


# --- stores


def store(emitter: SubgroupEmitter, op: Op) -> None:
    value, index = op.operands
    access = _access(emitter, op, index, value.type)
    if access.stride == 0:
        _store_one(emitter, access, value)
        return
    raw = [conversions.store_value(emitter.w, WIDE, access.dtype, part) for part in emitter.lanes(value)]
    if access.stride is not None and access.stride * access.element == access.parts <= MAX_WIDE_PARTS:
        _store_near(emitter, access, raw)
    else:
        _store_far(emitter, access, raw)


def _store_one(emitter: SubgroupEmitter, access: SubgroupAccess, value: Value) -> None:
    """One lane writes; if more than one is active, they race."""
    w, index = emitter.w, _base(emitter, access)
    _check_one(emitter, access, index)
    parts = emitter.values[value]
    if emitter.shape(value) is WIDE or emitter.facts.stride(value):
        lane, kind = emitter.first_active_lane(), WIDE.type(access.dtype)
        parts = tuple(w.emit(f"extractelement {kind} {part}, i64 {lane}") for part in emitter.lanes(value))
    for number, part in enumerate(parts):
        raw = conversions.store_value(w, SCALAR, access.dtype, part)
        w.line(f"store {access.memory} {raw}, ptr {_pointer(emitter.builder, access, index, number)}")


def _store_near(emitter: SubgroupEmitter, access: SubgroupAccess, raw: Words) -> None:
    w, builder = emitter.w, emitter.builder
    assert access.stride is not None
    base = _base(emitter, access)
    if access.proven and emitter.mask is None:
        _store_run(builder, access, base, raw)
        return
    fine = w.emit(f"icmp ult i64 {base}, {_limit_run(builder, access)}")
    masked = emitter.mask is not None and access.parts == 1 and access.bits in builder.features.masked_moves
    if emitter.mask is not None and not masked:
        full = w.emit(f"icmp eq i32 {emitter.active_bits()}, -1")
        fine = w.emit(f"and i1 {fine}, {full}")
    near, far, end = w.label("near"), w.label("far"), w.label("stored")
    w.branch_if(fine, near, far)
    w.start(near)
    if masked:
        wide, at = WIDE.of(access.memory), _pointer(builder, access, base)
        name = f"llvm.masked.store.{WIDE.suffix(access.memory)}.p0"
        w.call(
            name,
            "void",
            [(wide, raw[0]), ("ptr", at), ("i32", str(access.bits // 8)), (FLAGS, emitter.mask or ALL)],
        )
    else:
        _store_run(builder, access, base, raw)
    w.branch(end)
    w.start(far)
    _scatter(emitter, access, raw, _rare_lanes(emitter, access), cold=True)
    w.branch(end)
    w.start(end)


def _store_run(builder: FunctionBuilder, access: SubgroupAccess, base: str, raw: Words) -> None:
    """The parts of all lanes, lane by lane, in one store."""
    w = builder.w
    whole, width = list(raw), SUBGROUP_SIZE
    while len(whole) & (len(whole) - 1):
        whole.append("poison")
    while len(whole) > 1:  # join neighbours until one vector holds all, part by part
        kind = f"<{width} x {access.memory}>"
        places = ", ".join(f"i32 {place}" for place in range(2 * width))
        pairs = zip(whole[::2], whole[1::2], strict=True)
        whole = [
            w.emit(f"shufflevector {kind} {x}, {kind} {y}, <{2 * width} x i32> <{places}>") for x, y in pairs
        ]
        width *= 2
    joined, many = whole[0], f"<{access.parts * SUBGROUP_SIZE} x {access.memory}>"
    if access.parts > 1:
        kind = f"<{width} x {access.memory}>"
        order = [part * SUBGROUP_SIZE + lane for lane in range(SUBGROUP_SIZE) for part in range(access.parts)]
        places = ", ".join(f"i32 {place}" for place in order)
        joined = w.emit(f"shufflevector {kind} {joined}, {kind} poison, <{len(order)} x i32> <{places}>")
    w.line(f"store {many} {joined}, ptr {_pointer(builder, access, base)}, align {max(1, access.bits // 8)}")


def _store_far(emitter: SubgroupEmitter, access: SubgroupAccess, raw: Words) -> None:
    indices = _lanes(emitter, access)
    _check_lanes(emitter, access, indices)
    _scatter(emitter, access, raw, indices)


def _scatter(
    emitter: SubgroupEmitter, access: SubgroupAccess, raw: Words, indices: str, cold: bool = False
) -> None:
    for part, value in enumerate(raw):
        places = _places(emitter.builder, access, indices, part)
        runtime_functions.scatter(
            emitter.builder, access.memory, access.bits, access.pointer, places, value, emitter.mask, cold
        )


# --- atomics: the active lanes, one after the other


def atomic(emitter: SubgroupEmitter, op: Op) -> None:
    index, *values = op.operands
    dtype = op.results[0].type
    access = _access(emitter, op, index, dtype)
    indices = _lanes(emitter, access)
    _check_lanes(emitter, access, indices)
    places = _places(emitter.builder, access, indices, 0)
    held = [emitter.lane(value) for value in values]
    name, order = op.name.removeprefix("atomic_"), op.attrs["order"]
    found = runtime_functions.atomic(
        emitter.builder, name, dtype, order, access.pointer, places, held, emitter.active_bits()
    )
    emitter.define(op.results[0], [found])


MEMORY_OPS = {"load": load, "store": store, "atomic": atomic}
