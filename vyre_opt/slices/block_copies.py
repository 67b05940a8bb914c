"""Copies of blocks of buffers to workgroup memory, piece by piece: adjacent invocations have adjacent pieces.

Pieces of 4 to 16 bytes, as far as rows are aligned, are copied asynchronously (cp.async takes 4, 8 or 16 bytes).  Smaller
pieces, of rows of an odd number of bf16, say, go through registers: all are loaded, then stored, so that no load waits for
another, and computation between the two hides the latency, see copies_ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import gcd

from ..analysis.alignment import Alignment
from ..ir.program import Op, Program, Value
from ..ir.types import DataType
from ..records import dataclass
from .elements import Elements
from .memory import Tile

__all__ = ["BlockCopies"]

PIECE_BYTES = 16
"""The most bytes that an invocation copies at a time."""
MIN_COPY_BYTES = 4
"""The fewest bytes of an asynchronous copy; they are aligned to their size."""
SIDE_BY_SIDE = 16
"""Invocations along a row of small pieces: together they move whole sectors of memory."""
UNROLLED, MAX_SMALL = 16, 64
"""The most pieces that an invocation copies without a loop; more for small ones, whose indices are costly in a loop."""
AT_ONCE = 16
"""Elements that an invocation loads before it stores them."""

Edge = tuple[Value, Sequence[Value]] | None
"""Fill value for elements beyond the buffer, and the extents of the buffer; None if the block is surely inside."""


@dataclass(frozen=True)
class _Turn:
    """Row and column in the block of an invocation's piece; `exists`: whether there is one, None if surely.

    `first`: row of the invocation's first piece, `down` rows above this one."""

    row: Value
    column: Value
    exists: Value | None = None
    first: Value | None = None
    down: int = 0


