"""Type parameters of a program or pipeline bound to other types, in place.  For T = f16:

                               rebind(program, T)            instantiate(program, T)
spec @T : dtype = f32          spec @T : dtype = f16         (removed)
buffer @x : @T[?] read         the same                      buffer @x : f16[?] read
%c = const 0.1 : @T            0.1, read again as an f16     %c = const 0.1 : f16, read again
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir import arith
from ..ir.diagnostics import Diagnostic, DiagnosticError, Location
from ..ir.literals import LiteralError, Written, encode
from ..ir.pipeline import Pipeline
from ..ir.program import Block, Program, Spec
from ..ir.types import DTYPE, DataType

__all__ = ["instantiate", "rebind"]


def instantiate(item: Program | Pipeline, types: Mapping[str, DataType]) -> None:
    """Replace each type parameter in `types` by its type, and remove its declaration.

    Constants are read again as in `rebind`; raises what that raises.
    """
    specs = _parameters(item, types)
    _TypeSubstitution({DataType.parameter(s.name, s.default): types[s.name] for s in specs}).apply(item)
    item.specs = {name: spec for name, spec in item.specs.items() if name not in types}


def rebind(item: Program | Pipeline, types: Mapping[str, DataType]) -> None:
    """Bind each type parameter in `types` to that type instead; it stays a parameter.

    Constants of its type are read again for the new one.  Raises DiagnosticError for those that it
    cannot hold, and TypeNameError for a type that is no scalar.  The item is not verified at the
    new types.
    """
    specs = _parameters(item, types)
    table = {DataType.parameter(s.name, s.default): DataType.parameter(s.name, types[s.name]) for s in specs}
    _TypeSubstitution(table).apply(item)
    for spec in specs:
        spec.default = types[spec.name]


def _parameters(item: Program | Pipeline, types: Mapping[str, DataType]) -> list[Spec]:
    return [spec for spec in item.type_parameters if spec.name in types]


class _TypeSubstitution:
    """Replaces the keys of `table`, which are element types, by its values throughout a program or pipeline.

    Literals of stages are text, whatever the types of what they are for.
    """

    def __init__(self, table: Mapping[DataType, DataType]) -> None:
        self.table = table
        self.errors: list[Diagnostic] = []  # about constants that do not fit their new types

    def apply(self, item: Program | Pipeline) -> None:
        if not self.table:
            return
        for buffer in item.buffers.values():
            buffer.dtype = self.new(buffer.dtype)
        for spec in item.specs.values():
            if spec.dtype is not DTYPE and spec.dtype.is_open:
                new = self.new(spec.dtype)
                if spec.default is not None:
                    spec.default = self.scalar(spec.default, spec.dtype, new, spec.loc)
                spec.dtype = new
        for param in item.params.values():
            new = self.new(param.dtype)
            if param.default is not None and new is not param.dtype:
                param.default = self.scalar(param.default, param.dtype, new, param.loc)
            param.dtype = new
        if isinstance(item, Program):
            self.block(item.body)
        if self.errors:
            raise DiagnosticError(self.errors)

    def new(self, dtype: DataType) -> DataType:
        return dtype.with_element(self.table.get(dtype.element, dtype.element)) if dtype.is_open else dtype

    def block(self, block: Block) -> None:
        for arg in block.args:
            arg.type = self.new(arg.type)
        for op in block.ops:
            for result in op.results:
                old, result.type = result.type, self.new(result.type)
                if op.definition.format == "const" and result.type is not old:
                    op.attrs = {"value": self.constant(op.attrs["value"], old, result.type, op.loc)}
            for inner in op.regions:
                self.block(inner)

    def constant(self, value: Any, old: DataType, new: DataType, loc: Location | None) -> Any:
        if not isinstance(value, tuple):
            return self.scalar(value, old, new, loc)
        lanes = tuple(self.scalar(lane, old, new, loc) for lane in value)
        return lanes[0] if len(set(lanes)) == 1 else lanes  # a splat is stored as one value

    def scalar(self, value: int, old: DataType, new: DataType, loc: Location | None) -> int:
        """A scalar constant in the new type: its literal encoded again, or its value converted if it has none."""
        if not isinstance(value, Written):
            return arith.convert(value, old.element.bound, new.element.bound)
        try:
            return encode(value.literal, new.element)
        except LiteralError as error:
            self.errors.append(Diagnostic("error", f"with {old.element} = {new.element.bound}: {error}", loc))
            return 0
