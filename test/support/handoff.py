"""Programs that hand values from a write phase to a read phase through a transient buffer.

Some hand over within a workgroup, as `decode_scan_fuse` requires; others only seem to: they read a
neighbour's tile or unwritten elements, read before the write, or leave out the barrier.  Only running one on
the interpreter tells whether it is sound.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from vyre_opt.ir import Buffer, Builder, DataType, Module, Value

from .sample import Sample

__all__ = ["handoff_program"]

ELEMENTS = tuple(DataType.of(name) for name in "u8 u16 u32 u32 u32 i32 u64 f32 f16 bool".split())
WORKGROUPS: tuple[tuple[int, ...], ...] = ((4,), (8,), (16,), (32,), (6,), (4, 2))
GRIDS: tuple[tuple[int, ...], ...] = ((1,), (2,), (3,), (2, 2))


@dataclass(slots=True)
class _Tile:
    """A hand-off buffer: each workgroup owns `size` elements from workgroup id * size + `shift` on."""

    buffer: Buffer
    slots: int
    size: int
    shift: int


class _Handoff:
    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.b = b = Builder("main", rng.choice(WORKGROUPS), rng.choice(GRIDS), Module())
        assert b.program.grid is not None
        gx, gy, _ = b.program.grid
        self.workgroups = gx * gy
        self.lanes = b.program.lanes
        everyone = self.lanes * self.workgroups
        self.input = b.buffer("in", DataType.U32, everyone, "read", 0)
        self.output = b.buffer("out", DataType.U32, everyone, "write", 1, live_out=True)
        self.tiles = [self._tile(number) for number in range(rng.choice((1, 1, 2)))]

    def _tile(self, number: int) -> _Tile:
        rng = self.rng
        slots = rng.choice((1, 1, 2, 4))
        size = slots * self.lanes
        shift = rng.choice((0, 0, 0, 5))
        count = rng.choice((size * self.workgroups + shift, size * self.workgroups + shift, 1 << 12))
        binding = 2 + number if rng.random() < 0.3 else None
        buffer = self.b.buffer(f"mid{number}", rng.choice(ELEMENTS), count, "read_write", binding)
        return _Tile(buffer, slots, size, shift)

    # --- ids, written in several ways ------------------------------------------------------

    def linear(self, dims: tuple[int, int, int], name: str) -> Value:
        b = self.b
        x: Value = getattr(b, name)("x")
        if dims[1] == 1:
            return x
        y = getattr(b, name)("y")
        if dims[0] & (dims[0] - 1) == 0 and self.rng.random() < 0.4:
            return b.or_(b.shl(y, dims[0].bit_length() - 1), x)
        return b.add(b.mul(y, dims[0]), x)

    def lane(self) -> Value:
        return self.linear(self.b.program.workgroup, "local_id")

    def group(self) -> Value:
        assert self.b.program.grid is not None
        return self.linear(self.b.program.grid, "workgroup_id")

    def everyone(self) -> Value:
        """The linear id of this invocation in the dispatch."""
        b = self.b
        if (
            b.program.workgroup[1] == 1
            and b.program.grid == (self.workgroups, 1, 1)
            and self.rng.random() < 0.6
        ):
            return b.global_id("x")
        return b.add(b.mul(self.group(), self.lanes), self.lane())

    def at(self, tile: _Tile, place: Value, neighbour: int = 0) -> Value:
        """The index of `place` of a tile of this workgroup, or of one `neighbour` tiles on."""
        b = self.b
        group = self.group()
        if neighbour:
            group = b.rem(b.add(group, neighbour), self.workgroups)
        index = b.add(b.mul(group, tile.size), place)
        index = b.add(index, tile.shift) if tile.shift else index
        return b.cast(index, DataType.U64) if self.rng.random() < 0.1 else index

    # --- maps from an invocation to places of the tile ---------------------------------------

    def place(self, tile: _Tile, slot: int) -> Value:
        """A permutation of the tile: own places, reversed, interleaved or rotated."""
        b, rng = self.b, self.rng
        lane = self.lane()
        kind = rng.randrange(5)
        if kind == 0:
            return b.add(lane, slot * self.lanes) if slot else lane
        own = b.add(b.mul(lane, tile.slots), slot) if tile.slots > 1 else lane
        if kind == 1:
            return b.sub(b.const(tile.size - 1), own)
        if kind == 2:
            return b.rem(b.add(own, rng.randrange(1, tile.size)), tile.size)
        if kind == 3 and tile.size & (tile.size - 1) == 0:
            return b.xor(own, rng.randrange(tile.size))
        return own

    def any_place(self, tile: _Tile) -> Value:
        """Some place of the tile, now and then one just past it."""
        b, rng = self.b, self.rng
        kind = rng.randrange(6)
        if kind == 0:
            return b.rem(b.load(self.input, self.everyone()), tile.size)
        if kind == 1:
            return b.min(b.add(self.lane(), rng.randrange(1, 4)), tile.size - 1)
        if kind == 2:
            return b.rem(b.mul(self.lane(), rng.randrange(2, 6)), tile.size)
        if kind == 3:
            return b.add(self.lane(), rng.choice((0, 0, 1, tile.size - self.lanes)))
        if kind == 4:
            return b.const(rng.randrange(tile.size))
        return self.place(tile, rng.randrange(tile.slots))

    # --- phases ----------------------------------------------------------------------------

    def value(self, dtype: DataType) -> Value:
        """A value to hand over; often with fewer significant bits than its type has."""
        b = self.b
        word = b.load(self.input, self.everyone())
        if self.rng.random() < 0.6:
            word = b.and_(word, self.rng.choice((1, 255, 127, 65535)))
        if dtype is DataType.BOOL:
            return b.ne(b.and_(word, 1), 0)
        return word if dtype is DataType.U32 else b.cast(word, dtype)

    def write(self, tile: _Tile) -> None:
        """Write the tile, all of it in most kinds."""
        b, rng = self.b, self.rng
        dtype = tile.buffer.dtype
        kind = rng.randrange(9)
        if kind == 0:  # one invocation writes all
            with b.if_(b.eq(self.lane(), rng.choice((0, 0, self.lanes - 1)))), b.for_(0, tile.size) as loop:
                b.store(self.value(dtype), tile.buffer, self.at(tile, loop.index))
        elif kind == 1 and tile.slots > 1:  # a vector
            vector = b.splat(self.value(dtype), tile.slots)
            b.store(vector, tile.buffer, self.at(tile, b.mul(self.lane(), tile.slots)))
        elif kind in (2, 3):  # a loop over slots
            with b.for_(0, tile.slots if rng.random() < 0.85 else max(1, tile.slots - 1)) as loop:
                b.store(
                    self.value(dtype),
                    tile.buffer,
                    self.at(tile, b.add(b.mul(loop.index, self.lanes), self.lane())),
                )
        elif kind == 4:  # only some invocations
            with b.if_(b.lt(self.lane(), rng.choice((self.lanes, self.lanes // 2)))) as branch:
                self._slots(tile)
            if rng.random() < 0.6:
                with branch.else_():
                    self._slots(tile)
        elif kind == 5 and rng.random() < 0.3:  # a neighbour's tile
            b.store(self.value(dtype), tile.buffer, self.at(tile, self.place(tile, 0), 1))
        else:
            self._slots(tile)

    def _slots(self, tile: _Tile) -> None:
        """Each slot by the same map, so that the whole tile is written once."""
        state = self.rng.getstate()
        for slot in range(tile.slots):
            self.rng.setstate(state)
            index = self.at(tile, self.place(tile, slot))
            self.b.store(self.value(tile.buffer.dtype), tile.buffer, index)

    def read(self, tile: _Tile) -> Value:
        """Read some of the tile into a u32."""
        b, rng = self.b, self.rng
        kind = rng.randrange(8)
        if kind == 0:  # all of it, by everyone or by one
            total = b.const(0)
            with b.for_(0, tile.size, carry=[total]) as loop:
                word = self.word(b.load(tile.buffer, self.at(tile, loop.index)))
                loop.yield_(b.add(b.mul(loop.args[0], 31), word))
            return loop.result
        if kind == 1:  # a window
            width = rng.randrange(2, 4)
            with b.for_(0, width, carry=[b.const(0)]) as loop:
                place = b.add(self.lane(), loop.index)
                place = b.rem(place, tile.size) if rng.random() < 0.6 else b.min(place, tile.size - 1)
                word = self.word(b.load(tile.buffer, self.at(tile, place)))
                loop.yield_(b.xor(b.rotl(loop.args[0], 5), word))
            return loop.result
        if kind == 2 and tile.slots > 1:
            vector = b.load(tile.buffer, self.at(tile, b.mul(self.lane(), tile.slots)), tile.slots)
            return self.word(b.extract(vector, rng.randrange(tile.slots)))
        if kind == 3 and rng.random() < 0.4:
            return self.word(b.load(tile.buffer, self.at(tile, self.lane(), 1)))
        if kind == 4:
            with b.if_(b.eq(self.lane(), 0)) as branch:
                branch.yield_(self.word(b.load(tile.buffer, self.at(tile, self.any_place(tile)))))
            with branch.else_():
                branch.yield_(b.const(7))
            return branch.result
        return self.word(b.load(tile.buffer, self.at(tile, self.any_place(tile))))

    def word(self, value: Value) -> Value:
        """Any element as a u32."""
        b = self.b
        if value.type.is_float:
            same = DataType.U16 if value.type.bits == 16 else DataType.U32
            value = b.bitcast(value, same)
        return value if value.type is DataType.U32 else b.cast(value, DataType.U32)

    def barrier(self, likely: float) -> None:
        if self.rng.random() < likely:
            self.b.barrier("workgroup")

    def round(self) -> Value:
        """Write, barrier, read; sometimes in another order, or without the barrier."""
        b, rng = self.b, self.rng
        total = b.const(rng.randrange(100))
        for tile in self.tiles:
            if rng.random() < 0.07:
                total = b.add(total, self.read(tile))
            self.write(tile)
            if rng.random() < 0.15:  # overwritten by its own workgroup
                self.barrier(0.5)
                self.write(tile)
        self.barrier(0.85)
        for tile in self.tiles:
            for _ in range(rng.choice((1, 1, 2))):
                total = b.add(b.mul(total, 3), self.read(tile))
        return total

    def build(self) -> None:
        b, rng = self.b, self.rng
        total = self.round()
        chance = rng.random()
        if chance < 0.2:
            self.barrier(0.8)
            total = b.xor(total, self.round())
        elif chance < 0.35:

            def body(carried: Value) -> Value:
                self.barrier(0.9)
                return b.add(carried, self.round())

            total = self.repeat(total, body)
        b.store(total, self.output, self.everyone())

    def repeat(self, total: Value, body: Callable[[Value], Value]) -> Value:
        with self.b.for_(0, self.rng.randrange(1, 4), carry=[total]) as loop:
            loop.yield_(body(loop.args[0]))
        return loop.result


def handoff_program(seed: int) -> Sample:
    """A program with one or two hand-off buffers, which may be unsound: `Sample.sound` is None."""
    handoff = _Handoff(seed)
    handoff.build()
    grid = handoff.b.program.grid
    assert grid is not None
    return Sample(handoff.b.module, handoff.b.finish(verify=False), grid, seed, sound=None)
