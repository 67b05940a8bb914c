"""Loads, stores and atomics of a subgroup, each checked against the length of its buffer.

    index               load                            store
    uniform             one element for all             the first active lane's element
    consecutive         one wide load                   one wide (masked) store
    every 2nd .. 4th    a wide load, then a shuffle     scatter
    overlapping         the same, some lanes a load
    one of these        the same for each row           the same for each row; scatter for one element
    in each row
    anything            gather                          scatter

A row is the lanes of one `local_id y`, where a subgroup has several (see lane_facts.py).  A wide access that is not proven in bounds needs one comparison, which says that all it may touch is in bounds
and no lane's index wraps around its type.  Where that does not hold (at the end of a buffer), lanes are checked
and moved one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...analysis.regrouping import may_regroup
from ...ir import arith
from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op, Value
from ...ir.types import DataType
from ..common import conversions, elementwise
from ..common.lane_shape import SCALAR, LaneShape, carrier
from . import runtime_functions as runtime
from .function_builder import FLAGS, WIDE, FunctionBuilder
from .subgroup_emitter import SubgroupEmitter
from .subgroup_ops import fold_lanes

__all__ = ["MEMORY_OPS", "begin_totals", "finish_totals"]

MAX_SHUFFLED = 4
"""A strided access is a wide load if at least one in so many of the scalars loaded is used."""

MAX_WIDE_PARTS = 8
"""The most scalars of one lane in a wide access."""

WINDOW = 64
"""Bytes of a load for several lanes: a register of AVX-512, two of AVX2."""

LINE, AHEAD = 64, 4096
"""Bytes of a line of the cache, and how far ahead of a load lines are fetched: a row or more, which other workgroups load next."""

Words = list[str]
"""The LLVM values of one value's parts, of the memory type."""


