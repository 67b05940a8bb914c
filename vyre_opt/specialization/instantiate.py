"""A program with type parameters for other types: `@T` becomes f16 wherever it stands.

spec @T : dtype = f32          open    @T now stands for f16, and may be told again
buffer @x : @T[?] read         closed  f16 stands where @T stood, and the declaration is gone
%c = const 0.1 : @T                    0.1 is read again, as an f16
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir import arith
from ..ir.diagnostics import Diagnostic, DiagnosticError, Location
from ..ir.literals import LiteralError, Written, encode
from ..ir.program import Block, Program
from ..ir.types import DTYPE, DataType

__all__ = ["close", "reopen"]


def close(program: Program, types: Mapping[str, DataType]) -> None:
    """Put a type in the place of each parameter named, in place; see `reopen`."""
    _Walk(program, {DataType.parameter(s.name, s.default): types[s.name] for s in _named(program, types)})
    program.specs = {name: spec for name, spec in program.specs.items() if name not in types}


def reopen(program: Program, types: Mapping[str, DataType]) -> None:
    """Make each parameter named stand for another type, in place.

    Constants of its type are read again for the new one.  Raises DiagnosticError for those that it
    cannot hold, and TypeNameError for a type that is no scalar.  What else may be wrong with the
    program at the new types, the verifier finds.
    """
    named = _named(program, types)
    table = {DataType.parameter(s.name, s.default): DataType.parameter(s.name, types[s.name]) for s in named}
    _Walk(program, table)
    for spec in named:
        spec.default = types[spec.name]


def _named(program: Program, types: Mapping[str, DataType]) -> list[Any]:
    return [spec for spec in program.type_parameters if spec.name in types]


class _Walk:
    """Puts the types of `table` in place of its keys; `errors` are of the constants that do not fit."""

    def __init__(self, program: Program, table: Mapping[DataType, DataType]) -> None:
        self.table = table
        self.errors: list[Diagnostic] = []
        if not table:
            return
        for buffer in program.buffers.values():
            buffer.dtype = self.new(buffer.dtype)
        for spec in program.specs.values():
            if spec.dtype is not DTYPE and spec.dtype.is_open:
                new = self.new(spec.dtype)
                if spec.default is not None:
                    spec.default = self.again(spec.default, spec.dtype, new, spec.loc)
                spec.dtype = new
        self.block(program.body)
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
            return self.again(value, old, new, loc)
        lanes = tuple(self.again(lane, old, new, loc) for lane in value)
        return lanes[0] if len(set(lanes)) == 1 else lanes

    def again(self, value: int, old: DataType, new: DataType, loc: Location | None) -> int:
        """A scalar constant of the new type: as it was written, or else converted."""
        if not isinstance(value, Written):
            return arith.convert(value, old.element.bound, new.element.bound)
        try:
            return encode(value.literal, new.element)
        except LiteralError as wrong:
            self.errors.append(Diagnostic("error", f"with {old.element} = {new.element.bound}: {wrong}", loc))
            return 0
