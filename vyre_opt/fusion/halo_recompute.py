"""Rewriting for halos: each workgroup computes its part of a hand-off, including the neighbours' elements that it reads.

    elements of the hand-off    ... |---- of workgroup w ----| ...
    what workgroup w reads       |lo|                        |hi|      the halo
    what it computes             '-------- its tile ---------'

The producer's invocations exchange nothing (halo_plan checks that), so each is a function of its global
id, and a workgroup may run it under any global ids; its other ids are quotients and remainders of that
one.  Its body goes into a loop over the ids that write the tile:

    for %t = local_id to count step workgroup_size {
      %id = workgroup_id * workgroup_size + first + %t
      if %id < global_size { body, with %id in place of global_id }
    }

The tile is in workgroup memory.  In storage, two workgroups writing one element would be a race.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.arith import wrap
from ..ir.diagnostics import Location
from ..ir.grids import Extent
from ..ir.ops import OPS, SUBGROUP_SIZE
from ..ir.program import Block, Op, Program, Value
from ..ir.rewrite import become, constant_name, substitute
from ..ir.types import DataType
from ..records import dataclass

__all__ = ["OpEmitter", "HaloTile", "rebase", "recompute"]


@dataclass(frozen=True, slots=True)
class HaloTile:
    """The tile of `buffer`, computed by member number `producer` of a group.

    `first`, `count`: the global ids that a workgroup runs the producer under, counted from its own first.
    `invocations`: global ids of the dispatch.
    `stride`: elements between the tiles of neighbouring workgroups.
    `low`, `size`: the tile's first element, counted from stride * workgroup id, and its element count.
    `length`: elements of the whole buffer.
    """

    buffer: str
    producer: int
    first: int
    count: int
    invocations: int
    stride: int
    low: int
    size: int
    length: int


class OpEmitter:
    """Appends ops with a location to a list."""

    def __init__(self, ops: list[Op], loc: Location | None) -> None:
        self.ops = ops
        self.loc = loc

    def const(self, number: int, dtype: DataType = DataType.U32) -> Value:
        encoded = wrap(number, dtype)
        value = Value(constant_name(encoded, dtype), dtype)
        new_op = Op(OPS["const"], (), (value,), {"value": encoded}, (), self.loc)
        self.ops.append(new_op)
        return new_op.result

    def op(self, kind: str, name: str, *operands: Value, dtype: DataType | None = None) -> Value:
        new_op = Op(OPS[kind], operands, (Value(name, dtype or operands[0].type),), loc=self.loc)
        self.ops.append(new_op)
        return new_op.result

    def select(self, condition: Value, value: Value, other: Value) -> Value:
        return self.op("select", value.name, condition, value, other, dtype=value.type)

    def cast(self, value: Value, dtype: DataType) -> Value:
        if value.type is dtype:
            return value
        return self.op("cast", f"{value.name}_{dtype}", value, dtype=dtype)

    def length(self, name: str, buffer: str, dimension: int | None, dtype: DataType) -> Value:
        attrs = {"buffer": buffer} if dimension is None else {"buffer": buffer, "dimension": dimension}
        new_op = Op(OPS["len"], (), (Value(name, dtype),), attrs, (), self.loc)
        self.ops.append(new_op)
        return new_op.result

    def extent(
        self, extent: Extent, name: str, dtype: DataType, length: Callable[[str, int | None], Value]
    ) -> Value:
        """Emit an expression of lengths; no part may be too large for `dtype`.  `length` emits the length of a buffer."""
        if isinstance(extent, int):
            return self.const(extent, dtype)
        if extent.name == "len":
            buffer, *dimension = extent.args
            return self.cast(length(str(buffer), int(str(dimension[0])) if dimension else None), dtype)
        x, y = (self.extent(arg, name, dtype, length) for arg in extent.args if not isinstance(arg, str))
        if extent.name == "ceil_div":
            less = self.op("sub", "less", y, self.const(1, dtype))
            return self.op("div", name, self.op("add", "more", x, less), y)
        return self.op(extent.name, name, x, y)

    def identity(self, kind: str, name: str, axis: str = "x") -> Value:
        new_op = Op(OPS[kind], (), (Value(name, DataType.U32),), {"axis": axis}, (), self.loc)
        self.ops.append(new_op)
        return new_op.result


def rebase(ops: list[Op], tile: HaloTile) -> list[Op]:
    """The ops with their indices of the buffer rebased to the tile's first element."""
    new_ops: list[Op] = []
    for op in ops:
        for block in op.regions:
            block.ops = rebase(block.ops, tile)
        if op.attrs.get("buffer") != tile.buffer:
            new_ops.append(op)
        elif op.name == "len":
            count = wrap(tile.length, op.result.type)
            become(op, "const", (), {"value": count})
            new_ops.append(op)
        else:
            index = _rebased_index(op.index, tile, new_ops, op.loc)
            op.operands = (*op.operands[:-1], index)
            new_ops.append(op)
    return new_ops


