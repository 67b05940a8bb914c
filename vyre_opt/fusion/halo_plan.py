"""Planning halos: a workgroup that reads elements of its neighbours computes them again itself.

`plan_tile` decides whether the first of two launches may be run again for the neighbours' elements, and
`is_profitable` whether that costs less than a launch.  halo_recompute rewrites the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..analysis.affine import AffineExpr, SymbolKind
from ..analysis.affine_analysis import Unknown
from ..analysis.congruence import is_in_bounds_value
from ..analysis.dependence import workgroup_axis
from ..analysis.footprint import MemoryAccess
from ..analysis.refusal import Refusal
from ..ir.loops import bounds, trip_count
from ..ir.program import MAX_NESTING, AccessMode, Block, Program, Value
from ..records import dataclass
from .halo_recompute import HaloTile
from .pair_legality import PairAccesses, static_grid

__all__ = [
    "BYTES_PER_US",
    "LAUNCH_US",
    "OPS_PER_US",
    "Cost",
    "is_profitable",
    "plan_tile",
    "time_us",
    "work_of",
]

LAUNCH_US = 5.0
"""Assumed cost of a launch, in microseconds."""

BYTES_PER_US = 2.0e6
OPS_PER_US = 1.0e7
"""2 TB/s and 10^13 ops/s, the order of magnitude of large GPUs.  The decision depends on them only weakly."""

MIN_INDEX_BITS = 32


@dataclass(frozen=True, slots=True)
class Cost:
    """The costs and the savings of recomputing a halo.

    `invocations`, `extra`: producer invocations that a workgroup runs for its own elements, and for its neighbours'.
    `ops`, `bytes`: ops and loaded bytes of the extra invocations of all workgroups.
    `saved_bytes`: the hand-off, written and read.
    """

    invocations: int
    extra: int
    ops: int
    bytes: int
    saved_bytes: int

    @property
    def spent_us(self) -> float:
        return time_us(self.ops, self.bytes)

    @property
    def saved_us(self) -> float:
        return LAUNCH_US + time_us(0, self.saved_bytes)

    def facts(self) -> dict[str, Any]:
        return {
            "own": self.invocations,
            "recomputed": self.extra,
            "recomputed_ops": self.ops,
            "recomputed_bytes": self.bytes,
            "saved_bytes": self.saved_bytes,
            "spent_us": round(self.spent_us, 3),
            "saved_us": round(self.saved_us, 3),
        }

    def __str__(self) -> str:
        return (
            f"each workgroup runs {self.extra} invocations again beside its {self.invocations}: {self.ops} ops and "
            f"{self.bytes} bytes in all, {self.spent_us:.2f} us, to save {self.saved_bytes} bytes and a launch, "
            f"{self.saved_us:.2f} us"
        )


def time_us(ops: int, traffic: int) -> float:
    """Microseconds for `ops` ops over all invocations and `traffic` bytes of memory, without the launch."""
    return traffic / BYTES_PER_US + ops / OPS_PER_US


def is_profitable(cost: Cost) -> bool:
    """Whether recomputing is cheaper than a launch and the hand-off through memory.

    Not if a workgroup would compute more for its neighbours than for itself: its tile would be more than
    twice its share, and it would run the producer three times or more in sequence.  Sums over the whole
    device do not show that latency.
    """
    return cost.extra <= cost.invocations and cost.spent_us < cost.saved_us


def plan_tile(pair: PairAccesses, buffer: str) -> tuple[HaloTile, Cost] | Refusal:
    """The tile of `buffer` that a workgroup of the second launch needs, computed by the first (member 0).

    Refused with `halo-producer` if the first cannot be run again, with `raw` if the elements needed are no tile.
    """
    producer = pair.members[0].program
    problem = _rerun_problem(pair, buffer) or _shape_problem(pair, buffer)
    if problem is None:
        tile = _tile_of(pair, buffer, pair.accesses(0, buffer), pair.accesses(1, buffer))
        if isinstance(tile, HaloTile):
            return tile, _cost(pair, buffer, tile)
        if isinstance(tile, Refusal):
            return tile
        problem = tile
    message = (
        f"@{producer.name} cannot be run again for the elements of @{buffer} that neighbours read: {problem}"
    )
    return Refusal("halo-producer", message, buffer)


# --- the writes of a producer's invocation must be a function of its global id alone


def _rerun_problem(pair: PairAccesses, buffer: str) -> str | None:
    producer = pair.members[0]
    if producer.program.workgroup[1:] != (1, 1):
        return "its workgroup has more than one dimension"
    for formal, actual in producer.bindings:
        if actual != buffer and formal.access is not AccessMode.READ:
            return f"it also writes @{actual}"
    for op in producer.program.walk():
        effects = op.definition.effects
        if op.name == "barrier" or "subgroup" in effects:
            return f"its invocations exchange values ({op.name})"
        if effects & {"atomic", "trap", "print"}:
            return f"it has an op {op.name}"
    if any(b.binding is None for b in producer.program.buffers.values()):
        return "it has buffers of its own"
    if any(not a.is_write for a in pair.accesses(0, buffer)):
        return f"it reads @{buffer} too"
    return _depends_on_data(producer.program)


def _depends_on_data(program: Program) -> str | None:
    """Refuse stores under conditions on loaded values: the tile could lack elements."""
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
            # a loop-carried value may come from any value inside the loop
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


def _shape_problem(pair: PairAccesses, buffer: str) -> str | None:
    grid = static_grid(pair.grid)
    if grid is None:
        return "the number of workgroups is not known"
    if grid[1:] != (1, 1):
        return "the grid has more than one dimension"
    if pair.program.buffers[buffer].dimensions > 1:
        return f"@{buffer} has {pair.program.buffers[buffer].dimensions} dimensions: halos are made of buffers of one"
    if pair.program.buffers[buffer].count is None:
        return f"the size of @{buffer} is not known"
    if pair.program.buffers[buffer].dtype.size_bytes is None:
        return f"elements of {pair.program.buffers[buffer].dtype} have no size of whole bytes"
    if _height(pair.members[0].program.body) + 2 > MAX_NESTING:
        return "its blocks nest too deep"
    return None


def _height(block: Block) -> int:
    return 1 + max((_height(inner) for op in block.ops for inner in op.regions), default=0)


# --- the global ids that write the elements that a workgroup reads


def _tile_of(
    pair: PairAccesses, buffer: str, writes: Sequence[MemoryAccess], reads: Sequence[MemoryAccess]
) -> HaloTile | Refusal | str:
    """The tile; a Refusal if the reads form no tile; in words, why the producer cannot compute it."""
    grid = static_grid(pair.grid)
    length = pair.program.buffers[buffer].count
    assert grid is not None and length is not None
    lanes = pair.members[0].program.workgroup[0]
    strides: set[int] = set()
    offsets: list[int] = []
    for access in writes:
        pattern = _store_pattern(access, lanes, grid[0])
        if pattern is None or not _is_element(access, length):
            return f"the index of {access.describe()} is not a multiple of the global id and a constant"
        strides.add(pattern[0])
        offsets += pattern[1:]
    if len(strides) != 1:
        return f"its stores to @{buffer} have different strides"
    stride = strides.pop()
    elements: list[int] = []
    for access in reads:
        if access.is_write:
            return Refusal("raw", f"@{pair.members[1].program.name} writes @{buffer} as well", buffer)
        bounds_read = _read_bounds(access, stride * lanes if grid[0] > 1 else 0)
        if bounds_read is None or not _is_element(access, length):
            return Refusal("raw", f"{access.describe()} is not near what its own workgroup makes", buffer)
        elements += bounds_read
    # id i writes elements stride * i + [low, high]; both ids are counted from the workgroup's first
    low, high = min(offsets), max(offsets)
    # from the least id that may write the first element needed to the largest one that may write the last; and all
    # ids of the workgroup, since one whose elements nobody reads may still fault
    first = min(-((high - min(elements)) // stride), 0)
    last = max((max(elements) - low) // stride, lanes - 1)
    invocations = grid[0] * lanes
    count = last - first + 1
    if count < 1 or invocations + max(-first, 0) + max(last, 0) >= 1 << 32:
        return "its ids would pass 32 bits"
    begin, end = stride * first + low, stride * last + high
    return HaloTile(buffer, 0, first, count, invocations, stride * lanes, begin, end - begin + 1, length)


def _store_pattern(access: MemoryAccess, lanes: int, groups: int) -> tuple[int, int, int] | None:
    """(s, low, high) of a store to `s * global_id + c` with c in [low, high]; None for any other."""
    if isinstance(access.index, Unknown):
        return None
    ids, other_terms = access.expr.local_id_coefficients()
    if any(symbol.kind is not SymbolKind.LOOP and workgroup_axis(symbol) != 0 for symbol in other_terms):
        return None
    stride = sum(c for symbol, c in other_terms.items() if symbol.kind is not SymbolKind.LOOP)
    low, high = (AffineExpr(access.expr.const) + access.expr.terms_of(SymbolKind.LOOP)).range()
    per_lane = ids.get("x", stride if lanes == 1 else 0)
    group_stride = per_lane * lanes if groups > 1 else 0
    # neighbouring workgroups must be as far apart as their lanes span, or the index is no multiple of the global id
    if per_lane < 1 or stride != group_stride or None in access.loops:
        return None
    return per_lane, low, high + access.width - 1


def _read_bounds(access: MemoryAccess, stride: int) -> tuple[int, int] | None:
    """Bounds of the elements read, counted from `stride * workgroup_id` (stride 0 for one workgroup), or None."""
    if isinstance(access.index, Unknown):
        return None
    base = access.expr.terms_of(SymbolKind.GROUP)
    if any(workgroup_axis(symbol) != 0 for symbol in base.terms) or sum(base.terms.values()) != stride:
        return None
    # the range of a branch that no lane takes is inverted
    lanes = {symbol: (lowest, max(lowest, highest)) for symbol, (lowest, highest) in access.lanes.items()}
    low, high = (access.expr - base).range(lanes)
    return low, high + access.width - 1


def _is_element(access: MemoryAccess, length: int) -> bool:
    """Whether the expression of an index that is in bounds is equal to it as an integer."""
    dtype = access.op.index.type
    if not isinstance(access.index, AffineExpr) or (dtype.bits or 0) < MIN_INDEX_BITS:
        return False
    return is_in_bounds_value(access.expr.range(access.lanes), dtype, length)


# --- costs


def _cost(pair: PairAccesses, buffer: str, tile: HaloTile) -> Cost:
    producer = pair.members[0].program
    lanes = producer.workgroup[0]
    extra = max(0, tile.count - lanes)
    groups = tile.invocations // lanes
    ops, loaded = work_of(producer)
    dtype = pair.program.buffers[buffer].dtype
    buffer_bytes = tile.length * (dtype.size_bytes or 0)
    return Cost(lanes, extra, groups * extra * ops, groups * extra * loaded, 2 * buffer_bytes)


def work_of(program: Program) -> tuple[int, int]:
    """Ops and loaded bytes of one invocation; a loop of unknown trip count counts once."""

    def block(inner: Block) -> tuple[int, int]:
        ops = traffic = 0
        for op in inner.ops:
            ops += 1
            if op.name == "load":
                traffic += op.result.type.size_bytes or 0
            times = (trip_count(op) or 1) if op.name == "for" else 1
            for region in op.regions:
                more_ops, more_bytes = block(region)
                ops, traffic = ops + times * more_ops, traffic + times * more_bytes
        return ops, traffic

    return block(program.body)
