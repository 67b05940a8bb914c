"""Products of blocks on matrix units: factors go through workgroup memory, and subgroups hold sums as matrices, see MatrixLayout.

    total + a @ b      tiles of a and b in workgroup memory, row by row; each subgroup multiplies the rows of its band

A tile is written before the product, or in a loop by copies that run ahead of it, see copies_ahead.  What else is computed with sums
leaves the matrices through a strip of workgroup memory; but what a loop carries and adds to stays in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from ..analysis.alignment import Alignment
from ..ir.ops import OPS, SUBGROUP_SIZE
from ..ir.program import Op, Program, Value
from ..ir.rewrite import constant_value
from ..ir.types import DataType
from .elements import Elements
from .layout import STRIP, MatrixLayout
from .nodes import Computed, Extent, Held, Loaded, Node, Repeated, Spread, made_of
from .schedule import DEPTH, SliceSchedule, factor_tile, is_for_units

__all__ = ["Tile", "Units"]

PIECE_BYTES = 16
"""Bytes that an invocation copies at a time, at most."""
LEAST_COPIED = 4
"""Bytes of a copy, at least, which lie at a multiple of as many."""
UNROLLED = 16
"""Pieces that an invocation copies without a loop, at most."""


@dataclass(frozen=True)
class Tile:
    """A factor in workgroup memory: at a stage along the first dimension of a buffer, transposed or not."""

    buffer: str
    stage: Value
    is_transposed: bool = False


class Units:
    """`program`: as it is before.  `dots`: the products on units.  `sums`: slices that are best held as matrices.  `transposes`:
    those that are factors and nothing else, with what they are made of.  `tiles`: of factors that are copied ahead.  `carried`: left
    factors that the round of a loop before has loaded.  `level`: loops around whose factors are copied ahead."""

    def __init__(self, elements: Elements, program: Program, schedule: SliceSchedule) -> None:
        self.elements, self.b, self.schedule = elements, elements.b, schedule
        self.dots = {op for op in program.walk() if is_for_units(op, schedule)}
        self.sums = _sums(program, self.dots)
        self.transposes = _factors_alone(program, self.dots)
        self.tiles: dict[Value, Tile] = {}
        self.carried: dict[Op, Sequence[Value]] = {}
        self.level = 0
        self.alignment = Alignment(program)

    # --- sums --------------------------------------------------------------------------------------

    def layout(self, extents: Sequence[Extent]) -> MatrixLayout:
        rows, columns = (extent.number or 0 for extent in extents)
        return self.layout_of(rows, columns)

    def layout_of(self, rows: int, columns: int) -> MatrixLayout:
        s = self.schedule
        return MatrixLayout(rows, columns, s.lanes // SUBGROUP_SIZE, s.neighbours)

    def matrices(self, node: Node, layout: MatrixLayout) -> list[Value]:
        """A block as matrices, place by place."""
        if isinstance(node, Held) and node.layout == layout:
            return [node.values[place][0] for place in layout.places]
        dtype = layout.held_type(node.dtype.element)
        if isinstance(node, Spread):
            return self.spread(node, layout, dtype)
        if isinstance(node, Computed) and _is_of_matrices(node):
            return self.computed(node, layout, dtype)
        if isinstance(node, Repeated):
            return self.repeated(node.source, layout, dtype)
        tile = self.written("sums", node, (layout.rows, layout.columns))
        return [
            self.b.matrix_load(
                tile.buffer, (tile.stage, self.row(layout, i), self.b.const(j * layout.part)), dtype
            )
            for i, j in layout.places
        ]

    def computed(self, node: Computed, layout: MatrixLayout, dtype: DataType) -> list[Value]:
        """An op of each element, as one of matrices."""
        operands = [
            self.matrices(v if isinstance(v, Node) else Spread(node.dtype, node.extents, v), layout)
            for v in node.operands
        ]
        before, self.b.loc = self.b.loc, node.op.loc
        results = [
            self.b.emit(node.op.definition, each, [dtype], node.op.attrs).result
            for each in zip(*operands, strict=True)
        ]
        self.b.loc = before
        return results

    def spread(self, node: Spread, layout: MatrixLayout, dtype: DataType) -> list[Value]:
        """One value everywhere; which all invocations agree on if it is in workgroup memory."""
        number = constant_value(node.value)
        if number is None:
            return self.repeated(Spread(node.dtype, node.extents[1:], node.value), layout, dtype)
        return [self.b.emit(OPS["const"], (), [dtype], {"value": number}).result] * layout.held

    def repeated(self, source: Node, layout: MatrixLayout, dtype: DataType) -> list[Value]:
        """A row or a column, by memory of one dimension: each row of a matrix is the same, or each column."""
        b, extents = self.b, [extent.number or 0 for extent in source.extents]
        is_column = len(extents) == 2 and extents[0] > 1
        if extents[-1] == 1 and not is_column:
            wide = Extent(b.const(layout.columns), layout.columns, layout.columns)
            source = Repeated(DataType.slice((layout.columns,), source.dtype.element), [wide], source)
        place = self.elements.written("repeated", source, layout.rows if is_column else layout.columns)
        order = "column_major" if is_column else "row_major"
        return [
            b.matrix_load(place, self.row(layout, i) if is_column else b.const(j * layout.part), dtype, order)
            for i, j in layout.places
        ]

    def row(self, layout: MatrixLayout, strip: int) -> Value:
        """The first row of a subgroup's strip."""
        return self.elements.moved_by(self.elements.band(layout.band), strip * STRIP)

    def source(self, node: Node) -> tuple[Held, MatrixLayout] | None:
        """The block in matrices that a slice is computed of by element, if all else comes from memory or is computed of places."""
        held: list[tuple[Held, MatrixLayout]] = []
        for each in made_of(node):
            if isinstance(each, Held) and isinstance(each.layout, MatrixLayout):
                held.append((each, each.layout))
            elif isinstance(each, Held) or (isinstance(each, Loaded) and not self.elements.is_current(each)):
                return None
        is_repeated = any(
            isinstance(each, Repeated) and held and held[0][0] in made_of(each) for each in made_of(node)
        )
        return held[0] if len(held) == 1 and not is_repeated else None

    # --- products ----------------------------------------------------------------------------------

    def product(
        self, op: Op, total: Node | None, extents: Sequence[Extent], nodes: Mapping[Value, Node]
    ) -> Held:
        """A total and the product of two blocks."""
        b, layout, result = self.b, self.layout(extents), op.result.type
        depth = op.operands[0].type.extents[1] or 0
        if total is None:
            total = Spread(result, extents, b.const(-0.0, result.element))
        sums = self.matrices(total, layout)
        left, right = (self.factor(op, side, nodes) for side in range(2))
        of_right = DataType.matrix(DEPTH, layout.part, op.operands[0].type.element, "b")
        strips, parts = range(layout.band // STRIP), range(layout.columns // layout.part)
        # all of them first: products of warpgroups, which nothing is between, are under way together
        lefts = self.carried.get(op) or self.lefts(op, left, layout)
        for step in range(depth // DEPTH):
            for part in parts:
                factor = self.loaded(right, b.const(step * DEPTH), b.const(part * layout.part), of_right)
                for strip in strips:
                    at = strip * len(parts) + part
                    sums[at] = b.matrix_mul_add(lefts[step * len(strips) + strip], factor, sums[at])
        return Held(
            result, extents, layout, {place: [v] for place, v in zip(layout.places, sums, strict=True)}
        )

    def lefts(self, op: Op, tile: Tile, layout: MatrixLayout) -> list[Value]:
        """The matrices of a subgroup's rows of the left factor, for each step along the depth those of all strips."""
        dtype = DataType.matrix(STRIP, DEPTH, op.operands[0].type.element, "a")
        return [
            self.loaded(tile, self.row(layout, strip), self.b.const(k), dtype)
            for k in range(0, op.operands[0].type.extents[1] or 0, DEPTH)
            for strip in range(layout.band // STRIP)
        ]

    def loaded(self, tile: Tile, row: Value, column: Value, dtype: DataType) -> Value:
        at = (column, row) if tile.is_transposed else (row, column)
        order = "column_major" if tile.is_transposed else "row_major"
        return self.b.matrix_load(tile.buffer, (tile.stage, *at), dtype, order)

    def factor(self, op: Op, side: int, nodes: Mapping[Value, Node]) -> Tile:
        """The tile of a factor: copied ahead, or written now."""
        value = op.operands[side]
        source = self.transposes.get(value, value)
        tile = self.tiles.get(source)
        if tile is None:
            shape = factor_tile(op, side, source, self.schedule)
            tile = self.written(("left", "right")[side], nodes[source], shape)
        return Tile(tile.buffer, tile.stage, source is not value)

    def written(self, use: str, node: Node, shape: tuple[int, int]) -> Tile:
        """A block in workgroup memory of a shape, which has its columns or some more."""
        b, elements = self.b, self.elements
        tile = Tile(elements.memory.tile(use, node.dtype.element, (1, *shape)), b.const(0))
        if isinstance(node, Loaded) and not node.is_gather and elements.is_current(node):
            indices = [index for index in node.indices if isinstance(index, Value)]
            b.barrier()
            self.copy(node.op, indices, node.fill, tile)
            b.copy_wait(0)
            b.barrier()
        else:
            layout = elements.known_layout(node)
            assert layout is not None
            elements.write(node, layout, tile.buffer, lambda row, column: (tile.stage, row, column))
        return tile

    # --- copies ------------------------------------------------------------------------------------

    def copy(self, load: Op, indices: Sequence[Value], fill: Value | None, tile: Tile) -> None:
        """Begin to copy a block of a buffer to a tile, from the indices of its first element on."""
        b, elements, piece = self.b, self.elements, self.aligned(load)
        straddles = piece * (load.result.type.element.size_bytes or 1) < LEAST_COPIED
        if straddles:
            piece = self.storable(load)
        pieces = _Pieces(elements, load, indices, tile, piece, straddles)
        if fill is None:
            pieces.copy(None)
            return
        name, first = load.attrs["buffer"], len(indices) - 2
        lengths = [elements.length(name, first), elements.length(name, first + 1)]
        facts = []
        for index, extent, length in zip(indices[first:], load.result.type.extents, lengths, strict=True):
            # both, since an index before the first element has wrapped around
            facts += [elements.is_below(at, length) for at in (index, b.add(index, (extent or 0) - 1))]
        is_whole = facts[0]
        for fact in facts[1:]:
            is_whole = b.and_(is_whole, fact)
        with b.if_(is_whole) as branch:
            pieces.copy(None)
        with branch.else_():
            whole = fill if piece == 1 else b.splat(fill, DataType.vec(fill.type, piece))
            pieces.copy((whole, lengths))

    def aligned(self, load: Op) -> int:
        """Elements that a copy moves: as many as rows of the buffer and of the block are made of, and their first places multiples of."""
        length = self.b.program.buffers[load.attrs["buffer"]].shape[-1]
        if length is None:
            return 1
        return gcd(self.storable(load), length, 1 << self.alignment.of(load.indices[-1]))

    def storable(self, load: Op) -> int:
        """Elements that a store moves: as many as rows of the block are made of."""
        block = load.result.type
        return gcd(PIECE_BYTES // (block.element.size_bytes or PIECE_BYTES), block.extents[-1] or 1)


@dataclass(frozen=True)
class _Pieces:
    """The pieces of a block that an invocation copies: neighbouring lanes have neighbouring ones.

    `straddles`: they lie at places where no copy can move them, so they are loaded, and may be in part beyond the edges."""

    elements: Elements
    load: Op
    indices: Sequence[Value]
    tile: Tile
    piece: int
    straddles: bool

    def copy(self, edge: tuple[Value, Sequence[Value]] | None) -> None:
        """`edge`: what is beyond the buffer, in the place of a piece, and its extents; None where nothing of the block is."""
        b, elements = self.elements.b, self.elements
        rows, columns = (extent or 0 for extent in self.load.result.type.extents)
        count = rows * columns // self.piece
        if -(-count // elements.lanes) > UNROLLED:
            with b.for_(elements.lane, count, elements.lanes, dtype=DataType.U32) as loop:
                self.move(loop.index, edge)
            return
        for first in range(0, count, elements.lanes):
            number = elements.moved_by(elements.lane, first)
            if first + elements.lanes <= count:
                self.move(number, edge)
                continue
            with b.if_(b.lt(number, count)):
                self.move(number, edge)

    def move(self, number: Value, edge: tuple[Value, Sequence[Value]] | None) -> None:
        b, elements, tile = self.elements.b, self.elements, self.tile
        across = (self.load.result.type.extents[1] or 0) // self.piece
        row, column = b.div(number, across), b.mul(b.rem(number, across), self.piece)
        place = elements.offset(self.indices, (row, column))
        at = tile.stage, row, column
        if edge is None:
            b.copy_async(b.load(self.load.attrs["buffer"], place, self.piece), tile.buffer, at)
            return
        fill, (height, width) = edge
        row_is_inside, is_inside = elements.is_below(place[-2], height), elements.is_below(place[-1], width)
        if self.straddles:
            is_inside = b.and_(is_inside, elements.is_below(b.add(place[-1], self.piece - 1), width))
        with b.if_(b.and_(row_is_inside, is_inside)) as branch:
            b.copy_async(b.load(self.load.attrs["buffer"], place, self.piece), tile.buffer, at)
        with branch.else_():
            b.store(fill, tile.buffer, at)
            if self.straddles:
                with b.if_(row_is_inside):
                    self.move_elements(place, at, width)

    def move_elements(self, place: Sequence[Value], at: Sequence[Value], width: Value) -> None:
        """Copy the elements of a piece that are inside the matrix."""
        b, elements = self.elements.b, self.elements
        for k in range(self.piece):
            column = elements.moved_by(place[-1], k)
            with b.if_(elements.is_below(column, width)):
                value = b.load(self.load.attrs["buffer"], (*place[:-1], column))
                b.store(value, self.tile.buffer, (*at[:-1], elements.moved_by(at[-1], k)))


def _sums(program: Program, dots: set[Op]) -> set[Value]:
    """Return what products give and are added to, what is computed of these by element, and with each such slice those that come to it
    through loops and branches."""
    sums = {value for op in dots for value in (op.result, *op.operands[2:])}
    groups = [group for op in program.walk() for group in _handed_on(op)]
    before = -1
    while before != len(sums):
        before = len(sums)
        for op in program.walk():
            is_computed = (
                op.definition.is_pure and not op.regions and not op.definition.format.startswith("slice_")
            )
            if is_computed and op.results and op.result.type.is_slice and not sums.isdisjoint(op.operands):
                sums.add(op.result)
        for group in groups:
            if not sums.isdisjoint(group):
                sums |= group
    return {value for value in sums if value.type.is_slice and value.type.element is DataType.F32}


def _handed_on(op: Op) -> list[set[Value]]:
    """Values in flight of each slice that blocks of an op hand on."""
    groups: list[set[Value]] = []
    is_loop = op.name in ("for", "while")
    for number in range(-len(op.results), 0) if op.regions else ():
        # the condition of a `while` hands its arguments on as they are
        ends = [region.ops[-1] for region in op.regions if region.ops[-1].name == "yield"]
        group = {op.results[number], *(end.operands[number] for end in ends)}
        if is_loop:
            group |= {op.operands[number], *(region.args[number] for region in op.regions)}
        if op.results[number].type.is_slice:
            groups.append(group)
    return groups


def _factors_alone(program: Program, dots: set[Op]) -> dict[Value, Value]:
    """Transposes that products on units take as factors, and nothing else takes, with what they are made of."""
    others: set[Value] = set()
    for op in program.walk():
        others.update(op.operands[2:] if op in dots else op.operands)
    transposes = [op for op in program.walk() if op.name == "slice_transpose"]
    return {op.result: op.operands[0] for op in transposes if op.result not in others}


def _is_of_matrices(node: Computed) -> bool:
    """Whether an op on matrices computes it: no bools are among what it takes and gives."""
    types = [node.dtype.element, *(v.dtype.element if isinstance(v, Node) else v.type for v in node.operands)]
    return all(dtype is DataType.F32 for dtype in types)
