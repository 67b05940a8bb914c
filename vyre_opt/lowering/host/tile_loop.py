"""Writes loops whose rows are moved in tiles, see loop_tiles.py.

A tile is read row after row, a vector of each, and turned in registers, so that an iteration takes its column from the stack:

    memory                                              stack
    lane 0    x[0, c] x[0, c + 1] ... x[0, c + 15]      column c        x[0, c] x[1, c] ... x[31, c]
    lane 1    x[1, c] x[1, c + 1] ...                   column c + 1    x[0, c + 1] ...
    ...                                                 ...

It is written in the same way once all its columns are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...ir.ops import SUBGROUP_SIZE
from ..common.llvm_text import Writer
from .function_builder import WIDE, FunctionBuilder
from .loop_tiles import ELEMENT_BITS, Tile
from .subgroup_emitter import SubgroupEmitter

__all__ = ["TileLoop"]

COLUMNS = 16
"""Columns of a tile: elements of 64 bytes, a line of a cache."""

AHEAD = 256
"""Bytes of a row beyond a vector that are fetched with it: a processor follows fewer rows by itself than a tile has."""

_ELEMENT = f"i{ELEMENT_BITS}"
_OFFSETS, _COLUMNS = f"[{SUBGROUP_SIZE} x i64]", f"[{COLUMNS * SUBGROUP_SIZE} x {_ELEMENT}]"


class TileLoop:
    """A loop over the tiles of all iterations of a `for`.

    `lower`: the counter of the first iteration, as an i64; `trips`: iterations (i64, at least 1).
    """

    def __init__(self, emitter: SubgroupEmitter, tiles: Sequence[Tile], lower: str, trips: str) -> None:
        self.emitter, self.tiles, self.trips = emitter, tiles, trips
        self.builder, self.w = emitter.builder, emitter.w
        self._offsets = [self._stored_offsets(tile, lower) for tile in tiles]
        self._columns = [self.builder.borrow_slot(_COLUMNS) for _ in tiles]

    def _stored_offsets(self, tile: Tile, lower: str) -> str:
        """A stack slot with the element from which each lane goes on."""
        w, kind, base = self.w, WIDE.of("i64"), tile.base
        self.emitter.write_pure(base)
        offsets = self.emitter.lane(base)
        if base.type.bits != 64:
            offsets = w.emit(f"sext {WIDE.type(base.type)} {offsets} to {kind}")
        offsets = w.emit(f"add {kind} {offsets}, {self.builder.splat('i64', lower)}")
        slot = self.builder.borrow_slot(_OFFSETS)
        w.line(f"store {kind} {offsets}, ptr {slot}, align 8")
        return slot

    @contextmanager
    def each(self) -> Iterator[tuple[str, str]]:
        """A round for each tile; yields its first iteration, and how many it has."""
        w = self.w
        with self.builder.counting("tile", "i64", "0", self.trips, COLUMNS, is_plain=True) as first:
            rest = w.emit(f"sub i64 {self.trips}, {first}")
            count = w.call("llvm.umin.i64", "i64", [("i64", rest), ("i64", str(COLUMNS))])
            self._move(first, count, is_load=True)
            yield first, count
            self._move(first, count, is_load=False)

    def _move(self, first: str, count: str, *, is_load: bool) -> None:
        w, bits = self.w, self.emitter.active_bits()
        for tile, offsets, columns in zip(self.tiles, self._offsets, self._columns, strict=True):
            if not (tile.is_loaded if is_load else tile.is_stored):
                continue
            name = _define_move(self.builder, is_load=is_load)
            at = w.emit(f"getelementptr {_ELEMENT}, ptr {self.builder.pointers[tile.buffer]}, i64 {first}")
            w.line(f"call void @{name}(ptr {at}, ptr {offsets}, i32 {bits}, i64 {count}, ptr {columns})")

    def take_column(self, number: str) -> None:
        """Redirect accesses in the block to a column (i64) on the stack."""
        for tile, columns in zip(self.tiles, self._columns, strict=True):
            kind = f"[{SUBGROUP_SIZE} x {_ELEMENT}]"
            at = self.w.emit(f"getelementptr {kind}, ptr {columns}, i64 {number}")
            self.emitter.columns.update(dict.fromkeys(tile.moves, at))

    def finish(self) -> None:
        for tile, offsets, columns in zip(self.tiles, self._offsets, self._columns, strict=True):
            self.builder.return_slots([(_OFFSETS, offsets), (_COLUMNS, columns)])
            for op in tile.moves:
                del self.emitter.columns[op]


def _define_move(builder: FunctionBuilder, *, is_load: bool) -> str:
    """The function that moves `%count` columns of the rows of the lanes in `%active` from memory to the stack, or back.

    Row of lane k: from element `%offsets[k]` on.  On the stack a column has the elements of all lanes.
    """
    name = f"vyre.tile.{'load' if is_load else 'store'}"
    if not builder.module.defines(name):
        w = Writer(builder.module)
        whole, some = w.label("whole"), w.label("some")
        has_all = w.emit(f"icmp eq i64 %count, {COLUMNS}")
        w.branch_if(w.emit(f"and i1 {has_all}, {w.emit('icmp eq i32 %active, -1')}"), whole, some)
        w.start(whole)
        with _counting(w, "lanes", str(SUBGROUP_SIZE), COLUMNS) as lane:
            _turn(w, lane, is_load=is_load)
        w.line("ret void")
        w.start(some)
        with _counting(w, "lane", str(SUBGROUP_SIZE)) as lane:
            bit = w.emit(f"lshr i32 %active, {w.emit(f'trunc i64 {lane} to i32')}")
            active, passive = w.label("active"), w.label("passive")
            w.branch_if(w.emit(f"trunc i32 {bit} to i1"), active, passive)
            w.start(active)
            row = _row_pointer(w, lane)
            with _counting(w, "column", "%count") as number:
                far = w.emit(f"getelementptr {_ELEMENT}, ptr {row}, i64 {number}")
                near = _column_pointer(w, number, lane)
                source, target = (far, near) if is_load else (near, far)
                w.line(f"store {_ELEMENT} {w.emit(f'load {_ELEMENT}, ptr {source}')}, ptr {target}")
            w.fall_into(passive)
        w.line("ret void")
        params = "ptr %buffer, ptr noalias %offsets, i32 %active, i64 %count, ptr noalias %columns"
        text = [f"define internal void @{name}({params}) noinline nounwind {{", "entry:", *w.lines, "}"]
        builder.module.define(name, "\n".join(text))
    return name


@contextmanager
def _counting(w: Writer, name: str, end: str, step: int = 1) -> Iterator[str]:
    """A loop whose counter goes from 0 up to `end`, which is larger; yields the counter."""
    body, done, before = w.label(name), w.label(f"end{name}"), w.block
    following = w.fresh("next")
    w.fall_into(body)
    at = len(w.lines)
    counter = w.fresh(name)
    yield counter
    w.lines.insert(at, f"  {counter} = phi i64 [ 0, %{before} ], [ {following}, %{w.block} ]")
    w.line(f"{following} = add i64 {counter}, {step}")
    note = f", !llvm.loop {w.module.plain_loop()}"
    w.branch_if(w.emit(f"icmp ult i64 {following}, {end}"), body, done + note)
    w.start(done)


def _turn(w: Writer, lane: str, *, is_load: bool) -> None:
    """Move all columns of as many lanes, from `lane` on: what one side has as rows, the other has as columns."""
    vector = f"<{COLUMNS} x {_ELEMENT}>"
    rows = [_row_pointer(w, w.emit(f"add i64 {lane}, {number}")) for number in range(COLUMNS)]
    columns = [_column_pointer(w, str(number), lane) for number in range(COLUMNS)]
    sources, targets = (rows, columns) if is_load else (columns, rows)
    for row in rows:
        ahead = w.emit(f"getelementptr i8, ptr {row}, i64 {AHEAD}")
        w.call("llvm.prefetch.p0", "void", [("ptr", ahead), ("i32", "0"), ("i32", "3"), ("i32", "1")])
    vectors = [w.emit(f"load {vector}, ptr {source}, align {ELEMENT_BITS // 8}") for source in sources]
    for distance, (lower, upper) in _STAGES.items():
        for number in range(COLUMNS):
            if not number & distance:
                pair = vectors[number], vectors[number + distance]
                vectors[number], vectors[number + distance] = (_shuffled(w, pair, o) for o in (lower, upper))
    for number, target in enumerate(targets):
        # the first two stages leave columns in the order 0, 2, 1, 3
        at = number & ~3 | (number & 1) << 1 | (number & 2) >> 1
        w.line(f"store {vector} {vectors[at]}, ptr {target}, align {ELEMENT_BITS // 8}")


def _shuffled(w: Writer, pair: tuple[str, str], order: Sequence[int]) -> str:
    vector = f"<{COLUMNS} x {_ELEMENT}>"
    lanes = ", ".join(f"i32 {lane}" for lane in order)
    return w.emit(f"shufflevector {vector} {pair[0]}, {vector} {pair[1]}, <{COLUMNS} x i32> <{lanes}>")


def _zipped(unit: int, start: int) -> list[int]:
    """Interleave two vectors in each 16 bytes: `unit` elements of the first and as many of the second, in turn, from `start` on."""
    return [
        block + start + lane + vector
        for block in range(0, COLUMNS, 4)
        for first in range(0, 2, unit)
        for vector in (0, COLUMNS)
        for lane in range(first, first + unit)
    ]


def _blocks(start: int) -> list[int]:
    """Every second 16 bytes of two vectors, one after the other."""
    return [block + lane for block in range(start, 2 * COLUMNS, 8) for lane in range(4)]


_STAGES = {
    1: (_zipped(1, 0), _zipped(1, 2)),
    2: (_zipped(2, 0), _zipped(2, 2)),
    4: (_blocks(0), _blocks(4)),
    8: (_blocks(0), _blocks(4)),
}
"""Orders that turn rows into columns, by the distance of the two vectors that they replace.  Vector units have all of them."""


def _row_pointer(w: Writer, lane: str) -> str:
    at = w.emit(f"getelementptr i64, ptr %offsets, i64 {lane}")
    return w.emit(f"getelementptr {_ELEMENT}, ptr %buffer, i64 {w.emit(f'load i64, ptr {at}')}")


def _column_pointer(w: Writer, column: str, lane: str) -> str:
    """The address of a lane's element of a column on the stack."""
    return w.emit(f"getelementptr [{SUBGROUP_SIZE} x {_ELEMENT}], ptr %columns, i64 {column}, i64 {lane}")
