"""Buffers with a replica in the workgroup memory of each workgroup of a cluster.

A cluster hands values on through cluster memory, or, where the whole grid is one, through a transient buffer: some workgroups
store, a barrier, all load.  By way of global memory each hand-off waits for a fence, and a fence waits for every load that its
workgroup has under way.  With replicas a load reads its own workgroup's memory; a store goes to all replicas and counts its
bytes there, and the barrier waits until the bytes have come (see exchange.py).  So no fence is needed, and loads stay under way
across the barrier.  Where a workgroup loads one row of the buffer only, that is its replica (see owned_rows.py), and a store goes to
one workgroup.

Such a barrier orders what goes by replicas and by workgroup memory, and nothing else.  So a program has replicas only where
nothing else can be handed on, and nothing orders two stores that are under way: see `_Walk`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from math import gcd, prod

from ...analysis.bounds import BoundsProofs
from ...analysis.effects import effects_of
from ...ir.loops import bounds
from ...ir.ops import BEYOND_WORKGROUP
from ...ir.program import Block, Buffer, Op, Program, Value
from ...ir.rewrite import constant_value
from .abi import ALIGNMENT
from .owned_rows import owned_row
from .pending_stores import PendingStore, StoreOverlaps
from .targets import OBJECT_BYTES, GpuTarget

__all__ = ["TURNS", "WORD", "NeedsFence", "Replicas", "object_bytes", "own_bytes", "own_elements", "replicas"]

WORD = 4
TURNS = 2
"""Barriers take an object by turns, see exchange.py."""
MOST_BYTES = (1 << 20) - 1  # that such an object can wait for (PTX ISA, "Tx-Count of mbarrier object")


@dataclass(frozen=True, slots=True)
class Replicas:
    """`buffers`: the names of those that have replicas.  `workgroups`: of the cluster.  `words`: that a lane stores to them
    between two barriers, at most, to those of all workgroups.  `unit`: divides the words of each such store; 0 if there are none.
    `rows`: buffers of which a workgroup has its own row only, and the elements of one."""

    buffers: frozenset[str]
    workgroups: int
    words: int
    unit: int
    rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def bits(self) -> range:
        """Bits that a lane's number of words may have; at least one."""
        lowest = (self.unit & -self.unit).bit_length() - 1
        return range(lowest, self.words.bit_length()) if self.words else range(1)


def object_bytes(workgroups: int, has_rows: bool) -> int:
    """Bytes of memory that a workgroup's barriers need: two objects, and with rows the words for each owner in two turns."""
    return TURNS * (OBJECT_BYTES + (WORD * workgroups if has_rows else 0))


def own_elements(buffer: Buffer, rows: Mapping[str, int]) -> int:
    """Elements of an on-chip buffer that a workgroup has in its memory."""
    return rows.get(buffer.name) or buffer.count or 0


def own_bytes(buffer: Buffer, rows: Mapping[str, int]) -> int:
    return own_elements(buffer, rows) * (buffer.dtype.element_bytes or 0)


class NeedsFence(Exception):
    """Why there can be no replicas, and the op, buffer or program that it is about."""

    def __init__(self, message: str, at: Op | Buffer | Program) -> None:
        super().__init__(message)
        self.at = at


