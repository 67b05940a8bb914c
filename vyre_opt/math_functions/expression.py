"""Straight-line code over floats of one format, integers of the same width, and flags, recorded as a graph.

A function is written once as Python over `Real`s, with operators.  Called with the parameters of a `Graph`, it
records each operation as a node; a target translates the nodes one by one.  Every operation is exact or rounds
once, to nearest even, so all targets compute the same bits.

    x * x + 1.0         a `mul`, a constant and an `add`: never fused
    fma(x, x, 1.0)      one rounding
    x < 0.5             a `Flag`; a comparison with NaN is false
    x.bits() >> 23      a logical shift of the bit pattern, which is `Bits`

Equal nodes are recorded once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import field
from typing import TypeVar

from ..records import dataclass

__all__ = [
    "F32",
    "F64",
    "Bits",
    "Flag",
    "Format",
    "Graph",
    "Node",
    "Real",
    "fma",
    "polynomial",
    "rarely",
    "rounded_product",
    "select",
    "select_bits",
]


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE format: its name in the language, its width, and the bits of its significand, hidden one included."""

    name: str
    bits: int
    precision: int

    @property
    def fraction_bits(self) -> int:
        return self.precision - 1

    @property
    def bias(self) -> int:
        return (1 << (self.bits - self.precision - 1)) - 1

    @property
    def least_normal(self) -> float:
        return float(2.0 ** (1 - self.bias))

    @property
    def integral(self) -> float:
        """Adding it to |x| < 2^(precision - 3) rounds x to an integer, which is then in the low bits of the sum."""
        return 1.5 * 2.0**self.fraction_bits

    def encode(self, value: float) -> int:
        """The bits of `value`, which is rounded to the format."""
        return int.from_bytes(struct.pack("<d" if self.bits == 64 else "<f", value), "little")

    def decode(self, bits: int) -> float:
        value: float = struct.unpack(
            "<d" if self.bits == 64 else "<f", bits.to_bytes(self.bits // 8, "little")
        )[0]
        return value


F32 = Format("f32", 32, 24)
F64 = Format("f64", 64, 53)

_N = TypeVar("_N", bound="Node")


@dataclass(slots=True)
class Graph:
    """A function's code: `nodes` in an order in which operands come first, and the `result`.

    `has_instructions`: the machine has the instructions of a GPU for some functions (see `Real.instruction`).
    """

    format: Format
    has_instructions: bool = False
    params: tuple[Real, ...] = ()
    nodes: list[Node] = field(default_factory=list)
    _known: dict[tuple[object, ...], Node] = field(default_factory=dict)

    @property
    def result(self) -> Node:
        return self.nodes[-1]

    def param(self) -> Real:
        """A new parameter."""
        real = self.node(Real, "param", payload=len(self.params))
        self.params = (*self.params, real)
        return real

    def constant(self, value: float) -> Real:
        """A constant, rounded to the format."""
        return self.node(Real, "const", payload=self.format.encode(value))

    def integer(self, value: int) -> Bits:
        """An integer constant, modulo 2^width."""
        return self.node(Bits, "iconst", payload=value % (1 << self.format.bits))

    def node(self, kind: type[_N], opcode: str, *operands: Node, payload: int | str = 0) -> _N:
        """The node of an operation.  `payload`: the bits of a constant, a shift's amount, a function's name."""
        key = (opcode, payload, *map(id, operands))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = kind(self, opcode, operands, payload)
            self.nodes.append(known)
        assert isinstance(known, kind)
        return known

    def finish(self, result: Real) -> Graph:
        """Drop the nodes that `result` does not need, and put it last."""
        needed: set[Node] = {result}
        for node in reversed(self.nodes):
            if node in needed:
                needed.update(node.operands)
        self.nodes = [node for node in self.nodes if node in needed and node is not result]
        self.nodes.append(result)
        return self


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An operation of a graph, and its value."""

    graph: Graph = field(repr=False)
    opcode: str
    operands: tuple[Node, ...]
    payload: int | str


class Real(Node):
    """A float.  A Python float beside it stands for the constant nearest to it."""

    __slots__ = ()

    @property
    def format(self) -> Format:
        return self.graph.format

    def constant(self, value: float | Real) -> Real:
        return value if isinstance(value, Real) else self.graph.constant(value)

    def _op(self, opcode: str, *others: float | Real) -> Real:
        return self.graph.node(Real, opcode, self, *map(self.constant, others))

    def _test(self, opcode: str, other: float | Real) -> Flag:
        return self.graph.node(Flag, opcode, self, self.constant(other))

    def __add__(self, other: float | Real) -> Real:
        return self._op("add", other)

    def __radd__(self, other: float) -> Real:
        return self.constant(other)._op("add", self)

    def __sub__(self, other: float | Real) -> Real:
        return self._op("sub", other)

    def __rsub__(self, other: float) -> Real:
        return self.constant(other)._op("sub", self)

    def __mul__(self, other: float | Real) -> Real:
        return self._op("mul", other)

    def __rmul__(self, other: float) -> Real:
        return self.constant(other)._op("mul", self)

    def __truediv__(self, other: float | Real) -> Real:
        return self._op("div", other)

    def __rtruediv__(self, other: float) -> Real:
        return self.constant(other)._op("div", self)

    def __neg__(self) -> Real:
        return self._op("neg")

    def __abs__(self) -> Real:
        return self._op("abs")

    def __lt__(self, other: float | Real) -> Flag:
        return self._test("lt", other)

    def __le__(self, other: float | Real) -> Flag:
        return self._test("le", other)

    def __gt__(self, other: float | Real) -> Flag:
        return self.constant(other)._test("lt", self)

    def __ge__(self, other: float | Real) -> Flag:
        return self.constant(other)._test("le", self)

    def equals(self, other: float | Real) -> Flag:
        """Whether the numbers are equal: 0.0 equals -0.0, a NaN nothing."""
        return self._test("eq", other)

    def is_nan(self) -> Flag:
        return self._test("unordered", self)

    def sqrt(self) -> Real:
        return self._op("sqrt")

    def trunc(self) -> Real:
        """The integral value next to this one towards zero."""
        return self._op("trunc")

    def round(self) -> Real:
        """The nearest integral value, ties to even, for |x| < 2^(precision - 3); a zero is positive."""
        return (self + self.format.integral) - self.format.integral

    def on_integral(self) -> Real:
        """x + `Format.integral`: for an integral |x| < 2^(precision - 3), a float with x in its low bits."""
        integral = self.constant(self.format.integral)
        if self.opcode == "sub" and self.operands[1] is integral:  # of `round`: the sum is exact
            total = self.operands[0]
            assert isinstance(total, Real)
            return total
        return self + integral

    def power_of_2(self) -> Real:
        """2^x for an integral x from 1 - bias to bias."""
        bits = (
            self.on_integral().bits() << self.format.fraction_bits
        )  # which drops the bits of `Format.integral`
        return (bits + self.format.encode(1.0)).real()

    def scale(self, exponent: Real) -> Real:
        """x * 2^exponent, rounded once, for an integral exponent from -2 bias to 2 bias."""
        return self._op("scale", exponent.on_integral())

    def instruction(self, name: str, *others: Real) -> Real:
        """A function by the machine's own instruction, whose results differ by machine."""
        return self.graph.node(Real, "instruction", self, *others, payload=name)

    def with_sign_of(self, other: Real) -> Real:
        return self._op("copysign", other)

    def bits(self) -> Bits:
        return self.graph.node(Bits, "bits", self)

    def integer(self) -> Bits:
        """An integral value as an integer, for |x| < 2^(precision - 3)."""
        return self.on_integral().bits() - self.format.encode(self.format.integral)


class Bits(Node):
    """An unsigned integer as wide as the floats, modulo 2^width."""

    __slots__ = ()

    def _op(self, opcode: str, other: int | Bits) -> Bits:
        return self.graph.node(
            Bits, opcode, self, self.graph.integer(other) if isinstance(other, int) else other
        )

    def _shift(self, opcode: str, amount: int | Bits) -> Bits:
        return self._op(opcode, amount) if amount != 0 else self

    def __add__(self, other: int | Bits) -> Bits:
        return self._op("iadd", other)

    def __sub__(self, other: int | Bits) -> Bits:
        return self._op("isub", other)

    def __mul__(self, other: int | Bits) -> Bits:
        return self._op("imul", other)

    def __and__(self, other: int | Bits) -> Bits:
        return self._op("and", other)

    def __or__(self, other: int | Bits) -> Bits:
        return self._op("or", other)

    def __xor__(self, other: int | Bits) -> Bits:
        return self._op("xor", other)

    def __lshift__(self, amount: int | Bits) -> Bits:
        """The amount must be below the width, here and for the other shifts."""
        return self._shift("shl", amount)

    def __rshift__(self, amount: int | Bits) -> Bits:
        return self._shift("lshr", amount)

    def arithmetic_shift(self, amount: int) -> Bits:
        """Shift to the right, with copies of the highest bit."""
        return self._shift("ashr", amount)

    def multiply_high(self, other: Bits) -> Bits:
        """The high half of the double-width product."""
        return self._op("mul_hi", other)

    def __lt__(self, other: int | Bits) -> Flag:
        return self.graph.node(
            Flag, "ult", self, self.graph.integer(other) if isinstance(other, int) else other
        )

    def is_zero(self) -> Flag:
        return self < 1

    def real(self) -> Real:
        """The float with this bit pattern."""
        return self.graph.node(Real, "real", self)

    def to_real(self) -> Real:
        """An integer as a float, for -2^(precision - 3) < i < 2^(precision - 3), exactly."""
        integral = self.graph.format.integral
        return (self + self.graph.format.encode(integral)).real() - integral


class Flag(Node):
    """True or false."""

    __slots__ = ()

    def __and__(self, other: Flag) -> Flag:
        return self.graph.node(Flag, "fand", self, other)

    def __or__(self, other: Flag) -> Flag:
        return self.graph.node(Flag, "for", self, other)

    def __invert__(self) -> Flag:
        return self.graph.node(Flag, "fnot", self)


def select(condition: Flag, a: float | Real, b: float | Real) -> Real:
    """a where the condition holds, else b."""
    graph = condition.graph
    x, y = (v if isinstance(v, Real) else graph.constant(v) for v in (a, b))
    return graph.node(Real, "select", condition, x, y)


def select_bits(condition: Flag, a: Bits, b: Bits) -> Bits:
    """a where the condition holds, else b."""
    return condition.graph.node(Bits, "iselect", condition, a, b)


def fma(a: Real, b: float | Real, c: float | Real) -> Real:
    """a * b + c, rounded once."""
    return a.graph.node(Real, "fma", a, a.constant(b), a.constant(c))


def rarely(condition: Flag, function: str, arguments: Sequence[Real], usual: Real) -> Real:
    """`function` of the arguments where the condition holds, else `usual`.

    The function, a name in `FUNCTIONS`, is evaluated only if the condition holds in some lane; then perhaps in all.
    """
    return condition.graph.node(Real, "rarely", condition, usual, *arguments, payload=function)


def rounded_product(x: Real, factor: float) -> Real:
    """The integral value nearest to x * factor, for |x * factor| < 2^(precision - 3)."""
    integral = x.format.integral
    return fma(x, factor, integral) - integral


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """c0 + c1 x + c2 x^2 + ..., by Horner's rule with fused steps."""
    total = x.constant(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = fma(total, x, c)
    return total
