"""The values that two programs compute, as terms: one number for equal ones, so that equality costs nothing.

Integer sums are in a normal form, modulo 2^bits, in which `%c + 256 + 256` and `%c + 512` are one term.  Comparisons of
integers are `lt`, `eq` and their negations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import z3

from ..ir.ops import OPS
from ..ir.program import NO_ATTRS, Op
from ..ir.types import DataType
from .known_values import attributes
from .op_terms import literal, term, variable
from .points import type_range

__all__ = ["Linear", "Node", "Term", "Terms"]

Term = int
BOOL = DataType.BOOL

TRANSPARENT = {"and", "or", "xor", "not", "lt", "eq", "min", "max", "cast", "select", "choice"}
"""Ops that z3 interprets; all others are uninterpreted functions: equal operands give equal results."""
MAX_DEPTH = 64
"""Terms of terms that z3 is told."""


class Node(NamedTuple):
    """`name`: an op's, or `linear`, `choice`, `room`, `symbol`.  `attrs`: what else tells it from others."""

    name: str
    dtype: DataType
    attrs: tuple[Any, ...]
    operands: tuple[Term, ...]


class Linear(NamedTuple):
    """The sum of `parts`, with their factors, and `const`, modulo 2^bits."""

    parts: Mapping[Term, int]
    const: int