class BlockCopies:
    """Emits copies of blocks.  `program`: the program before the lowering."""

    def __init__(self, elements: Elements, program: Program) -> None:
        self.elements, self.b, self.alignment = elements, elements.b, Alignment(program)

    def copy(self, load: Op, indices: Sequence[Value], fill: Value | None, tile: Tile) -> None:
        """Begin to copy a block of a buffer to a tile, from the indices of its first element on."""
        if self.goes_through_registers(load):
            for turns in self.batches(load):
                self.store(load, indices, fill, self.load_turns(load, indices, fill, turns), tile, turns)
            return
        edge = self.edge(load, indices, fill)
        if edge is None:
            self.move(load, indices, None, tile)
            return
        with self.b.if_(self.is_whole(load, indices, edge)) as branch, self.elements.scope():
            self.move(load, indices, None, tile)
        with branch.else_(), self.elements.scope():
            self.move(load, indices, edge, tile)

    # --- pieces ------------------------------------------------------------------------------------

    def goes_through_registers(self, load: Op) -> bool:
        """Whether a block goes through registers, since its pieces are too small for asynchronous copies."""
        return self.aligned_elements(load) * self.size(load) < MIN_COPY_BYTES

    def size(self, load: Op) -> int:
        """Bytes of an element."""
        return load.result.type.element.size_bytes or 1

    def aligned_elements(self, load: Op) -> int:
        """Elements that a copy moves: the largest power of two that divides rows of buffer and block and the first column."""
        length, block = self.b.program.buffers[load.attrs["buffer"]].shape[-1], load.result.type
        if not length:
            return 1
        storable = gcd(PIECE_BYTES // self.size(load) or 1, block.extents[-1] or 1)
        return gcd(storable, length, 1 << self.alignment.of(load.indices[-1]))

    def piece(self, load: Op) -> int:
        """Elements of a piece."""
        return 1 if self.goes_through_registers(load) else self.aligned_elements(load)

    def count(self, load: Op) -> int:
        """The most pieces of an invocation."""
        down, along, _ = self.grid(load)
        return down * along

    def grid(self, load: Op) -> tuple[int, int, int]:
        """Pieces of an invocation down and along the block, and invocations along a row; others have rows of their own.

        Small pieces have few invocations along a row, so that each has few rows to compute indices for."""
        rows, columns = (extent or 0 for extent in load.result.type.extents)
        piece, lanes = self.piece(load), self.elements.lanes
        across = columns // piece
        if self.is_small(load) and across % SIDE_BY_SIDE == 0 and lanes % SIDE_BY_SIDE == 0:
            return -(-rows // (lanes // SIDE_BY_SIDE)), across // SIDE_BY_SIDE, SIDE_BY_SIDE
        return -(-rows * across // lanes), 1, across

    def turns(self, load: Op) -> list[_Turn]:
        """All pieces of an invocation."""
        b, elements, piece, lanes = self.b, self.elements, self.piece(load), self.elements.lanes
        rows = load.result.type.extents[0] or 0
        down, along, side_by_side = self.grid(load)
        begin, turns = self.turn(elements.lane, side_by_side, piece), list[_Turn]()
        for first in range(0, down * lanes, lanes):
            turn, exists = begin, None
            if lanes % side_by_side == 0:
                down = first // side_by_side
                turn = _Turn(elements.offset_by(begin.row, down), begin.column, first=begin.row, down=down)
            elif first:
                turn = self.turn(b.add(elements.lane, first), side_by_side, piece)
            if first + lanes > rows * side_by_side:
                exists = b.lt(turn.row, rows)
            turns += [
                replace(turn, column=elements.offset_by(turn.column, k * side_by_side * piece), exists=exists)
                for k in range(along)
            ]
        return turns

    def batches(self, load: Op) -> Iterator[list[_Turn]]:
        """Turns of an invocation, AT_ONCE at a time; or a single one, in a loop around the caller's code."""
        if self.is_unrolled(load):
            turns = self.turns(load)
            yield from (turns[first : first + AT_ONCE] for first in range(0, len(turns), AT_ONCE))
            return
        rows, columns = (extent or 0 for extent in load.result.type.extents)
        lane, across = self.elements.lane, columns // self.piece(load)
        with self.b.for_(lane, rows * across, self.elements.lanes, dtype=DataType.U32) as loop:
            yield [self.turn(loop.index, across, self.piece(load))]

    def is_unrolled(self, load: Op) -> bool:
        return self.count(load) <= (MAX_SMALL if self.is_small(load) else UNROLLED)

    def is_small(self, load: Op) -> bool:
        return self.piece(load) * self.size(load) <= MIN_COPY_BYTES

    def turn(self, number: Value, across: int, piece: int) -> _Turn:
        return _Turn(self.b.div(number, across), self.b.mul(self.b.rem(number, across), piece))

    # --- edges -------------------------------------------------------------------------------------

    def edge(self, load: Op, indices: Sequence[Value], fill: Value | None) -> Edge:
        name, first = load.attrs["buffer"], len(indices) - 2
        if fill is None:
            return None
        return fill, [self.elements.length(name, first), self.elements.length(name, first + 1)]

    def is_whole(self, load: Op, indices: Sequence[Value], edge: tuple[Value, Sequence[Value]]) -> Value:
        """A condition that all of a block is inside the buffer."""
        b, facts = self.b, list[Value]()
        for index, extent, length in zip(indices[-2:], load.result.type.extents, edge[1], strict=True):
            # test both ends: an index before the first element has wrapped around to a large one
            ends = index, b.add(index, (extent or 0) - 1)
            facts += [self.elements.is_below(at, length) for at in ends]
        is_whole = facts[0]
        for fact in facts[1:]:
            is_whole = b.and_(is_whole, fact)
        return is_whole

    # --- copies ------------------------------------------------------------------------------------

    def move(self, load: Op, indices: Sequence[Value], edge: Edge, tile: Tile) -> None:
        """Begin to copy each piece; store the fill value in its place if it is beyond the edge."""
        for turns in self.batches(load):
            for turn in turns:
                with self.where(turn):
                    self.move_piece(load, indices, edge, tile, turn)

    def move_piece(self, load: Op, indices: Sequence[Value], edge: Edge, tile: Tile, turn: _Turn) -> None:
        b, elements, piece = self.b, self.elements, self.piece(load)
        place, at = self.place(indices, turn), (tile.stage, turn.row, turn.column)
        if edge is None:
            b.copy_async(b.load(load.attrs["buffer"], place, piece), tile.buffer, at)
            return
        fill, (height, width) = edge
        # rows of the buffer are whole pieces
        last = b.sub(width, piece - 1) if piece > 1 else width
        is_inside = b.and_(elements.is_below(place[-2], height), elements.is_below(place[-1], last))
        with b.if_(is_inside) as branch:
            b.copy_async(b.load(load.attrs["buffer"], place, piece), tile.buffer, at)
        with branch.else_():
            b.store(fill if piece == 1 else b.splat(fill, DataType.vec(fill.type, piece)), tile.buffer, at)

    def place(self, indices: Sequence[Value], turn: _Turn) -> tuple[Value, ...]:
        """The indices of a piece.  The row is that of the first piece plus a constant, so that addresses share a base."""
        if turn.first is None:
            return self.elements.offset(indices, (turn.row, turn.column))
        *outer, row, column = self.elements.offset(indices, (turn.first, turn.column))
        return *outer, self.elements.offset_by(row, turn.down), column

    # --- through registers -------------------------------------------------------------------------

    def load_turns(
        self, load: Op, indices: Sequence[Value], fill: Value | None, turns: Sequence[_Turn] | None = None
    ) -> list[Value]:
        """Load the bits of an invocation's elements, or of those of some turns.

        Beyond the edge the nearest element is loaded, so that no load is in a branch of its own."""
        b, edge, turns = self.b, self.edge(load, indices, fill), self.turns(load) if turns is None else turns
        if edge is None:
            return [self.load_element(load, indices, turn) for turn in turns]
        lengths = [self.unsigned(length) for length in edge[1]]
        last = [b.sub(b.max(length, 1), 1) for length in lengths]
        with b.if_(b.and_(*map(b.lt, last, lengths))) as branch, self.elements.scope():  # there are elements
            branch.yield_(*[self.nearest_element(load, indices, last, turn) for turn in turns])
        with branch.else_():
            branch.yield_(*[self.poison(load)] * len(turns))
        return list(branch.results)

    def load_element(self, load: Op, indices: Sequence[Value], turn: _Turn) -> Value:
        b, place = self.b, self.place(indices, turn)
        if turn.exists is None:
            return self.bits(b.load(load.attrs["buffer"], place))
        with b.if_(turn.exists) as branch:
            branch.yield_(self.bits(b.load(load.attrs["buffer"], place)))
        with branch.else_():
            branch.yield_(self.poison(load))
        return branch.results[0]

    def nearest_element(
        self, load: Op, indices: Sequence[Value], last: Sequence[Value], turn: _Turn
    ) -> Value:
        """`last`: row and column of the last element of the buffer."""
        *outer, row, column = self.place(indices, turn)
        ends = [self.b.min(self.unsigned(at), end) for at, end in zip((row, column), last, strict=True)]
        return self.bits(self.b.load(load.attrs["buffer"], (*outer, *ends)))

    def store(
        self,
        load: Op,
        indices: Sequence[Value],
        fill: Value | None,
        values: Sequence[Value],
        tile: Tile,
        turns: Sequence[_Turn] | None = None,
    ) -> None:
        """Store loaded elements, and the fill value beyond the edge."""
        edge, turns = self.edge(load, indices, fill), self.turns(load) if turns is None else turns
        element = load.result.type.element
        elements = [self.b.bitcast(v, element) if element.is_float else v for v in values]
        if edge is None:
            self.store_elements(elements, tile, turns)
            return
        with self.b.if_(self.is_whole(load, indices, edge)) as branch, self.elements.scope():
            self.store_elements(elements, tile, turns)
        with branch.else_(), self.elements.scope():
            filled = [self.within(indices, edge, v, t) for v, t in zip(elements, turns, strict=True)]
            self.store_elements(filled, tile, turns)

    def store_elements(self, values: Sequence[Value], tile: Tile, turns: Sequence[_Turn]) -> None:
        for value, turn in zip(values, turns, strict=True):
            with self.where(turn):
                self.b.store(value, tile.buffer, (tile.stage, turn.row, turn.column))

    def within(
        self, indices: Sequence[Value], edge: tuple[Value, Sequence[Value]], value: Value, turn: _Turn
    ) -> Value:
        """A loaded element, or the fill value if it is beyond the edge."""
        fill, lengths = edge
        place = self.place(indices, turn)
        is_row, is_column = map(self.elements.is_below, place[-2:], lengths)
        return self.b.select(self.b.and_(is_row, is_column), value, fill)

    def unsigned(self, value: Value) -> Value:
        return self.elements.cast(value, DataType.U64 if value.type.bits == 64 else DataType.U32)

    def bits(self, value: Value) -> Value:
        """The bits of an element: converting a loaded value would wait for the load."""
        return self.b.bitcast(value, _bits(value.type)) if value.type.is_float else value

    def poison(self, load: Op) -> Value:
        """Arbitrary bits for an element that nothing reads."""
        return self.bits(self.elements.zero(load.result.type.element))

    @contextmanager
    def where(self, turn: _Turn) -> Iterator[None]:
        """Guard a block by the condition that the invocation has a piece."""
        if turn.exists is None:
            yield
            return
        with self.b.if_(turn.exists):
            yield


def _bits(element: DataType) -> DataType:
    """The integers as wide as floats of a type."""
    return DataType.U16 if element.bits == 16 else DataType.U8
