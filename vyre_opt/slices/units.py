"""Products of blocks on matrix units: factors go through workgroup memory, and subgroups hold sums as matrices, see MatrixLayout.

    total + a @ b      tiles of a and b in workgroup memory, row by row; each subgroup multiplies the rows of its band

A tile is written before the product, or in a loop by copies that run ahead of it, see copies_ahead.  Sums that a loop carries
stay in matrices; for other uses they leave the matrices through a strip of workgroup memory.  Lanes compute products that
units do not support, see products; on GPUs with the same tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Op, Program, Value
from ..ir.types import DataType
from .block_copies import BlockCopies
from .elements import Elements
from .layout import STRIP, UNPACKED_ROWS, Extent, Layout, MatrixLayout
from .memory import Tile
from .nodes import BroadcastNode, LoadNode, Node, RegisterNode, SplatNode, made_of
from .products import Factor, product
from .schedule import DEPTH, SliceSchedule, factor_tile, is_for_units

__all__ = ["Units", "computed_of"]

STORED = {DataType.F32, DataType.BF16, DataType.F16}
"""Element types of matrices that can be stored."""


class Units:
    """Lowers products of blocks.  `program`: the program before the lowering.

    `dots`: products on units.  `sums`: slices to keep as matrices.  `tiled`: products by lanes with factors in tiles;
    `tiled_sums`: the sums that they add to.  `transposes`: transposes used only as factors -> their operands.  `tiles`:
    factor -> its tile, if it was copied ahead.  `carried`: left factors that the previous round of a loop has loaded.
    `level`: number of enclosing loops with copies ahead."""

    def __init__(self, elements: Elements, program: Program, schedule: SliceSchedule) -> None:
        self.elements, self.b, self.schedule = elements, elements.b, schedule
        self.dots = {op for op in program.walk() if is_for_units(op, schedule)}
        self.sums = _sums(program, self.dots)
        self.blocks = {value.type.extents for value in self.sums}
        """Extents of `sums`."""
        self.tiled = {
            op
            for op in program.walk()
            if op.name == "slice_dot" and op not in self.dots and schedule.stages > 1
        }
        self.tiled_sums = _forwarded_sums(program, self.tiled)
        self.transposes = _factors_alone(program, self.dots)
        self.tiles: dict[Value, Tile] = {}
        self.carried: dict[Op, Sequence[Value]] = {}
        self.level = 0
        self.copies = BlockCopies(elements, program)

    # --- sums --------------------------------------------------------------------------------------

    def layout(self, extents: Sequence[Extent]) -> MatrixLayout:
        rows, columns = (extent.number or 0 for extent in extents)
        return self.layout_of(rows, columns)

    def layout_of(self, rows: int, columns: int) -> MatrixLayout:
        s = self.schedule
        return MatrixLayout(rows, columns, s.lanes // SUBGROUP_SIZE, s.neighbours)

    def row(self, layout: MatrixLayout, strip: int) -> Value:
        """The first row of a subgroup's strip."""
        return self.elements.offset_by(self.elements.band(layout.band), strip * STRIP)

    def source(self, node: Node) -> tuple[Node, RegisterNode, MatrixLayout] | None:
        """A slice to store strip by strip, and the one block in matrices that it is computed from elementwise.

        All other operands must come from memory or positions.  A block by lanes in the layout of fragments is packed first.
        None for any other slice."""
        blocks: list[tuple[RegisterNode, MatrixLayout]] = []
        is_alone = True
        for each in made_of(node):
            if isinstance(each, RegisterNode) and isinstance(each.layout, MatrixLayout):
                blocks.append((each, each.layout))
            elif isinstance(each, RegisterNode) or (
                isinstance(each, LoadNode) and not self.elements.is_current(each)
            ):
                is_alone = False
        if not blocks:
            return None
        is_repeated = any(
            isinstance(each, BroadcastNode) and blocks[0][0] in made_of(each) for each in made_of(node)
        )
        if len(blocks) == 1 and is_alone and not is_repeated:
            return node, *blocks[0]
        layout = blocks[0][1]
        if self.elements.own_layout(node) != layout.by_lanes or node.dtype.element not in STORED:
            return None
        matrices = self.elements.matrices(node, layout)
        values = {place: [matrix] for place, matrix in zip(layout.places, matrices, strict=True)}
        packed_node = RegisterNode(node.dtype, node.extents, layout, values)
        return packed_node, packed_node, layout

    # --- products ----------------------------------------------------------------------------------

    def product_by_lanes(
        self, op: Op, total: Node | None, extents: Sequence[Extent], nodes: Mapping[Value, Node]
    ) -> RegisterNode:
        """A total and the product of two blocks without units, in the order of the depth."""
        numbers = [extent.number or 0 for extent in extents]
        layout = self.sums_by_lanes(numbers) if op in self.tiled else self.elements.layout_of(numbers)
        left, right = (self.factor_by_lanes(op, side, nodes) for side in range(2))
        return product(self.elements, layout, (left, right), total, op.result.type, extents)

    def sums_by_lanes(self, extents: Sequence[int]) -> Layout:
        """Layout of the sums of products whose factors are in tiles."""
        rows, columns = extents
        return Layout.of_sums(rows, columns, self.schedule.lanes)

    def factor_by_lanes(self, op: Op, side: int, nodes: Mapping[Value, Node]) -> Factor:
        """A factor that lanes multiply."""
        value = op.operands[side]
        rows, columns = (extent or 0 for extent in value.type.extents)
        if op in self.tiled:
            tile = self.factor(op, side, nodes)
            return Factor(tile.buffer, columns, tile.stage)
        return Factor(
            self.elements.write_scratch(("left", "right")[side], nodes[value], rows * columns), columns
        )

    def product(
        self, op: Op, total: Node | None, extents: Sequence[Extent], nodes: Mapping[Value, Node]
    ) -> RegisterNode:
        """A total and the product of two blocks."""
        b, layout, result = self.b, self.layout(extents), op.result.type
        depth = op.operands[0].type.extents[1] or 0
        if total is None:
            total = SplatNode(result, extents, b.const(-0.0, result.element))
        sums = self.elements.matrices(total, layout)
        right = self.factor(op, 1, nodes)
        of_right = DataType.matrix(DEPTH, layout.part, op.operands[0].type.element, "b")
        strips, parts = range(layout.band // STRIP), range(layout.columns // layout.part)
        # load all left factors first: consecutive products of warpgroups then run asynchronously together
        if op in self.carried:
            lefts = self.carried[op]
        elif self.is_packed(op, nodes):
            lefts = self.pack_lefts(op, nodes)
        else:
            lefts = self.lefts(op, self.factor(op, 0, nodes), layout)
        for step in range(depth // DEPTH):
            for part in parts:
                factor = self.load_matrix(right, b.const(step * DEPTH), b.const(part * layout.part), of_right)
                for strip in strips:
                    at = strip * len(parts) + part
                    sums[at] = b.matrix_mul_add(lefts[step * len(strips) + strip], factor, sums[at])
        return RegisterNode(
            result, extents, layout, {place: [v] for place, v in zip(layout.places, sums, strict=True)}
        )

    def is_packed(self, op: Op, nodes: Mapping[Value, Node]) -> bool:
        """Whether lanes have the left factor of a product in the layout of fragments."""
        value = op.operands[0]
        if op not in self.dots or value in self.transposes:
            return False
        rows, depth = (extent or 0 for extent in value.type.extents)
        return self.elements.own_layout(nodes[value]) == self.layout_of(rows, depth).by_lanes

    def pack_lefts(self, op: Op, nodes: Mapping[Value, Node]) -> list[Value]:
        """The left factor in the order of `lefts`, packed from registers."""
        value, elements = op.operands[0], self.elements
        rows, depth = (extent or 0 for extent in value.type.extents)
        lanes = self.layout_of(rows, depth).by_lanes
        factor = DataType.matrix(STRIP, DEPTH, value.type.element, "a")
        high, wide = STRIP // UNPACKED_ROWS, DEPTH // UNPACKED_ROWS
        return [
            self.b.cast(
                elements.pack(
                    nodes[value],
                    [elements.group(lanes, strip + i, k + j) for j in range(wide) for i in range(high)],
                    DEPTH,
                ),
                factor,
            )
            for k in range(0, lanes.column_rounds, wide)
            for strip in range(0, lanes.row_rounds, high)
        ]

    def lefts(self, op: Op, tile: Tile, layout: MatrixLayout) -> list[Value]:
        """A subgroup's matrices of the left factor: all strips for each step along the depth."""
        dtype = DataType.matrix(STRIP, DEPTH, op.operands[0].type.element, "a")
        return [
            self.load_matrix(tile, self.row(layout, strip), self.b.const(k), dtype)
            for k in range(0, op.operands[0].type.extents[1] or 0, DEPTH)
            for strip in range(layout.band // STRIP)
        ]

    def load_matrix(self, tile: Tile, row: Value, column: Value, dtype: DataType) -> Value:
        at = (column, row) if tile.is_transposed else (row, column)
        order = "column_major" if tile.is_transposed else "row_major"
        return self.b.matrix_load(tile.buffer, (tile.stage, *at), dtype, order)

    def factor(self, op: Op, side: int, nodes: Mapping[Value, Node]) -> Tile:
        """The tile of a factor; written now unless it was copied ahead."""
        value = op.operands[side]
        source = self.transposes.get(value, value)
        tile = self.tiles.get(source)
        if tile is None:
            shape = factor_tile(op, side, source, self.schedule)
            tile = self.write_tile(("left", "right")[side], nodes[source], shape)
        return Tile(tile.buffer, tile.stage, source is not value)

    @contextmanager
    def hoist_factors(self, loop: Op, nodes: Mapping[Value, Node]) -> Iterator[None]:
        """Write factors from outside a loop to tiles before it, and use them in the block."""
        before = self.tiles.copy()
        for op in loop.walk() if loop.name in ("for", "while") else ():
            if op not in self.dots and op not in self.tiled:
                continue
            for side, value in enumerate(op.operands[:2]):
                source = self.transposes.get(value, value)
                if source not in nodes or source in self.tiles or (side == 0 and self.is_packed(op, nodes)):
                    continue
                use, shape = ("left", "right")[side], factor_tile(op, side, source, self.schedule)
                self.tiles[source] = self.write_tile(f"{use}.kept{len(self.tiles)}", nodes[source], shape)
        yield
        self.tiles = before

    def write_tile(self, use: str, node: Node, shape: tuple[int, int]) -> Tile:
        """Write a block to workgroup memory of a shape with at least its columns."""
        b, elements = self.b, self.elements
        tile = Tile(elements.memory.tile(use, node.dtype.element, (1, *shape)), b.const(0))
        if isinstance(node, LoadNode) and not node.is_gather and elements.is_current(node):
            indices = [index for index in node.indices if isinstance(index, Value)]
            b.barrier()
            self.copies.copy(node.op, indices, node.fill, tile)
            b.copy_wait(0)
            b.barrier()
        else:
            layout = elements.known_layout(node)
            assert layout is not None
            elements.write(node, layout, tile.buffer, lambda row, column: (tile.stage, row, column))
        return tile


def _sums(program: Program, dots: set[Op]) -> set[Value]:
    """Results and totals of products, and all f32 slices computed from them."""
    sums = computed_of(program, {value for op in dots for value in (op.result, *op.operands[2:])})
    return {value for value in sums if value.type.is_slice and value.type.element is DataType.F32}


def computed_of(program: Program, slices: set[Value]) -> set[Value]:
    """Slices, those computed from them elementwise, and all that are connected to them through regions' yields."""
    values = set(slices)
    groups = [group for op in program.walk() for group in _forwarded_groups(op)]
    size = -1
    while size != len(values):
        size = len(values)
        for op in program.walk():
            is_computed = (
                op.definition.is_pure and not op.regions and not op.definition.format.startswith("slice_")
            )
            if is_computed and op.results and op.result.type.is_slice and not values.isdisjoint(op.operands):
                values.add(op.result)
        values = _close_over(values, groups)
    return values


def _forwarded_sums(program: Program, dots: set[Op]) -> set[Value]:
    """Results and totals of products, and all slices connected to them through regions' yields."""
    sums = {value for op in dots for value in (op.result, *op.operands[2:])}
    return _close_over(sums, [group for op in program.walk() for group in _forwarded_groups(op)])


def _close_over(sums: set[Value], groups: Sequence[set[Value]]) -> set[Value]:
    size = -1
    while size != len(sums):
        size = len(sums)
        sums = sums.union(*(group for group in groups if not sums.isdisjoint(group)))
    return sums


def _forwarded_groups(op: Op) -> list[set[Value]]:
    """Groups of values, one for each slice result of an op with regions: those that yields, arguments and operands connect."""
    groups: list[set[Value]] = []
    is_loop = op.name in ("for", "while")
    for number in range(-len(op.results), 0) if op.regions else ():
        # the condition region of a `while` passes its arguments on unchanged
        ends = [region.ops[-1] for region in op.regions if region.ops[-1].name == "yield"]
        group = {op.results[number], *(end.operands[number] for end in ends)}
        if is_loop:
            group |= {op.operands[number], *(region.args[number] for region in op.regions)}
        if op.results[number].type.is_slice:
            groups.append(group)
    return groups


def _factors_alone(program: Program, dots: set[Op]) -> dict[Value, Value]:
    """Transposes that are used only as factors of products on units -> their operands."""
    other_uses: set[Value] = set()
    for op in program.walk():
        other_uses.update(op.operands[2:] if op in dots else op.operands)
    transposes = [op for op in program.walk() if op.name == "slice_transpose"]
    return {op.result: op.operands[0] for op in transposes if op.result not in other_uses}
