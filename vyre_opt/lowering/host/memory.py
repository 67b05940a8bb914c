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
from .function_builder import ALL, FLAGS, WIDE, Frame
from .subgroup_emitter import SubgroupEmitter

__all__ = ["ACCESSING"]

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


def _access(c: SubgroupEmitter, op: Op, index: Value, dtype: DataType) -> SubgroupAccess:
    name = op.attrs["buffer"]
    frame = c.frame
    element = frame.program.buffers[name].dtype.lanes
    return SubgroupAccess(
        op,
        index,
        frame.pointers[name],
        frame.counts[name],
        dtype.element,
        element,
        dtype.lanes,
        c.facts.stride(index),
        op in c.facts.proven,
    )


# --- addresses


def _wide(frame: Frame, value: str, dtype: DataType, lanes: bool) -> str:
    """An index as i64; a negative one becomes larger than any length."""
    if dtype.bits == 64:
        return value
    shape = WIDE if lanes else SCALAR
    verb = "sext" if dtype.is_signed else "zext"
    return frame.w.emit(f"{verb} {shape.type(dtype)} {value} to {shape.of('i64')}")


def _base(c: SubgroupEmitter, a: SubgroupAccess) -> str:
    return _wide(c.frame, c.scalar(a.index), a.index.type, False)


def _lanes(c: SubgroupEmitter, a: SubgroupAccess) -> str:
    return _wide(c.frame, c.lane(a.index), a.index.type, True)


def _limit(frame: Frame, a: SubgroupAccess, reach: int) -> str:
    """Indices below this leave room for `reach` elements from there on."""
    if a.count.isdigit():
        return str(max(0, int(a.count) - reach + 1))
    if reach == 1:
        return a.count
    return frame.w.call("llvm.usub.sat.i64", "i64", [("i64", a.count), ("i64", str(reach - 1))])


def _limit_run(frame: Frame, a: SubgroupAccess) -> str:
    """Indices below this leave room for the elements of all lanes, and no lane's index wraps on the way."""
    assert a.stride is not None
    reach = a.stride * SUBGROUP_SIZE
    limit = _limit(frame, a, reach)
    bits = (a.index.type.bits or 0) - a.index.type.is_signed
    if bits >= 63 or (a.count.isdigit() and int(a.count) <= 1 << bits):
        return limit
    # behind its largest value an index goes on at its least, not at the next element
    last = max(0, (1 << bits) - reach + 1)
    return frame.w.call("llvm.umin.i64", "i64", [("i64", limit), ("i64", str(last))])


def _pointer(frame: Frame, a: SubgroupAccess, index: str, part: int = 0) -> str:
    """The address of a scalar of the element at a scalar index."""
    w = frame.w
    if a.element > 1:
        index = w.emit(f"mul i64 {index}, {a.element}")
    at = w.emit(f"getelementptr {a.memory}, ptr {a.pointer}, i64 {index}")
    return w.emit(f"getelementptr {a.memory}, ptr {at}, i64 {part}") if part else at


def _places(frame: Frame, a: SubgroupAccess, indices: str, part: int) -> str:
    """The scalar that each lane touches, counted from the start of the buffer."""
    w, wide = frame.w, WIDE.of("i64")
    if a.element > 1:
        indices = w.emit(f"mul {wide} {indices}, {WIDE.integer('i64', a.element)}")
    return w.emit(f"add {wide} {indices}, {WIDE.integer('i64', part)}") if part else indices


def _check_one(c: SubgroupEmitter, a: SubgroupAccess, index: str) -> None:
    """Go on only if a scalar index is in bounds."""
    if a.proven:
        return
    w = c.w
    fine = w.emit(f"icmp ult i64 {index}, {_limit(c.frame, a, a.covered)}")
    good, bad = w.label("inside"), w.label("outside")
    w.branch_if(fine, good, bad)
    w.start(bad)
    c.frame.fault(a.op, c.first_active(), index)
    w.start(good)


def _check_lanes(c: SubgroupEmitter, a: SubgroupAccess, indices: str) -> None:
    """Go on only if the indices of all active lanes are in bounds."""
    if a.proven:
        return
    w, frame, wide = c.w, c.frame, WIDE.of("i64")
    limit = frame.splat("i64", _limit(frame, a, a.covered))
    outside = frame.both(c.mask, w.emit(f"icmp uge {wide} {indices}, {limit}"))
    bits = frame.bits(outside)
    some = w.emit(f"icmp ne i32 {bits}, 0")
    good, bad = w.label("inside"), w.label("outside")
    w.branch_if(some, bad, good)
    w.start(bad)
    runtime_functions.fault_lane(frame, a.op, indices, bits)
    w.start(good)


