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

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from vyre_opt.ir import OPS, Buffer, DataType, Value
from vyre_opt.ir.builder import Operand

from .buffer_layouts import Layout, clamped_indices, random_input_shape, random_layout
from .expressions import INTEGERS, SCALARS, VECTORS, Expressions
from .sample import MAX_SLOTS, OPEN_INPUT_EXTENT

BLOCKED = "blocked"
SEVERAL = 0.6
"""The share of buffers with several dimensions, in programs that have such."""
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

    `interleaved`: slot s of lane t is at s * lanes + t of the tile, else at t * slots + s.  So lanes are the inner
    positions of a layout, else the outer ones.
    """

    buffer: Buffer
    slots: int
    interleaved: bool
    lanes: int
    layout: Layout | None = None
    """Where the buffer has several dimensions."""
    track: Track = field(default_factory=Track)

    @property
    def tile(self) -> int:
        return self.slots * self.lanes

    @property
    def row(self) -> int:
        """The elements of the tile that follow each other."""
        return self.tile if self.layout is None else self.layout.row


class MemoryGenerator:
    """Declares the buffers of a program and makes accesses to them.

    `shapes`: draws the dimensions of buffers, so that programs without several stay as they are.
    """

    def __init__(self, e: Expressions, workgroups: int, shapes: random.Random) -> None:
        self.e = e
        self.shapes = shapes
        self.has_several = shapes.random() < e.settings.dimensions
        self.b = e.b
        self.rng = e.rng
        self.workgroups = workgroups
        self.lanes = e.b.program.lanes
        self.inputs: list[Buffer] = []
        self.owned: list[DividedBuffer] = []
        self.shared: list[DividedBuffer] = []
        self.counters: list[tuple[Buffer, str]] = []
        self.binding = 0
        self.places: dict[tuple[str, int], tuple[Value, ...]] = {}
        """Indices in scope, by buffer and slot, to be used again."""
        self._declare()

    # --- declarations -------------------------------------------------------------------

    def _declare(self) -> None:
        rng, b = self.rng, self.b
        invocations = self.workgroups * self.lanes
        for _ in range(rng.randrange(1, 4)):
            count = None if rng.random() < 0.3 else rng.choice((1, 7, invocations, invocations * 2, 64))
            shape = random_input_shape(self.shapes) if self._is_several() else (count,)
            self.inputs.append(self._bound("in", self._element(), shape, "read"))
        for number in range(rng.randrange(2, 5)):
            slots = rng.randrange(1, MAX_SLOTS + 1)
            count = None if rng.random() < 0.3 else invocations * slots + rng.choice((0, 0, 3))
            is_output = number == 0 or rng.random() < 0.5
            dtype, interleaved = self._element(), rng.random() < 0.3
            layout, shape = self._divided(slots, interleaved, count)
            if is_output:
                buffer = self._bound("out", dtype, shape, "write", live_out=True)
            else:
                buffer = self._bound("state", dtype, shape, "read_write", live_in=True, live_out=True)
            filled = frozenset(range(slots)) if buffer.live_in else frozenset()
            self.owned.append(
                DividedBuffer(buffer, slots, interleaved, self.lanes, layout, Track(filled=filled))
            )
        self.digests = self._bound(
            "digest", DataType.U64, (invocations,), "read_write", live_in=True, live_out=True
        )
        for number in range(rng.randrange(0, 3)):
            slots = rng.randrange(1, MAX_SLOTS + 1)
            tile = slots * self.lanes
            kind = "tile" if rng.random() < 0.5 else "mid" if rng.random() < 0.5 else "pass"
            dtype, interleaved = self._element(), rng.random() < 0.3
            count = tile if kind == "tile" else tile * self.workgroups
            layout, shape = self._divided(slots, interleaved, count, kind)
            if kind == "mid":
                buffer = self._bound("mid", dtype, shape, "read_write")
            else:
                access = "workgroup" if kind == "tile" else "read_write"
                buffer = b.buffer(f"{kind}{number}", dtype, shape, access)
            self.shared.append(DividedBuffer(buffer, slots, interleaved, self.lanes, layout))
        for _ in range(rng.randrange(0, 2)):
            dtype = rng.choice([t for t in INTEGERS if t.bits in (32, 64)])
            count = rng.choice((1, 4, 16))
            shape = (self.shapes.choice((1, 3)), count) if self._is_several() else (count,)
            buffer = self._bound("counter", dtype, shape, "read_write", live_in=True, live_out=True)
            self.counters.append((buffer, rng.choice(SHARED_ATOMICS)))

    def _bound(
        self, name: str, dtype: DataType, shape: Sequence[int | None], access: str, **live: bool
    ) -> Buffer:
        number, self.binding = self.binding, self.binding + 1
        return self.b.buffer(f"{name}{number}", dtype, shape, access, number, **live)

    def _is_several(self) -> bool:
        """Whether the next buffer has several dimensions."""
        return self.has_several and self.shapes.random() < SEVERAL

    def _divided(
        self, slots: int, interleaved: bool, count: int | None, kind: str = "bound"
    ) -> tuple[Layout | None, tuple[int | None, ...]]:
        """The layout of a buffer that invocations divide, None for one dimension, and its shape."""
        if not self._is_several():
            return None, (count,)
        outer, inner = (slots, self.lanes) if interleaved else (self.lanes, slots)
        layout, shape = random_layout(self.shapes, None if kind == "tile" else self.workgroups, outer, inner)
        if kind == "pass":  # not bound, so no array says how long it is
            shape = tuple(
                least if extent is None else extent
                for extent, least in zip(shape, layout.extents, strict=True)
            )
        return layout, shape

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

    def workgroup(self) -> Value:
        grid = self.b.program.grid
        assert grid is not None
        return self._linear(grid, "workgroup_id")

    def own_index(self, storage: DividedBuffer, slot: int) -> tuple[Value, ...]:
        """The index along each dimension of an element that this invocation owns."""
        b = self.b
        key = storage.buffer.name, slot
        if key in self.places and self.rng.random() < 0.5:
            return self.places[key]
        if storage.layout is not None:
            indices = self.places[key] = self._own_indices(storage, storage.layout, slot)
            return indices
        lane = self.lane()
        if storage.interleaved:
            place = b.add(lane, slot * storage.lanes) if slot else lane
        else:
            place = b.mul(lane, storage.slots) if storage.slots > 1 else lane
            place = b.add(place, slot) if slot else place
        self.places[key] = (self._rebase(storage, place),)
        return self.places[key]

    def _own_indices(self, storage: DividedBuffer, layout: Layout, slot: Operand) -> tuple[Value, ...]:
        """`slot`: any value below the slots."""
        b, lane = self.b, self.lane()
        outer, inner = (slot, lane) if storage.interleaved else (lane, slot)
        if layout.splits_tiles:
            return self._indices(storage, layout, {"outer": outer, "inner": inner})
        row = b.mul(b.as_value(outer, DataType.U32), layout.sizes["inner"])
        return self._indices(storage, layout, {"tile": b.add(row, inner)})

    def _indices(
        self, storage: DividedBuffer, layout: Layout, positions: dict[str, Operand]
    ) -> tuple[Value, ...]:
        """The indices of an element of this workgroup's tile, some of another type."""
        if not storage.buffer.is_workgroup:
            positions["workgroup"] = self.workgroup()
        return tuple(self._retyped(index) for index in layout.indices(self.b, positions))

    def _rebase(self, storage: DividedBuffer, place: Value) -> Value:
        base = self.base(storage)
        return self._retyped(place if base is None else self.b.add(base, place))

    def _retyped(self, index: Value) -> Value:
        kind = self.rng.random()
        return index if kind < 0.8 else self.b.cast(index, self.rng.choice((DataType.U64, DataType.I32)))

    def other_index(self, storage: DividedBuffer, span: int = 1) -> tuple[Value, ...]:
        """Some element of the workgroup's tile, with `span` - 1 more after it in its row."""
        layout = storage.layout
        if layout is None:
            return (self._rebase(storage, self._other_place(storage, span)),)
        if not layout.splits_tiles:
            return self._indices(storage, layout, {"tile": self._other_place(storage, span)})
        outer = self._position(layout.sizes["outer"], is_lane=not storage.interleaved)
        inner = self._position(layout.sizes["inner"] - span + 1, is_lane=storage.interleaved and span == 1)
        return self._indices(storage, layout, {"outer": outer, "inner": inner})

    def _position(self, count: int, is_lane: bool) -> Value:
        """A position below `count`; `is_lane`: there is one for each lane."""
        b, rng = self.b, self.rng
        kind = rng.randrange(4)
        if kind == 0 and is_lane:
            return self.lane()
        if kind == 1 and is_lane:
            mirrored: Value = b.sub(b.const(count - 1), self.lane())
            return mirrored
        if kind == 2:
            clamped: Value = b.min(b.add(self.lane(), rng.randrange(4)), count - 1)
            return clamped
        return self.e.below(count)

    def _other_place(self, storage: DividedBuffer, span: int) -> Value:
        """A number of an element of the tile."""
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
        return place

    # --- accesses: each returns whether it was possible ----------------------------------

    def load_input(self) -> bool:
        buffer = self.rng.choice(self.inputs)
        if buffer.dimensions > 1:
            return self._load_near(buffer)
        count = buffer.count or self.workgroups * self.lanes * MAX_SLOTS
        lanes = self._width(buffer, count)
        dtype = self.rng.choice((DataType.U32, DataType.U32, DataType.I32, DataType.U64))
        index = self.e.below(count - lanes + 1, dtype)
        self.e.note(self.b.load(buffer, index, lanes))
        return True

    def _load_near(self, buffer: Buffer) -> bool:
        """Of an input of several dimensions: at any indices in bounds, or near the own ids, clamped to its lengths."""
        rng, b = self.rng, self.b
        extents = [
            OPEN_INPUT_EXTENT + dimension if extent is None else extent
            for dimension, extent in enumerate(buffer.shape)
        ]
        lanes = self._width(buffer, extents[-1])
        most = [*extents[:-1], extents[-1] - lanes + 1]
        if None not in buffer.shape and rng.random() < 0.5:
            indices = [self.e.below(count) for count in most]
        else:
            ids = [self.lane(), self.workgroup(), b.global_id("x"), b.global_id("y")]
            values = [rng.choice(ids) if rng.random() < 0.6 else self.e.value(DataType.U32) for _ in most]
            indices = clamped_indices(b, rng, buffer.name, values, lanes)
        self.e.note(b.load(buffer, [self._retyped(index) for index in indices], lanes))
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
        # slots are the inner positions, which follow each other in every layout
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
            self._fill_in_loop(storage, self.e.value(dtype))
        else:
            for slot in range(storage.slots):
                self.b.store(self.e.value(dtype), storage.buffer, self.own_index(storage, slot))
        track.filled = frozenset(range(storage.slots))
        track.written = True
        return True

    def _fill_in_loop(self, storage: DividedBuffer, value: Value) -> None:
        b, layout = self.b, storage.layout
        if layout is not None:
            with b.for_(0, storage.slots, dtype=DataType.U32) as loop:
                b.store(value, storage.buffer, self._own_indices(storage, layout, loop.index))
            return
        (first,) = self.own_index(storage, 0)
        stride = storage.lanes if storage.interleaved else 1
        with b.for_(0, storage.slots, dtype=first.type) as loop:
            step = loop.index if stride == 1 else b.mul(loop.index, stride)
            b.store(value, storage.buffer, b.add(first, step))

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
        lanes = self._width(storage.buffer, storage.row)
        self.e.note(self.b.load(storage.buffer, self.other_index(storage, lanes), lanes))
        track.read = True
        return True

    def atomic_counter(self) -> bool:
        """Update a counter shared by all invocations; the old value, which depends on their order, is unused."""
        if not self.counters:
            return False
        buffer, name = self.rng.choice(self.counters)
        indices = [self.e.below(extent or 1) for extent in buffer.shape]
        self._atomic(name, buffer, indices)
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

    def _atomic(self, name: str, buffer: Buffer, index: Sequence[Value]) -> Value:
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
