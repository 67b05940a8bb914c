"""A hand-off that each workgroup computes for itself, with the elements that its neighbours compute too.

    elements of the hand-off    ... |---- of workgroup w ----| ...
    what workgroup w reads       |lo|                        |hi|      the halo
    what it computes             '-------- its tile ---------'

The producer's invocations exchange nothing, so each is a function of its global id, and a
workgroup may run it under any ids (its other ids are quotients and remainders of that one).
Its body goes into a loop over the ids that make the tile:

    for %t = local_id to count step workgroup_size {
      %id = workgroup_id * workgroup_size + first + %t
      if %id < global_size { body, with %id in place of global_id }
    }

The tile is in workgroup memory.  In storage the doubled elements would be a race.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.arith import wrap
from ..ir.diagnostics import Location
from ..ir.ops import OPS, SUBGROUP_SIZE
from ..ir.program import Block, Op, Program, Value
from ..ir.rewrite import substitute
from ..ir.types import DataType

__all__ = ["Tile", "recompute", "rebase"]


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of `buffer`, made by member number `producer` of a group.

    `first`, `count`: the ids that a workgroup runs the producer under, counted from its own first one.
    `invocations`: ids there are.  `stride`: elements from one workgroup's to the next's.
    `low`, `size`: where the tile begins, counted from stride * workgroup id, and its elements.
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


class _Emitter:
    """Puts located ops into a list."""

    def __init__(self, ops: list[Op], loc: Location | None) -> None:
        self.ops = ops
        self.loc = loc

    def const(self, number: int, dtype: DataType = DataType.U32) -> Value:
        encoded = wrap(number, dtype)
        made = Op(OPS["const"], (), (Value(f"c{encoded}", dtype),), {"value": encoded}, (), self.loc)
        self.ops.append(made)
        return made.result

    def put(self, kind: str, name: str, *operands: Value, dtype: DataType | None = None) -> Value:
        made = Op(OPS[kind], operands, (Value(name, dtype or operands[0].type),), loc=self.loc)
        self.ops.append(made)
        return made.result

    def identity(self, kind: str, name: str) -> Value:
        made = Op(OPS[kind], (), (Value(name, DataType.U32),), {"axis": "x"}, (), self.loc)
        self.ops.append(made)
        return made.result


def rebase(ops: list[Op], tile: Tile) -> list[Op]:
    """The ops with their accesses of the buffer counted from the tile's first element."""
    found: list[Op] = []
    for op in ops:
        for block in op.regions:
            block.ops = rebase(block.ops, tile)
        if op.attrs.get("buffer") != tile.buffer:
            found.append(op)
        elif op.name == "len":
            count = wrap(tile.length, op.result.type)
            found.append(Op(OPS["const"], (), op.results, {"value": count}, (), op.loc))
        else:
            place = _counted(op.index, tile, found, op.loc)
            op.operands = (*op.operands[:-1], place)
            found.append(op)
    return found


def _counted(index: Value, tile: Tile, ops: list[Op], loc: Location | None) -> Value:
    """`index - (stride * workgroup id + low)`, which is right modulo 2^bits and lies in the tile."""
    put = _Emitter(ops, loc)
    dtype = index.type
    workgroup = put.identity("workgroup_id", "workgroup")
    if dtype is not DataType.U32:
        workgroup = put.put("cast", "workgroup", workgroup, dtype=dtype)
    base = put.put("mul", "tile_base", workgroup, put.const(tile.stride, dtype))
    start = put.put("add", "tile_start", base, put.const(tile.low, dtype))
    return put.put("sub", f"{index.name}_tile", index, start)


def recompute(ops: list[Op], tile: Tile, producer: Program) -> list[Op]:
    """The producer's `ops`, run under each id of the tile that is an id of the dispatch."""
    lanes = producer.workgroup[0]
    outer = _Emitter([], producer.loc)
    local = outer.identity("local_id", "local")
    workgroup = outer.identity("workgroup_id", "workgroup")
    own = outer.put("mul", "own", workgroup, outer.const(lanes))
    start = outer.put("add", "start", own, outer.const(tile.first))
    ids = outer.const(tile.invocations)

    counter = Value("t", DataType.U32)
    inner = _Emitter([], producer.loc)
    chosen = inner.put("add", "id", start, counter)
    exists = inner.put("lt", "exists", chosen, ids, dtype=DataType.BOOL)
    identities = _Emitter([], producer.loc)
    _rename_ids(ops, _Identities(identities, chosen, lanes), {})
    ops = [*identities.ops, *ops]
    inner.ops.append(Op(OPS["if"], (exists,), (), regions=(Block((), ops),), loc=producer.loc))
    bounds = {"lower": None, "upper": tile.count, "step": lanes}
    loop = Op(OPS["for"], (local,), (), bounds, (Block((counter,), inner.ops),), producer.loc)
    return [*outer.ops, loop]


class _Identities:
    """Which value an id has in the invocation of a global id, in a dispatch of one dimension."""

    def __init__(self, put: _Emitter, chosen: Value, lanes: int) -> None:
        self.put = put
        self.chosen = chosen
        self.lanes = lanes
        self.known: dict[tuple[str, str], Value] = {}

    def value(self, name: str, axis: str) -> Value:
        if (name, axis) not in self.known:
            self.known[name, axis] = self.put.const(0) if axis != "x" else self._along_x(name)
        return self.known[name, axis]

    def _along_x(self, name: str) -> Value:
        if name == "global_id":
            return self.chosen
        if name == "local_id":
            return self._part("rem", self.chosen, self.lanes)
        if name == "workgroup_id":
            return self._part("div", self.chosen, self.lanes)
        part = "rem" if name == "lane_id" else "div"
        return self._part(part, self.value("local_id", "x"), SUBGROUP_SIZE)

    def _part(self, part: str, value: Value, by: int) -> Value:
        return self.put.put(part, "part", value, self.put.const(by))


_IDS = ("global_id", "local_id", "workgroup_id", "lane_id", "subgroup_id")


def _rename_ids(ops: list[Op], ids: _Identities, replaced: dict[Value, Value]) -> None:
    """Take the ids of an invocation out of `ops`, in place, and those of the chosen one for them."""
    kept: list[Op] = []
    for op in ops:
        substitute(op, replaced)
        if op.name in _IDS:
            replaced[op.result] = ids.value(op.name, op.attrs.get("axis", "x"))
            continue
        for block in op.regions:
            _rename_ids(block.ops, ids, replaced)
        kept.append(op)
    ops[:] = kept
