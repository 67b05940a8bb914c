"""The state of writing one function as MLIR: the names of its values, and the memrefs of its buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ..analysis.value_forms import ValueForms
from ..ir.program import Block, Buffer, Op, Value
from ..ir.types import DataType
from ..records import dataclass
from .code import Code
from .spelling import attributes, mlir_type

__all__ = ["FunctionCode", "MemoryRef", "type_hint"]


@dataclass(frozen=True, slots=True)
class MemoryRef:
    """A buffer as MLIR sees it: the memref's name and its type."""

    name: str
    type: str
    buffer: Buffer


@dataclass(slots=True)
class FunctionCode:
    """`code`: of the function.  `buffers` by our names; `symbols`: of the functions that it may call.

    `forms`: what is known of values.  `specs`, `params`: encoded values of constants, names of arguments.
    """

    code: Code
    forms: ValueForms
    symbols: Mapping[str, str]
    specs: Mapping[str, object] = field(default_factory=dict)
    buffers: dict[str, MemoryRef] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    names: dict[Value, str] = field(default_factory=dict)
    index_names: list[dict[Value, str]] = field(default_factory=lambda: [{}])

    def get(self, value: Value) -> str:
        return self.names[value]

    def all(self, values: tuple[Value, ...]) -> tuple[str, str]:
        """The names of values, and their types, each joined by commas."""
        return ", ".join(map(self.get, values)), ", ".join(mlir_type(value.type) for value in values)

    def bind(self, value: Value) -> str:
        """A name for a value that is defined next."""
        name = self.names[value] = self.code.name(value.name)
        return name

    def set(self, op: Op, text: str) -> None:
        """Write the op that defines the only result of `op`."""
        name = self.code.emit(text, op.result.name)
        self.names[op.result] = name

    def index(self, value: Value) -> str:
        """A value of an integer type as an index, which is as large as a pointer."""
        for scope in self.index_names:
            if value in scope:
                return scope[value]
        verb = "arith.index_cast" if value.type.is_signed else "arith.index_castui"
        name = self.code.convert(verb, mlir_type(value.type), "index", self.get(value))
        self.index_names[-1][value] = name
        return name

    def indices(self, op: Op) -> str:
        return ", ".join(map(self.index, op.indices))

    # --- regions: an index value emitted in a region is reused only within it

    def open(self, head: str, label: str = "") -> None:
        self.code.open(head, label)
        self.index_names.append({})

    def next_region(self, text: str, label: str = "") -> None:
        self.code.next_region(text, label)
        self.index_names[-1] = {}

    def close(self, tail: str = "") -> None:
        self.index_names.pop()
        self.code.close(tail)

    def yielded(self, block: Block) -> tuple[Value, ...]:
        """The values that a block gives."""
        last = block.terminator
        return last.operands if last is not None else ()


def type_hint(dtype: DataType, *more: tuple[str, str]) -> str:
    """The attributes that tell our type of a result, with a space before them."""
    return attributes([*more, ("vyre.type", f'"{dtype.name}"')])
