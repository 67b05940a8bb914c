"""Programs with slices as programs without: what a workgroup computes with a row becomes what its invocations do.

    %row = slice_load @x[%r, 0] : slice<?xf32>        nothing: a load of each element where it is wanted
    %sum = slice_reduce<add> %row[0] : f32            for %base = 0 to %n step 4096 iter(sums) {
                                                        for the groups of 4 that the invocation has from %base on:
                                                          sums + @x[%r, %p], as far as %p < %n
                                                      }
                                                      the sums of all invocations, see sums
    slice_store %y, @y[%r, 0] : slice<?xf32>          a loop over groups, with a store of each element

All invocations compute the values that are no slices, alike; what writes is done by the first of them.  A slice of fixed extents has
no loops: its elements are in registers, see layout.
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
from .elements import Elements, refused
from .layout import FOLDED, AnyLayout, Group, Layout, MatrixLayout
from .masks import whole_mask
from .nodes import Computed, Counted, Extent, Held, Loaded, Node, Repeated, Spread, Standing, loads
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
"""Ids and sizes in a workgroup of one invocation."""
ALIGNED = 1024
"""Bytes that a buffer of workgroup memory begins at a multiple of, at most."""


def lower_slices(program: Program, schedule: SliceSchedule) -> Program:
    """The program for workgroups of several invocations.  Raises DiagnosticError for what has no such form, located."""
    return _lowered(program, schedule)[0]


def _lowered(program: Program, schedule: SliceSchedule) -> tuple[Program, Mapping[Op, Sequence[AnyLayout]]]:
    """The same, and the layouts of the slices that each loop carries."""
    copy = replace(program, workgroup=(schedule.lanes, 1, 1), buffers=dict(program.buffers), body=Block())
    if schedule.workgroups > 1:
        if program.grid is None or not may_share(program):
            raise _not_shared(program)
        copy.cluster, copy.grid = (
            schedule.workgroups,
            (program.grid[0] * schedule.workgroups, *program.grid[1:]),
        )
    lowering = _Lowering(program, Builder.on(copy), schedule)
    lowering.ops(program.body.ops)
    return copy, lowering.carried


def lower_in_place(
    program: Program, schedule: SliceSchedule, memory: int = 0
) -> tuple[SliceSchedule, Mapping[Op, Sequence[AnyLayout]]]:
    """The same of the program itself; with fewer stages where these would take more than so many bytes of a workgroup's memory (0: any).

    Returns the schedule, and the layouts of the slices that each loop carried.
    """
    lowered, carried = _lowered(program, schedule)
    while memory and schedule.stages > 1 and _workgroup_bytes(lowered) > memory:
        schedule = replace(schedule, stages=schedule.stages - 1)
        lowered, carried = _lowered(program, schedule)
    program.workgroup, program.body, program.buffers = lowered.workgroup, lowered.body, lowered.buffers
    program.cluster, program.grid = lowered.cluster, lowered.grid
    return schedule, carried


def _workgroup_bytes(program: Program) -> int:
    """Bytes of workgroup memory at most, with what is left free before each buffer."""
    sizes = [
        (buffer.count or 0) * (buffer.dtype.size_bytes or 0)
        for buffer in program.buffers.values()
        if buffer.is_workgroup
    ]
    return sum(-(-size // ALIGNED) * ALIGNED for size in sizes)


def _not_shared(program: Program) -> DiagnosticError:
    message = f"the rows of @{program.name} cannot be shared by workgroups"
    help = "give it a grid, and rows whose sums are made before anything is written, outside of loops and branches"
    return DiagnosticError([Diagnostic("error", message, program.loc, help=help)])


@dataclass
class _Handed:
    """The slices that the blocks of an op yield: by number their layouts and extents, which the first block decides."""

    slices: dict[int, tuple[AnyLayout, Sequence[Extent]]] = field(default_factory=dict)
    ahead: Sequence[Value] = ()
    """Values that the lowered loop carries behind them."""


class _Lowering:
    """`values`: of the program before, those that are no slices; `nodes`: those that are."""

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
            "yield": self.hand_on,
        }
        self.reduced_rows = _reduced_rows(program)
        self.of_rows = {
            value
            for value in computed_of(program, _sums_of_rows(program))
            if value.type.extents[0] in self.reduced_rows
        }
        self.used = {value for op in program.walk() for value in op.operands}
        self.of_control = _of_control(program)
        self.contested = _contested(program.body)
        self.last_uses = _last_uses(program)
        self.number = 0
        """Number of the op that is being lowered, among all."""
        self.loaded: dict[str, list[tuple[Value, Loaded]]] = {}
        self.handed: list[_Handed] = []
        self.carried: dict[Op, Sequence[AnyLayout]] = {}

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
            raise refused(op, "is of several invocations, and a workgroup of slices has one as it is written")
        elif op.definition.effects & {"write", "print"}:
            self.once(op)
        elif op.regions:
            self.nest(op)
        else:
            self.copied(op)

    def copied(self, op: Op) -> Op:
        if op.name in _IDS:
            self.values[op.result] = self.id_of(_IDS[op.name], op.attrs["axis"])
            return op
        operands, types = tuple(self.of(v) for v in op.operands), [v.type for v in op.results]
        new = self.b.emit(op.definition, operands, types, op.attrs)
        self.values.update(zip(op.results, new.results, strict=True))
        return new

    def id_of(self, name: str, axis: str) -> Value:
        """Id of the workgroup as it is written; several workgroups that share a row have one."""
        value: Value = getattr(self.b, name)(axis)
        return self.b.div(value, self.workgroups) if axis == "x" and self.workgroups > 1 else value

    def of(self, value: Value) -> Value:
        return self.values[value]

    # --- blocks, and what they hand on ---------------------------------------------------------------

    def nest(self, op: Op) -> None:
        """A loop, a branch or a region: slices go through it as their elements do."""
        is_loop, handed = op.name in ("for", "while"), _Handed()
        overwritten = {a.attrs["buffer"] for a in op.walk() if "write" in a.definition.effects}
        for buffer in sorted(overwritten):
            self.keep(buffer)
            if is_loop:  # what was loaded before is another slice from the second round on
                self.overwrite(buffer)
        operands: list[Value] = []
        first = len(op.operands) - len(inits(op)) if is_loop else len(op.operands)
        for number, value in enumerate(op.operands):
            if value.type.is_slice:
                node = self.nodes[value]
                layout = self.handed_layout(op, value, node)
                handed.slices[number - first] = layout, node.extents
                operands += self.held(node, layout)
            else:
                operands.append(self.of(value))
        self.handed.append(handed)
        with self.units.kept(op, self.nodes):
            ahead = CopiesAhead.of_loop(self.units, op, self.of)
            if ahead is not None:
                handed.ahead = ahead.begin()
                operands += handed.ahead
            regions = tuple(self.region(each, len(each.args) - len(op.results), ahead) for each in op.regions)
        self.handed.pop()
        if is_loop:
            self.carried[op] = [layout for _, (layout, _) in sorted(handed.slices.items())]
        types: list[DataType] = []
        for number, result in enumerate(op.results):
            slices = handed.slices.get(number)
            types += (
                [result.type]
                if slices is None
                else [slices[0].held_type(result.type.element)] * _count(slices[0])
            )
        types += [value.type for value in handed.ahead]
        new = self.b.emit(op.definition, tuple(operands), types, op.attrs, regions)
        self.receive(op.results, new.results, handed, 0)

    def handed_layout(self, op: Op, value: Value, node: Node) -> AnyLayout:
        """Form in which a slice goes through blocks: matrices if products on units add to it."""
        if value in self.units.sums:
            return self.units.layout(node.extents)
        if value in self.units.tiled_sums:
            return self.units.sums_by_lanes([extent.number or 0 for extent in node.extents])
        if value in self.of_rows:
            return self.layout_of_rows(node.extents[0].number or 0)
        return self.elements.held_layout(op, node)

    def layout_of_rows(self, rows: int) -> Layout:
        """Layout in which a reduction leaves a value for each row of a block: lanes of the row have it."""
        columns = self.reduced_rows[rows]
        block = [self.fixed(rows), self.fixed(columns)]
        if (rows, columns) in self.units.blocks:
            return self.units.layout(block).by_lanes.with_extents(rows, 1)
        return self.elements.layout_of([rows, columns]).with_extents(rows, 1)

    def held(self, node: Node, layout: AnyLayout) -> list[Value]:
        """Values that an invocation holds of a slice, place by place."""
        if isinstance(layout, MatrixLayout):
            return self.elements.matrices(node, layout)
        return _flat(self.elements.of_layout(node, layout))

    def region(self, region: Block, first: int, ahead: CopiesAhead | None) -> Block:
        """`first`: the number of its argument that is handed on first."""
        handed, args = self.handed[-1], list[Value]()
        for number, arg in enumerate(region.args):
            slices = handed.slices.get(number - first)
            dtype = arg.type if slices is None else slices[0].held_type(arg.type.element)
            args += [self.b.fresh(dtype) for _ in range(1 if slices is None else _count(slices[0]))]
        args += [self.b.fresh(value.type) for value in handed.ahead]
        block = Block(tuple(args))
        with self.b.at(block), self.elements.scope():
            self.receive(region.args, args, handed, first)
            if ahead is not None:
                ahead.enter(args[0], args[len(args) - len(handed.ahead) :])
            self.ops(region.ops[:-1])
            if ahead is not None:
                handed.ahead = ahead.end()
            self.ops(region.ops[-1:])
        return block

    def receive(self, values: Sequence[Value], flat: Sequence[Value], handed: _Handed, first: int) -> None:
        """Values and slices of the program before, of those that have come through an op."""
        rest = iter(flat)
        for number, value in enumerate(values):
            slices = handed.slices.get(number - first)
            if slices is None:
                self.values[value] = next(rest)
                continue
            layout, extents = slices
            held = {place: [next(rest) for _ in range(layout.width)] for place in layout.places}
            self.nodes[value] = Held(value.type, extents, layout, held)

    def hand_on(self, op: Op) -> None:
        handed, flat = self.handed[-1], list[Value]()
        for number, value in enumerate(op.operands):
            if not value.type.is_slice:
                flat.append(self.of(value))
                continue
            node = self.nodes[value]
            if number not in handed.slices:
                handed.slices[number] = self.handed_layout(op, value, node), node.extents
            layout, extents = handed.slices[number]
            self.same_extents(op, extents, node.extents)
            flat += self.held(node, layout)
        self.b.emit(op.definition, (*flat, *handed.ahead), (), op.attrs)

    # --- what only one invocation does -------------------------------------------------------------

    def once(self, op: Op) -> None:
        """A write or a print, of which all get the result."""
        with self.written(op.attrs.get("buffer")):
            if not self.used.isdisjoint(op.results):
                make = self.elements.memory.from_first
                self.values[op.result] = make(op.result.type, lambda: self.copied(op).result)
                return
            with self.b.if_(self.b.eq(self.elements.lane, 0)), self.elements.scope():
                self.copied(op)

    @contextmanager
    def written(self, buffer: str | None) -> Iterator[None]:
        """Around a write: invocations read and write what they do before it, and find it behind it."""
        if buffer is not None:
            self.keep(buffer)
        if buffer in self.contested:
            self.b.barrier()
        yield
        if buffer is not None:
            self.overwrite(buffer)
        if buffer in self.contested:
            self.b.barrier()

    def keep(self, buffer: str) -> None:
        """Hold what is loaded from a buffer that is about to be written, and computed with later."""
        for value, node in self.loaded.get(buffer, ()):
            if self.last_uses.get(value, 0) > self.number:
                self.elements.keep(node)

    def overwrite(self, buffer: str) -> None:
        versions = self.elements.versions
        versions[buffer] = versions.get(buffer, 0) + 1

    # --- slices --------------------------------------------------------------------------------------

    def extents(self, op: Op, dtype: DataType, indices: Sequence[Value]) -> list[Extent]:
        """Extents of a slice of a buffer from some indices on."""
        shape = self.b.program.buffers[op.attrs["buffer"]].shape
        first = len(shape) - len(dtype.extents)
        return [
            self.fixed(number) if number is not None else self.rest(op, first + axis, indices[first + axis])
            for axis, number in enumerate(dtype.extents)
        ]

    def starts(self, op: Op, dtype: DataType) -> list[Value]:
        """The indices of a slice of a buffer, in types that the places of its elements fit into."""
        return self.elements.wide([self.of(v) for v in op.indices], len(dtype.extents))

    def rest(self, op: Op, dimension: int, start: Value) -> Extent:
        """Elements of a dimension of a buffer from an index on."""
        b, name, begin = self.b, op.attrs["buffer"], constant_value(start)
        total = b.program.buffers[name].shape[dimension]
        if total is not None and begin is not None and begin <= total:
            return self.fixed(total - begin)
        length = self.elements.length(name, dimension)
        if begin == 0:
            return Extent(length, None, (name, dimension))
        return Extent(b.sub(length, b.cast(start, DataType.U32)), None, (name, dimension, start))

    def fixed(self, number: int) -> Extent:
        return Extent(self.b.const(number), number, number)

    def load(self, op: Op) -> None:
        indices = self.starts(op, op.result.type)
        fill = self.of(op.operands[-1]) if op.attrs["edge"] == "filled" else None
        self.add_load(op, self.extents(op, op.result.type, indices), indices, fill)

    def gather(self, op: Op) -> None:
        slices = [self.nodes[v] for v in op.operands if v.type.is_slice]
        for other in slices[1:]:
            self.same_extents(op, slices[0].extents, other.extents)
        indices = [self.nodes[v] if v.type.is_slice else self.of(v) for v in op.operands]
        self.add_load(op, slices[0].extents, indices, None)

    def add_load(
        self, op: Op, extents: Sequence[Extent], indices: Sequence[Node | Value], fill: Value | None
    ) -> None:
        name: str = op.attrs["buffer"]
        version = self.elements.versions.get(name, 0)
        node = self.nodes[op.result] = Loaded(op.result.type, extents, op, indices, fill, version)
        self.loaded.setdefault(name, []).append((op.result, node))

    def broadcast(self, op: Op) -> None:
        value, dtype = op.operands[0], op.result.type
        if None in dtype.extents:
            extents = list(self.nodes[op.operands[1]].extents)
        else:
            extents = [self.fixed(number or 0) for number in dtype.extents]
        if not value.type.is_slice:
            self.nodes[op.result] = Spread(dtype, extents, self.of(value))
            return
        source = self.nodes[value]
        self.same_extents(op, source.extents, extents[-len(source.extents) :])
        if value.type.extents == dtype.extents:
            self.nodes[op.result] = source
        else:
            node = self.nodes[op.result] = Repeated(dtype, extents, source)
            layout = self.elements.own_layout(source)
            if layout is not None and len(source.extents) == 2:
                rows, columns = (extent.number for extent in extents)
                if rows is not None and columns is not None:
                    self.elements.layouts[node] = layout.with_extents(rows, columns)

    def iota(self, op: Op) -> None:
        dtype = op.result.type
        if None in dtype.extents:
            extents = [self.counted(self.of(op.operands[1]))]
        else:
            extents = [self.fixed(number or 0) for number in dtype.extents]
        self.nodes[op.result] = Counted(dtype, extents, self.of(op.operands[0]), _counted_axis(dtype))

    def counted(self, length: Value) -> Extent:
        """An extent that the program gives as a number."""
        number, owner = constant_value(length), length.owner
        if number is not None:
            return self.fixed(number)
        if isinstance(owner, Op) and owner.name == "len":
            dimension = owner.attrs.get("dimension") or 0
            total = self.b.program.buffers[owner.attrs["buffer"]].shape[dimension]
            return (
                Extent(length, None, (owner.attrs["buffer"], dimension))
                if total is None
                else self.fixed(total)
            )
        return Extent(length, None, length)

    def length(self, op: Op) -> None:
        self.values[op.result] = self.nodes[op.operands[0]].extents[op.attrs["axis"]].value

    def elementwise(self, op: Op) -> None:
        nodes = [self.nodes[v] for v in op.operands if v.type.is_slice]
        for other in nodes[1:]:
            self.same_extents(op, nodes[0].extents, other.extents)
        operands = [self.nodes[v] if v.type.is_slice else self.of(v) for v in op.operands]
        node = self.nodes[op.result] = Computed(op.result.type, nodes[0].extents, op, operands)
        for each in nodes:  # those that are held already stay where they are
            own = self.elements.own_layout(each)
            if own is not None:
                self.elements.layouts[node] = own
                break
        if op.name == "select" and len(nodes) == 3:
            self.select(op, node, *nodes)

    def select(self, op: Op, node: Computed, mask: Node, chosen: Node, other: Node) -> None:
        """A choice among elements that are held: without comparisons where the mask is whole."""
        layout = self.elements.own_layout(chosen)
        if layout is None or None in op.result.type.extents or layout.rows == 1:
            return
        whole = whole_mask(self.b, mask)
        if whole is None:
            return
        values = _flat(self.elements.of_layout(chosen, layout))
        with self.b.if_(whole) as branch:
            branch.yield_(*values)
        with branch.else_(), self.elements.scope():
            branch.yield_(*_flat(self.elements.of_layout(node, layout)))
        results = iter(branch.results)
        held = {place: [next(results) for _ in range(layout.width)] for place in layout.places}
        self.nodes[op.result] = Held(op.result.type, node.extents, layout, held)

    def same_extents(self, op: Op, some: Sequence[Extent], others: Sequence[Extent]) -> None:
        """Extents of 1 on the left are as any."""
        for one, other in zip(some, others, strict=True):
            if one.key != other.key and (op.name != "slice_broadcast" or one.number != 1):
                is_same = self.b.eq(one.value, other.value)
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
            self.reduced(op, self.sum_of_loop(op, node, fold))
            return
        if layout.bands > 1 and op.attrs["axis"] == 0:  # rows of a column are in turn in all subgroups
            layout = self.elements.layout_of([layout.rows, layout.columns])
        neutral = fold.neutral()
        if 0 in (layout.rows, layout.columns):
            self.reduced_to_nothing(op, node, neutral)
            return
        rows = self.rows(node, layout, neutral)
        is_column = len(node.extents) == 1 and layout.rows > 1
        if op.attrs["axis"] == len(node.extents) - 1 and not is_column:
            totals = [fold.along_rows(row, layout) for row in rows]
            kept, values = layout.with_extents(layout.rows, 1), {(i, 0): [t] for i, t in enumerate(totals)}
        else:
            width, sums = layout.width, fold.down_columns([_flat(row) for row in rows], layout)
            kept = layout.with_extents(1, layout.columns)
            values = {(0, j): sums[j * width : (j + 1) * width] for j in range(layout.column_rounds)}
        if not op.result.type.is_slice:
            self.reduced(op, values[0, 0][0])
            return
        self.nodes[op.result] = Held(op.result.type, self.kept_extents(op, node), kept, values)

    def reduced_to_nothing(self, op: Op, node: Node, neutral: Value) -> None:
        """The reduction of no elements."""
        if op.result.type.is_slice:
            self.nodes[op.result] = Spread(op.result.type, self.kept_extents(op, node), neutral)
        else:
            self.values[op.result] = neutral

    def kept_extents(self, op: Op, node: Node) -> list[Extent]:
        """Extents of the result of a reduction that is a slice."""
        extents = [e for k, e in enumerate(node.extents) if k != op.attrs["axis"]]
        if len(op.result.type.extents) == len(node.extents):
            extents.insert(op.attrs["axis"], self.fixed(1))
        return extents

    def reduced(self, op: Op, total: Value) -> None:
        if op.result in self.of_control:
            value = total
            total = self.elements.memory.from_first(value.type, lambda: value)
        if op.result.type.is_slice:
            self.nodes[op.result] = Spread(op.result.type, [self.fixed(1)], total)
        else:
            self.values[op.result] = total

    def rows(self, node: Node, layout: Layout, neutral: Value) -> list[list[list[Value]]]:
        """The elements of an invocation's groups, for each of its rows, with what changes nothing where there is none."""
        rows: list[list[list[Value]]] = [[] for _ in range(layout.row_rounds)]
        for group in self.elements.groups(layout):
            rows[group.place[0]].append(group.masked(self.elements.of(node, group), neutral))
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
                    values = group.masked(self.elements.of(node, group), neutral)
                    sums += fold.each(loop.args[start : start + width], values)
            loop.yield_(*sums)
        groups = [list(loop.results[start : start + width]) for start in starts]
        return fold.along_rows(groups, Layout(1, FOLDED, 1, self.lanes, width))

    def group_of_loop(self, extent: Extent, number: int, base: Value) -> Group:
        """A round of the loop, which begins at `base`: a position that has wrapped around is beyond what is left."""
        b, width = self.b, self.elements.neighbours
        offset = self.elements.moved_by(self.elements.first, number * width * self.lanes)
        offsets = [self.elements.moved_by(offset, k) for k in range(width)]
        positions = [b.add(base, each) for each in offsets]
        left = b.sub(extent.value, base)
        inside = [
            b.and_(b.lt(at, left), b.lt(position, extent.value))
            for at, position in zip(offsets, positions, strict=True)
        ]
        return Group(b, None, positions, inside, is_whole=False)

    def layout(self, op: Op, node: Node) -> Layout | None:
        """Layout in which an op finds the elements of a slice; None for a row that a loop goes along."""
        layout = self.elements.layout(node)
        return self.elements.held_layout(op, node) if layout is None and len(node.extents) > 1 else layout

    def scan(self, op: Op) -> None:
        node, dtype = self.nodes[op.operands[0]], op.result.type
        is_down = len(node.extents) == 2 and op.attrs["axis"] == 0
        self.elements.held_layout(op, node)
        if is_down:
            node = self.transposed(node)
        layout = self.by_rows(node)
        if layout.column_lanes < SUBGROUP_SIZE and layout.column_rounds > 1:
            raise refused(
                op,
                f"takes {SUBGROUP_SIZE} lanes, and the schedule has {self.lanes}",
                f"write lower_slices{{lanes={SUBGROUP_SIZE}}}, or more lanes",
            )
        fold = Fold(self.b, op.attrs["combine"], dtype.element, self.elements.memory, self.workgroups)
        rows = self.rows(node, layout, fold.neutral())
        values = Scan(fold, self.elements, layout, op.attrs["mode"]).of(rows)
        held = Held(dtype, node.extents, layout, values)
        self.nodes[op.result] = self.transposed(held) if is_down else held

    def by_rows(self, node: Node) -> Layout:
        """The layout of a slice whose rows are rows of lanes, also where it stands as a column."""
        return Layout.of([extent.number or 0 for extent in node.extents], self.lanes)

    def transpose(self, op: Op) -> None:
        if op.result in self.units.transposes:
            return
        node = self.nodes[op.operands[0]]
        is_row = isinstance(node, Repeated) and len(node.source.extents) == 1 and node.extents[0].number == 1
        if isinstance(node, Repeated) and is_row and node.extents[1].number is not None:
            self.nodes[op.result] = Standing(op.result.type, node.extents[::-1], node.source)
            return
        self.elements.held_layout(op, node)
        self.nodes[op.result] = self.transposed(node)

    def transposed(self, node: Node) -> Held:
        extents = [*node.extents][::-1]
        layout = self.elements.layout_of([extent.number or 0 for extent in extents])
        dtype = DataType.slice(node.dtype.extents[::-1], node.dtype.element)
        return self.elements.exchanged(node, layout, extents, dtype, is_transposed=True)

    def dot(self, op: Op) -> None:
        total = self.nodes[op.operands[2]] if len(op.operands) > 2 else None
        if op in self.units.dots:
            extents = [self.fixed(number or 0) for number in op.result.type.extents]
            self.nodes[op.result] = self.units.product(op, total, extents, self.nodes)
            return
        a, c = (self.nodes[v] for v in op.operands[:2])
        for value, each in zip(op.operands, (a, c), strict=False):
            if value not in self.units.tiles:
                self.elements.held_layout(op, each)
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
            with self.written(op.attrs["buffer"]):
                for groups in self.elements.strips(*source):
                    for group, values in groups:
                        self.put(op, indices, group, values)
            return
        if layout is not None:
            columns = self.elements.of_layout(node, layout)
            with self.written(op.attrs["buffer"]), self.elements.by_owners(layout):
                for group, values in zip(self.elements.groups(layout), columns, strict=True):
                    self.put(op, indices, group, values)
            return
        extent = node.extents[0]
        self.check_places(node, op, indices)
        step = self.elements.neighbours * self.lanes
        with (
            self.written(op.attrs["buffer"]),
            self.b.for_(0, extent.value, step, dtype=DataType.U32) as loop,
            self.elements.scope(),
        ):
            group = self.group_of_loop(extent, 0, loop.index)
            self.put(op, indices, group, self.elements.of(node, group))

    def check_places(self, node: Node, op: Op, indices: Sequence[Value]) -> None:
        """Check a slice that is stored while it is loaded: each element overwrites its own place alone."""
        for each in loads(node):
            if each.buffer != op.attrs["buffer"]:
                continue
            if not all(_same(a, c) for a, c in zip(each.indices, indices, strict=True)):
                raise refused(
                    op,
                    f"@{op.attrs['buffer']} is overwritten at other places than those that the slice is made of",
                    "write to another buffer",
                )

    def put(self, op: Op, indices: Sequence[Value], group: Group, values: Sequence[Value]) -> None:
        b, name, rank = self.b, op.attrs["buffer"], len(op.operands[0].type.extents)
        places = [self.elements.offset(indices, group.position(k, rank)) for k in range(group.width)]
        if op.attrs["edge"] == "clipped":
            group = self.elements.within(group, name, places, rank)
        group.guarded(lambda k: b.store(values[k], name, places[k]), None)


