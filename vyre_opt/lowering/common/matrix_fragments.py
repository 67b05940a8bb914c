"""Matrices as vectors: what each lane of a subgroup holds of one, its fragment.

    %a = matrix_load @x[%i], %stride     ->   %lane = lane_id
         : matrix<16x16xbf16, a>              %v0 = load @x[%i + row(%lane) * %stride + column(%lane)] : vec<2 x bf16>
                                              ...
                                              %a = vector %v0.0, %v0.1, %v1.0, ... : vec<8 x bf16>
    %d = matrix_mul_add %a, %b, %c       ->   the same op on vectors, with the shape as an attribute; so are loads and
                                              stores that the target does by itself

A layout says which elements those are.  Slot k of a lane has the element at `slots[k]` plus a step for each of the two
digits of the lane's number, `lane // low_lanes` and `lane % low_lanes`.

    ROWS       element 32 k + lane in row-major order, so that the slots of all lanes, one after the other, are the matrix
    MMA        the registers of the GPU instruction mma.sync (PTX ISA, "Matrix fragments for mma"), tile by tile:
               16 x 16 or 16 x 8 of `a` and `acc`, 16 x 8 of `b`; factors are held as words of 32 bits

Loads and stores have no indices of several dimensions here (see row_major.py, which comes before).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...ir.builder import Builder
from ...ir.ops import OPS, SUBGROUP_SIZE
from ...ir.program import Block, Op, Program, Value
from ...ir.rewrite import clone
from ...ir.types import DataType
from ...ir.walker import Walker

__all__ = ["MMA", "ROWS", "Fragment", "FragmentLayout", "with_fragments"]

_U32 = DataType.U32


@dataclass(frozen=True, slots=True)
class Fragment:
    """Where the slots of a lane are in a matrix: at (row, column) of `slots`, plus `high` times the lane's high digit and
    `low` times its low one, which is below `low_lanes`."""

    slots: tuple[tuple[int, int], ...]
    high: tuple[int, int]
    low: tuple[int, int]
    low_lanes: int


class FragmentLayout:
    """`fragment(dtype)`: where the elements of a lane are.  `held(dtype)`: the type of the vector that it holds."""

    def fragment(self, dtype: DataType) -> Fragment:
        raise NotImplementedError

    def held(self, dtype: DataType) -> DataType:
        return DataType.vec(dtype.stored, dtype.lanes)

    def moves(self, op: Op) -> bool:
        """Whether the target moves this matrix itself, which is not of one row or column again and again."""
        return False


class _Rows(FragmentLayout):
    def moves(self, op: Op) -> bool:
        return str(op.attrs["layout"]) == "row_major"

    def fragment(self, dtype: DataType) -> Fragment:
        columns = dtype.shape[1]
        starts = range(0, SUBGROUP_SIZE * dtype.lanes, SUBGROUP_SIZE)
        slots = tuple(divmod(start, columns) for start in starts)
        return Fragment(slots, (1, 0), (0, 1), min(columns, SUBGROUP_SIZE))


class _Mma(FragmentLayout):
    def fragment(self, dtype: DataType) -> Fragment:
        rows, columns = dtype.shape
        word = self.word(dtype)  # elements that a lane has next to each other
        if dtype.use == "b":
            places = (
                (row + k, column)
                for column in range(0, columns, 8)
                for row in range(0, rows, 4 * word)
                for k in range(word)
            )
            return Fragment(tuple(places), (0, 1), (word, 0), 4)
        places = (
            (row + half, column + k)
            for row in range(0, rows, 16)
            for column in range(0, columns, 4 * word)
            for half in (0, 8)
            for k in range(word)
        )
        return Fragment(tuple(places), (1, 0), (0, word), 4)

    def word(self, dtype: DataType) -> int:
        return 2 if dtype.use == "acc" else 32 // (dtype.element.bits or 32)

    def held(self, dtype: DataType) -> DataType:
        if dtype.use == "acc" or dtype.element is DataType.TF32:
            return super().held(dtype)
        return DataType.vec(_U32, dtype.lanes // self.word(dtype))


ROWS: FragmentLayout = _Rows()
MMA: FragmentLayout = _Mma()


def with_fragments(program: Program, layout: FragmentLayout) -> Program:
    """The program, or a copy of it without matrix types."""
    if not any(value.type.is_matrix for op in program.walk() for value in (*op.operands, *op.results)):
        return program
    copy = replace(program, body=Block((), clone(program.body.ops, {})))
    _Expansion(copy, layout).walk_block(copy.body)
    return copy


class _Expansion(Walker):
    """Rewrites a program in place.  `matrices`: the matrix types of values, which have those of fragments by now."""

    def __init__(self, program: Program, layout: FragmentLayout) -> None:
        super().__init__()
        self.layout = layout
        self.b = Builder(program.name, program.workgroup, program.grid)
        self.b.program.buffers = program.buffers
        self.matrices: dict[Value, DataType] = {}
        for op in program.walk():
            for value in (*op.results, *(arg for region in op.regions for arg in region.args)):
                if value.type.is_matrix:
                    self.matrices[value] = value.type
                    value.type = layout.held(value.type)

    def visit(self, op: Op, out: list[Op]) -> None:
        types = [self.matrices[value] for value in (*op.results, *op.operands) if value in self.matrices]
        if not types or op.definition.is_terminator:
            out.append(op)
            return
        block, self.b.loc = Block(), op.loc
        with self.b.at(block):
            if self.is_moved_whole(op):
                self.move(op)
            elif op.name == "matrix_load":
                self.become(op, self.load(op))
            elif op.name == "matrix_store":
                self.store(op)
            elif op.name == "matrix_mul_add":
                a, b, _ = (self.matrices[value] for value in op.operands)
                op.attrs = {"shape": (*a.shape, b.shape[1]), "element": a.element}
                block.ops.append(op)
            elif any(self.layout.held(t).element is not t.stored for t in types):
                self.become(op, self.elementwise(op))
            else:
                block.ops.append(op)
        out += block.ops

    def become(self, op: Op, value: Value) -> None:
        self.matrices[value] = self.matrices[op.result]
        self.replace(op.results, [value])

    # --- values

    def elements(self, value: Value) -> Value:
        """A fragment as a vector of its elements."""
        dtype = self.matrices.get(value)
        if dtype is None or value.type.element is dtype.stored:
            return value
        return self.b.bitcast(value, DataType.vec(dtype.stored, dtype.lanes))

    def held(self, elements: Value, dtype: DataType) -> Value:
        """A vector of elements as the fragment that a lane holds."""
        held = self.layout.held(dtype)
        return elements if held is elements.type else self.b.bitcast(elements, held)

    def elementwise(self, op: Op) -> Value:
        """An op on words, of which some are several elements."""
        dtype = self.matrices[op.result]
        plain = DataType.vec(dtype.stored, dtype.lanes)
        operands = tuple(map(self.elements, op.operands))
        result = self.b.emit(op.definition, operands, (plain,), op.attrs).result
        return self.held(result, dtype)

    # --- memory

    def is_moved_whole(self, op: Op) -> bool:
        """A buffer that had several dimensions has a stride."""
        count = {"matrix_load": 2, "matrix_store": 3}.get(op.name)
        return len(op.operands) == count and self.layout.moves(op)

    def move(self, op: Op) -> None:
        """Leave the op to the target, with the shape as an attribute."""
        dtype = self.matrices[op.results[0] if op.results else op.operands[0]]
        attrs = _without_layout(op) | {"shape": dtype.shape}
        moved = self.b.emit(op.definition, op.operands, tuple(r.type for r in op.results), attrs)
        if op.results:
            is_tf32 = dtype.element is DataType.TF32
            self.become(op, self.rounded(moved.results[0]) if is_tf32 else moved.results[0])

    def load(self, op: Op) -> Value:
        dtype, b = self.matrices[op.result], self.b
        lanes: list[Value] = []
        for index, width in self.runs(op, dtype, op.operands):
            loaded = self.b.emit(
                OPS["load"], (index,), (self.run_type(op, width),), _without_layout(op)
            ).result
            lanes += [b.extract(loaded, k) for k in range(width)] if width > 1 else [loaded]
        result: Value = b.vector(*lanes)
        if dtype.element is DataType.TF32:
            result = self.rounded(result)
        return self.held(result, dtype)

    def store(self, op: Op) -> None:
        value, b, at = self.elements(op.operands[0]), self.b, 0
        for index, width in self.runs(op, self.matrices[op.operands[0]], op.operands[1:]):
            lanes = [b.extract(value, k) for k in range(at, at + width)]
            moved = lanes[0] if width == 1 else b.vector(*lanes)
            b.emit(OPS["store"], (moved, index), (), _without_layout(op))
            at += width

    def run_type(self, op: Op, width: int) -> DataType:
        element = self.b.find_buffer(op.attrs["buffer"]).dtype
        return element if width == 1 else DataType.vec(element, width)

    def rounded(self, vector: Value) -> Value:
        """f32 to the nearest with 10 bits of fraction, of two the one away from 0; a NaN stays one."""
        b, lanes = self.b, vector.type.lanes
        words = DataType.vec(_U32, lanes)
        bits = b.bitcast(vector, words)
        rounded = b.and_(b.add(bits, b.const(0x1000, words)), b.const(0xFFFFE000, words))
        return b.select(b.ne(vector, vector), vector, b.bitcast(rounded, vector.type))

    def runs(self, op: Op, dtype: DataType, place: tuple[Value, ...]) -> Iterator[tuple[Value, int]]:
        """The index of each run of slots that lie next to each other in memory, and its length.

        `place`: the index of the first element and, of a buffer that had several dimensions, the elements of a row.
        """
        b, fragment = self.b, self.layout.fragment(dtype)
        first, stride = place[0], place[1] if len(place) > 1 else None
        is_row_major = op.attrs["layout"] == "row_major"

        def along(pair: tuple[int, int]) -> tuple[int, int]:
            """(steps of the stride, steps of one element)"""
            return pair if is_row_major else (pair[1], pair[0])

        lane = b.cast(b.lane_id(), first.type)
        high, low = b.shr(lane, _log2(fragment.low_lanes)), b.and_(lane, fragment.low_lanes - 1)
        start: Value = first
        row: Value | None = None
        for digit, step in ((high, along(fragment.high)), (low, along(fragment.low))):
            if step[0]:
                row = _scaled(b, digit, step[0])
            if step[1]:
                start = b.add(start, _scaled(b, digit, step[1]))
        if stride is not None and row is not None:
            start = b.add(start, b.mul(row, stride))
        starts: dict[int, Value] = {0: start}  # by how many strides they are further
        slots = [along(slot) for slot in fragment.slots]
        at = 0
        while at < len(slots):
            strides, single = slots[at]
            width = 1
            while width < 4 and slots[at + width : at + width + 1] == [(strides, single + width)]:
                width += 1
            width = 1 << (width.bit_length() - 1)
            if stride is None:
                strides = 0
            if stride is not None and strides not in starts:
                starts[strides] = b.add(start, b.mul(stride, strides))
            base = starts[strides]
            yield (b.add(base, single) if single else base), width
            at += width


def _without_layout(op: Op) -> dict[str, Any]:
    return {name: attr for name, attr in op.attrs.items() if name != "layout"}


def _scaled(b: Builder, value: Value, by: int) -> Value:
    return value if by == 1 else b.mul(value, by)


def _log2(number: int) -> int:
    return number.bit_length() - 1
