"""Checks that keep the faults of accesses that a pass removes from their buffers.

    store %v, @mid[%i]       ->       check_bounds<store> @mid[%i], %n : u32
                                      store %v, @mid[%i_tile]                    in a tile, or no longer there

An access that is proven in bounds needs none, nor does one behind another of the same element.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ..analysis.bounds import BoundsProofs
from ..ir.access_extents import access_extents
from ..ir.grids import Extent
from ..ir.ops import OPS
from ..ir.program import Block, Buffer, Op, Program, Value
from ..ir.types import DataType
from .halo_recompute import OpEmitter

__all__ = ["LengthOf", "add_checks"]

LengthOf = Callable[[Buffer, int], Extent]
"""Extent of a buffer of open size along a dimension."""


def add_checks(program: Program, accesses: Collection[Op], length_of: LengthOf = Buffer.length) -> int:
    """Put a check before each of `accesses`, for each dimension along which it may be out of bounds.

    To be called before the accesses are rewritten.  Returns the number of checks.
    """
    if not accesses:
        return 0
    checks = _Checks(program, accesses, length_of)
    checks.block(program.body, {})
    proven = BoundsProofs(program, checks_only=True).proven
    proven_ops = {op for check, ops in checks.ops.items() if check in proven for op in ops}
    if proven_ops:
        for block in checks.blocks:
            block.ops = [op for op in block.ops if op not in proven_ops]
    return len(checks.ops.keys() - proven_ops)


class _Checks:
    """Inserts checks.  `ops`: check -> the ops inserted for it, itself included.  `blocks`: the blocks with checks."""

    def __init__(self, program: Program, accesses: Collection[Op], length_of: LengthOf) -> None:
        self.program = program
        self.accesses = accesses
        self.length_of = length_of
        self.ops: dict[Op, list[Op]] = {}
        self.blocks: list[Block] = []
        lengths = (op for op in program.walk() if op.name == "len" and op.result.type is DataType.U32)
        self.u32_lengths = {
            program.buffers[op.attrs["buffer"]].length(op.attrs.get("dimension", 0)) for op in lengths
        }
        """Lengths that the program has as u32 already: the launch checks that they fit."""

    def block(self, block: Block, outer: Mapping[object, bool]) -> None:
        checked = dict(outer)
        ops: list[Op] = []
        for op in block.ops:
            for inner in op.regions:
                self.block(inner, checked)
            if "buffer" in op.attrs and op.operands:
                self.access(op, ops, checked)
            ops.append(op)
        if len(ops) > len(block.ops):
            block.ops = ops
            self.blocks.append(block)

    def access(self, op: Op, ops: list[Op], checked: dict[object, bool]) -> None:
        buffer = self.program.buffers[op.attrs["buffer"]]
        is_checked = op in self.accesses
        for dimension, width in enumerate(access_extents(op, buffer)):
            key = buffer.name, dimension, op.indices[dimension], width
            if is_checked and key not in checked:
                self.check(op, buffer, dimension, width, ops)
            # a later pass may remove a load and its fault, so a load alone does not stand for a check
            if is_checked or "write" in op.definition.effects:
                checked[key] = True

    def check(self, op: Op, buffer: Buffer, dimension: int, width: int, ops: list[Op]) -> None:
        checks: list[Op] = []
        emit = OpEmitter(checks, op.loc)
        index, extent = op.indices[dimension], buffer.shape[dimension]
        source = self.length_of(buffer, dimension) if extent is None else extent
        is_narrow = source < 1 << 32 if isinstance(source, int) else source in self.u32_lengths
        fits = (index.type.bits or 0) <= 32 and not index.type.is_signed
        dtype = DataType.U32 if is_narrow and fits else DataType.U64
        last = emit.cast(index, dtype)
        if width > 1:
            last = emit.op("add_sat", f"{index.name}_last", last, emit.const(width - 1, dtype))
        length = _emit_length(source, dtype, emit)
        access = "store" if op.name == "copy_async" else op.name
        checks.append(
            Op(OPS["check_bounds"], (last, length), (), {"access": access, "of": buffer.name}, (), op.loc)
        )
        ops += checks
        self.ops[checks[-1]] = checks


def _emit_length(extent: Extent, dtype: DataType, emit: OpEmitter) -> Value:
    """A length as a value; an expression, whose parts may be negative, is computed in 64 bits."""
    is_simple = isinstance(extent, int) or extent.name == "len"
    wide = DataType.U32 if is_simple and dtype is DataType.U32 else DataType.U64

    def length(buffer: str, dimension: int | None) -> Value:
        return emit.length(f"{buffer}_length", buffer, dimension, wide)

    return emit.cast(emit.extent(extent, "length", dtype if is_simple else DataType.I64, length), dtype)
