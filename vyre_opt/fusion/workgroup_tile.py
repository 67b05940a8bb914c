"""Promotes storage buffers to workgroup tiles: rebases the indices of accesses, and narrows elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from ..analysis.affine import AffineExpr, Digit, SymbolKind
from ..analysis.affine_analysis import LoopCounter
from ..analysis.footprint import Footprints, MemoryAccess
from ..analysis.locality import TileProof
from ..ir.arith import wrap
from ..ir.ops import AXES, OPS, SUBGROUP_SIZE
from ..ir.program import AccessMode, Block, Buffer, Op, Program, Value
from ..ir.rewrite import become
from ..ir.types import DataType
from .halo_recompute import OpEmitter

__all__ = ["promote_to_tile"]

Promotion = tuple[Buffer, TileProof | None, DataType, int]
"""A buffer, its tile (None if nothing accesses it), and the type and the number of the tile's elements."""


def promote_to_tile(program: Program, promotions: Sequence[Promotion], footprints: Footprints) -> None:
    """Make each buffer a workgroup buffer with its tile's element count and type, and rewrite its accesses."""
    rewrite = _TileRewrite(program, footprints)
    for buffer, local, dtype, count in promotions:
        if local is not None:
            for access in local.accesses:
                rewrite.accesses[access.op] = (access, local, buffer.dtype, dtype)
        if local is not None and buffer.count is not None:
            rewrite.counts[buffer.name] = buffer.count
        buffer.access, buffer.binding = AccessMode.WORKGROUP, None
        buffer.dtype, buffer.shape = dtype, (count,)
    rewrite.run()


class _TileRewrite:
    def __init__(self, program: Program, footprints: Footprints) -> None:
        self.program = program
        self.counters = footprints.affine.counters
        self.accesses: dict[Op, tuple[MemoryAccess, TileProof, DataType, DataType]] = {}
        self.counts: dict[str, int] = {}  # of the storage buffers: `len` keeps its value
        self.ids: dict[str, Value] = {}  # local ids by axis
        self.header: list[Op] = []  # new local ids, for the top of the body

    def run(self) -> None:
        for op in self.program.body.ops:  # ids before the first access can be reused
            if op in self.accesses or op.regions:
                break
            if op.name == "local_id":
                self.ids.setdefault(op.attrs["axis"], op.result)
        self.block(self.program.body)
        self.program.body.ops[:0] = self.header

    def block(self, block: Block) -> None:
        ops: list[Op] = []
        for op in block.ops:
            for inner in op.regions:
                self.block(inner)
            if op in self.accesses:
                self.access(op, ops)
            elif op.name == "len" and op.attrs["buffer"] in self.counts:
                count = wrap(self.counts[op.attrs["buffer"]], op.result.type)
                become(op, "const", (), {"value": count})
                ops.append(op)
            else:
                ops.append(op)
        block.ops = ops

    def access(self, op: Op, ops: list[Op]) -> None:
        access, local, wide, narrow = self.accesses[op]
        emit = OpEmitter(ops, op.loc)
        expr = access.expr - local.base - AffineExpr(local.extent.low)
        index = op.index
        if expr != access.expr:
            index = self.index_value(expr, f"{index.name}_tile", emit, access.is_collective)
        if not access.is_write:
            op.operands, result = (index,), op.result
            if narrow is not wide:  # load the narrow element, and cast it to the result of the old load
                op.results = (Value(f"{result.name}_{narrow}", narrow, op),)
                ops += [op, Op(OPS["cast"], op.results, (result,), loc=op.loc)]
                return
        else:
            value = op.operands[0]
            op.operands = (_narrow(value, narrow, emit) if narrow is not wide else value, index)
        ops.append(op)

    def index_value(self, expr: AffineExpr, name: str, emit: OpEmitter, by_subgroup: bool) -> Value:
        """The value of an expression in local ids, loop counters and lane values, as a u32 of this name.

        `by_subgroup`: compute it from the subgroup's number, not from local ids, so that it is uniform in a subgroup."""
        terms: list[tuple[Value, int]] = []
        constant = AffineExpr(expr.const)
        for symbol, coefficient in expr.terms.items():
            if symbol.kind is SymbolKind.LOOP:
                constant += _add_iterations(self.counters[symbol], coefficient, terms, emit)
        local = constant + expr.terms_of(SymbolKind.LOCAL, SymbolKind.VALUE)
        # digits that add up to a whole id need no division
        ids, rest = ({}, local.terms) if by_subgroup else local.local_id_coefficients()
        terms += [(self.local_id(axis, emit), c) for axis, c in ids.items()]
        for symbol, coefficient in rest.items():
            if symbol.digit is not None:
                digit = self.digit_of_subgroup if by_subgroup else self.digit
                terms.append((digit(symbol.digit, emit), coefficient))
            elif isinstance(symbol.identity, Value):
                terms.append((emit.cast(symbol.identity, DataType.U32), coefficient))
            else:  # a lane_id or subgroup_id that is no sum of digits
                kind = str(symbol.identity)
                terms.append((emit.op(kind, kind, dtype=DataType.U32), coefficient))
        return _sum(terms, local.const, name, emit)

    def digit(self, digit: Digit, emit: OpEmitter) -> Value:
        """local id / stride % radix."""
        value = self.local_id(digit.axis, emit)
        if digit.stride > 1:
            value = emit.op("div", "digit", value, emit.const(digit.stride))
        if digit.stride * digit.radix < digit.size:
            value = emit.op("rem", "digit", value, emit.const(digit.radix))
        return value

    def digit_of_subgroup(self, digit: Digit, emit: OpEmitter) -> Value:
        """The digit in the first lane of the subgroup."""
        inner = math.prod(self.program.workgroup[: AXES.index(digit.axis)])
        times, by = Fraction(SUBGROUP_SIZE, inner * digit.stride).as_integer_ratio()
        value = emit.op("subgroup_id", "subgroup", dtype=DataType.U32)
        if times > 1:
            value = emit.op("mul", "digit", value, emit.const(times))
        if by > 1:
            value = emit.op("div", "digit", value, emit.const(by))
        if inner * digit.stride * digit.radix < self.program.lanes:
            value = emit.op("rem", "digit", value, emit.const(digit.radix))
        return value

    def local_id(self, axis: str, emit: OpEmitter) -> Value:
        """The local id of an axis; a new op at the top of the body unless one before the first access can be reused."""
        if axis not in self.ids:
            self.ids[axis] = OpEmitter(self.header, emit.loc).identity("local_id", f"local_{axis}", axis)
        return self.ids[axis]