def _rare_lanes(c: SubgroupEmitter, a: SubgroupAccess) -> str:
    """The indices of a progression whose wide access is not in bounds as a whole, checked; in little code."""
    assert a.stride is not None
    indices = runtime_functions.progression(c.frame, a.index.type, c.scalar(a.index), a.stride)
    limit = _limit(c.frame, a, a.covered)
    bad = runtime_functions.is_outside(c.frame, a.op, indices, limit, c.active_bits())
    good = c.w.label("inside")
    c.w.branch_if(bad, "exit", good)
    c.w.start(good)
    return indices


# --- loads


def load(c: SubgroupEmitter, op: Op) -> None:
    result = op.results[0]
    a = _access(c, op, op.operands[0], result.type)
    if a.stride == 0:
        raw, shape = _load_one(c, a), SCALAR
    elif a.stride is not None and (spread := _spread(a)):
        raw, shape = _load_near(c, a, spread), WIDE
    else:
        raw, shape = _load_far(c, a), WIDE
    c.define(result, [conversions.load_value(c.w, shape, a.dtype, part) for part in raw])


def _load_one(c: SubgroupEmitter, a: SubgroupAccess) -> Words:
    index = _base(c, a)
    _check_one(c, a, index)
    return [c.w.emit(f"load {a.memory}, ptr {_pointer(c.frame, a, index, part)}") for part in range(a.parts)]


def _spread(a: SubgroupAccess) -> int:
    """Scalars from lane to lane if one wide load serves all, else 0."""
    scalars = (a.stride or 0) * a.element
    if scalars == a.parts:
        return scalars if a.parts <= MAX_WIDE_PARTS else 0
    return scalars if 1 < scalars <= MAX_SHUFFLED and a.parts <= scalars else 0


def _load_near(c: SubgroupEmitter, a: SubgroupAccess, spread: int) -> Words:
    w, frame = c.w, c.frame
    assert a.stride is not None
    if a.proven and c.mask is None and spread == a.parts:
        return _load_run(frame, a, _base(c, a), spread)
    base = _base(c, a)
    fine = w.emit(f"icmp ult i64 {base}, {_limit_run(frame, a)}")
    near, far, end = w.label("near"), w.label("far"), w.label("loaded")
    w.branch_if(fine, near, far)
    w.start(near)
    fast = _load_run(frame, a, base, spread)
    near = w.block
    w.branch(end)
    w.start(far)
    slow = _gather(c, a, _rare_lanes(c, a), cold=True)
    far = w.block
    w.branch(end)
    w.start(end)
    return [w.phi(WIDE.of(a.memory), [(f, near), (s, far)]) for f, s in zip(fast, slow, strict=True)]


def _load_run(frame: Frame, a: SubgroupAccess, base: str, spread: int) -> Words:
    """All scalars from the first lane's on, then those of each part out of them."""
    w, many = frame.w, f"<{spread * SUBGROUP_SIZE} x {a.memory}>"
    whole = w.emit(f"load {many}, ptr {_pointer(frame, a, base)}, align {max(1, a.bits // 8)}")
    if spread == 1:
        return [whole]
    found = []
    for part in range(a.parts):
        picked = ", ".join(f"i32 {lane * spread + part}" for lane in range(SUBGROUP_SIZE))
        found.append(w.emit(f"shufflevector {many} {whole}, {many} poison, {WIDE.of('i32')} <{picked}>"))
    return found


def _load_far(c: SubgroupEmitter, a: SubgroupAccess) -> Words:
    indices = _lanes(c, a)
    _check_lanes(c, a, indices)
    return _gather(c, a, indices)


def _gather(c: SubgroupEmitter, a: SubgroupAccess, indices: str, cold: bool = False) -> Words:
    frame, found = c.frame, []
    for part in range(a.parts):
        places = _places(frame, a, indices, part)
        found.append(runtime_functions.gather(frame, a.memory, a.bits, a.pointer, places, c.mask, cold))
    return found


# --- stores


def store(c: SubgroupEmitter, op: Op) -> None:
    value, index = op.operands
    a = _access(c, op, index, value.type)
    if a.stride == 0:
        _store_one(c, a, value)
        return
    raw = [conversions.store_value(c.w, WIDE, a.dtype, part) for part in c.lanes(value)]
    if a.stride is not None and a.stride * a.element == a.parts <= MAX_WIDE_PARTS:
        _store_near(c, a, raw)
    else:
        _store_far(c, a, raw)


