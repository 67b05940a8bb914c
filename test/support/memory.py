"""Buffers of a random program, and accesses to them that never race.

An invocation owns `slots` elements of a buffer and alone writes them.  It may read
another's only after a barrier that follows the writes and before one that precedes
the next; `Track` keeps what has happened to a buffer since the last barrier:

    written   an invocation wrote its own elements     -> others may not read them
    read      an invocation read another's elements    -> nobody may write
    own       an invocation read its own elements      -> no atomics by others
    atomic    the atomic op in use                     -> nothing but this atomic
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from vyre_opt.ir.ops import OPS
from vyre_opt.ir.program import Buffer, Value
from vyre_opt.ir.types import DataType

from .expressions import INTEGERS, SCALARS, VECTORS, Expressions
from .sample import MAX_SLOTS

BLOCKED = "blocked"
SHARED_ATOMICS = ("add", "min", "max", "and", "or", "xor")


@dataclass(slots=True)
class Track:
    """Accesses of a buffer since the last barrier; `filled`: the slots that every lane has written so far."""

    written: bool = False
    read: bool = False
    own: bool = False
    atomic: str | None = None
    filled: frozenset[int] = frozenset()

    def barrier(self) -> None:
        self.written = self.read = self.own = False
        self.atomic = None

    def join(self, other: Track) -> Track:
        """One of two histories, not known which: accesses of either, and the slots that both fill."""
        atomic = self.atomic if self.atomic == other.atomic else BLOCKED
        return Track(
            self.written or other.written,
            self.read or other.read,
            self.own or other.own,
            atomic if self.atomic or other.atomic else None,
            self.filled & other.filled,
        )


@dataclass(slots=True)
class DividedBuffer:
    """A buffer and how invocations divide it.  `tile` holds a workgroup's elements.

    `interleaved`: slot s of lane t is at s * lanes + t of the tile, else at t * slots + s.
    """

    buffer: Buffer
    slots: int
    interleaved: bool
    lanes: int
    track: Track = field(default_factory=Track)

    @property
    def tile(self) -> int:
        return self.slots * self.lanes


class MemoryGenerator:
    """Declares the buffers of a program and makes accesses to them."""

    def __init__(self, e: Expressions, workgroups: int) -> None:
        self.e = e
        self.b = e.b
        self.rng = e.rng
        self.workgroups = workgroups
        self.lanes = e.b.program.lanes
        self.inputs: list[Buffer] = []
        self.owned: list[DividedBuffer] = []
        self.shared: list[DividedBuffer] = []
        self.counters: list[tuple[Buffer, str]] = []
        self.binding = 0
        self.places: dict[tuple[str, int], Value] = {}
        """Indices in scope, by buffer and slot, to be used again."""
        self._declare()

    # --- declarations -------------------------------------------------------------------

    def _declare(self) -> None:
        rng, b = self.rng, self.b
        invocations = self.workgroups * self.lanes
        for _ in range(rng.randrange(1, 4)):
            count = None if rng.random() < 0.3 else rng.choice((1, 7, invocations, invocations * 2, 64))
            self.inputs.append(self._bound("in", self._element(), count, "read"))
        for number in range(rng.randrange(2, 5)):
            slots = rng.randrange(1, MAX_SLOTS + 1)
            count = None if rng.random() < 0.3 else invocations * slots + rng.choice((0, 0, 3))
            if number == 0 or rng.random() < 0.5:
                buffer = self._bound("out", self._element(), count, "write", live_out=True)
            else:
                buffer = self._bound(
                    "state", self._element(), count, "read_write", live_in=True, live_out=True
                )
            filled = frozenset(range(slots)) if buffer.live_in else frozenset()
            self.owned.append(
                DividedBuffer(buffer, slots, rng.random() < 0.3, self.lanes, Track(filled=filled))
            )
        self.digests = self._bound(
            "digest", DataType.U64, invocations, "read_write", live_in=True, live_out=True
        )
        for number in range(rng.randrange(0, 3)):
            slots = rng.randrange(1, MAX_SLOTS + 1)
            tile = slots * self.lanes
            if rng.random() < 0.5:
                buffer = b.buffer(f"tile{number}", self._element(), tile, "workgroup")
            elif rng.random() < 0.5:
                buffer = self._bound("mid", self._element(), tile * self.workgroups, "read_write")
            else:
                buffer = b.buffer(f"pass{number}", self._element(), tile * self.workgroups, "read_write")
            self.shared.append(DividedBuffer(buffer, slots, rng.random() < 0.3, self.lanes))
        for _ in range(rng.randrange(0, 2)):
            dtype = rng.choice([t for t in INTEGERS if t.bits in (32, 64)])
            count = rng.choice((1, 4, 16))
            buffer = self._bound("counter", dtype, count, "read_write", live_in=True, live_out=True)
            self.counters.append((buffer, rng.choice(SHARED_ATOMICS)))

    def _bound(self, name: str, dtype: DataType, count: int | None, access: str, **live: bool) -> Buffer:
        number, self.binding = self.binding, self.binding + 1
        return self.b.buffer(f"{name}{number}", dtype, count, access, number, **live)

    def _element(self) -> DataType:
        rng = self.rng
        if self.e.settings.elements:
            return rng.choice(self.e.settings.elements)
        if rng.random() < 0.1:
            return rng.choice(VECTORS)
        return rng.choice((DataType.U32, DataType.F32)) if rng.random() < 0.4 else rng.choice(SCALARS)

    # --- indices ------------------------------------------------------------------------

    def _linear(self, dims: Iterable[int], name: str) -> Value:
        """The linear id of the invocation in its workgroup, or of the workgroup in the grid."""
        b = self.b
        extents = list(dims)
        if extents[1:] == [1, 1]:
            x: Value = getattr(b, name)("x")
            return x
        row = b.mul(getattr(b, name)("z"), extents[1])
        plane = b.mul(b.add(row, getattr(b, name)("y")), extents[0])
        return b.add(plane, getattr(b, name)("x"))

    def lane(self) -> Value:
        return self._linear(self.b.program.workgroup, "local_id")

    def base(self, storage: DividedBuffer) -> Value | None:
        """The first element of this workgroup's tile; None for 0."""
        if storage.buffer.is_workgroup:
            return None
        grid = self.b.program.grid
        assert grid is not None
        return self.b.mul(self._linear(grid, "workgroup_id"), storage.tile)

    def own_index(self, storage: DividedBuffer, slot: int) -> Value:
        b = self.b
        key = storage.buffer.name, slot
        if key in self.places and self.rng.random() < 0.5:
            return self.places[key]
        lane = self.lane()
        if storage.interleaved:
            place = b.add(lane, slot * storage.lanes) if slot else lane
        else:
            place = b.mul(lane, storage.slots) if storage.slots > 1 else lane
            place = b.add(place, slot) if slot else place
        index = self.places[key] = self._rebase(storage, place)
        return index

    def _rebase(self, storage: DividedBuffer, place: Value) -> Value:
        base = self.base(storage)
        index = place if base is None else self.b.add(base, place)
        kind = self.rng.random()
        return index if kind < 0.8 else self.b.cast(index, self.rng.choice((DataType.U64, DataType.I32)))

    def other_index(self, storage: DividedBuffer, span: int = 1) -> Value:
        """Some element of the workgroup's tile, with `span` - 1 more after it."""
        b, rng = self.b, self.rng
        places = storage.tile - span + 1
        kind = rng.randrange(5)
        if kind == 0 and span == 1 and storage.tile >= storage.lanes:
            place: Value = b.sub(b.const(storage.tile - 1), self.lane())
        elif kind == 1:
            place = b.rem(b.add(self.lane(), rng.randrange(1, 9)), places)
        elif kind == 2:
            place = b.rem(b.mul(self.lane(), rng.randrange(2, 6)), places)
        elif kind == 3:
            place = b.rem(b.xor(self.lane(), 1), places)
        else:
            place = self.e.below(places)
        return self._rebase(storage, place)

    # --- accesses: each returns whether it was possible ----------------------------------

    def load_input(self) -> bool:
        buffer = self.rng.choice(self.inputs)
        count = buffer.count or self.workgroups * self.lanes * MAX_SLOTS
        lanes = self._width(buffer, count)
        dtype = self.rng.choice((DataType.U32, DataType.U32, DataType.I32, DataType.U64))
        index = self.e.below(count - lanes + 1, dtype)
        self.e.note(self.b.load(buffer, index, lanes))
        return True

    def _width(self, buffer: Buffer, available: int) -> int:
        wide = [n for n in (2, 3, 4) if n <= available and not buffer.dtype.is_vec]
        return self.rng.choice(wide) if wide and self.rng.random() < 0.25 else 1

    def store_own(self, storage: DividedBuffer) -> bool:
        """Write one owned slot, or all of them by a vector store."""
        track = storage.track
        if track.read or track.atomic:
            return False
        dtype, slots = storage.buffer.dtype, storage.slots
        whole = slots > 1 and not storage.interleaved and not dtype.is_vec and self.rng.random() < 0.3
        if whole:
            self.b.store(self.e.value(DataType.vec(dtype, slots)), storage.buffer, self.own_index(storage, 0))
            track.filled = frozenset(range(slots))
        else:
            slot = self.rng.randrange(slots)
            self.b.store(self.e.value(dtype), storage.buffer, self.own_index(storage, slot))
            track.filled |= {slot}
        track.written = True
        return True

    def fill_own(self, storage: DividedBuffer) -> bool:
        """Write every owned slot, one by one or in a loop."""
        track = storage.track
        if track.read or track.atomic:
            return False
        dtype = storage.buffer.dtype
        if self.rng.random() < 0.4 and storage.slots > 1:
            value = self.e.value(dtype)
            first = self.own_index(storage, 0)
            stride = storage.lanes if storage.interleaved else 1
            with self.b.for_(0, storage.slots, dtype=first.type) as loop:
                step = loop.index if stride == 1 else self.b.mul(loop.index, stride)
                self.b.store(value, storage.buffer, self.b.add(first, step))
        else:
            for slot in range(storage.slots):
                self.b.store(self.e.value(dtype), storage.buffer, self.own_index(storage, slot))
        track.filled = frozenset(range(storage.slots))
        track.written = True
        return True

    def load_own(self, storage: DividedBuffer) -> bool:
        track = storage.track
        if not track.filled or track.atomic or storage.buffer.access == "write":
            return False
        slot = self.rng.choice(sorted(track.filled))
        self.e.note(self.b.load(storage.buffer, self.own_index(storage, slot)))
        track.own = True
        return True

    def load_other(self, storage: DividedBuffer) -> bool:
        """Read any element of the workgroup's tile."""
        track = storage.track
        if track.written or track.atomic or len(track.filled) < storage.slots:
            return False
        lanes = self._width(storage.buffer, storage.tile)
        self.e.note(self.b.load(storage.buffer, self.other_index(storage, lanes), lanes))
        track.read = True
        return True

    def atomic_counter(self) -> bool:
        """Update a counter shared by all invocations; the old value, which depends on their order, is unused."""
        if not self.counters:
            return False
        buffer, name = self.rng.choice(self.counters)
        index = self.e.below(buffer.count or 1)
        self._atomic(name, buffer, index)
        return True

    def atomic_tile(self, storage: DividedBuffer) -> bool:
        """The same on an element of the workgroup's tile."""
        track, dtype = storage.track, storage.buffer.dtype
        if not dtype.is_int or dtype.bits not in (32, 64) or len(track.filled) < storage.slots:
            return False
        if track.atomic is None and (track.written or track.read or track.own):
            return False
        name = track.atomic or self.rng.choice(SHARED_ATOMICS)
        if name == BLOCKED:
            return False
        self._atomic(name, storage.buffer, self.other_index(storage))
        track.atomic = name
        return True

    def atomic_own(self, storage: DividedBuffer) -> bool:
        """Any atomic on an owned element: no other invocation accesses it, so the old value is determined."""
        track, dtype = storage.track, storage.buffer.dtype
        if track.read or track.atomic or not track.filled or storage.buffer.access == "write":
            return False
        rows = [row for row in OPS.values() if row.format == "atomic" and row.accepts(dtype)]
        if not rows or dtype.is_vec or dtype.bits not in (32, 64):
            return False
        index = self.own_index(storage, self.rng.choice(sorted(track.filled)))
        name = self.rng.choice(rows).name.removeprefix("atomic_")
        self.e.note(self._atomic(name, storage.buffer, index))
        track.written = track.own = True
        return True

    def _atomic(self, name: str, buffer: Buffer, index: Value) -> Value:
        values = [self.e.value(buffer.dtype) for _ in range(2 if name == "compare_exchange" else 1)]
        order = self.rng.choice(("relaxed", "relaxed", "acq_rel", "seq_cst"))
        old: Value = getattr(self.b, f"atomic_{name}")(buffer, index, *values, order=order)
        return old

    def add_to_digest(self, word: Value) -> None:
        """Mix a u64 into this invocation's element of the digest, an output."""
        b = self.b
        storage = DividedBuffer(self.digests, 1, False, self.lanes)
        index = self.own_index(storage, 0)
        b.store(b.add(b.rotl(b.load(self.digests, index), 9), word), self.digests, index)

    def barrier(self) -> None:
        self.b.barrier("workgroup")
        for storage in self.tracked:
            storage.track.barrier()

    # --- control flow -------------------------------------------------------------------

    @property
    def tracked(self) -> list[DividedBuffer]:
        return [*self.owned, *self.shared]

    def snapshot(self) -> list[Track]:
        return [replace(s.track) for s in self.tracked]

    def restore(self, tracks: list[Track]) -> None:
        for storage, track in zip(self.tracked, tracks, strict=True):
            storage.track = replace(track)

    def merge(self, tracks: list[Track]) -> None:
        """The buffers may be as they are now, or as `tracks` says."""
        for storage, track in zip(self.tracked, tracks, strict=True):
            storage.track = storage.track.join(track)

    def merge_concurrent(self, tracks: list[Track]) -> None:
        """Other invocations may concurrently do what `tracks` records, as in the branches of an if."""
        for storage, track in zip(self.tracked, tracks, strict=True):
            filled = storage.track.filled
            storage.track = replace(storage.track.join(track), filled=filled)

    def enter_loop(self, has_barriers: bool) -> None:
        """Assume at the start of a body that an earlier round may have done anything in it.

        Without a barrier in the loop, either others' reads or own writes are ruled out for all of the body.
        """
        for storage in self.shared:
            track = storage.track
            if has_barriers:
                track.written = track.read = track.own = True
                track.atomic = BLOCKED
            else:
                track.own = True
                if self.rng.random() < 0.5:
                    track.written = True
                else:
                    track.read = True