def _narrow(value: Value, narrow: DataType, emit: OpEmitter) -> Value:
    owner = value.owner
    if isinstance(owner, Op) and owner.name == "cast" and owner.operands[0].type is narrow:
        return owner.operands[0]
    return emit.cast(value, narrow)


def _add_iterations(
    counter: LoopCounter, coefficient: int, terms: list[tuple[Value, int]], emit: OpEmitter
) -> AffineExpr:
    """Add `coefficient * iteration number` to `terms`; return the remaining part as an expression.

    The iteration number is (counter - lower) / step.
    """
    times, remainder = divmod(coefficient, counter.step)
    if not remainder and all(s.kind is SymbolKind.LOCAL for s in counter.lower.terms):
        terms.append((emit.cast(counter.value, DataType.U32), times))
        return counter.lower.scaled(-times)
    # sums and products are right modulo 2^32, but a division needs the exact difference
    dtype = DataType.U64 if remainder and counter.value.type.bits == 64 else DataType.U32
    value = emit.cast(counter.value, dtype)
    if counter.lower_value is not None:
        value = emit.op("sub", "done", value, emit.cast(counter.lower_value, dtype))
    elif counter.lower.const:
        value = emit.op("sub", "done", value, emit.const(counter.lower.const, dtype))
    if remainder:
        value = emit.op("div", "done", value, emit.const(counter.step, dtype))
        times = coefficient
    terms.append((emit.cast(value, DataType.U32), times))
    return AffineExpr()


def _sum(terms: list[tuple[Value, int]], constant: int, name: str, emit: OpEmitter) -> Value:
    total: Value | None = None
    # positive terms first, so that the sum need not begin at 0 with a subtraction
    for value, coefficient in sorted(terms, key=lambda term: term[1] < 0):
        factor = abs(coefficient)
        product = value if factor == 1 else emit.op("mul", name, value, emit.const(factor))
        if total is None and coefficient < 0:
            total, constant = emit.const(constant), 0
        kind = "add" if coefficient > 0 else "sub"
        total = product if total is None else emit.op(kind, name, total, product)
    if total is None:
        return emit.const(constant)
    return emit.op("add", name, total, emit.const(constant)) if constant else total
