"""Which transient buffers have a replica in the workgroup memory of each workgroup of a cluster.

A grid that is one cluster hands values on through a transient buffer: some workgroups store, a grid barrier, all load.
By way of global memory each hand-off waits for a fence, and a fence waits for every load that its workgroup has under way.
With replicas a load reads its own workgroup's memory; a store goes to all replicas and counts its bytes there, and the barrier
waits until the bytes have come (see exchange.py).  So no fence is needed, and loads stay under way across the barrier.

Such a barrier orders what goes by replicas and by workgroup memory, and nothing else.  So a program has replicas only where
nothing else can be handed on: see `_Walk`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...analysis.effects import effects_of
from ...ir.loops import bounds
from ...ir.program import Block, Buffer, Op, Program, Value
from ...ir.rewrite import constant_value
from .abi import ALIGNMENT
from .targets import GpuTarget

__all__ = ["BARRIER_BYTES", "Replicas", "replicas"]

BARRIER_BYTES = 16
"""Of the object in workgroup memory on which a workgroup waits; a multiple of the alignment of workgroup buffers."""

WORD = 4
MOST_BYTES = (1 << 20) - 1  # that such an object can wait for (PTX ISA, "Tx-Count of mbarrier object")


@dataclass(frozen=True, slots=True)
class Replicas:
    """`buffers`: the names of those that have replicas.  `workgroups`: of the cluster.  `words`: that a lane stores to them
    between two barriers, at most."""

    buffers: frozenset[str]
    workgroups: int
    words: int


def replicas(program: Program, target: GpuTarget, may_fault: bool) -> Replicas | None:
    """The replicas of a program whose grid is one cluster; None where a fence must do.

    `may_fault`: an invocation may end before the others, which would then wait for its bytes.
    """
    workgroups = prod(program.grid or ())
    candidates = {b.name: b for b in program.buffers.values() if _can_be_one(b)}
    tiles = [b for b in program.buffers.values() if b.is_workgroup]
    used = sum((b.size_bytes or 0) + ALIGNMENT for b in (*tiles, *candidates.values())) + BARRIER_BYTES
    # A lane arrives for each workgroup
    if may_fault or not candidates or program.lanes < workgroups or used > target.shared_bytes:
        return None
    walk = _Walk(program, frozenset(candidates))
    try:
        left = walk.block(program.body, 0)
    except _NeedsFence:
        return None
    # What no barrier follows could reach a workgroup that has ended
    is_ordered = not left and not walk.read & walk.written
    return Replicas(frozenset(candidates), workgroups, walk.most) if is_ordered else None


def _can_be_one(buffer: Buffer) -> bool:
    is_whole = buffer.is_transient and buffer.binding is None and bool(buffer.count)
    return is_whole and buffer.dtype.element.size_bytes in (4, 8)


class _NeedsFence(Exception):
    pass


class _Walk:
    """Follows the control flow with the words that a lane has stored to replicas since the last grid barrier.

    `read` and `written` become the storage that is; if they have a buffer in common, a fence is needed.  Raises _NeedsFence

    - where an element could be loaded that a lane of this workgroup has stored and no barrier has brought,
    - at a grid barrier after which others might read, or write once more, what was written to storage before,
    - where replicas are accessed by other ops than load and store, or a function is called,
    - where more is stored between two barriers than can be counted.
    """

    def __init__(self, program: Program, buffers: frozenset[str]) -> None:
        self.buffers = buffers
        self.storage = {b.name for b in program.buffers.values() if not b.is_workgroup} - buffers
        self.senders = program.lanes * prod(program.grid or ())
        self.most = 0
        self.read: set[str] = set()
        self.written: set[str] = set()

    def block(self, block: Block, pending: int) -> int:
        """The words after a block, of `pending` before it."""
        for op in block.ops:
            pending = self._op(op, pending)
        return pending

    def _op(self, op: Op, pending: int) -> int:
        if op.name in ("for", "while"):
            return self._loop(op, pending)
        if op.regions:
            return max(pending, *(self.block(region, pending) for region in op.regions))
        if op.name == "call":
            raise _NeedsFence
        if op.name == "barrier":
            return self._barrier(op, pending)
        effects = effects_of(op)
        if (effects.reads | effects.writes) & self.buffers:
            return self._access(op, pending)
        self.read |= effects.reads & self.storage
        self.written |= effects.writes & self.storage
        return pending

    def _barrier(self, op: Op, pending: int) -> int:
        if op.attrs["scope"] != "grid":
            return pending
        if self.written:
            raise _NeedsFence
        self.most = max(self.most, pending)
        return 0

    def _access(self, op: Op, pending: int) -> int:
        if op.name == "load" and not pending:
            return 0
        if op.name != "store":
            raise _NeedsFence
        return self._counted(pending + (op.operands[0].type.element_bytes or 0) // WORD)

    def _counted(self, pending: int) -> int:
        if pending * WORD * self.senders > MOST_BYTES:
            raise _NeedsFence
        return pending

    def _loop(self, op: Op, pending: int) -> int:
        once = self._turn(op, pending)
        if once > pending and not any(inner.name == "barrier" for inner in op.walk()):
            trips = _most_trips(op)
            if trips is None:
                raise _NeedsFence
            once = self._counted(pending + (once - pending) * trips)
            if trips > 1:
                self._turn(op, once)
            return once
        most = max(pending, once)
        if self._turn(op, most) > most:  # each turn leaves more
            raise _NeedsFence
        return self.block(op.regions[0], most) if op.name == "while" else most

    def _turn(self, op: Op, pending: int) -> int:
        for region in op.regions:
            pending = self.block(region, pending)
        return pending


def _most_trips(loop: Op) -> int | None:
    """The turns of a `for`, at most; None where that is not known."""
    if loop.name != "for":
        return None
    lower, upper, step = map(_constant, bounds(loop))
    counter = loop.regions[0].args[0].type
    if lower is None and not counter.is_signed:
        lower = 0
    if lower is None or upper is None or not step or step < 0:
        return None
    return max(0, -((lower - upper) // step))


def _constant(bound: int | Value) -> int | None:
    value = bound if isinstance(bound, int) else constant_value(bound)
    return value if isinstance(value, int) else None
