"""Halos: a workgroup reads what its neighbours made, and makes that itself instead.

`plan_tile` asks whether the first of two launches may be run again for a neighbour's elements,
and `is_profitable` whether that costs less than a launch.  halo_tile carries it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis.affine import AffineExpr, SymbolKind
from ..analysis.affine_analysis import Unknown
from ..analysis.congruence import is_in_bounds_value
from ..analysis.dependence import workgroup_axis
from ..analysis.footprint import MemoryAccess
from ..analysis.refusal import Refusal
from ..ir.loops import bounds, trip_count
from ..ir.program import MAX_NESTING, AccessMode, Block, Op, Program, Value
from .halo_recompute import Tile
from .pair_legality import PairAccesses, static_grid

__all__ = ["LAUNCH_US", "Cost", "plan_tile", "is_profitable"]

LAUNCH_US = 5.0
"""What a launch costs, in microseconds."""

BYTES_PER_US = 2.0e6
OPS_PER_US = 1.0e7
"""2 TB/s and 10^13 ops/s: of the order of what large GPUs have.  The decision depends on them weakly."""

MIN_INDEX_BITS = 32


@dataclass(frozen=True, slots=True)
class Cost:
    """What recomputing a halo costs, and what it saves.

    `own`, `extra`: invocations of the producer a workgroup runs for itself, and for its neighbours.
    `ops`, `bytes`: what those of all workgroups do again.  `saved_bytes`: of the hand-off.
    """

    own: int
    extra: int
    ops: int
    bytes: int
    saved_bytes: int

    @property
    def spent_us(self) -> float:
        return self.bytes / BYTES_PER_US + self.ops / OPS_PER_US

    @property
    def saved_us(self) -> float:
        return LAUNCH_US + self.saved_bytes / BYTES_PER_US

    def facts(self) -> dict[str, Any]:
        return {
            "own": self.own,
            "recomputed": self.extra,
            "recomputed_ops": self.ops,
            "recomputed_bytes": self.bytes,
            "saved_bytes": self.saved_bytes,
            "spent_us": round(self.spent_us, 3),
            "saved_us": round(self.saved_us, 3),
        }

    def __str__(self) -> str:
        return (
            f"each workgroup runs {self.extra} invocations again beside its {self.own}: {self.ops} ops and "
            f"{self.bytes} bytes in all, {self.spent_us:.2f} us, to save {self.saved_bytes} bytes and a launch, "
            f"{self.saved_us:.2f} us"
        )


def is_profitable(cost: Cost) -> bool:
    """Whether recomputing is cheaper.

    A workgroup that computes more for others than for itself is refused whatever the time: it
    holds a tile of more than twice its share, and runs the producer in three rounds or more, one
    after the other, which sums over the whole device do not show.
    """
    return cost.extra <= cost.own and cost.spent_us < cost.saved_us


def plan_tile(facts: PairAccesses, buffer: str) -> tuple[Tile, Cost] | Refusal:
    """The tile of `buffer` that a workgroup of the second launch needs, made by the first (member 0).

    A refusal is `halo-producer` where the first cannot make it, `raw` where it is no tile.
    """
    producer = facts.members[0].program
    problem = _why_not_rerunnable(facts, buffer) or _shape(facts, buffer)
    if problem is None:
        made, read = facts.accesses(0, buffer), facts.accesses(1, buffer)
        window = _window(facts, buffer, made, read)
        if isinstance(window, Tile):
            return window, _cost(facts, buffer, window)
        if isinstance(window, Refusal):
            return window
        problem = window
    message = (
        f"@{producer.name} cannot be run again for the elements of @{buffer} that neighbours read: {problem}"
    )
    return Refusal("halo-producer", message, buffer)


# --- is what an invocation of the producer makes a function of its global id?


def _why_not_rerunnable(facts: PairAccesses, buffer: str) -> str | None:
    producer = facts.members[0]
    if producer.program.workgroup[1:] != (1, 1):
        return "its workgroup has more than one dimension"
    for formal, actual in producer.bindings:
        if actual != buffer and formal.access is not AccessMode.READ:
            return f"it also writes @{actual}"
    for op in producer.program.walk():
        effects = op.definition.effects
        if op.name == "barrier" or "subgroup" in effects:
            return f"its invocations exchange values ({op.name})"
        if "atomic" in effects or "trap" in effects:
            return f"it has a {op.name}"
    if any(b.binding is None for b in producer.program.buffers.values()):
        return "it has buffers of its own"
    if any(not a.is_write for a in facts.accesses(0, buffer)):
        return f"it reads @{buffer} too"
    return _depends_on_data(producer.program)


def _depends_on_data(program: Program) -> str | None:
    """Whether it depends on loaded values if a store happens: then a workgroup may miss an element."""
    data: set[Value] = set()
    guarded_store = False

    def block(inner: Block, guarded: bool) -> None:
        nonlocal guarded_store
        for op in inner.ops:
            if not op.regions:
                if op.name == "load" or any(v in data for v in op.operands):
                    data.update(op.results)
                guarded_store |= op.name == "store" and guarded
                continue
            # what a loop carries may come from anything inside it
            from_data = any(o.name == "load" or any(v in data for v in o.operands) for o in op.walk())
            deciding = bounds(op) if op.name == "for" else op.operands
            conditional = guarded or op.name == "while" or any(v in data for v in deciding)
            counters = 1 if op.name == "for" else 0
            for region in op.regions:
                data.update(region.args[counters:] if from_data else ())
                data.update(region.args[:counters] if conditional else ())
                block(region, conditional)
            data.update(op.results if from_data else ())

    block(program.body, False)
    return "whether it stores an element depends on data that it loads" if guarded_store else None


def _shape(facts: PairAccesses, buffer: str) -> str | None:
    grid = static_grid(facts.grid)
    if grid is None:
        return "the number of workgroups is not known"
    if grid[1:] != (1, 1):
        return "the grid has more than one dimension"
    if facts.program.buffers[buffer].count is None:
        return f"the size of @{buffer} is not known"
    if facts.program.buffers[buffer].dtype.size_bytes is None:
        return f"elements of {facts.program.buffers[buffer].dtype} have no size of whole bytes"
    if _height(facts.members[0].program.body) + 2 > MAX_NESTING:
        return "its blocks nest too deep"
    return None


def _height(block: Block) -> int:
    return 1 + max((_height(inner) for op in block.ops for inner in op.regions), default=0)


# --- which ids make the elements that a workgroup reads?


def _window(
    facts: PairAccesses, buffer: str, made: Sequence[MemoryAccess], read: Sequence[MemoryAccess]
) -> Tile | Refusal | str:
    grid = static_grid(facts.grid)
    length = facts.program.buffers[buffer].count
    assert grid is not None and length is not None
    lanes = facts.members[0].program.workgroup[0]
    strides: set[int] = set()
    offsets: list[int] = []
    for access in made:
        found = _by_id(access, lanes, grid[0])
        if found is None or not _is_element(access, length):
            return f"the index of {access.describe()} is not a multiple of the global id and a constant"
        strides.add(found[0])
        offsets += found[1:]
    if len(strides) != 1:
        return f"its stores to @{buffer} have different strides"
    stride = strides.pop()
    needed: list[int] = []
    for access in read:
        if access.is_write:
            return Refusal("raw", f"@{facts.members[1].program.name} writes @{buffer} as well", buffer)
        reach = _reach(access, stride * lanes if grid[0] > 1 else 0)
        if reach is None or not _is_element(access, length):
            return Refusal("raw", f"{access.describe()} is not near what its own workgroup makes", buffer)
        needed += reach
    low, high = min(offsets), max(offsets)
    first = -((high - min(needed)) // stride)  # the least id whose elements reach the first one needed
    last = (max(needed) - low) // stride
    invocations = grid[0] * lanes
    count = last - first + 1
    if count < 1 or invocations + max(-first, 0) + max(last, 0) >= 1 << 32:
        return "its ids would pass 32 bits"
    begin, end = stride * first + low, stride * last + high
    return Tile(buffer, 0, first, count, invocations, stride * lanes, begin, end - begin + 1, length)


def _by_id(access: MemoryAccess, lanes: int, groups: int) -> tuple[int, int, int] | None:
    """(s, low, high) of a store to `s * global_id + c`, c in [low, high]."""
    if isinstance(access.index, Unknown):
        return None
    ids, rest = access.expr.local_id_coefficients()
    stride = 0
    low = high = access.expr.const
    for symbol, coefficient in rest.items():
        if workgroup_axis(symbol) == 0:
            stride = coefficient
        elif symbol.kind is SymbolKind.LOOP:
            least, most = symbol.range
            low += min(coefficient * least, coefficient * most)
            high += max(coefficient * least, coefficient * most)
        else:
            return None
    per_lane = ids.get("x", stride if lanes == 1 else 0)
    moves = per_lane * lanes if groups > 1 else 0
    if per_lane < 1 or stride != moves or None in access.loops:
        return None
    return per_lane, low, high + access.width - 1


def _reach(access: MemoryAccess, stride: int) -> tuple[int, int] | None:
    """The elements read, counted from `stride * workgroup_id`; `stride` is 0 if there is one workgroup."""
    if isinstance(access.index, Unknown):
        return None
    low = high = access.expr.const
    moves = 0
    for symbol, coefficient in access.expr.terms.items():
        if workgroup_axis(symbol) == 0:
            moves = coefficient
            continue
        if symbol.kind is SymbolKind.GROUP:
            return None
        least, most = access.lanes.get(symbol, symbol.range)
        most = max(least, most)
        low += min(coefficient * least, coefficient * most)
        high += max(coefficient * least, coefficient * most)
    return (low, high + access.width - 1) if moves == stride else None


def _is_element(access: MemoryAccess, length: int) -> bool:
    """Whether the form of an index in bounds is the element."""
    dtype = access.op.index.type
    if not isinstance(access.index, AffineExpr) or (dtype.bits or 0) < MIN_INDEX_BITS:
        return False
    return is_in_bounds_value(access.expr.range(access.lanes), dtype, length)


# --- what it costs


def _cost(facts: PairAccesses, buffer: str, tile: Tile) -> Cost:
    producer = facts.members[0].program
    lanes = producer.workgroup[0]
    extra = max(0, tile.count - lanes)
    groups = tile.invocations // lanes
    ops, moved = _work(producer)
    dtype = facts.program.buffers[buffer].dtype
    whole = tile.length * (dtype.size_bytes or 0)
    return Cost(lanes, extra, groups * extra * ops, groups * extra * moved, 2 * whole)


def _work(program: Program) -> tuple[int, int]:
    """Ops and loaded bytes of one invocation; a loop of unknown trips counts as one."""

    def block(inner: Block) -> tuple[int, int]:
        ops = moved = 0
        for op in inner.ops:
            ops += 1
            if op.name == "load":
                moved += _bytes(op)
            times = (trip_count(op) or 1) if op.name == "for" else 1
            for region in op.regions:
                more_ops, more_bytes = block(region)
                ops, moved = ops + times * more_ops, moved + times * more_bytes
        return ops, moved

    return block(program.body)


def _bytes(load: Op) -> int:
    return load.result.type.size_bytes or 0
