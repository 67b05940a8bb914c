"""The state of reading one function of MLIR: ops of ours so far, and what each value of MLIR became."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from ..ir import arith
from ..ir.diagnostics import Diagnostic, Location
from ..ir.ops import FASTMATH, OPS
from ..ir.program import NO_ATTRS, Block, Buffer, Op, Program, Value
from ..ir.types import DataType
from ..records import dataclass
from .helper_key import HelperKey
from .syntax import ParsedModule
from .typed_values import (
    Byte,
    Index,
    Memory,
    Missing,
    NotReadable,
    Number,
    Plain,
    Rounds,
    Turn,
    TypedValue,
    scalar_of,
    signless,
)

__all__ = ["Callee", "Reader", "attribute", "dictionary", "fastmath", "text_attribute"]

UNNAMED = "t"
"""The name of values that have none in MLIR."""

I64, U32, BOOL = DataType.I64, DataType.U32, DataType.BOOL


@dataclass(frozen=True, slots=True)
class Callee:
    """A function that a kernel may call: a helper (`key`), or one of ours by its name and types."""

    key: HelperKey | None = None
    name: str = ""
    params: tuple[DataType, ...] = ()
    results: tuple[DataType, ...] = ()


@dataclass(slots=True)
class Reader:
    """Reads the ops of one function into `block`.

    `params`: the values of runtime scalars, by name.  `speculative`: ops that only their uses need, which are dropped where there are none: constants, index arithmetic.
    """

    parsed: ParsedModule
    program: Program
    callees: Mapping[str, Callable[[], Callee]]
    block: Block = field(default_factory=Block)
    values: dict[Any, TypedValue] = field(default_factory=dict)
    errors: list[Diagnostic] = field(default_factory=list)
    speculative: set[Op] = field(default_factory=set)
    params: dict[Value, str] = field(default_factory=dict)
    loc: Location | None = None

    # --- values of MLIR

    def get(self, value: Any) -> TypedValue:
        """Raises NotReadable, without a message, for the result of an op that was refused."""
        typed = self.values.get(value)
        if typed is None or isinstance(typed, Missing):
            raise NotReadable
        return typed

    def set(self, result: Any, typed: TypedValue | Value) -> None:
        """Set the meaning of a result of MLIR; a value of ours takes its name."""
        if isinstance(typed, Value):
            typed = Plain(typed)
        if result.name_hint and isinstance(typed, Plain | Index) and typed.value.name == UNNAMED:
            typed.value.name = result.name_hint
        self.values[result] = typed

    def value(self, operand: Any, dtype: DataType | None = None) -> Value:
        """An operand as a value of ours, of the type `dtype` if that is given; the bits stay."""
        typed = self.get(operand)
        if isinstance(typed, Memory):
            raise NotReadable("a memref is loaded from and stored to, not computed with")
        if isinstance(typed, Rounds | Turn):
            raise NotReadable(
                "the rounds of a loop that counts them are for its scf.for and vyre.counter only"
            )
        if isinstance(typed, Number):
            return self.constant(typed.number, dtype or scalar_of(str(operand.type)))
        if isinstance(typed, Index):
            value = self.word(typed)
        elif isinstance(typed, Byte):
            byte = typed.flag.type.with_element(DataType.U8)
            value = self.emit("cast", (typed.flag,), byte)
        else:
            assert isinstance(typed, Plain)
            value = typed.value
        return self.with_type(value, dtype) if dtype is not None else value

    def with_type(self, value: Value, dtype: DataType) -> Value:
        """The same bits as another type."""
        if value.type is dtype:
            return value
        if signless(value.type) is not signless(dtype):
            raise NotReadable(f"a value of {value.type} is used as {dtype}")
        return self.emit("bitcast", (value,), dtype)

    def signed(self, operand: Any, is_signed: bool) -> Value:
        """An integer operand as a signed or an unsigned one."""
        return self.value(operand, self.type_of(operand, is_signed))

    def type_of(self, value: Any, is_signed: bool = True) -> DataType:
        """Our type for the type of a value of MLIR."""
        return self.dtype(value.type, is_signed)

    def dtype(self, kind: Any, is_signed: bool = True) -> DataType:
        """Our type for a type of MLIR.  Raises NotReadable for a type without one."""
        shape = getattr(kind, "shape", None)
        if shape is None or not str(kind).startswith("vector<"):
            return scalar_of(str(kind), is_signed)
        lanes = [extent.data for extent in shape]
        if len(lanes) != 1 or not 2 <= lanes[0] <= 64 or "[" in str(kind):
            raise NotReadable(f"a {kind} is not read; a vector has one dimension, of 2 to 64 lanes")
        return DataType.vec(scalar_of(str(kind.element_type), is_signed), lanes[0])

    def likely_type(self, *operands: Any) -> DataType:
        """The type of an op that takes either signedness: the type of the first operand that has one."""
        for operand in operands:
            typed = self.get(operand)
            if isinstance(typed, Plain):
                return typed.value.type
        return self.type_of(operands[0])

    # --- indices

    def word(self, index: Index) -> Value:
        """An index as an i64."""
        if index.value.type is I64:
            return index.value
        if index.value.type is DataType.U64:
            return self.emit("bitcast", (index.value,), I64, speculative=True)
        return self.emit("cast", (index.value,), I64, speculative=True)

    def element_index(self, operand: Any) -> Value:
        """An operand of the type index as any integer of ours."""
        typed = self.get(operand)
        if isinstance(typed, Index):
            return typed.value
        if isinstance(typed, Number):
            return self.constant(typed.number, U32 if 0 <= typed.number < 1 << 32 else I64)
        return self.value(operand)

    def is_narrow(self, operand: Any) -> bool:
        """Whether an index is surely a number of 32 bits without a sign."""
        typed = self.get(operand)
        if isinstance(typed, Number):
            return 0 <= typed.number < 1 << 32
        return isinstance(typed, Index) and typed.value.type is U32

    def number(self, operand: Any) -> int | None:
        typed = self.get(operand)
        return typed.number if isinstance(typed, Number) else None

    # --- ops of ours

    def emit(
        self,
        name: str,
        operands: Sequence[Value] = (),
        dtype: DataType | None = None,
        attrs: dict[str, Any] | None = None,
        *,
        speculative: bool = False,
    ) -> Value:
        """Add an op with one result."""
        assert dtype is not None
        result = Value(UNNAMED, dtype)
        op = self.add(name, operands, (result,), attrs)
        if speculative:
            self.speculative.add(op)
        return result

    def add(
        self,
        name: str,
        operands: Sequence[Value] = (),
        results: Sequence[Value] = (),
        attrs: dict[str, Any] | None = None,
        regions: Sequence[Block] = (),
    ) -> Op:
        op = Op(OPS[name], tuple(operands), tuple(results), attrs or NO_ATTRS, tuple(regions), self.loc)
        self.block.ops.append(op)
        return op

    def constant(self, number: int, dtype: DataType, *, speculative: bool = True) -> Value:
        """An integer constant, modulo the width of its type; of a vector in all lanes."""
        element = dtype.element
        value = int(bool(number)) if element.is_bool else arith.wrap(number, element)
        return self.emit("const", (), dtype, {"value": value}, speculative=speculative)

    def refuse(self, refusal: NotReadable) -> None:
        """Keep an error; one without a message follows from another."""
        if refusal.message:
            self.errors.append(Diagnostic("error", refusal.message, self.loc, help=refusal.help))

    def memory(self, operand: Any) -> Buffer:
        typed = self.get(operand)
        if not isinstance(typed, Memory):
            raise NotReadable("this is no memref")
        return typed.buffer


# --- attributes of ops of xdsl


def attribute(op: Any, name: str) -> Any:
    """An attribute or a property of an op; None if it has none of that name."""
    value = op.properties.get(name)
    return op.attributes.get(name) if value is None else value


def text_attribute(op: Any, name: str) -> str | None:
    """An attribute that is a string."""
    value = attribute(op, name)
    text = getattr(value, "data", None)
    return text if isinstance(text, str) else None


def dictionary(attributes: Any, name: str) -> str | None:
    """The string `name` of a dictionary attribute, or None."""
    value = attributes.data.get(name) if attributes is not None else None
    text = getattr(value, "data", None)
    return text if isinstance(text, str) else None


def fastmath(op: Any) -> dict[str, Any]:
    """The attributes of an op of ours for the fastmath flags of one of MLIR."""
    words_of_ours = attribute(op, "vyre.fastmath")
    if words_of_ours is not None:
        words = [item.data for item in words_of_ours.data]
    else:
        flags = attribute(op, "fastmath")
        words = [str(getattr(flag, "value", flag)) for flag in flags.data] if flags is not None else []
    chosen = tuple(word for word in FASTMATH if word in words or "fast" in words)
    return {"fastmath": chosen} if chosen else {}
