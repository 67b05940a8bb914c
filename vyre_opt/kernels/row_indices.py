"""The program of a kernel on buffers of several dimensions, in place of those of one that it was built for.

    buffer @x : f32[?]                     buffer @x : f32[?, ?]
                                           %c = len @x, 1
    %v = load @x[%i] : vec<2 x f32>   ->   %r0 = div %i, %c        %c0 = rem %i, %c       the same for %i + 1
                                           %v = vector [load @x[%r0, %c0], load @x[%r1, %c1]]

Elements are taken one by one, since those of a vector need not be in one row.  Targets, which have rows follow each other
again, are left with the indices as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir.grids import MAX_LENGTH
from ..ir.ops import OPS
from ..ir.program import NO_ATTRS, Block, Buffer, Op, Program, Value
from ..ir.rewrite import become
from ..ir.types import DataType

__all__ = ["index_by_rows"]

_U32, _U64, _BOOL = DataType.U32, DataType.U64, DataType.BOOL


def index_by_rows(program: Program, shaped: Mapping[str, Buffer]) -> None:
    """Let a program, none of whose buffers is a matrix's, access the buffers that it names as those of several dimensions.

    `shaped`: what these are, by the names of the program's own.  Raises ValueError.
    """
    _Rewriter(program, shaped).block(program.body)


class _Rewriter:
    def __init__(self, program: Program, shaped: Mapping[str, Buffer]) -> None:
        self.program, self.shaped = program, shaped
        self.ops: list[Op] = []

    def block(self, block: Block) -> None:
        outer, self.ops = self.ops, []
        for op in block.ops:
            for inner in op.regions:
                self.block(inner)
            name = op.attrs.get("buffer", "")
            if name not in self.shaped:
                self.ops.append(op)
            elif op.name == "len":
                self.length(op, self.shaped[name])
            elif op.name == "load":
                self.load(op, self.shaped[name])
            elif op.name == "store":
                self.store(op, self.shaped[name])
            else:
                raise ValueError(f"its {op.name} takes @{name} for a buffer of one dimension")
        block.ops, self.ops = self.ops, outer

    def emit(
        self,
        name: str,
        operands: tuple[Value, ...],
        dtype: DataType,
        attrs: dict[str, Any] = NO_ATTRS,
    ) -> Value:
        result = Value(name, dtype)
        self.ops.append(Op(OPS[name], operands, (result,), attrs))
        return result

    def extent(self, op: Op, buffer: Buffer, dimension: int, dtype: DataType) -> Value:
        known = buffer.shape[dimension]
        if known is not None:
            return self.emit("const", (), dtype, {"value": known})
        wide = _U64 if (dtype.bits or 0) > 32 else _U32
        length = self.emit("len", (), wide, {"buffer": op.attrs["buffer"], "dimension": dimension})
        return length if dtype is wide else self.emit("cast", (length,), dtype)

    def length(self, op: Op, buffer: Buffer) -> None:
        """All elements; an error of the program where their number is none of the type."""
        dtype = op.result.type
        is_narrow = (dtype.bits or 0) <= 32
        if buffer.count is not None:
            if is_narrow and buffer.count > MAX_LENGTH:
                raise ValueError(f"@{buffer.name} has {buffer.count} elements, and it counts them in {dtype}")
            become(op, "const", (), {"value": buffer.count})
        else:
            total = self.extent(op, buffer, 0, _U64)
            for dimension in range(1, buffer.dimensions):
                total = self.emit("mul", (total, self.extent(op, buffer, dimension, _U64)), _U64)
            if is_narrow:
                most = self.emit("const", (), _U64, {"value": MAX_LENGTH})
                fits = self.emit("le", (total, most), _BOOL)
                message = f"@{buffer.name} has more elements than {MAX_LENGTH}"
                self.ops.append(Op(OPS["assert"], (fits,), (), {"message": message}))
            become(op, "cast", (total,))
        self.ops.append(op)

    def load(self, op: Op, buffer: Buffer) -> None:
        if not op.result.type.is_vec:
            op.operands = self.indices(op, buffer, op.index, 0)
        else:
            element = op.result.type.element
            lanes = tuple(
                self.emit("load", self.indices(op, buffer, op.index, lane), element, op.attrs)
                for lane in range(op.result.type.lanes)
            )
            become(op, "vector", lanes)
        self.ops.append(op)

    def store(self, op: Op, buffer: Buffer) -> None:
        (value, index), dtype = op.operands, op.operands[0].type
        for lane in range(dtype.lanes):
            one = self.emit("extract", (value,), dtype.element, {"index": lane}) if dtype.is_vec else value
            operands = (one, *self.indices(op, buffer, index, lane))
            self.ops.append(Op(op.definition, operands, (), op.attrs))

    def indices(self, op: Op, buffer: Buffer, index: Value, further: int) -> tuple[Value, ...]:
        """The indices of the element that is `further` behind an index of one dimension."""
        dtype = index.type
        if (dtype.bits or 0) < 32:
            dtype, index = _U32, self.emit("cast", (index,), _U32)
        if further:
            index = self.emit("add", (index, self.emit("const", (), dtype, {"value": further})), dtype)
        indices: list[Value] = []
        for dimension in range(buffer.dimensions - 1, 0, -1):
            extent = self.extent(op, buffer, dimension, dtype)
            indices.append(self.emit("rem", (index, extent), dtype))
            index = self.emit("div", (index, extent), dtype)
        return (index, *indices[::-1])