def _counted_axis(dtype: DataType) -> int:
    return next((axis for axis, extent in enumerate(dtype.extents) if extent != 1), 0)


def _count(layout: AnyLayout) -> int:
    """Values that an invocation holds of a slice."""
    return len(layout.places) * layout.width


def _flat(groups: Sequence[Sequence[Value]]) -> list[Value]:
    return [value for group in groups for value in group]


def _same(a: Node | Value, c: Value) -> bool:
    if isinstance(a, Node):
        return False
    return a is c or (constant_value(a) is not None and constant_value(a) == constant_value(c))


def _contested(body: Block) -> set[str]:
    """The buffers that are accessed more than once, by several ops or in a loop: invocations wait for one another's writes."""
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
    """Number of the last op that needs the elements of each slice, directly or by way of others."""
    ops, uses = [*program.walk()], dict[Value, int]()
    for number in range(len(ops), 0, -1):
        op = ops[number - 1]
        last = max([number, *(uses.get(result, 0) for result in op.results if result.type.is_slice)])
        for value in op.operands:
            if value.type.is_slice:
                uses[value] = max(uses.get(value, 0), last)
    return uses


def _sums_of_rows(program: Program) -> set[Value]:
    """Slices with a value for each row of a block, that reductions give."""
    return {
        op.result
        for op in program.walk()
        if op.name == "slice_reduce"
        and op.attrs["axis"] == 1
        and len(op.result.type.extents) == 1
        and None not in op.operands[0].type.extents
    }


def _reduced_rows(program: Program) -> Mapping[int, int]:
    """Columns of the first block of so many rows that is reduced along these."""
    found: dict[int, int] = {}
    for value in _sums_of_rows(program):
        op = value.owner
        assert isinstance(op, Op)
        rows, columns = op.operands[0].type.extents
        found.setdefault(rows or 0, columns or 0)
    return found


def _of_control(program: Program) -> set[Value]:
    """The values that conditions and bounds of a program are computed of."""
    makers: dict[Value, Op] = {}
    pending: list[Value] = []
    for op in program.walk():
        makers |= dict.fromkeys([*op.results, *(arg for region in op.regions for arg in region.args)], op)
        if op.name in ("if", "for", "while", "condition"):
            pending += op.operands
    wanted, seen = set[Value](), set[Op]()
    while pending:
        value = pending.pop()
        wanted.add(value)
        maker = makers.get(value)
        if maker is not None and maker not in seen:
            seen.add(maker)
            pending += [operand for op in maker.walk() for operand in op.operands]
    return wanted
