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

From workgroup memory, where rows are surely aligned, words are loaded as ldmatrix does: the lanes of a subgroup each name
16 bytes, of which a word of every lane is put together for each 8 of them.  Then the op stays, for four words at most:

    %w = matrix_load @t[%own] : vec<4 x u32>

Loads and stores have no indices of several dimensions here (see row_major.py, which comes before).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...analysis.alignment import Alignment
from ...ir.builder import Builder
from ...ir.ops import LAYOUTS, OPS, SUBGROUP_SIZE
from ...ir.program import Block, Op, Program, Value
from ...ir.rewrite import clone
from ...ir.types import DataType
from ...records import dataclass
from ...rewriting.walker import Walker

__all__ = ["MMA", "ROWS", "Fragment", "FragmentLayout", "has_matrices", "with_fragments"]

_U32 = DataType.U32
ROW_BYTES = 16  # that a lane names


@dataclass(frozen=True, slots=True)
class Fragment:
    """Slots of a lane in a matrix: at (row, column) of `slots`, plus `high` times the lane's high digit and
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

    def blocks(self, dtype: DataType, layout: str) -> list[tuple[int, int]]:
        """Starts of the 8 rows of 16 bytes with a word of each lane, by the number of the word; [] where a target
        loads no words by rows."""
        return []


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
            slots = (
                (row + k, column)
                for column in range(0, columns, 8)
                for row in range(0, rows, 4 * word)
                for k in range(word)
            )
            return Fragment(tuple(slots), (0, 1), (word, 0), 4)
        slots = (
            (row + half, column + k)
            for row in range(0, rows, 16)
            for column in range(0, columns, 4 * word)
            for half in (0, 8)
            for k in range(word)
        )
        return Fragment(tuple(slots), (1, 0), (0, word), 4)

    def word(self, dtype: DataType) -> int:
        return 2 if dtype.use == "acc" else 32 // (dtype.element.bits or 32)

    def blocks(self, dtype: DataType, layout: str) -> list[tuple[int, int]]:
        if dtype.use == "acc" or (dtype.element.bits != 16 and _is_transposed(dtype, layout)):
            return []
        return list(self.fragment(dtype).slots[:: self.word(dtype)])

    def held(self, dtype: DataType) -> DataType:
        if dtype.use == "acc" or dtype.element is DataType.TF32:
            return super().held(dtype)
        return DataType.vec(_U32, dtype.lanes // self.word(dtype))


ROWS: FragmentLayout = _Rows()
MMA: FragmentLayout = _Mma()


def has_matrices(program: Program) -> bool:
    """Whether a value of the program is a matrix."""
    return any(value.type.is_matrix for op in program.walk() for value in (*op.operands, *op.results))


def with_fragments(program: Program, layout: FragmentLayout, by_rows: bool = False) -> Program:
    """The program, or a copy of it without matrix types.  `by_rows`: whether the target may load words by rows."""
    if not has_matrices(program):
        return program
    copy = replace(program, body=Block((), clone(program.body.ops, {})))
    _Expansion(copy, layout, by_rows).walk_block(copy.body)
    return copy


class _Expansion(Walker):
    """Rewrites a program in place.  `matrices`: the matrix types of values, which have those of fragments by now."""

    def __init__(self, program: Program, layout: FragmentLayout, by_rows: bool) -> None:
        super().__init__()
        self.layout = layout
        self.b = Builder(program.name, program.workgroup, program.grid)
        self.b.program.buffers = program.buffers
        self.matrices: dict[Value, DataType] = {}
        self.alignment = Alignment(program) if by_rows else None
        for op in program.walk():
            for value in (*op.results, *(arg for region in op.regions for arg in region.args)):
                if value.type.is_matrix:
                    self.matrices[value] = value.type
                    value.type = layout.held(value.type)

    def visit(self, op: Op, out: list[Op]) -> None:
        types = [self.matrices[value] for value in (*op.results, *op.operands) if value in self.matrices]
        if not types or op.definition.is_terminator or op.name not in OPS:  # of the target alone
            out.append(op)
            return
        block, self.b.loc = Block(), op.loc
        with self.b.at(block):
            if self.is_moved_whole(op):
                self.move(op)
            elif op.name == "matrix_load":
                blocks = self.aligned_blocks(op)
                self.become(op, self.load_blocks(op, blocks) if blocks else self.load(op))
            elif op.name == "matrix_store":
                self.store(op)
            elif op.name == "matrix_mul_add":
                a, b, _ = (self.matrices[value] for value in op.operands)
                op.attrs = {"shape": (*a.shape, b.shape[1]), "element": a.element}
                block.ops.append(op)
            elif op.name == "matrix_unpack":
                self.replace(op.results, [self.in_order(op, op.operands[0])])
            elif op.name == "matrix_pack":
                self.become(op, self.in_order(op, op.operands[0]))
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
        """Expand an op on registers, some of which pack several elements."""
        dtype = self.matrices[op.result]
        plain = DataType.vec(dtype.stored, dtype.lanes)
        operands = tuple(map(self.elements, op.operands))
        result = self.b.emit(op.definition, operands, (plain,), op.attrs).result
        return self.held(result, dtype)

    def in_order(self, op: Op, value: Value) -> Value:
        """Reorder a lane's elements between the language's order and that of MMA; other layouts are left to the target."""
        if self.layout is MMA:
            return self.b.bitcast(value, value.type)
        dtype = self.matrices[op.result if op.name == "matrix_pack" else value]
        return self.b.emit(op.definition, (value,), (value.type,), {"shape": dtype.shape}).result

    # --- memory

    def is_moved_whole(self, op: Op) -> bool:
        """A buffer that had several dimensions has a stride."""
        count = {"matrix_load": 2, "matrix_store": 3}.get(op.name)
        return len(op.operands) == count and self.layout.moves(op)

    def move(self, op: Op) -> None:
        """Leave the op to the target, with the shape as an attribute."""
        dtype = self.matrices[op.results[0] if op.results else op.operands[0]]
        attrs = {**op.attrs, "shape": dtype.shape}
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

    def aligned_blocks(self, op: Op) -> list[tuple[int, int]]:
        """See `FragmentLayout.blocks`; [] if rows may not be aligned, or are not in workgroup memory."""
        buffer = self.b.find_buffer(op.attrs["buffer"])
        row_alignment = _log2(ROW_BYTES // (buffer.dtype.size_bytes or ROW_BYTES))
        if self.alignment is None or len(op.operands) != 2 or not buffer.is_workgroup:
            return []
        if min(self.alignment.of(value) for value in op.operands) < row_alignment:
            return []
        return self.layout.blocks(self.matrices[op.result], op.attrs["layout"])

    def load_blocks(self, op: Op, blocks: list[tuple[int, int]]) -> Value:
        """Four words at a time, or two: lanes 8 k to 8 k + 7 name the rows of block k."""
        dtype, b, (first, stride) = self.matrices[op.result], self.b, op.operands
        buffer = b.find_buffer(op.attrs["buffer"])
        if op.attrs["layout"] != "row_major":
            blocks = [(column, row) for row, column in blocks]
        attrs = {
            "buffer": buffer.name,
            "covers": ROW_BYTES // (buffer.dtype.size_bytes or 1),
            "layout": LAYOUTS[_is_transposed(dtype, op.attrs["layout"])],
        }
        lane = b.cast(b.lane_id(), first.type)
        row, block = b.and_(lane, 7), b.shr(lane, 3)
        digits = b.and_(block, 1), b.shr(block, 1)
        words: list[Value] = []
        while blocks:
            (rows, columns), *more_blocks = group = blocks[: 4 if len(blocks) >= 4 else 2]
            blocks = blocks[len(group) :]
            own_row, own_column = row, b.const(columns, first.type)
            for digit, (r, c) in zip(
                digits, more_blocks, strict=False
            ):  # the last block is as far from the others
                own_row = b.add(own_row, b.mul(digit, r - rows)) if r != rows else own_row
                own_column = b.add(own_column, b.mul(digit, c - columns)) if c != columns else own_column
            lane_start = b.add(b.add(b.mul(own_row, stride), own_column), b.add(first, b.mul(stride, rows)))
            loaded = b.emit(
                OPS["matrix_load"], (lane_start,), (DataType.vec(_U32, len(group)),), attrs
            ).result
            words += [b.extract(loaded, k) for k in range(len(group))]
        result: Value = b.vector(*words)
        if dtype.element is DataType.TF32:
            result = self.rounded(b.bitcast(result, self.layout.held(dtype)))
        return result

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

    def runs(self, op: Op, dtype: DataType, origin: tuple[Value, ...]) -> Iterator[tuple[Value, int]]:
        """The index of each run of slots that lie next to each other in memory, and its length.

        `origin`: the index of the first element and, of a buffer that had several dimensions, the elements of a row.
        """
        b, fragment = self.b, self.layout.fragment(dtype)
        first, stride = origin[0], origin[1] if len(origin) > 1 else None
        is_row_major = op.attrs["layout"] == "row_major"

        def along(pair: tuple[int, int]) -> tuple[int, int]:
            """Pair of steps: (steps of the stride, steps of one element)."""
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


def _is_transposed(dtype: DataType, layout: str) -> bool:
    """Whether the elements of a word, which follow each other along the depth, do not in memory."""
    return (dtype.use == "a") != (layout == "row_major")


def _without_layout(op: Op) -> dict[str, Any]:
    return {name: attr for name, attr in op.attrs.items() if name != "layout"}


def _scaled(b: Builder, value: Value, by: int) -> Value:
    return value if by == 1 else b.mul(value, by)


def _log2(number: int) -> int:
    return number.bit_length() - 1
