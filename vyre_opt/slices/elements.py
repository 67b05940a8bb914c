"""Elements of slices, computed on demand: in the registers of a layout, or group by group in a loop over an open row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import gcd
from typing import Any, TypeVar

from ..ir.builder import Builder
from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.ops import OPS, SUBGROUP_SIZE
from ..ir.program import Op, Value
from ..ir.rewrite import constant_value
from ..ir.types import DataType
from .layout import STRIP, UNPACKED, Extent, Group, Layout, MatrixLayout
from .memory import Memory
from .nodes import (
    BroadcastNode,
    ColumnNode,
    ElementwiseNode,
    IotaNode,
    LoadNode,
    Node,
    RegisterNode,
    SplatNode,
)
from .schedule import STRIP_PAD, SliceSchedule

__all__ = ["Elements", "OpenLengthError", "slice_error"]

T = TypeVar("T")

AT_ONCE = 4
"""Groups of a strip that are computed together, for independent instructions."""
MAX_REGISTERS, MAX_REQUIRED = 64, 256
"""The most elements of an open row that an invocation keeps in registers, if its length is known; and if an op requires it."""


class OpenLengthError(DiagnosticError):
    """An op needs the length of a row, which only a call has."""


def slice_error(
    op: Op, message: str, help: str | None = None, kind: type[DiagnosticError] = DiagnosticError
) -> DiagnosticError:
    return kind([Diagnostic("error", f"{op.name}: {message}", op.loc, help=help)])


class Elements:
    """Computes elements of nodes.  `versions`: number of writes to each buffer so far; a load belongs to one version."""

    def __init__(self, b: Builder, schedule: SliceSchedule) -> None:
        self.b, self.neighbours, self.memory = b, schedule.neighbours, Memory(b)
        self.lanes = schedule.lanes * schedule.workgroups
        """Lanes of all workgroups that share a row."""
        self.versions: dict[str, int] = {}
        self.layouts: dict[Node, Layout] = {}
        """Layouts of nodes that differ from the default for their extents."""
        self.scopes: list[dict[Hashable, Any]] = [{}]
        """Values computed in the enclosing blocks: (node, group) -> elements, and layout and place -> group."""
        with b.at(b.program.body):
            self.lane = self.own_lane(schedule.workgroups)
            self.first: Value = self.lane
            if self.neighbours > 1:
                self.first = b.mul(self.lane, self.neighbours, name="first")

    def own_lane(self, workgroups: int) -> Value:
        """The number of an invocation among all workgroups that share a row: subgroups of the workgroups alternate."""
        b, local = self.b, self.b.local_id("x", name="lane")
        if workgroups == 1:
            return local
        rank = b.rem(b.workgroup_id("x"), workgroups)
        number = b.add(b.mul(b.subgroup_id(), workgroups), rank)
        return b.add(b.mul(number, SUBGROUP_SIZE), b.lane_id())

    # --- computed values ---------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Scope of a block: values computed in it are not available after it."""
        self.scopes.append({})
        yield
        self.scopes.pop()

    def find(self, key: Hashable) -> Any:
        return next((known[key] for known in self.scopes if key in known), None)

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        result: T | None = self.find(key)
        if result is None:
            self.scopes[-1][key] = result = make()
        return result

    # --- layouts ---------------------------------------------------------------------------------

    def layout(self, node: Node) -> Layout | None:
        """Layout of a slice; None if its elements are computed in a loop."""
        layout = self.known_layout(node)
        if layout is None or None not in node.dtype.extents or self.own_layout(node) is not None:
            return layout
        return layout if layout.registers <= MAX_REGISTERS else None

    def known_layout(self, node: Node) -> Layout | None:
        """Layout of a slice, also if a loop computes its elements; None if its length is unknown."""
        return self.own_layout(node) or Layout.of_extents(node.extents, self.lanes, self.neighbours)

    def own_layout(self, node: Node) -> Layout | None:
        """Layout that a slice has because it, or its operand, is in registers; None if its extents decide."""
        if isinstance(node, ColumnNode):
            own = self.own_layout(node.source)
            return own if own is not None and own.columns == 1 else None
        return node.layout.by_lanes if isinstance(node, RegisterNode) else self.layouts.get(node)

    def layout_of(self, extents: Sequence[int]) -> Layout:
        return Layout.of(extents, self.lanes, self.neighbours)

    def required_layout(self, op: Op, node: Node) -> Layout:
        """The layout of a slice for an op that needs it in registers.  Raises DiagnosticError if that is impossible."""
        layout = self.known_layout(node)
        if layout is None:
            raise slice_error(
                op,
                f"takes a slice whose elements are held by a workgroup, and {node.dtype} is of any length",
                "take a block of a fixed size, or give the buffer a fixed extent",
                OpenLengthError,
            )
        if layout.registers > MAX_REQUIRED:
            raise slice_error(
                op,
                f"takes a slice whose elements are held by a workgroup, and these are more than {MAX_REQUIRED} for each of "
                f"{self.lanes} invocations",
                "take a block of it at a time, in a loop",
            )
        return layout

    def groups(self, layout: Layout) -> list[Group]:
        """The groups of an invocation, row by row."""
        return [self.group(layout, *place) for place in layout.places]

    def group(self, layout: Layout, i: int, j: int) -> Group:
        return self.cached((layout, i, j), lambda: self.new_group(layout, i, j))

    def new_group(self, layout: Layout, i: int, j: int) -> Group:
        b, row_lanes, column_lanes = self.b, layout.row_lanes, layout.column_lanes
        row: Value | None = None
        inside: list[Value] | None = None
        columns: list[Value] = [b.const(0)]
        is_whole = True
        if layout.rows > 1:
            row = self.offset_by(self.first_row(layout), i * (row_lanes // layout.bands))
            if (i + 1) * row_lanes > layout.rows:
                inside = [b.lt(row, layout.rows)] * layout.width
        if layout.columns > 1:
            step = column_lanes * layout.width
            first = self.offset_by(self.first_column(layout), j * step)
            columns = [self.offset_by(first, k) for k in range(layout.width)]
            if layout.open is not None and (j + 1) * step > layout.open.least:
                is_whole = layout.width == 1
                inside = [b.lt(each, layout.open.value) for each in columns]
            elif (j + 1) * step > layout.columns:
                is_whole = layout.columns % layout.width == 0
                ends = columns[-1:] if is_whole else columns  # of which each is in bounds if the last one is
                below: list[Value] = [b.lt(each, layout.columns) for each in ends]
                if inside is not None:
                    below = [b.and_(inside[0], each) for each in below]
                inside = below * layout.width if is_whole else below
        return Group(b, row, columns, inside, is_whole, layout, (i, j))

    def offset_by(self, value: Value, distance: int) -> Value:
        return self.b.add(value, distance) if distance else value

    def lane_of_rows(self, layout: Layout) -> Value:
        """Row of this invocation among the rows of invocations."""
        b, shift = self.b, layout.column_lanes.bit_length() - 1
        if shift == 0:
            return self.lane
        if not layout.is_paired:
            return self.cached(("row lane", shift), lambda: b.shr(self.lane, shift))

        def paired() -> Value:
            return b.or_(b.shl(b.shr(self.lane, shift + 1), 1), b.and_(self.lane, 1))

        return self.cached(("row lane of pairs", shift), paired)

    def row_in_band(self, layout: Layout) -> Value:
        """First row of an invocation, within the band of its subgroup."""
        shift = layout.column_lanes.bit_length() - 1
        return self.cached(("row in band", shift), lambda: self.b.shr(self.b.lane_id(), shift))

    def first_row(self, layout: Layout) -> Value:
        """First row of an invocation's first group."""
        if layout.bands == 1:
            return self.lane_of_rows(layout)
        band = self.band(layout.rows // layout.bands)
        key = "first row", layout.column_lanes, layout.rows, layout.bands
        return self.cached(key, lambda: self.b.add(band, self.row_in_band(layout)))

    def band(self, rows: int) -> Value:
        """First row of a subgroup's band of `rows` rows."""
        return self.cached(("band", rows), lambda: self.b.mul(self.b.subgroup_id(), rows, name="band"))

    def lane_of_columns(self, layout: Layout) -> Value:
        if layout.column_lanes == self.lanes:
            return self.lane
        b, first = self.b, int(layout.is_paired)
        return self.cached(
            ("column lane", layout.column_lanes, layout.is_paired),
            lambda: b.and_(b.shr(self.lane, first) if first else self.lane, layout.column_lanes - 1),
        )

    def first_column(self, layout: Layout) -> Value:
        """First column of an invocation's first group."""
        if layout.column_lanes == self.lanes and layout.width == self.neighbours:
            return self.first
        lane = self.lane_of_columns(layout)
        if layout.width == 1:
            return lane
        key = "first column", layout.column_lanes, layout.is_paired, layout.width
        return self.cached(key, lambda: self.b.mul(lane, layout.width))

    @contextmanager
    def by_owners(self, layout: Layout) -> Iterator[None]:
        """Guard a block so that one of the invocations with equal elements runs it."""
        copies: list[Value] = []
        if layout.rows == 1 and layout.row_lanes > 1:
            copies.append(self.lane_of_rows(layout))
        if layout.columns == 1 and layout.column_lanes > 1:
            copies.append(self.lane_of_columns(layout))
        if not copies:
            yield
            return
        b = self.b
        number = copies[0] if len(copies) == 1 else self.lane
        with b.if_(b.eq(number, 0)), self.scope():
            yield

    # --- elements --------------------------------------------------------------------------------

    def of(self, node: Node, group: Group) -> list[Value]:
        """The elements of a group; an element that does not exist may be any value."""
        pending = [(node, group)]
        while pending:
            current, at = pending[-1]
            if self.find((current, at)) is not None:
                pending.pop()
                continue
            missing = [source for source in self.sources(current, at) if self.find(source) is None]
            if missing:
                pending += missing
            else:
                self.scopes[-1][current, at] = self.compute(current, at)
                pending.pop()
        elements: list[Value] = self.find((node, group))
        return elements

    def of_layout(self, node: Node, layout: Layout) -> list[list[Value]]:
        """The elements of an invocation's groups, row by row."""
        return [self.of(node, group) for group in self.groups(layout)]

    def sources(self, node: Node, group: Group) -> list[tuple[Node, Group]]:
        """Nodes and groups whose elements a group is computed from."""
        if isinstance(node, ElementwiseNode):
            return [(v, group) for v in node.operands if isinstance(v, Node)]
        if isinstance(node, BroadcastNode):
            return [(node.source, self.source_group(node, group))]
        if isinstance(node, ColumnNode):
            return [(node.source, group)]
        if isinstance(node, LoadNode) and self.is_current(node):
            return [(v, group) for v in node.indices if isinstance(v, Node)]
        return []

    def source_group(self, node: BroadcastNode, group: Group) -> Group:
        """The group of a broadcast's source for a group of its result."""
        extents = [extent.number for extent in node.source.extents]
        if group.layout is None and (group.row is not None or extents[-1] != 1):
            own_row = group.row if len(extents) == 2 and extents[0] != 1 else None
            own_columns = group.columns if extents[-1] != 1 else [self.b.const(0)]
            return self.cached(
                (group, own_row is None, extents[-1] == 1),
                lambda: replace(group, row=own_row, columns=own_columns),
            )
        layout = group.layout or Layout(1, 1, 1, self.lanes)
        is_row = len(node.extents) == 2 or layout.columns > 1
        rows = layout.rows if len(extents) == 2 and extents[0] != 1 else 1
        columns = layout.columns if is_row and extents[-1] != 1 else 1
        i, j = group.place
        return self.group(layout.with_extents(rows, columns), i if rows > 1 else 0, j if columns > 1 else 0)

    def compute(self, node: Node, group: Group) -> list[Value]:
        b = self.b
        if isinstance(node, SplatNode):
            return [node.value] * group.width
        if isinstance(node, IotaNode):
            positions = [group.position(k, len(node.extents))[node.axis] for k in range(group.width)]
            return [self.from_start(node.start, position) for position in positions]
        if isinstance(node, RegisterNode):
            if node.layout == group.layout:
                return list(node.values[group.place])
            return self.of(self.convert_layout(node, _layout(group)), group)
        if isinstance(node, BroadcastNode | ColumnNode):
            values = self.of(*self.sources(node, group)[0])
            return values * group.width if len(values) < group.width else values
        if isinstance(node, ElementwiseNode):
            columns = [self.of(v, group) if isinstance(v, Node) else [v] * group.width for v in node.operands]
            before, b.loc = b.loc, node.op.loc
            computed = [
                b.emit(node.op.definition, operands, [node.dtype.element], node.op.attrs).result
                for operands in zip(*columns, strict=True)
            ]
            b.loc = before
            return computed
        assert isinstance(node, LoadNode)
        return self.load(node, group)

    def zero(self, dtype: DataType) -> Value:
        """Value for an element that does not exist."""
        return self.b.const(False if dtype.is_bool else 0, dtype)

    def cast(self, value: Value, dtype: DataType) -> Value:
        return value if value.type is dtype else self.b.cast(value, dtype)

    # --- from memory -----------------------------------------------------------------------------

    def is_current(self, node: LoadNode) -> bool:
        return self.versions.get(node.buffer, 0) == node.version

    def load(self, node: LoadNode, group: Group) -> list[Value]:
        b = self.b
        if not self.is_current(node):
            registers: RegisterNode | None = self.find(("kept", node))
            if registers is None:
                raise slice_error(
                    node.op,
                    f"@{node.buffer} is written before this slice is computed with for the last time",
                    "load it again, or write to another buffer",
                )
            return self.of(registers, group)
        before, b.loc = b.loc, node.op.loc
        zero, fill = self.zero(node.dtype.element), node.fill

        def element(k: int) -> Value:
            return b.load(node.buffer, self.place(node, group, k))

        if fill is None:
            values = group.guard(element, lambda: zero)
        else:
            places = [self.place(node, group, k) for k in range(group.width)]
            values = self.within(group, node.buffer, places, len(node.extents)).guard(element, lambda: fill)
        b.loc = before
        return values

    def within(self, group: Group, buffer: str, places: Sequence[Sequence[Value]], rank: int) -> Group:
        """The part of a group that lies inside a buffer.  `places`: indices of its elements."""
        b, last = self.b, self.b.program.buffers[buffer].dimensions - 1
        inside = [self.is_below(place[last], self.length(buffer, last)) for place in places]
        length, is_all_inside = self.length(buffer, last), inside[0]
        if group.width > 1:  # decided by the first element, against the length less the width
            is_all_inside = self.is_below(places[0][last], b.sub_sat(length, group.width - 1))
        if rank == 2:
            row = self.is_below(places[0][last - 1], self.length(buffer, last - 1))
            inside, is_all_inside = [b.and_(row, each) for each in inside], b.and_(row, is_all_inside)
        if group.inside is not None:
            inside = [b.and_(a, c) for a, c in zip(group.inside, inside, strict=True)]
            is_all_inside = b.and_(group.inside[0] if group.is_whole else group.inside[-1], is_all_inside)
        return replace(group, inside=inside, whole=is_all_inside, is_whole=group.width == 1)

    def is_below(self, index: Value, length: Value) -> Value:
        """A condition that an index is below a bound; an index before the first element has wrapped around to a large one."""
        unsigned = DataType.U64 if index.type.bits == 64 else DataType.U32
        return self.b.lt(self.cast(index, unsigned), self.cast(length, unsigned))

    def place(self, node: LoadNode, group: Group, k: int) -> tuple[Value, ...]:
        """The indices of an element in its buffer."""
        indices = [self.of(v, group)[k] if isinstance(v, Node) else v for v in node.indices]
        if node.is_gather:
            return tuple(indices)
        return self.offset(indices, group.position(k, len(node.extents)))

    def offset(self, indices: Sequence[Value], position: Sequence[Value]) -> tuple[Value, ...]:
        """The indices of an element at `position` of a slice that begins at `indices`."""
        outer = len(indices) - len(position)
        ends = zip(indices[outer:], position, strict=True)
        return (*indices[:outer], *(self.from_start(start, at) for start, at in ends))

    def wide(self, indices: Sequence[Value], rank: int) -> list[Value]:
        """The indices of a slice with `rank` extents, widened so that the indices of its elements fit."""
        first, types = len(indices) - rank, (DataType.I32, DataType.U32)
        return [
            self.cast(index, types[index.type.kind == "uint"])
            if number >= first and (index.type.bits or 0) < 32
            else index
            for number, index in enumerate(indices)
        ]

    def from_start(self, start: Value, position: Value) -> Value:
        position = self.cast(position, start.type)
        return position if constant_value(start) == 0 else self.b.add(start, position)

    def length(self, buffer: str, dimension: int) -> Value:
        """An extent of a buffer."""
        is_row = self.b.program.buffers[buffer].dimensions == 1
        return self.b.len(buffer, dimension=None if is_row else dimension)

    def keep(self, node: LoadNode) -> None:
        """Load a slice to registers before its buffer is written."""
        layout = self.layout(node)
        if layout is None or not self.is_current(node) or self.find(("kept", node)) is not None:
            return
        values = dict(zip(layout.places, self.of_layout(node, layout), strict=True))
        self.scopes[-1]["kept", node] = RegisterNode(node.dtype, node.extents, layout, values)

    # --- through workgroup memory ------------------------------------------------------------------

    def convert_layout(self, node: RegisterNode, layout: Layout) -> RegisterNode:
        """A slice in registers, converted to another layout."""

        def move() -> RegisterNode:
            if isinstance(node.layout, MatrixLayout) and layout == node.layout.by_lanes:
                return self.by_lanes(node, node.layout)
            if isinstance(node.layout, Layout) and layout == replace(node.layout, open=layout.open):
                return replace(node, layout=layout)  # both lengths are equal
            return self.exchange(node, layout, node.extents, node.dtype, is_transposed=False)

        return self.cached((node, layout), move)

    def by_lanes(self, node: RegisterNode, layout: MatrixLayout) -> RegisterNode:
        """Unpack a block from matrices to the registers of lanes."""
        b, values = self.b, dict[tuple[int, int], Sequence[Value]]()
        for i, j in layout.places:
            lanes = b.matrix_unpack(node.values[i, j][0])
            for number, place in enumerate(layout.unpacked(i, j)):
                values[place] = [b.extract(lanes, number * UNPACKED + k) for k in range(UNPACKED)]
        return RegisterNode(node.dtype, node.extents, layout.by_lanes, values)

    def matrices(self, node: Node, layout: MatrixLayout) -> list[Value]:
        """Pack a block into matrices, place by place."""
        if isinstance(node, RegisterNode) and node.layout == layout:
            return [node.values[place][0] for place in layout.places]
        number = constant_value(node.value) if isinstance(node, SplatNode) else None
        if number is not None:
            dtype = layout.register_type(node.dtype.element)
            return [self.b.emit(OPS["const"], (), [dtype], {"value": number}).result] * layout.registers
        lanes = layout.by_lanes
        return [
            self.pack(node, [self.group(lanes, *place) for place in layout.unpacked(i, j)], layout.part)
            for i, j in layout.places
        ]

    def pack(self, node: Node, groups: Sequence[Group], columns: int) -> Value:
        """A matrix of 16 rows and `columns` columns from the elements of some groups.

        A conversion from f32 applies to the whole matrix, since GPUs convert pairs."""
        dtype = DataType.matrix(STRIP, columns, node.dtype.element, "acc")
        if (
            isinstance(node, ElementwiseNode)
            and node.op.name == "cast"
            and isinstance(node.operands[0], Node)
        ):
            source = node.operands[0]
            if source.dtype.element is DataType.F32:
                return self.b.cast(self.pack(source, groups, columns), dtype)
        elements = [value for group in groups for value in self.of(node, group)]
        return self.b.matrix_pack(self.b.vector(*elements), dtype)

    def strip(self, element: DataType, layout: MatrixLayout) -> str:
        """Workgroup memory for one matrix of each subgroup."""
        return self.memory.tile("strip", element, (layout.subgroups, STRIP, layout.part + STRIP_PAD))

    def to_strip(self, matrix: Value, place: str) -> None:
        b = self.b
        b.barrier("subgroup")
        b.matrix_store(matrix, place, (b.subgroup_id(), b.const(0), b.const(0)))
        b.barrier("subgroup")

    def strips(
        self, node: Node, source: RegisterNode, layout: MatrixLayout
    ) -> Iterator[list[tuple[Group, list[Value]]]]:
        """Elements of a block that is computed from one in matrices: AT_ONCE groups at a time, in a loop for each matrix."""
        b, place = self.b, self.strip(source.dtype.element, layout)
        rounds = STRIP * layout.part // (layout.neighbours * SUBGROUP_SIZE)
        for i, j in layout.places:
            self.to_strip(source.values[i, j][0], place)
            with b.for_(0, rounds, gcd(rounds, AT_ONCE), dtype=DataType.U32) as loop, self.scope():
                groups: list[Group] = []
                for ahead in range(gcd(rounds, AT_ONCE)):
                    group, values = self.group_of_strip(
                        layout, (i, j), self.offset_by(loop.index, ahead), place
                    )
                    self.scopes[-1][source, group] = values
                    groups.append(group)
                yield [(group, self.of(node, group)) for group in groups]

    def group_of_strip(
        self, layout: MatrixLayout, at: tuple[int, int], number: Value, place: str
    ) -> tuple[Group, list[Value]]:
        """The group of a lane in a round over a matrix, and the matrix's elements there."""
        b, across = self.b, layout.part // layout.neighbours
        number = b.add(b.lane_id(), b.mul(number, SUBGROUP_SIZE))
        line, first = b.div(number, across), b.mul(b.rem(number, across), layout.neighbours)
        columns = [self.offset_by(first, k) for k in range(layout.neighbours)]
        row = b.add(self.offset_by(self.band(layout.band), at[0] * STRIP), line)
        places = [self.offset_by(column, at[1] * layout.part) for column in columns]
        values: list[Value] = [b.load(place, (b.subgroup_id(), line, column)) for column in columns]
        return Group(b, row, places, None, is_whole=True), values

    def exchange(
        self, node: Node, layout: Layout, extents: Sequence[Extent], dtype: DataType, is_transposed: bool
    ) -> RegisterNode:
        """A slice in another layout, or its transpose, through workgroup memory."""
        b, rows, columns = self.b, layout.rows, layout.columns
        if is_transposed:
            rows, columns = columns, rows
        place = self.write_scratch("moved", node, rows * columns)
        zero = self.zero(dtype.element)
        values: dict[tuple[int, int], Sequence[Value]] = {}
        for group in self.groups(layout):

            def element(k: int, group: Group = group) -> Value:
                row, column = group.position(k, 2)
                at = (column, row) if is_transposed else (row, column)
                return b.load(place, self.linear(at[0], at[1], columns))

            values[group.place] = group.guard(element, lambda: zero)
        return RegisterNode(dtype, extents, layout, values)

    def write_scratch(self, use: str, node: Node, count: int) -> str:
        """Write the elements of a slice to workgroup memory, row by row; return the buffer."""
        layout = self.known_layout(node)
        assert layout is not None
        place, columns = self.memory.of(use, node.dtype.element, count), layout.columns
        self.write(node, layout, place, lambda row, column: self.linear(row, column, columns))
        return place

    def write(
        self,
        node: Node,
        layout: Layout,
        place: str,
        at: Callable[[Value, Value], Value | tuple[Value, ...]],
    ) -> None:
        """Store the elements of a slice to memory, each `at` the indices of its row and column, between two barriers."""
        columns = self.of_layout(node, layout)
        self.b.barrier()
        with self.by_owners(layout):
            for group, values in zip(self.groups(layout), columns, strict=True):

                def put(k: int, group: Group = group, values: Sequence[Value] = values) -> None:
                    self.b.store(values[k], place, at(*group.position(k, 2)))

                group.guard(put, None)
        self.b.barrier()

    def linear(self, row: Value, column: Value, columns: int) -> Value:
        """The number of an element, row by row."""
        if columns == 1:
            return row
        b = self.b
        if constant_value(row) == 0:
            return column
        return b.add(b.mul(row, columns), column)


def _layout(group: Group) -> Layout:
    assert group.layout is not None
    return group.layout