def _store_one(c: SubgroupEmitter, a: SubgroupAccess, value: Value) -> None:
    """One lane writes; if more than one is active, they race."""
    w, index = c.w, _base(c, a)
    _check_one(c, a, index)
    parts = c.held[value]
    if c.shape(value) is WIDE or c.facts.stride(value):
        lane, kind = c.first_active(), WIDE.type(a.dtype)
        parts = tuple(w.emit(f"extractelement {kind} {part}, i64 {lane}") for part in c.lanes(value))
    for number, part in enumerate(parts):
        raw = conversions.store_value(w, SCALAR, a.dtype, part)
        w.line(f"store {a.memory} {raw}, ptr {_pointer(c.frame, a, index, number)}")


def _store_near(c: SubgroupEmitter, a: SubgroupAccess, raw: Words) -> None:
    w, frame = c.w, c.frame
    assert a.stride is not None
    base = _base(c, a)
    if a.proven and c.mask is None:
        _store_run(frame, a, base, raw)
        return
    fine = w.emit(f"icmp ult i64 {base}, {_limit_run(frame, a)}")
    masked = c.mask is not None and a.parts == 1 and a.bits in frame.features.masked_moves
    if c.mask is not None and not masked:
        full = w.emit(f"icmp eq i32 {c.active_bits()}, -1")
        fine = w.emit(f"and i1 {fine}, {full}")
    near, far, end = w.label("near"), w.label("far"), w.label("stored")
    w.branch_if(fine, near, far)
    w.start(near)
    if masked:
        wide, at = WIDE.of(a.memory), _pointer(frame, a, base)
        name = f"llvm.masked.store.{WIDE.suffix(a.memory)}.p0"
        w.call(name, "void", [(wide, raw[0]), ("ptr", at), ("i32", str(a.bits // 8)), (FLAGS, c.mask or ALL)])
    else:
        _store_run(frame, a, base, raw)
    w.branch(end)
    w.start(far)
    _scatter(c, a, raw, _rare_lanes(c, a), cold=True)
    w.branch(end)
    w.start(end)


def _store_run(frame: Frame, a: SubgroupAccess, base: str, raw: Words) -> None:
    """The parts of all lanes, lane by lane, in one store."""
    w = frame.w
    whole, width = list(raw), SUBGROUP_SIZE
    while len(whole) & (len(whole) - 1):
        whole.append("poison")
    while len(whole) > 1:  # join neighbours until one vector holds all, part by part
        kind = f"<{width} x {a.memory}>"
        places = ", ".join(f"i32 {place}" for place in range(2 * width))
        pairs = zip(whole[::2], whole[1::2], strict=True)
        whole = [
            w.emit(f"shufflevector {kind} {x}, {kind} {y}, <{2 * width} x i32> <{places}>") for x, y in pairs
        ]
        width *= 2
    joined, many = whole[0], f"<{a.parts * SUBGROUP_SIZE} x {a.memory}>"
    if a.parts > 1:
        kind = f"<{width} x {a.memory}>"
        order = [part * SUBGROUP_SIZE + lane for lane in range(SUBGROUP_SIZE) for part in range(a.parts)]
        places = ", ".join(f"i32 {place}" for place in order)
        joined = w.emit(f"shufflevector {kind} {joined}, {kind} poison, <{len(order)} x i32> <{places}>")
    w.line(f"store {many} {joined}, ptr {_pointer(frame, a, base)}, align {max(1, a.bits // 8)}")


def _store_far(c: SubgroupEmitter, a: SubgroupAccess, raw: Words) -> None:
    indices = _lanes(c, a)
    _check_lanes(c, a, indices)
    _scatter(c, a, raw, indices)


def _scatter(c: SubgroupEmitter, a: SubgroupAccess, raw: Words, indices: str, cold: bool = False) -> None:
    for part, value in enumerate(raw):
        places = _places(c.frame, a, indices, part)
        runtime_functions.scatter(c.frame, a.memory, a.bits, a.pointer, places, value, c.mask, cold)


# --- atomics: the active lanes, one after the other


def atomic(c: SubgroupEmitter, op: Op) -> None:
    index, *values = op.operands
    dtype = op.results[0].type
    a = _access(c, op, index, dtype)
    indices = _lanes(c, a)
    _check_lanes(c, a, indices)
    places = _places(c.frame, a, indices, 0)
    held = [c.lane(value) for value in values]
    name, order = op.name.removeprefix("atomic_"), op.attrs["order"]
    found = runtime_functions.atomic(c.frame, name, dtype, order, a.pointer, places, held, c.active_bits())
    c.define(op.results[0], [found])


ACCESSING = {"load": load, "store": store, "atomic": atomic}
