"""Programs with buffers of several dimensions as programs whose buffers have one, which is what targets compile.

    buffer @x : f32[?, ?]                  buffer @x : f32[?]
                                           param @~x.0 : i32       the extents that are open; no text has such names
                                           param @~x.1 : i32
    %v = load @x[%r, %c]             ->    if %c >= @~x.1 { trap }            along dimensions without a proof
                                           %v = load @x[%r * @~x.1 + %c]

The index is computed in 32 bits where a buffer of fixed extents has fewer than 2^31 elements, else in 64, from
indices that are in bounds by then, and so of 31 bits each (see MAX_EXTENT).  Indices that are the parts of one, `@x[%i / %c,
%i % %c]` where %c is `len @x, 1`, are that one again, which is in bounds where it is below the number of elements.  A matrix has one more operand then, the
extent of the last dimension (see matrix_fragments.py).

Ops have attributes here that no text has (see ir/lowered_ops.py).  Where a cast is `in_bounds`, a progression over the lanes
does not wrap in the narrower type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...analysis.bounds import BoundsProofs
from ...ir.access_extents import access_extents, is_matrix_access
from ...ir.open_extents import OpenExtent, flat_buffer, open_extents
from ...ir.ops import OPS
from ...ir.program import Block, Buffer, Op, Param, Program, Value
from ...ir.rewrite import clone
from ...ir.shapes import has_rows, show_shape
from ...ir.types import DataType

__all__ = ["has_strides", "row_major"]

_I32, _U32, _I64, _BOOL = DataType.I32, DataType.U32, DataType.I64, DataType.BOOL

MAX_NARROW = 1 << 31
"""Elements up to which all indices of a buffer have 31 bits."""


def has_strides(program: Program) -> bool:
    """Whether matrices are moved by an index and the elements of a row, as they are after this rewrite."""
    return any(
        is_matrix_access(op) and len(op.indices) > program.buffers[op.attrs["buffer"]].dimensions
        for op in program.walk()
    )


def row_major(program: Program, bounds: str = "trap") -> Program:
    """The program, or a copy of it whose buffers have one dimension.

    `bounds`: what becomes of an access that is not proven in bounds: none, clamp or trap (see the ABI of GPUs).
    """
    if not has_rows(program):
        return program
    copy = replace(program, body=Block((), clone(program.body.ops, {})))
    originals = dict(zip(copy.walk(), program.walk(), strict=True))
    _RowMajor(copy, bounds, originals).block(copy.body)
    copy.buffers = {name: flat_buffer(buffer) for name, buffer in program.buffers.items()}
    copy.params = {**program.params, **{e.param: Param(e.param, _I32) for e in open_extents(program)}}
    return copy


class _RowMajor:
    """Rewrites the ops of a program in place."""

    def __init__(self, program: Program, bounds: str, originals: Mapping[Op, Op]) -> None:
        self.program = program
        self.bounds = bounds
        self.originals = originals
        self.proofs = BoundsProofs(program, proves=bounds != "none")
        self.whole = {op: index for op in program.walk() if (index := self.taken_apart(op)) is not None}
        """Common index of accesses whose indices are parts of one index."""
        self.checked: list[dict[tuple[Value, str, int], int]] = []
        """Numbers of elements from an index on that were found in bounds of a buffer along a dimension, in each block around."""
        self.ops: list[Op] = []
        self.op: Op = Op(OPS["yield"])

    def block(self, block: Block) -> None:
        outer = self.ops
        self.ops = []
        self.checked.append({})
        for op in block.ops:
            for inner in op.regions:
                self.block(inner)
            buffer = self.program.buffers.get(op.attrs.get("buffer", ""))
            if buffer is None or buffer.dimensions == 1:
                self.ops.append(op)
            elif op.name == "len":
                self.length(op, buffer)
            else:
                self.access(op, buffer)
        self.checked.pop()
        block.ops, self.ops = self.ops, outer

    # --- indices that are parts of one

    def taken_apart(self, op: Op) -> Value | None:
        """The linear index that an access takes apart into its row, column and so on; None for any other access."""
        buffer = self.program.buffers.get(op.attrs.get("buffer", ""))
        if (
            buffer is None
            or buffer.dimensions == 1
            or op.name == "len"
            or {*access_extents(op, buffer)} != {1}
        ):
            return None
        first, *others = op.indices
        wholes = {self.divided(first, buffer, 1)}
        for dimension, index in enumerate(others, 1):
            part = index.owner
            if not (isinstance(part, Op) and part.name == "rem" and self.is_extent(part, buffer, dimension)):
                return None
            wholes.add(self.divided(part.operands[0], buffer, dimension + 1))
        return wholes.pop() if len(wholes) == 1 else None

    def divided(self, value: Value, buffer: Buffer, first: int) -> Value | None:
        """Value whose quotient by the extents of a buffer from dimension `first` on a value is."""
        for dimension in range(first, buffer.dimensions):
            part = value.owner
            if not (isinstance(part, Op) and part.name == "div" and self.is_extent(part, buffer, dimension)):
                return None
            value = part.operands[0]
        return value

    def is_extent(self, part: Op, buffer: Buffer, dimension: int) -> bool:
        """Whether the divisor of an op is the extent along a dimension."""
        owner = part.operands[1].owner
        if not isinstance(owner, Op):
            return False
        if owner.name == "len":
            return owner.attrs == {"buffer": buffer.name, "dimension": dimension}
        return owner.name == "const" and owner.attrs["value"] == buffer.shape[dimension]

    def elements(self, buffer: Buffer) -> Value:
        """The number of all elements."""
        if buffer.count is not None:
            return self.constant(buffer.count, DataType.U64)
        total = self.extent(buffer, 0, DataType.U64)
        for dimension in range(1, buffer.dimensions):
            total = self.emit("mul", (total, self.extent(buffer, dimension, DataType.U64)), DataType.U64)
        return total

    # --- ops

    def emit(
        self, name: str, operands: tuple[Value, ...], dtype: DataType, attrs: dict[str, Any] | None = None
    ) -> Value:
        result = Value(name, dtype)
        self.ops.append(Op(OPS[name], operands, (result,), attrs or {}, (), self.op.loc))
        return result

    def constant(self, number: int, dtype: DataType) -> Value:
        return self.emit("const", (), dtype, {"value": number})

    def extent(self, buffer: Buffer, dimension: int, dtype: DataType) -> Value:
        extent = buffer.shape[dimension]
        if extent is not None:
            return self.constant(extent, dtype)
        param = OpenExtent(buffer.name, dimension).param
        return self.cast(self.emit("param", (), _I32, {"param": param}), dtype)

    def cast(self, value: Value, dtype: DataType, in_bounds: bool = False) -> Value:
        if value.type is dtype:
            return value
        return self.emit("cast", (value,), dtype, {"in_bounds": True} if in_bounds else {})

    def length(self, op: Op, buffer: Buffer) -> None:
        self.op = op
        self.extent(buffer, op.attrs["dimension"], op.result.type)
        last = self.ops[-1]
        last.results, op.result.owner = op.results, last

    def access(self, op: Op, buffer: Buffer) -> None:
        """Check the indices that are not proven in bounds, and put the one of the element in their place."""
        self.op = op
        whole = self.whole.get(op)
        if whole is not None and (self.bounds != "clamp" or op in self.proofs.proven):
            if self.bounds == "trap" and op not in self.proofs.proven:
                wide = self.cast(self.unsigned(whole), DataType.U64)
                self.trap(op, buffer, self.emit("ge", (wide, self.elements(buffer)), _BOOL))
            op.operands = _with_index(op, whole)
            op.attrs = {**op.attrs, "in_bounds": True}
            self.ops.append(op)
            return
        indices, extents = list(op.indices), access_extents(op, buffer)
        along = self.proofs.along.get(op, (False,) * len(indices))
        for dimension, index in enumerate(indices):
            if op in self.proofs.proven or along[dimension] or self.bounds == "none":
                continue
            width = extents[dimension]
            if self.bounds == "clamp":
                indices[dimension] = self.clamped(buffer, dimension, index, width)
            else:
                self.check(op, buffer, dimension, width)
        linear = self.linear(buffer, indices)
        op.operands = _with_index(op, linear)
        if is_matrix_access(op):
            op.operands += (self.extent(buffer, buffer.dimensions - 1, linear.type),)
        # an extent may be smaller than what the access moves, or 0: then it is clamped once more, or left out
        if self.bounds != "clamp" or op in self.proofs.proven:
            op.attrs = {**op.attrs, "in_bounds": True}
        self.ops.append(op)

    # --- bounds

    def unsigned(self, index: Value) -> Value:
        """An index as an unsigned number, so that a negative one is larger than any extent."""
        bits = index.type.bits or 32
        return self.cast(index, DataType.U64 if bits > 32 else _U32)

    def check(self, op: Op, buffer: Buffer, dimension: int, width: int) -> None:
        """Trap where the last of `width` elements from an index on is out of bounds, unless an access before would have trapped."""
        place = op.indices[dimension], buffer.name, dimension
        if any(known.get(place, 0) >= width for known in self.checked):
            return
        self.checked[-1][place] = width
        last = self.unsigned(op.indices[dimension])
        if width > 1:
            last = self.emit("add_sat", (last, self.constant(width - 1, last.type)), last.type)
        self.trap(op, buffer, self.emit("ge", (last, self.extent(buffer, dimension, last.type)), _BOOL))

    def trap(self, op: Op, buffer: Buffer, outside: Value) -> None:
        """The fault of an access where it is out of bounds."""
        inner, self.ops = self.ops, []
        indices = tuple(self.cast(index, _I64) for index in op.indices)
        message = f"{op.name} out of bounds of @{buffer.name}[{show_shape(buffer.shape)}]"
        shape = tuple(
            OpenExtent(buffer.name, number).param if extent is None else extent
            for number, extent in enumerate(buffer.shape)
        )
        attrs = {"message": message, "access": self.originals[op], "shape": shape}
        trap = Op(OPS["trap"], indices, (), attrs, (), op.loc)
        body, self.ops = Block((), [*self.ops, trap]), inner
        self.ops.append(Op(OPS["if"], (outside,), (), {}, (body,), op.loc))

    def clamped(self, buffer: Buffer, dimension: int, index: Value, width: int) -> Value:
        """The nearest index in bounds."""
        zero = self.constant(0, index.type)
        if index.type.is_signed:
            index = self.emit("max", (index, zero), index.type)
        wide = self.unsigned(index)
        extent = self.extent(buffer, dimension, wide.type)
        last = self.emit("sub_sat", (extent, self.constant(width, wide.type)), wide.type)
        return self.emit("min", (wide, last), wide.type)

    # --- the element

    def linear(self, buffer: Buffer, indices: list[Value]) -> Value:
        """The number of the element in row-major order; all indices are in bounds."""
        count = buffer.count
        dtype = _I32 if count is not None and count <= MAX_NARROW else _I64
        bases, ahead, stride = self.proofs.bases.get(self.op, {}), 0, 1
        for dimension in range(-1, -len(indices) - 1, -1):
            base, distance = bases.get(dimension, (None, 0))
            if base is not None and indices[dimension] is self.op.indices[dimension]:
                indices[dimension] = base
                ahead += distance * stride
            stride *= buffer.shape[dimension] or 0
            if not stride:
                break
        total = self.index(indices[0], dtype)
        for dimension, index in enumerate(indices[1:], 1):
            row = self.emit("mul", (total, self.extent(buffer, dimension, dtype)), dtype)
            total = self.emit("add", (row, self.index(index, dtype)), dtype)
        # accesses from one base differ in a constant of the instruction only
        return self.emit("add", (total, self.constant(ahead, dtype)), dtype) if ahead else total

    def index(self, index: Value, dtype: DataType) -> Value:
        """An index that is in bounds in another type, from 32 bits on by its sign: lane 0, if it is not active, may be
        below 0 where the others are not."""
        bits = index.type.bits or 32
        if bits < 32:
            return self.cast(index, dtype)
        return self.cast(self.cast(index, _I32), dtype, in_bounds=True)


def _with_index(op: Op, linear: Value) -> tuple[Value, ...]:
    """The operands of an access, with one index."""
    if op.definition.format in ("load", "matrix_load"):
        return (linear,)
    if op.definition.format in ("store", "matrix_store"):
        return op.operands[0], linear
    return (linear, *op.operands[-op.definition.atomic_values :])