class Terms:
    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._numbers: dict[Node, Term] = {}
        self._depths: list[int] = []
        self._z3: dict[Term, z3.ExprRef] = {}
        self._attributes: dict[Op, tuple[tuple[str, str], ...]] = {}

    def add(self, node: Node) -> Term:
        number = self._numbers.setdefault(node, len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(node)
            self._depths.append(1 + max((self._depths[each] for each in node.operands), default=0))
        return number

    def symbol(self, dtype: DataType, name: str) -> Term:
        """A fresh free variable at each call."""
        return self.add(Node("symbol", dtype, (len(self.nodes), name), ()))

    def choice(self, condition: Term, one: Term, other: Term) -> Term:
        """`one` where the condition holds."""
        if one == other:
            return one
        return self.add(Node("choice", self.nodes[one].dtype, (), (condition, one, other)))

    def room(self, lower: Term, upper: Term, distance: int) -> Term:
        """Whether `upper`, which is above `lower`, is so by more than a distance."""
        return self.add(Node("room", BOOL, (distance,), (lower, upper)))

    def boolean(self, value: bool) -> Term:
        return self.add(Node("const", BOOL, (value,), ()))

    def dtype(self, of: Term) -> DataType:
        return self.nodes[of].dtype

    # --- ops ----------------------------------------------------------------------------------

    def attributes(self, program: Any, op: Op) -> tuple[tuple[str, str], ...]:
        if op not in self._attributes:
            self._attributes[op] = attributes(program, op)
        return self._attributes[op]

    def of(self, program: Any, op: Op, operands: Sequence[Term]) -> tuple[Term, ...]:
        """The results of a pure op."""
        name, dtype = op.name, op.results[0].type
        if _is_integer(dtype):
            known = self._integer(op, dtype, operands)
            if known is not None:
                return (known,)
        if dtype is BOOL and name == "const":
            return (self.boolean(bool(op.attrs["value"])),)
        if dtype is BOOL and operands and _is_integer(self.dtype(operands[0])):
            known = self._comparison(name, *operands) if len(operands) == 2 else None
            if known is not None:
                return (known,)
        if dtype is BOOL and name == "not":
            return (self.negation(operands[0]),)
        attrs = (op.attrs.get("buffer"), *self.attributes(program, op))
        ordered = tuple(sorted(operands) if OPS[name].commutative else operands)
        return tuple(
            self.add(Node(name, result.type, (number, *attrs), ordered))
            for number, result in enumerate(op.results)
        )

    def negation(self, of: Term) -> Term:
        node = self.nodes[of]
        if node.name == "const":
            return self.boolean(not node.attrs[0])
        return node.operands[0] if node.name == "not" else self.add(Node("not", BOOL, (), (of,)))

    def less(self, one: Term, other: Term) -> Term:
        return self.add(Node("lt", BOOL, (), (one, other)))

    def _comparison(self, name: str, a: Term, b: Term) -> Term | None:
        if name in ("lt", "gt"):
            return self.less(a, b) if name == "lt" else self.less(b, a)
        if name in ("ge", "le"):
            return self.negation(self.less(a, b) if name == "ge" else self.less(b, a))
        if name in ("eq", "ne"):
            equal = self.add(Node("eq", BOOL, (), tuple(sorted((a, b)))))
            return equal if name == "eq" else self.negation(equal)
        return None

    def _integer(self, op: Op, dtype: DataType, operands: Sequence[Term]) -> Term | None:
        """Term of an op that is a sum, or a product with a constant."""
        if op.name == "const":
            return self.number(op.attrs["value"], dtype)
        forms = [self.linear(each) for each in operands] if op.name in ("add", "sub", "mul", "neg") else []
        if op.name == "add":
            return self.sum(dtype, (forms[0], 1), (forms[1], 1))
        if op.name == "sub":
            return self.sum(dtype, (forms[0], 1), (forms[1], -1))
        if op.name == "neg":
            return self.sum(dtype, (forms[0], -1))
        if op.name == "mul":
            for form, factor in (forms, forms[::-1]):
                if not factor.parts:
                    return self.sum(dtype, (form, factor.const))
        return None

    # --- sums -----------------------------------------------------------------------------------

    def number(self, value: int, dtype: DataType) -> Term:
        return self.sum(dtype, (Linear({}, value), 1))

    def linear(self, of: Term) -> Linear:
        node = self.nodes[of]
        if node.name == "linear":
            return Linear(dict(zip(node.operands, node.attrs[1:], strict=True)), node.attrs[0])
        return Linear({of: 1}, 0)

    def sum(self, dtype: DataType, *forms: tuple[Linear, int]) -> Term:
        """Sum of forms, each with a factor."""
        total = self.combined(dtype, *forms)
        if total.const == 0 and [*total.parts.values()] == [1]:
            return next(iter(total.parts))
        return self.add(Node("linear", dtype, (total.const, *total.parts.values()), tuple(total.parts)))

    def combined(self, dtype: DataType, *forms: tuple[Linear, int]) -> Linear:
        const, parts = 0, dict[Term, int]()
        for form, factor in forms:
            const += factor * form.const
            for part, times in form.parts.items():
                parts[part] = parts.get(part, 0) + factor * times
        bits = dtype.bits or 1
        factors = {part: centred(times, bits) for part, times in sorted(parts.items())}
        low, _ = type_range(dtype)
        const = (const - low) % (1 << bits) + low
        return Linear({part: times for part, times in factors.items() if times}, const)

    def moved(self, of: Term, distance: int) -> Term:
        """A term plus a number."""
        return self.sum(self.dtype(of), (self.linear(of), 1), (Linear({}, distance), 1))

    def difference(self, one: Term, other: Term) -> Linear:
        """`one` minus `other`."""
        return self.combined(self.dtype(one), (self.linear(one), 1), (self.linear(other), -1))

    # --- for z3 -----------------------------------------------------------------------------------

    def to_z3(self, of: Term) -> Any:
        """Bit-vector of an integer term, or bool of a condition."""
        if of not in self._z3:
            self._z3[of] = self._translated(of)
        return self._z3[of]

    def distance(self, lower: Term, upper: Term) -> z3.BitVecRef:
        """Distance of one above the other, as an unsigned number of their bits."""
        return self.to_z3(upper) - self.to_z3(lower)

    def _translated(self, of: Term) -> z3.ExprRef:
        node = self.nodes[of]
        if self._depths[of] <= MAX_DEPTH and all(_is_known(self.dtype(each)) for each in node.operands):
            operands = [self.to_z3(each) for each in node.operands]
            if node.name == "const" and node.dtype is BOOL:
                return z3.BoolVal(node.attrs[0])
            if node.name == "linear":
                total = literal(node.attrs[0], node.dtype)
                for part, times in zip(operands, node.attrs[1:], strict=True):
                    total = total + (part if times == 1 else times * part)
                return total
            if node.name == "room":
                bits = self.dtype(node.operands[0]).bits or 1
                return beyond(self.distance(*node.operands), node.attrs[0], bits)
            if node.name in TRANSPARENT and _is_known(node.dtype):
                source = self.dtype(node.operands[0])
                dtype = source if node.name in ("lt", "eq") else node.dtype
                name = "select" if node.name == "choice" else node.name
                return term(name, dtype, operands, NO_ATTRS, source)
        return variable(f"t{of}", node.dtype)


def beyond(distance: z3.BitVecRef, least: int, bits: int) -> z3.BoolRef:
    """Whether a distance is above a number, which its type need not hold."""
    return z3.UGT(distance, least) if least < 1 << bits else z3.BoolVal(False)


def centred(value: int, bits: int) -> int:
    """The number of the same bits that is nearest to 0."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def _is_known(dtype: DataType) -> bool:
    return dtype is BOOL or _is_integer(dtype)


def _is_integer(dtype: DataType) -> bool:
    return dtype.is_int and not dtype.is_vec
