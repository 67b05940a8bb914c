"""The builder of what takes a match's place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.builder import Builder
from ..ir.ops import OPS, OpDef
from ..ir.program import NO_ATTRS, Block, Func, Module, Op, Program, Value
from ..ir.rewrite import constant_name
from ..ir.types import DataType
from .uses import UseCounts

__all__ = ["PERMISSIONS", "Rewriter"]

PERMISSIONS = ("contract", "reassoc", "arcp", "afn")
"""The fastmath flags that allow to compute otherwise.  The others promise something about values, which new ones
may break."""


class Rewriter(Builder):
    """A `Builder` whose ops go in front of the op that is rewritten, and are located there.

    `item`: the program or function that is rewritten.  `fastmath`: flags for new ops on floats.
    """

    def __init__(self, item: Program | Func | None = None, module: Module | None = None) -> None:
        super().__init__("rewriter", 1, module=module)
        self._is_traced = False
        self.item = item
        if isinstance(item, Program):
            self.program = item
        self.fastmath: tuple[str, ...] = ()
        self.uses: UseCounts | None = None
        self.built: list[Op] = []
        """The ops of the rewrite that is under way, in order."""
        self._block = Block((), self.built)

    def has_one_use(self, value: Value) -> bool:
        """Whether a single operand of the ops that matter is `value`.  For patterns that declare `counts_uses`."""
        if self.uses is None:
            raise TypeError("a pattern that asks for uses is made by @pattern_on(..., counts_uses=True)")
        return self.uses.has_one_use(value)

    def encoded_const(self, value: Any, dtype: DataType) -> Value:
        """A constant of an encoded value (see ir.arith), in all lanes of a vector type."""
        op = Op(
            OPS["const"], (), (Value(constant_name(value, dtype), dtype),), {"value": value}, (), self.loc
        )
        self.built.append(op)
        return op.result

    def emit(
        self,
        row: OpDef,
        operands: tuple[Value, ...] = (),
        types: Sequence[DataType] = (),
        attrs: dict[str, Any] = NO_ATTRS,
        regions: tuple[Block, ...] = (),
        name: str | None = None,
    ) -> Op:
        is_float = bool(operands) and operands[-1].type.element.is_float
        flags = tuple(flag for flag in self.fastmath if flag in row.fastmath)
        if flags and is_float and "fastmath" not in attrs:
            attrs = {**attrs, "fastmath": flags}
        op = super().emit(row, operands, types, attrs, regions, name)
        if name is None and op.results:
            op.results[0].name = _name_of(op)
        return op


def _name_of(op: Op) -> str:
    """Name of a result, where the text needs one."""
    if op.name != "const":
        return op.name.rpartition(".")[2]
    return constant_name(op.attrs["value"], op.result.type)