def replicas(
    program: Program, target: GpuTarget, faulting: Collection[Op] = (), proofs: BoundsProofs | None = None
) -> Replicas:
    """The replicas of a program of clusters, or one whose grid is a cluster.  Raises NeedsFence where there can be none.

    `faulting`: the ops in which an invocation may end.  Before a barrier, the others of its cluster would wait there for
    its bytes.  `proofs`: of the accesses that are in bounds.
    """
    workgroups = program.cluster or prod(program.grid or ())
    buffers = [b for b in program.buffers.values() if (b.is_cluster if program.cluster else b.is_transient)]
    if not buffers:
        raise NeedsFence("it has no cluster memory", program)
    early = next((op for op in _up_to_last_barrier(program.body) if op in faulting), None)
    if early is not None:
        message = f"this may fault, and the others of the cluster would wait for what is to be stored to @{buffers[0].name}"
        raise NeedsFence(message, early)
    for buffer in buffers:
        if buffer.binding is not None or not buffer.count or buffer.dtype.element.size_bytes not in (4, 8):
            raise NeedsFence(f"@{buffer.name} is not of elements of 4 or 8 bytes", buffer)
    if program.lanes < workgroups:
        raise NeedsFence(
            f"a workgroup of {program.lanes} tells {workgroups} of a cluster, a lane each", program
        )
    rows = _rows(program, buffers, workgroups, proofs or BoundsProofs(program))
    tiles = [b for b in program.buffers.values() if b.is_workgroup]
    used_bytes = sum(own_bytes(b, rows) + ALIGNMENT for b in (*tiles, *buffers))
    used_bytes += object_bytes(workgroups, bool(rows))
    if used_bytes > target.shared_bytes:
        message = f"its workgroup and cluster buffers take {used_bytes} bytes; {target.name} has {target.shared_bytes} for a workgroup"
        raise NeedsFence(message, max(buffers, key=lambda b: own_bytes(b, rows)))
    walk = _Walk(program, frozenset(b.name for b in buffers), rows, program.lanes * workgroups)
    pending = walk.block(program.body, _PendingRemoteStores()).buffers
    if pending:
        raise NeedsFence(
            f"no barrier follows the last stores to @{min(pending)}", program.buffers[min(pending)]
        )
    read_and_written = sorted(walk.read & walk.written)
    if read_and_written:
        message = f"@{read_and_written[0]} in storage is read and written: a barrier that hands on cluster memory does not order that"
        raise NeedsFence(message, program.buffers[read_and_written[0]])
    return Replicas(walk.buffers, workgroups, walk.most, walk.unit, rows)


def _rows(
    program: Program, buffers: Collection[Buffer], workgroups: int, proofs: BoundsProofs
) -> dict[str, int]:
    """Buffer -> elements of a row, for buffers of which a workgroup loads only its own row."""
    accesses: dict[str, list[Op]] = {buffer.name: [] for buffer in buffers}
    for op in program.walk():
        if op.attrs.get("buffer") in accesses and op.operands:
            accesses[op.attrs["buffer"]].append(op)
    rows = {b.name: owned_row(program, b, workgroups, accesses[b.name], proofs) for b in buffers}
    return {name: row for name, row in rows.items() if row}


def _up_to_last_barrier(body: Block) -> Iterator[Op]:
    """The ops that a barrier of the cluster may follow, inner ones included."""
    last = max((at for at, op in enumerate(body.ops) if any(map(_is_barrier, op.walk()))), default=-1)
    for op in body.ops[: last + 1]:
        yield from op.walk()


def _is_barrier(op: Op) -> bool:
    return op.name == "barrier" and op.attrs["scope"] in BEYOND_WORKGROUP


@dataclass(frozen=True, slots=True)
class _PendingRemoteStores:
    """Words that a lane has stored to all workgroups since the last barrier of the cluster, at most, by `stores`.

    Words for one owner are counted as they are sent.  A workgroup can wait for as many as its rows have, and no element comes
    twice.
    """

    words: int = 0
    stores: frozenset[PendingStore] = frozenset()

    @property
    def buffers(self) -> set[str]:
        return {store.op.attrs["buffer"] for store in self.stores}

    def joined(self, other: _PendingRemoteStores) -> _PendingRemoteStores:
        return _PendingRemoteStores(max(self.words, other.words), self.stores | other.stores)


