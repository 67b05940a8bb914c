"""Values of programs that are being built, with Python's operators.

    b.store(x * 2.0 + y, "out", i)        i + 1       ~mask       i < n

`==` compares identities, as of all values of the IR: `b.eq(x, y)` is the op.  `//` and `%` are not there, since they
round down in Python and towards zero here: `b.div(x, y)`, `b.rem(x, y)`.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from .program import Value
from .types import DataType

__all__ = ["BuiltValue", "Number", "Operand"]

Number = bool | int | float
Operand = Value | Number


class OpsByName(Protocol):
    """Builds an op by its name; see `Builder.op`."""

    def op(self, name: str, *operands: Any) -> Value: ...


class BuiltValue(Value):
    """A value that a builder has made."""

    __slots__ = ("builder",)

    def __init__(self, name: str, type: DataType, builder: OpsByName) -> None:
        super().__init__(name, type)
        self.builder = builder

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} has its value when the program runs, and none while it is built: "
            "write `with b.if_(value):`, b.select(value, x, y), or b.and_, b.or_, b.not_"
        )

    def _op(self, name: str, a: Operand, b: Operand) -> Value:
        return self.builder.op(name, a, b)

    def __add__(self, other: Operand) -> Value:
        return self._op("add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return self._op("add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return self._op("sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self._op("sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return self._op("mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return self._op("mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return self._quotient(self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self._quotient(other, self)

    def _quotient(self, a: Operand, b: Operand) -> Value:
        if not self.type.element.is_float:
            raise TypeError(f"/ is for floats, not {self.type}: b.div(x, y) is the quotient of integers")
        return self._op("div", a, b)

    def __floordiv__(self, other: Operand) -> NoReturn:
        raise TypeError("// would round towards zero here, unlike Python's: write b.div(x, y)")

    def __mod__(self, other: Operand) -> NoReturn:
        raise TypeError("% would have the sign of the dividend here, unlike Python's: write b.rem(x, y)")

    def __and__(self, other: Operand) -> Value:
        return self._op("and_", self, other)

    def __rand__(self, other: Operand) -> Value:
        return self._op("and_", other, self)

    def __or__(self, other: Operand) -> Value:
        return self._op("or_", self, other)

    def __ror__(self, other: Operand) -> Value:
        return self._op("or_", other, self)

    def __xor__(self, other: Operand) -> Value:
        return self._op("xor", self, other)

    def __rxor__(self, other: Operand) -> Value:
        return self._op("xor", other, self)

    def __lshift__(self, other: Operand) -> Value:
        return self._op("shl", self, other)

    def __rshift__(self, other: Operand) -> Value:
        return self._op("shr", self, other)

    def __neg__(self) -> Value:
        return self.builder.op("neg", self)

    def __invert__(self) -> Value:
        return self.builder.op("not_", self)

    def __lt__(self, other: Operand) -> Value:
        return self._op("lt", self, other)

    def __le__(self, other: Operand) -> Value:
        return self._op("le", self, other)

    def __gt__(self, other: Operand) -> Value:
        return self._op("gt", self, other)

    def __ge__(self, other: Operand) -> Value:
        return self._op("ge", self, other)
