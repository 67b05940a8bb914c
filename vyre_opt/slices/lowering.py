"""Lowering of slices: operations of a workgroup on a row become operations of its invocations on elements.

    %row = slice_load @x[%r, 0] : slice<?xf32>        nothing: each element is loaded where it is used
    %sum = slice_reduce<add> %row[0] : f32            for %base = 0 to %n step 4096 iter(sums) {
                                                        for the groups of 4 that the invocation has from %base on:
                                                          sums + @x[%r, %p], as far as %p < %n
                                                      }
                                                      the sums of all invocations, see sums
    slice_store %y, @y[%r, 0] : slice<?xf32>          a loop over groups, with a store of each element

All invocations compute the scalar values redundantly; the first one does the scalar writes.  A slice of fixed extents needs no
loops: its elements are in registers, see layout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace

from ..ir.builder import Builder
from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.loops import inits
from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Block, Op, Program, Value
from ..ir.rewrite import constant_value
from ..ir.types import DataType
from ..ir.unlike_extents import unlike_extents
from ..records import dataclass
from .copies_ahead import CopiesAhead
from .elements import Elements, slice_error
from .layout import FOLDED, AnyLayout, Extent, Group, Layout, MatrixLayout
from .masks import whole_mask
from .nodes import (
    BroadcastNode,
    ColumnNode,
    ElementwiseNode,
    IotaNode,
    LoadNode,
    Node,
    RegisterNode,
    SplatNode,
    loads,
)
from .row_lengths import Bounds, Row, asserted_lengths
from .scans import Scan
from .schedule import SliceSchedule, may_share
from .sums import Fold
from .units import Units, computed_of

__all__ = ["lower_in_place", "lower_slices"]

_IDS = {
    "workgroup_id": "workgroup_id",
    "num_workgroups": "num_workgroups",
    "global_id": "workgroup_id",
    "global_size": "num_workgroups",
}
_OF_ONE = {"local_id": 0, "workgroup_size": 1, "lane_id": 0, "subgroup_id": 0, "num_subgroups": 1}
"""Ids and sizes in a workgroup of one invocation, which a program with slices describes."""
ALIGNED = 1024
"""The largest alignment in bytes of a buffer of workgroup memory."""


def lower_slices(program: Program, schedule: SliceSchedule) -> Program:
    """The program for workgroups of several invocations.  Raises DiagnosticError for ops that cannot be lowered, located."""
    return _lower(program, schedule)[0]


def _lower(program: Program, schedule: SliceSchedule) -> tuple[Program, Mapping[Op, Sequence[AnyLayout]]]:
    """The lowered program, and the layouts of the slices that each loop carries."""
    copy = replace(program, workgroup=(schedule.lanes, 1, 1), buffers=dict(program.buffers), body=Block())
    if schedule.workgroups > 1:
        if program.grid is None or not may_share(program):
            raise _sharing_error(program)
        copy.cluster, copy.grid = (
            schedule.workgroups,
            (program.grid[0] * schedule.workgroups, *program.grid[1:]),
        )
    lowering = _Lowering(program, Builder.on(copy), schedule)
    lowering.ops(program.body.ops)
    return copy, lowering.loop_layouts


def lower_in_place(
    program: Program, schedule: SliceSchedule, memory: int = 0
) -> tuple[SliceSchedule, Mapping[Op, Sequence[AnyLayout]]]:
    """Lower a program in place, with fewer stages if they would need more than `memory` bytes of workgroup memory (0: any).

    Returns the schedule, and the layouts of the slices that each loop carries.
    """
    lowered, loop_layouts = _lower(program, schedule)
    while memory and schedule.stages > 1 and _workgroup_bytes(lowered) > memory:
        schedule = replace(schedule, stages=schedule.stages - 1)
        lowered, loop_layouts = _lower(program, schedule)
    program.workgroup, program.body, program.buffers = lowered.workgroup, lowered.body, lowered.buffers
    program.cluster, program.grid = lowered.cluster, lowered.grid
    return schedule, loop_layouts


def _workgroup_bytes(program: Program) -> int:
    """Upper bound of the bytes of workgroup memory, padding for alignment included."""
    sizes = [
        (buffer.count or 0) * (buffer.dtype.size_bytes or 0)
        for buffer in program.buffers.values()
        if buffer.is_workgroup
    ]
    return sum(-(-size // ALIGNED) * ALIGNED for size in sizes)


def _sharing_error(program: Program) -> DiagnosticError:
    message = f"the rows of @{program.name} cannot be shared by workgroups"
    help = "give it a grid, and rows whose sums are made before anything is written, outside of loops and branches"
    return DiagnosticError([Diagnostic("error", message, program.loc, help=help)])


@dataclass
class _RegionValues:
    """Values that the regions of an op yield.  `slices`: layouts and extents of slices, by number; the first region decides."""

    slices: dict[int, tuple[AnyLayout, Sequence[Extent]]] = field(default_factory=dict)
    ahead: Sequence[Value] = ()
    """Values of CopiesAhead that the lowered loop carries after them."""


class _Lowering:
    """`values`: scalar value of the program -> lowered value.  `nodes`: slice -> its node."""

    def __init__(self, program: Program, b: Builder, schedule: SliceSchedule) -> None:
        self.b, self.elements, self.workgroups = b, Elements(b, schedule), schedule.workgroups
        self.lanes = self.elements.lanes
        self.units = Units(self.elements, program, schedule)
        self.values: dict[Value, Value] = {}
        self.nodes: dict[Value, Node] = {}
        self.rules = {
            "slice_load": self.load,
            "slice_gather": self.gather,
            "slice_store": self.store,
            "slice_broadcast": self.broadcast,
            "slice_iota": self.iota,
            "slice_reduce": self.reduce,
            "slice_scan": self.scan,
            "slice_transpose": self.transpose,
            "slice_dot": self.dot,
            "slice_len": self.length,
            "yield": self.lower_yield,
        }
        self.reduced_rows = _reduced_rows(program)
        self.of_rows = {
            value
            for value in computed_of(program, _sums_of_rows(program))
            if value.type.extents[0] in self.reduced_rows
        }
        self.used_values = {value for op in program.walk() for value in op.operands}
        self.of_control = _of_control(program)
        self.shared_buffers = _shared_buffers(program.body)
        self.last_uses = _last_uses(program)
        self.row_lengths = asserted_lengths(program)
        self.number = 0
        """Number of the op that is being lowered, in program order."""
        self.loads: dict[str, list[tuple[Value, LoadNode]]] = {}
        self.region_values: list[_RegionValues] = []
        self.loop_layouts: dict[Op, Sequence[AnyLayout]] = {}

    # --- ops in order ----------------------------------------------------------------------------

    def ops(self, ops: Sequence[Op]) -> None:
        for op in ops:
            self.b.loc = op.loc
            self.number += 1
            self.op(op)

    def op(self, op: Op) -> None:
        rule = self.rules.get(op.definition.format)
        if rule is not None:
            rule(op)
        elif op.results and op.results[0].type.is_slice and not op.regions and op.definition.is_pure:
            self.elementwise(op)
        elif op.name in _OF_ONE:
            self.values[op.result] = self.b.const(_OF_ONE[op.name], op.result.type)
        elif op.name == "barrier" and op.attrs["scope"] in ("subgroup", "workgroup"):
            pass
        elif op.definition.effects & {"subgroup", "workgroup", "wait"}:
            raise slice_error(
                op, "is of several invocations, and a workgroup of slices has one as it is written"
            )
        elif op.definition.effects & {"write", "print"}:
            self.once(op)
        elif op.regions:
            self.nest(op)
        else:
            self.copy_op(op)

    def copy_op(self, op: Op) -> Op:
        if op.name in _IDS:
            self.values[op.result] = self.id_of(_IDS[op.name], op.attrs["axis"])
            return op
        operands, types = tuple(self.of(v) for v in op.operands), [v.type for v in op.results]
        new = self.b.emit(op.definition, operands, types, op.attrs)
        self.values.update(zip(op.results, new.results, strict=True))
        return new

    def id_of(self, name: str, axis: str) -> Value:
        """Id of the original workgroup; workgroups that share a row have equal ids."""
        value: Value = getattr(self.b, name)(axis)
        return self.b.div(value, self.workgroups) if axis == "x" and self.workgroups > 1 else value

    def of(self, value: Value) -> Value:
        return self.values[value]

    # --- regions -------------------------------------------------------------------------------------

    def nest(self, op: Op) -> None:
        """Lower an op with regions: slices that it carries or yields become their register values."""
        is_loop, forwarded = op.name in ("for", "while"), _RegionValues()
        overwritten = {a.attrs["buffer"] for a in op.walk() if "write" in a.definition.effects}
        for buffer in sorted(overwritten):
            self.keep(buffer)
            if is_loop:  # from the second round on, the buffer has changed since earlier loads
                self.overwrite(buffer)
        operands: list[Value] = []
        first = len(op.operands) - len(inits(op)) if is_loop else len(op.operands)
        for number, value in enumerate(op.operands):
            if value.type.is_slice:
                node = self.nodes[value]
                layout = self.forwarded_layout(op, value, node)
                forwarded.slices[number - first] = layout, node.extents
                operands += self.register_values(node, layout)
            else:
                operands.append(self.of(value))
        self.region_values.append(forwarded)
        with self.units.hoist_factors(op, self.nodes):
            ahead = CopiesAhead.of_loop(self.units, op, self.of)
            if ahead is not None:
                forwarded.ahead = ahead.begin()
                operands += forwarded.ahead
            regions = tuple(self.region(each, len(each.args) - len(op.results), ahead) for each in op.regions)
        self.region_values.pop()
        if is_loop:
            self.loop_layouts[op] = [layout for _, (layout, _) in sorted(forwarded.slices.items())]
        types: list[DataType] = []
        for number, result in enumerate(op.results):
            slices = forwarded.slices.get(number)
            types += (
                [result.type]
                if slices is None
                else [slices[0].register_type(result.type.element)] * _count(slices[0])
            )
        types += [value.type for value in forwarded.ahead]
        new = self.b.emit(op.definition, tuple(operands), types, op.attrs, regions)
        self.receive(op.results, new.results, forwarded, 0)

    def forwarded_layout(self, op: Op, value: Value, node: Node) -> AnyLayout:
        """Layout in which a slice enters and leaves regions: matrices if products on units add to it."""
        if value in self.units.sums:
            return self.units.layout(node.extents)
        if value in self.units.tiled_sums:
            return self.units.sums_by_lanes([extent.number or 0 for extent in node.extents])
        if value in self.of_rows:
            return self.layout_of_rows(node.extents[0].number or 0)
        return self.elements.required_layout(op, node)

    def layout_of_rows(self, rows: int) -> Layout:
        """Layout of a reduction's result for each row of a block: the lanes of a row have its value."""
        columns = self.reduced_rows[rows]
        block = [self.fixed(rows), self.fixed(columns)]
        if (rows, columns) in self.units.blocks:
            return self.units.layout(block).by_lanes.with_extents(rows, 1)
        return self.elements.layout_of([rows, columns]).with_extents(rows, 1)

    def register_values(self, node: Node, layout: AnyLayout) -> list[Value]:
        """Register values of a slice in an invocation, place by place."""
        if isinstance(layout, MatrixLayout):
            return self.elements.matrices(node, layout)
        return _flat(self.elements.of_layout(node, layout))

    def region(self, region: Block, first: int, ahead: CopiesAhead | None) -> Block:
        """Lower a region.  `first`: number of its first argument that the op carries."""
        forwarded, args = self.region_values[-1], list[Value]()
        for number, arg in enumerate(region.args):
            slices = forwarded.slices.get(number - first)
            dtype = arg.type if slices is None else slices[0].register_type(arg.type.element)
            args += [self.b.fresh(dtype) for _ in range(1 if slices is None else _count(slices[0]))]
        args += [self.b.fresh(value.type) for value in forwarded.ahead]
        block = Block(tuple(args))
        with self.b.at(block), self.elements.scope():
            self.receive(region.args, args, forwarded, first)
            if ahead is not None:
                ahead.enter(args[0], args[len(args) - len(forwarded.ahead) :])
            self.ops(region.ops[:-1])
            if ahead is not None:
                forwarded.ahead = ahead.end()
            self.ops(region.ops[-1:])
        return block

    def receive(
        self, values: Sequence[Value], flat: Sequence[Value], forwarded: _RegionValues, first: int
    ) -> None:
        """Bind the op's results or region arguments to lowered values and nodes."""
        remaining = iter(flat)
        for number, value in enumerate(values):
            slices = forwarded.slices.get(number - first)
            if slices is None:
                self.values[value] = next(remaining)
                continue
            layout, extents = slices
            registers = {place: [next(remaining) for _ in range(layout.width)] for place in layout.places}
            self.nodes[value] = RegisterNode(value.type, extents, layout, registers)

    def lower_yield(self, op: Op) -> None:
        forwarded, flat = self.region_values[-1], list[Value]()
        for number, value in enumerate(op.operands):
            if not value.type.is_slice:
                flat.append(self.of(value))
                continue
            node = self.nodes[value]
            if number not in forwarded.slices:
                forwarded.slices[number] = self.forwarded_layout(op, value, node), node.extents
            layout, extents = forwarded.slices[number]
            self.same_extents(op, extents, node.extents)
            flat += self.register_values(node, layout)
        self.b.emit(op.definition, (*flat, *forwarded.ahead), (), op.attrs)

    # --- effects of one invocation -------------------------------------------------------------------

    def once(self, op: Op) -> None:
        """Let one invocation write or print; all invocations get its result."""
        with self.write_scope(op.attrs.get("buffer")):
            if not self.used_values.isdisjoint(op.results):
                make = self.elements.memory.from_first
                self.values[op.result] = make(op.result.type, lambda: self.copy_op(op).result)
                return
            with self.b.if_(self.b.eq(self.elements.lane, 0)), self.elements.scope():
                self.copy_op(op)

    @contextmanager
    def write_scope(self, buffer: str | None) -> Iterator[None]:
        """Order a write after earlier accesses of other invocations, and before later ones."""
        if buffer is not None:
            self.keep(buffer)
        if buffer in self.shared_buffers:
            self.b.barrier()
        yield
        if buffer is not None:
            self.overwrite(buffer)
        if buffer in self.shared_buffers:
            self.b.barrier()

    def keep(self, buffer: str) -> None:
        """Load slices with later uses to registers before their buffer is written."""
        for value, node in self.loads.get(buffer, ()):
            if self.last_uses.get(value, 0) > self.number:
                self.elements.keep(node)

    def overwrite(self, buffer: str) -> None:
        versions = self.elements.versions
        versions[buffer] = versions.get(buffer, 0) + 1

    # --- slices --------------------------------------------------------------------------------------

    def extents(self, op: Op, dtype: DataType, indices: Sequence[Value]) -> list[Extent]:
        """Extents of a slice of a buffer that begins at `indices`."""
        shape = self.b.program.buffers[op.attrs["buffer"]].shape
        first = len(shape) - len(dtype.extents)
        return [
            self.fixed(number) if number is not None else self.rest(op, first + axis, indices[first + axis])
            for axis, number in enumerate(dtype.extents)
        ]

    def starts(self, op: Op, dtype: DataType) -> list[Value]:
        """The indices of a slice of a buffer, widened so that the indices of its elements fit."""
        return self.elements.wide([self.of(v) for v in op.indices], len(dtype.extents))

    def rest(self, op: Op, dimension: int, start: Value) -> Extent:
        """The number of elements of a buffer's dimension from an index on."""
        b, name, begin = self.b, op.attrs["buffer"], constant_value(start)
        total = b.program.buffers[name].shape[dimension]
        if total is not None and begin is not None and begin <= total:
            return self.fixed(total - begin)
        length = self.elements.length(name, dimension)
        row = self.whole_row(name, dimension, length)
        if begin == 0:
            return row
        rest = b.sub(length, b.cast(start, DataType.U32))
        return Extent(rest, None, (name, dimension, start), most=row.most)

    def whole_row(self, buffer: str, dimension: int, length: Value) -> Extent:
        row = Row(buffer, dimension)
        return Extent(length, None, row, *self.row_lengths.get(row, Bounds()))

    def fixed(self, number: int) -> Extent:
        return Extent(self.b.const(number), number, number)

    def load(self, op: Op) -> None:
        indices = self.starts(op, op.result.type)
        fill = self.of(op.operands[-1]) if op.attrs["edge"] == "filled" else None
        self.add_load(op, self.extents(op, op.result.type, indices), indices, fill)

    def gather(self, op: Op) -> None:
        extents = self.common_extents(op, [self.nodes[v] for v in op.operands if v.type.is_slice])
        indices = [self.nodes[v] if v.type.is_slice else self.of(v) for v in op.operands]
        self.add_load(op, extents, indices, None)

    def add_load(
        self, op: Op, extents: Sequence[Extent], indices: Sequence[Node | Value], fill: Value | None
    ) -> None:
        name: str = op.attrs["buffer"]
        version = self.elements.versions.get(name, 0)
        node = self.nodes[op.result] = LoadNode(op.result.type, extents, op, indices, fill, version)
        self.loads.setdefault(name, []).append((op.result, node))

    def broadcast(self, op: Op) -> None:
        value, dtype = op.operands[0], op.result.type
        if None in dtype.extents:
            extents = list(self.nodes[op.operands[1]].extents)
        else:
            extents = [self.fixed(number or 0) for number in dtype.extents]
        if not value.type.is_slice:
            self.nodes[op.result] = SplatNode(dtype, extents, self.of(value))
            return
        source = self.nodes[value]
        self.same_extents(op, source.extents, extents[-len(source.extents) :])
        if value.type.extents == dtype.extents:
            self.nodes[op.result] = source
        else:
            node = self.nodes[op.result] = BroadcastNode(dtype, extents, source)
            layout = self.elements.own_layout(source)
            if layout is not None and len(source.extents) == 2:
                rows, columns = (extent.number for extent in extents)
                if rows is not None and columns is not None:
                    self.elements.layouts[node] = layout.with_extents(rows, columns)

    def iota(self, op: Op) -> None:
        dtype = op.result.type
        if None in dtype.extents:
            extents = [self.iota_extent(self.of(op.operands[1]))]
        else:
            extents = [self.fixed(number or 0) for number in dtype.extents]
        self.nodes[op.result] = IotaNode(dtype, extents, self.of(op.operands[0]), _iota_axis(dtype))

    def iota_extent(self, length: Value) -> Extent:
        """The extent of an iota whose length the program computes."""
        number, owner = constant_value(length), length.owner
        if number is not None:
            return self.fixed(number)
        if isinstance(owner, Op) and owner.name == "len":
            dimension = owner.attrs.get("dimension") or 0
            total = self.b.program.buffers[owner.attrs["buffer"]].shape[dimension]
            if total is None:
                return self.whole_row(owner.attrs["buffer"], dimension, length)
            return self.fixed(total)
        return Extent(length, None, length)

    def length(self, op: Op) -> None:
        self.values[op.result] = self.nodes[op.operands[0]].extents[op.attrs["axis"]].value

    def elementwise(self, op: Op) -> None:
        nodes = [self.nodes[v] for v in op.operands if v.type.is_slice]
        extents = self.common_extents(op, nodes)
        operands = [self.nodes[v] if v.type.is_slice else self.of(v) for v in op.operands]
        node = self.nodes[op.result] = ElementwiseNode(op.result.type, extents, op, operands)
        for each in nodes:  # operands in registers stay in their layout
            own = self.elements.own_layout(each)
            if own is not None:
                self.elements.layouts[node] = own
                break
        if op.name == "select" and len(nodes) == 3:
            self.select(op, node, *nodes)

    def select(self, op: Op, node: ElementwiseNode, mask: Node, selected: Node, other: Node) -> None:
        """Skip the comparisons of a select on register values if its mask is true for the whole block."""
        layout = self.elements.own_layout(selected)
        if layout is None or None in op.result.type.extents or layout.rows == 1:
            return
        is_whole = whole_mask(self.b, mask)
        if is_whole is None:
            return
        values = _flat(self.elements.of_layout(selected, layout))
        with self.b.if_(is_whole) as branch:
            branch.yield_(*values)
        with branch.else_(), self.elements.scope():
            branch.yield_(*_flat(self.elements.of_layout(node, layout)))
        results = iter(branch.results)
        registers = {place: [next(results) for _ in range(layout.width)] for place in layout.places}
        self.nodes[op.result] = RegisterNode(op.result.type, node.extents, layout, registers)

    def common_extents(self, op: Op, nodes: Sequence[Node]) -> Sequence[Extent]:
        """The extents of operands, which are asserted to be equal: of each those of an operand whose length is bounded."""
        for other in nodes[1:]:
            self.same_extents(op, nodes[0].extents, other.extents)
        columns = zip(*(node.extents for node in nodes), strict=True)
        return [next((each for each in same if each.capacity is not None), same[0]) for same in columns]

    def same_extents(self, op: Op, left: Sequence[Extent], right: Sequence[Extent]) -> None:
        """Assert that extents are equal; in a broadcast, extents of 1 on the left match any."""
        for a, b in zip(left, right, strict=True):
            if a.key != b.key and (op.name != "slice_broadcast" or a.number != 1):
                is_same = self.b.eq(a.value, b.value)
                self.b.assert_(
                    is_same,
                    unlike_extents(op),
                )

    # --- results -----------------------------------------------------------------------------------------

    def reduce(self, op: Op) -> None:
        node = self.nodes[op.operands[0]]
        dtype = node.dtype.element
        fold = Fold(self.b, op.attrs["combine"], dtype, self.elements.memory, self.workgroups)
        layout = self.layout(op, node)
        if layout is None:
            self.set_reduction(op, self.sum_of_loop(op, node, fold))
            return
        if layout.bands > 1 and op.attrs["axis"] == 0:  # a sum down columns needs alternating rows, not bands
            layout = self.elements.layout_of([layout.rows, layout.columns])
        neutral = fold.neutral()
        if 0 in (layout.rows, layout.columns):
            self.reduce_empty(op, node, neutral)
            return
        rows = self.rows(node, layout, neutral)
        is_column = len(node.extents) == 1 and layout.rows > 1
        if op.attrs["axis"] == len(node.extents) - 1 and not is_column:
            totals = [fold.along_rows(row, layout) for row in rows]
            result_layout, values = (
                layout.with_extents(layout.rows, 1),
                {(i, 0): [t] for i, t in enumerate(totals)},
            )
        else:
            width, sums = layout.width, fold.down_columns([_flat(row) for row in rows], layout)
            result_layout = layout.with_extents(1, layout.columns)
            values = {(0, j): sums[j * width : (j + 1) * width] for j in range(layout.column_rounds)}
        if not op.result.type.is_slice:
            self.set_reduction(op, values[0, 0][0])
            return
        self.nodes[op.result] = RegisterNode(
            op.result.type, self.reduced_extents(op, node), result_layout, values
        )

    def reduce_empty(self, op: Op, node: Node, neutral: Value) -> None:
        """Set the result of a reduction of no elements: neutral elements."""
        if op.result.type.is_slice:
            self.nodes[op.result] = SplatNode(op.result.type, self.reduced_extents(op, node), neutral)
        else:
            self.values[op.result] = neutral

    def reduced_extents(self, op: Op, node: Node) -> list[Extent]:
        """Extents of the result of a reduction that is a slice."""
        extents = [e for k, e in enumerate(node.extents) if k != op.attrs["axis"]]
        if len(op.result.type.extents) == len(node.extents):
            extents.insert(op.attrs["axis"], self.fixed(1))
        return extents

    def set_reduction(self, op: Op, total: Value) -> None:
        if op.result in self.of_control:
            value = total
            total = self.elements.memory.from_first(value.type, lambda: value)
        if op.result.type.is_slice:
            self.nodes[op.result] = SplatNode(op.result.type, [self.fixed(1)], total)
        else:
            self.values[op.result] = total

    def rows(self, node: Node, layout: Layout, neutral: Value) -> list[list[list[Value]]]:
        """The elements of an invocation's groups, for each of its rows; neutral elements where there is none."""
        rows: list[list[list[Value]]] = [[] for _ in range(layout.row_rounds)]
        for group in self.elements.groups(layout):
            rows[group.place[0]].append(group.mask(self.elements.of(node, group), neutral))
        return rows

    def sum_of_loop(self, op: Op, node: Node, fold: Fold) -> Value:
        extent, neutral, width = node.extents[0], fold.neutral(), self.elements.neighbours
        starts = range(0, FOLDED // self.lanes, width)
        carry = [neutral] * (FOLDED // self.lanes)
        with self.b.for_(0, extent.value, FOLDED, carry=carry, dtype=DataType.U32) as loop:
            sums: list[Value] = []
            with self.elements.scope():
                for number, start in enumerate(starts):
                    group = self.group_of_loop(extent, number, loop.index)
                    values = group.mask(self.elements.of(node, group), neutral)
                    sums += fold.each(loop.args[start : start + width], values)
            loop.yield_(*sums)
        groups = [list(loop.results[start : start + width]) for start in starts]
        return fold.along_rows(groups, Layout(1, FOLDED, 1, self.lanes, width))

    def group_of_loop(self, extent: Extent, number: int, base: Value) -> Group:
        """The group of a round of the loop that begins at `base`.  A wrapped position fails the test against the rest."""
        b, width = self.b, self.elements.neighbours
        offset = self.elements.offset_by(self.elements.first, number * width * self.lanes)
        offsets = [self.elements.offset_by(offset, k) for k in range(width)]
        positions = [b.add(base, each) for each in offsets]
        left = b.sub(extent.value, base)
        inside = [
            b.and_(b.lt(at, left), b.lt(position, extent.value))
            for at, position in zip(offsets, positions, strict=True)
        ]
        return Group(b, None, positions, inside, is_whole=False)

    def layout(self, op: Op, node: Node) -> Layout | None:
        """Layout of a slice as an op's operand; None for a row whose elements a loop computes."""
        layout = self.elements.layout(node)
        return self.elements.required_layout(op, node) if layout is None and len(node.extents) > 1 else layout

    def scan(self, op: Op) -> None:
        node, dtype = self.nodes[op.operands[0]], op.result.type
        is_down = len(node.extents) == 2 and op.attrs["axis"] == 0
        self.elements.required_layout(op, node)
        if is_down:
            node = self.transpose_node(node)
        layout = self.by_rows(node)
        if layout.column_lanes < SUBGROUP_SIZE and layout.column_rounds > 1:
            raise slice_error(
                op,
                f"takes {SUBGROUP_SIZE} lanes, and the schedule has {self.lanes}",
                f"write lower_slices{{lanes={SUBGROUP_SIZE}}}, or more lanes",
            )
        fold = Fold(self.b, op.attrs["combine"], dtype.element, self.elements.memory, self.workgroups)
        rows = self.rows(node, layout, fold.neutral())
        values = Scan(fold, self.elements, layout, op.attrs["mode"]).of(rows)
        registers = RegisterNode(dtype, node.extents, layout, values)
        self.nodes[op.result] = self.transpose_node(registers) if is_down else registers

    def by_rows(self, node: Node) -> Layout:
        """The layout of a slice with rows along rows of lanes, even if the slice is a column now."""
        layout = Layout.of_extents(node.extents, self.lanes)
        assert layout is not None  # the callers require it
        return layout

    def transpose(self, op: Op) -> None:
        if op.result in self.units.transposes:
            return
        node = self.nodes[op.operands[0]]
        is_row = (
            isinstance(node, BroadcastNode) and len(node.source.extents) == 1 and node.extents[0].number == 1
        )
        if isinstance(node, BroadcastNode) and is_row and node.extents[1].number is not None:
            self.nodes[op.result] = ColumnNode(op.result.type, node.extents[::-1], node.source)
            return
        self.elements.required_layout(op, node)
        self.nodes[op.result] = self.transpose_node(node)

    def transpose_node(self, node: Node) -> RegisterNode:
        extents = [*node.extents][::-1]
        layout = self.elements.layout_of([extent.number or 0 for extent in extents])
        dtype = DataType.slice(node.dtype.extents[::-1], node.dtype.element)
        return self.elements.exchange(node, layout, extents, dtype, is_transposed=True)

    def dot(self, op: Op) -> None:
        total = self.nodes[op.operands[2]] if len(op.operands) > 2 else None
        if op in self.units.dots:
            extents = [self.fixed(number or 0) for number in op.result.type.extents]
            self.nodes[op.result] = self.units.product(op, total, extents, self.nodes)
            return
        a, c = (self.nodes[v] for v in op.operands[:2])
        for value, each in zip(op.operands, (a, c), strict=False):
            if value not in self.units.tiles:
                self.elements.required_layout(op, each)
        self.same_extents(op, a.extents[1:], c.extents[:1])
        self.nodes[op.result] = self.units.product_by_lanes(
            op, total, [a.extents[0], c.extents[1]], self.nodes
        )

    def store(self, op: Op) -> None:
        node = self.nodes[op.operands[0]]
        indices = self.starts(op, op.operands[0].type)
        self.same_extents(op, self.extents(op, op.operands[0].type, indices), node.extents)
        layout = self.layout(op, node)
        source = self.units.source(node)
        if source is not None:
            with self.write_scope(op.attrs["buffer"]):
                for groups in self.elements.strips(*source):
                    for group, values in groups:
                        self.put(op, indices, group, values)
            return
        if layout is not None:
            columns = self.elements.of_layout(node, layout)
            with self.write_scope(op.attrs["buffer"]), self.elements.by_owners(layout):
                for group, values in zip(self.elements.groups(layout), columns, strict=True):
                    self.put(op, indices, group, values)
            return
        extent = node.extents[0]
        self.check_places(node, op, indices)
        step = self.elements.neighbours * self.lanes
        with (
            self.write_scope(op.attrs["buffer"]),
            self.b.for_(0, extent.value, step, dtype=DataType.U32) as loop,
            self.elements.scope(),
        ):
            group = self.group_of_loop(extent, 0, loop.index)
            self.put(op, indices, group, self.elements.of(node, group))

    def check_places(self, node: Node, op: Op, indices: Sequence[Value]) -> None:
        """Raise DiagnosticError if a slice is stored, in a loop that loads it, to other places than its own."""
        for each in loads(node):
            if each.buffer != op.attrs["buffer"]:
                continue
            if not all(_same(a, c) for a, c in zip(each.indices, indices, strict=True)):
                raise slice_error(
                    op,
                    f"@{op.attrs['buffer']} is overwritten at other places than those that the slice is made of",
                    "write to another buffer",
                )

    def put(self, op: Op, indices: Sequence[Value], group: Group, values: Sequence[Value]) -> None:
        b, name, rank = self.b, op.attrs["buffer"], len(op.operands[0].type.extents)
        places = [self.elements.offset(indices, group.position(k, rank)) for k in range(group.width)]
        if op.attrs["edge"] == "clipped":
            group = self.elements.within(group, name, places, rank)
        group.guard(lambda k: b.store(values[k], name, places[k]), None)


def _iota_axis(dtype: DataType) -> int:
    return next((axis for axis, extent in enumerate(dtype.extents) if extent != 1), 0)


def _count(layout: AnyLayout) -> int:
    """Number of register values of a slice in an invocation."""
    return len(layout.places) * layout.width


def _flat(groups: Sequence[Sequence[Value]]) -> list[Value]:
    return [value for group in groups for value in group]


def _same(a: Node | Value, c: Value) -> bool:
    if isinstance(a, Node):
        return False
    return a is c or (constant_value(a) is not None and constant_value(a) == constant_value(c))


def _shared_buffers(body: Block) -> set[str]:
    """Buffers that are accessed more than once, by several ops or in a loop: their writes need barriers."""
    accesses: Counter[str] = Counter()
    pending = [(body, 1)]
    while pending:
        block, times = pending.pop()
        for op in block.ops:
            if op.definition.effects & {"read", "write"}:
                accesses[op.attrs["buffer"]] += times
            pending += [(region, 2 if op.name in ("for", "while") else times) for region in op.regions]
    return {name for name, count in accesses.items() if count > 1}


def _last_uses(program: Program) -> Mapping[Value, int]:
    """Number of the last op that uses each slice, directly or through slices computed from it."""
    ops, uses = [*program.walk()], dict[Value, int]()
    for number in range(len(ops), 0, -1):
        op = ops[number - 1]
        last = max([number, *(uses.get(result, 0) for result in op.results if result.type.is_slice)])
        for value in op.operands:
            if value.type.is_slice:
                uses[value] = max(uses.get(value, 0), last)
    return uses


def _sums_of_rows(program: Program) -> set[Value]:
    """Results of reductions with a value for each row of a block."""
    return {
        op.result
        for op in program.walk()
        if op.name == "slice_reduce"
        and op.attrs["axis"] == 1
        and len(op.result.type.extents) == 1
        and None not in op.operands[0].type.extents
    }


def _reduced_rows(program: Program) -> Mapping[int, int]:
    """Number of rows -> columns of the first block with so many rows that is reduced along rows."""
    columns_of: dict[int, int] = {}
    for value in _sums_of_rows(program):
        op = value.owner
        assert isinstance(op, Op)
        rows, columns = op.operands[0].type.extents
        columns_of.setdefault(rows or 0, columns or 0)
    return columns_of


def _of_control(program: Program) -> set[Value]:
    """Values that conditions and loop bounds of a program depend on."""
    definitions: dict[Value, Op] = {}
    pending: list[Value] = []
    for op in program.walk():
        definitions |= dict.fromkeys(
            [*op.results, *(arg for region in op.regions for arg in region.args)], op
        )
        if op.name in ("if", "for", "while", "condition"):
            pending += op.operands
    values, visited = set[Value](), set[Op]()
    while pending:
        value = pending.pop()
        values.add(value)
        definition = definitions.get(value)
        if definition is not None and definition not in visited:
            visited.add(definition)
            pending += [operand for op in definition.walk() for operand in op.operands]
    return values