def _rebased_index(index: Value, tile: HaloTile, ops: list[Op], loc: Location | None) -> Value:
    """`index - (stride * workgroup id + low)`: exact, since it is right modulo 2^bits and lies in the tile."""
    emit = OpEmitter(ops, loc)
    dtype = index.type
    workgroup = emit.identity("workgroup_id", "workgroup")
    if dtype is not DataType.U32:
        workgroup = emit.op("cast", "workgroup", workgroup, dtype=dtype)
    base = emit.op("mul", "tile_base", workgroup, emit.const(tile.stride, dtype))
    start = emit.op("add", "tile_start", base, emit.const(tile.low, dtype))
    return emit.op("sub", f"{index.name}_tile", index, start)


def recompute(ops: list[Op], tile: HaloTile, producer: Program) -> list[Op]:
    """The producer's `ops`, run under each id of the tile that is an id of the dispatch."""
    lanes = producer.workgroup[0]
    outer = OpEmitter([], producer.loc)
    local = outer.identity("local_id", "local")
    workgroup = outer.identity("workgroup_id", "workgroup")
    first_of_workgroup = outer.op("mul", "own", workgroup, outer.const(lanes))
    start = outer.op("add", "start", first_of_workgroup, outer.const(tile.first))
    ids = outer.const(tile.invocations)

    counter = Value("t", DataType.U32)
    inner = OpEmitter([], producer.loc)
    global_id = inner.op("add", "id", start, counter)
    # at the ends of the dispatch the halo has ids that no invocation has; below zero they wrap to large ones
    exists = inner.op("lt", "exists", global_id, ids, dtype=DataType.BOOL)
    # The ids of the one invocation stand before its body, not where the body first uses one: that may be in
    # a branch, and a later use outside of it would not be dominated
    identities = OpEmitter([], producer.loc)
    _rename_ids(ops, _Identities(identities, global_id, lanes), {})
    ops = [*identities.ops, *ops]
    inner.ops.append(Op(OPS["if"], (exists,), (), regions=(Block((), ops),), loc=producer.loc))
    bounds = {"lower": None, "upper": tile.count, "step": lanes}
    loop = Op(OPS["for"], (local,), (), bounds, (Block((counter,), inner.ops),), producer.loc)
    return [*outer.ops, loop]


class _Identities:
    """The values of all ids in the invocation with a given global id, in a dispatch of one dimension."""

    def __init__(self, emit: OpEmitter, global_id: Value, lanes: int) -> None:
        self.emit = emit
        self.global_id = global_id
        self.lanes = lanes
        self.values: dict[tuple[str, str], Value] = {}

    def value(self, name: str, axis: str) -> Value:
        if (name, axis) not in self.values:
            self.values[name, axis] = self.emit.const(0) if axis != "x" else self._along_x(name)
        return self.values[name, axis]

    def _along_x(self, name: str) -> Value:
        if name == "global_id":
            return self.global_id
        if name == "local_id":
            return self._part("rem", self.global_id, self.lanes)
        if name == "workgroup_id":
            return self._part("div", self.global_id, self.lanes)
        part = "rem" if name == "lane_id" else "div"
        return self._part(part, self.value("local_id", "x"), SUBGROUP_SIZE)

    def _part(self, part: str, value: Value, by: int) -> Value:
        return self.emit.op(part, "part", value, self.emit.const(by))


_IDS = ("global_id", "local_id", "workgroup_id", "lane_id", "subgroup_id")


def _rename_ids(ops: list[Op], ids: _Identities, replacements: dict[Value, Value]) -> None:
    """Replace the ids in `ops`, in place, by those of the given invocation."""
    remaining: list[Op] = []
    for op in ops:
        substitute(op, replacements)
        if op.name in _IDS:
            replacements[op.result] = ids.value(op.name, op.attrs.get("axis", "x"))
            continue
        for block in op.regions:
            _rename_ids(block.ops, ids, replacements)
        remaining.append(op)
    ops[:] = remaining
