"""Programs that a pass is expected to have written, op by op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.grids import Extent
from ..ir.ops import OPS
from ..ir.program import Block, Op, Program, Value
from ..ir.types import DataType
from .mismatch import Mismatch

__all__ = ["OpSequence", "emit_extent", "ids_of", "without_ids"]


class OpSequence:
    """Ops that stand one behind the other."""

    def __init__(self, program: Program) -> None:
        self.ops: list[Op] = []
        self.program = program

    def op(self, name: str, dtype: DataType, *operands: Value, **attrs: object) -> Value:
        result = Value(name, dtype)
        self.ops.append(Op(OPS[name], operands, (result,), attrs, (), self.program.loc))
        return result

    def statement(self, name: str, *operands: Value, blocks: Sequence[Block] = (), **attrs: object) -> None:
        """An op without results."""
        self.ops.append(Op(OPS[name], operands, (), attrs, tuple(blocks), self.program.loc))

    def number(self, value: int, dtype: DataType = DataType.U32) -> Value:
        return self.op("const", dtype, value=value)


def without_ids(ops: Sequence[Op], ids: Mapping[str, Value]) -> list[Op]:
    """The ops with other values for ids along x."""
    other: dict[Value, Value] = {}

    def visit(block: Sequence[Op]) -> list[Op]:
        kept = []
        for op in block:
            op.operands = tuple(other.get(value, value) for value in op.operands)
            if op.name in ids and op.attrs["axis"] == "x":
                other[op.result] = ids[op.name]
                continue
            for region in op.regions:
                region.ops = visit(region.ops)
            kept.append(op)
        return kept

    return visit(ops)


def emit_extent(ops: OpSequence, extent: Extent, names: Mapping[str, str]) -> Value:
    """A number of workgroups as a u32; on the way there a u64, in which it does not wrap.

    `names`: the pipeline's buffer for each of the program's.  Raises Mismatch.
    """
    formals = {actual: formal for formal, actual in names.items()}
    u64 = DataType.U64

    def wide(part: Extent) -> Value:
        if isinstance(part, int):
            return ops.number(part, u64)
        if part.name == "len":
            if part.args[0] not in formals:
                raise Mismatch(f"@{ops.program.name} does not know how long @{part.args[0]} is")
            length = ops.op("len", DataType.U32, buffer=formals[str(part.args[0])])
            return ops.op("cast", u64, length)
        x, y = (wide(arg) for arg in part.args if not isinstance(arg, str))
        if part.name == "ceil_div":
            return ops.op("div", u64, ops.op("add", u64, x, ops.op("sub", u64, y, ops.number(1, u64))), y)
        return ops.op(part.name, u64, x, y)

    return ops.number(extent) if isinstance(extent, int) else ops.op("cast", DataType.U32, wide(extent))


def ids_of(ops: OpSequence, group: Value, count: Value, local: Value) -> dict[str, Value]:
    """The ids and sizes along x of invocation `local` of workgroup `group` of `count`."""
    u32, lanes = DataType.U32, ops.program.workgroup[0]
    first = ops.op("mul", u32, group, ops.number(lanes))
    return {
        "workgroup_id": group,
        "global_id": ops.op("add", u32, first, local),
        "num_workgroups": count,
        "global_size": ops.op("mul", u32, count, ops.number(lanes)),
    }