class _Walk:
    """Follows the control flow with what a lane has stored to replicas since the last barrier of the cluster.

    `read` and `written` become the storage that is; if they have a buffer in common, a fence is needed.  Raises NeedsFence

    - where an element could be loaded that a lane of this workgroup has stored and no barrier has brought,
    - at a barrier after which others might read, or write once more, what was written to storage before,
    - where an element may be stored to twice between two barriers, unless that were a race,
    - where replicas are accessed by other ops than load and store, or a function is called,
    - where more is stored between two barriers than can be counted.
    """

    def __init__(
        self, program: Program, buffers: frozenset[str], rows: Mapping[str, int], senders: int
    ) -> None:
        self.buffers, self.rows, self.senders = buffers, rows, senders
        self.storage = {b.name for b in program.buffers.values() if not b.is_on_chip} - buffers
        self.overlaps = StoreOverlaps(program, rows)
        self.loops: list[Op] = []  # around, outermost first
        self.most, self.unit = 0, 0
        self.read: set[str] = set()
        self.written: set[str] = set()

    def block(self, block: Block, pending: _PendingRemoteStores) -> _PendingRemoteStores:
        """Pending stores after a block, for `pending` ones before it."""
        for op in block.ops:
            pending = self._op(op, pending)
        return pending

    def _op(self, op: Op, pending: _PendingRemoteStores) -> _PendingRemoteStores:
        if op.name in ("for", "while"):
            return self._loop(op, pending)
        if op.regions:
            return reduce(
                _PendingRemoteStores.joined, (self.block(region, pending) for region in op.regions), pending
            )
        if op.name == "call":
            raise NeedsFence("a function is called in a program that hands on cluster memory", op)
        if _is_barrier(op):
            return self._barrier(op, pending)
        if op.name == "barrier":
            return replace(
                pending, stores=frozenset(replace(store, in_order=True) for store in pending.stores)
            )
        effects = effects_of(op)
        if (effects.reads | effects.writes) & self.buffers:
            return self._access(op, pending)
        self.read |= effects.reads & self.storage
        self.written |= effects.writes & self.storage
        return pending

    def _barrier(self, op: Op, pending: _PendingRemoteStores) -> _PendingRemoteStores:
        if self.written:
            name = min(self.written)
            message = f"@{name} in storage is written before: a barrier that hands on cluster memory does not order that"
            raise NeedsFence(message, op)
        self.most = max(self.most, pending.words)
        return _PendingRemoteStores()

    def _access(self, op: Op, pending: _PendingRemoteStores) -> _PendingRemoteStores:
        name = op.attrs["buffer"]
        if op.name == "load" and name not in pending.buffers:
            return pending
        if op.name == "load":
            raise NeedsFence(f"@{name} is loaded where stores to cluster memory may not have come", op)
        if op.name != "store":
            raise NeedsFence(f"{op.name} on @{name}, which lanes of other workgroups only load and store", op)
        for store in pending.stores:
            if store.op.attrs["buffer"] == name and not self.overlaps.are_apart(store, op):
                message = (
                    f"@{name} may be stored to twice between two cluster barriers; either store may come last"
                )
                raise NeedsFence(message, op)
        words = 0 if name in self.rows else (op.operands[0].type.element_bytes or 0) // WORD
        self.unit = gcd(self.unit, words)
        return self._counted(
            _PendingRemoteStores(pending.words + words, pending.stores | {PendingStore(op)}), op
        )

    def _counted(self, pending: _PendingRemoteStores, op: Op) -> _PendingRemoteStores:
        if pending.words * WORD * self.senders > MOST_BYTES:
            raise NeedsFence(f"more than {MOST_BYTES} bytes may be stored between two barriers", op)
        return pending

    def _loop(self, op: Op, pending: _PendingRemoteStores) -> _PendingRemoteStores:
        self.loops.append(op)
        after = self._turns(op, pending)
        self.loops.pop()
        return self.block(op.regions[0], after) if op.name == "while" else after

    def _turns(self, op: Op, pending: _PendingRemoteStores) -> _PendingRemoteStores:
        once = self._turn(op, pending)
        if once.words > pending.words and not any(inner.name == "barrier" for inner in op.walk()):
            trips = _most_trips(op)
            if trips is None:
                raise NeedsFence("stores to cluster memory in a loop without a bound", op)
            words = pending.words + (once.words - pending.words) * trips
            after = self._counted(replace(once, words=words), op)
            if trips > 1:
                self._later_turn(op, replace(once, words=0))  # counted above
            return after
        most = pending.joined(once)
        if self._later_turn(op, most).words > most.words:
            raise NeedsFence("each turn of the loop leaves more stores to cluster memory behind", op)
        return most

    def _later_turn(self, op: Op, pending: _PendingRemoteStores) -> _PendingRemoteStores:
        """The pending words after one more turn of a loop, where each turn leaves `pending` or less."""
        inside = set(op.walk())
        stores = (
            replace(store, loop=op) if store.op in inside and store.loop not in self.loops else store
            for store in pending.stores
        )
        return self._turn(op, replace(pending, stores=frozenset(stores)))

    def _turn(self, op: Op, pending: _PendingRemoteStores) -> _PendingRemoteStores:
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
