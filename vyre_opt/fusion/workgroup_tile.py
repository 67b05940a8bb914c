"""Promotes storage buffers to workgroup tiles: rebases the indices of accesses, and narrows elements."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.affine import AffineExpr, Digit, SymbolKind
from ..analysis.affine_analysis import LoopCounter
from ..analysis.footprint import Footprints, MemoryAccess
from ..analysis.locality import TileProof
from ..ir.arith import wrap
from ..ir.ops import OPS
from ..ir.program import AccessMode, Block, Buffer, Op, Program, Value
from ..ir.types import DataType

__all__ = ["promote_to_tile"]

Promotion = tuple[Buffer, TileProof | None, DataType, int]
"""A buffer, its tile (None if nothing accesses it), and the type and the number of the tile's elements."""


def promote_to_tile(program: Program, promotions: Sequence[Promotion], footprints: Footprints) -> None:
    """Make each buffer a workgroup buffer with its tile's element count and type, and rewrite its accesses."""
    rewrite = _Rewrite(program, footprints)
    for buffer, local, dtype, count in promotions:
        if local is not None:
            for access in local.accesses:
                rewrite.accesses[access.op] = (access, local, buffer.dtype, dtype)
        if local is not None and buffer.count is not None:
            rewrite.counts[buffer.name] = buffer.count
        buffer.access, buffer.binding = AccessMode.WORKGROUP, None
        buffer.dtype, buffer.count = dtype, count
    rewrite.run()