class SubgroupAccess:
    """An access to a buffer from element `index` on, by all lanes of a subgroup.

    `length`: of the buffer in elements, an LLVM name or a number.  `dtype`, `memory`: of a scalar, and
    its LLVM type in memory.  `lanes_per_element`: scalars in an element of the buffer.  `parts` and
    `width`: scalars and elements that one lane moves.  `align`: bytes that an address is surely a
    multiple of, those of a scalar.  `run`: the lanes whose indices have a `stride`, the elements from one's index to
    the next's: those of a subgroup, else of a row.  Where not even a row has one, it is None.
    `proven`: each active lane is in bounds.  `is_straight`: so are runs, as no lane's index wraps around a type of less than
    32 bits (one of 32 wraps only in a buffer of 2^32 elements).
    """

    def __init__(self, emitter: SubgroupEmitter, op: Op, moved: DataType) -> None:
        name, builder = op.attrs["buffer"], emitter.builder
        self.op, self.index = op, op.index
        self.pointer, self.length = builder.pointers[name], builder.counts[name]
        self.dtype, self.parts = moved.element, moved.lanes
        self.lanes_per_element = builder.program.buffers[name].dtype.lanes
        self.width = self.parts // self.lanes_per_element
        self.memory = conversions.memory_type(self.dtype)
        self.align = max(1, (self.dtype.bits or 0) // 8)
        self.stride, self.run = emitter.facts.stride(self.index), SUBGROUP_SIZE
        if self.stride is None:
            self.stride, self.run = emitter.facts.row_stride(self.index), emitter.facts.row
        self.proven = op in emitter.facts.proven
        bits = (self.index.type.bits or 0) - self.index.type.is_signed
        reach = (self.stride or 0) * self.run
        fits = self.length.isdigit() and int(self.length) + reach <= 1 << bits
        is_exact = emitter.facts.affine.exact(self.index) is not None
        self.is_straight = self.proven and (bits >= 31 or fits or is_exact)

    @property
    def is_uniform(self) -> bool:
        """Whether all lanes access one element."""
        return self.stride == 0 and self.run == SUBGROUP_SIZE

    @property
    def window(self) -> int:
        """Lanes that one load of WINDOW bytes serves, where a lane's scalars are a word and overlap those of the next; else 0."""
        overlaps = self.stride is not None and 0 < self.stride < self.parts and self.lanes_per_element == 1
        return min(self.run, WINDOW // (self.parts * self.align)) if overlaps and self.is_word else 0

    @property
    def is_word(self) -> bool:
        """Whether the scalars of a lane are together an integer of 32 or 64 bits."""
        return self.parts > 1 and self.parts * (self.dtype.bits or 0) in (32, 64)

    @property
    def word(self) -> str:
        """LLVM type of all scalars of a lane together."""
        return f"i{self.parts * (self.dtype.bits or 0)}"


# --- addresses


def _widened(builder: FunctionBuilder, value: str, dtype: DataType, shape: LaneShape = SCALAR) -> str:
    """An index as i64; a negative one becomes larger than any length, as unsigned numbers."""
    if dtype.bits == 64:
        return value
    verb = "sext" if dtype.is_signed else "zext"
    return builder.w.emit(f"{verb} {shape.type(dtype)} {value} to {shape.of('i64')}")


def _base_index(emitter: SubgroupEmitter, access: SubgroupAccess) -> str:
    return _widened(emitter.builder, emitter.scalar(access.index), access.index.type)


def _run_indices(emitter: SubgroupEmitter, access: SubgroupAccess) -> list[str]:
    """The index of the first lane of each run, as i64."""
    if access.run == SUBGROUP_SIZE:
        return [_base_index(emitter, access)]
    builder = emitter.builder
    (rows,) = emitter.rows(access.index)
    return builder.of_rows("i64", _widened(builder, rows, access.index.type, builder.rows))


def _run_start(emitter: SubgroupEmitter, access: SubgroupAccess) -> str:
    """Start of the run of all lanes, as i64: lane 0's index; if lane 0 is inactive, its index as it would be if it
    did not wrap."""
    dtype, base = access.index.type, emitter.scalar(access.index)
    if emitter.mask is None or dtype.bits == 64 or emitter.facts.affine.exact(access.index) is not None:
        return _base_index(emitter, access)
    assert access.stride is not None
    w, builder, lane = emitter.w, emitter.builder, emitter.first_active_lane()
    ahead = w.emit(f"mul i64 {lane}, {access.stride}")
    kind = SCALAR.type(dtype)
    start = w.emit(f"add {kind} {base}, {w.emit(f'trunc i64 {ahead} to {kind}')}")
    return w.emit(f"sub i64 {_widened(builder, start, dtype)}, {ahead}")


def _lane_indices(emitter: SubgroupEmitter, access: SubgroupAccess) -> str:
    return _widened(emitter.builder, emitter.lane(access.index), access.index.type, WIDE)


def _limit(builder: FunctionBuilder, access: SubgroupAccess, reach: int) -> str:
    """The bound below which an index leaves room for `reach` elements, itself included."""
    if access.length.isdigit():
        return str(max(0, int(access.length) - reach + 1))
    if reach == 1:
        return access.length
    return builder.w.call("llvm.usub.sat.i64", "i64", [("i64", access.length), ("i64", str(reach - 1))])


def _limit_run(builder: FunctionBuilder, access: SubgroupAccess) -> str:
    """The bound below which the first lane's index leaves room for all lanes of its run, and no lane's index wraps."""
    if not access.stride:
        return _limit(builder, access, access.width)
    reach = access.stride * access.run + (access.parts - access.stride) * access.window
    limit = _limit(builder, access, reach)
    bits = (access.index.type.bits or 0) - access.index.type.is_signed
    if bits >= 63 or (access.length.isdigit() and int(access.length) <= 1 << bits):
        return limit
    # An index that wraps goes on at its type's least value, not at the next element
    last = max(0, (1 << bits) - reach + 1)
    return builder.w.call("llvm.umin.i64", "i64", [("i64", limit), ("i64", str(last))])


def _pointer(builder: FunctionBuilder, access: SubgroupAccess, index: str, part: int = 0) -> str:
    """The address of scalar number `part` from the element at `index` (i64) on."""
    w = builder.w
    if access.lanes_per_element > 1:
        index = w.emit(f"mul i64 {index}, {access.lanes_per_element}")
    at = w.emit(f"getelementptr {access.memory}, ptr {access.pointer}, i64 {index}")
    return w.emit(f"getelementptr {access.memory}, ptr {at}, i64 {part}") if part else at


def _scalar_offsets(builder: FunctionBuilder, access: SubgroupAccess, indices: str) -> str:
    """The number of the first scalar that each lane accesses, counted from the start of the buffer."""
    if access.lanes_per_element == 1:
        return indices
    wide = WIDE.of("i64")
    return builder.w.emit(f"mul {wide} {indices}, {WIDE.integer('i64', access.lanes_per_element)}")


def _part_pointer(builder: FunctionBuilder, access: SubgroupAccess, part: str) -> str:
    """Base of the offsets of scalar number `part` of all lanes: offsets are vectors, and many of
    them would take long to compile, and to compute."""
    if part == "0":
        return access.pointer
    return builder.w.emit(f"getelementptr {access.memory}, ptr {access.pointer}, i64 {part}")


def _check_one(emitter: SubgroupEmitter, access: SubgroupAccess, index: str) -> None:
    """Fault unless a scalar index (i64) is in bounds."""
    if access.proven:
        return
    w, builder = emitter.w, emitter.builder
    in_bounds = w.emit(f"icmp ult i64 {index}, {_limit(builder, access, access.width)}")
    inside, outside = w.label("inside"), w.label("outside")
    w.branch_if(in_bounds, inside, outside)
    w.start(outside)
    builder.fault(access.op, emitter.first_active_lane(), index)
    w.start(inside)


def _check_lanes(emitter: SubgroupEmitter, access: SubgroupAccess, indices: str) -> None:
    """Fault unless the indices of all active lanes are in bounds."""
    if access.proven:
        return
    w, builder, wide = emitter.w, emitter.builder, WIDE.of("i64")
    limit = builder.splat("i64", _limit(builder, access, access.width))
    outside = builder.mask_and(emitter.mask, w.emit(f"icmp uge {wide} {indices}, {limit}"))
    bits = builder.mask_bits(outside)
    any_outside = w.emit(f"icmp ne i32 {bits}, 0")
    in_bounds, faulting = w.label("inside"), w.label("outside")
    w.branch_if(any_outside, faulting, in_bounds)
    w.start(faulting)
    runtime.fault_lane(builder, access.op, indices, bits)
    w.start(in_bounds)


def _checked_indices(emitter: SubgroupEmitter, access: SubgroupAccess) -> str:
    """The indices of a progression, checked lane by lane.

    For the rare case that the wide access is not in bounds as a whole: small code rather than fast.
    """
    w, builder = emitter.w, emitter.builder
    assert access.stride is not None
    if access.run == SUBGROUP_SIZE:
        indices = runtime.progression(builder, access.index.type, emitter.scalar(access.index), access.stride)
    else:
        indices = _lane_indices(emitter, access)
    if access.proven:
        return indices
    limit = _limit(builder, access, access.width)
    is_outside = runtime.is_outside(builder, access.op, indices, limit, emitter.active_bits())
    inside = w.label("inside")
    w.branch_if(is_outside, "exit", inside)
    w.start(inside)
    return indices


# --- loads


def load(emitter: SubgroupEmitter, op: Op) -> None:
    result = op.results[0]
    access = SubgroupAccess(emitter, op, result.type)
    if op in emitter.columns:
        _load_column(emitter, access, result)
        return
    if result in emitter.builder.layout.values:
        _load_lane_major(emitter, access, result)
        return
    scalar_stride = _scalar_stride(access)
    if access.is_uniform:
        raw, shape = _load_uniform(emitter, access), SCALAR
    elif scalar_stride is not None:
        raw, shape = _load_runs(emitter, access, scalar_stride), WIDE
    else:
        _load_scattered(emitter, access, result)
        return
    emitter.define(result, [conversions.load_value(emitter.w, shape, access.dtype, part) for part in raw])


def _load_column(emitter: SubgroupEmitter, access: SubgroupAccess, result: Value) -> None:
    w, column = emitter.w, emitter.columns[access.op]
    raw = w.emit(f"load {WIDE.of(access.memory)}, ptr {column}, align {access.align}")
    emitter.define(result, [conversions.load_value(w, WIDE, access.dtype, raw)])


def _load_uniform(emitter: SubgroupEmitter, access: SubgroupAccess) -> Words:
    index = _base_index(emitter, access)
    _check_one(emitter, access, index)
    return [
        emitter.w.emit(f"load {access.memory}, ptr {_pointer(emitter.builder, access, index, part)}")
        for part in range(access.parts)
    ]


def _scalar_stride(access: SubgroupAccess) -> int | None:
    """The distance of two lanes' scalars, if one wide load is to serve all lanes of a run, or one scalar; else None."""
    if access.stride is None or access.parts > MAX_WIDE_PARTS:
        return None
    scalars = access.stride * access.lanes_per_element
    if scalars in (0, access.parts) or access.window:
        return scalars
    return scalars if 1 < scalars <= MAX_SHUFFLED and access.parts <= scalars else None


def _load_runs(emitter: SubgroupEmitter, access: SubgroupAccess, scalar_stride: int) -> Words:
    w, builder = emitter.w, emitter.builder
    # `proven` speaks of active lanes and of the scalars that they use, and of no others
    if access.is_straight and scalar_stride in (0, access.parts):
        if emitter.mask is None:
            return _load_wide(builder, access, _run_indices(emitter, access), scalar_stride)
        if access.run == SUBGROUP_SIZE and _has_masked_moves(builder, access):
            return [_load_masked(builder, access, _run_start(emitter, access), emitter.mask)]
    indices = _run_indices(emitter, access)
    wide, gathered, end = w.label("near"), w.label("far"), w.label("loaded")
    w.branch_if(_are_in_bounds(builder, access, indices), wide, gathered)
    w.start(wide)
    # No mask: what inactive lanes load is in bounds too, and nobody looks at it
    fast = (
        [_load_windows(builder, access, indices)]
        if access.window
        else _load_wide(builder, access, indices, scalar_stride)
    )
    wide = w.block
    w.branch(end)
    w.start(gathered)
    cold = _is_rarely_outside(emitter, access)
    offsets = _scalar_offsets(builder, access, _checked_indices(emitter, access))
    if access.window:
        slow = [_gather_words(emitter, access, offsets, cold)]
    else:
        slow = [_gather(emitter, access, offsets, str(part), cold) for part in range(access.parts)]
    gathered = w.block
    w.fall_into(end)
    kind, pairs = WIDE.of(access.word if access.window else access.memory), zip(fast, slow, strict=True)
    loaded = [w.phi(kind, [(run, wide), (lanes, gathered)]) for run, lanes in pairs]
    if not access.window:
        return loaded
    # words come together here, and not their parts, from which LLVM would not make the word again
    return [_part_of_word(builder, access, loaded[0], part) for part in range(access.parts)]


def _are_in_bounds(builder: FunctionBuilder, access: SubgroupAccess, indices: Words) -> str:
    """An i1: whether all lanes of the runs that start at `indices` are in bounds."""
    highest, *more = indices
    for index in more:
        highest = builder.w.call("llvm.umax.i64", "i64", [("i64", highest), ("i64", index)])
    return builder.w.emit(f"icmp ult i64 {highest}, {_limit_run(builder, access)}")


def _is_rarely_outside(emitter: SubgroupEmitter, access: SubgroupAccess) -> bool:
    """Whether runs with a lane that is not in bounds are the last of a buffer: others than rows that a branch masks."""
    return access.run == SUBGROUP_SIZE or emitter.mask is None


def _load_wide(builder: FunctionBuilder, access: SubgroupAccess, indices: Words, scalar_stride: int) -> Words:
    """The parts of all lanes, from runs that start at `indices`."""
    load_run = _load_run if scalar_stride else _load_for_run
    runs = [load_run(builder, access, index, scalar_stride) for index in indices]
    return [builder.concatenate(access.memory, access.run, vectors) for vectors in zip(*runs, strict=True)]


def _load_run(builder: FunctionBuilder, access: SubgroupAccess, base: str, scalar_stride: int) -> Words:
    """One load of all scalars from the first lane's on, then a shuffle for each part."""
    w, count = builder.w, scalar_stride * access.run
    address = _pointer(builder, access, base)
    _fetch_ahead(builder, access, address)
    loaded = w.emit(f"load <{count} x {access.memory}>, ptr {address}, align {access.align}")
    if scalar_stride == 1:
        return [loaded]
    orders = (range(part, count, scalar_stride) for part in range(access.parts))
    return [builder.shuffle(access.memory, count, (loaded,), order) for order in orders]


def _load_windows(builder: FunctionBuilder, access: SubgroupAccess, indices: Words) -> str:
    """Words of all lanes, from runs that start at `indices`: a load of all scalars of some lanes at a time, then a shuffle."""
    lanes, parts, words = access.window, access.parts, []
    assert access.stride is not None
    scalars = f"<{lanes * parts} x {access.memory}>"
    order = [access.stride * lane + part for lane in range(lanes) for part in range(parts)]
    for base in indices:
        for first in range(0, access.run, lanes):
            address = _pointer(builder, access, base, access.stride * first)
            window = builder.w.emit(f"load {scalars}, ptr {address}, align {access.align}")
            spread = builder.shuffle(access.memory, lanes * parts, (window,), order)
            words.append(builder.w.emit(f"bitcast {scalars} {spread} to <{lanes} x {access.word}>"))
    return builder.concatenate(access.word, lanes, words)


def _fetch_ahead(builder: FunctionBuilder, access: SubgroupAccess, address: str) -> None:
    """Prefetch the elements AHEAD of a run that is loaded from a buffer, where the hardware prefetcher would not."""
    if not builder.fetches_ahead or builder.program.buffers[access.op.attrs["buffer"]].is_on_chip:
        return
    for line in range(0, access.run * access.parts * access.align, LINE):
        ahead = builder.w.emit(f"getelementptr i8, ptr {address}, i64 {AHEAD + line}")
        builder.w.call("llvm.prefetch.p0", "void", [("ptr", ahead), ("i32", "0"), ("i32", "3"), ("i32", "1")])


def _load_for_run(builder: FunctionBuilder, access: SubgroupAccess, index: str, _: int) -> Words:
    """The scalars of one element, each in all lanes of a run."""
    loads = [
        builder.w.emit(f"load {access.memory}, ptr {_pointer(builder, access, index, part)}")
        for part in range(access.parts)
    ]
    return [builder.splat(access.memory, loaded, LaneShape(access.run)) for loaded in loads]


def _has_masked_moves(builder: FunctionBuilder, access: SubgroupAccess) -> bool:
    return access.parts == 1 and access.dtype.bits in builder.features.masked_moves


def _load_masked(builder: FunctionBuilder, access: SubgroupAccess, base: str, mask: str) -> str:
    """One load of the scalars of the lanes in `mask`, from the first lane's on; 0 in the others."""
    w, wide, at = builder.w, WIDE.of(access.memory), _pointer(builder, access, base)
    _fetch_ahead(builder, access, at)
    whole, some, end = _branch_if_full(builder, mask, SUBGROUP_SIZE)
    loaded = w.emit(f"load {wide}, ptr {at}, align {access.align}")
    w.branch(end)
    w.start(some)
    args = [("ptr", at), ("i32", str(access.align)), (FLAGS, mask), (wide, "zeroinitializer")]
    masked = w.call(f"llvm.masked.load.{WIDE.suffix(access.memory)}.p0", wide, args)
    w.fall_into(end)
    return w.phi(wide, [(loaded, whole), (masked, some)])


def _store_masked(builder: FunctionBuilder, access: SubgroupAccess, base: str, raw: str, mask: str) -> None:
    w, shape, at = builder.w, LaneShape(access.run), _pointer(builder, access, base)
    _, some, end = _branch_if_full(builder, mask, access.run)
    w.line(f"store {shape.of(access.memory)} {raw}, ptr {at}, align {access.align}")
    w.branch(end)
    w.start(some)
    args = [(shape.of(access.memory), raw), ("ptr", at), ("i32", str(access.align)), (shape.of("i1"), mask)]
    w.call(f"llvm.masked.store.{shape.suffix(access.memory)}.p0", "void", args)
    w.fall_into(end)


def _branch_if_full(builder: FunctionBuilder, mask: str, lanes: int) -> tuple[str, str, str]:
    """Begin the block for a mask of all `lanes`; return its label, the label for other masks, and that of the end.

    Some processors take five times as long for a masked move from or to memory as for a plain one, whatever the mask is.
    """
    w = builder.w
    bits = w.emit(f"bitcast <{lanes} x i1> {mask} to i{lanes}")
    whole, some, end = w.label("whole"), w.label("some"), w.label("moved")
    w.branch_if(w.emit(f"icmp eq i{lanes} {bits}, -1"), whole, some)
    w.start(whole)
    return whole, some, end


def _load_scattered(emitter: SubgroupEmitter, access: SubgroupAccess, result: Value) -> None:
    indices = _lane_indices(emitter, access)
    _check_lanes(emitter, access, indices)
    builder = emitter.builder
    offsets = _scalar_offsets(builder, access, indices)
    word = _gather_words(emitter, access, offsets) if access.is_word else ""

    def write(_: Sequence[str], part: str) -> str:
        if word and part.isdigit():
            raw = _part_of_word(builder, access, word, int(part))
        else:
            raw = _gather(emitter, access, offsets, part)
        return conversions.load_value(emitter.w, WIDE, access.dtype, raw)

    emitter.define_each(result, [], write)


def _part_of_word(builder: FunctionBuilder, access: SubgroupAccess, word: str, part: int) -> str:
    """Scalar number `part` of the words that lanes have loaded."""
    w, bits, wide = builder.w, access.dtype.bits or 0, WIDE.of(access.word)
    shifted = w.emit(f"lshr {wide} {word}, {WIDE.integer(access.word, bits * part)}")
    part_bits = w.emit(f"trunc {wide} {shifted} to {WIDE.of(f'i{bits}')}")
    if access.memory == f"i{bits}":
        return part_bits
    return w.emit(f"bitcast {WIDE.of(f'i{bits}')} {part_bits} to {WIDE.of(access.memory)}")


def _gather_words(emitter: SubgroupEmitter, access: SubgroupAccess, offsets: str, cold: bool = False) -> str:
    """All scalars of each lane as a word."""
    parts, mask = access.parts, emitter.mask
    return runtime.gather(
        emitter.builder, access.dtype, access.pointer, offsets, mask, parts=parts, cold=cold
    )


def _gather(
    emitter: SubgroupEmitter, access: SubgroupAccess, offsets: str, part: str, cold: bool = False
) -> str:
    """Scalar number `part`, of each lane."""
    pointer = _part_pointer(emitter.builder, access, part)
    return runtime.gather(emitter.builder, access.dtype, pointer, offsets, emitter.mask, cold=cold)


# --- stores


def store(emitter: SubgroupEmitter, op: Op) -> None:
    value = op.operands[0]
    access = SubgroupAccess(emitter, op, value.type)
    if op in emitter.columns:
        _store_column(emitter, access, value)
    elif emitter.lane_major.takes(op):
        _store_lane_major(emitter, access, value)
    elif access.is_uniform:
        _store_uniform(emitter, access, value)
    elif (access.stride or 0) * access.lanes_per_element == access.parts <= MAX_WIDE_PARTS:
        lanes = emitter.lanes(value)
        raw = [conversions.store_value(emitter.w, WIDE, access.dtype, part) for part in lanes]
        _store_runs(emitter, access, raw)
    else:
        _store_scattered(emitter, access, value)


def _store_column(emitter: SubgroupEmitter, access: SubgroupAccess, value: Value) -> None:
    raw = conversions.store_value(emitter.w, WIDE, access.dtype, emitter.lane(value))
    column = emitter.columns[access.op]
    emitter.w.line(f"store {WIDE.of(access.memory)} {raw}, ptr {column}, align {access.align}")


def _store_uniform(emitter: SubgroupEmitter, access: SubgroupAccess, value: Value) -> None:
    """Write by the first active lane alone: several of them would race, which is the program's error."""
    w, index = emitter.w, _base_index(emitter, access)
    _check_one(emitter, access, index)
    if emitter.facts.is_uniform(value) and value in emitter.lane_major.chunks:
        shape = emitter.lane_major.shape(value)
        raw = conversions.store_value(w, shape, access.dtype, emitter.lane_major.chunks[value][0])
        at = _pointer(emitter.builder, access, index)
        w.line(f"store {shape.of(access.memory)} {raw}, ptr {at}, align {access.align}")
        return
    parts = emitter.elements(value)
    if not emitter.facts.is_uniform(value):
        lane, kind = emitter.first_active_lane(), WIDE.type(access.dtype)
        parts = tuple(w.emit(f"extractelement {kind} {part}, i64 {lane}") for part in emitter.lanes(value))
    for number, part in enumerate(parts):
        raw = conversions.store_value(w, SCALAR, access.dtype, part)
        w.line(f"store {access.memory} {raw}, ptr {_pointer(emitter.builder, access, index, number)}")


def _store_runs(emitter: SubgroupEmitter, access: SubgroupAccess, raw: Words) -> None:
    w, builder = emitter.w, emitter.builder
    mask = emitter.mask if _has_masked_moves(builder, access) else None
    if access.is_straight and mask is not None and access.run == SUBGROUP_SIZE:
        _store_masked(builder, access, _run_start(emitter, access), raw[0], mask)
        return
    indices = _run_indices(emitter, access)
    if access.is_straight and emitter.mask is None:
        _store_wide(builder, access, indices, raw, None)
        return
    in_bounds = _are_in_bounds(builder, access, indices)
    if emitter.mask is not None and mask is None:
        # Without a masked store only a full subgroup may write as a whole
        full = w.emit(f"icmp eq i32 {emitter.active_bits()}, -1")
        in_bounds = w.emit(f"and i1 {in_bounds}, {full}")
    near, far, end = w.label("near"), w.label("far"), w.label("stored")
    w.branch_if(in_bounds, near, far)
    w.start(near)
    _store_wide(builder, access, indices, raw, mask)
    w.branch(end)
    w.start(far)
    cold = _is_rarely_outside(emitter, access)
    offsets = _scalar_offsets(builder, access, _checked_indices(emitter, access))
    for number, part in enumerate(raw):
        _scatter(emitter, access, part, offsets, str(number), cold)
    w.fall_into(end)


def _store_wide(
    builder: FunctionBuilder, access: SubgroupAccess, indices: Words, raw: Words, mask: str | None
) -> None:
    """Store the parts of all lanes, or of those in `mask`, to the runs that start at `indices`."""
    for number, index in enumerate(indices):
        lanes = range(number * access.run, (number + 1) * access.run)
        is_whole = access.run == SUBGROUP_SIZE
        run = raw if is_whole else [builder.shuffle(access.memory, SUBGROUP_SIZE, (r,), lanes) for r in raw]
        if mask is None:
            _store_run(builder, access, index, run)
        else:
            flags = mask if is_whole else builder.shuffle("i1", SUBGROUP_SIZE, (mask,), lanes)
            _store_masked(builder, access, index, run[0], flags)


def _store_run(builder: FunctionBuilder, access: SubgroupAccess, base: str, raw: Words) -> None:
    """One store of the parts of all lanes, interleaved into lane order."""
    run, count = access.run, access.parts * access.run
    joined = builder.concatenate(access.memory, run, raw)
    if access.parts > 1:
        order = [part * run + lane for lane in range(run) for part in range(access.parts)]
        joined_lanes = run << (access.parts - 1).bit_length()
        joined = builder.shuffle(access.memory, joined_lanes, (joined,), order)
    address = _pointer(builder, access, base)
    builder.w.line(f"store <{count} x {access.memory}> {joined}, ptr {address}, align {access.align}")


def _store_scattered(emitter: SubgroupEmitter, access: SubgroupAccess, value: Value) -> None:
    indices = _lane_indices(emitter, access)
    _check_lanes(emitter, access, indices)
    offsets = _scalar_offsets(emitter.builder, access, indices)

    def write(column: Sequence[str], part: str) -> None:
        raw = conversions.store_value(emitter.w, WIDE, access.dtype, column[0])
        _scatter(emitter, access, raw, offsets, part)

    emitter.each_part([emitter.lanes(value)], write)


def _scatter(
    emitter: SubgroupEmitter, access: SubgroupAccess, raw: str, offsets: str, part: str, cold: bool = False
) -> None:
    """Store scalar number `part` of each lane."""
    pointer = _part_pointer(emitter.builder, access, part)
    runtime.scatter(emitter.builder, access.dtype, pointer, offsets, raw, emitter.mask, cold=cold)


# --- of vectors that are held lane after lane, see lane_major.py.  Where lanes do not lie one after the other in a
#     buffer, or not all may be accessed, they are moved one by one from or to a stack slot in which they do


def _load_lane_major(emitter: SubgroupEmitter, access: SubgroupAccess, result: Value) -> None:
    w, builder, vectors = emitter.w, emitter.builder, emitter.lane_major
    done = None
    if access.is_uniform:
        index = _base_index(emitter, access)
        _check_one(emitter, access, index)
        address = _pointer(builder, access, index)
    else:
        whole = _is_whole_run(emitter, access, access.is_straight and emitter.mask is None)
        if whole == "true":
            address = _pointer(builder, access, _base_index(emitter, access))
        else:
            address, done = _address_or_slot(emitter, access, whole, is_load=True)
    shape = vectors.shape(result)

    def write(number: int) -> str:
        at = _chunk_pointer(builder, access, shape, address, number)
        raw = w.emit(f"load {shape.of(access.memory)}, ptr {at}, align {access.align}")
        return conversions.load_value(w, shape, access.dtype, raw)

    vectors.define(result, write)
    if done is not None:
        vectors.after(done)


def _store_lane_major(emitter: SubgroupEmitter, access: SubgroupAccess, value: Value) -> None:
    w, builder, vectors = emitter.w, emitter.builder, emitter.lane_major
    chunks, mask = vectors.wide(value), emitter.mask
    shape = LaneShape(builder.layout.lanes * access.parts)
    whole = _is_whole_run(emitter, access, access.is_straight and mask is None)
    if mask is not None and whole != "false":
        full = w.emit(f"icmp eq i32 {emitter.active_bits()}, -1")
        whole = w.emit(f"and i1 {whole}, {full}")
    done = None
    if whole == "true":
        address = _pointer(builder, access, _base_index(emitter, access))
    else:
        address, done = _address_or_slot(emitter, access, whole, is_load=False)

    def write(number: int) -> str:
        at = _chunk_pointer(builder, access, shape, address, number)
        raw = conversions.store_value(w, shape, access.dtype, chunks[number])
        w.line(f"store {shape.of(access.memory)} {raw}, ptr {at}, align {access.align}")
        return ""

    vectors.store(write)
    if done is not None:
        vectors.after(done)


def _is_whole_run(emitter: SubgroupEmitter, access: SubgroupAccess, is_proven: bool) -> str:
    """An i1: whether all lanes' scalars lie one after the other, in bounds."""
    if access.run != SUBGROUP_SIZE or (access.stride or 0) * access.lanes_per_element != access.parts:
        return "false"
    if is_proven:
        return "true"
    return _are_in_bounds(emitter.builder, access, [_base_index(emitter, access)])


def _address_or_slot(
    emitter: SubgroupEmitter, access: SubgroupAccess, whole: str, *, is_load: bool
) -> tuple[str, Callable[[], None]]:
    """Address from which the scalars of all lanes are loaded, or to which they are stored, one lane after the other: in the buffer or, unless
    the i1 `whole` holds, in a stack slot; and the code to be written behind the accesses."""
    w, builder, mask = emitter.w, emitter.builder, emitter.mask
    kind = f"[{SUBGROUP_SIZE * access.parts} x {access.memory}]"
    slot = builder.borrow_slot(kind)
    near, far, end = w.label("near"), w.label("far"), w.label("at")
    w.branch_if(whole, near, far)
    w.start(near)
    address, near = (
        _pointer(builder, access, _base_index(emitter, access)) if whole != "false" else slot,
        w.block,
    )
    w.branch(end)
    w.start(far)
    if is_load:
        _move_lanes(emitter, access, slot, mask, is_load=True)
    far = w.block
    w.fall_into(end)
    at = w.phi("ptr", [(address, near), (slot, far)])

    def finish() -> None:
        if not is_load:
            rest, stored = w.label("scatter"), w.label("stored")
            w.branch_if(whole, stored, rest)
            w.start(rest)
            _move_lanes(emitter, access, slot, mask, is_load=False)
            w.fall_into(stored)
        builder.return_slots([(kind, slot)])

    return at, finish


def _move_lanes(
    emitter: SubgroupEmitter, access: SubgroupAccess, slot: str, mask: str | None, *, is_load: bool
) -> None:
    """Move the scalars of each lane of `mask` between the buffer and the slot, checked."""
    if access.stride is None:
        indices = _lane_indices(emitter, access)
        _check_lanes(emitter, access, indices)
    else:
        indices = _checked_indices(emitter, access)
    offsets = _scalar_offsets(emitter.builder, access, indices)
    runtime.move_lanes(
        emitter.builder,
        access.memory,
        access.parts,
        access.align,
        access.pointer,
        offsets,
        slot,
        mask,
        is_load=is_load,
    )


def _chunk_pointer(
    builder: FunctionBuilder, access: SubgroupAccess, shape: LaneShape, address: str, number: int
) -> str:
    if number == 0:
        return address
    return builder.w.emit(f"getelementptr {access.memory}, ptr {address}, i64 {number * shape.lanes}")


# --- atomics: the active lanes, one after the other, unless they may be combined before


def atomic(emitter: SubgroupEmitter, op: Op) -> None:
    builder = emitter.builder
    if op in builder.totals:
        _combine_with_total(emitter, op)
        return
    access, takes_old = SubgroupAccess(emitter, op, op.result.type), builder.last_use(op.result) >= 0
    is_alone = builder.program.buffers[op.attrs["buffer"]].is_workgroup  # one thread runs a workgroup
    if access.is_uniform and may_regroup(op) and not takes_old:
        _update_once(emitter, access, is_alone)
        return
    indices = _lane_indices(emitter, access)
    _check_lanes(emitter, access, indices)
    offsets = _scalar_offsets(builder, access, indices)
    operands = [emitter.lane(value) for value in op.operands[1:]]
    count_label = None
    if is_alone and not takes_old and len(operands) == 1:
        count_label = _count_if_all_active(emitter, access, operands[0])
    bits = emitter.active_bits()
    old = runtime.atomic(builder, op, access.pointer, offsets, operands, bits, is_alone, takes_old)
    if old is not None:
        emitter.define(op.result, [old])
    if count_label is not None:
        emitter.w.fall_into(count_label)


def _count_if_all_active(emitter: SubgroupEmitter, access: SubgroupAccess, values: str) -> str:
    """Begins the block for what to do where not all lanes are active; gives the label of what follows it."""
    w, lanes = emitter.w, emitter.lane(access.index)
    every, some, counted = w.label("every"), w.label("some"), w.label("counted")
    w.branch_if(w.emit(f"icmp eq i32 {emitter.active_bits()}, -1"), every, some)
    w.start(every)
    runtime.count_alone(emitter.builder, access.op, access.pointer, access.index.type, lanes, values)
    w.branch(counted)
    w.start(some)
    return counted


def _update_once(emitter: SubgroupEmitter, access: SubgroupAccess, is_alone: bool) -> None:
    """All active lanes update one element, together."""
    op, builder, dtype = access.op, emitter.builder, access.op.result.type
    index = _base_index(emitter, access)
    _check_one(emitter, access, index)
    lanes = builder.blend(emitter.mask, carrier(dtype), emitter.lane(op.operands[1]), _neutral(op))
    total = fold_lanes(emitter, _combiner(op), dtype, lanes)
    runtime.atomic_of_one(builder, op, _pointer(builder, access, index), total, is_alone)


def _combiner(op: Op) -> str:
    return op.name.removeprefix("atomic_")


def _neutral(op: Op) -> str:
    """Lanes that change nothing by an atomic."""
    dtype = op.result.type
    return WIDE.const(arith.neutral(_combiner(op), dtype), dtype)


def begin_totals(builder: FunctionBuilder, ops: Iterable[Op]) -> None:
    """Let atomics, each on one element, be combined lane by lane in registers until `finish_totals`."""
    for op in ops:
        kind = WIDE.type(op.result.type)
        builder.totals[op] = builder.slot(kind)
        builder.store(kind, _neutral(op), builder.totals[op])


def _combine_with_total(emitter: SubgroupEmitter, op: Op) -> None:
    builder, dtype, slot = emitter.builder, op.result.type, emitter.builder.totals[op]
    total = builder.load(WIDE.type(dtype), slot)
    new_value = elementwise.apply(
        emitter.w, WIDE, _combiner(op), dtype, [total, emitter.lane(op.operands[1])]
    )
    builder.store(WIDE.type(dtype), builder.blend(emitter.mask, carrier(dtype), new_value, total), slot)


def finish_totals(emitter: SubgroupEmitter) -> None:
    """Write the atomics once.  Out of bounds is an element that no invocation has asked for."""
    w, builder = emitter.w, emitter.builder
    for op, slot in builder.totals.items():
        access, dtype = SubgroupAccess(emitter, op, op.result.type), op.result.type
        emitter.write_pure(op.index)
        index = _base_index(emitter, access)
        inside, end = w.label("inside"), w.label("combined")
        w.branch_if(w.emit(f"icmp ult i64 {index}, {access.length}"), inside, end)
        w.start(inside)
        total = fold_lanes(emitter, _combiner(op), dtype, builder.load(WIDE.type(dtype), slot))
        runtime.atomic_of_one(builder, op, _pointer(builder, access, index), total, is_alone=False)
        w.fall_into(end)


MEMORY_OPS = {"load": load, "store": store, "atomic": atomic}
