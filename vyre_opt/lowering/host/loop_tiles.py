"""Loops in which each lane goes along a row of its own, moved in tiles of 32 rows and 16 columns.

    for %c = 0 to %n step 1 {
      %v = load @x[%i * %n + %c]       lanes are %n elements apart, iterations are neighbours

Lane by lane that is a gather or a scatter in each iteration.  A tile is read before its iterations, and written behind them
(see tile_loop.py).
Where a buffer is written, all accesses of the loop are to one element in each iteration, so that their order stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ...ir.loops import bounds
from ...ir.program import Op, Program, Value
from ...records import dataclass
from .lane_facts import LaneFacts

__all__ = ["ELEMENT_BITS", "LoopTiles", "Tile", "loop_tiles"]

ELEMENT_BITS = 32
"""Bits of the elements that are moved in tiles."""

MAX_TILES = 6
"""Most tiles of a loop: their part of the stack stays in the first cache."""


@dataclass(slots=True)
class Tile:
    """Accesses to element `base` + counter of a buffer, in each iteration of a loop."""

    buffer: str
    base: Value
    moves: list[Op] = field(default_factory=list)

    @property
    def is_loaded(self) -> bool:
        return any(op.name == "load" for op in self.moves)

    @property
    def is_stored(self) -> bool:
        return any(op.name == "store" for op in self.moves)


LoopTiles = dict[Op, list[Tile]]
"""Tiles of each loop that has some."""


def loop_tiles(program: Program, facts: LaneFacts) -> LoopTiles:
    """The tiles of a program in which no access is out of bounds."""
    tiles = {op: _tiles(program, facts, op) for op in program.walk() if op.name == "for"}
    return {op: of for op, of in tiles.items() if of}


def _tiles(program: Program, facts: LaneFacts, loop: Op) -> list[Tile]:
    if bounds(loop)[2] != 1 or facts.diverges(loop):
        return []
    body = loop.regions[0]
    inside = {result for op in body.walk() for result in op.results}
    tiles: list[Tile] = []
    for op in body.ops:
        if op.definition.format in ("load", "store"):
            base = _row(program, facts, op, body.args[0], {*inside, *body.args})
            if base is not None:
                _add(tiles, op, base)
    tiled = {op for tile in tiles for op in tile.moves}
    other_accesses = [
        op for op in body.walk() if op.definition.format in ("load", "store") and op not in tiled
    ]
    return [
        tile
        for tile in tiles[:MAX_TILES]
        if _keeps_order(
            tile, [*other_accesses, *(op for other in tiles if other is not tile for op in other.moves)]
        )
    ]


def _keeps_order(tile: Tile, others: Sequence[Op]) -> bool:
    """Whether no other access may meet what the tile moves earlier or later."""
    conflicting = [op for op in others if op.attrs["buffer"] == tile.buffer]
    return not conflicting if tile.is_stored else all(op.name == "load" for op in conflicting)


def _row(program: Program, facts: LaneFacts, op: Op, counter: Value, varying: set[Value]) -> Value | None:
    """Distance of the index from the counter of a loop, if it is the same in each iteration."""
    buffer, moved = program.buffers[op.attrs["buffer"]], op.result if op.results else op.operands[0]
    add = op.index.owner
    is_exact = op.index.type.is_signed and (op.index.type.bits == 64 or buffer.count is not None)
    if buffer.is_on_chip or moved.type.is_vec or moved.type.bits != ELEMENT_BITS or not is_exact:
        return None
    if facts.stride(op.index) is not None or not isinstance(add, Op) or add.name != "add":
        return None
    base, step = add.operands
    if _without_casts(step) is not counter or not _is_invariant(base, varying):
        return None
    return base


def _without_casts(value: Value) -> Value:
    while isinstance(value.owner, Op) and value.owner.name == "cast":
        value = value.owner.operands[0]
    return value


def _is_invariant(value: Value, varying: set[Value]) -> bool:
    """Whether a value is the same in each iteration, and can be told before the first."""
    if value not in varying:
        return True
    op = value.owner
    return (
        isinstance(op, Op) and op.definition.is_pure and all(_is_invariant(v, varying) for v in op.operands)
    )


def _add(tiles: list[Tile], op: Op, base: Value) -> None:
    for tile in tiles:
        if tile.buffer == op.attrs["buffer"] and _is_same(tile.base, base):
            tile.moves.append(op)
            return
    tiles.append(Tile(op.attrs["buffer"], base, [op]))


def _is_same(a: Value, b: Value) -> bool:
    """Whether two pure values are the same, since they are computed in the same way."""
    if a is b:
        return True
    first, second = a.owner, b.owner
    if not isinstance(first, Op) or not isinstance(second, Op) or not first.definition.is_pure:
        return False
    if first.name != second.name or first.attrs != second.attrs or a.type is not b.type:
        return False
    return all(map(_is_same, first.operands, second.operands))