class _Rewrite:
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
                ops.append(Op(OPS["const"], (), op.results, {"value": count}, loc=op.loc))
            else:
                ops.append(op)
        block.ops = ops

    def access(self, op: Op, ops: list[Op]) -> None:
        access, local, wide, narrow = self.accesses[op]
        expr = access.expr - local.base - AffineExpr(local.extent.low)
        index = access.op.index
        if expr != access.expr:
            index = self.emit(expr, index, op, ops)
        if op.name == "load":
            op.operands = (index,)
            if narrow is not wide:
                self.widen(op, wide, narrow, ops)
                return
        else:
            value = self.narrowed(op.operands[0], narrow, op, ops) if narrow is not wide else op.operands[0]
            op.operands = (value, index)
        ops.append(op)

    def widen(self, op: Op, wide: DataType, narrow: DataType, ops: list[Op]) -> None:
        """Load the narrow element and cast it to the result of the old load."""
        result = op.result
        narrow_value = Value(f"{result.name}_{narrow}", narrow, op)
        op.results = (narrow_value,)
        ops += [op, Op(OPS["cast"], (narrow_value,), (result,), loc=op.loc)]

    def narrowed(self, value: Value, narrow: DataType, op: Op, ops: list[Op]) -> Value:
        owner = value.owner
        if isinstance(owner, Op) and owner.name == "cast" and owner.operands[0].type is narrow:
            return owner.operands[0]
        cast = Op(OPS["cast"], (value,), (Value(f"{value.name}_{narrow}", narrow),), loc=op.loc)
        ops.append(cast)
        return cast.result

    # --- affine expressions to ops -----------------------------------------------------------------

    def emit(self, expr: AffineExpr, index: Value, op: Op, ops: list[Op]) -> Value:
        """The value of an expression in local ids, loop counters and lane values, as u32, named after `index`."""
        terms: list[tuple[Value, int]] = []
        constant = AffineExpr(expr.const)
        for symbol, coefficient in expr.terms.items():
            if symbol.kind is SymbolKind.LOOP:
                constant += self.add_iterations(self.counters[symbol], coefficient, terms, op, ops)
        local = constant + expr.terms_of(SymbolKind.LOCAL, SymbolKind.VALUE)
        ids, rest = local.local_id_coefficients()
        terms += [(self.local_id(axis, op), c) for axis, c in ids.items()]
        for symbol, coefficient in rest.items():
            if symbol.digit is not None:
                terms.append((self.digit(symbol.digit, op, ops), coefficient))
            elif isinstance(symbol.identity, Value):
                terms.append((self.cast(symbol.identity, DataType.U32, op, ops), coefficient))
        return self.sum(terms, local.const, f"{index.name}_tile", op, ops)

    def add_iterations(
        self, counter: LoopCounter, coefficient: int, terms: list[tuple[Value, int]], op: Op, ops: list[Op]
    ) -> AffineExpr:
        """Add `coefficient * iteration number` to `terms`; returns what is left of it as an expression.

        The iteration number is (counter - lower) / step.
        """
        times, rest = divmod(coefficient, counter.step)
        if not rest and all(s.kind is SymbolKind.LOCAL for s in counter.lower.terms):
            terms.append((self.cast(counter.value, DataType.U32, op, ops), times))
            return counter.lower.scaled(-times)
        # sums and products are right modulo 2^32, but a division needs the exact difference
        dtype = DataType.U64 if rest and counter.value.type.bits == 64 else DataType.U32
        value = self.cast(counter.value, dtype, op, ops)
        if counter.lower_value is not None:
            value = self.put("sub", value, self.cast(counter.lower_value, dtype, op, ops), "done", op, ops)
        elif counter.lower.const:
            value = self.put("sub", value, self.const(counter.lower.const, op, ops, dtype), "done", op, ops)
        if rest:
            value = self.put("div", value, self.const(counter.step, op, ops, dtype), "done", op, ops)
            times = coefficient
        terms.append((self.cast(value, DataType.U32, op, ops), times))
        return AffineExpr()

    def sum(self, terms: list[tuple[Value, int]], constant: int, name: str, op: Op, ops: list[Op]) -> Value:
        total: Value | None = None
        for value, coefficient in sorted(terms, key=lambda term: term[1] < 0):
            factor = abs(coefficient)
            scaled = (
                value if factor == 1 else self.put("mul", value, self.const(factor, op, ops), name, op, ops)
            )
            if total is None and coefficient < 0:
                total, constant = self.const(constant, op, ops), 0
            if total is None:
                total = scaled
            else:
                total = self.put("add" if coefficient > 0 else "sub", total, scaled, name, op, ops)
        if total is None:
            return self.const(constant, op, ops)
        if not constant:
            return total
        return self.put("add", total, self.const(constant, op, ops), name, op, ops)

    def put(self, kind: str, a: Value, b: Value, name: str, op: Op, ops: list[Op]) -> Value:
        new_op = Op(OPS[kind], (a, b), (Value(name, a.type),), loc=op.loc)
        ops.append(new_op)
        return new_op.result

    def const(self, number: int, op: Op, ops: list[Op], dtype: DataType = DataType.U32) -> Value:
        encoded = wrap(number, dtype)
        new_op = Op(OPS["const"], (), (Value(f"c{encoded}", dtype),), {"value": encoded}, loc=op.loc)
        ops.append(new_op)
        return new_op.result

    def cast(self, value: Value, dtype: DataType, op: Op, ops: list[Op]) -> Value:
        if value.type is dtype:
            return value
        cast = Op(OPS["cast"], (value,), (Value(f"{value.name}_{dtype}", dtype),), loc=op.loc)
        ops.append(cast)
        return cast.result

    def digit(self, digit: Digit, op: Op, ops: list[Op]) -> Value:
        """local id / stride % radix."""
        value = self.local_id(digit.axis, op)
        if digit.stride > 1:
            value = self.put("div", value, self.const(digit.stride, op, ops), "digit", op, ops)
        if digit.stride * digit.radix < digit.size:
            value = self.put("rem", value, self.const(digit.radix, op, ops), "digit", op, ops)
        return value

    def local_id(self, axis: str, op: Op) -> Value:
        """The local id of an axis; a new op at the top of the body if none before the first access is it."""
        if axis not in self.ids:
            new_op = Op(
                OPS["local_id"], (), (Value(f"local_{axis}", DataType.U32),), {"axis": axis}, loc=op.loc
            )
            self.header.append(new_op)
            self.ids[axis] = new_op.result
        return self.ids[axis]
